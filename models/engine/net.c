/* The life of an instance of a network. */
#include "models/engine/node.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* random: whether its program is known to select by fluctuations. */
static int make(struct net *net, const struct net_setup *setup, bool random, struct err *err) {
    *net = (struct net){.setup = *setup, .random = random};
    int P = setup->P, n = setup->n ? setup->n : 1, C = setup->C ? setup->C : 1;
    net->setup.n = n;
    net->setup.C = C;
    net->rows = P * n;
    net->outs = setup->per_token ? net->rows : P;
    net->weighted = n > 1 || C > 1;
    net->model = setup->model ? setup->model : model_list[setup->network->model];
    if (!setup->inputs)
        net->setup.inputs = P;
    TRY(base_alloc(&net->index, (size_t)P, sizeof *net->index, err));
    for (int mu = 0; mu < P; mu++)
        net->index[mu] = mu;
    TRY(net_vector(net, net->rows * setup->K, &net->A, err));
    TRY(net_vector(net, net->rows * setup->rest, &net->A_rest, err));
    if (setup->token)
        TRY(base_alloc(&net->token, (size_t)net->rows, sizeof *net->token, err));
    TRY(net_vector(net, net->outs * C, &net->f, err));
    TRY(net_origin(net, net_outputs(net), &net->f0, err));
    TRY(net_vector(net, net->outs * C, &net->Delta, err));
    TRY(net_vector(net, net->outs * C, &net->apart, err));
    TRY(net_vector(net, net->rows * n, &net->ones, err));
    TRY(net_vector(net, MAP_STAGES * P, &net->stage_Delta, err));
    for (int k = 0; k < net->rows * n; k++)
        net->ones[k] = 1;
    return program_build(net, err);
}

/* That selections begin with ties is seen when all is written, and decides how it is drawn. */
int net_init(struct net *net, const struct net_setup *setup, struct err *err) {
    TRY(make(net, setup, false, err));
    if (!net->tied)
        return CODE_OK;
    net_free(net);
    return make(net, setup, true, err);
}

/* The last object of a list is NULL where memory ran out. */
void net_free(struct net *net) {
    net_drop_stages(net);
    net_drop_moments(net);
    for (int i = 0; i < net->arrays && net->array[i]; i++) {
        array_free(net->array[i]);
        free(net->array[i]);
    }
    for (int i = 0; i < net->maps && net->map[i]; i++) {
        map_free(net->map[i]);
        free(net->map[i]);
    }
    for (int i = 0; i < net->thins && net->thin[i]; i++) {
        thin_free(net->thin[i]);
        free(net->thin[i]);
    }
    for (int i = 0; i < net->populations && net->population[i]; i++) {
        population_free(net->population[i]);
        free(net->population[i]);
    }
    for (int i = 0; i < net->vectors; i++)
        free(net->vector[i].values);
    for (int i = 0; i < net->origins; i++)
        free(net->origin[i].all);
    program_free(net->program);
    void *const lists[] = {net->array,     net->map,     net->thin,     net->population,
                           net->vector,    net->origin,  net->kernel,   net->number,
                           net->parameter, net->carried, net->index,    net->matrix,
                           net->token,     net->sampled, net->compared, net->router};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        free(lists[k]);
    *net = (struct net){0};
}

int net_input(const struct net *net, const struct parameter *p, int i) {
    int rows = p->rows / (p->map ? p->map->declared.uses : 1);
    return i % rows / (rows / net->setup.P);
}

int net_most_rows(const struct net *net) {
    int most = net->rows;
    for (int k = 0; k < net->parameters; k++)
        most = net->parameter[k].rows > most ? net->parameter[k].rows : most;
    return most;
}

const struct map_kind *net_map_kind(const struct net *net, const struct map_declaration *declared) {
    const struct net_setup *setup = &net->setup;
    struct map_choice choice = {setup->N > 0, optimizer_is_plain(setup->optimizer),
                                optimizer_by_entry(setup->optimizer), setup->field};
    return map_choose(&choice, declared);
}

uint32_t net_first_pair(const struct net_setup *setup, size_t sites) {
    return setup->half == 2 ? (uint32_t)((sites + 1) / 2) : 0;
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
static int absorb(const struct net *net, const struct thin *thin, struct err *err) {
    const struct population *mine = thin->population;
    for (int i = 0; i < net->populations && net->setup.N && net->setup.balanced; i++) {
        struct population *other = net->population[i];
        if (other != mine && other->sites == mine->sites && other->group == mine->group)
            TRY(population_absorb(other, array_all(&thin->W), err));
    }
    return CODE_OK;
}

int net_thin(struct net *net, struct population *population, int K, double amplitude, bool iid,
             struct thin *thin, struct err *err) {
    bool matched = population->matched;
    if (net->setup.declare_only) {
        thin->W = (struct array){population->backend, .sites = population->sites,
                                 .group = population->group, .rows = K};
        return CODE_OK;
    }
    population->matched = matched && !iid;
    int code = thin_init(thin, population, K, amplitude, err);
    population->matched = matched;
    return code ? code : absorb(net, thin, err);
}

int net_rows(struct net *net, const struct population *population, int count, struct rows *rows,
             struct err *err) {
    struct array **added = base_grow(&net->array, &net->arrays, sizeof *added, err);
    if (!added)
        return err->code;
    TRY(base_alloc(added, 1, sizeof **added, err));
    struct array *array = *added;
    size_t sites = population->sites;
    if (net->setup.declare_only)
        *array = (struct array){population->backend, .sites = sites, .group = population->group,
                                .rows = count};
    else
        TRY(array_init(array, population->backend, sites, population->group, count, err));
    *rows = array_all(array);
    return CODE_OK;
}

int net_vector(struct net *net, int count, double **vector, struct err *err) {
    struct vector *added = base_grow(&net->vector, &net->vectors, sizeof *added, err);
    if (!added)
        return err->code;
    TRY(base_alloc(&added->values, (size_t)count, sizeof **vector, err));
    added->length = count;
    *vector = added->values;
    return CODE_OK;
}

int net_outputs(const struct net *net) {
    return net->outs / net->setup.P * net->setup.C;
}

/* Centres f; loss and Delta. */
static void measure_loss(struct net *net, const struct loss *loss, const double *y) {
    int C = net->setup.C, outs = net->outs, each = outs / net->setup.P;
    double zero[C], of_zero = 0;
    memset(zero, 0, sizeof zero);
    for (int k = 0; k < outs * C; k++) {
        if (!net->started && net->setup.centre)
            net->f0[k] = net->f[k];
        net->f[k] -= net->f0[k];
    }
    net->loss = 0;
    for (int i = 0; i < outs; i++) {
        size_t asked = (size_t)net->index[i / each] * (size_t)each + (size_t)(i % each);
        double *Delta = net->Delta + i * C;
        of_zero += loss->value(C, zero, y + asked * (size_t)C, Delta) / outs;
        net->loss += loss->value(C, net->f + i * C, y + asked * (size_t)C, Delta) / outs;
    }
    net->loss_scale = fmax(of_zero, net->started ? net->loss_scale : fmax(net->loss, 1));
    for (int k = 0; k < outs * C && each > 1; k++)
        net->Delta[k] /= each;
}

bool net_runs_away(const struct net *net) {
    return !(net->loss <= NET_RUNAWAY * net->loss_scale);
}

const char *net_hint(const struct net *net) {
    return net->condenses ? ", or beta (softmax gates condense: docs/method.md, section 5)" : "";
}

int net_evaluate(struct net *net, const struct loss *loss, const double *y, struct err *err) {
    net_gather(net);
    TRY(program_forward(net, err));
    measure_loss(net, loss, y);
    net->penalty = program_penalties(net);
    if (!isfinite(net->loss) || isnan(net->penalty))
        return err_set(err, CODE_NUMERICAL, "the loss is not finite; lower eta0 or gamma0%s",
                       net_hint(net));
    TRY(program_backward(net, err));
    if (!net->started)
        TRY(net_start(net, err));
    return net->setup.backend->sync(err);
}

int net_forward(struct net *net, double *f, struct err *err) {
    TRY(program_forward(net, err));
    memcpy(f, net->f, (size_t)(net->outs * net->setup.C) * sizeof *f);
    return CODE_OK;
}
