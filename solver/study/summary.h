/* What a sweep found: the losses of all units, and the optimum of the swept key at each width.
 *
 * The optimum (solver/study/optimum.h) is sought along the first line with a single key whose
 * values are at least three numbers (never along a list of points), for each width and each
 * combination of the other keys: ln loss against ln key, against the key itself where values are
 * not all positive. Where a neighbour is missing, or a loss is not above zero (sampling), there is
 * no parabola: the value of the grid is given, without an error, and `edge` says why. A limit that
 * rests has none. */
#ifndef SOLVER_SUMMARY_H
#define SOLVER_SUMMARY_H

#include "solver/study/optimum.h"
#include "solver/study/sweep.h"

/* Reads the files of a sweep that is done, writes OUT.h5 and prints the table. */
int summary_write(const struct sweep *sweep, struct err *err);

#endif
