/* The life of an instance of a network. */
#include "models/program/node.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int net_init(struct net *net, const struct net_setup *setup, struct err *err) {
    *net = (struct net){.setup = *setup};
    int P = setup->P;
    net->model = setup->model ? setup->model : model_list[setup->network->model];
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
    return program_build(net, err);
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
        free(net->vector[i].values);
    for (int i = 0; i < net->origins; i++)
        free(net->origin[i].all);
    program_free(net->program);
    void *const lists[] = {net->array,     net->map,     net->thin,   net->population,
                           net->vector,    net->origin,  net->kernel, net->number,
                           net->parameter, net->carried, net->index,  net->matrix};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        free(lists[k]);
    *net = (struct net){0};
}

/* Room is doubled where the count is a power of two. */
void *net_grow(void *list, int *count, size_t size, struct err *err) {
    unsigned char *first;
    size_t n = (size_t)*count;
    memcpy(&first, list, sizeof first);
    if ((n & (n - 1)) == 0) {
        unsigned char *larger = realloc(first, (n ? 2 * n : 1) * size);
        if (!larger) {
            err_set(err, CODE_SYSTEM, "out of memory: a list of %zu elements", 2 * n);
            return NULL;
        }
        first = larger;
        memcpy(list, &first, sizeof first);
    }
    ++*count;
    return memset(first + n * size, 0, size);
}

const struct map_kind *net_map_kind(const struct net *net, const struct map_declaration *declared) {
    const struct net_setup *setup = &net->setup;
    struct map_choice choice = {setup->N > 0, setup->optimizer == OPTIMIZER_GD,
                                optimizer_by_entry(setup->optimizer), setup->field};
    return map_choose(&choice, declared);
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
    struct array **added = net_grow(&net->array, &net->arrays, sizeof *added, err);
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
    struct vector *added = net_grow(&net->vector, &net->vectors, sizeof *added, err);
    if (!added)
        return err->code;
    TRY(base_alloc(&added->values, (size_t)count, sizeof **vector, err));
    added->length = count;
    *vector = added->values;
    return CODE_OK;
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

bool net_runs_away(const struct net *net) {
    return !(net->loss <= NET_RUNAWAY * net->loss_scale);
}

int net_evaluate(struct net *net, enum loss loss, const double *y, struct err *err) {
    int P = net->setup.P;
    double of_zero = 0, ignored;
    net_gather(net);
    TRY(program_forward(net, err));
    net->loss = 0;
    for (int mu = 0; mu < P; mu++) {
        if (!net->started && net->setup.centre)
            net->f0[mu] = net->f[mu];
        net->f[mu] -= net->f0[mu];
        net->loss += net_loss(loss, net->f[mu], y[net->index[mu]], &net->Delta[mu]) / P;
        of_zero += net_loss(loss, 0, y[net->index[mu]], &ignored) / P;
    }
    net->loss_scale = fmax(of_zero, net->started ? net->loss_scale : fmax(net->loss, 1));
    if (!isfinite(net->loss))
        return err_set(err, CODE_NUMERICAL, "the loss is not finite; lower eta0 or gamma0%s",
                       network_hint(net->setup.network));
    TRY(program_backward(net, err));
    if (!net->started)
        TRY(net_start(net, err));
    return net->setup.backend->sync(err);
}

int net_forward(struct net *net, double *f, struct err *err) {
    TRY(program_forward(net, err));
    memcpy(f, net->f, (size_t)net->setup.P * sizeof *f);
    return CODE_OK;
}
