/* The units of a sweep. For sweep.c and sweep_work.c. */
#ifndef SOLVER_SWEEP_UNIT_H
#define SOLVER_SWEEP_UNIT_H

#include "solver/study/sweep.h"

/* Appends "training.eta0 = 0.3, N = 64" to note[TEXT_NOTE]. */
void sweep_unit_describe(const struct sweep *sweep, int unit, char *note);
/* The settings of a unit: those of its point, with its width alone or the limit alone. */
int sweep_unit_read(const struct sweep *sweep, int unit, struct run *run, struct err *err);
/* Checks every unit and gives it its name. */
int sweep_unit_check_all(struct sweep *sweep, struct err *err);
/* A refused value of a point came as an override "--section.key=value": the message names its line
 * instead, and false says that it is not such a one. */
bool sweep_unit_tell_line(const struct grid *grid, struct err *err);

#endif
