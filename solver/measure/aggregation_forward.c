/* The coordinate check of experts, forward: h3 in its parts, and what single experts put out. */
#include "solver/measure/aggregation_terms.h"

#include <cblas.h>
#include <stdlib.h>

/* value: what h3 is more than before, which it becomes. */
static void take_step(struct rows h3, struct rows before, struct rows work, double *value) {
    rows_copy(h3, work);
    aggregation_subtract(before, work);
    *value = aggregation_rms(work);
    rows_copy(h3, before);
}

int aggregation_forward(struct aggregation_check *c, const struct net *net, double *value,
                        struct err *err) {
    struct replay *r = &c->replay;
    int target = aggregation_h3(net), P = net->batch.rows;
    struct rows h3 = r->program.node[target].value, before = array_rows(&c->work, 0, P);
    struct rows work = array_rows(&c->work, P, P);
    rows_zero(before);
    replay_begin(r, net);
    aggregation_give(c, net, c->s2);
    for (int k = 1; k < c->nodes; k++)
        rows_copy(array_all(&c->start[k].rows), r->program.node[c->s2[k]].value);
    TRY(replay_forward(r, true, target, err));
    take_step(h3, before, work, &value[A1]);
    replay_begin(r, net);
    if (c->s2[0] >= 0)
        replay_give(r, net, c->s2[0]);
    replay_give(r, net, aggregation_mixture(net)->x1);
    TRY(replay_forward(r, true, target, err));
    take_step(h3, before, work, &value[A21]);
    replay_begin(r, net);
    aggregation_give(c, net, c->s2);
    TRY(replay_forward(r, true, target, err));
    take_step(h3, before, work, &value[A22]);
    take_step(net->program->node[target].value, before, work, &value[A3]);
    return CODE_OK;
}

/* --- one expert ------------------------------------------------------------------------------ */

/* Whether node v is a matrix out of the experts of node s2, through gates or not; *shared: the same
 * for all of them. */
static bool leaves_experts(const struct program *p, const struct node *v, int s2, bool *shared) {
    if (!v->matrix.map)
        return false;
    int a = v->argument[0];
    *shared = p->node[a].op->mean_of_copies;
    if (*shared)
        a = p->node[a].argument[0];
    return a == s2 || (p->node[a].op->grouped_factor && p->node[a].argument[1] == s2);
}

/* to[i][e][j] += factor W, for i < N and e < experts: W[i][e][j], or W[i][j] where all have one. */
static void add_matrix(double *to, double factor, const double *W, bool shared, size_t N,
                       size_t experts, size_t N_e) {
    for (size_t row = 0; row < N * experts; row++) {
        const double *from = &W[(shared ? row / experts : row) * N_e];
        for (size_t j = 0; j < N_e; j++)
            to[row * N_e + j] += factor * from[j];
    }
}

/* W3_0 and dW3 of rows k: [N][experts][N_e], N_e = units/experts. Both zero at first. */
static int find_matrices(const struct net *net, int k, size_t units, double *initial,
                         double *change, struct err *err) {
    const struct mixture *a = aggregation_mixture(net);
    size_t N = (size_t)net->setup.N, experts = a->experts, N_e = units / experts;
    double *W;
    bool shared;
    TRY(base_alloc(&W, units * N, sizeof *W, err));
    int code = CODE_OK;
    for (int i = a->x1; i <= aggregation_h3(net); i++) {
        const struct map *map = net->program->node[i].matrix.map;
        if (!leaves_experts(net->program, &net->program->node[i], a->s2[k], &shared))
            continue;
        double factor = shared ? 1 : (double)experts;
        DO(map->start->kind->matrix(map->start, W, err));
        add_matrix(initial, factor, W, shared, N, experts, N_e);
        add_matrix(change, -factor, W, shared, N, experts, N_e);
        DO(map->kind->matrix(map, W, err));
        add_matrix(change, factor, W, shared, N, experts, N_e);
    }
done:
    free(W);
    return code;
}

/* Sum over its experts of the mean squares of W3_i x_i; x [P][units]. */
static double one_expert(const struct net *net, const double *W3, const double *x, size_t units,
                         double *work) {
    int experts = (int)aggregation_mixture(net)->experts, P = net->batch.rows, N = net->setup.N,
        U = (int)units;
    double sum = 0;
    for (int i = 0; i < experts; i++) {
        int N_e = U / experts, first = i * N_e;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, P, N, N_e, 1, x + first, U, W3 + first,
                    U, 0, work, N);
        for (int k = 0; k < P * N; k++)
            sum += work[k] * work[k] / (P * N);
    }
    return sum / experts;
}

int aggregation_experts(struct aggregation_check *c, const struct net *net, int k, double *value,
                        struct err *err) {
    struct rows now = net->program->node[c->s2[k]].value;
    size_t units = now.array->sites, N = (size_t)net->setup.N, P = (size_t)net->batch.rows;
    double *W, *x, *work, share = 1.0 / aggregation_mixture(net)->rows;
    int code = CODE_OK;
    TRY(base_alloc(&W, 2 * units * N + 2 * P * units + P * N, sizeof *W, err));
    x = W + 2 * units * N;
    work = x + 2 * P * units;
    DO(find_matrices(net, k - 1, units, W, W + units * N, err));
    now.array->backend->get(now, x);
    now.array->backend->get(array_all(&c->start[k].rows), x + P * units);
    value[H3I_EFF] += share * one_expert(net, W + units * N, x, units, work);
    for (size_t i = 0; i < P * units; i++)
        x[i] -= x[P * units + i];
    value[H3I_PROP] += share * one_expert(net, W, x, units, work);
    value[H3I_INIT] += share * one_expert(net, W, x + P * units, units, work);
done:
    free(W);
    return code;
}
