/* Two-time matrices K[(t,mu)][(s,nu)] on the flat indices t P + mu and s Q + nu: kernels (P = Q,
 * symmetric) and responses (causal), and the causal factor of a kernel. */
#pragma once

#include "kernels/base/base.h"

struct twotime {
    int T, P, Q;
    double *value; /* [T P][T Q]; NULL: zero, of any shape */
};

int twotime_init(struct twotime *K, int T, int P, int Q, struct err *err); /* zero */
void twotime_free(struct twotime *K); /* accepts a zeroed struct; idempotent */
/* to <- from, of the same P and Q and no more times; later ones are left. */
void twotime_copy(const struct twotime *from, const struct twotime *to);
size_t twotime_size(const struct twotime *K);
/* Row (t, mu). */
double *twotime_row(const struct twotime *K, int t, int mu);

/* L [T P][T P], lower triangular (zeros above), K = L L^T: row (t, mu) depends on times <= t only.
 * A pivot below jitter * K_aa is raised to it and counted in *floored; a row with a negative one
 * (a mixture of sweeps need not be a kernel) is scaled first so that its norm is K_aa. Where K_aa =
 * 0 row and column of L are 0. K needs only its lower half. */
int twotime_cholesky(const struct twotime *K, double jitter, double *L, int *floored,
                     struct err *err);
