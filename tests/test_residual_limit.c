/* The limit of models/networks/residual.c: at alpha = 0 against the memoryless recursion with the
 * same normals, and the ranks there. That bits depend on nothing is in test_models. */
#include "tests/support/support.h"
#include "kernels/maps/map_limit.h"
#include "models/parts/block.h"
#include "tests/oracles/reduction_residual.h"

enum { T = 8 };

/* The limit and the recursion with the same normals: every W1_l meets all directions of the stream
 * before the run, every W2_l backward, and their normals are the recursion's vectors. */
struct pair {
    struct run run;
    struct net net;
    struct reduction_residual *o;
    double *Kx;
    struct array frame; /* orthonormal rows over the stream: W0 and w at the start */
};

/* w[unit][i] = normal of direction i. */
static void meet(const struct pair *p, struct map *map, bool forward, double *w) {
    struct population *units = forward ? map->declared.target : map->declared.source;
    FREED(array_free) struct array out;
    int d = p->o->d, count = p->o->E * p->o->S;
    ASK(array_init(&out, &backend_cpu, units->sites, units->group, d, err));
    struct rows frame = array_all(&p->frame), rows = array_all(&out);
    ASK(forward ? map_forward(map, frame, rows, err) : map_backward(map, frame, rows, err));
    FREED(base_free)
    double *values = support_get(array_all(forward ? &limit_of(map)->Z : &limit_of(map)->e));
    for (int i = 0; i < d; i++)
        for (int u = 0; u < count; u++)
            w[u * d + i] = values[i * count + u];
}

static void make_pair(struct pair *p, const char *const *overrides) {
    support_run(&p->run, "data/residual.ini", overrides);
    support_net(&p->net, &p->run, 0, 0);
    const struct config *c = &p->run.config;
    const struct data *data = &p->run.data;
    int P = data->P, K = p->run.inputs.K, L = c->network.block.depth;
    int E =
        c->network.routing.rho < 1 ? c->solver.expert_sites : 1; /* soft routing: all are alike */
    struct reduction_residual *o = p->o =
        reduction_residual_new(P, K + 1, E, c->solver.unit_sites, L);
    ASK(array_init(&p->frame, &backend_cpu, (size_t)c->solver.sites, 1, K + 1, err));
    rows_copy(array_all(&p->net.thins.item[0]->W), array_rows(&p->frame, 0, K));
    rows_copy(array_all(&p->net.thins.item[1]->W), array_rows(&p->frame, K, 1));
    p->Kx = calloc((size_t)(P * P), sizeof *p->Kx);
    for (int a = 0; a < P * P; a++)
        for (int i = 0; i < data->D; i++)
            p->Kx[a] += data->X[a / P * data->D + i] * data->X[a % P * data->D + i] / data->D;
    o->gamma0 = c->training.gamma0, o->eta0 = c->training.eta0;
    o->eta_b = c->network.routing.eta_bias, o->rho = c->network.routing.rho;
    o->y = data->y, o->Kx = p->Kx;
    for (int mu = 0; mu < P; mu++)
        memcpy(o->H0 + mu * o->d, p->run.inputs.A + mu * K, (size_t)K * sizeof *o->H0);
    o->wv[K] = 1;
    for (int l = 0; l < L; l++) {
        balance_biases(&p->net.setup, l, E, o->b + l * E);
        ASK(map_follow(support_map(&p->net, "W1_%d", l), NULL, err)); /* it meets the frame alone */
        meet(p, support_map(&p->net, "W1_%d", l), true, o->w1 + l * E * o->S * o->d);
        meet(p, support_map(&p->net, "W2_%d", l), false, o->w2 + l * E * o->S * o->d);
    }
}

static void free_pair(struct pair *p) {
    reduction_residual_free(p->o);
    array_free(&p->frame);
    net_free(&p->net);
    run_free(&p->run);
    free(p->Kx);
}

/* What is compared at each time: f [P], and |h_l|^2, |g_l|^2 [L+1][P], load2 [L]. */
struct trace {
    double f[T][8], Ch[T][4][8], Cg[T][4][8], load2[T][4];
};

static void march(struct pair *p, struct trace *trace) {
    const struct net *net = &p->net;
    for (int t = 0; t < T; t++) {
        support_evaluate(&p->net, &p->run);
        memcpy(trace->f[t], net->output.f, (size_t)p->o->P * sizeof *net->output.f);
        for (int k = 0; k < net->kernels.count; k++) {
            const struct kernel *kernel = &net->kernels.item[k];
            bool h = !strncmp(kernel->name, "Ch_", 3), g = !strncmp(kernel->name, "Cg_", 3);
            if (h || g)
                kernel->rows.array->backend->averages(
                    kernel->rows, kernel->rows,
                    (g ? trace->Cg : trace->Ch)[t][atoi(kernel->name + 3)]);
        }
        for (int k = 0; k < net->numbers.count; k++)
            if (!strcmp(net->numbers.item[k].name, "load2"))
                memcpy(trace->load2[t], net->numbers.item[k].values,
                       (size_t)p->o->L * sizeof *net->numbers.item[k].values);
        support_learn(&p->net, &p->run);
    }
}

static double norm2(const double *a, int d) {
    double sum = 0;
    for (int i = 0; i < d; i++)
        sum += a[i] * a[i];
    return sum;
}

/* Sums of up to 640 terms of order one: round-off below 640 eps = 1.4e-13, amplified in 8 steps by
 * no more than the loss falls, 100: 1e-11 of order one. No direction is dropped. */
TEST(equals_recursion) {
    static const char *const cases[][3] = {
        {"network.rho=1", "network.depth=1", "solver.unit_sites=500"},
        {"network.rho=1", "network.depth=3", "solver.unit_sites=500"},
        {"network.rho=0.25", "network.depth=2", "solver.unit_sites=40"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        FREED(free_pair) struct pair p;
        static struct trace trace;
        make_pair(&p, ARGS("data.inputs=4", "solver.sites=100", "network.experts=16", cases[k][0],
                           cases[k][1], cases[k][2]));
        march(&p, &trace);
        struct reduction_residual *o = p.o;
        reduction_residual_forward(o); /* f(0) is not zero with these normals: the limit centres */
        memcpy(o->f0, o->f, (size_t)o->P * sizeof *o->f);
        for (int t = 0; t < T; t++) {
            reduction_residual_forward(o);
            for (int mu = 0; mu < o->P; mu++) {
                CHECK_ABS(trace.f[t][mu], o->f[mu], 1e-11, "case %zu: f[%d] at %d", k, mu, t);
                for (int l = 0; l <= o->L; l++) {
                    double Ch = norm2(o->H + (l * o->P + mu) * o->d, o->d);
                    double Cg = norm2(o->G + (l * o->P + mu) * o->d, o->d);
                    CHECK_ABS(trace.Ch[t][l][mu], Ch, 1e-11 * fmax(1, Ch), "case %zu: Ch_%d at %d",
                              k, l, t);
                    CHECK_ABS(trace.Cg[t][l][mu], Cg, 1e-11 * fmax(1, Cg), "case %zu: Cg_%d at %d",
                              k, l, t);
                }
            }
            reduction_residual_step(o);
            for (int l = 0; l < o->L && o->rho < 1; l++)
                CHECK_ABS(trace.load2[t][l], o->load2[l], 1e-14, "case %zu: load2 at %d", k, t);
        }
        assert_true(fabs(trace.f[T - 1][0]) > 0.3); /* it did train */
    }
}

/* The numbers of the maps, and the rank P + 1 of everything on the stream, for ever. */
TEST(stream_has_rank_P_plus_1) {
    RUN_AND_NET;
    support_run(&run, "data/residual.ini",
                ARGS("network.rho=1", "network.depth=3", "data.inputs=4", "solver.unit_sites=500",
                     "solver.sites=100"));
    support_net(&net, &run, 0, 0);
    support_train(&net, &run, 30);
    for (int l = 0; l < 3; l++) {
        const struct map *R = net.maps.item[3 * l], *W1 = net.maps.item[3 * l + 1],
                         *W2 = net.maps.item[3 * l + 2];
        struct map_numbers a = W1->numbers, b = W2->numbers, c = R->numbers;
        assert_true(a.fg == 1 && a.fr == 0);
        assert_true(b.fg == 0 && b.fr == 1.0 / 3); /* 1/L, L = 3 */
        assert_true(c.fg == 0 && c.fr == 0);
        assert_int_equal(map_rank(W1, true), 5);
        assert_int_equal(map_rank(W2, false), 5);
        assert_int_equal(map_rank(R, true), 5);
        assert_int_equal(map_rank(W1, false), 0);
    }
    assert_int_equal(net.populations.item[0]->span.rows.rows, 5);
}
