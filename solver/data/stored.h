/* The datasets of a data file, as they are stored: HDF5, or npz and csv (flat.h).
 *
 * libhdf5 may break down in a file that is damaged or made to do harm. So the file is opened and
 * read by a child process, which hands over numbers alone; if it dies, the file is refused. */
#ifndef SOLVER_STORED_H
#define SOLVER_STORED_H

#include "kernels/base/base.h"

enum { STORED_RANK = 3, STORED_NAME = 96 }; /* STORED_NAME: bytes of a place or a shape in words */
enum stored_role {
    STORED_INPUT,
    STORED_TARGET,
    STORED_TEST_INPUT,
    STORED_TEST_TARGET,
    STORED_SETS
};

struct stored_set {
    int rank; /* 0: the file has none */
    size_t shape[STORED_RANK];
    size_t count; /* product of the extents, each in 1 ... INT_MAX */
    bool whole;   /* of an integer type */
    double *value;
};
struct stored {
    bool tokens;       /* the inputs are tokens and tokens_test, else X and X_test */
    double vocabulary; /* attribute V of tokens, or dataset V; 0: neither */
    struct stored_set set[STORED_SETS];
};

/* Reads X [P][D] or [P][n][D], or tokens [P][n], and y of one to three axes; X_test or tokens_test
 * with y_test where they are. CODE_INPUT with one sentence naming the file and what is wrong:
 * cannot be opened as HDF5, no such dataset, not numeric, of another rank, empty, more than `most`
 * numbers in inputs or in targets (before anything is allocated), values that are not in this file
 * (external link, virtual dataset, external storage) or were never written, NaN or infinite (with
 * its index, counted from 0), damaged. To be freed in any case. */
int stored_read(struct stored *stored, const char *path, size_t most, struct err *err);
void stored_free(struct stored *stored); /* accepts a zeroed struct; idempotent */
const char *stored_name(const struct stored *stored, enum stored_role role);
/* "y_test[2][0]": where number k of a set stands. */
void stored_place(const struct stored *stored, enum stored_role role, size_t k,
                  char place[STORED_NAME]);

#endif
