/* A thin matrix: one side finite (read-in over the inputs, read-out, a router over few experts).
 *
 * Explicit columns over sites, K of them, normal at the start and drawn from the pool of their
 * population:
 *     read(A)       ->  rows sum_k A[mu][k] W_k            A host [P][K]
 *     learn(A, c, y):   W_k += sum_mu c_mu A[mu][k] y_mu    (W += sum c y A^T)
 * A read-in from D inputs works in coordinates of the span of the inputs (thin_coordinates): what
 * lies outside of it never enters, so D = 784 with 32 inputs costs 32 columns. */
#pragma once

#include "kernels/maps/change.h"
#include "kernels/draws/population.h"

struct thin {
    struct population *population;
    struct array W; /* [K] */
    double decay;   /* what weight decay has left of the columns that were drawn */
    int uses;       /* of the matrix in an evaluation, of as many rows each; 0: one */
    /* Where there are several, what it learns with in all of them: y [uses rows], A [uses rows][K]
     */
    struct rows y;
    double *A;
};

/* Columns amplitude times standard normal; 0 draws nothing. */
int thin_init(struct thin *thin, struct population *population, int K, double amplitude,
              struct err *err);
void thin_free(struct thin *thin); /* accepts a zeroed struct; idempotent */
void thin_read(const struct thin *thin, const double *A, struct rows out);
int thin_learn(struct thin *thin, const double *A, const double *c, struct rows y, struct err *err);
/* What thin_learn would add to the columns. */
int thin_change(const struct thin *thin, const double *A, const double *c, struct rows y,
                struct change *change, struct err *err);

/* Inputs X [P][D] as X/sqrt(D) = A B with B [*K][D] orthonormal rows (Gram-Schmidt in the order of
 * the inputs), K = rank <= min(P, D): an input adds a row where more than 1e-12 of it is left. A
 * [P][K] is allocated by the call, B too unless NULL. */
int thin_coordinates(const double *X, int P, int D, double **A, double **B, int *K,
                     struct err *err);
