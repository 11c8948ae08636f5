/* Which inputs an evaluation has: those of a batch, and those that are only looked at.
 *
 * A pass that is looked at conditions W(0) of a limit on what it asks exactly as any other forward
 * pass would, with normals from a stream of its own, and then forgets that it did: bases, spans and
 * draws return to where they were (docs/method.md, section 8). Inputs of one look come with the
 * same normals every time, so that differences over time have little noise. */
#include "models/engine/node.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define UNSEEN (1u << 31) /* the first number of a draw for what no training input has */

int net_origin(struct net *net, int K, double **now, struct err *err) {
    struct origin *origin = base_grow(&net->origin, &net->origins, sizeof *origin, err);
    size_t all = (size_t)(net->setup.inputs + net->setup.tests);
    if (!origin)
        return err->code;
    TRY(net_vector(net, net->setup.P * K, now, err));
    *origin = (struct origin){.now = *now, .K = K};
    return base_alloc(&origin->all, all * (size_t)K, sizeof *origin->all, err);
}

void net_gather(struct net *net) {
    size_t K = (size_t)net->setup.K, rest = (size_t)net->setup.rest, n = (size_t)net->setup.n;
    for (int mu = 0; mu < net->setup.P; mu++) {
        size_t to = (size_t)mu, from = (size_t)net->index[mu];
        for (size_t i = 0; i < n; i++) {
            const double *A = net->setup.A + (from * n + i) * (K + rest);
            memcpy(net->A + (to * n + i) * K, A, K * sizeof *A);
            memcpy(net->A_rest + (to * n + i) * rest, A + K, rest * sizeof *A);
        }
        if (net->token)
            memcpy(net->token + to * n, net->setup.token + from * n, n * sizeof *net->token);
        for (int i = 0; i < net->origins; i++) {
            const struct origin *origin = &net->origin[i];
            size_t k = (size_t)origin->K;
            memcpy(origin->now + to * k, origin->all + from * k, k * sizeof *origin->now);
        }
    }
}

/* The origins of the inputs `index` are those found now. */
static void keep_origins(const struct net *net) {
    for (int mu = 0; mu < net->setup.P; mu++)
        for (int i = 0; i < net->origins; i++) {
            const struct origin *origin = &net->origin[i];
            size_t k = (size_t)origin->K, from = (size_t)mu, to = (size_t)net->index[mu];
            memcpy(origin->all + to * k, origin->now + from * k, k * sizeof *origin->now);
        }
}

int net_start(struct net *net, struct err *err) {
    int inputs = net->setup.inputs, tests = net->setup.tests;
    bool origins = net->setup.centre || !net->setup.N;
    if (origins && inputs > net->setup.P)
        TRY(net_look(net, 0, inputs, NULL, err));
    if (origins && tests)
        TRY(net_look(net, inputs, tests, NULL, err));
    keep_origins(net);
    net->started = true;
    return CODE_OK;
}

/* What the passes of a look overwrite, and marks of what they add to. */
struct aside {
    struct array *array;
    double **vector;
    int *index;
    struct population_mark *population;
    struct map_mark *map;
};

static int put_aside(const struct net *net, struct aside *aside, struct err *err) {
    TRY(base_alloc(&aside->array, (size_t)net->arrays, sizeof *aside->array, err));
    TRY(base_alloc(&aside->vector, (size_t)net->vectors, sizeof *aside->vector, err));
    TRY(base_alloc(&aside->population, (size_t)net->populations, sizeof *aside->population, err));
    TRY(base_alloc(&aside->map, (size_t)net->maps, sizeof *aside->map, err));
    for (int i = 0; i < net->arrays; i++)
        TRY(array_keep(&aside->array[i], array_all(net->array[i]), err));
    for (int i = 0; i < net->vectors; i++) {
        size_t length = (size_t)net->vector[i].length;
        TRY(base_alloc(&aside->vector[i], length, sizeof(double), err));
        memcpy(aside->vector[i], net->vector[i].values, length * sizeof(double));
    }
    TRY(base_alloc(&aside->index, (size_t)net->setup.P, sizeof(int), err));
    memcpy(aside->index, net->index, (size_t)net->setup.P * sizeof(int));
    return CODE_OK;
}

static void take_back(struct net *net, const struct aside *aside) {
    for (int i = 0; i < net->arrays; i++)
        rows_copy(array_all(&aside->array[i]), array_all(net->array[i]));
    for (int i = 0; i < net->vectors; i++)
        memcpy(net->vector[i].values, aside->vector[i],
               (size_t)net->vector[i].length * sizeof(double));
    memcpy(net->index, aside->index, (size_t)net->setup.P * sizeof(int));
}

static void aside_free(const struct net *net, struct aside *aside) {
    for (int i = 0; i < net->arrays && aside->array; i++)
        array_free(&aside->array[i]);
    for (int i = 0; i < net->vectors && aside->vector; i++)
        free(aside->vector[i]);
    free(aside->array);
    free(aside->vector);
    free(aside->index);
    free(aside->population);
    free(aside->map);
}

/* Each row that a matrix makes on it is new at most. */
uint32_t net_look_stride(const struct net *net, const struct population *population) {
    uint32_t rows = 0;
    for (int i = 0; i < net->program->nodes; i++) {
        const struct node *v = &net->program->node[i];
        rows += v->map && v->on == population ? (uint32_t)v->per : 0;
    }
    return rows > 256 ? rows : 256;
}

/* A forward pass of `count` <= P inputs; the last one fills up the rows. */
static int look(struct net *net, const struct aside *aside, int first, int count, double *f,
                struct err *err) {
    for (int mu = 0; mu < net->setup.P; mu++)
        net->index[mu] = first + (mu < count ? mu : count - 1);
    net_gather(net);
    for (int i = 0; i < net->populations; i++) {
        struct population *population = net->population[i];
        uint64_t from = (uint64_t)first * net_look_stride(net, population);
        population_look(population, (uint32_t)(from % UNSEEN), &aside->population[i]);
    }
    for (int i = 0; i < net->maps; i++)
        map_mark(net->map[i], &aside->map[i]);
    net->looking = true;
    int code = program_forward(net, err);
    net->looking = false;
    for (int i = 0; i < net->maps; i++)
        map_return(net->map[i], &aside->map[i]);
    for (int i = 0; i < net->populations; i++)
        population_return(net->population[i], &aside->population[i]);
    if (!net->started) {
        if (net->setup.centre)
            memcpy(net->f0, net->f, (size_t)(net->outs * net->setup.C) * sizeof *net->f);
        keep_origins(net);
    }
    for (int k = 0; k < count * net_outputs(net) && f; k++)
        f[k] = net->f[k] - net->f0[k];
    return code;
}

/* Columns of the read-ins to `bottom` that nothing learns from: of a network once, in the limit at
 * every look, orthonormal to all that bottom has met until then. */
static int draw_unseen(struct net *net, struct population *bottom, struct err *err) {
    struct population_mark mark;
    int code = CODE_OK;
    population_look(bottom, UNSEEN, &mark);
    for (int i = 0; i < net->program->nodes && !code; i++) {
        const struct node *v = &net->program->node[i];
        if (!v->unseen || v->on != bottom)
            continue;
        code = population_fresh(bottom, (struct rows){0}, array_all(&v->unseen->W), err);
        rows_scale(v->weight.a0, array_all(&v->unseen->W));
    }
    population_return(bottom, &mark);
    return code;
}

int net_look(struct net *net, int first, int count, double *f, struct err *err) {
    struct aside aside = {0};
    int P = net->setup.P, code = CODE_OK;
    DO(put_aside(net, &aside, err));
    for (int i = 0; i < net->populations && !net->setup.N; i++)
        DO(draw_unseen(net, net->population[i], err));
    for (int i = 0; i < count; i += P)
        DO(look(net, &aside, first + i, count - i < P ? count - i : P,
                f ? f + i * net_outputs(net) : NULL, err));
    take_back(net, &aside);
    DO(net->setup.backend->sync(err));
done:
    aside_free(net, &aside);
    return code;
}

int net_read_in(struct net *net, struct node *v, struct err *err) {
    struct thin **unseen;
    TRY(net_thin(net, v->on, net->setup.K, v->weight.a0, false, v->thin, err));
    if (!net->setup.rest)
        return CODE_OK;
    if (!(unseen = base_grow(&net->thin, &net->thins, sizeof *unseen, err)))
        return err->code;
    TRY(base_alloc(unseen, 1, sizeof **unseen, err));
    v->unseen = *unseen;
    TRY(net_thin(net, v->on, net->setup.rest, 0, false, v->unseen, err));
    return net->setup.N && !net->setup.declare_only ? draw_unseen(net, v->on, err) : CODE_OK;
}

void net_read(const struct net *net, const struct node *v) {
    thin_read(v->thin, net->A, v->value);
    if (net->looking && v->unseen)
        net->setup.backend->combine(v->value, 1, net->A_rest, array_all(&v->unseen->W));
}
