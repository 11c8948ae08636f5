/* What a net will need before it is made: memory, sites. */
#include "kernels/maps/map_limit.h"
#include "models/engine/node.h"

#include <math.h>

static double rows_bytes(struct rows rows) {
    return (double)array_bytes(rows.array, rows.count);
}

/* Whether a program has functions with kinks or steps by itself, whatever the settings. */
static bool has_kinks(const struct program *p) {
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].op->jumps && p->node[i].op->jumps(p, i))
            return true;
    return false;
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

/* Rows that the basis of a limit reaches where a matrix meets so many of each token. */
static double rank_bound(const struct net *net, const struct population *population,
                         double of_token, double evaluations) {
    const struct net_setup *setup = &net->setup;
    double rows = net->batch.rows * evaluations,
           most = POPULATION_RANK_LIMIT * (double)population->sites;
    if (network_compresses(setup->network) && !has_kinks(net->program))
        rows = fmin(rows,
                    20.0 * net->setup.data.inputs * setup->data.n * -log10(net_tolerance(setup)));
    return fmin(rows * of_token, most);
}

struct map_costs net_map_costs(const struct net *net, const struct map *map, double evaluations) {
    const struct net_setup *setup = &net->setup;
    double of_token = rows_of_token(net, map);
    return (struct map_costs){.learned =
                                  of_token * net->batch.rows * evaluations * setup->training.stages,
                              .q = rank_bound(net, map->declared.source, of_token, evaluations),
                              .p = rank_bound(net, map->declared.target, of_token, evaluations)};
}

/* What the optimizer remembers of each entry, and of a limit the entries themselves where they
 * learn one by one; else, of a limit, what it remembers of Z. */
static double moment_bytes(const struct net *net, const struct parameter *p, double evaluations) {
    const struct net_setup *setup = &net->setup;
    const struct optimizer *optimizer = net_optimizer(setup, p->map ? p->name : NULL);
    bool by_entry = optimizer_by_entry(optimizer);
    int memories = optimizer_memories(optimizer);
    if (!memories)
        return 0;
    if (p->map && !setup->N && !by_entry) {
        const struct map_declaration *map = &p->map->declared;
        const struct population *on = map_learns_backward(map) ? map->source : map->target;
        return 1.5 * population_bytes(on, 1) *
               rank_bound(net, on, rows_of_token(net, p->map), evaluations);
    }
    if (p->map)
        return (memories + (by_entry && !setup->N)) * map_entries_bytes(p->map);
    return p->thin ? memories * rows_bytes(array_all(&p->thin->W)) : 0;
}

/* The normals in Z once more; coefficients [T P][rank] of both sides, and while a response is
 * solved for its matrix of that size, the solution and LAPACK's workspace, neither of them larger.
 */
static double response_bytes(const struct net *net, const struct map *map, int T) {
    const struct population *s = map->declared.source, *t = map->declared.target;
    double of_token = rows_of_token(net, map), rows = (double)net->batch.rows * of_token * T,
           own = rank_bound(net, t, of_token, T), rank = fmax(rank_bound(net, s, of_token, T), own);
    return map->declared.a0 == 0
               ? 0
               : 1.5 * population_bytes(t, 1) * own + 5 * sizeof(double) * rows * rank;
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
                        : 1.5 * rank * population_bytes(map->declared.target, 1);
}

static double map_bytes(const struct net *net, const struct map *map, double evaluations, int T) {
    const struct net_setup *setup = &net->setup;
    struct map_costs costs = net_map_costs(net, map, evaluations);
    if (setup->field)
        return field_bytes(map, setup->field);
    return net_map_kind(net, &map->declared)->bytes(map, &costs) +
           (setup->measure.responses ? response_bytes(net, map, T) : 0) +
           (setup->measure.check || program_lists(setup->measure.singular_of, map->declared.name)
                ? start_bytes(net, map, costs.q)
                : 0);
}

/* Twice the largest of what an optimizer of matrices moves, while it does: a map, or several that
 * are one matrix. */
static double scratch_bytes(const struct net *net, double evaluations) {
    double most = 0;
    for (int i = 0; i < net->parameters.count; i++) {
        const struct parameter *p = &net->parameters.item[i];
        const struct optimizer *optimizer = net_optimizer(&net->setup, p->map ? p->name : NULL);
        double all = 0;
        for (int k = i; k < net->parameters.count && optimizer && optimizer->matrices; k++)
            if (net_moved_together(p, &net->parameters.item[k]))
                all += 2 * moment_bytes(net, &net->parameters.item[k], evaluations);
        most = fmax(most, all);
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
    if (setup->data.inputs + setup->data.tests > setup->data.P ||
        (setup->measure.apart && net->output.loss_in_cotangent))
        total *= 2; /* put aside in a look, or while gradients are found apart */
    for (int i = 0; i < net->thins.count; i++) {
        bool matched = !setup->N || setup->limit.balanced; /* waits, is projected, is in the span */
        const struct array *W = &net->thins.item[i]->W;
        double more = matched ? 3 * sizeof(double) / (double)W->backend->bytes : 0;
        total += (1 + more) * rows_bytes(array_all(W));
    }
    for (int i = 0; i < net->maps.count; i++) {
        TRY(base_poll(err, doing));
        total += map_bytes(net, net->maps.item[i], evaluations, T);
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
    struct net net;
    struct net_setup shapes = *setup;
    shapes.declare_only = true;
    int code = net_init(&net, &shapes, err);
    *bytes = 0;
    code = code ? code : all_bytes(&net, evaluations, T, bytes, err);
    net_free(&net);
    return code;
}

size_t net_sampled_sites(const struct net *net, int k) {
    const struct population *population = net->populations.item[k];
    for (int i = 0; i < net->program->nodes && !population->draws.nodes; i++)
        if (net->program->node[i].on == population && !net->program->node[i].op->linear)
            return population->units ? population->units->sites : population->sites;
    return 0;
}
