/* Data files for the tests of data sets, with X and y of any shape and type, and a value that is
 * spoilt. */
#pragma once

#include "tests/support/files.h"
#include "models/engine/net.h"
#include "solver/data/data.h"

/* One dataset of a data file; rank -1: there is none. Values are 0, 1, 2, ... or given. */
struct set {
    int rank;
    hsize_t shape[4];
    const char *type; /* of the file: double, float, int, text, group */
    const double *value;
};
#define NUMBERS(...) ((const double[]){__VA_ARGS__})
/* One of this shape, with its numbers or NULL. */
#define SET(type, numbers, ...)                                                                    \
    { COUNT(((hsize_t[]){__VA_ARGS__})), {__VA_ARGS__}, type, numbers }
struct data_case {
    struct set X, y;
    const char *what; /* the values of X and y that are spoilt, see write_set */
    const char *part; /* of the sentence */
};
static const struct data_wanted mse = {.loss = &loss_mse, .most = 12};

static inline hid_t type_of(const char *name) {
    if (!strcmp(name, "float"))
        return H5T_IEEE_F32BE;
    if (!strcmp(name, "int"))
        return H5T_STD_I8LE;
    return strcmp(name, "text") ? H5T_IEEE_F64LE : H5T_C_S1;
}

static inline void write_set(hid_t file, const char *name, const struct set *set,
                             const char *what) {
    double values[64];
    hsize_t count = 1;
    if (set->rank < 0)
        return;
    if (!strcmp(set->type, "group")) {
        H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        return;
    }
    for (int k = 0; k < set->rank; k++)
        count *= set->shape[k];
    assert_true(count <= 64);
    for (hsize_t k = 0; k < count; k++)
        values[k] = set->value ? set->value[k] : (double)k;
    if (!strcmp(what, "nan") && *name != 'y')
        values[5] = NAN;
    if (!strcmp(what, "inf") && *name == 'y')
        values[1] = -INFINITY;
    hid_t space = H5Screate_simple(set->rank, set->shape, NULL);
    hid_t made =
        H5Dcreate2(file, name, type_of(set->type), space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(made >= 0);
    if (strcmp(set->type, "text"))
        assert_true(H5Dwrite(made, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(made);
    H5Sclose(space);
}

static inline void write_sets(const char *path, int count, const char *const *name,
                              const struct set *set, const char *what) {
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    for (int k = 0; k < count; k++)
        write_set(file, name[k], &set[k], what);
    assert_true(H5Fclose(file) >= 0);
}

static inline void write_case(const char *path, const struct data_case *one) {
    const struct set sets[] = {one->X, one->y};
    write_sets(path, 2, (const char *const[]){"X", "y"}, sets, one->what);
}
