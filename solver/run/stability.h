/* The edge of stability. Where training amplifies differences until something else stops them,
 * networks of one width differ by as much as those of any other: the variance of f over seeds does
 * not fall as 1/N, and neither a limit nor an extrapolation in 1/N says what a network does. */
#pragma once

#include "solver/run/run.h"

/* Slope of ln V in ln N through all widths, V the variance of f over networks, summed over its
 * entries; mean of ln V over the times first <= t < end. NaN where there are fewer than two widths
 * or four networks, or the standard deviation is below 1e-6 of rms f: round-off. The error is that
 * of the networks (jackknife) or of the residuals, the larger. */
int stability_exponent(const struct run *run, int first, int end, double *exponent, double *se,
                       struct err *err);
/* Whether, in the second half of the times, the variance falls more slowly than N^-1/2 and not as
 * 1/N, by three errors. */
int stability_reached(const struct run *run, bool *reached, struct err *err);
