/* Any network with explicit matrices judged by finite differences of its loss. */
#include "tests/gradient.h"

#include <math.h>
#include <stdlib.h>

double *gradient_matrix(const struct map *map) {
    if (map->kind == &map_finite)
        return support_get(array_all(&map->W));
    size_t n = map->declared.target->sites, m = map->declared.source->sites;
    double *W, *q = support_get(array_all(&map->q)), *Z = support_get(array_all(&map->Z));
    ASK(base_alloc(&W, n * m, sizeof *W, err));
    for (size_t k = 0; k < (size_t)map->q.rows; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < m; j++)
                W[i * m + j] += Z[k * n + i] * q[k * m + j] / (double)m / map->declared.s_f;
    free(q);
    free(Z);
    return W;
}

/* One row of values, zero but for one site. */
static void put_unit(struct array *array, int row, size_t site, double value) {
    double *values;
    ASK(base_alloc(&values, array->sites, sizeof *values, err));
    values[site] = value;
    array->backend->put(array_rows(array, row, 1), values);
    free(values);
}

/* A parameter, and for a history the number of its rows: one more carries the difference. */
struct entry {
    const struct parameter *p;
    double *values; /* before the step; a thin matrix [K][sites], else [target][source] */
    size_t count, index;
    int rows;
};

static void entry_move(const struct entry *e, double by) {
    struct map *map = e->p->map;
    if (map && map->kind == &map_history) {
        double m = (double)map->q.sites;
        map->q.rows = map->Z.rows = e->rows;
        if (by == 0)
            return;
        ASK(array_reserve(&map->q, e->rows + 1, err));
        ASK(array_reserve(&map->Z, e->rows + 1, err));
        put_unit(&map->q, e->rows, e->index % map->q.sites, by * m * map->declared.s_f);
        put_unit(&map->Z, e->rows, e->index / map->q.sites, 1);
        return;
    }
    struct rows W = array_all(map ? &map->W : &e->p->thin->W);
    double saved = e->values[e->index];
    e->values[e->index] = saved + by;
    W.array->backend->put(W, e->values);
    e->values[e->index] = saved;
}

/* Fourth-order central difference of the loss in one entry. */
static double difference(struct net *net, const struct run *run, const struct entry *e, double h) {
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1 / 12., -8 / 12., 8 / 12., -1 / 12.};
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        entry_move(e, at[k] * h);
        support_evaluate(net, run);
        sum += weight[k] * net->loss / h;
    }
    entry_move(e, 0);
    return sum;
}

/* The gradient of N gamma0 f on a population is scale times the y there: 1 where a thin matrix is
 * (w itself is such a y), and scale(target)/scale(source) = s_b/s_f for every map. */
static double scale_of(const struct net *net, const struct population *population) {
    for (int i = 0; i < net->thins; i++)
        if (net->thin[i]->population == population)
            return 1;
    for (int i = net->maps - 1; i >= 0; i--) {
        const struct map_declaration *d = &net->map[i]->declared;
        if (d->source == population)
            return scale_of(net, d->target) * d->s_f / d->s_b;
    }
    return 1;
}

/* dW = -rate dL/dW with the learning rate eta0 gamma0^2 N lambda of an entry; of a map in units of
 * its entries N(0, 1/m) and of its forward use s_f W. */
static double rate_of(const struct net *net, const struct run *run, const struct parameter *p) {
    double gamma0 = run->config.training.gamma0, eta0 = run->config.training.eta0;
    double rate = eta0 * gamma0 * gamma0 * net->setup.N * p->rate;
    if (!p->map)
        return rate;
    const struct map_declaration *d = &p->map->declared;
    return rate / ((double)d->source->sites * d->s_f * d->s_f * scale_of(net, d->target));
}

static double *entry_values(const struct parameter *p) {
    return p->map ? gradient_matrix(p->map) : support_get(array_all(&p->thin->W));
}

/* Every parameter of any network: the step equals -rate dL/dW.
 * Tolerance: the loss is of order one and known to about 1e-15, so at h = 1e-4 a difference carries
 * 1.5e-11 of round-off; ten times that. Truncation, h^4/30 times a fifth derivative, is below
 * 1e-15. Logits at the edge of the mask are further apart than the 2 h they are moved by (a mask
 * that flips inside a difference shows as an error of order one). */
void gradient_check(const struct run *run, int N, int stride) {
    struct net net;
    support_net(&net, run, N, 0);
    for (int step = 0; step < 2; step++) {
        support_evaluate(&net, run);
        support_learn(&net, run);
    }
    for (int i = 0; i < net.parameters; i++) {
        const struct parameter *p = &net.parameter[i];
        struct entry e = {.p = p, .values = entry_values(p), .rows = p->map ? p->map->q.rows : 0};
        e.count = p->map ? p->map->declared.target->sites * p->map->declared.source->sites
                         : (size_t)p->thin->W.rows * p->thin->W.sites;
        double *gradient, rate = rate_of(&net, run, p);
        ASK(base_alloc(&gradient, e.count, sizeof *gradient, err));
        for (; e.index < e.count; e.index += (size_t)stride)
            gradient[e.index] = difference(&net, run, &e, 1e-4);
        support_evaluate(&net, run);
        support_learn(&net, run);
        double *after = entry_values(p);
        for (size_t k = 0; k < e.count; k += (size_t)stride)
            CHECK_ABS(after[k] - e.values[k], -rate * gradient[k], rate * 1.5e-10,
                      "parameter %d, entry %zu", i, k);
        free(e.values);
        free(gradient);
        free(after);
    }
    net_free(&net);
}
