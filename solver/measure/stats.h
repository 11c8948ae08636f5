/* Statistics of independent runs, at the edges: Student's t and fits in N, by GSL. */
#pragma once

#include "kernels/base/base.h"

/* Half width of the two-sided interval of the given level for a mean with standard error se
 * (Student's t of so many degrees of freedom, of a mean over n runs n - 1); NaN below one. */
double stats_interval(double se, double freedom, double level);

/* Errors of means below this are those of round-off, and ratios to them mean nothing; mean [count]
 * [size], NULL for those that are not there. */
double stats_round_off(double *const *mean, int count, size_t size);
/* The largest of all entries, without sign; it passes over NaN. */
double stats_largest(const double *values, size_t size);
/* An error as tables print it: 0 where it is no more than the round-off of its mean. */
double stats_shown(double mean, double error);

/* A mean of independent runs. */
struct stats_mean {
    double value, se;
    int runs;
};
/* mean_i = a + b/N_i by least squares. A mean over n networks of width N weighs N n, as the
 * variance over networks falls as 1/N: weights from the errors of the means would be those of
 * chance, where runs are few, and favour widths whose networks happen to lie together. The se of a
 * is made of the errors of the means, whatever law these follow, and has Welch's degrees of
 * freedom. chi2, of count - 2 degrees, is as rare as F, the sum of the weighted squares of the
 * residuals over what the errors of the means let expect, with Welch's degrees of freedom below
 * (Brown and Forsythe). */
struct stats_fit {
    double a, se, freedom, chi2;
};
/* All NaN unless each mean is of two runs or more and its se positive and finite; chi2 below three
 * widths, too. count >= 2. */
struct stats_fit stats_extrapolate(const int *N, const struct stats_mean *mean, int count);
/* (a - limit) over both errors in quadrature is Student's t, by Welch's degrees of freedom. Returns
 * the z that a normal number exceeds as rarely; NaN where an error is. */
double stats_z(struct stats_fit fit, struct stats_mean limit);

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
