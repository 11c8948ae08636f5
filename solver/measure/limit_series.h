/* What tells of the computation: ranks of the bases of a limit, normals that were not matched, and
 * the norm of the gradient that clipping goes by. */
#ifndef SOLVER_LIMIT_SERIES_H
#define SOLVER_LIMIT_SERIES_H

#include "solver/measure/instrument.h"

/* The name of what `fallback` is a part of: normals drawn, of each run at each time; not stored. */
#define LIMIT_SERIES_DRAWN "normals_drawn"

extern const struct instrument limit_series, limit_series_gradient_norm;

#endif
