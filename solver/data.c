/* Data sets: the datasets X and y at the root of an HDF5 file, checked before they are used. */
#define _POSIX_C_SOURCE 200809L
#include "solver/data.h"

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

static int get_sizes(struct data *data, hid_t X, hid_t y, const char *path, size_t max_values,
                     struct err *err) {
    hsize_t x_shape[2], y_shape[2];
    TRY(get_shape(X, 2, x_shape, "X", path, err));
    TRY(get_shape(y, 1, y_shape, "y", path, err));
    unsigned long long P = x_shape[0], D = x_shape[1], rows = y_shape[0], columns = y_shape[1];
    if (!P || !D)
        return err_set(err, CODE_INPUT, "data file %s: X is empty (%llu rows of %llu numbers)",
                       path, P, D);
    if (columns != 1)
        return err_set(err, CODE_INPUT, "data file %s: y has %llu columns, only one is allowed",
                       path, columns);
    if (rows != P)
        return err_set(err, CODE_INPUT,
                       "data file %s: lengths differ, X has %llu rows and y has %llu", path, P,
                       rows);
    if (P > INT_MAX || D > INT_MAX || P > max_values / D)
        return err_set(err, CODE_INPUT,
                       "data file %s: X is too large, %llu x %llu numbers where %zu are allowed",
                       path, P, D, max_values);
    data->P = (int)P;
    data->D = (int)D;
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

static int check_values(const struct data *data, const char *path, struct err *err) {
    for (int mu = 0; mu < data->P; mu++) {
        for (int i = 0; i < data->D; i++) {
            double value = data->X[(size_t)mu * (size_t)data->D + (size_t)i];
            if (!isfinite(value))
                return err_set(err, CODE_INPUT, "data file %s: X[%d][%d] is %s", path, mu, i,
                               describe(value));
        }
        if (!isfinite(data->y[mu]))
            return err_set(err, CODE_INPUT, "data file %s: y[%d] is %s", path, mu,
                           describe(data->y[mu]));
    }
    return CODE_OK;
}

int data_read(struct data *data, const char *path, size_t max_values, struct err *err) {
    *data = (struct data){0};
    TRY(data_check_file(path, err));
    int code = CODE_OK;
    hid_t file = -1, X = -1, y = -1;
    DO(open_file(&file, path, err));
    DO(open_dataset(&X, file, "X", path, err));
    DO(open_dataset(&y, file, "y", path, err));
    DO(get_sizes(data, X, y, path, max_values, err));
    DO(base_alloc(&data->X, (size_t)data->P * (size_t)data->D, sizeof *data->X, err));
    DO(base_alloc(&data->y, (size_t)data->P, sizeof *data->y, err));
    DO(read_values(X, data->X, "X", path, err));
    DO(read_values(y, data->y, "y", path, err));
    DO(check_values(data, path, err));
done: /* closing what was only read has nothing to lose */
    if (y >= 0)
        H5Dclose(y);
    if (X >= 0)
        H5Dclose(X);
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
