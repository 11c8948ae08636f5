/* The network of models/regime2.c with explicit matrices, judged twice: by finite differences of
 * the loss in every parameter, and by the plain-loop oracle (tests/oracles/oracle_regime2.c) in the
 * forward pass, the kernels and the parameters over several training steps. */
#include "tests/support/oracles.h"
#include "tests/oracles/oracle_regime2.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void gradient_by_differences(void **state) {
    (void)state;
    const char *const cases[][6] = {
        {"network.gate=sigmoid", "network.beta=0.8"},
        {"network.gate=softmax", "network.beta=0.7"},
        {"network.gate=constant"},
        {"network.gate=sigmoid", "network.rho=0.5", "network.aggregation=K"},
        {"network.gate=softmax", "network.rho=0.25", "network.lambda_in=kappa"},
        {"network.gate=sigmoid", "training.loss=logistic", "network.activation=gelu"},
        {"network.parameterization=mup", "network.activation=softplus"},
        {"network.activation=erf", "network.gate=softmax", "reference.centre=no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *overrides[16] = {"network.kappa=0.5", "network.expert_width=3",
                                     "training.eta0=0.2", "data.inputs=3", "data.dimension=5"};
        memcpy(overrides + 5, cases[i], sizeof cases[i]);
        struct run run;
        support_run(&run, "data/regime2.ini", overrides);
        support_gradient(&run, 16, 7);
        run_free(&run);
    }
}

struct pair {
    struct run run;
    struct net net;
    struct oracle *oracle;
    double *A, *B; /* of the inputs: X/sqrt(D) = A B */
    int K;
};

/* The parameters of the net in the normalisation of the oracle. */
static void copy_parameters(struct pair *p, double *W1, double *Q, double *W2in, double *W2out,
                            double *w4) {
    const struct net *net = &p->net;
    const struct oracle *o = p->oracle;
    bool router = o->gate != ORACLE_CONSTANT;
    struct map *const *map = net->map;
    double *columns = support_get(array_all(&net->thin[0]->W)); /* [K][N] */
    for (int n = 0; n < o->N; n++)
        for (int d = 0; d < o->D; d++) {
            W1[n * o->D + d] = 0;
            for (int k = 0; k < p->K; k++)
                W1[n * o->D + d] += columns[k * o->N + n] * p->B[k * o->D + d];
        }
    free(columns);
    if (router)
        support_copy(Q, array_all(support_entries(map[0])), sqrt(o->N));
    support_copy(W2in, array_all(support_entries(map[router])), sqrt(o->N));
    support_copy(W2out, array_all(support_entries(map[router + 1])), sqrt(o->M * o->Ne));
    support_copy(w4, array_all(&net->thin[1]->W), 1);
}

static void make_pair(struct pair *p, const char *const *overrides, int N) {
    support_run(&p->run, "data/regime2.ini", overrides);
    support_net(&p->net, &p->run, N, 3);
    const struct config *c = &p->run.config;
    const struct data *data = &p->run.data;
    int M = (int)lround(c->network.kappa * N);
    ASK(thin_coordinates(data->X, data->P, data->D, &p->A, &p->B, &p->K, err));
    struct oracle *o = oracle_new(data->P, data->D, N, M, c->network.expert_width);
    p->oracle = o;
    o->activation = oracles_activation(c->network.activation);
    o->gate = c->network.gate == GATE_SOFTMAX    ? ORACLE_SOFTMAX
              : c->network.gate == GATE_CONSTANT ? ORACLE_CONSTANT
              : c->network.aggregation           ? ORACLE_SIGMOID_K
                                                 : ORACLE_SIGMOID_M;
    o->loss = c->training.loss == &loss_mse ? ORACLE_MSE : ORACLE_LOGISTIC;
    o->gamma0 = c->training.gamma0;
    o->beta = c->network.beta;
    o->rho = c->network.rho;
    o->eta0 = c->training.eta0;
    o->lambda_in = c->network.lambda_in == LAMBDA_IN_KAPPA ? c->network.kappa : 1;
    memcpy(o->X, data->X, (size_t)(data->P * data->D) * sizeof *o->X);
    memcpy(o->y, data->y, (size_t)data->P * sizeof *o->y);
    copy_parameters(p, o->W1, o->Q, o->W2in, o->W2out, o->w4);
    oracle_forward(o);
    if (c->reference.centre)
        oracle_centre_here(o);
}

static void free_pair(struct pair *p) {
    oracle_free(p->oracle);
    net_free(&p->net);
    run_free(&p->run);
    free(p->A);
    free(p->B);
}

static void check_kernels(const struct pair *p, double tolerance, const char *what) {
    static const struct {
        const char *name;
        double (*want)(const struct oracle *, int, int); /* NULL: G3 */
    } known[] = {{"Phi1", oracle_phi1}, {"Phi3", oracle_phi3}, {"G1", oracle_g1},    {"G3", NULL},
                 {"Phib", oracle_phib}, {"Gb", oracle_gb},     {"Gphi", oracle_gphi}};
    enum { KNOWN = sizeof known / sizeof *known };
    const struct net *net = &p->net;
    int P = p->run.data.P;
    double K[64];
    assert_true(net->kernels >= KNOWN - 1); /* a constant gate has no Gphi */
    for (int k = 0; k < net->kernels; k++) {
        struct rows rows = net->kernel[k].rows;
        int of = 0;
        while (of < KNOWN && strcmp(known[of].name, net->kernel[k].name))
            of++;
        assert_true(of < KNOWN);
        rows.array->backend->dots(rows, rows, K);
        for (int a = 0; a < rows.count * rows.count; a++) {
            double oracle =
                known[of].want ? known[of].want(p->oracle, a / P, a % P) : oracle_g3(p->oracle);
            CHECK_ABS(net->kernel[k].scale * K[a], oracle, tolerance * fmax(1, fabs(oracle)),
                      "%s: kernel %s[%d]", what, net->kernel[k].name, a);
        }
    }
}

static void check_blocks(struct pair *p, double tolerance, const char *what) {
    const struct oracle *o = p->oracle;
    int size[] = {o->N * o->D, o->M * o->N, o->M * o->Ne * o->N, o->N * o->M * o->Ne, o->N};
    double *got[ORACLE_BLOCKS], *W1 = calloc((size_t)size[0], sizeof *W1);
    for (int B = 0; B < ORACLE_BLOCKS; B++)
        got[B] = calloc((size_t)size[B], sizeof *got[B]);
    copy_parameters(p, got[0], got[1], got[2], got[3], got[4]);
    for (int B = 0; B < ORACLE_BLOCKS; B++) {
        int count;
        const double *want = oracle_block(p->oracle, B, &count);
        assert_int_equal(count, size[B]);
        /* W1 outside of the span of the inputs never moves nor enters: compare W1 x. */
        for (int k = 0;
             k < count && B != ORACLE_W1 && !(B == ORACLE_Q && o->gate == ORACLE_CONSTANT); k++)
            CHECK_ABS(got[B][k], want[k], tolerance * fmax(1, fabs(want[k])),
                      "%s: block %d entry %d", what, B, k);
    }
    for (int n = 0; n < o->N; n++)
        for (int mu = 0; mu < o->P; mu++) {
            double a = 0, b = 0;
            for (int d = 0; d < o->D; d++) {
                a += got[0][n * o->D + d] * o->X[mu * o->D + d] / sqrt(o->D);
                b += o->W1[n * o->D + d] * o->X[mu * o->D + d] / sqrt(o->D);
            }
            CHECK_ABS(a, b, tolerance * fmax(1, fabs(b)), "%s: h1 of input %d", what, mu);
        }
    for (int B = 0; B < ORACLE_BLOCKS; B++)
        free(got[B]);
    free(W1);
}

/* All sums have fewer than 200 terms of order one: round-off is below 200 eps = 4e-14 and the four
 * steps amplify it by no more than the loss falls, 10: 1e-12. */
static void compare(const char *const *overrides, int N) {
    struct pair p;
    char what[256] = "";
    for (int i = 5; overrides[i]; i++)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s ", overrides[i]);
    make_pair(&p, overrides, N);
    for (int t = 0; t < 4; t++) {
        support_evaluate(&p.net, &p.run);
        double loss = oracle_forward(p.oracle);
        oracle_backward(p.oracle);
        CHECK_ABS(p.net.loss, loss, 1e-12, "%s: loss at %d", what, t);
        for (int mu = 0; mu < p.run.data.P; mu++)
            CHECK_ABS(p.net.f[mu], p.oracle->f[mu], 1e-12, "%s: f[%d] at %d", what, mu, t);
        check_kernels(&p, 1e-12, what);
        support_learn(&p.net, &p.run);
        oracle_step(p.oracle);
        check_blocks(&p, 1e-12, what);
    }
    free_pair(&p);
}

static void equals_oracle(void **state) {
    (void)state;
    static const char *const gates[][2] = {{"network.gate=sigmoid", NULL},
                                           {"network.gate=sigmoid", "network.aggregation=K"},
                                           {"network.gate=softmax", NULL},
                                           {"network.gate=constant", NULL}};
    static const char *const activations[] = {
        "network.activation=tanh", "network.activation=erf",      "network.activation=relu",
        "network.activation=gelu", "network.activation=softplus", "network.activation=linear"};
    for (int gate = 0; gate < 4; gate++)
        for (int activation = 0; activation < 6; activation++)
            for (int variant = 0; variant < 8; variant++) {
                const char *overrides[16] = {"network.kappa=0.5", "network.expert_width=3",
                                             "training.eta0=0.2", "data.inputs=4",
                                             "data.dimension=5",  activations[activation],
                                             gates[gate][0]};
                int n = 7;
                if (gates[gate][1])
                    overrides[n++] = gates[gate][1];
                overrides[n++] =
                    variant & 1 ? "network.parameterization=mup" : "network.parameterization=mssp";
                overrides[n++] = variant & 2 ? "training.loss=logistic" : "training.loss=mse";
                overrides[n++] = variant & 2 ? "reference.centre=no" : "reference.centre=yes";
                overrides[n++] = variant & 4 ? "network.lambda_in=kappa" : "training.gamma0=1.5";
                if (variant & 4 && gate < 3)
                    overrides[n++] = "network.rho=0.5";
                compare(overrides, 16);
            }
}

/* More inputs than dimensions, repeated inputs, kappa above one. */
static void equals_oracle_odd_shapes(void **state) {
    (void)state;
    const char *const wide[] = {"network.kappa=1.5",
                                "network.expert_width=1",
                                "training.eta0=0.2",
                                "data.inputs=7",
                                "data.dimension=3",
                                "training.gamma0=0.3",
                                NULL};
    const char *const single[] = {"network.kappa=0.25",
                                  "network.expert_width=5",
                                  "training.eta0=0.4",
                                  "data.inputs=1",
                                  "data.dimension=1",
                                  "network.gate=softmax",
                                  NULL};
    compare(wide, 12);
    compare(single, 12);
}

/* The same configuration at N = 64 and 512: the first change of f is of order one at every width
 * (muP and MSSP are defined by it). It fluctuates as N^{-1/2}; a lost power of N would be a factor
 * sqrt 8 or more. */
static void scalings_independent_of_width(void **state) {
    (void)state;
    const char *const mssp[] = {"reference.draws=balanced", NULL};
    struct run run;
    support_run(&run, "data/regime2.ini", mssp);
    double change[2] = {0, 0};
    for (int w = 0; w < 2; w++)
        for (int seed = 0; seed < 8; seed++) {
            struct net net;
            support_net(&net, &run, w ? 512 : 64, seed);
            support_evaluate(&net, &run);
            support_learn(&net, &run);
            support_evaluate(&net, &run);
            for (int mu = 0; mu < run.data.P; mu++)
                change[w] += fabs(net.f[mu]) / (8 * run.data.P);
            net_free(&net);
        }
    assert_true(change[0] > 0.01);
    CHECK_ABS(change[1] / change[0], 1, 0.4, "change of f, N = 512 against 64");
    run_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_by_differences),
        cmocka_unit_test(equals_oracle),
        cmocka_unit_test(equals_oracle_odd_shapes),
        cmocka_unit_test(scalings_independent_of_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
