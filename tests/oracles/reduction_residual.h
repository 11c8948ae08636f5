/* The limit alpha = 0 of the deep residual mixture of experts as the exact, memoryless recursion
 * (12)-(15) of docs/theory/residual.md, on a tape: every stream field is a vector of d coordinates
 * on the read-in directions and w(0), every unit carries two such vectors. It judges
 * models/networks/residual.c with limit maps, and shares nothing with it.
 *
 * Indices: mu < P inputs, i < d coordinates, l < L blocks, k < E experts (nodes), j < S sampled
 * units of an expert, numbered k*S + j. tanh, square loss. */
#pragma once

#include "tests/oracles/tape.h"

struct reduction_residual {
    int P, d, E, S, L;
    double gamma0, eta0, eta_b, rho;
    const double *y, *Kx; /* [P], [P][P] = x.x'/D; of the caller */
    double *H0, *wv;      /* [P][d], [d] */
    double *w1, *w2;      /* [L][E*S][d] */
    double *r, *b;        /* [L][E][d], [L][E] */
    double *f0;           /* [P], zero at first */

    /* of the present time */
    double *H, *G; /* [L+1][P][d] */
    double *f;     /* [P]; minus f0 */
    double *mask;  /* [L][P][E] */
    double *load2; /* [L] */
    struct tape tape;
    int learns[5]; /* on the tape: H0, wv, w1, w2, r */
    int *out;      /* [P]: f */
};

/* Zeroed arrays; ends the program if memory runs out. */
struct reduction_residual *reduction_residual_new(int P, int d, int E, int S, int L);
void reduction_residual_free(struct reduction_residual *o);
void reduction_residual_forward(struct reduction_residual *o); /* (12), and (13) from the tape */
void reduction_residual_step(struct reduction_residual *o);    /* (14), (15), (10) */
