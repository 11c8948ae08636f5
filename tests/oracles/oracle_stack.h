/* Stacked mixtures of experts, written from docs/theory/stack.md alone: plain loops over explicit
 * row-major arrays, all weights of variance one but what that page says. It judges the network code
 * of the program and shares nothing with it.
 *
 * Experts of all regimes are chains of E matrices: E is free in regime 1, and 2 in the others. */
#ifndef TESTS_ORACLE_STACK_H
#define TESTS_ORACLE_STACK_H

#include "tests/oracles/oracle_optimizer.h"

enum { ORACLE_STACK_DEPTH = 8, ORACLE_STACK_CHAIN = 4 };

struct oracle_stack_block {
    double *Q;                     /* [M][N] */
    double *bias;                  /* [M]; regime 1 */
    double *W[ORACLE_STACK_CHAIN]; /* [M][n][m] */

    /* written by oracle_stack_forward */
    double *in;                    /* [P][N], what it reads: x_l or its norm */
    double *psi, *phi;             /* [P][M] */
    double *h[ORACLE_STACK_CHAIN]; /* [P][M][n] */
    double *out;                   /* [P][N], before the norm */

    /* written by oracle_stack_backward: N gamma0 df/d of it */
    double *g_psi, *g_phi, *g_h[ORACLE_STACK_CHAIN], *g_in, *g_out;
};

struct oracle_stack {
    int P, D, N, L, regime, M, N_e, E;
    bool stream, before, after, biased, activated; /* activated: sigma on what regime 1 puts out */
    enum oracle_gate gate;
    enum oracle_activation activation, expert_activation;
    enum oracle_loss loss;
    double eta0, gamma0, beta, rho, lambda_in, router_rate, branch_power;

    double *X, *y; /* [P][D], [P] */
    double *W1;    /* [N][D] */
    double *w;     /* [N] */
    double *f0;    /* [P], subtracted from the output */
    struct oracle_stack_block block[ORACLE_STACK_DEPTH];

    double *h1;    /* [P][N], written by oracle_stack_forward like x, f, Delta */
    double *x;     /* [L+1][P][N] */
    double *f;     /* [P] */
    double *Delta; /* [P], -dl/df */
    double *g;     /* [L+1][P][N], N gamma0 df/dx, written by oracle_stack_backward */
};

/* All arrays zero; regime 2, tanh, sigmoid, mse, a stream without norms, numbers 1. Sizes, regime
 * and E stay; every array belongs to the oracle and is to be filled in place. */
struct oracle_stack *oracle_stack_new(int regime, int P, int D, int N, int L, int M, int N_e,
                                      int E);
void oracle_stack_free(struct oracle_stack *o);

/* Forward returns the mean of l over the inputs; backward needs the state it leaves. A step is
 * forward, backward and the update of every parameter from the values before it; it returns the
 * loss before the step. */
double oracle_stack_forward(struct oracle_stack *o);
void oracle_stack_backward(struct oracle_stack *o);
double oracle_stack_step(struct oracle_stack *o);

/* L^-a or 1, and the size of the source of matrix k of an expert and of its target. */
double oracle_stack_branch(const struct oracle_stack *o);
int oracle_stack_source(const struct oracle_stack *o, int k);
int oracle_stack_target(const struct oracle_stack *o, int k);

/* Parameters 0: W1, 1: w, then Q, bias and W[k] of each block: a flat array, its size and its rate
 * over eta0. False after the last; *w is NULL where there is none. */
bool oracle_stack_parameter(const struct oracle_stack *o, int index, double **w, int *count,
                            double *rate);
/* Section 2 of that page; parameters that are there, in their order. Read-out not weighed by SP. */
struct oracle_optimizer *oracle_optimizer_stack(struct oracle_stack *o);

#endif
