/* Rank-revealing orthonormal bases over sites (<u_k u_l> = delta_kl, site averages).
 *
 * Rows enter in their order, without pivoting or eigenvectors, so signs and order do not depend on
 * a library build, and coefficient matrices are lower triangular. Normalising a short rest enlarges
 * the round-off of its projection; rows that have lost much by that are projected once more.
 * Bases stay orthonormal to some 1e-15. */
#pragma once

#include "kernels/array/backend.h"

/* What is known of rows x beside a base: <x, base> [x.count][base.count], and <x_mu x_mu> as
 * squares[mu * basis_step(x)], on a device of few rows among all their products. NULL: nothing. */
#define BASIS_FEW 64 /* rows that enter by their products, at most: more take the host longer */
struct basis_known {
    double *products, *squares;
};
size_t basis_step(struct rows x);
/* Finds it, in a zeroed struct; it comes late where a hold has begun. */
int basis_ask(struct rows base, struct rows x, struct basis_known *known, struct err *err);
void basis_forget(struct basis_known *known);

/* What rows x add to an orthonormal set `base` (may be empty): row by row, the part of x outside of
 * base and of the rows kept before, if its rms exceeds threshold, normalised. The kept rows are the
 * first *kept rows of `out` (resized to hold x.count rows). *kept <= x.count.
 * loss: of a base that grows call by call, the account of each row's overlaps [base.count], behind
 * which those of kept rows are written; NULL where nobody goes on from these rows.
 * which: NULL, or on a processor the row of x that each kept row is of, [x.count]. */
int basis_residual(struct rows base, double *loss, struct rows x, struct basis_known known,
                   double threshold, struct array *out, int *which, int *kept, struct err *err);
/* Whether a device does the same without its host, which learns no numbers: rows v become what is
 * left of them, and zero where they are not kept. */
bool basis_straightens(const struct backend *backend);
void basis_straighten(struct rows base, struct rows v, double threshold);
