/* The list of networks, their settings, and the life of an instance. */
#include "models/model.h"
#include "models/regime1.h"
#include "models/regime2.h"
#include "models/regime3.h"
#include "models/residual.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct model *const model_list[] = {&model_dense,   &model_regime1,  &model_regime2,
                                          &model_regime3, &model_residual, NULL};
#define MODEL_NAMES "dense regime1 regime2 regime3 residual"

#define OFFSET(field) offsetof(struct network, field)
const struct param_row network_rows[] = {
    {"model", PARAM_CHOICE, OFFSET(model), NULL, 0, 0, MODEL_NAMES, NULL, "the network"},
    {"parameterization", PARAM_CHOICES, OFFSET(parameterizations), "mssp", 0, 0, "mup mssp sp",
     NULL,
     "scales of weights and rates: muP, the maximally scale-stable one, or (regime1, networks "
     "only) the standard one; several: dmft-compare sets them side by side"},
    {"read_out", PARAM_CHOICE, OFFSET(read_out), "normal", 0, 0, "normal zero", NULL,
     "initial read-out w: standard normal, or zero"},
    {"activation", PARAM_CHOICE, OFFSET(activation), "tanh", 0, 0,
     "linear tanh erf relu gelu softplus", NULL, "sigma; erf is erf(h), gelu is h Phi(h)"},
    {"gate", PARAM_CHOICE, OFFSET(gate), "sigmoid", 0, 0, "sigmoid softmax constant", NULL,
     "gate phi of the router logits psi; constant: phi = 1 and no router"},
    {"beta", PARAM_REAL, OFFSET(beta), "1", 1e-6, 1e6, NULL, "gate=sigmoid|softmax",
     "inverse temperature: the gate acts on beta psi"},
    {"kappa", PARAM_REAL, OFFSET(kappa), "1", 1e-3, 1e3, NULL, NULL, "experts per width, M/N"},
    {"expert_width", PARAM_INT, OFFSET(expert_width), "2", 0, 4096, NULL, NULL,
     "hidden units per expert, N_e; 0: infinite (residual)"},
    {"rho", PARAM_REAL, OFFSET(rho), "1", 1e-6, 1, NULL, "gate=sigmoid|softmax",
     "share of the experts that is routed to, K/M; 1 is soft routing"},
    {"iota", PARAM_REAL, OFFSET(iota), "1", 1e-3, 1e3, NULL, NULL,
     "hidden units of an expert per width, N_e/N"},
    {"aggregation", PARAM_CHOICE, OFFSET(aggregation), "M", 0, 0, "M K", "gate=sigmoid",
     "expert outputs are summed with 1/M, or with 1/K as in the papers' top-K"},
    {"lambda_in", PARAM_CHOICE, OFFSET(lambda_in), "1", 0, 0, "1 kappa", NULL,
     "multiplier of the learning rate of the expert input weights"},
    {"depth", PARAM_INT, OFFSET(depth), "3", 1, 32, NULL, NULL,
     "hidden layers (dense), blocks (residual)"},
    {"experts", PARAM_INT, OFFSET(experts), "2", 1, 1000000, NULL, NULL,
     "experts, fixed while the width grows (residual: with expert_width = 0)"},
    {"expert_layers", PARAM_INT, OFFSET(expert_layers), "1", 1, 8, NULL, NULL,
     "matrices per expert"},
    {"expert_output", PARAM_CHOICE, OFFSET(expert_output), "linear", 0, 0, "linear activated", NULL,
     "whether sigma acts on the output of an expert"},
    {"q0", PARAM_REAL, OFFSET(q0), "-1", -1, 1e3, NULL, "gate=sigmoid|softmax",
     "amplitude of the initial router; -1: 1 for mup and sp, 0 for mssp"},
    {"router_rate", PARAM_REAL, OFFSET(router_rate), "1", 0, 1e3, NULL, "gate=sigmoid|softmax",
     "multiplier of the learning rate of the router"},
    {"bias", PARAM_CHOICE, OFFSET(bias), "none", 0, 0, "none fixed trained", "gate=sigmoid|softmax",
     "bias of the router logits"},
    {"biases", PARAM_REALS, OFFSET(biases), "", -1e3, 1e3, NULL, "bias=fixed|trained",
     "initial biases, one per expert; empty: drawn with bias_std"},
    {"bias_std", PARAM_REAL, OFFSET(bias_std), "1", 0, 1e3, NULL, "bias=fixed|trained",
     "of drawn biases, the same for the limit and all networks of a seed; of selection biases"},
    {"bias_noise", PARAM_REAL, OFFSET(bias_noise), "0", 0, 1e3, NULL, "gate=sigmoid|softmax",
     "of normal noise on the logits at every step, the same for limit and networks"},
    {"alpha", PARAM_REAL, OFFSET(alpha), "0", 0, 1e6, NULL, NULL,
     "width over all units of a block, N/(N_e E); 0: networks have N_e = N^2/E"},
    {"eta_bias", PARAM_REAL, OFFSET(eta_bias), "0", 0, 1e6, NULL, NULL,
     "rate of the selection biases (rho < 1): b -= eta_bias (load - rho) each step"},
    {"bias_draws", PARAM_CHOICE, OFFSET(bias_draws), "normal", 0, 0, "normal stratified", NULL,
     "selection biases: normal, drawn anew for each replicate or seed, or normal quantiles"},
};
const size_t network_rows_count = sizeof network_rows / sizeof *network_rows;

const char *model_other_keys(const char *name, const char *key) {
    size_t length = strlen(key);
    for (const struct model *const *model = model_list; *model; model++) {
        const char *keys = (*model)->keys;
        if (strcmp((*model)->name, name))
            continue;
        if (!strcmp(key, "model"))
            return NULL;
        for (const char *at = keys; (at = strstr(at, key)); at += length)
            if ((at == keys || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
                return NULL;
        return keys;
    }
    return NULL; /* an unknown name is refused for itself */
}

/* The order of the choices of activation is that of enum fn. */
enum fn net_activation(const struct net *net) {
    return (enum fn)net->setup.network->activation;
}

int net_init(struct net *net, const struct net_setup *setup, struct err *err) {
    *net = (struct net){.model = model_list[setup->network->model], .setup = *setup};
    int P = setup->P;
    if (!setup->inputs)
        net->setup.inputs = P;
    TRY(base_alloc(&net->index, (size_t)P, sizeof *net->index, err));
    for (int mu = 0; mu < P; mu++)
        net->index[mu] = mu;
    TRY(net_vector(net, P * setup->K, &net->A, err));
    TRY(net_vector(net, P * setup->rest, &net->A_rest, err));
    TRY(net_vector(net, P, &net->f, err));
    TRY(net_origin(net, 1, &net->f0, err));
    TRY(net_vector(net, P, &net->Delta, err));
    TRY(net_vector(net, P, &net->ones, err));
    TRY(net_vector(net, MAP_STAGES * P, &net->stage_Delta, err));
    for (int mu = 0; mu < P; mu++)
        net->ones[mu] = 1;
    TRY(base_alloc(&net->state, 1, net->model->state_size, err));
    return net->model->init(net, err);
}

void net_free(struct net *net) {
    net_drop_stages(net);
    net_drop_moments(net);
    for (int i = 0; i < net->arrays; i++) {
        array_free(net->array[i]);
        free(net->array[i]);
    }
    for (int i = 0; i < net->maps; i++) {
        map_free(net->map[i]);
        free(net->map[i]);
    }
    for (int i = 0; i < net->thins; i++) {
        thin_free(net->thin[i]);
        free(net->thin[i]);
    }
    for (int i = 0; i < net->populations; i++) {
        population_free(net->population[i]);
        free(net->population[i]);
    }
    for (int i = 0; i < net->vectors; i++)
        free(net->vector[i]);
    for (int i = 0; i < net->origins; i++)
        free(net->origin[i].all);
    free(net->index);
    free(net->state);
    *net = (struct net){0};
}

bool net_compresses(const struct network *network) {
    return network->activation != FN_RELU && network->rho == 1;
}

static double rank_bound(const struct net *net, const struct population *population,
                         double evaluations) {
    const struct net_setup *setup = &net->setup;
    double rows = setup->P * evaluations, most = POPULATION_RANK_LIMIT * (double)population->sites;
    if (net_compresses(setup->network))
        rows = fmin(rows, 20.0 * net->setup.inputs * -log10(setup->tolerance));
    return fmin(rows, most);
}

static double rank_bytes(const struct net *net, const struct population *population,
                         double evaluations) {
    return population_bytes(population, 1) * rank_bound(net, population, evaluations);
}

static double rows_bytes(struct rows rows) {
    return (double)array_bytes(rows.array, rows.count);
}

static double entries_bytes(const struct map *map) {
    return population_bytes(map->declared.source, 1) * (double)map->declared.target->sites;
}

/* The matrix; what starts at zero and learns by plain gradient descent is a history of at most
 * min(n, m) rows before it is one. It gains rows for each of its moves, about one per stage and
 * evaluation. */
static double matrix_bytes(const struct net_setup *setup, const struct map *map,
                           double evaluations) {
    const struct population *s = map->declared.source, *t = map->declared.target;
    double row = population_bytes(s, 1), rows = setup->P * evaluations * setup->stages;
    double most = (double)(s->sites < t->sites ? s->sites : t->sites);
    if (map->declared.a0 != 0 || setup->optimizer != OPTIMIZER_GD)
        return entries_bytes(map);
    double matrix = rows < most ? 0 : entries_bytes(map);
    row += population_bytes(t, 1);
    return matrix + 1.5 * row * fmin(rows, most);
}

/* q, e and Z, p, what they add to the spans, and room for growth; q and Z if nothing is drawn. With
 * Adam, which keeps what is learnt elsewhere, nothing then. */
static double limit_map_bytes(const struct net *net, const struct map *map, double evaluations) {
    const struct population *s = map->declared.source, *t = map->declared.target;
    double copies = map->declared.a0 != 0 ? 3 : optimizer_by_entry(net->setup.optimizer) ? 0 : 1;
    return 1.5 * copies * (rank_bytes(net, s, evaluations) + rank_bytes(net, t, evaluations));
}

/* What the optimizer remembers: velocities, of a limit those of Z; or two moments of each entry,
 * and of a limit the entries themselves. */
static double moment_bytes(const struct net *net, const struct parameter *p, double evaluations) {
    const struct net_setup *setup = &net->setup;
    bool adam = optimizer_by_entry(setup->optimizer);
    if (setup->optimizer == OPTIMIZER_GD)
        return 0;
    if (p->map && !setup->N && !adam)
        return 1.5 * rank_bytes(net, p->map->declared.target, evaluations);
    if (p->map)
        return (adam ? 2 + !setup->N : 1) * entries_bytes(p->map);
    return p->thin ? (adam ? 2 : 1) * rows_bytes(array_all(&p->thin->W)) : 0;
}

/* The normals in Z once more; coefficients [T P][rank] of both sides, and while a response is
 * solved for its matrix of that size, the solution and LAPACK's workspace, neither of them larger.
 */
static double response_bytes(const struct net *net, const struct map *map, int T) {
    const struct population *s = map->declared.source, *t = map->declared.target;
    double rows = (double)net->setup.P * T,
           rank = fmax(rank_bound(net, s, T), rank_bound(net, t, T));
    return map->declared.a0 == 0 ? 0
                                 : 1.5 * rank_bytes(net, t, T) + 5 * sizeof(double) * rows * rank;
}

/* y, and where entries are explicit x. */
static double stage_bytes(const struct net_setup *setup, const struct parameter *p) {
    double bytes = p->y.array ? rows_bytes(p->y) : 0;
    if (p->map && (setup->N || optimizer_by_entry(setup->optimizer)))
        bytes += population_bytes(p->map->declared.source, setup->P);
    return bytes;
}

int net_bytes(const struct net_setup *setup, double evaluations, int T, double *bytes,
              struct err *err) {
    struct net net;
    struct net_setup shapes = *setup;
    shapes.declare_only = true;
    int code = net_init(&net, &shapes, err);
    double total = 0;
    for (int i = 0; i < net.arrays; i++)
        total += rows_bytes(array_all(net.array[i]));
    if (net.setup.inputs + net.setup.tests > net.setup.P)
        total *= 2;                     /* put aside in a look */
    for (int i = 0; i < net.thins; i++) /* and in the span of the population */
        total += 2 * rows_bytes(array_all(&net.thin[i]->W));
    for (int i = 0; i < net.maps; i++)
        total += setup->N       ? matrix_bytes(setup, net.map[i], evaluations)
                 : setup->field ? field_bytes(net.map[i], setup->field)
                                : limit_map_bytes(&net, net.map[i], evaluations);
    for (int i = 0; i < net.maps && setup->responses && !setup->field; i++)
        total += response_bytes(&net, net.map[i], T);
    for (int i = 0; i < net.parameters; i++)
        total += setup->stages * stage_bytes(setup, &net.parameter[i]) +
                 moment_bytes(&net, &net.parameter[i], evaluations);
    for (int k = 0; k < net.kernels; k++)
        total += 1.5 * T * rows_bytes(net.kernel[k].rows);
    net_free(&net);
    *bytes = total;
    return code;
}

static struct rng_stream net_stream(const struct net *net, enum purpose purpose, int owner) {
    return (struct rng_stream){.seed = net->setup.seed,
                               .replicate = (uint32_t)net->setup.replicate,
                               .width = (uint32_t)net->setup.N,
                               .owner = (uint32_t)owner,
                               .purpose = purpose,
                               .draw = (uint32_t)net->setup.sweep << 20};
}

int net_population(struct net *net, const char *name, double relative, size_t limit_sites,
                   int group, struct population **population, struct err *err) {
    assert(net->populations < NET_POPULATIONS);
    int owner = net->populations, N = net->setup.N;
    TRY(base_alloc(population, 1, sizeof **population, err));
    net->population[net->populations++] = *population;
    **population = (struct population){
        .backend = net->setup.backend,
        .size = relative * (N ? N : POPULATION_INFINITE),
        .sites = N ? (size_t)lround(relative * N) : limit_sites,
        .group = group,
        .matched = N == 0 || net->setup.balanced,
        .stream = net_stream(net, PURPOSE_POOL, owner),
    };
    snprintf((*population)->name, sizeof(*population)->name, "%s", name);
    return net->setup.declare_only ? CODE_OK : population_init(*population, err);
}

int net_map(struct net *net, struct map_declaration declared, struct map **map, struct err *err) {
    assert(net->maps < NET_MAPS);
    struct rng_stream stream = net_stream(net, PURPOSE_MATRIX, net->maps);
    TRY(base_alloc(map, 1, sizeof **map, err));
    net->map[net->maps++] = *map;
    map_declare(*map, declared);
    if (net->setup.declare_only)
        return CODE_OK;
    const struct field_settings *field = net->setup.field;
    bool adam = optimizer_by_entry(net->setup.optimizer),
         plain = net->setup.optimizer == OPTIMIZER_GD;
    const struct map_kind *kind = field                       ? &map_field
                                  : !net->setup.N             ? adam ? &map_adam : &map_limit
                                  : declared.a0 == 0 && plain ? &map_history
                                                              : &map_finite;
    TRY(map_init(*map, kind, declared, net->setup.tolerance, stream, err));
    (*map)->responses = net->setup.responses || net->setup.parts;
    return field ? field_attach(*map, field, err) : CODE_OK;
}

int net_thin(struct net *net, struct population *population, int K, double amplitude,
             struct thin **thin, struct err *err) {
    assert(net->thins < NET_THINS);
    TRY(base_alloc(thin, 1, sizeof **thin, err));
    net->thin[net->thins++] = *thin;
    if (net->setup.declare_only) {
        (*thin)->W = (struct array){population->backend, .sites = population->sites,
                                    .group = population->group, .rows = K};
        return CODE_OK;
    }
    TRY(thin_init(*thin, population, K, amplitude, err));
    /* balanced draws: what is drawn later on other neurons of the same number is orthogonal too */
    for (int i = 0; i < net->populations && net->setup.N && net->setup.balanced; i++) {
        struct population *other = net->population[i];
        if (other != population && other->sites == population->sites &&
            other->group == population->group)
            TRY(population_absorb(other, array_all(&(*thin)->W), err));
    }
    return CODE_OK;
}

int net_thin_iid(struct net *net, struct population *population, int K, double amplitude,
                 struct thin **thin, struct err *err) {
    bool matched = population->matched;
    population->matched = false;
    int code = net_thin(net, population, K, amplitude, thin, err);
    population->matched = matched;
    return code;
}

double net_read_out_amplitude(const struct net *net) {
    return net->setup.network->read_out == READ_OUT_ZERO ? 0 : 1;
}

int net_rows(struct net *net, const struct population *population, int count, struct rows *rows,
             struct err *err) {
    assert(net->arrays < NET_ARRAYS);
    struct array *array;
    TRY(base_alloc(&array, 1, sizeof *array, err));
    net->array[net->arrays++] = array;
    size_t sites = population->sites;
    if (net->setup.declare_only)
        *array = (struct array){population->backend, .sites = sites, .group = population->group,
                                .rows = count};
    else
        TRY(array_init(array, population->backend, sites, population->group, count, err));
    *rows = array_all(array);
    return CODE_OK;
}

int net_all_rows(struct net *net, const struct population *population, int count,
                 struct rows *const *rows, size_t n, struct err *err) {
    for (size_t i = 0; i < n; i++)
        TRY(net_rows(net, population, count, rows[i], err));
    return CODE_OK;
}

int net_vector(struct net *net, int count, double **vector, struct err *err) {
    assert(net->vectors < NET_VECTORS);
    TRY(base_alloc(vector, (size_t)count, sizeof **vector, err));
    net->length[net->vectors] = count;
    net->vector[net->vectors++] = *vector;
    return CODE_OK;
}

void net_read_out(const struct net *net, const struct thin *w, struct rows h, double *f) {
    h.array->backend->averages(h, array_all(&w->W), f);
    for (int mu = 0; mu < h.count; mu++)
        f[mu] /= net->setup.gamma0;
}

void net_thin_averages(const struct net *net, const struct thin *thin, struct rows x, double *start,
                       double *out) {
    int count = x.count * thin->W.rows;
    x.array->backend->dots(x, array_all(&thin->W), out);
    if (net->setup.N)
        return;
    if (!net->started)
        memcpy(start, out, (size_t)count * sizeof *out);
    for (int k = 0; k < count; k++)
        out[k] -= start[k];
}

void net_parameter(struct net *net, struct parameter parameter) {
    assert(net->parameters < NET_MAPS + NET_THINS);
    net->parameter[net->parameters++] = parameter;
}

void net_ends(struct net *net, struct thin *W1, struct rows g1, struct thin *w, struct rows h_top) {
    double factor = net->setup.read_in;
    net_parameter(net, (struct parameter){.thin = W1,
                                          .A = net->A,
                                          .rate = 1,
                                          .adam = {factor, factor * net->setup.gamma0},
                                          .y = g1});
    net_parameter(
        net, (struct parameter){.thin = w, .A = net->ones, .rate = 1, .adam = {1, 1}, .y = h_top});
}

void net_kernel(struct net *net, struct kernel kernel) {
    assert(net->kernels < NET_KERNELS);
    net->kernel[net->kernels++] = kernel;
}

void net_numbers(struct net *net, struct numbers numbers) {
    assert(net->numbers < NET_KERNELS);
    net->number[net->numbers++] = numbers;
}

double net_loss(enum loss loss, double f, double y, double *Delta) {
    if (loss == LOSS_LOGISTIC) {
        double margin = y * f; /* l = log(1 + exp(-y f)) */
        *Delta = y / (1 + exp(margin));
        return margin > 0 ? log1p(exp(-margin)) : log1p(exp(margin)) - margin;
    }
    *Delta = y - f;
    return 0.5 * (y - f) * (y - f);
}

int net_evaluate(struct net *net, enum loss loss, const double *y, struct err *err) {
    int P = net->setup.P;
    net_gather(net);
    TRY(net->model->forward(net, net->f, err));
    net->loss = 0;
    for (int mu = 0; mu < P; mu++) {
        if (!net->started && net->setup.centre)
            net->f0[mu] = net->f[mu];
        net->f[mu] -= net->f0[mu];
        net->loss += net_loss(loss, net->f[mu], y[net->index[mu]], &net->Delta[mu]) / P;
    }
    if (!isfinite(net->loss))
        return err_set(err, CODE_NUMERICAL, "the loss is not finite; lower eta0 or gamma0%s",
                       net->setup.network->gate == GATE_SOFTMAX
                           ? ", or beta (softmax gates condense: docs/method.md, section 5)"
                           : "");
    TRY(net->model->backward(net, err));
    if (!net->started)
        TRY(net_start(net, err));
    return net->setup.backend->sync(err);
}
