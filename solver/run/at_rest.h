/* A limit at rest: training changes nothing of it, while networks of any width learn after a time
 * that grows as ln N, because what moves them vanishes with the width (muP with a zero read-out,
 * docs/theory/parameterizations.md, section 7). Such a limit predicts no network that has left it:
 * no z, no optimum. */
#pragma once

#include "solver/run/run.h"

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

/* The text of the note where the limit rests: the escape times of all widths, their slope in ln N.
 */
void at_rest_tell(const struct run *run, struct note *note);
