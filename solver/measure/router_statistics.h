/* A router over many experts: [output] router. Of each row, the threshold tau of its logits psi
 * (the smallest of the share that is routed to) and ln S, S = <m exp(beta psi)> of a softmax; over
 * experts, quantiles of their loads, mean over rows of m/<m>, or of phi/<phi> where all are routed
 * to: 1 where all experts are alike. */
#ifndef SOLVER_ROUTER_STATISTICS_H
#define SOLVER_ROUTER_STATISTICS_H

#include "solver/measure/instrument.h"

extern const struct instrument router_statistics_instrument;

#endif
