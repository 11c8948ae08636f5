/* Singular values of a limit map: those that training has pulled out of its random bulk
 * (docs/theory/spikes.md).
 *
 * A matrix W, n x m, takes rows to rows. With the site averages <x x> and <y y> as squares of
 * lengths its singular values are those of the matrix over sqrt(n/m), so that the largest of them
 * is the largest factor by which W enlarges the root mean square of a row. They stay of order one
 * at every width, whatever n/m is.
 *
 * In the limit, with fg and fr of map.h, each times the decay of W(0), infinitely many of them fill
 * an interval that ends at the edge fg + fr. What was learned is of finite rank and pulls single
 * ones out of it, the spikes:
 *
 *     s = sqrt((w^2 + fg^2)(w^2 + fr^2))/w,    w > sqrt(fg fr) a root of
 *
 *     det [ w^2 + fr^2 - GE    -w K             ] = 0
 *         [ -w K^T             w^2 + fg^2 - GZ  ]
 *
 *     K_ba = <p_b (W q_a)>    E_b = fr e_b + K_b
 *     GE, GZ: products of what of E_b lies outside of q, and of what of Z_a lies outside of p
 *
 * For w above sqrt(fg fr) the negative eigenvalues of this matrix become fewer as w rises, one at
 * each root: so roots are counted, and none is missed. The matrix has the round-off of averages, so
 * that the square of a spike has that of the largest square: a spike of 1e-6 times the largest one
 * is known to about 1e-4 of itself. */
#pragma once

#include "kernels/maps/map.h"

/* fg + fr of W(0) as much of it as is left, and |fg - fr|: between them are its singular values. */
double spikes_edge(const struct map *map);
double spikes_lower_edge(const struct map *map);
/* The `count` largest singular values beyond the edge, descending, and NaN where there are fewer;
 * learned [count]: the largest singular values of what was learned by itself, 0 beyond its rank. Of
 * kind limit, of a map that remembers. CODE_NUMERICAL where it is not finite;
 * CODE_INTERRUPTED once `stop` asks for it. */
int spikes_find(const struct map *map, const struct stop *stop, int count, double *values,
                double *learned, struct err *err);
/* The failure of LAPACK (info) to find singular values of a map; info 0: it is not finite. */
int spikes_fail(const struct map *map, int info, struct err *err);
/* Where a spike would be whose singular vectors are independent of W(0): of what was learned with
 * the singular value w (the transition of Baik, Ben Arous and Peche; Benaych-Georges and
 * Nadakuditi 2012). NaN: it would be none. */
double spikes_independent(const struct map *map, double w);
