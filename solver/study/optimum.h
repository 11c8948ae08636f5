/* Where an objective is smallest along a key, of one column of a sweep (one width, or the limit, at
 * one value of every other key): a smooth curve through the logarithms of the objective, and its
 * lowest place, with samples that say how well both are known.
 *
 * The curve is the cubic smoothing spline of the estimates over x, which is the logarithm of the
 * key: the mean of a process whose second derivative is white noise, given estimates with the
 * errors that the runs show. The amplitude of that noise is the one that makes the estimates most
 * likely (restricted maximum likelihood), so that a curve which is only noise becomes a straight
 * line, and has no optimum. The spline sees asinh(ln objective - its least), which has the same
 * lowest place and does not let a run that nearly diverges bend the curve where it is low.
 *
 * Each sample repeats the fit to estimates that are moved as other runs might have moved them: by
 * sum_r g_r (x_r - mean)/sqrt(n (n - 1)) over the n runs (or pseudo-values of the jackknife) with
 * the same normal g_r at all values of the key, since these share their initial weights, times
 * Student's factor for n - 1; medians by medians of runs drawn with replacement. Between the values
 * of the key a sample goes as far from the spline as the process does. Where the objective rises on
 * one side as no curve continued from the other side would (divergence), the optimum may lie
 * anywhere up to that rise, and samples do. All random numbers are functions of a seed, the width,
 * the number of the sample and of the run, and, for errors that the runs do not show and up to a
 * rise, of the estimates to six digits: calls agree bit by bit, and sample b of two columns of the
 * same width has the same runs, so that ratios of samples are paired. */
#ifndef SOLVER_OPTIMUM_H
#define SOLVER_OPTIMUM_H

#include "kernels/base/base.h"

enum { OPTIMUM_SAMPLES = 1000 }; /* both ends of an interval rest on the outermost 25 */

/* Why no optimum is known; the numbers are those of `reason` in the file. */
enum optimum_reason {
    OPTIMUM_KNOWN,
    OPTIMUM_LOWEST,  /* the objective falls, or may fall, beyond the lowest value of the key */
    OPTIMUM_HIGHEST, /* beyond the highest value */
    OPTIMUM_FAILED,  /* towards a value at which runs failed */
    OPTIMUM_NOISE,  /* estimates are not told from zero, or values of the key not from each other */
    OPTIMUM_FEW,    /* fewer than four values of the key can be used */
    OPTIMUM_SINGLE, /* of one run no error is known */
    OPTIMUM_NONE,   /* there is no estimate at all */
    OPTIMUM_RESTS,  /* the limit rests; never returned by optimum_find */
    OPTIMUM_REASONS
};
enum optimum_kind { OPTIMUM_MEANS, OPTIMUM_MEDIANS, OPTIMUM_KINDS };

/* The estimate at one value of the key. */
struct optimum_point {
    double x;            /* ln key, or the key where some value is not positive */
    double value, error; /* the mean or median and its standard error, NaN for one run */
    int runs;
    const double *run; /* [runs], or NULL: only value and error are known */
    bool failed;       /* no estimate, or some of its runs failed: it bounds what is known */
};

/* What is found. An interval holds 95 % of the samples. A sample whose objective is lowest beyond
 * the values that can be used is -INFINITY or INFINITY. */
struct optimum {
    enum optimum_reason reason;
    int best;             /* the value of the key with the smallest estimate; -1: none */
    double at, low, high; /* x; at is NaN unless it is known */
    double value, value_low, value_high; /* of the objective there, NaN unless it is known */
    double sample[OPTIMUM_SAMPLES], sample_value[OPTIMUM_SAMPLES]; /* NaN: there are none */
};

/* point [count] with x increasing; N: of the width, 0 for the limit. Known is an optimum whose
 * whole interval lies between values of the key that can be used: those that did not fail and whose
 * estimates exceed two of their errors. */
int optimum_find(struct optimum *optimum, enum optimum_kind kind, int count,
                 const struct optimum_point *point, int N, struct err *err);

#endif
