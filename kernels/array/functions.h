/* Functions of many numbers at once, in vector code chosen at run time: those of glibc's libmvec,
 * whose errors are at most 4 units in the last place (measured: tanh 1.2, erf 2.5, exp 3.1; in
 * single precision 1.4, 4.0, 2.4). Where there is no libmvec, those of libm one by one. An element
 * does not depend on its neighbours: neither on where in an array it is, nor on how long that is.
 */
#ifndef KERNELS_FUNCTIONS_H
#define KERNELS_FUNCTIONS_H

#include "kernels/array/backend.h"
#include "kernels/array/real.h"

/* u = scale x_i + shift;  value_i = fn(u), slope_i = fn'(u). value or slope may be NULL, or x. */
void functions_apply(enum fn fn, double scale, double shift, const real *x, int n, real *value,
                     real *slope);
/* The normals of row `draw` of the stream at sites 2 first_pair ... 2 first_pair + n - 1: those of
 * rng_normal_pair to the errors above. */
void functions_normals(struct rng_stream stream, uint32_t draw, uint32_t first_pair, int n,
                       real *out);
/* sum_i x_i y_i, or sum_i x_i if y is NULL */
double functions_sum(const real *x, const real *y, int n);
/* y_i += entry_step(g_i, m_i, v_i) */
void functions_entries(const struct entry_rule *rule, const real *g, int n, real *m, real *v,
                       real *y);

#endif
