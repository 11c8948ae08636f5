/* What a net will need before it is made: memory, sites. */
#include "kernels/maps/map_limit.h"
#include "kernels/maps/map_response.h"
#include "models/engine/node.h"

static double rows_bytes(struct rows rows) {
    return (double)array_bytes(rows.array, rows.count);
}

/* Whether a program has functions with kinks or steps by itself, whatever the settings; among those
 * of one site alone (as relu), or masks, too. */
static bool has_kinks(const struct program *p, bool masks) {
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].op->jumps && p->node[i].op->jumps(p, i) &&
            (masks || (p->node[i].op->traits & OP_FUNCTION)))
            return true;
    return false;
}

static bool is_smooth(const struct net *net) {
    return network_compresses(net->setup.network) && !has_kinks(net->program, true);
}

/* Rows of a token that a matrix meets in an evaluation: those of all its uses, and of pairs of
 * tokens one for each other token. */
static double rows_of_token(const struct net *net, const struct map *map) {
    int most = 1;
    for (int i = 0; i < net->program->nodes; i++)
        if (net->program->node[i].matrix.map == map &&
            net->program->node[i].count > most * net->batch.rows)
            most = net->program->node[i].count / net->batch.rows;
    return (double)most * map->declared.uses;
}

/* The share of the rows that a limit meets which are new to a basis. Smooth functions of the same
 * inputs bring rows near those before, the more the longer the run and the larger the tolerance;
 * rows of tokens are near one another, too. Masks make half of the rows new, relu all. The
 * numbers are those of the limits of data/ and examples/. */
static double share_of_new_rows(const struct net *net, double evaluations) {
    const struct net_setup *setup = &net->setup;
    if (setup->data.inputs > setup->data.P || has_kinks(net->program, false))
        return 1;
    if (!is_smooth(net))
        return 0.75;
    double digits = -log10(net_tolerance(setup));
    return (setup->data.n > 1 ? 2. / 3 : 1) / (1 + evaluations / (5 * digits * digits));
}

/* Rows that the basis of a limit comes to where a matrix meets `rows` in an evaluation, and `all`
 * of the whole training set. */
static double rank_expected(const struct net *net, const struct population *population, double rows,
                            double all, double evaluations) {
    double most = POPULATION_RANK_LIMIT * (double)population->sites,
           met = rows * evaluations * share_of_new_rows(net, evaluations);
    if (is_smooth(net))
        met = fmin(met, 20.0 * all * -log10(net_tolerance(&net->setup)));
    return fmin(met, most);
}

/* Where it meets a row of each token. */
static double rank_of_tokens(const struct net *net, const struct population *population,
                             double of_token, double evaluations) {
    return rank_expected(net, population, of_token * net->batch.rows,
                         of_token * net->setup.data.inputs * net->setup.data.n, evaluations);
}

/* The rank of what a matrix reads: rows that do not follow from what learns are the same at all
 * times, unless there is noise, which jumps. */
static double rank_forward(const struct net *net, const struct map *map, double of_token,
                           double evaluations) {
    bool moves = has_kinks(net->program, true);
    FOR_EACH_OF (const struct node, v, net->program->node, net->program->nodes) {
        moves = moves || (v->matrix.map == map && net->program->node[v->argument[0]].plan.moves);
    }
    double most = rank_of_tokens(net, map->declared.source, of_token, evaluations);
    return moves ? most : fmin(most, of_token * net->setup.data.inputs * net->setup.data.n);
}

/* The rank of cotangents, whose basis is found only where something below learns and W(0)^T, or
 * what is learned backward, is met; a single row may serve all inputs. */
static double rank_backward(const struct net *net, const struct map *map, double of_token,
                            double evaluations) {
    bool due = false, single = true;
    FOR_EACH_OF (const struct node, v, net->program->node, net->program->nodes) {
        bool mine = v->matrix.map == map;
        due = due || (mine && v->plan.part[0] >= 0);
        const struct node *g = node_cotangent(net->program, v);
        single = single && (!mine || !g || g->plan.differ <= 1);
    }
    double uses = map->declared.uses;
    bool met = map->numbers.fr != 0 || map_learns_backward(&map->declared);
    return !due || !met ? 0
           : single     ? rank_expected(net, map->declared.target, uses, uses, evaluations)
                        : rank_of_tokens(net, map->declared.target, of_token, evaluations);
}

const struct map *net_leader(const struct net *net, const struct node *v) {
    const struct map_declaration *declared = &v->matrix.map->declared;
    bool leads = declared->uses == 1 && net_map_kind(net, declared) == &map_limit;
    for (const struct node *u = net->program->node; u < v && leads; u++)
        if (u->matrix.map && u->argument[0] == v->argument[0] &&
            u->matrix.map->declared.uses == 1 &&
            net_map_kind(net, &u->matrix.map->declared) == &map_limit)
            return u->matrix.map;
    return NULL;
}

static bool follows_map(const struct net *net, const struct map *map) {
    for (int i = 0; i < net->program->nodes; i++)
        if (net->program->node[i].matrix.map == map)
            return net_leader(net, &net->program->node[i]);
    return false;
}

struct map_costs net_map_costs(const struct net *net, const struct map *map, double evaluations) {
    double of_token = rows_of_token(net, map);
    return (struct map_costs){.learned = of_token * net->batch.rows * evaluations *
                                         net->setup.training.stages,
                              .q = rank_forward(net, map, of_token, evaluations),
                              .p = rank_backward(net, map, of_token, evaluations),
                              .follows = follows_map(net, map)};
}

/* What the optimizer remembers of each entry, and of a limit the entries themselves where they
 * learn one by one; else, of a limit, what it remembers of Z. */
static double moment_bytes(const struct net *net, const struct parameter *p, double evaluations) {
    const struct net_setup *setup = &net->setup;
    const struct optimizer *optimizer = net_optimizer(setup, p->map ? p->name : NULL);
    bool by_entry = optimizer_by_entry(optimizer);
    int memories = optimizer_memories(optimizer);
    if (!memories || (p->map && setup->field))
        return 0;
    if (p->map && !setup->N && !by_entry) {
        const struct map_declaration *map = &p->map->declared;
        const struct population *on = map_learns_backward(map) ? map->source : map->target;
        return population_grown_bytes(
            on, rank_of_tokens(net, on, rows_of_token(net, p->map), evaluations));
    }
    if (p->map)
        return (memories + (by_entry && !setup->N)) * map_entries_bytes(p->map);
    return p->thin ? memories * rows_bytes(array_all(&p->thin->W)) : 0;
}

/* Windows of rows that differ on companions, with their probes; and entries that have learned from
 * the companions of target sites, with what the optimizer remembers of them; or what a matrix that
 * moves as a whole has learned of each row, with the same, and once more while it moves. */
static double response_bytes(const struct net *net, const struct map *map, double evaluations) {
    const struct optimizer *optimizer = net_optimizer(&net->setup, map->declared.name);
    int rows = (int)rows_of_token(net, map) * net->batch.rows,
        copies = 1 + optimizer_memories(optimizer);
    double entries =
        population_bytes(map->declared.target, 1) * (double)map->declared.source->sites;
    double learned = population_main_bytes(
        map_learns_backward(&map->declared) ? map->declared.source : map->declared.target,
        evaluations * rows);
    return map_response_bytes(map, evaluations, rows, map->declared.for_all_inputs ? 1 : rows) +
           (optimizer_by_entry(optimizer) ? copies * entries : 0) +
           (optimizer && optimizer->matrices ? (1 + copies) * learned : 0);
}

/* y, and where entries are explicit x; none of these where one evaluation is used up at once. */
static double stage_bytes(const struct net *net, const struct parameter *p) {
    if (p->map && net_keeps_rows(net, p->map) && net->setup.training.stages == 1)
        return 0;
    double bytes = p->y.array ? rows_bytes(p->y) : 0;
    if (p->map && net_keeps_rows(net, p->map))
        bytes += population_bytes(p->map->declared.source, p->rows);
    return bytes;
}

/* W(0): a copy, or the normals in Z once more. */
static double start_bytes(const struct net *net, const struct map *map, double rank) {
    if (map->declared.a0 == 0)
        return 0;
    return net->setup.N ? map_entries_bytes(map)
                        : population_main_bytes(map->declared.target, rank);
}

static double map_bytes(const struct net *net, const struct map *map, double evaluations) {
    const struct net_setup *setup = &net->setup;
    struct map_costs costs = net_map_costs(net, map, evaluations);
    if (setup->field)
        return field_bytes(map, setup->field);
    const struct map_kind *kind = net_map_kind(net, &map->declared);
    return (kind->bytes ? kind->bytes(map, &costs) : map_entries_bytes(map)) +
           (setup->measure.shift > 0 ? response_bytes(net, map, evaluations) : 0) +
           (setup->measure.check || program_lists(setup->measure.singular_of, map->declared.name)
                ? start_bytes(net, map, costs.q)
                : 0);
}

/* Whether maps or thin matrices draw normals on a population. */
static bool is_drawn_on(const struct net *net, const struct population *population) {
    for (int i = 0; i < net->maps.count; i++) {
        const struct map *map = net->maps.item[i];
        if ((map->declared.source == population && map->numbers.fr != 0) ||
            (map->declared.target == population && map->numbers.fg != 0))
            return true;
    }
    for (int i = 0; i < net->thins.count; i++)
        if (net->thins.item[i]->population == population)
            return true;
    return false;
}

/* Rows that one side of a map puts into the span of a population: its basis, and the normals of the
 * other's. Few maps touch a population, so that the costs of all others are not asked for. */
static double span_rows(const struct net *net, const struct map *map, bool source,
                        const struct population *population, double evaluations) {
    const struct population *side = source ? map->declared.source : map->declared.target;
    if ((side->units ? side->units : side) != population)
        return 0;
    struct map_costs costs = net_map_costs(net, map, evaluations);
    double normals =
               source ? (map->numbers.fr != 0 ? costs.p : 0) : (map->numbers.fg != 0 ? costs.q : 0),
           basis = source ? (costs.follows ? 0 : costs.q) : costs.p;
    return normals + (is_drawn_on(net, side) ? basis : 0);
}

/* Everything that was drawn or met on a population, once, while there is room. */
static double span_bytes(const struct net *net, const struct population *population,
                         double evaluations) {
    double rows = 0;
    for (int i = 0; i < net->maps.count && !net->setup.field && !net->setup.N; i++)
        rows += span_rows(net, net->maps.item[i], true, population, evaluations) +
                span_rows(net, net->maps.item[i], false, population, evaluations);
    return population_main_bytes(population,
                                 fmin(rows, POPULATION_ROOM * (double)population->sites));
}

/* Rows of a matrix that an optimizer of matrices moves at once: those of target sites, or of
 * directions of a limit, or of one expert. */
static double moved_rows(const struct net *net, const struct parameter *p, double evaluations) {
    const struct map_declaration *map = &p->map->declared;
    const struct population *on = map_learns_backward(map) ? map->source : map->target;
    int own = map_each(map, true) + map_each(map, false); /* one of them is 0 */
    double rows = net->setup.N ? (double)map->target->sites
                               : rank_of_tokens(net, on, rows_of_token(net, p->map), evaluations);
    return own ? fmin(rows, own) : rows;
}

/* While an optimizer of matrices moves a map, or several that are one matrix, this takes twice what
 * it remembers of them, and two matrices [rows][rows]: the largest of all. */
static double scratch_bytes(const struct net *net, double evaluations) {
    double most = 0;
    for (int i = 0; i < net->parameters.count; i++) {
        const struct parameter *p = &net->parameters.item[i];
        const struct optimizer *optimizer = net_optimizer(&net->setup, p->map ? p->name : NULL);
        double all = 0, rows = 0;
        for (int k = i; k < net->parameters.count && optimizer && optimizer->matrices; k++) {
            const struct parameter *other = &net->parameters.item[k];
            if (!net_moved_together(p, other))
                continue;
            all += 2 * moment_bytes(net, other, evaluations);
            if (k == i || net_stacked(net, p, other) == (net->setup.N > 0))
                rows += moved_rows(net, other, evaluations);
        }
        most = fmax(most, all + 2 * sizeof(double) * rows * rows);
    }
    return most;
}

/* Each map and parameter looks through all operations, so that a signal is heard between them. */
static int all_bytes(const struct net *net, double evaluations, int T, double *bytes,
                     struct err *err) {
    static const char doing[] = "memory is estimated";
    const struct net_setup *setup = &net->setup;
    double total = 0;
    for (int i = 0; i < net->arrays.count; i++)
        total += rows_bytes(array_all(net->arrays.item[i]));
    total += net->host_bytes;
    if (setup->data.inputs + setup->data.tests > setup->data.P ||
        (setup->measure.apart && net->output.loss_in_cotangent))
        total *= 2; /* put aside in a prediction, or while gradients are found apart */
    for (int i = 0; i < net->thins.count; i++) {
        bool matched = !setup->N || setup->limit.balanced; /* waits, is projected, is in the span */
        const struct array *W = &net->thins.item[i]->W;
        double more = matched ? 3 * sizeof(double) / (double)W->backend->bytes : 0;
        total += (1 + more) * rows_bytes(array_all(W));
    }
    for (int i = 0; i < net->maps.count; i++) {
        TRY(base_poll(err, doing));
        total += map_bytes(net, net->maps.item[i], evaluations);
    }
    for (int i = 0; i < net->populations.count; i++) {
        TRY(base_poll(err, doing));
        total += span_bytes(net, net->populations.item[i], evaluations);
    }
    for (int i = 0; i < net->parameters.count; i++) {
        TRY(base_poll(err, doing));
        total += setup->training.stages * stage_bytes(net, &net->parameters.item[i]) +
                 moment_bytes(net, &net->parameters.item[i], evaluations);
    }
    total += scratch_bytes(net, evaluations);
    for (int k = 0; k < net->kernels.count; k++)
        total += 1.5 * T * rows_bytes(net->kernels.item[k].rows);
    *bytes = total;
    return CODE_OK;
}

int net_bytes(const struct net_setup *setup, double evaluations, int T, double *bytes,
              struct err *err) {
    FREED(net_free) struct net net = {0};
    *bytes = 0;
    TRY(net_declare(&net, setup, err));
    return all_bytes(&net, evaluations, T, bytes, err);
}

size_t net_sampled_sites(const struct net *net, int k) {
    const struct population *population = net->populations.item[k];
    for (int i = 0; i < net->program->nodes && !population->draws.nodes; i++)
        if (net->program->node[i].on == population &&
            !(net->program->node[i].op->traits & OP_LINEAR))
            return population->units ? population->units->sites : population->sites;
    return 0;
}
