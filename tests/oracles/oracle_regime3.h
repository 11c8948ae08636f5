/* The finite mixture-of-experts network of regime III, written from the theory page alone: plain
 * loops over explicit row-major arrays in the normalisation of section 1 of that page, every matrix
 * N(0, 1) at the start, every gradient by the chain rule of f itself. It judges the network code of
 * the program and shares nothing with it.
 *
 * Indices: mu < P inputs, d < D, n < N residual sites, i < M experts, j < Ne hidden units. The MSSP
 * network starts with the same Win, Wout for every expert; training is the same. */
#ifndef TESTS_ORACLE_REGIME3_H
#define TESTS_ORACLE_REGIME3_H

#include "tests/oracles/oracle_regime2.h" /* the enums, sigma and sigma' */

enum { ORACLE3_W1, ORACLE3_Q, ORACLE3_WIN, ORACLE3_WOUT, ORACLE3_W4, ORACLE3_BLOCKS };
enum {
    ORACLE3_PHI1,
    ORACLE3_PHI3,
    ORACLE3_G1,
    ORACLE3_G3,
    ORACLE3_PHIBAR,
    ORACLE3_GBAR,
    ORACLE3_PHIE,
    ORACLE3_PHITIL,
    ORACLE3_GTIL,
    ORACLE3_G1PHI,
    ORACLE3_PHIT2,
    ORACLE3_KERNELS
};

struct oracle3 {
    int P, D, N, M, Ne;
    enum oracle_gate gate;
    enum oracle_activation activation;
    enum oracle_loss loss;
    double gamma0, beta, rho, eta0;
    bool hold_mask; /* oracle3_forward takes mask as it stands */

    double *X, *y, *f0;               /* [P][D], [P], [P]: f = raw f - f0 */
    double *block[ORACLE3_BLOCKS];    /* W1 [N][D], Q [M][N], Win [M][Ne][N], Wout [M][N][Ne], */
    double *df_block[ORACLE3_BLOCKS]; /* w4 [N]; dL/dW of the same shapes (backward) */
    double *h1, *psi, *mask, *phit;   /* [P][N], [P][M] x 3 */
    double *h, *ho, *h3;              /* [P][M][Ne], [P][M][N], [P][N] */
    double *f, *Delta;                /* [P] */
    double *df_h1, *df_psi, *df_h;    /* [P][N], [P][M], [P][M][Ne]: derivatives of f_mu */
};

/* All arrays zero; softmax, tanh, mse, all scalars 1. Ends the program if memory runs out. */
struct oracle3 *oracle3_new(int P, int D, int N, int M, int Ne);
void oracle3_free(struct oracle3 *o);
int oracle3_count(const struct oracle3 *o, int block); /* entries of a block */

double oracle3_forward(struct oracle3 *o); /* returns the mean of l over the inputs */
void oracle3_backward(struct oracle3 *o);
/* One step of every block from the gradients that backward has left. */
void oracle3_step(struct oracle3 *o);
double oracle3_rate(const struct oracle3 *o, int block); /* eta of the page, section 1 */
/* A kernel of the page's section 3 at equal times, from what forward and backward have left. */
double oracle3_kernel(const struct oracle3 *o, int kernel, int mu, int nu);

#endif
