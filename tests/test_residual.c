/* The network of models/residual.c with explicit matrices, judged by finite differences of the loss
 * and by the plain-loop oracle (tests/oracles/oracle_residual.c, itself judged by differences). */
#include "tests/support/oracles.h"
#include "models/routing/balance.h"
#include "models/residual.h"
#include "tests/oracles/oracle_residual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rates of the theory page, in the entries of the maps: N_e E L/N for W1 and W2, E L/N for the
 * router, 1 for W0 and w. */
static double lambda(const struct net *net, int parameter) {
    const struct parameter *p = &net->parameter[parameter];
    double N = net->setup.N, L = net->setup.network->depth;
    if (!p->map)
        return 1;
    const struct population *stream = net->population[0];
    const struct map_declaration *map = &p->map->declared;
    return L / N * (double)(map->source == stream ? map->target : map->source)->sites;
}

static const char *const cases[][6] = {
    {"network.depth=1", "network.alpha=0.5", "network.experts=4"},
    {"network.depth=2", "network.alpha=1", "network.experts=1"},
    {"network.depth=3", "network.alpha=0.25", "network.experts=4"},
    {"network.depth=2", "network.alpha=0.5", "network.experts=4", "network.rho=0.5"},
    {"network.depth=3", "network.alpha=0.5", "network.experts=8", "network.rho=0.25",
     "network.bias_draws=normal"},
    {"network.depth=1", "network.alpha=2", "network.expert_width=2", "network.rho=0.25"},
    {"network.depth=2", "network.alpha=0.5", "network.expert_width=4", "network.q0=0.7"},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Biases that spread wider than a difference moves a gate: no mask flips inside a difference. */
static void configure(struct run *run, const char *const *more) {
    const char *overrides[16] = {
        "network.rho=1",       "data.inputs=3",        "data.dimension=5",    "training.eta0=0.2",
        "training.gamma0=1.5", "network.bias_std=0.3", "network.eta_bias=0.1"};
    int first = 7;
    for (int i = 0; i < 6 && more[i]; i++) {
        int at = strncmp(more[i], "network.rho", 11) ? first++ : 0;
        overrides[at] = more[i];
    }
    support_run(run, "data/residual.ini", overrides);
}

static void gradient_by_differences(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct run run;
        configure(&run, cases[i]);
        support_gradient_rates(&run, 16, 29, lambda);
        run_free(&run);
    }
}

struct pair {
    struct run run;
    struct net net;
    struct oracle_residual *oracle;
    double *A, *B; /* of the inputs: X/sqrt(D) = A B */
    int K;
};

/* dst = factor times the matrix of a map. */
static void copy_map(double *dst, const struct map *map, double factor) {
    double *W = support_matrix(map);
    for (size_t i = 0; i < map->declared.target->sites * map->declared.source->sites; i++)
        dst[i] = factor * W[i];
    free(W);
}

/* A parameter block of the net in the normalisation of the oracle. */
static void copy_block(const struct pair *p, int block, double *out) {
    const struct oracle_residual *o = p->oracle;
    int units = o->E * o->Ne, N = o->N;
    for (int l = 0; l < o->L; l++) {
        if (block == ORACLE_RESIDUAL_W1)
            copy_map(out + l * units * N, support_map(&p->net, "W1_%d", l), sqrt(N));
        if (block == ORACLE_RESIDUAL_W2)
            copy_map(out + l * N * units, support_map(&p->net, "W2_%d", l), sqrt(units));
        if (block == ORACLE_RESIDUAL_R)
            copy_map(out + l * o->E * N, support_map(&p->net, "R_%d", l), N);
    }
    if (block == ORACLE_RESIDUAL_W)
        support_copy(out, array_all(&p->net.thin[1]->W), 1);
    if (block != ORACLE_RESIDUAL_W0)
        return;
    double *columns = support_get(array_all(&p->net.thin[0]->W)); /* [K][N] */
    for (int n = 0; n < N; n++)
        for (int d = 0; d < o->D; d++) {
            out[n * o->D + d] = 0;
            for (int k = 0; k < p->K; k++)
                out[n * o->D + d] += columns[k * N + n] * p->B[k * o->D + d];
        }
    free(columns);
}

static void make_pair(struct pair *p, const char *const *more, int N) {
    double E, N_e;
    configure(&p->run, more);
    support_net(&p->net, &p->run, N, 3);
    const struct config *c = &p->run.config;
    const struct data *data = &p->run.data;
    ASK(thin_coordinates(data->X, data->P, data->D, &p->A, &p->B, &p->K, err));
    residual_shape(&c->network, N, &E, &N_e);
    struct oracle_residual *o = oracle_residual_new(data->P, data->D, N, (int)lround(E),
                                                    (int)lround(N_e), c->network.depth);
    p->oracle = o;
    o->gamma0 = c->training.gamma0;
    o->eta0 = c->training.eta0;
    o->rho = c->network.rho;
    o->eta_b = c->network.eta_bias;
    memcpy(o->X, data->X, (size_t)(data->P * data->D) * sizeof *o->X);
    memcpy(o->y, data->y, (size_t)data->P * sizeof *o->y);
    for (int block = 0, count; block < ORACLE_RESIDUAL_BLOCKS; block++)
        copy_block(p, block, oracle_residual_block(o, block, &count));
    for (int l = 0; l < o->L; l++)
        balance_biases(&p->net.setup, l, o->E, o->b + l * o->E);
    oracle_residual_forward(o);
    memcpy(o->f0, o->f, (size_t)o->P * sizeof *o->f);
    o->centre = true;
}

static void free_pair(struct pair *p) {
    oracle_residual_free(p->oracle);
    net_free(&p->net);
    run_free(&p->run);
    free(p->A);
    free(p->B);
}

static void check_kernels(const struct pair *p, double tolerance) {
    typedef double (*kernel)(const struct oracle_residual *, int, int, int);
    static const struct {
        const char *name;
        kernel of;
    } all[] = {{"Ch", oracle_residual_Ch},
               {"Cg", oracle_residual_Cg},
               {"Mphi", oracle_residual_Mphi},
               {"Mg", oracle_residual_Mg},
               {"MAA", oracle_residual_MAA}};
    const struct net *net = &p->net;
    int P = p->oracle->P, L = p->oracle->L;
    double K[64];
    assert_int_equal(net->kernels, 5 * L + 2);
    for (int i = 0; i < net->kernels; i++) {
        struct rows rows = net->kernel[i].rows;
        size_t length = strcspn(net->kernel[i].name, "_");
        int l = atoi(net->kernel[i].name + length + 1), k = 0;
        while (strlen(all[k].name) != length || strncmp(all[k].name, net->kernel[i].name, length))
            k++;
        rows.array->backend->dots(rows, rows, K);
        for (int a = 0; a < P * P; a++) {
            double want = all[k].of(p->oracle, l, a / P, a % P);
            CHECK_ABS(net->kernel[i].scale * K[a], want, tolerance * fmax(1, fabs(want)),
                      "kernel %s[%d]", net->kernel[i].name, a);
        }
    }
}

static void check_numbers(const struct pair *p, double tolerance) {
    const struct oracle_residual *o = p->oracle;
    for (int a = 0; a < o->L * o->P; a++) {
        double mean_p = 0, p2 = 0, A = 0;
        for (int k = 0; k < o->E; k++) {
            mean_p += o->p[a * o->E + k] / o->E;
            p2 += o->p[a * o->E + k] * o->p[a * o->E + k] / o->E;
            A += o->A[a * o->E + k] / o->E;
        }
        CHECK_ABS(support_measured(&p->net, "p")[a], mean_p, tolerance, "p[%d]", a);
        CHECK_ABS(support_measured(&p->net, "p2")[a], p2, tolerance, "p2[%d]", a);
        CHECK_ABS(support_measured(&p->net, "A")[a], A, tolerance * fmax(1, fabs(A)), "A[%d]", a);
        if (o->rho < 1)
            CHECK_ABS(support_measured(&p->net, "qstar")[a], o->qstar[a], tolerance, "qstar[%d]",
                      a);
    }
    for (int l = 0; l < o->L && o->rho < 1; l++) {
        double b = 0, b2 = 0;
        for (int k = 0; k < o->E; k++) {
            b += o->b[l * o->E + k] / o->E;
            b2 += o->b[l * o->E + k] * o->b[l * o->E + k] / o->E;
        }
        CHECK_ABS(support_measured(&p->net, "b2")[l], b2 - b * b, tolerance, "b2[%d]", l);
        CHECK_ABS(support_measured(&p->net, "load2")[l], oracle_residual_load2(o, l), tolerance,
                  "load2[%d]", l);
    }
}

/* W0 outside of the span of the inputs never moves nor enters: W0 x is compared, by Ch_0. */
static void check_blocks(const struct pair *p, double tolerance) {
    for (int block = ORACLE_RESIDUAL_W1, count; block < ORACLE_RESIDUAL_BLOCKS; block++) {
        const double *want = oracle_residual_block(p->oracle, block, &count);
        double *got = calloc((size_t)count, sizeof *got);
        copy_block(p, block, got);
        for (int k = 0; k < count; k++)
            CHECK_ABS(got[k], want[k], tolerance * fmax(1, fabs(want[k])), "block %d entry %d",
                      block, k);
        free(got);
    }
}

/* Sums of fewer than 300 terms of order one: round-off below 300 eps = 7e-14, amplified by the
 * steps by no more than the loss falls, 10: 1e-12. */
static void equals_oracle(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct pair p;
        make_pair(&p, cases[i], 16);
        for (int t = 0; t < 5; t++) {
            support_evaluate(&p.net, &p.run);
            double loss = oracle_residual_forward(p.oracle);
            oracle_residual_backward(p.oracle);
            CHECK_ABS(p.net.loss, loss, 1e-12, "case %d: loss at %d", i, t);
            for (int mu = 0; mu < p.run.data.P; mu++)
                CHECK_ABS(p.net.f[mu], p.oracle->f[mu], 1e-12, "case %d: f[%d] at %d", i, mu, t);
            check_kernels(&p, 1e-12);
            check_numbers(&p, 1e-12);
            support_learn(&p.net, &p.run);
            oracle_residual_step(p.oracle);
            check_blocks(&p, 1e-12);
        }
        assert_true(p.net.loss < 0.45); /* it did train */
        free_pair(&p);
    }
}

static double loss_with_held_mask(void *oracle) {
    struct oracle_residual *o = oracle;
    o->hold_mask = true;
    double loss = oracle_residual_forward(o);
    o->hold_mask = false;
    return loss;
}

/* Leaves the mask that is held next. */
static double step_of(void *oracle) {
    oracle_residual_forward(oracle);
    oracle_residual_backward(oracle);
    oracle_residual_step(oracle);
    return oracle_residual_forward(oracle);
}

static void oracle_by_differences(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct pair p;
        struct oracles_parameter all[ORACLE_RESIDUAL_BLOCKS];
        char what[24];
        make_pair(&p, cases[i], 16);
        for (int k = 0; k < ORACLE_RESIDUAL_BLOCKS; k++) {
            all[k].w = oracle_residual_block(p.oracle, k, &all[k].count);
            all[k].rate = oracle_residual_rate(p.oracle, k);
        }
        step_of(p.oracle);
        snprintf(what, sizeof what, "case %d", i);
        oracles_judge(p.oracle, loss_with_held_mask, step_of, all, ORACLE_RESIDUAL_BLOCKS, 41,
                      what);
        free_pair(&p);
    }
}

/* Sizes that no network can have. */
static void sizes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *first, *second, *part;
    } refusals[] = {
        {"network.expert_width=4", "network.depth=1", "of infinite width only"},
        {"network.rho=0.3", "network.depth=1", "rho times the number of experts"},
        {"solver.expert_sites=30", "network.depth=1", "(limit: expert_sites = 30)"},
        {"network.alpha=0.7", "network.depth=1", "units per expert"},
        {"network.experts=3", "network.rho=1", "N^2/E"},
        {"network.alpha=0.5", "network.expert_width=3", "N/(alpha N_e) must be whole"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char first[64], second[64], *overrides[] = {first, second};
        struct run run = {0};
        struct err err = {0};
        snprintf(first, sizeof first, "%s", refusals[i].first);
        snprintf(second, sizeof second, "%s", refusals[i].second);
        assert_int_equal(run_configure(&run, "data/residual.ini", 2, overrides, &err), CODE_INPUT);
        if (!strstr(err.text, refusals[i].part))
            fail_msg("%s: %s", refusals[i].first, err.text);
        run_free(&run);
    }
}

/* data source = multi_index: the inputs of gaussian, and the target that the key states; of the
 * fewest dimensions that it can have. */
static void multi_index_target(void **state) {
    (void)state;
    struct run run, plain;
    support_run(&run, "data/residual_multi_index.ini",
                (const char *const[]){"data.dimension=4", NULL});
    support_run(&plain, "data/residual_multi_index.ini",
                (const char *const[]){"data.dimension=4", "data.source=gaussian", NULL});
    int P = run.data.P, D = run.data.D;
    assert_memory_equal(run.data.X, plain.data.X, (size_t)(P * D) * sizeof *run.data.X);
    for (int mu = 0; mu < P; mu++) {
        const double *x = run.data.X + mu * D;
        CHECK_ABS(run.data.y[mu], x[0] * (1 + x[1] * (1 + x[2] * (1 + x[3]))) / 2, 1e-14, "y[%d]",
                  mu);
    }
    run_free(&run);
    run_free(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_by_differences), cmocka_unit_test(gradient_by_differences),
        cmocka_unit_test(equals_oracle),         cmocka_unit_test(sizes_are_refused),
        cmocka_unit_test(multi_index_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
