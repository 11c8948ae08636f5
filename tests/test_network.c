/* The network of models/networks/regime2.c with explicit matrices, judged by the oracle
 * (tests/oracles/oracle_stack.c) in the forward pass, the kernels and the parameters over several
 * training steps. */
#include "tests/support/couple.h"

/* All sums have fewer than 200 terms of order one: round-off is below 200 eps = 4e-14 and the four
 * steps amplify it by no more than the loss falls, 10: 1e-12. */
static void compare(const char *const *overrides, int N) {
    FREED(couple_close) struct couple p;
    char what[256] = "";
    for (int i = 5; overrides[i]; i++)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s ", overrides[i]);
    support_run(&p.run, "data/regime2.ini", overrides);
    couple_open(&p, N, 3, "%s", what);
    couple_train(&p, 4, 1e-12);
}

/* Each gate and activation with every second of the variants, which are the others with the next.
 */
TEST(equals_oracle) {
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
                if ((variant ^ variant >> 1 ^ variant >> 2 ^ gate ^ activation) & 1)
                    continue;
                const char *overrides[16] = LIST(
                    "network.kappa=0.5", "network.expert_width=3", "training.eta0=0.2",
                    "data.inputs=4", "data.dimension=5", activations[activation], gates[gate][0]);
                int n = 7;
                if (gates[gate][1])
                    overrides[n++] = gates[gate][1];
                overrides[n++] =
                    variant & 1 ? "network.parameterization=mup" : "network.parameterization=mssp";
                overrides[n++] = variant & 2 ? "training.loss=logistic" : "training.loss=mse";
                overrides[n++] = variant & 2 ? "reference.centre=no" : "reference.centre=yes";
                overrides[n++] = variant & 4 ? "network.lambda_in=kappa" : "training.gamma0=1.5";
                if (variant & 4 && gate < 3) {
                    overrides[n++] = "network.rho=0.5";
                    overrides[n++] = "network.beta=0.8";
                }
                compare(overrides, 16);
            }
}

/* More inputs than dimensions, repeated inputs, kappa above one. */
TEST(equals_oracle_odd_shapes) {
    compare(ARGS("network.kappa=1.5", "network.expert_width=1", "training.eta0=0.2",
                 "data.inputs=7", "data.dimension=3", "training.gamma0=0.3"),
            12);
    compare(ARGS("network.kappa=0.25", "network.expert_width=5", "training.eta0=0.4",
                 "data.inputs=1", "data.dimension=1", "network.gate=softmax"),
            12);
}

/* The same configuration at N = 64 and 512: the first change of f is of order one at every width
 * (muP and MSSP are defined by it). It fluctuates as N^{-1/2}; a lost power of N would be a factor
 * sqrt 8 or more. */
TEST(scalings_independent_of_width) {
    FREED(run_free) struct run run;
    support_run(&run, "data/regime2.ini", ARGS("reference.draws=balanced"));
    double change[2] = {0, 0};
    for (int w = 0; w < 2; w++)
        for (int seed = 0; seed < 8; seed++) {
            FREED(net_free) struct net net;
            support_begin(&net, &run, w ? 512 : 64, seed);
            support_step(&net, &run);
            for (int mu = 0; mu < run.data.P; mu++)
                change[w] += fabs(net.output.f[mu]) / (8 * run.data.P);
        }
    assert_true(change[0] > 0.01);
    CHECK_ABS(change[1] / change[0], 1, 0.4, "change of f, N = 512 against 64");
}
