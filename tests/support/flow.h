/* A net that gradient flow moves, one step of its scheme after another. */
#pragma once

#include "tests/support/support.h"

/* A net that is at time 0, evaluated. */
static inline void start(struct net *net, struct run *run, const char *file,
                         const char *const *overrides, int N) {
    support_run(run, file, overrides);
    support_net(net, run, N, 0);
    support_evaluate(net, run);
}

static inline void advance(struct net *net, const struct run *run) {
    const struct training *training = &run->config.training;
    ASK(integrator_of(training)->advance(net, training, run->data.y, err));
}
