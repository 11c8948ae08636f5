/* The part of data_file_read that may break down in a damaged file. */
#ifndef SOLVER_STORED_H
#define SOLVER_STORED_H

#include "solver/data/data_file.h"

/* Fills the sets of `stored`, which is zero but for the names of weights; arguments and errors as
 * of data_file_read. For a process that ends behind it: files stay open. */
int stored_read(struct data_file *stored, const char *path, size_t most, struct err *err);

#endif
