/* What a run finds out of its results, and its notes tell (notes.c). */
#pragma once

#include "solver/run/run.h"

/* Gates over many experts that condense: a handful of experts comes to carry the average, and the
 * limit is no longer self-averaging (docs/method.md, section 5). */

/* Gates against their values at t = 0, input by input and token by token. The replicate that
 * concentrates most decides: it alone can carry a mean. */
struct condense {
    double lowest;       /* participation ratio, of its initial value ... */
    int at;              /* ... at this time */
    double peak, growth; /* largest gate: in units of the mean, and of its initial value */
    /* The first times from which a handful of experts carries the average, and from which gates
     * concentrate so much that errors may be too small; T: never. */
    int condensed, concentrated;
};
/* Judged by what the gates did; only those that are not bounded can condense (condense_ask).
 * False: the network has no gates over many experts, or nothing has been run. */
bool condense_find(const struct record *record, bool unbounded, struct condense *gates);
/* The first time at which a handful of sites carries a feature kernel, as where units multiply rows
 * that grow: fewer than 10 in the mean over replicates, and a quarter of the start's. T: never. */
int condense_units(const struct record *record);
/* Asks the network of the run, built in or a program of the user's, whether its gates have no bound
 * (exponentials), and how much they amplify fluctuations (net->gates.steep); keeps the answers in
 * run->gates_unbounded and run->steep. */
int condense_ask(struct run *run, struct err *err);

/* The bias that two halves of the sites have taken off a limit ([solver] halves), as they measure
 * it: a run tells by itself whether its sites are too few. */

/* What was taken off one series at one time, in its printed errors; rms over its entries, without
 * the noise of what was taken off. */
struct correction {
    const char *series; /* "loss" or "f" */
    int t;
    double size;
};

/* The largest one of loss and f over the times that all replicates reached. What was taken off
 * fluctuates from replicate to replicate, by .1 to .3 printed errors of 8 (.6 where experts change
 * places). Size 0: none, or the limit has no halves, or a single replicate. */
int correction_find(const struct record *limit, struct correction *largest, struct err *err);

/* The edge of stability. Where training amplifies differences until something else stops them,
 * networks of one width differ by as much as those of any other: the variance of f over seeds does
 * not fall as 1/N, and neither a limit nor an extrapolation in 1/N says what a network does. */

/* Slope of ln V in ln N through all widths, V the variance of f over networks, summed over its
 * entries; mean of ln V over the times first <= t < end. NaN where there are fewer than two widths
 * or four networks, or the standard deviation is below 1e-6 of rms f: round-off. The error is that
 * of the networks (jackknife) or of the residuals, the larger. */
int stability_exponent(const struct run *run, int first, int end, double *exponent, double *se,
                       struct err *err);
/* Whether, in the second half of the times, the variance falls more slowly than N^-1/2 and not as
 * 1/N, by three errors. */
int stability_reached(const struct run *run, bool *reached, struct err *err);

/* A limit at rest: training changes nothing of it, while networks of any width learn after a time
 * that grows as ln N, because what moves them vanishes with the width (muP with a zero read-out,
 * docs/theory/parameterizations.md, section 7). Such a limit predicts no network that has left it:
 * no z, no optimum. */

/* Whether training of the limit has changed nothing that was measured: f, and (unless inputs are
 * drawn in batches) the loss and every kernel NAME_diag, are at each time what they were at t = 0,
 * to round-off. Two-time kernels (`kernels = full`) are not looked at. */
bool at_rest_of_limit(const struct run *run);

/* Whether there are networks, and the loss of none of them has moved. */
bool at_rest_of_networks(const struct run *run);

/* The time, in steps, at which the mean loss of these networks has fallen to half of its start, by
 * linear interpolation, and its jackknife error over them; NaN where it has not, and an error of
 * NaN where it has not without one of them. */
void at_rest_escape(const struct record *networks, double *time, double *se);

/* Adds the note where the limit rests: the escape times of all widths, their slope in ln N. */
int at_rest_tell(struct run *run, struct err *err);
