/* The finite mixture-of-experts network of regime I (fixed number of experts), written from section
 * 1 of its theory page alone: plain loops over explicit row-major arrays, in the normalisation of
 * that page. It judges the network code of the program and shares nothing with it.
 *
 * Indices: mu, nu < P inputs, d < D, n, k < N neurons, i < M experts. Matrix l = 0 ... E-1 of an
 * expert is W^{l+2} of the page, so h[l] is its h_{l+2} and L = E + 1. Activation and loss are
 * those of oracle_regime2.h. */
#ifndef TESTS_ORACLE_REGIME1_H
#define TESTS_ORACLE_REGIME1_H

#include "tests/oracles/oracle_regime2.h"

enum oracle1_gate {
    ORACLE1_SOFTMAX, /* over the selected experts */
    ORACLE1_SIGMOID, /* times the mask */
    ORACLE1_CONSTANT /* p = 1 for every expert whatever K; Q and b never move */
};

struct oracle1 {
    int P, D, N, M, E;
    enum oracle1_gate gate;
    enum oracle_activation activation;
    enum oracle_loss loss;
    bool activated; /* expert output o = sigma; else the identity */
    int K;          /* experts selected per input; 0: all */
    double eta0, gamma0, kappa_Q, kappa_b;
    bool centre;    /* f = raw f - f0 */
    bool hold_mask; /* oracle1_forward takes mask as it stands instead of finding it */

    double *X, *y; /* [P][D], [P] */
    double *W1;    /* [N][D] */
    double *Q;     /* [M][N] */
    double *W;     /* [E][M][N][N], W[l][i][n][k]: from neuron k to neuron n; oracle1_W */
    double *b;     /* [M] */
    double *w;     /* [N] */
    double *noise; /* [M], added to psi like b, never trained */
    double *f0;    /* [P], used with centre */

    /* written by oracle1_forward */
    double *h1, *x1; /* [P][N], x1 = sigma(h1) */
    double *psi;     /* [P][M] */
    double *mask;    /* [P][M], 0 or 1 */
    double *p;       /* [P][M] */
    double *h, *x;   /* [E][M][P][N], x = sigma(h); oracle1_h */
    double *hL;      /* [P][N], the sum over experts of p o(h) */
    double *f;       /* [P] */
    double *Delta;   /* [P], -dl/df */

    /* written by oracle1_backward */
    double *g;    /* [E][M][P][N]; oracle1_g */
    double *gphi; /* [P][M] */
    double *gpsi; /* [P][M] */
    double *z1;   /* [P][N] */
    double *g1;   /* [P][N] */
};

/* All arrays zero; softmax, tanh, mse, all experts, linear expert output, not centred, scalars 1
 * but kappa_b = 0. Ends the program if memory runs out. Every array belongs to the oracle and is to
 * be filled in place. */
struct oracle1 *oracle1_new(int P, int D, int N, int M, int E);
void oracle1_free(struct oracle1 *o);

double *oracle1_W(const struct oracle1 *o, int l, int i); /* [N][N] */
double *oracle1_h(const struct oracle1 *o, int l, int i); /* [P][N] */
double *oracle1_g(const struct oracle1 *o, int l, int i); /* [P][N] */

/* The forward pass; returns the mean of l over the inputs. Of equal logits the lower index is
 * selected. */
double oracle1_forward(struct oracle1 *o);
/* g, gphi, gpsi, z1, g1 from the state that oracle1_forward has left. */
void oracle1_backward(struct oracle1 *o);
/* Forward, backward and one step of all parameters, all from the values before the step; returns
 * the loss before the step. Forward and backward quantities stay those before the step. */
double oracle1_step(struct oracle1 *o);
/* Stores the raw outputs of now as f0 and switches centre on: f = 0 until the next step. */
void oracle1_centre_here(struct oracle1 *o);

/* Parameter blocks: these four, then W[l][i] as block ORACLE1_MATRICES + l M + i. */
enum { ORACLE1_W1, ORACLE1_Q, ORACLE1_B, ORACLE1_READOUT, ORACLE1_MATRICES };
int oracle1_blocks(const struct oracle1 *o);
/* A block as a flat array of *count numbers, and its learning rate. */
double *oracle1_block(const struct oracle1 *o, int block, int *count);
double oracle1_rate(const struct oracle1 *o, int block);

/* Compares the step of every parameter with rate times minus the fourth-order central difference of
 * the loss at distance h, mask held at the present point. error[block] is the largest difference in
 * the block, scale[block] the largest size of rate times difference quotient. Leaves the parameters
 * as they were. */
void oracle1_gradient_check(struct oracle1 *o, double h, double *error, double *scale);

/* Equal-time kernels of the state that forward and (for those with a G) backward have left, means
 * over neurons. */
double oracle1_phi1(const struct oracle1 *o, int mu, int nu); /* <sigma(h1) sigma(h1)> */
double oracle1_g1(const struct oracle1 *o, int mu, int nu);   /* <g1 g1> */
double oracle1_phiL(const struct oracle1 *o, int mu, int nu); /* <hL hL> */
/* of layer l of expert i: <sigma(h) sigma(h)>, <g g> */
double oracle1_phi(const struct oracle1 *o, int l, int i, int mu, int nu);
double oracle1_gg(const struct oracle1 *o, int l, int i, int mu, int nu);

#endif
