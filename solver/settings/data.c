/* Data sets: the datasets X and y at the root of an HDF5 file, and X_test and y_test where they
 * are, checked before they are used. */
#define _POSIX_C_SOURCE 200809L
#include "solver/settings/data.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int data_check_file(const char *path, struct err *err) {
    struct stat status;
    if (stat(path, &status))
        return err_set(err, CODE_INPUT, "data file %s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return err_set(err, CODE_INPUT, "data file %s: %s", path,
                       S_ISDIR(status.st_mode) ? "is a folder" : "is not a regular file");
    int descriptor = open(path, O_RDONLY);
    if (descriptor < 0)
        return err_set(err, CODE_INPUT, "data file %s: %s", path, strerror(errno));
    close(descriptor);
    return CODE_OK;
}

/* Without locks: a data set may lie where files cannot be locked, or be open elsewhere. */
static int open_file(hid_t *file, const char *path, struct err *err) {
    if (H5Fis_hdf5(path) <= 0)
        return err_set(err, CODE_INPUT, "data file %s: is not an HDF5 file", path);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (access < 0 || H5Pset_file_locking(access, false, true) < 0)
        *file = -1;
    else
        *file = H5Fopen(path, H5F_ACC_RDONLY, access);
    if (access >= 0)
        H5Pclose(access);
    if (*file < 0)
        return err_set(err, CODE_INPUT,
                       "data file %s: cannot be opened as HDF5, it is damaged or incomplete", path);
    return CODE_OK;
}

static int open_dataset(hid_t *set, hid_t file, const char *name, const char *path,
                        struct err *err) {
    if (H5Lexists(file, name, H5P_DEFAULT) <= 0)
        return err_set(err, CODE_INPUT, "data file %s: has no dataset %s", path, name);
    *set = H5Dopen2(file, name, H5P_DEFAULT);
    if (*set < 0)
        return err_set(err, CODE_INPUT, "data file %s: %s is not a dataset", path, name);
    hid_t type = H5Dget_type(*set);
    H5T_class_t class = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);
    if (type >= 0)
        H5Tclose(type);
    if (class != H5T_INTEGER && class != H5T_FLOAT)
        return err_set(err, CODE_INPUT, "data file %s: %s does not hold integers or floats", path,
                       name);
    return CODE_OK;
}

static const char *describe(double value) {
    return isnan(value) ? "NaN" : "infinite";
}

/* The extents of a dataset of at most two axes; a missing second one is 1. */
static int get_shape(hid_t set, int least, hsize_t shape[2], const char *name, const char *path,
                     struct err *err) {
    shape[0] = shape[1] = 1;
    hid_t space = H5Dget_space(set);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    bool good = rank >= least && rank <= 2 && H5Sget_simple_extent_dims(space, shape, NULL) >= 0;
    if (space >= 0)
        H5Sclose(space);
    if (!good)
        return err_set(err, CODE_INPUT, "data file %s: %s has rank %d, needed is %s", path, name,
                       rank, least == 2 ? "2 (P rows of D numbers)" : "1 (P numbers)");
    return CODE_OK;
}

/* Inputs and targets in the file. */
struct pair {
    const char *X_name, *y_name;
    hid_t X, y;
    int P, D;
};

static int get_sizes(struct pair *pair, const char *path, size_t max_values, struct err *err) {
    const char *X = pair->X_name, *y = pair->y_name;
    hsize_t x_shape[2], y_shape[2];
    TRY(get_shape(pair->X, 2, x_shape, X, path, err));
    TRY(get_shape(pair->y, 1, y_shape, y, path, err));
    unsigned long long P = x_shape[0], D = x_shape[1], rows = y_shape[0], columns = y_shape[1];
    if (!P || !D)
        return err_set(err, CODE_INPUT, "data file %s: %s is empty (%llu rows of %llu numbers)",
                       path, X, P, D);
    if (columns != 1)
        return err_set(err, CODE_INPUT, "data file %s: %s has %llu columns, only one is allowed",
                       path, y, columns);
    if (rows != P)
        return err_set(err, CODE_INPUT,
                       "data file %s: lengths differ, %s has %llu rows and %s has %llu", path, X, P,
                       y, rows);
    if (P > INT_MAX || D > INT_MAX || P > max_values / D)
        return err_set(err, CODE_INPUT,
                       "data file %s: %s is too large, %llu x %llu numbers where %zu are allowed",
                       path, X, P, D, max_values);
    pair->P = (int)P;
    pair->D = (int)D;
    return CODE_OK;
}

static int read_values(hid_t set, double *values, const char *name, const char *path,
                       struct err *err) {
    if (H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        return err_set(err, CODE_INPUT,
                       "data file %s: %s cannot be read, it is damaged or compressed by a filter "
                       "that is not installed",
                       path, name);
    return CODE_OK;
}

/* The values of a pair, behind `first` other inputs. */
static int read_pair(struct data *data, const struct pair *pair, int first, const char *path,
                     struct err *err) {
    size_t D = (size_t)data->D;
    double *X = data->X + (size_t)first * D, *y = data->y + first;
    TRY(read_values(pair->X, X, pair->X_name, path, err));
    TRY(read_values(pair->y, y, pair->y_name, path, err));
    for (int mu = 0; mu < pair->P; mu++) {
        for (int i = 0; i < data->D; i++) {
            double value = X[(size_t)mu * D + (size_t)i];
            if (!isfinite(value))
                return err_set(err, CODE_INPUT, "data file %s: %s[%d][%d] is %s", path,
                               pair->X_name, mu, i, describe(value));
        }
        if (!isfinite(y[mu]))
            return err_set(err, CODE_INPUT, "data file %s: %s[%d] is %s", path, pair->y_name, mu,
                           describe(y[mu]));
    }
    return CODE_OK;
}

static int open_pair(struct pair *pair, hid_t file, const char *path, size_t max_values,
                     struct err *err) {
    TRY(open_dataset(&pair->X, file, pair->X_name, path, err));
    TRY(open_dataset(&pair->y, file, pair->y_name, path, err));
    return get_sizes(pair, path, max_values, err);
}

/* Closing what was only read has nothing to lose. */
static void close_pair(const struct pair *pair) {
    if (pair->y >= 0)
        H5Dclose(pair->y);
    if (pair->X >= 0)
        H5Dclose(pair->X);
}

int data_init(struct data *data, int P, int tests, int D, struct err *err) {
    size_t rows = (size_t)P + (size_t)tests;
    *data = (struct data){.P = P, .D = D, .tests = tests};
    TRY(base_alloc(&data->X, rows * (size_t)D, sizeof *data->X, err));
    return base_alloc(&data->y, rows, sizeof *data->y, err);
}

int data_read(struct data *data, const char *path, size_t max_values, struct err *err) {
    struct pair train = {"X", "y", -1, -1, 0, 0}, test = {"X_test", "y_test", -1, -1, 0, 0};
    *data = (struct data){0};
    TRY(data_check_file(path, err));
    int code = CODE_OK;
    hid_t file = -1;
    DO(open_file(&file, path, err));
    DO(open_pair(&train, file, path, max_values, err));
    if (H5Lexists(file, test.X_name, H5P_DEFAULT) > 0) {
        size_t left = max_values - (size_t)train.P * (size_t)train.D;
        DO(open_pair(&test, file, path, left, err));
        if (test.D != train.D)
            DO(err_set(err, CODE_INPUT,
                       "data file %s: inputs differ in length, X has %d numbers and X_test %d",
                       path, train.D, test.D));
    }
    DO(data_init(data, train.P, test.P, train.D, err));
    DO(read_pair(data, &train, 0, path, err));
    if (test.P)
        DO(read_pair(data, &test, train.P, path, err));
done:
    close_pair(&train);
    close_pair(&test);
    if (file >= 0)
        H5Fclose(file);
    if (code)
        data_free(data);
    return code;
}

void data_free(struct data *data) {
    free(data->X);
    free(data->y);
    *data = (struct data){0};
}
