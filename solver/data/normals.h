/* Inputs of independent standard normals. */
#ifndef SOLVER_NORMALS_H
#define SOLVER_NORMALS_H

#include "solver/data/data.h"

/* X and y of data of these sizes, which are zero: targets are the classes 0, 1, ... in turn, +1 and
 * -1 in turn with one output, or (staircase) (x1 + x1 x2 + x1 x2 x3 + x1 x2 x3 x4)/2, of mean 0 and
 * variance 1 over x; D >= 4. */
int normals_draw(struct data *data, uint64_t seed, bool staircase, struct err *err);

#endif
