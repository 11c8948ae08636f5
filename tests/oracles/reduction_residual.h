/* The limit alpha = 0 of the deep residual mixture of experts as the exact, memoryless recursion
 * (12)-(15) of docs/theory/residual.md, plain loops that share nothing with the program: every
 * stream field is a vector of d coordinates on the read-in directions and w(0), every unit carries
 * two such vectors. It judges models/networks/residual.c with limit maps.
 *
 * Indices: mu < P inputs, i < d coordinates, l < L blocks, k < E experts (nodes), j < S sampled
 * units of an expert, numbered k*S + j. tanh, square loss. */
#pragma once

struct reduction_residual {
    int P, d, E, S, L;
    double gamma0, eta0, eta_b, rho;
    const double *y, *Kx; /* [P], [P][P] = x.x'/D; of the caller */
    double *H0, *wv;      /* [P][d], [d] */
    double *w1, *w2;      /* [L][E*S][d] */
    double *r, *b;        /* [L][E][d], [L][E] */
    double *f0;           /* [P], zero at first */

    /* of the present time */
    double *H, *G;        /* [L+1][P][d] */
    double *f, *Delta;    /* [P]; f minus f0 */
    double *p, *mask, *A; /* [L][P][E] */
    double *c, *sd;       /* [L][P][E] */
    double *phi, *gk;     /* [L][P][E*S] */
    double *load2;        /* [L] */
};

/* Zeroed arrays; ends the program if memory runs out. */
struct reduction_residual *reduction_residual_new(int P, int d, int E, int S, int L);
void reduction_residual_free(struct reduction_residual *o);
void reduction_residual_forward(struct reduction_residual *o);  /* (12) */
void reduction_residual_backward(struct reduction_residual *o); /* (13) */
void reduction_residual_step(struct reduction_residual *o);     /* (14), (15), (10) */
