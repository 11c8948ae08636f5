/* How experts move: gradients and changes of their matrices, of every network that has gates,
 * against what matrices change by in a step and since the start, and against what the whole network
 * has. */
#include "tests/support/expert_cases.h"
#include "solver/measure/instrument.h"

/* Matrices of a network as they are used, before and after. */
struct matrices {
    double *before[512];
};

/* [target sites][source sites] */
static double *used(const struct map *map) {
    double *W;
    ASK(base_alloc(&W, map->declared.target->sites * map->declared.source->sites, sizeof *W, err));
    ASK(map->kind->matrix(map, W, err));
    return W;
}

static void keep_matrices(const struct net *net, struct matrices *m) {
    assert_true(net->program->nodes <= 512);
    for (int i = 0; i < net->program->nodes; i++) {
        const struct node *v = &net->program->node[i];
        m->before[i] = NULL;
        if (v->matrix.map && node_begins_matrix(v))
            m->before[i] = used(v->matrix.map);
        else if (v->op->matrix == MATRIX_LOOK)
            m->before[i] = support_get(array_all(&v->matrix.thin->W));
    }
}

static void free_matrices(const struct net *net, struct matrices *m) {
    for (int i = 0; i < net->program->nodes; i++)
        free(m->before[i]);
}

static double rate_of(const struct net *net, const struct node *v) {
    for (int k = 0; k < net->parameters.count; k++)
        if ((v->matrix.map && net->parameters.item[k].map == v->matrix.map) ||
            (v->matrix.thin && net->parameters.item[k].thin == v->matrix.thin))
            return net->parameters.item[k].rate;
    return NAN;
}

/* Sum of squares of the change of the entries (i, j) of [n][m] with first <= i < end, or of j. */
static double changed(const double *now, const double *before, size_t n, size_t m, bool row,
                      size_t first, size_t end) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++) {
            size_t own = row ? i : j;
            if (own >= first && own < end)
                sum += pow(now[i * m + j] - before[i * m + j], 2);
        }
    return sum;
}

/* In a step of gradient descent every entry of W from m to n sites moves by its rate eta0 gamma0
 * times the gradient over m: of an expert with s of the n (or m) sites the sum of squares is then
 * rate (eta0 gamma0)^2 s/m (or n s/m^2) times that of the norm; of a column of m entries, m. */
static double wanted(const struct run *run, const struct net *net, const struct expert_matrix *m,
                     const struct matrices *old, int e) {
    double step = run->config.training.eta0 * run->config.training.gamma0, sum = 0;
    const struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++) {
        const struct node *v = &p->node[i];
        const char *mine = m->node->matrix.weight.family, *its = v->matrix.weight.family;
        bool member = m->router->M && mine && its && v->matrix.map && !strcmp(mine, its) &&
                      m->router->expert[i] == e;
        if (!(m->router->M && m->node->matrix.map ? member : v == m->node))
            continue;
        if (!v->matrix.map) {
            FREED(base_free) double *now = support_get(array_all(&v->matrix.thin->W));
            size_t sites = v->matrix.thin->W.sites, K = (size_t)v->matrix.thin->W.rows;
            sum = changed(now, old->before[i], K, sites, true, (size_t)e, (size_t)e + 1);
            return sum / (rate_of(net, v) * step * step * (double)sites);
        }
        const struct population *s = v->matrix.map->declared.source,
                                *t = v->matrix.map->declared.target;
        size_t experts = m->router->M ? 1 : p->node[m->router->phi].on->sites;
        bool row = m->router->M || m->target;
        size_t own = (row ? t : s)->sites / experts, k = m->router->M ? 0 : (size_t)e;
        double *now = used(v->matrix.map), M = (double)s->sites;
        double share =
            changed(now, old->before[i], t->sites, s->sites, row, k * own, (k + 1) * own);
        double scale = row ? (double)own / M : (double)t->sites * (double)own / (M * M);
        sum += share / (rate_of(net, v) * step * step * scale);
        free(now);
    }
    return sum;
}

static int experts_of(const struct net *net, const struct net_router *router) {
    return router->M ? router->M : (int)net->program->node[router->phi].on->sites;
}

/* Entries of order one move by some hundredths in a step, and are known to 1e-16: 1e-12 of the sum
 * of squares, and of what is a difference of such. Biases and noise that move by other rules have
 * no matrix. */
TEST(gradients_move_the_matrices) {
    for (int c = 0; c < CASES; c++) {
        RUN_AND_NET;
        make(&run, &net, c, 16, 2);
        int items = net.routers.count * net.program->nodes, found = 0;
        double **got;
        struct expert_matrix m;
        struct matrices old;
        ASK(base_alloc(&got, (size_t)items, sizeof *got, err));
        for (int item = 0; item < items; item++)
            if (expert_norms_find(&net, item, &m)) {
                size_t M = (size_t)experts_of(&net, m.router);
                ASK(base_alloc(&got[item], M, sizeof **got, err));
                ASK(expert_norms_squares(&net, &m, false, got[item], err));
                found++;
            }
        keep_matrices(&net, &old);
        support_learn(&net, &run);
        for (int item = 0; item < items; item++)
            for (int e = 0; got[item] && e < experts_of(&net, m.router); e++) {
                expert_norms_find(&net, item, &m);
                double want = wanted(&run, &net, &m, &old, e);
                CHECK_ABS(got[item][e], want, 1e-11 * want + 1e-18, "%s %d: expert %d of %s",
                          cases[c].model, c, e, m.node->matrix.weight.name);
            }
        assert_true(found >= 2);
        for (int item = 0; item < items; item++)
            free(got[item]);
        free(got);
        free_matrices(&net, &old);
    }
}

/* Of the limit, too: the mean over many experts of the squares is what the matrix has of the square
 * of the norm of the gradient, as its block of the tangent kernel has. Sums in another order:
 * 1e-12.
 */
TEST(gradients_add_up) {
    for (int c = 0; c < CASES; c++)
        for (int N = 0; N <= 16; N += 16) {
            RUN_AND_NET;
            struct expert_matrix m;
            make(&run, &net, c, N, 3);
            int P = net.setup.data.P;
            for (int item = 0; item < net.routers.count * net.program->nodes; item++) {
                if (!expert_norms_find(&net, item, &m) || m.router->M)
                    continue;
                int M = experts_of(&net, m.router);
                double K[P * P], each[M], mean = 0, want = 0;
                ASK(expert_norms_squares(&net, &m, false, each, err));
                for (int e = 0; e < M; e++)
                    mean += each[e] / M;
                for (int k = 0; k < net.parameters.count; k++)
                    if (net.parameters.item[k].map == m.node->matrix.map)
                        ASK(net_tangent(&net, &net.parameters.item[k], K, err));
                for (int k = 0; k < P * P; k++)
                    want += K[k] / P / P *
                            (net.output.loss_in_cotangent
                                 ? 1
                                 : net.output.Delta[k / P] * net.output.Delta[k % P]);
                double tolerance = N || m.target ? 1e-12 : 1e-6;
                CHECK_ABS(mean, want, tolerance * want, "%s, N = %d: %s", cases[c].model, N,
                          m.node->matrix.weight.name);
            }
        }
}

/* (W - W(0)) x of site i at row r, from the entries; of columns its transpose on cotangents y, in
 * the site average: n/m of it, n sites of y. */
static double added(const double *now, const double *before, size_t n, size_t m, const double *x,
                    bool forward, size_t i) {
    double sum = 0;
    for (size_t j = 0; j < (forward ? m : n); j++) {
        size_t k = forward ? i * m + j : j * m + i;
        sum += (now[k] - before[k]) * x[j];
    }
    return forward ? sum : sum * (double)m / (double)n;
}

/* Entries of order one, rows of order one: 1e-12. */
TEST(changes_are_those_of_the_matrices) {
    for (int c = 0; c < CASES; c++) {
        RUN_AND_NET;
        struct matrices old;
        struct expert_matrix m;
        make(&run, &net, c, 16, 0);
        keep_matrices(&net, &old);
        for (int t = 0; t < 3; t++) {
            support_step(&net, &run);
        }
        const struct node *node = net.program->node;
        for (int item = 0; item < net.routers.count * net.program->nodes; item++) {
            if (!expert_norms_find(&net, item, &m) || m.router->M ||
                m.node->matrix.map->declared.uses > 1)
                continue;
            const struct population *s = m.node->matrix.map->declared.source,
                                    *t = m.node->matrix.map->declared.target,
                                    *on = m.target ? t : s;
            int M = experts_of(&net, m.router);
            size_t own = on->sites / (size_t)M;
            double each[M], *now = used(m.node->matrix.map);
            struct rows in = m.target ? node[m.node->argument[0]].value
                                      : node_cotangent(net.program, m.node)->value;
            FREED(base_free) double *x = support_get(in);
            ASK(expert_norms_squares(&net, &m, true, each, err));
            for (int e = 0; e < M; e++) {
                double want = 0, page = m.target ? 1 : on->cotangent_scale;
                for (int r = 0; r < in.count; r++)
                    for (size_t j = 0; j < own; j++)
                        want += pow(added(now, old.before[item % net.program->nodes], t->sites,
                                          s->sites, x + (size_t)r * in.array->sites, m.target,
                                          (size_t)e * own + j) /
                                        page,
                                    2) /
                                (double)own / in.count;
                CHECK_ABS(each[e], want, 1e-12, "%s %d: expert %d of %s", cases[c].model, c, e,
                          m.node->matrix.weight.name);
            }
            free(now);
        }
        free_matrices(&net, &old);
    }
}

/* Of the limit the mean over experts of the squares is that of the coordinate check, as of a
 * network; of a fixed number of experts that of all of them. One number over the other loses the
 * digits of 1e-13 of what the whole matrix makes. */
TEST(changes_are_effective_parts) {
    static const char *const matrices[CASES][2] = {
        {"W2"},        {"W2", "W3"},    {"Q", "W_in"},     {"Q", "W_in"},    {"Q", "P_in"},
        {"Q", "W_in"}, {"R_0", "W1_0"}, {"Q_1", "W_in_0"}, {"W2_0", "W2_1"}, {"W1_0", "W2_0"}};
    for (int c = 0; c < CASES; c++)
        for (int N = 0; N <= 16; N += 16) {
            const char *all[8] = {"output.experts=yes", "reference.coordinate_check=yes"};
            RUN_AND_RECORD;
            for (int k = 0; k < 4 && cases[c].set[k]; k++)
                all[k + 2] = cases[c].set[k];
            assert_true(support_small(&run, support_model(cases[c].model), all));
            ASK(run_ensemble(&run, N, 2, &record, err));
            for (int k = 0; k < 2 && matrices[c][k]; k++) {
                char change[64], rms[64];
                snprintf(change, sizeof change, "expert_change_%s", matrices[c][k]);
                snprintf(rms, sizeof rms, "rms_%s_eff", matrices[c][k]);
                const struct series *x = record_find(&record, change),
                                    *y = record_find(&record, rms);
                FAIL_IF(!x || !y, "%s: no %s or %s", cases[c].model, change, rms);
                double square = 0, want = *record_at(&record, y, 1, 5);
                size_t count = x->size / x->shape[0];
                const double *each = record_at(&record, x, 1, 5);
                assert_true(want > 0);
                if (strstr(x->dims, "probability")) { /* no mean is known of quantiles */
                    assert_true(each[0] < want && want < each[count - 1]);
                    continue;
                }
                for (size_t e = 0; e < count; e++)
                    square += each[e] * each[e] / (double)count;
                CHECK_ABS(sqrt(square), want, 1e-12, "%s, N = %d: %s", cases[c].model, N, change);
            }
        }
}
