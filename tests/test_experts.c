/* What experts do: [output] experts, of every network that has gates. Against plain loops over the
 * gates and logits themselves, against what matrices change by in a step and since the start, and
 * against what the whole network has. Whole runs are in test_experts_runs. */
#include "tests/support/support.h"
#include "models/engine/node.h"
#include "solver/measure/expert_norms.h"
#include "solver/measure/specialisation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Settings under which gates differ: regime2 with softmax and with top-K, and so on. */
static const struct {
    const char *model, *set[4];
} cases[] = {
    {"regime1", {"network.rho=0.5"}},
    {"regime1", {"network.expert_layers=2", "data.inputs=5"}},
    {"regime2", {"network.gate=softmax", "training.eta0=0.1"}},
    {"regime2", {"network.rho=0.25", "network.aggregation=K", "network.expert_width=3"}},
    {"regime3", {"network.rho=0.5"}},
    {"regime3", {"network.parameterization=mup", "network.gate=softmax", "training.eta0=0.1"}},
    {"residual", {"network.rho=0.5"}},
    {"stack", {"network.mixture=regime2", "network.rho=0.5"}},
    {"stack", {"network.mixture=regime1", "network.experts=3", "network.kappa=1"}},
    {"transformer", {NULL}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* A net of case c after so many steps, evaluated; N = 0: the limit. */
static void make(struct run *run, struct net *net, int c, int N, int steps) {
    const char *all[6] = {"output.experts=yes"};
    for (int k = 0; k < 4 && cases[c].set[k]; k++)
        all[k + 1] = cases[c].set[k];
    if (!support_small(run, support_model(cases[c].model), all))
        fail_msg("case %d", c);
    support_net(net, run, N, 0);
    assert_true(net->routers.count > 0);
    for (int t = 0; t < steps; t++) {
        support_evaluate(net, run);
        support_learn(net, run);
    }
    support_evaluate(net, run);
}

/* The values at this place of all series of an instrument. */
static void measure(const struct instrument *instrument, const struct run *run,
                    const struct net *net, struct record *record) {
    ASK(record_init(record, 1, 1, err));
    ASK(instrument->declare(record, &run->config, net, run->data.y, err));
    struct measuring m = {.config = &run->config, .net = net, .y = run->data.y, .record = record};
    for (int f = 0; f < record->fillers; f++) {
        const struct filler *filler = &record->filler[f];
        double *out[32] = {0};
        assert_true(record->slots <= 32);
        for (int s = filler->first; s < filler->first + filler->count; s++)
            out[record->series[s].slot] = record_at(record, &record->series[s], 0, 0);
        ASK(filler->fill(&m, filler->item, out, err));
    }
}

static const double *values(const struct record *record, const char *name, const char *suffix) {
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", name, suffix);
    const struct series *series = record_find(record, whole);
    return series ? record_at(record, series, 0, 0) : NULL;
}

/* Gates or logits of a router as [rows][M]; how many. */
static double *numbers_of(const struct net *net, const struct net_router *router, int node,
                          int *rows, int *M) {
    const struct node *v = &net->program->node[node];
    double *x;
    *rows = v->count;
    *M = v->on ? (int)v->on->sites : router->M;
    ASK(base_alloc(&x, (size_t)(*rows * *M), sizeof *x, err));
    if (v->on)
        support_copy(x, v->value, 1);
    else
        memcpy(x, v->s, (size_t)(*rows * *M) * sizeof *x);
    return x;
}

/* The information by entropies: H(mean over all) - sum_l w_l H(mean over label l). */
static double entropy(const double *q, int rows, int M, const int *label, int of, double *weight) {
    double h = 0;
    int count = 0, all = 0;
    for (int r = 0; r < rows; r++) {
        all += label[r] >= 0;
        count += label[r] >= 0 && (of < 0 || label[r] == of);
    }
    for (int i = 0; i < M; i++) {
        double mean = 0;
        for (int r = 0; r < rows; r++)
            if (label[r] >= 0 && (of < 0 || label[r] == of))
                mean += q[r * M + i] / count;
        h -= mean > 0 ? mean * log(mean) : 0;
    }
    *weight = (double)count / all;
    return count ? h : 0;
}

static double information(const double *q, int rows, int M, const int *label, int labels) {
    double weight, value = entropy(q, rows, M, label, -1, &weight);
    for (int l = 0; l < labels; l++) {
        double h = entropy(q, rows, M, label, l, &weight);
        value -= weight * h;
    }
    return value;
}

/* Sums of at most 64 numbers of order ln M, whose differences are taken: 1e-12. */
static void judge_information(const struct run *run, const struct net *net,
                              const struct net_router *router, const struct record *record,
                              const double *q, int rows, int M) {
    int label[rows], per = rows / net->setup.data.P;
    const double *class = values(record, "expert_information_class", router->suffix),
                 *token = values(record, "expert_information_token", router->suffix);
    for (int r = 0; r < rows; r++)
        label[r] = r;
    CHECK_ABS(*values(record, "expert_information", router->suffix),
              information(q, rows, M, label, rows), 1e-12, "information of inputs");
    assert_int_equal(class != NULL, net->setup.data.classes);
    for (int r = 0; r < rows && class; r++) {
        bool own = net->setup.data.per_token && per > 1;
        int C = net->setup.data.C, row = own ? r : r / per;
        double y[C];
        data_ask(&run->data, (size_t)row, 1, y);
        label[r] = C == 1 ? y[0] > 0 : -1;
        for (int c = 0; c < C && C > 1; c++)
            label[r] = y[c] == 1 ? c : label[r];
    }
    if (class)
        CHECK_ABS(*class, information(q, rows, M, label, net->setup.data.C + 1), 1e-12,
                  "of classes");
    assert_int_equal(token != NULL, net->batch.token != NULL);
    for (int r = 0; r < rows && token; r++)
        label[r] = net->batch.token[r];
    if (token)
        CHECK_ABS(*token, information(q, rows, M, label, net->setup.data.V), 1e-12, "of tokens");
}

static void judge_pairs(const struct net_router *router, const struct record *record,
                        const double *phi, int rows, int M) {
    const double *overlap = values(record, "expert_overlap", router->suffix),
                 *both = values(record, "expert_coselection", router->suffix);
    assert_int_equal(both != NULL, router->selects);
    for (int a = 0; a < rows; a++)
        for (int b = 0; b < rows; b++) {
            double x = 0, aa = 0, bb = 0, common = 0, of_a = 0, of_b = 0;
            for (int i = 0; i < M; i++) {
                double u = phi[a * M + i], v = phi[b * M + i];
                x += u * v, aa += u * u, bb += v * v;
                common += u != 0 && v != 0, of_a += u != 0, of_b += v != 0;
            }
            CHECK_ABS(overlap[a * rows + b], x / sqrt(aa * bb), 1e-13, "overlap of %d and %d", a,
                      b);
            if (both)
                CHECK_ABS(both[a * rows + b], common / sqrt(of_a * of_b), 1e-14, "of both");
        }
}

static void judge_shares(const struct net_router *router, const struct record *record,
                         const double *q, int rows, int M) {
    double load[M], most = 0;
    int dead = 0, largest = 0;
    for (int i = 0; i < M; i++) {
        load[i] = 0;
        for (int r = 0; r < rows; r++)
            load[i] += q[r * M + i] / rows;
        dead += load[i] < 0.01 / M;
        if (load[i] > most)
            most = load[i], largest = i;
    }
    CHECK_ABS(*values(record, "expert_dead", router->suffix), (double)dead / M, 1e-15, "dead");
    CHECK_ABS(*values(record, "expert_share", router->suffix), most, 1e-14, "largest share");
    int told = (int)*values(record, "expert_largest", router->suffix);
    CHECK_ABS(load[told], load[largest], 1e-14, "expert %d has the largest share", told);
    for (int r = 0; r < rows; r++) {
        int i = (int)values(record, "expert_of_input", router->suffix)[r];
        double share = values(record, "expert_share_of_input", router->suffix)[r];
        CHECK_ABS(q[r * M + i], share, 1e-15, "share of expert %d", i);
        for (int j = 0; j < M; j++)
            assert_true(q[r * M + j] <= share + 1e-15);
    }
}

/* The k-th largest has k - 1 above it. */
static void judge_logits(const struct net *net, const struct net_router *router,
                         const struct record *record) {
    int rows, M;
    double *psi = numbers_of(net, router, router->psi, &rows, &M);
    const double *sorted = values(record, "expert_logits", router->suffix);
    int places = router->M ? M : 12;
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < places; k++) {
            int place = router->M ? k + 1 : 1 << k, above = 0, equal = 0;
            for (int i = 0; i < M; i++) {
                above += psi[r * M + i] > sorted[r * places + k];
                equal += psi[r * M + i] == sorted[r * places + k];
            }
            if (place > M)
                assert_true(isnan(sorted[r * places + k]));
            else
                assert_true(equal && above < place && place <= above + equal);
        }
    free(psi);
}

static void judge_router(const struct run *run, const struct net *net,
                         const struct net_router *router, const struct record *record) {
    int rows, M;
    double *phi = numbers_of(net, router, router->phi, &rows, &M);
    judge_pairs(router, record, phi, rows, M);
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < M; i++)
            sum += phi[r * M + i];
        for (int i = 0; i < M; i++)
            phi[r * M + i] /= sum;
    }
    judge_shares(router, record, phi, rows, M);
    judge_information(run, net, router, record, phi, rows, M);
    judge_logits(net, router, record);
    free(phi);
}

static void shares_are_those_of_the_gates(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int N = 0; N <= 16; N += 16) {
            struct run run;
            struct net net;
            struct record record;
            make(&run, &net, c, N, 3);
            measure(&specialisation_instrument, &run, &net, &record);
            for (int r = 0; r < net.routers.count; r++)
                judge_router(&run, &net, &net.routers.item[r], &record);
            record_free(&record);
            net_free(&net);
            run_free(&run);
        }
}

/* By hand: four rows of two experts; of no label the third has no part. */
static void information_by_hand(void **state) {
    (void)state;
    static const double q[] = {1, 0, 1, 0, .5, .5, 0, 1};
    static const int same[] = {0, 0, 0, 0}, two[] = {0, 0, -1, 1};
    double scratch[8];
    CHECK_ABS(specialisation_information(q, 4, 2, same, 1, scratch), 0, 1e-15, "one label");
    CHECK_ABS(specialisation_information(q, 4, 2, two, 2, scratch),
              -(2 * log(2. / 3) + log(1. / 3)) / 3, 1e-15, "two labels, two experts");
}

/* --- norms ----------------------------------------------------------------------------------- */

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
            double *now = support_get(array_all(&v->matrix.thin->W));
            size_t sites = v->matrix.thin->W.sites, K = (size_t)v->matrix.thin->W.rows;
            sum = changed(now, old->before[i], K, sites, true, (size_t)e, (size_t)e + 1);
            free(now);
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
static void gradients_move_the_matrices(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        struct run run;
        struct net net;
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
        net_free(&net);
        run_free(&run);
    }
}

/* Of the limit, too: the mean over many experts of the squares is what the matrix has of the square
 * of the norm of the gradient, as its block of the tangent kernel has. Sums in another order:
 * 1e-12.
 */
static void gradients_add_up(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int N = 0; N <= 16; N += 16) {
            struct run run;
            struct net net;
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
            net_free(&net);
            run_free(&run);
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
static void changes_are_those_of_the_matrices(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        struct run run;
        struct net net;
        struct matrices old;
        struct expert_matrix m;
        make(&run, &net, c, 16, 0);
        keep_matrices(&net, &old);
        for (int t = 0; t < 3; t++) {
            support_learn(&net, &run);
            support_evaluate(&net, &run);
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
            struct rows in = m.target ? node[m.node->argument[0]].value : m.node->g;
            double *x = support_get(in);
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
            free(x);
        }
        free_matrices(&net, &old);
        net_free(&net);
        run_free(&run);
    }
}

/* Of the limit the mean over experts of the squares is that of the coordinate check, as of a
 * network; of a fixed number of experts that of all of them. One number over the other loses the
 * digits of 1e-13 of what the whole matrix makes. */
static void changes_are_effective_parts(void **state) {
    (void)state;
    static const char *const matrices[CASES][2] = {
        {"W2"},        {"W2", "W3"},    {"Q", "W_in"},     {"Q", "W_in"},    {"Q", "P_in"},
        {"Q", "W_in"}, {"R_0", "W1_0"}, {"Q_1", "W_in_0"}, {"W2_0", "W2_1"}, {"W1_0", "W2_0"}};
    for (int c = 0; c < CASES; c++)
        for (int N = 0; N <= 16; N += 16) {
            const char *all[8] = {"output.experts=yes", "reference.coordinate_check=yes"};
            struct run run;
            struct record record;
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
                if (!x || !y)
                    fail_msg("%s: no %s or %s", cases[c].model, change, rms);
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
            record_free(&record);
            run_free(&run);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_of_the_gates),
        cmocka_unit_test(information_by_hand),
        cmocka_unit_test(gradients_move_the_matrices),
        cmocka_unit_test(gradients_add_up),
        cmocka_unit_test(changes_are_those_of_the_matrices),
        cmocka_unit_test(changes_are_effective_parts),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
