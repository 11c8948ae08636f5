/* Where the objective of a sweep is smallest along one of its keys, for every width and every
 * combination of the other keys (solver/study/optimum.h): the group /optimum and its table. */
#ifndef SOLVER_OPTIMA_H
#define SOLVER_OPTIMA_H

#include "solver/files/io.h"
#include "solver/study/cells.h"
#include "solver/study/optimum.h"

/* The axis of the key `along`, which must have a line of its own and numbers; without one
 * training.eta0 where it is such a key, else the first; *axis is -1 where there is none.
 * Only keys with three values or more are chosen, and no words, paths and seeds. */
int optima_axis(const struct sweep *sweep, const char *along, int *axis, struct err *err);

/* Finds the optima along an axis and writes /optimum (io NULL: nothing). tell: prints them, too. */
int optima_write(struct io *io, const struct cells *cells, int axis, bool tell, struct err *err);

/* A sentence for a reason; "" for none. */
const char *optima_reason(enum optimum_reason reason);

#endif
