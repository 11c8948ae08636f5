/* The finite deep dense network in plain loops over explicit row-major arrays, its backward pass
 * written by hand:
 *
 *     h_1 = W_1 x/sqrt(D),   h_l = W_l sigma(h_{l-1})/sqrt(N), l = 2 ... depth,
 *     f = w.sigma(h_depth)/(gamma0 N)
 *
 * trained by gradient descent with rate eta0 gamma0^2 N for every parameter. It judges the
 * tape of the other oracles (test_oracle), and batches of the program.
 *
 * The gradients are g_l = gamma0 N df/dh_l:
 *
 *     g_depth = sigma'(h_depth) w,   g_l = sigma'(h_l) W_{l+1}^T g_{l+1}/sqrt(N)
 *
 * C > 1 outputs f_c have a read-out w_c each; then g carries the loss, g_depth = sigma'(h_depth)
 * sum_c Delta_c w_c. */
#pragma once

#include "tests/oracles/oracle.h"

struct oracle_dense {
    int P, D, N, depth, C;
    enum oracle_activation activation;
    enum oracle_loss loss;
    double eta0, gamma0;
    bool centre; /* f = raw f - f0 */

    double *X, *y; /* [P][D], [P][C] */
    double *W1;    /* [N][D] */
    double *W;     /* [depth-1][N][N], W_2 first, each [to][from] */
    double *w;     /* [C][N] */
    double *f0;    /* [P][C], used with centre */

    double *h;     /* [depth][P][N], h_1 first; written by oracle_dense_forward like f, Delta */
    double *f;     /* [P][C] */
    double *Delta; /* [P][C], -dl/df */
    double *g;     /* [depth][P][N], written by oracle_dense_backward */
};

/* All arrays zero; tanh, mse, not centred, eta0 = gamma0 = 1. Ends the program if memory runs out.
 * Every array belongs to the oracle and is to be filled in place. */
struct oracle_dense *oracle_dense_new(int P, int D, int N, int depth); /* C = 1 */
struct oracle_dense *oracle_dense_new_outputs(int P, int D, int N, int depth, int C);
void oracle_dense_free(struct oracle_dense *o);

/* Forward returns the mean of l over the inputs; backward needs the state it leaves. A step is
 * forward, backward and the update of every parameter from the values before it; it returns the
 * loss before the step, whose forward and backward quantities stay. */
double oracle_dense_forward(struct oracle_dense *o);
void oracle_dense_backward(struct oracle_dense *o);
double oracle_dense_step(struct oracle_dense *o);

/* Blocks 0: w, l = 1 ... depth: W_l, as flat arrays of *count numbers. */
double *oracle_dense_block(const struct oracle_dense *o, int block, int *count);
/* As oracle_gradient_check; error and scale have depth + 1 entries. */
void oracle_dense_gradient_check(struct oracle_dense *o, double h, double *error, double *scale);

/* Equal-time kernels of layer l = 1 ... depth: <sigma(h_l) sigma(h_l)>, <g_l g_l>, means over
 * neurons. */
double oracle_dense_phi(const struct oracle_dense *o, int l, int mu, int nu);
double oracle_dense_gg(const struct oracle_dense *o, int l, int mu, int nu);
