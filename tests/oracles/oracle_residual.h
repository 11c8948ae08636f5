/* The finite deep residual mixture of experts, written from the theory page alone: plain loops over
 * explicit row-major arrays in the normalisation of section 1 of that page (every initial weight is
 * N(0, 1)). It judges the network code of the program and therefore shares nothing with it.
 *
 * Indices: mu < P inputs, d < D, n < N stream sites, l < L blocks, k < E experts, j < Ne units of
 * an expert. Units are numbered k*Ne + j. */
#ifndef TESTS_ORACLE_RESIDUAL_H
#define TESTS_ORACLE_RESIDUAL_H

#include <stdbool.h>

enum {
    ORACLE_RESIDUAL_W0,
    ORACLE_RESIDUAL_W1,
    ORACLE_RESIDUAL_W2,
    ORACLE_RESIDUAL_R,
    ORACLE_RESIDUAL_W,
    ORACLE_RESIDUAL_BLOCKS
};

struct oracle_residual {
    int P, D, N, E, Ne, L;
    double gamma0, eta0, eta_b, rho;
    double (*phi)(double), (*dphi)(double); /* activation and derivative; tanh at first */
    bool centre;                            /* f = raw f - f0 */
    bool hold_mask;                         /* forward takes mask as it stands */

    double *X, *y; /* [P][D], [P] */
    double *W0;    /* [N][D] */
    double *W1;    /* [L][E*Ne][N] */
    double *W2;    /* [L][N][E*Ne] */
    double *r;     /* [L][E][N] */
    double *w;     /* [N] */
    double *b;     /* [L][E], not trained by the gradient */
    double *f0;    /* [P] */

    /* written by forward */
    double *h;          /* [L+1][P][N] */
    double *p, *c, *sd; /* [L][P][E] */
    double *mask;       /* [L][P][E], 0 or 1 */
    double *qstar;      /* [L][P]: the smallest selected sig(p) + b */
    double *psi;        /* [L][P][E*Ne] */
    double *f, *Delta;  /* [P] */

    /* written by backward */
    double *g;     /* [L+1][P][N] */
    double *z, *u; /* [L][P][E*Ne]; u = phi'(psi) z */
    double *A;     /* [L][P][E] */
};

/* All arrays zero, scalars 1, eta_b 0. Ends the program if memory runs out. */
struct oracle_residual *oracle_residual_new(int P, int D, int N, int E, int Ne, int L);
void oracle_residual_free(struct oracle_residual *o);

/* The forward pass; returns the mean of (y - f)^2/2. rho E must be whole; of equal q the lower
 * index is selected. */
double oracle_residual_forward(struct oracle_residual *o);
void oracle_residual_backward(struct oracle_residual *o);
/* One step of all parameters, and of b, from the state that both passes have left. */
void oracle_residual_step(struct oracle_residual *o);

/* Parameter block as a flat array of *count numbers, and its learning rate. */
double *oracle_residual_block(struct oracle_residual *o, int block, int *count);
double oracle_residual_rate(const struct oracle_residual *o, int block);

/* Of the state that both passes have left; l <= L in Ch and Cg, l < L else. */
double oracle_residual_Ch(const struct oracle_residual *o, int l, int mu, int nu);
double oracle_residual_Cg(const struct oracle_residual *o, int l, int mu, int nu);
double oracle_residual_Mphi(const struct oracle_residual *o, int l, int mu, int nu);
double oracle_residual_Mg(const struct oracle_residual *o, int l, int mu, int nu);
double oracle_residual_MAA(const struct oracle_residual *o, int l, int mu, int nu);
double oracle_residual_load2(const struct oracle_residual *o, int l);

#endif
