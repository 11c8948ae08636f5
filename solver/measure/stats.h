/* Statistics of independent runs, at the edges: Student's t and fits in N, by GSL. */
#ifndef SOLVER_STATS_H
#define SOLVER_STATS_H

#include <stddef.h>

/* Half width of the two-sided interval of the given level for a mean with standard error se over n
 * runs (Student's t, n - 1 degrees); NaN for n < 2. */
double stats_interval(double se, int n, double level);

/* Errors of means below this are those of round-off, by whose ratios nothing is told; mean [count]
 * [size], NULL for those that are not there. */
double stats_round_off(double *const *mean, int count, size_t size);

/* Weighted least squares of mean_i = a + b/N_i: a and its standard error; NaN unless every se is
 * positive and finite. count >= 2. */
void stats_extrapolate(const int *N, const double *mean, const double *se, int count, double *a,
                       double *a_se);

/* Weighted least squares of ln gap_i = c + exponent ln N_i over the widths with |gap_i| > 2 se_i,
 * where the error of ln gap_i is se_i/|gap_i|. Returns how many these are; NaN below two. */
int stats_approach(const int *N, const double *gap, const double *se, int count, double *exponent,
                   double *exponent_se);

/* Least squares of value_i = c + exponent ln N_i, all of one weight: values are logarithms with
 * standard errors se. The error is the larger of that from the residuals (three widths or more) and
 * that from se, and the former alone where one se is unknown (NaN): NaN then for two widths. Both
 * are NaN if a value is not finite. count >= 2. */
void stats_exponent(const int *N, const double *value, const double *se, int count,
                    double *exponent, double *exponent_se);

/* The median of n >= 1 values, which are sorted in place, and its standard error (NaN for n = 1):
 * that of the median of n draws with replacement, in closed form (Maritz and Jarrett), exact for
 * odd n. */
void stats_median(double *value, int n, double *median, double *se);

/* Where the parabola through three points, x increasing and the middle y the smallest, has its
 * vertex; between the middles of the two intervals. */
double stats_vertex(const double x[3], const double y[3]);

#endif
