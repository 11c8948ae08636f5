/* Mixing of fixed-point iterates (Anderson 1965; type II, in the form of Walker & Ni 2011).
 *
 * With x_k the kernels, F_k = G(x_k) - x_k their changes in sweep k, and d the damping:
 *
 *     x_k+1 = x_k + d F_k - sum_j gamma_j (dx_j + d dF_j)
 *     gamma = argmin |F_k - sum_j gamma_j dF_j|
 *
 * once all changes are below 0.1, over the last `depth` differences dx_j = x_j+1 - x_j, dF_j =
 * F_j+1 - F_j; depth 0: damping alone. Each kernel counts with the inverse of its norm. */
#pragma once

#include "integrators/fixed_point.h"

#define ANDERSON_DEPTH 16

struct anderson {
    int depth, met, pushed; /* differences wanted; iterates met, differences pushed */
    double damping;
    size_t size;            /* numbers of an iterate */
    double *x, *F, *weight; /* [size], of the sweep before; weight of now */
    double *dx[ANDERSON_DEPTH], *dF[ANDERSON_DEPTH]; /* a ring: the newest is pushed - 1 */
};

/* given <- the next iterate. */
int anderson_mix(struct anderson *anderson, const struct fixed_point_kernel *kernel, int count,
                 struct err *err);
void anderson_free(struct anderson *anderson);
