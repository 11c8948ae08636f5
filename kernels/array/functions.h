/* Functions of many numbers at once, in vector code chosen at run time: those of glibc's libmvec,
 * whose errors are at most 4 units in the last place (measured: tanh 1.2, erf 2.5, exp 3.1; in
 * single precision 1.4, 4.0, 2.4). Where there is no libmvec, those of libm one by one. An element
 * does not depend on its neighbours: neither on its place in an array, nor on how long that is. */
#pragma once

#include "kernels/array/backend.h"
#include "kernels/array/real.h"

/* u = scale x_i + shift;  value_i = fn(u), slope_i = fn'(u). value or slope may be NULL, or x. */
void functions_apply(enum fn fn, double scale, double shift, const real *x, int n, real *value,
                     real *slope);
/* out_k,i = factor a[k] x_k,i + b[k] (NULL: 1, 0), rows of x and of out being `step` and `out_step`
 * apart; out may be x. */
void functions_affine(double factor, const double *a, const double *b, const real *x, size_t step,
                      int rows, int n, real *out, size_t out_step);
/* The normals of row `draw` of the stream at sites 2 first_pair ... 2 first_pair + n - 1: those of
 * rng_normal_pair to the errors above. */
void functions_normals(struct rng_stream stream, uint32_t draw, uint32_t first_pair, int n,
                       real *out);
/* sums_k += sum_i x_k,i y_k,i, or sum_i x_k,i if y is NULL; rows are step_x and step_y apart, where
 * 0 is one row for all. */
void functions_sums(const real *x, size_t step_x, const real *y, size_t step_y, int rows, int n,
                    double *sums);
/* out_i = x_i y_i; out may be x or y */
void functions_multiply(const real *x, const real *y, int n, real *out);
/* It does so for `groups` groups of sites, of which a or b may have one number each; y may be the
 * factor that is whole. */
void functions_multiply_groups(const real *a, const real *b, bool whole_a, bool whole_b, int groups,
                               int group, real *y);
/* out_i = sum_k x_k,i, row after row; rows lie one behind the other. */
#define FUNCTIONS_SUMS 16
void functions_sums_across(const real *x, int rows, real *out);
/* y_i += entry_step(g_i, m_i, v_i) */
void functions_entries(const struct entry_rule *rule, const real *g, int n, real *m, real *v,
                       real *y);
