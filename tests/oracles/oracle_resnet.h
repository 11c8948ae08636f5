/* The finite deep residual dense network, written from docs/theory/resnet.md alone: plain loops
 * over explicit row-major arrays, equations (1) to (5) of that page, all weights of variance one.
 * It judges the network code of the program and shares nothing with it. */
#ifndef TESTS_ORACLE_RESNET_H
#define TESTS_ORACLE_RESNET_H

#include "tests/oracles/oracle_regime2.h"

struct oracle_resnet {
    int P, D, N, L;
    enum oracle_activation activation;
    enum oracle_loss loss;
    double eta0, gamma0, branch;

    double *X, *y; /* [P][D], [P] */
    double *W0;    /* [N][D] */
    double *W;     /* [L][N][N], each [to][from] */
    double *w;     /* [N] */
    double *f0;    /* [P], subtracted from the output */

    double *h;     /* [L+1][P][N], written by oracle_resnet_forward like f, Delta */
    double *f;     /* [P] */
    double *Delta; /* [P], -dl/df */
    double *g;     /* [L+1][P][N], written by oracle_resnet_backward */
};

/* All arrays zero; tanh, mse, eta0 = gamma0 = branch = 1. Every array belongs to the oracle and is
 * to be filled in place. */
struct oracle_resnet *oracle_resnet_new(int P, int D, int N, int L);
void oracle_resnet_free(struct oracle_resnet *o);

/* Forward returns the mean of l over the inputs; backward needs the state it leaves. A step is
 * forward, backward and the update of every parameter from the values before it; it returns the
 * loss before the step. */
double oracle_resnet_forward(struct oracle_resnet *o);
void oracle_resnet_backward(struct oracle_resnet *o);
double oracle_resnet_step(struct oracle_resnet *o);

/* Blocks 0: w, 1: W0, 2 + l: W_l, as flat arrays of *count numbers. */
double *oracle_resnet_block(const struct oracle_resnet *o, int block, int *count);

/* <sigma(h_l) sigma(h_l)>, <h_l h_l> and <g_l g_l>, l = 0 ... L, means over neurons. */
double oracle_resnet_phi(const struct oracle_resnet *o, int l, int mu, int nu);
double oracle_resnet_hh(const struct oracle_resnet *o, int l, int mu, int nu);
double oracle_resnet_gg(const struct oracle_resnet *o, int l, int mu, int nu);

#endif
