/* What a sweep found: the losses of all units, and the optimum of the swept key at each width.
 *
 * The optimum is sought along the first line with a single key whose values are at least three
 * numbers (never along a list of points), for each width and each combination of the other keys:
 * the vertex of the parabola through the smallest mean final loss and its two neighbours, ln loss
 * against ln key (against the key itself where values are not all positive). Its standard error is
 * the jackknife's over the runs, which share their initial weights along the key; it is the error
 * of sampling alone: a minimum that is sharper than a parabola may lie half a step of the grid
 * away. Where a neighbour is missing, or a loss is not above zero (sampling), there is no parabola:
 * the value of the grid is given, without an error, and `edge` says why. */
#ifndef SOLVER_SUMMARY_H
#define SOLVER_SUMMARY_H

#include "solver/study/sweep.h"

/* Why the optimum is a value of the grid; values of `edge` in the file. */
enum edge { EDGE_NONE, EDGE_LOWEST, EDGE_HIGHEST, EDGE_FAILED, EDGE_ALL_FAILED, EDGE_ZERO };

/* The optimum along a key: x [count] increasing, final losses of `runs` runs each (NULL: failed).
 * Returns the place in x and its jackknife error (NaN at an edge or for one run), and *best, the
 * index of the smallest mean loss, -1 if all failed. */
enum edge summary_optimum(int count, const double *x, const double *const *loss, int runs,
                          double *at, double *at_se, int *best);

/* Reads the files of a sweep that is done, writes OUT.h5 and prints the table. */
int summary_write(const struct sweep *sweep, struct err *err);

#endif
