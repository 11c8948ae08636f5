/* Reading what a run has written. */
#ifndef SOLVER_RESULT_H
#define SOLVER_RESULT_H

#include "kernels/base/base.h"

/* The values [runs][T] whose mean is loss, loss_pseudo or else loss_runs, of a group ("limit",
 * "reference/N0064") of a complete file, to be freed. */
int result_losses(const char *path, const char *group, double **loss, int *runs, int *T,
                  struct err *err);

#endif
