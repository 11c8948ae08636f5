/* Every network that has gates over experts, in settings under which these differ. */
#pragma once

#include "tests/support/support.h"

/* Settings under which gates differ: regime2 with softmax and with top-K, and so on. */
static const STRUCT(const char *model, *set[4]) cases[] = {
    {"regime1", {"network.rho=0.5"}},
    {"regime1", {"network.expert_layers=2", "data.inputs=5"}},
    {"regime2", {"network.gate=softmax", "training.eta0=0.1"}},
    {"regime2", {"network.rho=0.25", "network.aggregation=K", "network.expert_width=3"}},
    {"regime3", {"network.rho=0.5"}},
    {"regime3", {"network.parameterization=mup", "network.gate=softmax", "training.eta0=0.1"}},
    {"residual", {"network.rho=0.5"}},
    {"stack", {"network.mixture=regime2", "network.rho=0.5"}},
    {"stack", {"network.mixture=regime1", "network.experts=3", "network.kappa=1"}},
    {"transformer", {NULL}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* A net of case c after so many steps, evaluated; N = 0: the limit. */
static inline void make(struct run *run, struct net *net, int c, int N, int steps) {
    const char *all[6] = {"output.experts=yes"};
    for (int k = 0; k < 4 && cases[c].set[k]; k++)
        all[k + 1] = cases[c].set[k];
    FAIL_IF(!support_small(run, support_model(cases[c].model), all), "case %d", c);
    support_net(net, run, N, 0);
    assert_true(net->routers.count > 0);
    support_train(net, run, steps);
    support_evaluate(net, run);
}
