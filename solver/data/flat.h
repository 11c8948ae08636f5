/* Arrays of data files that are not HDF5: npz as numpy writes it, and csv. For the child process of
 * stored.c, which ends behind it: nothing is freed.
 *
 * npz: entries NAME.npy of a zip archive (read by libzip), each name once, of booleans, integers or
 * floats in any byte order, C or Fortran order.
 *
 * csv: numbers between commas (tabs or semicolons where the first line has no comma), one input a
 * line, which ends with LF or CR LF; empty lines and those that begin with # are passed over. A
 * first line that is not all numbers has names: columns y, or y0, y1, ..., are the targets y and
 * all others X, in their order. Without names the last column is y. */
#ifndef SOLVER_FLAT_H
#define SOLVER_FLAT_H

#include "kernels/base/base.h"
#include <stdio.h>

enum { FLAT_ARRAYS = 64, FLAT_RANK = 8, FLAT_NAME = 32 };

struct flat_array {
    char name[FLAT_NAME];
    int rank;
    size_t shape[FLAT_RANK];
    bool whole;   /* integers */
    size_t count; /* product of the shape, SIZE_MAX where that is larger */
    /* npz: which entry of the archive it is and how its numbers are */
    uint64_t entry;
    size_t size, header; /* bytes: all, before the numbers */
    char kind;           /* f, i, u, b, or another letter: not numbers */
    int bytes;
    bool swapped, columns_first;
    double *values; /* csv */
};
struct flat {
    const char *path;
    FILE *stream;        /* csv */
    struct zip *archive; /* npz */
    int count;
    struct flat_array array[FLAT_ARRAYS];
};

/* *is: whether the file is one of these (by its first bytes, or a name that ends with .csv). A csv
 * is read whole, up to `most` numbers; of a npz the list of arrays. CODE_INPUT with a sentence. */
int flat_open(struct flat *flat, bool *is, const char *path, size_t most, struct err *err);
/* NULL: there is none. */
const struct flat_array *flat_find(const struct flat *flat, const char *name);
/* The numbers, in C order. */
int flat_read(const struct flat *flat, const struct flat_array *array, double *values,
              struct err *err);

/* The two kinds. */
int flat_npz_open(struct flat *flat, struct err *err);
int flat_npz_read(const struct flat *flat, const struct flat_array *array, double *values,
                  struct err *err);
int flat_csv_open(struct flat *flat, size_t most, struct err *err);

#endif
