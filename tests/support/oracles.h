/* What tests share that set networks beside oracles. */
#ifndef TESTS_SUPPORT_ORACLES_H
#define TESTS_SUPPORT_ORACLES_H

#include "tests/support/support.h"
#include "tests/oracles/oracle_optimizer.h"

/* What oracles call an activation of the program. */
enum oracle_activation oracles_activation(int function);
/* The settings of an optimizer of an oracle: those of the run. */
void oracles_set_optimizer(struct oracle_optimizer *a, const struct training *training);

/* One parameter of an oracle. */
struct oracles_parameter {
    double *w;
    int count;
    double rate; /* a step adds -rate dL/dw */
};
/* Judges an oracle after a first step: the next one moves every stride-th entry of every parameter
 * by -rate dL/dw. Fourth-order differences at h = 1e-4: the loss is known to about 1e-15, 1.5e-11
 * of round-off in a difference; ten times that. `step` goes forward and backward first. */
enum { ORACLES_PARAMETERS = 32 }; /* at most */
void oracles_judge(void *oracle, double (*loss)(void *oracle), double (*step)(void *oracle),
                   const struct oracles_parameter *parameter, int parameters, int stride,
                   const char *what);

#endif
