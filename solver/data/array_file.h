/* Arrays of data files that are not HDF5: npz as numpy writes it, and csv. For data_file.c.
 *
 * npz: entries NAME.npy of a zip archive (read by libzip), each name once, of booleans, integers or
 * floats in any byte order, C or Fortran order.
 *
 * csv: numbers between commas (tabs or semicolons where the first line has no comma), one input a
 * line, which ends with LF or CR LF; empty lines and those that begin with # are passed over. A
 * first line that is not all numbers has names: columns y, or y0, y1, ..., are the targets y and
 * all others X, in their order, but for one of weights. Without names the last column is y. */
#ifndef SOLVER_ARRAY_FILE_H
#define SOLVER_ARRAY_FILE_H

#include "kernels/base/base.h"
#include <stdio.h>

enum { ARRAY_FILE_ARRAYS = 64, ARRAY_FILE_RANK = 8, ARRAY_FILE_NAME = 32 };

struct array_file_entry {
    char name[ARRAY_FILE_NAME];
    int rank;
    size_t shape[ARRAY_FILE_RANK];
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
struct array_file {
    const char *path;
    const char *weight;  /* csv: the column that is an array of its own; NULL or "": none */
    FILE *stream;        /* csv */
    struct zip *archive; /* npz */
    int count;
    struct array_file_entry array[ARRAY_FILE_ARRAYS];
};

/* flat: zero but for `weight`. *is: whether the file is one of these (by its first bytes, or a name
 * that ends with .csv). A csv is read whole, up to `most` numbers; of a npz the list of arrays.
 * CODE_INPUT with a sentence. */
int array_file_open(struct array_file *flat, bool *is, const char *path, size_t most,
                    struct err *err);
void array_file_close(struct array_file *flat); /* accepts a zeroed struct */
/* NULL: there is none. */
const struct array_file_entry *array_file_find(const struct array_file *flat, const char *name);
/* The numbers, in C order. */
int array_file_read(const struct array_file *flat, const struct array_file_entry *array,
                    double *values, struct err *err);

/* The two kinds. */
void array_file_npz_close(struct array_file *flat);
int array_file_npz_open(struct array_file *flat, struct err *err);
int array_file_npz_read(const struct array_file *flat, const struct array_file_entry *array,
                        double *values, struct err *err);
int array_file_csv_open(struct array_file *flat, size_t most, struct err *err);

#endif
