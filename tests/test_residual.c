/* The network of models/networks/residual.c with explicit matrices, judged by the oracle
 * (tests/oracles/oracle_residual.c). */
#include "tests/support/couple.h"

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

/* Sums of fewer than 300 terms of order one: round-off below 300 eps = 7e-14, amplified by the
 * steps by no more than the loss falls, 10: 1e-12. */
TEST(equals_oracle) {
    for (int i = 0; i < CASES; i++) {
        FREED(couple_close) struct couple p;
        configure(&p.run, cases[i]);
        couple_open(&p, 16, 3, "case %d", i);
        couple_train(&p, 5, 1e-12);
        assert_true(p.net.output.loss < 0.45); /* it did train */
    }
}

/* Sizes that no network can have. */
TEST(sizes_are_refused) {
    static const struct {
        const char *first, *second, *part;
    } refusals[] = {
        {"network.expert_width=4", "network.depth=1", "of infinite width only"},
        {"network.rho=0.3", "network.depth=1", "rho times the number of experts"},
        {"solver.expert_sites=30", "network.depth=1",
         "the limit has the 32 experts of the networks"},
        {"network.bias_draws=normal", "solver.expert_sites=30", "(limit: expert_sites = 30)"},
        {"network.alpha=0.7", "network.depth=1", "units per expert"},
        {"network.experts=3", "network.rho=1", "N^2/E"},
        {"network.alpha=0.5", "network.expert_width=3", "N/(alpha N_e) must be whole"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char first[64], second[64], *overrides[] = {first, second};
        FREED(run_free) struct run run = {0};
        struct err err = {0};
        snprintf(first, sizeof first, "%s", refusals[i].first);
        snprintf(second, sizeof second, "%s", refusals[i].second);
        assert_int_equal(run_configure(&run, "data/residual.ini", 2, overrides, &err), CODE_INPUT);
        if (!strstr(err.text, refusals[i].part))
            fail_msg("%s: %s", refusals[i].first, err.text);
    }
}

/* data source = multi_index: the inputs of gaussian, and the target that the key states; of the
 * fewest dimensions that it can have. */
TEST(multi_index_target) {
    FREED(run_free) struct run run, plain;
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
}

/* Experts of infinite width at fixed quantiles are not sampled: the limit has those of its
 * networks, whatever the sites, in halves as well, and the record says how many. */
TEST(nodes_are_the_experts) {
    static const char *const experts[] = {"network.experts=16", "network.experts=32"};
    for (int k = 0; k < 2; k++)
        for (int half = 0; half < 2; half++) {
            RUN_AND_NET;
            support_run(&run, "data/residual.ini", (const char *const[]){experts[k], NULL});
            run.config.half = half;
            const char *text = params_find(&run.params, "solver", "expert_sites")->text;
            support_net(&net, &run, 0, 0);
            for (int i = 0; i < net.populations.count; i++)
                if (!strncmp(net.populations.item[i]->name, "experts", 7))
                    assert_int_equal(net.populations.item[i]->sites, 16 << k);
            assert_string_equal(text, k ? "32" : "16");
        }
}
