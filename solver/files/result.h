/* Reading what a run has written. */
#ifndef SOLVER_RESULT_H
#define SOLVER_RESULT_H

#include "kernels/base/base.h"

/* The values [runs][T] whose mean is loss, loss_pseudo or else loss_runs, of a group ("limit",
 * "reference/N0064") of a complete file, to be freed. */
int result_losses(const char *path, const char *group, double **loss, int *runs, int *T,
                  struct err *err);

/* How many runs of a group ("limit", "reference/N0064") have failed, as a complete file says; 0
 * where it says nothing. */
int result_failed(const char *path, const char *group);
/* The name of the program that wrote a file, to be freed; CODE_INPUT if the file is not a result of
 * one, complete or partial. */
int result_program(const char *path, char **program, struct err *err);
/* The texts of a dataset with one axis, such as sweep/file, the files of the runs of a sweep. The
 * caller frees each of them and the list. */
int result_texts(const char *path, const char *set, char ***text, int *count, struct err *err);

#endif
