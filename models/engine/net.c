#include "kernels/maps/map_limit.h"
#include "kernels/maps/polar.h"
#include "models/engine/node.h"

#include <limits.h>

/* What is counted by int: rows of an evaluation, and its outputs. */
static int check_counts(const struct data_setup *data, int n, int C, struct err *err) {
    double rows = (double)data->P * n, outputs = (data->per_token ? rows : data->P) * C;
    const char *less = n > 1 ? ", fewer tokens" : "";
    if (fmax(rows, outputs) <= INT_MAX)
        return CODE_OK;
    return err_set(err, CODE_INPUT,
                   "%d inputs of %d tokens with %d outputs make %.3g numbers in one evaluation "
                   "(%.3g GB), and at most %d are possible: take fewer inputs%s, or minibatches "
                   "([training] batch)",
                   data->P, n, C, fmax(rows, outputs), 8e-9 * fmax(rows, outputs), INT_MAX, less);
}

/* random: whether its program is known to select by fluctuations. */
static int make_net(struct net *net, const struct net_setup *setup, bool random, struct err *err) {
    *net = (struct net){.setup = *setup, .gates.random = random};
    int P = setup->data.P, n = setup->data.n ? setup->data.n : 1,
        C = setup->data.C ? setup->data.C : 1;
    TRY(check_counts(&setup->data, n, C, err));
    net->setup.data.n = n;
    net->setup.data.C = C;
    if (net->setup.measure.shift > 0) {
        companions_init(&net->companions, setup->backend);
        net->setup.backend = &net->companions.table;
    }
    net->batch.rows = P * n;
    net->batch.output_rows = setup->data.per_token ? net->batch.rows : P;
    net->output.loss_in_cotangent = n > 1 || C > 1;
    net->model = setup->model ? setup->model : setup->network->model;
    if (!setup->data.inputs)
        net->setup.data.inputs = P;
    TRY(base_alloc(&net->batch.index, (size_t)P, sizeof *net->batch.index, err));
    for (int mu = 0; mu < P; mu++)
        net->batch.index[mu] = mu;
    size_t rows = (size_t)net->batch.rows, outputs = (size_t)(net->batch.output_rows * C);
    TRY(net_vector(net, rows, (size_t)setup->data.K, &net->batch.A, err));
    TRY(net_vector(net, rows, (size_t)setup->data.test_directions, &net->batch.A_rest, err));
    if (setup->data.token)
        TRY(net_reserve(net, &net->batch.token, rows, 1, sizeof *net->batch.token, err));
    TRY(net_vector(net, outputs, 1, &net->output.Delta, err));
    TRY(net_vector(net, outputs, 1, &net->place.order_difference, err));
    TRY(net_vector(net, rows, (size_t)n, &net->output.ones, err));
    TRY(net_vector(net, (size_t)P, MAP_STAGES, &net->place.stage_Delta, err));
    for (size_t k = 0; k < rows * (size_t)n && !setup->declare_only; k++)
        net->output.ones[k] = 1;
    return program_build(net, err);
}

/* That selections begin with ties is seen when all is written, and decides how it is drawn. */
int net_init(struct net *net, const struct net_setup *setup, struct err *err) {
    struct net_setup less = *setup;
    TRY(make_net(net, setup, false, err));
    bool tied = net->gates.tied, unanswered = less.measure.shift > 0 && net_no_responses(net);
    if (unanswered)
        less.measure.shift = 0;
    if (!tied && !unanswered)
        return CODE_OK;
    net_free(net);
    return make_net(net, &less, tied, err);
}

int net_declare(struct net *net, const struct net_setup *setup, struct err *err) {
    struct net_setup shapes = *setup;
    shapes.declare_only = true;
    return net_init(net, &shapes, err);
}

int net_shift(const struct net_setup *setup, double *shift, struct err *err) {
    struct net net;
    int code = net_declare(&net, setup, err);
    *shift = code ? 0 : net.setup.measure.shift;
    net_free(&net);
    return code;
}

/* The objects of a list, of which the last is NULL where memory ran out. */
#define FREE_ALL(list, free_one)                                                                   \
    for (int i = 0; i < (list).count && (list).item[i]; free((list).item[i++]))                    \
    free_one((list).item[i])

void net_free(struct net *net) {
    if (net->setup.backend) /* numbers that are to come need their memory */
        backend_arrive(net->setup.backend, NULL, 0);
    net_drop_stages(net);
    net_drop_moments(net);
    FREE_ALL(net->arrays, array_free);
    FREE_ALL(net->maps, map_free);
    FREE_ALL(net->thins, thin_free);
    FREE_ALL(net->populations, population_free);
    for (int i = 0; i < net->vectors.count; i++)
        free(net->vectors.item[i].values);
    for (int i = 0; i < net->origins.count; i++)
        free(net->origins.item[i].all);
    program_free(net->program);
    void *const lists[] = {
        net->arrays.item,     net->maps.item,       net->thins.item,      net->populations.item,
        net->vectors.item,    net->origins.item,    net->kernels.item,    net->numbers.item,
        net->parameters.item, net->kept.item,       net->batch.index,     net->matrices.item,
        net->batch.token,     net->field_rows.item, net->cross_rows.item, net->routers.item};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        free(lists[k]);
    *net = (struct net){0};
}

int net_input_rows(const struct net *net, const struct parameter *p) {
    int uses = p->map ? p->map->declared.uses : p->thin && p->thin->A ? p->thin->uses : 1;
    return p->rows / uses / net->setup.data.P;
}

int net_input(const struct net *net, const struct parameter *p, int i) {
    return i / net_input_rows(net, p) % net->setup.data.P;
}

int net_most_rows(const struct net *net) {
    int most = net->batch.rows;
    for (int k = 0; k < net->parameters.count; k++)
        most = net->parameters.item[k].rows > most ? net->parameters.item[k].rows : most;
    return most;
}

const struct optimizer *net_optimizer(const struct net_setup *setup, const char *map) {
    bool matrices = setup->training.optimizer && setup->training.optimizer->matrices;
    if (!matrices || (map && !program_lists(setup->training.rest, map)))
        return setup->training.optimizer;
    return setup->training.rest_optimizer;
}

/* A response follows Muon's step of one map, not of several that move as one. */
const char *net_no_responses(const struct net *net) {
    FOR_EACH (const struct parameter, p, net->parameters) {
        const struct optimizer *optimizer = p->map ? net_optimizer(&net->setup, p->name) : NULL;
        if (optimizer && optimizer->matrices && p->whole)
            return "Muon moves several maps as one matrix, and what that learned from a single "
                   "site is not followed; heads that it moves apart (muon_heads = each) have "
                   "responses";
    }
    return NULL;
}

bool net_by_entry(const struct net_setup *setup) {
    return optimizer_by_entry(setup->training.optimizer) ||
           optimizer_by_entry(net_optimizer(setup, NULL));
}

double net_tolerance(const struct net_setup *setup) {
    bool matrices = setup->training.optimizer && setup->training.optimizer->matrices;
    return matrices ? setup->limit.tolerance / POLAR_GAIN : setup->limit.tolerance;
}

bool net_keeps_rows(const struct net *net, const struct map *map) {
    const struct map_declaration *declared = &map->declared;
    return net->setup.N || optimizer_by_entry(net_optimizer(&net->setup, declared->name)) ||
           map_learns_backward(declared);
}

const struct map_kind *net_map_kind(const struct net *net, const struct map_declaration *declared) {
    const struct net_setup *setup = &net->setup;
    struct map_choice choice = {setup->N > 0, optimizer_is_plain(setup->training.optimizer),
                                optimizer_by_entry(net_optimizer(setup, declared->name)),
                                setup->field};
    return map_choose(&choice, declared);
}

uint32_t net_first_pair(const struct net_setup *setup, size_t sites) {
    return setup->limit.half_number == 2 ? (uint32_t)((sites + 1) / 2) : 0;
}

struct rng_stream net_stream(const struct net *net, enum purpose purpose, int owner) {
    return (struct rng_stream){.seed = net->setup.seed,
                               .replicate = (uint32_t)net->setup.replicate,
                               .width = (uint32_t)net->setup.N,
                               .owner = (uint32_t)owner,
                               .purpose = purpose,
                               .draw = (uint32_t)net->setup.sweep << 20};
}

/* Balanced draws: what is drawn later on other neurons of the same number is orthogonal too. */
static int absorb_columns(const struct net *net, const struct thin *thin, struct err *err) {
    const struct population *mine = thin->population;
    for (int i = 0; i < net->populations.count && net->setup.N && net->setup.limit.balanced; i++) {
        struct population *other = net->populations.item[i];
        if (other != mine && other->sites == mine->sites && other->group == mine->group)
            TRY(population_absorb(other, array_all(&thin->W), err));
    }
    return CODE_OK;
}

int net_thin(struct net *net, struct population *population, int K, double amplitude, bool iid,
             struct thin *thin, struct err *err) {
    bool matched = population->draws.matched;
    thin->decay = 1;
    if (net->setup.declare_only) {
        thin->W = (struct array){population->backend, .sites = population->sites,
                                 .group = population->group, .rows = K};
        return CODE_OK;
    }
    population->draws.matched = matched && !iid;
    int code = thin_init(thin, population, K, amplitude, err);
    population->draws.matched = matched;
    return code ? code : absorb_columns(net, thin, err);
}

int net_array(struct net *net, struct array like, int count, struct rows *rows, struct err *err) {
    struct array **added;
    TRY(base_grow(&added, NET_END(net->arrays), err));
    TRY(base_alloc(added, 1, sizeof **added, err));
    **added = like;
    (*added)->rows = count;
    if (!net->setup.declare_only)
        TRY(array_init(*added, like.backend, like.sites, like.group, count, err));
    *rows = array_all(*added);
    if (like.backend->counted && !net->setup.declare_only)
        rows_zero(*rows); /* numbers that nobody reads are written to the state of a run, too */
    return CODE_OK;
}

int net_rows(struct net *net, const struct population *population, int count, struct rows *rows,
             struct err *err) {
    return net_array(net, population_array(population), count, rows, err);
}

int net_allow(struct net *net, size_t bytes, struct err *err) {
    struct program *p = net->program;
    if (!p || !p->most_bytes)
        return CODE_OK;
    if (bytes > p->bytes_left)
        return err_set(err, CODE_INPUT,
                       "a network has more than %zu million numbers of its inputs and constants: "
                       "take fewer inputs, or fewer numbers of each",
                       p->most_bytes / sizeof(double) / 1000000);
    p->bytes_left -= bytes;
    return CODE_OK;
}

int net_spend(struct net *net, size_t bytes, struct err *err) {
    net->host_bytes += (double)bytes;
    return net_allow(net, bytes, err);
}

int net_reserve(struct net *net, void *out, size_t count, size_t each, size_t size,
                struct err *err) {
    size_t all = base_product(count, each);
    TRY(net_spend(net, base_product(all, size), err));
    return base_alloc(out, net->setup.declare_only ? 0 : all, size, err);
}

int net_vector(struct net *net, size_t count, size_t each, double **vector, struct err *err) {
    struct vector *added;
    TRY(base_grow(&added, NET_END(net->vectors), err));
    TRY(net_reserve(net, &added->values, count, each, sizeof **vector, err));
    added->length = base_product(count, each);
    *vector = added->values;
    return CODE_OK;
}

int net_outputs(const struct net *net) {
    return net->batch.output_rows / net->setup.data.P * net->setup.data.C;
}

/* The mean loss of these outputs, and Delta; f and Delta NULL: that of outputs that are 0. */
static double mean_loss(const struct net *net, const struct loss *loss, const double *y,
                        const double *f, double *Delta) {
    int C = net->setup.data.C, output_rows = net->batch.output_rows,
        each = output_rows / net->setup.data.P;
    double zero[C], space[C], ignored[C], sum = 0;
    memset(zero, 0, sizeof zero);
    if (f && loss->begin)
        loss->begin(output_rows, C, f, Delta);
    for (ptrdiff_t i = 0; i < output_rows; i++) {
        size_t input = (size_t)net->batch.index[(int)i / each],
               asked = input * (size_t)each + (size_t)((int)i % each);
        const double *target = net_targets(&net->setup.data, y, asked, space);
        sum += (f ? loss_begun : loss_weighted)(loss, net_weight(&net->setup.data, input), C,
                                                f ? f + i * C : zero, target,
                                                f ? Delta + i * C : ignored) /
               output_rows;
    }
    return sum;
}

/* Loss and Delta. The loss of zeros is of use only beside one that is beyond its scale. */
static void measure_loss(struct net *net, const struct loss *loss, const double *y) {
    struct net_output *output = &net->output;
    int count = net->batch.output_rows * net->setup.data.C,
        each = net->batch.output_rows / net->setup.data.P;
    double scale = net->batch.started ? output->loss_scale : 1;
    output->loss = mean_loss(net, loss, y, output->f, output->Delta);
    if (!net->batch.started || output->loss > scale) {
        scale = fmax(scale, mean_loss(net, loss, y, NULL, NULL));
        scale = net->batch.started ? scale : fmax(scale, output->loss);
    }
    output->loss_scale = scale;
    for (int k = 0; k < count && each > 1; k++)
        output->Delta[k] /= each;
}

bool net_runs_away(const struct net *net) {
    return !(net->output.loss <= NET_RUNAWAY * net->output.loss_scale);
}

static int find_loss(struct net *net, const struct loss *loss, const double *y, struct err *err) {
    TRY(program_arrive(net, err));
    measure_loss(net, loss, y);
    net->output.penalty = program_penalties(net);
    return isfinite(net->output.loss) && !isnan(net->output.penalty)
               ? CODE_OK
               : err_overflow(err, "the loss is not finite");
}

/* Where no cotangent has the error of its input, the outputs come with what the backward pass waits
 * for. A loss that is not finite is what is told of, whatever follows from it. */
int net_evaluate(struct net *net, const struct loss *loss, const double *y, struct err *err) {
    const struct program *p = net->program;
    bool behind = !net->output.loss_in_cotangent && !p->node[p->read_out].matrix.thin->A;
    net_load_batch(net);
    TRY(program_ask_ahead(net, err));
    TRY(program_forward(net, err));
    if (net->ask)
        TRY(net->ask(net->asks_for, net, err));
    if (!behind)
        TRY(find_loss(net, loss, y, err));
    int code = program_backward(net, err);
    if (behind && (!code || code == CODE_NUMERICAL))
        TRY(find_loss(net, loss, y, err));
    if (code)
        return code;
    if (!net->batch.started)
        TRY(net_start(net, err));
    return backend_check(net->setup.backend, err);
}

int net_forward(struct net *net, double *f, struct err *err) {
    TRY(program_forward(net, err));
    TRY(program_arrive(net, err));
    memcpy(f, net->output.f, (size_t)(net->batch.output_rows * net->setup.data.C) * sizeof *f);
    return CODE_OK;
}
