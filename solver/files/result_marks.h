/* Reading what a run says of its own numbers, and the outputs of its networks run by run: for the
 * marks of sweeps. */
#ifndef SOLVER_RESULT_MARKS_H
#define SOLVER_RESULT_MARKS_H

#include "kernels/base/base.h"

/* Number attributes of groups: value[k] is name[k] of group[k], NaN where there is none. path: of a
 * file, complete or not. */
int result_numbers(const char *path, const char *const *group, const char *const *name, int count,
                   double *value, struct err *err);
/* f_runs of a group: *f [runs][T][entries], to be freed; NULL where it has none. */
int result_outputs(const char *path, const char *group, double **f, int *runs, int *T, int *entries,
                   struct err *err);

#endif
