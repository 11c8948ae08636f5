/* For polar.c: matrices on the host, one by one or as groups of columns. p(X/|X|_F) as in polar.h;
 * 0 if |X|_F is `least` at most. */
#pragma once

#include "kernels/array/backend.h"

enum { POLAR_STEPS = 5 };
extern const double polar_coefficient[3]; /* a, b, c of a step s <- a s + b s^3 + c s^5 */

/* |X|, and X *= factor, of any number of entries: BLAS counts by int. */
double polar_norm(size_t count, const double *X);
void polar_scale(size_t count, double factor, double *X);
/* C [n][n] = a + b A + c A^2, the factor of a step, A symmetric. */
void polar_factor(int n, const double *A, double *C);
/* out [count][n] = b seen + c seen A: what rows that take the step are to add of the rows X of a
 * matrix, A = X X^T, of which they see `seen` = rows X^T; beside a times themselves. */
void polar_seen(int count, int n, const double *seen, const double *A, double *out);
/* X [r][c] <- p(X/|X|_F) = X L, or that of the exact factor; and but for the latter other rows
 * along [count][c] <- along L. CODE_NUMERICAL where it is not finite. scratch: of polar_scratch. */
int polar_host(int r, int c, double *X, int count, double *along, double least, bool exact,
               double *scratch, struct err *err);
size_t polar_scratch(int r, int c, int count);
/* Does so with the columns of each group of sites, a matrix [x.count][group] of its own, also of
 * companions, since a site is no small part of its expert. along: other rows over the same sites,
 * which become what the same factors make of them, but for the exact one; or of no array. stop:
 * asked before each group. */
int polar_columns(struct rows x, int group, double least, bool exact, struct rows along,
                  const struct stop *stop, struct err *err);
