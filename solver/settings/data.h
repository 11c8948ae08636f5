/* Data sets: inputs and targets, read from HDF5. */
#ifndef SOLVER_DATA_H
#define SOLVER_DATA_H

#include "kernels/base/base.h"

/* P inputs of dimension D and their targets, then those of test inputs. */
struct data {
    int P, D, tests;
    double *X; /* [P + tests][D] */
    double *y; /* [P + tests] */
};
/* X and y of these numbers of inputs, zero. */
int data_init(struct data *data, int P, int tests, int D, struct err *err);
/* Reads X [P][D] and y [P] or [P][1] (any integer or float type) of an HDF5 file, and X_test and
 * y_test where it has them. CODE_INPUT with
 * one sentence naming the file and what is wrong: cannot be opened, not HDF5, no X or y, not
 * numeric, wrong rank, lengths that differ, P or D of 0, more than max_values entries of X, NaN or
 * infinite (with its index, counted from 0). Sizes are checked before anything is allocated. */
int data_read(struct data *data, const char *path, size_t max_values, struct err *err);
/* What stat and open say of a file to be read (libraries only say that they failed), and that it is
 * a regular one; CODE_INPUT. */
int data_check_file(const char *path, struct err *err);
void data_free(struct data *data); /* accepts a zeroed struct; idempotent */

#endif
