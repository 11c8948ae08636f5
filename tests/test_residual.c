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

/* Biases that spread wider than a difference moves a gate: no mask flips inside a difference. */
TEST(equals_oracle) {
    for (size_t i = 0; i < COUNT(cases); i++)
        couple_compare("data/residual.ini",
                       ARGS("network.rho=1", "data.inputs=3", "data.dimension=5",
                            "training.eta0=0.2", "training.gamma0=1.5", "network.bias_std=0.3",
                            "network.eta_bias=0.1"),
                       cases[i], 16, 5);
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
