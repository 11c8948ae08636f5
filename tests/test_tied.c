/* A matrix with several uses (examples/tied.lua, h_l+1 = h_l + (b/L) W sigma(h_l)): networks
 * against an oracle, which is that of the network with L matrices (oracle_resnet) where these
 * are equal at every step and each learns what all of them do; the limit of a linear network
 * against its closed form; and that tying is seen. Its gradients, bits and memory are judged by
 * test_models, the limit beside networks by test_networks, tied matrices anywhere by test_program.
 */
#include "tests/support/support.h"
#include "tests/oracles/oracle.h"
#include "solver/measure/record.h"

static const char *const cases[][5] = {
    {"program.depth=1"},
    {"program.depth=2", "program.branch=1.7", "network.activation=erf"},
    {"program.depth=4", "program.branch=3", "network.activation=gelu"},
    {"program.depth=5", "network.activation=softplus", "training.gamma0=0.4"},
    {"program.depth=3", "data.inputs=1", "data.dimension=1", "training.eta0=0.4"},
};
static const STRUCT(int L; double branch; enum oracle_activation activation) wanted[] =
    LIST({1, 1, ORACLE_TANH}, {2, 1.7, ORACLE_ERF}, {4, 3, ORACLE_GELU}, {5, 1, ORACLE_SOFTPLUS},
         {3, 1, ORACLE_TANH});
enum { CASES = sizeof cases / sizeof *cases, WIDTH = 14 };

static void configure(struct run *run, const char *const *more) {
    const char *overrides[16] = {"data.inputs=3", "data.dimension=5", "training.eta0=0.2",
                                 "training.gamma0=1.5", "reference.centre=no"};
    memcpy(overrides + 5, more, sizeof cases[0]);
    support_run(run, "examples/tied.ini", overrides);
}

/* The weights of the net, in the oracle's normalisation: variance one. */
static struct oracle *copy(const struct run *run, const struct net *net, int i) {
    const struct data *data = &run->data;
    int N = WIDTH, D = data->D, K;
    double *A, *B, *block, *W = support_matrix(support_map(net, "W")),
                           *W0 = support_get(array_all(&support_thin(net, "W0")->W));
    struct oracle *o = oracle_new((
        struct oracle)LIST(.network = &oracle_resnet, .P = data->P, .D = D, .N = N,
                           .L = wanted[i].L, .activation = wanted[i].activation,
                           .gamma0 = run->config.training.gamma0, .eta0 = run->config.training.eta0,
                           .branch = wanted[i].branch / sqrt(wanted[i].L)));
    ASK(thin_coordinates(data->X, data->P, D, &A, &B, &K, err));
    memcpy(o->X, data->X, (size_t)(data->P * D) * sizeof *o->X);
    memcpy(o->y, data->y, (size_t)data->P * sizeof *o->y);
    support_copy(o->block[1].w, array_all(&support_thin(net, "w")->W), 1);
    block = o->block[0].w;
    for (int n = 0; n < N * D; n++)
        for (int k = 0; k < K; k++)
            block[n] += W0[k * N + n / D] * B[k * D + n % D];
    for (int l = 0; l < o->L; l++)
        for (int k = 0; k < N * N; k++)
            o->block[2 + l].w[k] = sqrt(N) * W[k];
    free(A);
    free(B);
    free(W);
    free(W0);
    return o;
}

/* Each of the L matrices has moved by what its own place asks for: all move by the sum. */
static void tie(struct oracle *o, double *W) {
    int NN = o->N * o->N;
    for (int k = 0; k < NN; k++) {
        double moved = W[k];
        for (int l = 0; l < o->L; l++)
            moved += o->block[2 + l].w[k] - W[k];
        W[k] = moved;
    }
    for (int l = 0; l < o->L; l++)
        memcpy(o->block[2 + l].w, W, (size_t)NN * sizeof *W);
}

static void check_kernels(const struct net *net, const struct oracle *o, int i) {
    double K[64];
    assert_int_equal(net->kernels.count, 2 * o->L + 1);
    for (int k = 0; k < net->kernels.count; k++) {
        struct rows rows = net->kernels.item[k].rows;
        const char *name = net->kernels.item[k].name;
        rows.array->backend->dots(rows, rows, K);
        for (int a = 0; a < rows.count * rows.count; a++) {
            int mu = a / rows.count, nu = a % rows.count;
            TEXT(kept, 8, "%s_%c", name[0] == 'C' ? "Ch" : "Cg", name[2]);
            double want = oracle_kernel(o, kept, mu, nu);
            CHECK_ABS(K[a], want, 1e-12 * fmax(1, fabs(want)), "case %d: %s[%d]", i, name, a);
        }
    }
}

/* Sums have fewer than 200 terms of order one: round-off is below 200 eps = 4e-14, amplified in
 * four steps by no more than the loss falls, 10: 1e-12. */
TEST(equals_oracle) {
    for (int i = 0; i < CASES; i++) {
        RUN_AND_NET;
        configure(&run, cases[i]);
        support_net(&net, &run, WIDTH, 3);
        struct oracle *o = copy(&run, &net, i);
        double *W = calloc((size_t)(WIDTH * WIDTH), sizeof *W);
        memcpy(W, o->block[2].w, (size_t)(WIDTH * WIDTH) * sizeof *W);
        for (int t = 0; t < 4; t++) {
            support_evaluate(&net, &run);
            double loss = oracle_forward(o);
            CHECK_ABS(net.output.loss, loss, 1e-12, "case %d: loss at %d", i, t);
            for (int mu = 0; mu < run.data.P; mu++)
                CHECK_ABS(net.output.f[mu], o->f[mu], 1e-12 * fmax(1, fabs(o->f[mu])),
                          "case %d: f[%d] at %d", i, mu, t);
            check_kernels(&net, o, i);
            support_learn(&net, &run);
            oracle_step(o);
            tie(o, W);
            FREED(base_free) double *got = support_matrix(support_map(&net, "W"));
            for (int k = 0; k < WIDTH * WIDTH; k++)
                CHECK_ABS(sqrt(WIDTH) * got[k], W[k], 1e-12 * fmax(1, fabs(W[k])),
                          "case %d: entry %d of W after %d", i, k, t);
        }
        free(W);
        oracle_free(o);
    }
}

/* Powers of W(0) of an infinite network make rows that are orthogonal and as long as what they act
 * on: h_l = (1 + (b/L) W)^l h_0 has <h_l h_l> = sum_k binomial(l, k)^2 (b/L)^2k <h_0 h_0>, untied
 * blocks (1 + (b/L)^2)^l of it; the cotangent likewise from the top. A linear limit has no sampling
 * error: round-off of 256 sites and a few matrices, 1e-12. */
TEST(closed_forms) {
    const int L = 4;
    const double scale2 = 9. / 16;
    RUN_AND_NET;
    double grown[5], got[16];
    support_run(&run, "examples/tied.ini",
                ARGS("network.activation=linear", "program.branch=3", "solver.sites=256"));
    support_begin(&net, &run, 0, 0);
    for (int l = 0; l <= L; l++) {
        double binomial = 1;
        grown[l] = 0;
        for (int k = 0; k <= l; k++) {
            grown[l] += binomial * binomial * pow(scale2, k);
            binomial *= (double)(l - k) / (k + 1);
        }
    }
    assert_int_equal(net.kernels.count, 2 * L + 1);
    for (int k = 0; k < net.kernels.count; k++) {
        const char *name = net.kernels.item[k].name;
        int l = name[2] - '0', P = run.data.P, D = run.data.D;
        struct rows rows = net.kernels.item[k].rows;
        rows.array->backend->dots(rows, rows, got);
        for (int i = 0; i < rows.count * rows.count; i++) {
            double K = 1;
            for (int d = 0; d < D && name[0] == 'C'; d++)
                K = (d ? K : 0) + run.data.X[i / P * D + d] * run.data.X[i % P * D + d] / D;
            CHECK_ABS(got[i], grown[name[0] == 'C' ? l : L - l] * K, 1e-12 * grown[L], "%s[%d]",
                      name, i);
        }
    }
}

/* Of a program and of one whose blocks have a matrix each, all else equal: the limits differ by
 * more than ten standard errors. */
TEST(tying_is_seen) {
    const char *const ini[] = {"examples/tied.ini", "data/resnet.ini"};
    double loss[2], se[2];
    for (int k = 0; k < 2; k++) {
        const char *const overrides[] = LIST(
            "data.inputs=4", "data.dimension=10", "data.source=gaussian", "training.steps=10",
            "training.eta0=0.1", "training.gamma0=1", "solver.sites=1024", "solver.replicates=8",
            "solver.tolerance=1e-3", k ? "network.depth=4" : "program.depth=4",
            k ? "network.branch=1.5" : "program.branch=3", NULL);
        RUN_AND_RECORD;
        support_run(&run, ini[k], overrides);
        ASK(run_ensemble(&run, 0, 8, &record, err));
        support_entry(&record, "loss", 9, &loss[k], &se[k]);
    }
    double z = (loss[0] - loss[1]) / hypot(se[0], se[1]);
    print_message("loss %.4f(%.4f), untied %.4f(%.4f): z = %.1f\n", loss[0], se[0], loss[1], se[1],
                  z);
    assert_true(fabs(z) > 10);
}
