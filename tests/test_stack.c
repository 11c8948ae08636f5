/* Finite networks of models/networks/stack.c: against the oracle
 * (tests/oracles/oracle_stack.c), along the gradient, with momentum and with Adam. */
#include "tests/support/couple.h"

#define ADAM "training.optimizer=adam", "training.eta0=0.05", "training.eps=0.1"
#define ONE                                                                                        \
    "network.mixture=regime1", "network.kappa=1", "network.experts=2", "network.bias=trained"
#define THREE "network.mixture=regime3", "network.iota=0.25"
#define MUP "network.parameterization=mup"

static const char *const cases[][12] = {
    {"network.depth=1"},
    {"network.depth=3", "network.branch_power=0.5", "network.gate=softmax", "network.beta=0.7"},
    {"network.stream=no", "network.lambda_in=kappa", "network.expert_activation=relu"},
    {MUP, "network.block_norm=both", "network.rho=0.5", "network.aggregation=K"},
    {MUP, "network.gate=constant", "network.stream=no", "network.block_norm=after"},
    {THREE, "network.activation=erf", "network.gate=softmax"},
    {THREE, "network.stream=no", "network.block_norm=both", "training.loss=logistic"},
    {THREE, MUP, "network.depth=3", "network.branch_power=0.3", "network.block_norm=before"},
    {THREE, MUP, "network.gate=constant", "network.depth=1", "network.stream=no"},
    {ONE, MUP, "network.expert_layers=2", "network.iota=0.5", "network.q0=2"},
    {ONE, "network.expert_layers=1", "network.stream=no", "network.gate=softmax"},
    {ONE, MUP, "network.expert_layers=3", "network.expert_output=activated", "network.iota=1.5",
     "network.block_norm=both", "network.branch_power=0.5", "network.router_rate=3"},
};
static const char *const optimized[][12] = {
    {ADAM, "network.depth=3", "network.branch_power=0.5", "network.block_norm=before"},
    {ADAM, MUP, "network.stream=no", "training.adam_eps=inside"},
    {ADAM, THREE, "network.gate=softmax", "network.branch_power=0.5"},
    {ADAM, THREE, MUP, "training.optimizer=adamw", "training.weight_decay=0.03"},
    {ADAM, ONE, MUP, "network.expert_layers=3", "network.iota=0.5", "network.router_rate=3"},
    {"training.optimizer=momentum", "training.momentum=0.7", "network.branch_power=0.5"},
    {"training.optimizer=momentum", THREE, "network.block_norm=both"},
    {"training.optimizer=momentum", ONE, "network.expert_layers=2", "network.iota=0.5"},
};
static const char *const base[] =
    LIST("data.inputs=3", "data.dimension=5", "training.eta0=0.2", "training.gamma0=1.5",
         "reference.centre=no", "solver.replicates=0", NULL);

TEST(equals_oracle) {
    for (size_t i = 0; i < COUNT(cases); i++)
        couple_compare("data/stack.ini", base, cases[i], 8, 4);
}

/* The same with momentum, Adam and AdamW. Adam divides by sqrt(v) + eps: a gradient's round-off is
 * divided by the eps of 0.1 of its order-one scale, five times in a row. */
TEST(optimizers) {
    for (size_t i = 0; i < COUNT(optimized); i++) {
        FREED(couple_close) struct couple p;
        couple_start(&p, "data/stack.ini", base, optimized[i], 8);
        support_evaluate(&p.net, &p.run);
        for (int t = 0; t < 5; t++)
            couple_advance(&p, t, 1e-12, 1e-11);
    }
}
