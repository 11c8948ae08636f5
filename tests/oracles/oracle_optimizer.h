/* Momentum and Adam for the plain-loop networks of the other oracles, written from section 1 of
 * docs/theory/parameterizations.md alone, on the unit-variance weights w that these networks train:
 * the table of rates and eps in that form. Nothing is shared with the program.
 *
 * The gradient dL/dw is what a step of an oracle itself divides by: one step at an enormous rate,
 * taken back. */
#ifndef TESTS_ORACLE_OPTIMIZER_H
#define TESTS_ORACLE_OPTIMIZER_H

#include "tests/oracles/oracle_dense.h"
#include "tests/oracles/oracle_regime1.h"
#include "tests/oracles/oracle_regime3.h"
#include "tests/oracles/oracle_residual.h"
#include "tests/oracles/oracle_resnet.h"
#include "tests/oracles/oracle_transformer.h"

/* Matrices that a block consists of: entry (i, j) of matrix k of copy c is number c copy + k matrix
 * + i row + j column. */
struct oracle_matrices {
    int copies, count, rows, columns; /* copies = 0: a block that Muon leaves */
    int copy, matrix, row, column;
    bool units, out; /* count experts of one map, into whose units it leads, or out of them */
    double rate;     /* of an entry of root mean square 1 */
};

struct oracle_weights {
    double *w, *G, *first, *second; /* [count]; all but w are owned */
    int count;
    bool bias;       /* does not decay */
    double own, sgd; /* rates of gradient descent over eta0: of the network's step, and wanted */
    double adam_rate, nu; /* of Adam, over the base rate; eps over the base eps */
    struct oracle_matrices matrices;
    bool heads; /* each of the matrices belongs to one of so many heads */
};

enum { ORACLE_OPTIMIZER_BLOCKS = 32 };
struct oracle_optimizer {
    void *network;
    double (*step)(void *network); /* forward, backward and a step of gradient descent */
    double *eta0;                  /* of the network */
    const double *f;               /* of the network, [P] */
    int blocks, t;
    struct oracle_weights block[ORACLE_OPTIMIZER_BLOCKS]; /* read-in and read-out first */
    bool adam, inside, lion;                              /* lion: by entry, too, but not Adam */
    double rate, momentum, beta1, beta2, eps, decay;      /* decay: omega */
    bool muon, exact, nesterov, together, heads_together,
        rest_adam; /* Muon; else of what it leaves: plain */
    double rest_rate;
    const double *factor; /* NULL, or what the rate of each step, and omega, are multiplied by */
    double clip, norm;    /* 0: none; of the last gradient, (sum of rates sgd times G^2)^1/2 */
};

/* For a network whose settings stay; all numbers of the last lines above are the caller's. Free it
 * before the network. */
struct oracle_optimizer *oracle_optimizer_dense(struct oracle_dense *o);
struct oracle_optimizer *oracle_optimizer_1(struct oracle1 *o);
struct oracle_optimizer *oracle_optimizer_2(struct oracle *o);
struct oracle_optimizer *oracle_optimizer_3(struct oracle3 *o);
/* Of a block's matrices F as they act (F1 = W1/sqrt N, FR = r/N, F2 = sqrt N/(N_e E) W2): rate 1
 * over the size of the source, nu the size of df/dF gamma0, which has 1/L. */
struct oracle_optimizer *oracle_optimizer_residual(struct oracle_residual *o);
/* (6) of docs/theory/resnet.md. */
struct oracle_optimizer *oracle_optimizer_resnet(struct oracle_resnet *o);
/* (20) of docs/theory/transformer.md, of at most three blocks; A = X/sqrt D. */
struct oracle_optimizer *oracle_optimizer_transformer(struct oracle_transformer *o);
/* Says that the last block consists of matrices, whose Adam rate is known. */
void oracle_optimizer_matrices(struct oracle_optimizer *a, struct oracle_matrices matrices);
/* Standard parameterization: one rate and one eps for W = a w, a the multiplier of w (1 of W1,
 * whose rate and eps of Adam are divided by sqrt D). The initial weights are the caller's. */
void oracle_optimizer_sp(struct oracle_optimizer *a, const struct oracle1 *o);
void oracle_optimizer_free(struct oracle_optimizer *a);
/* One step; returns the loss before it. */
double oracle_optimizer_step(struct oracle_optimizer *a);

#endif
