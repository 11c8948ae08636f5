/* Reading what a run says of its own numbers, and the outputs of its networks run by run: for the
 * marks of sweeps. */
#ifndef SOLVER_RESULT_MARKS_H
#define SOLVER_RESULT_MARKS_H

#include "kernels/base/base.h"

/* A number attribute of a group; NaN where there is none. path: of a file, complete or not. */
double result_number(const char *path, const char *group, const char *name);
/* f_runs of a group: *f [runs][T][entries], to be freed; NULL where it cannot be read. */
int result_outputs(const char *path, const char *group, double **f, int *runs, int *T, int *entries,
                   struct err *err);

#endif
