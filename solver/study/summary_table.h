/* The tables of a sweep on standard output. */
#ifndef SOLVER_SUMMARY_TABLE_H
#define SOLVER_SUMMARY_TABLE_H

#include "solver/study/cells.h"
#include "solver/study/optimum.h"

/* The objective of every unit; a star marks means that one run carries. */
void summary_losses_print(const struct cells *cells);
/* The head of the optima along an axis; a row: a combination of the other keys and a width, by its
 * first unit along the axis. */
void summary_head_print(const struct cells *cells, int axis);
void summary_optimum_print(const struct cells *cells, int axis, int unit,
                           const struct optimum optimum[OPTIMUM_KINDS]);

#endif
