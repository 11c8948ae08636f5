/* What tells of the computation: ranks of the bases of a limit, normals that were not matched, and
 * the norm of the gradient that clipping goes by; the
 * error of fixed steps. */
#ifndef SOLVER_LIMIT_SERIES_H
#define SOLVER_LIMIT_SERIES_H

#include "solver/measure/instrument.h"

extern const struct instrument limit_series, limit_series_gradient_norm, limit_series_steps;

#endif
