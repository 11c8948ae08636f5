/* The finite transformer, written from docs/theory/transformer.md alone: plain loops over explicit
 * row-major arrays, equations (1) to (19) of that page, weights in its normalisation: entries of a
 * matrix have variance 1/fan-in, those of W0, w and r are of order one. Heads are H groups of N_k
 * units, whether H or N_k stays fixed as N grows. It judges the network code of the program and
 * shares nothing with it.
 *
 * Indices: row = mu n + s of token s of input mu, R = P n rows; U = H N_k units of all heads, head
 * by head; M = E N_e units of all experts; places 2 l of the stream before attention of block l,
 * 2 l + 1 between attention and experts, 2 L at the top. */
#ifndef TESTS_ORACLE_TRANSFORMER_H
#define TESTS_ORACLE_TRANSFORMER_H

#include "tests/oracles/oracle_regime2.h"

struct oracle_sizes {
    int P, n, C, K, V, N, L, H, N_k, E, N_e; /* E = 0: attention alone */
};

struct oracle_transformer {
    int P, n, C, K, V, N, L, H, N_k, E, N_e;
    enum oracle_activation activation;
    enum oracle_loss loss;
    enum oracle_gate gate; /* ORACLE_SOFTMAX, ORACLE_SIGMOID_M or ORACLE_CONSTANT */
    int top;               /* experts of a row that are selected */
    bool causal, norm, final_norm, per_token, gated;
    double eta0, gamma0, b, beta_A, beta, kappa_r, kappa_b; /* beta: of the gates */

    double *A;               /* [R][K] coordinates of the read-in */
    int *token;              /* [R], below V; V = 1: one set of biases */
    double *y;               /* [outs][C], outs = R per token, else P */
    double *W0, *w;          /* [K][N], [C][N] */
    double *W_Q, *W_K, *W_V; /* [L][U][N] */
    double *W_O;             /* [L][N][U] */
    double *W1, *W3;         /* [L][M][N]; W3 of gated experts */
    double *W2;              /* [L][N][M] */
    double *r, *bias;        /* [L][E][N], [L][V][E] */
    double *f0;              /* [outs][C], subtracted from the outputs */

    /* written by oracle_transformer_forward */
    double *h, *x, *s;     /* [2L+1][R][N] the stream, normalised, and [2L+1][R] its norm */
    double *q, *k, *v, *o; /* [L][R][U] */
    double *logit, *a;     /* [L][H][R][n] */
    double *psi, *p;       /* [L][R][E] */
    double *u, *t;         /* [L][R][M]: W1 y, W3 y (without: 1) */
    double *f, *Delta;     /* [outs][C]; -dl/df */

    /* written by oracle_transformer_backward */
    double *g;            /* [2L+1][R][N] */
    double *gq, *gk, *gv; /* [L][R][U] */
    double *gphi, *gpsi;  /* [L][R][E] */
    double *gu, *gt;      /* [L][R][M] */
    double *work;         /* [N] */
};

/* All arrays zero; tanh, mse, softmax over all experts, norms, and every number 1. Every array
 * belongs to the oracle and is to be filled in place. */
struct oracle_transformer *oracle_transformer_new(const struct oracle_sizes *sizes);
void oracle_transformer_free(struct oracle_transformer *o); /* accepts NULL */

/* Forward returns the mean loss; backward needs the state it leaves. A step is forward, backward
 * and the update of every parameter from the values before it; it returns the loss before the step.
 */
double oracle_transformer_forward(struct oracle_transformer *o);
void oracle_transformer_backward(struct oracle_transformer *o);
double oracle_transformer_step(struct oracle_transformer *o);

/* Parameters as flat arrays of *count numbers: 0: W0, 1: w, then for each block l these. */
enum {
    ORACLE_W_Q,
    ORACLE_W_K,
    ORACLE_W_V,
    ORACLE_W_O,
    ORACLE_ROUTER,
    ORACLE_BIAS,
    ORACLE_W_1,
    ORACLE_W_3,
    ORACLE_W_2,
    ORACLE_PER_BLOCK
};
int oracle_transformer_blocks(const struct oracle_transformer *o);
double *oracle_transformer_block(const struct oracle_transformer *o, int block, int *count);
/* The rate of gradient descent on the mean loss, over eta0: table below (19). */
double oracle_transformer_rate(const struct oracle_transformer *o, int block);

/* <h h> and <g g> of two rows at a place of the stream. */
double oracle_transformer_hh(const struct oracle_transformer *o, int place, int row, int other);
double oracle_transformer_gg(const struct oracle_transformer *o, int place, int row, int other);

#endif
