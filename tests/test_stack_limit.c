/* Stacks as a whole: one block is the network of its regime, bit for bit; the limit against closed
 * forms and beside networks. The argument `long` takes more widths, seeds and sites. */
#include "tests/support/support.h"

/* --- one block ------------------------------------------------------------------------------- */

#define CHEAP                                                                                      \
    "training.steps=5", "data.inputs=3", "solver.sites=48", "solver.replicates=2",                 \
        "reference.seeds=2", "reference.widths=16", "output.kernels=full"

/* NAME of the network is NAME, NAME_0 or NAME_0_I of the stack. */
static const struct series *series_of(const struct record *stack, const char *name) {
    char found[64];
    const char *end = strchr(name, '_');
    size_t length = end ? (size_t)(end - name) : strlen(name);
    if (record_find(stack, name))
        return record_find(stack, name);
    snprintf(found, sizeof found, "%.*s_0%s", (int)length, name, end ? end : "");
    return record_find(stack, found);
}

static int same_bits(const struct record *network, const struct record *stack) {
    int compared = 0;
    for (int k = 0; k < network->count; k++) {
        const struct series *one = &network->series[k], *other = series_of(stack, one->name);
        if (!other)
            continue; /* the kernels of its ends, which a stack calls Ch_l and Cg_l */
        assert_int_equal(one->size, other->size);
        size_t bytes = one->size * sizeof(double);
        for (int run = 0; run < network->runs; run++)
            if (memcmp(record_at(network, one, run, 0), record_at(stack, other, run, 0), bytes))
                fail_msg("%s differs", one->name);
        compared++;
    }
    return compared;
}

static void one_block(int regime, const char *parameterization, bool adam) {
    char ini[32], mixture[40], given[48];
    snprintf(ini, sizeof ini, "data/regime%d.ini", regime);
    snprintf(mixture, sizeof mixture, "network.mixture=regime%d", regime);
    snprintf(given, sizeof given, "network.parameterization=%s", parameterization);
    const char *overrides[24] = {CHEAP, given};
    int n = 8;
    if (adam)
        overrides[n++] = "training.optimizer=adam", overrides[n++] = "training.eta0=0.05";
    if (regime == 1)
        overrides[n++] = "network.iota=0.5", overrides[n++] = "network.expert_activation=relu";
    if (regime == 3)
        overrides[n++] = "solver.expert_sites=12", overrides[n++] = "solver.unit_sites=12";
    if (regime == 2)
        overrides[n++] = "solver.expert_sites=24";
    FREED(run_free) struct run network, stack;
    support_run(&network, ini, overrides);
    overrides[n++] = "network.model=stack";
    overrides[n++] = mixture;
    overrides[n++] = "network.depth=1";
    overrides[n++] = "network.stream=no";
    support_run(&stack, ini, overrides);
    for (int N = 0; N <= 16; N += 16) {
        FREED(record_free) struct record a, b;
        ASK(run_ensemble(&network, N, 2, &a, err));
        ASK(run_ensemble(&stack, N, 2, &b, err));
        int compared = same_bits(&a, &b);
        print_message("%s %s, %s, N = %d: %d series\n", ini, parameterization, adam ? "adam" : "gd",
                      N, compared);
        assert_true(compared >= 6);
    }
}

TEST(one_block_is_the_network) {
    for (int regime = 1; regime <= 3; regime++)
        for (int adam = 0; adam < 2; adam++) {
            one_block(regime, "mup", adam);
            one_block(regime, "mssp", adam);
        }
}

/* --- the limit beside networks --------------------------------------------------------------- */

struct score {
    double largest, squares;
    int count;
    char worst[64];
};

/* z of the extrapolation a + b/N. */
static void judge(const struct run *run, const struct record *limit, const struct record *networks,
                  const char *name, int t, struct score *score) {
    struct stats_mean mean[INT_LIST_MAX];
    double exact, exact_se;
    const struct int_list *widths = &run->config.reference.widths;
    size_t entry = (size_t)t * (record_find(limit, name)->size / (size_t)limit->T);
    support_entry(limit, name, entry, &exact, &exact_se);
    support_means(networks, widths->count, name, entry, mean);
    struct stats_fit line = stats_extrapolate(widths->value, mean, widths->count);
    double z = (line.a - exact) / hypot(line.se, exact_se);
    score->squares += z * z;
    score->count++;
    if (fabs(z) > score->largest) {
        score->largest = fabs(z);
        snprintf(score->worst, sizeof score->worst, "%s at t = %d", name, t);
    }
}

/* |z| <= 4: once in 16 000 independent entries; entries share networks, so rms <= 2. */
static void compare(const char *const *overrides) {
    static const char *const names[] = {"loss",      "f",         "Ch_0_diag", "Ch_1_diag",
                                        "Ch_2_diag", "Cg_0_diag", "Cg_1_diag"};
    FREED(run_free) struct run run;
    struct record limit, networks[INT_LIST_MAX];
    struct score score = {0};
    support_run(&run, "data/stack.ini", overrides);
    int T = run.config.training.steps, widths = run.config.reference.widths.count;
    ASK(run_ensemble(&run, 0, run.config.solver.replicates, &limit, err));
    for (int i = 0; i < widths; i++)
        ASK(run_ensemble(&run, run.config.reference.widths.value[i], run.config.reference.seeds,
                         &networks[i], err));
    for (size_t q = 0; q < sizeof names / sizeof *names; q++)
        for (int k = 1; k <= 3; k++)
            judge(&run, &limit, networks, names[q], k * (T - 1) / 3, &score);
    double rms = sqrt(score.squares / score.count);
    print_message("largest |z| %.2f (%s), rms %.2f of %d:", score.largest, score.worst, rms,
                  score.count);
    for (int i = 0; overrides[i]; i++)
        print_message(" %s", strchr(overrides[i], '.') + 1);
    print_message("\n");
    assert_true(score.largest <= 4 && rms <= 2);
    record_free(&limit);
    for (int i = 0; i < widths; i++)
        record_free(&networks[i]);
}

TEST(networks_approach_the_limit) {
    static const char *const cases[][6] = {
        {"network.block_norm=both"},
        {"network.mixture=regime3", "network.iota=0.25", "network.branch_power=0.5",
         "solver.expert_sites=128", "solver.unit_sites=128"},
        {"network.stream=no", "training.eta0=0.6"},
        {"network.parameterization=mup", "training.eta0=0.6"},
        {"network.mixture=regime1", "network.experts=2", "network.bias=trained", "network.iota=0.5",
         "network.kappa=1"},
        {"network.mixture=regime3", "network.iota=0.25", "network.parameterization=mup",
         "network.block_norm=before", "solver.expert_sites=128", "solver.unit_sites=128"},
    };
    const char *const cheap[] = {"training.steps=10",   "reference.widths=32 64",
                                 "reference.seeds=32",  "solver.sites=512",
                                 "solver.replicates=4", "output.kernels=diagonal"};
    const char *const large[] = {"training.steps=20",    "reference.widths=64 128 256",
                                 "reference.seeds=96",   "solver.sites=2048",
                                 "solver.replicates=16", "output.kernels=diagonal"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *overrides[16] = {0};
        memcpy(overrides, is_long ? large : cheap, sizeof cheap);
        memcpy(overrides + 6, cases[i], sizeof cases[i]);
        compare(overrides);
    }
}

/* --- closed forms ---------------------------------------------------------------------------- */

/* (12) and (13) of the page: linear, gates 1. At t = 0 the draws of a limit are matched, so there
 * is no sampling error: numbers of order ten with the round-off of sums over 160 sites, 1e-12; then
 * O(gamma0^2) = 1e-6 times numbers of order ten. */
static void check_lazy(const char *const *mixture, double n, double q, bool stream) {
    enum { L = 3, P = 3, D = 4 };
    double b2 = pow(L, -0.8), a = stream ? 1 + n * b2 : n;
    double Theta = 2 * pow(a, L) + (stream ? q : L * q) * pow(a, L - 1), eta0 = 0.8 / Theta;
    TEXT(rate, 40, "training.eta0=%.17g", eta0);
    const char *overrides[24] =
        LIST("network.activation=linear", "network.gate=constant", "network.depth=3",
             "network.branch_power=0.4", "data.inputs=3", "data.dimension=4",
             "training.gamma0=1e-3", rate, "solver.sites=160", "solver.expert_sites=80",
             "solver.unit_sites=80", stream ? "network.stream=yes" : "network.stream=no");
    RUN_AND_NET;
    double f[P] = {0}, K[P][P] = {{0}}, got[P * P], moved = 0;
    for (int i = 0; mixture[i]; i++)
        overrides[12 + i] = mixture[i];
    support_run(&run, "data/stack.ini", overrides);
    support_net(&net, &run, 0, 0);
    for (int k = 0; k < P * P * D; k++)
        K[k / D / P][k / D % P] +=
            run.data.X[k / D / P * D + k % D] * run.data.X[k / D % P * D + k % D] / D;
    support_evaluate(&net, &run);
    for (int k = 0; k < net.kernels.count; k++) {
        const struct kernel *kernel = &net.kernels.item[k];
        bool h = !strncmp(kernel->name, "Ch_", 3);
        if (!h && strncmp(kernel->name, "Cg_", 3))
            continue;
        int l = kernel->name[3] - '0', count = kernel->rows.count;
        kernel->rows.array->backend->dots(kernel->rows, kernel->rows, got);
        for (int i = 0; i < count * count; i++)
            CHECK_ABS(got[i], h ? pow(a, l) * K[i / P][i % P] : pow(a, L - l), 1e-12, "%s[%d]",
                      kernel->name, i);
    }
    for (int t = 1; t < 10; t++) {
        double force[P] = {0};
        for (int k = 0; k < P * P; k++)
            force[k / P] += Theta * K[k / P][k % P] * (run.data.y[k % P] - f[k % P]) / P;
        support_step(&net, &run);
        for (int mu = 0; mu < P; mu++) {
            f[mu] += eta0 * force[mu];
            moved = fmax(moved, fabs(f[mu]));
            CHECK_ABS(net.output.f[mu], f[mu], 1e-5, "f[%d] at %d", mu, t);
        }
    }
    assert_true(moved > 0.3);
}

TEST(closed_forms) {
    static const char *const one[] = {"network.mixture=regime1", "network.experts=2",
                                      "network.expert_layers=2", "network.iota=0.5",
                                      "network.kappa=1",         NULL},
                             *const two[] = {"network.lambda_in=kappa", NULL},
                             *const three[] = {"network.mixture=regime3", "network.iota=0.75",
                                               NULL};
    for (int stream = 0; stream < 2; stream++) {
        check_lazy(one, 2, 4, stream);
        check_lazy(two, 1, 1.5, stream);
        check_lazy(three, 0.75, 3, stream);
    }
}
