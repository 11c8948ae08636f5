/* Statistics of independent runs, at the edges: Student's t and fits in N, by GSL. */
#ifndef SOLVER_STATS_H
#define SOLVER_STATS_H

#include <stddef.h>

/* Half width of the two-sided interval of the given level for a mean with standard error se over n
 * runs (Student's t, n - 1 degrees); NaN for n < 2. */
double stats_interval(double se, int n, double level);

/* Errors of means below this are those of round-off, and ratios to them mean nothing; mean [count]
 * [size], NULL for those that are not there. */
double stats_round_off(double *const *mean, int count, size_t size);
/* An error as tables print it: 0 where it is no more than the round-off of its mean. */
double stats_shown(double mean, double error);

/* Weighted least squares of mean_i = a + b/N_i: a and its standard error; NaN unless every se is
 * positive and finite. count >= 2. */
void stats_extrapolate(const int *N, const double *mean, const double *se, int count, double *a,
                       double *a_se);
/* A mean of independent runs. */
struct stats_mean {
    double value, se;
    int runs;
};
/* That fit against a limit: (a - limit) over both errors in quadrature is Student's t, by Welch's
 * degrees of freedom, since errors of few runs are not known well. Returns the z that a normal
 * number exceeds as rarely; NaN unless the se of the means are positive and finite, and where all
 * are of numbers that are 0 or 1 in each run and the limit's do not differ, which says nothing of
 * how they would. count >= 2. */
double stats_z(const int *N, const struct stats_mean *mean, int count, struct stats_mean limit);
/* The chi^2 of that fit, sum_i ((mean_i - a - b/N_i)/se_i)^2, which has count - 2 degrees of
 * freedom; NaN below three widths and where the fit is. */
double stats_chi2(const int *N, const double *mean, const double *se, int count);

/* Weighted least squares of ln |gap_i| = c + exponent ln N_i, gap_i being a mean over networks with
 * standard error se_i less a limit with standard error limit_se. Widths count with |gap_i| > 2 e_i,
 * e_i both errors in quadrature, and weigh (gap_i/e_i)^2. The error of the exponent knows that the
 * limit is the same at all widths. Returns how many widths count; NaN below two, and an se_i of NaN
 * leaves out its width. */
int stats_approach(const int *N, const double *gap, const double *se, double limit_se, int count,
                   double *exponent, double *exponent_se);

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
