/* The values of a line of [sweep]. For grid.c. */
#ifndef SOLVER_GRID_VALUES_H
#define SOLVER_GRID_VALUES_H

#include "solver/study/grid.h"

/* CODE_INPUT with a sentence that begins with the line and the keys of the axis. */
int grid_fail(const struct grid *grid, const struct grid_axis *axis, struct err *err,
              const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Gives the axis, whose keys are known, the values or points that stand in the text, which is cut
 * up, and checks that they are in order and different. */
int grid_read_values(struct grid *grid, struct grid_axis *axis, char *values, struct err *err);

#endif
