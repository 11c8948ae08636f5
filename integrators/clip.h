/* Clipping by global norm: where the norm of the gradient (net_gradient_norm) exceeds `clip`, the
 * gradient counts clip/norm times, for a step of gradient descent, and for what momentum and Adam
 * take in. */
#pragma once

#include "integrators/integrator.h"

/* *factor = min(1, clip/norm) of the last evaluation; 1 without clipping. */
int clip_factor(const struct net *net, const struct training *training, double *factor,
                struct err *err);
