/* Limits whose selections begin with ties (models/language/ties.c): which they are, and that their
 * replicates have the law of networks. Site averages that vanish in the limit are compared times
 * the number of sites or neurons, which is the same here. Each check is of two means of independent
 * runs, to 4 of their standard errors. The argument `long` takes more runs of more sites. */
#include "tests/support/support.h"
#include "models/parts/block.h"

/* --- which limits are random ----------------------------------------------------------------- */

/* A file, or the name of a network. */
static void open_run(struct run *run, const char *source, const char *const *overrides) {
    if (strchr(source, '.'))
        support_run(run, source, overrides);
    else
        support_run_text(run, overrides,
                         "[network]\nmodel = %s\n[data]\nsource = gaussian\ninputs = 4\n"
                         "dimension = 4\n[training]\nsteps = 3\neta0 = 1\n"
                         "[reference]\nwidths = 16\n",
                         source);
}

static bool is_random(const char *source, const char *const *overrides) {
    RUN_AND_NET;
    open_run(&run, source, overrides);
    support_net(&net, &run, 0, 0);
    bool random = net.gates.random;
    return random;
}

/* The tie is one across the K-th place, K = 2 of 4, of any kind of token, and only where nothing
 * but fluctuations decides it. */
TEST(ties) {
    static const STRUCT(const char *change[2]; bool random) cases[] = {
        {{"network.bias=none"}, true},
        {{"network.bias=none", "network.rho=1"}, false},
        {{"network.bias=none", "network.bias_noise=0.1"}, false},
        {{"network.bias=fixed", "network.bias_std=0"}, true},
        {{"network.bias=trained", "network.biases=0 0 0 0"}, true},
        {{"network.bias=trained", "network.biases=1 0 0 0"}, true},
        {{"network.bias=trained", "network.biases=1 1 0 0"}, false},
        {{"network.bias=trained", "network.biases=0 1 0.5 0"}, false},
        {{"network.bias=trained"}, false},
        {{"network.bias=none", "init.Q=0"}, false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *const overrides[] =
            LIST("network.parameterization=mup", "network.gate=sigmoid", "network.experts=4",
                 cases[k].change[1] && strstr(cases[k].change[1], "rho") ? "network.outputs=1"
                                                                         : "network.rho=0.5",
                 cases[k].change[0], cases[k].change[1], NULL);
        if (is_random("regime1", overrides) != cases[k].random)
            fail_msg("%s %s: it is %srandom", cases[k].change[0],
                     cases[k].change[1] ? cases[k].change[1] : "", cases[k].random ? "not " : "");
    }
    for (int tied = 0; tied < 2; tied++) {
        assert_int_equal(is_random("data/transformer.ini",
                                   ARGS("network.q0=1", "network.rho=0.5", "network.bias_per=token",
                                        tied ? "network.biases=1 0 0 1 2 2 3 1"
                                             : "network.biases=1 0 0 1 2 4 3 1")),
                         tied);
    }
}

/* top in a program, of logits that start at 2, 1, 1, 0 but for fluctuations: K = 2 cuts a tie. */
TEST(ties_of_a_program) {
    for (int K = 1; K <= 4; K++) {
        TEXT(text, 256,
             "network.program_text=key('depth') local h = read_in(population('a'), 'W1')\\n"
             "local s = bias(look(h, 4, 'Q'), {2, 1, 1, 0}, 'b')\\n"
             "read_out(h * (top(s, %d) * s)[1], 'w')",
             K);
        assert_int_equal(is_random("examples/dense.ini", ARGS("network.program=t.lua", text)),
                         K == 2);
    }
}

/* Logits that are equal and do not fluctuate select nothing: refused, of networks as well. */
TEST(equal_logits) {
    static const STRUCT(double biases[4]; bool refused)
        cases[] = {{{0, 0, 0, 0}, true}, {{1, 0, 0, 0}, true}, {{1, 1, 0, 0}, false}};
    FREED(run_free) struct run run;
    support_run(&run, "data/regime1.ini", (const char *const[]){NULL});
    struct network network = run.config.network;
    const char *key;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        memcpy(network.routing.biases.value, cases[k].biases, sizeof cases[k].biases);
        const char *said = router_check(&network, &key);
        assert_int_equal(said != NULL, cases[k].refused);
        assert_true(!said || (strstr(said, "exactly equal") && !strcmp(key, "bias")));
    }
}

/* --- their laws ------------------------------------------------------------------------------ */

/* Mean over runs, and its standard error, of a series at time t: squared and times N, averaged over
 * its entries; or (N = 0) as it is. */
static void law_of(const struct record *record, const char *name, int t, int N, double *mean,
                   double *se) {
    const struct series *series = record_find(record, name);
    int entries = (int)(series->size / series->shape[0]);
    double sum = 0, sum2 = 0, n = record->runs;
    for (int run = 0; run < record->runs; run++) {
        const double *x = record_at(record, series, run, t);
        double value = 0;
        for (int k = 0; k < entries; k++)
            value += (N ? N * x[k] * x[k] : x[k]) / entries;
        sum += value / n;
        sum2 += value * value / n;
    }
    *mean = sum;
    *se = sqrt(fmax(0, sum2 - sum * sum) / (n - 1));
}

static void compare(const struct record *limit, const struct record *networks, const char *name,
                    int t, int N) {
    double a, b, a_se, b_se;
    law_of(limit, name, t, N, &a, &a_se);
    law_of(networks, name, t, N, &b, &b_se);
    double se = hypot(a_se, b_se);
    print_message("    %s(%d): limit %.4f(%.4f), networks %.4f(%.4f), z %.1f\n", name, t, a, a_se,
                  b, b_se, (a - b) / se);
    CHECK_ABS(a, b, 4 * se, "%s at %d", name, t);
}

/* Numbers of block l (-1: of the only one) and, at last, the loss. */
static void compare_block(const struct record *limit, const struct record *networks, int l, int N) {
    static const STRUCT(const char *name; int t; bool square) laws[] =
        LIST({"psi", 0, true}, {"gphi", 0, true}, {"psi", 1, true}, {"flips", 1, false},
             {"load_largest", 0, false});
    for (size_t k = 0; k < sizeof laws / sizeof *laws; k++) {
        TEXT(name, 32, l < 0 ? "%s" : "%s_%d", laws[k].name, l);
        if (record_find(limit, name))
            compare(limit, networks, name, laws[k].t, laws[k].square ? N : 0);
    }
}

#define SMALL                                                                                      \
    "data.source=gaussian", "data.inputs=4", "data.dimension=4", "data.test_inputs=0",             \
        "training.steps=3", "training.eta0=1", "training.gamma0=1", "training.loss=mse",           \
        "solver.tolerance=1e-2", "output.kernels=none", "reference.draws=iid"

static void run_both(const char *source, const char *const *changes, int N, int runs,
                     struct record both[2]) {
    char sites[32];
    const char *overrides[32] = {SMALL, sites};
    int n = 12;
    FREED(run_free) struct run run;
    snprintf(sites, sizeof sites, "solver.sites=%d", N);
    for (int k = 0; changes[k]; k++)
        overrides[n++] = changes[k];
    open_run(&run, source, overrides);
    ASK(run_ensemble(&run, 0, runs, &both[0], err));
    ASK(run_ensemble(&run, N, runs, &both[1], err));
}

/* The loss has another term of order 1/N than of order 1/S (normals of forward passes are matched
 * in the limit alone): 2 x(N) - x(N/2) has neither. */
static void compare_loss(struct record wide[2], struct record narrow[2], int t) {
    double x[2], se[2];
    for (int k = 0; k < 2; k++) {
        double half, half_se;
        law_of(&wide[k], "loss", t, 0, &x[k], &se[k]);
        law_of(&narrow[k], "loss", t, 0, &half, &half_se);
        x[k] = 2 * x[k] - half;
        se[k] = hypot(2 * se[k], half_se);
    }
    print_message("    loss(%d): limit %.4f(%.4f), networks %.4f(%.4f)\n", t, x[0], se[0], x[1],
                  se[1]);
    CHECK_ABS(x[0], x[1], 4 * hypot(se[0], se[1]), "loss at %d", t);
}

static void laws_of(const char *source, int blocks, const char *const *changes) {
    int N = is_long ? 512 : 64, runs = is_long ? 2000 : 250;
    FREED(two_records_free) struct record wide[2], narrow[2];
    run_both(source, changes, N, runs, wide);
    run_both(source, changes, N / 2, runs, narrow);
    print_message("%s\n", source);
    for (int l = blocks ? 0 : -1; l < blocks; l++)
        compare_block(&wide[0], &wide[1], l, N);
    compare_loss(wide, narrow, 1);
    compare_loss(wide, narrow, 2);
}

/* The gradients of gates of a transformer: of the read-out with W2, whose transpose has met nothing
 * of an expert that is not selected. Experts wider than the stream: sites go with the size. */
TEST(of_a_transformer) {
    static const char *const one[] = LIST(
        "network.parameterization=mup", "network.q0=1",

        "network.iota=2", "network.rho=0.5", "network.gate=softmax", "network.softmax_over=all",
        "network.router_rate=30", "network.bias=none", "data.tokens=1", NULL);
    static const char *const two[] =
        LIST("network.parameterization=mup", "network.q0=1",

             "network.depth=2", "network.branch_power=0", "network.rho=0.5", "network.gate=sigmoid",
             "network.router_rate=30", "network.bias=none", "data.tokens=2", NULL);
    laws_of("transformer", 1, one);
    if (is_long)
        laws_of("transformer", 2, two);
}

/* Below the last block gradients are made of what later blocks hand back, with any inner width. */
TEST(of_a_stack) {
    static const char *const deep[] =
        LIST("network.parameterization=mup", "network.mixture=regime1", "network.depth=2",
             "network.branch_power=0", "network.experts=4", "network.expert_layers=2",
             "network.iota=0.25", "network.rho=0.5", "network.gate=sigmoid", NULL);
    laws_of("stack", 3,
            ARGS("network.parameterization=mup", "network.mixture=regime1", "network.depth=3",
                 "network.branch_power=0", "network.experts=4", "network.rho=0.5",
                 "network.gate=sigmoid", "network.router_rate=20"));
    if (is_long)
        laws_of("stack", 2, deep);
}

/* Equal biases are none: of those at the K-th place here, of all experts in test_script_built_in.c,
 * bit by bit. */
TEST(of_regime1) {
    static const char *const biases[] = {NULL, "network.biases=1 0 0 0"};
    for (int k = 0; k < 2; k++) {
        const char *const changes[] =
            LIST("network.parameterization=mup", "network.experts=4", "network.expert_layers=1",
                 "network.rho=0.5", "network.gate=softmax",
                 biases[k] ? "network.bias=trained" : NULL, biases[k], NULL);
        laws_of("regime1", 0, changes);
    }
}

/* The same of a script, which says nothing of it; its bits are those of regime1
 * (test_script_built_in.c). */
TEST(of_a_script) {
    assert_true(is_random("examples/regime1.ini",
                          ARGS("program.experts=4", "program.expert_layers=1", "program.q0=1",
                               "program.bias=none", "program.rho=0.5", "program.gate=softmax")));
}
