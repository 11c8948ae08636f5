/* What a run says of its own numbers. */
#include "solver/files/result_marks.h"
#include "solver/files/hdf5.h"

#include <hdf5_hl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double result_number(const char *path, const char *group, const char *name) {
    double value = NAN;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        return NAN;
    if (H5LTpath_valid(file, group, false) > 0 &&
        H5Aexists_by_name(file, group, name, H5P_DEFAULT) > 0 &&
        H5LTget_attribute_double(file, group, name, &value) < 0)
        value = NAN;
    H5Fclose(file);
    return value;
}

static int read_outputs(hid_t file, const char *set, double **f, int *runs, int *T, int *entries,
                        struct err *err) {
    hsize_t shape[HDF5_RANK], size = 1;
    int rank;
    if (H5LTpath_valid(file, set, false) <= 0 || H5LTget_dataset_ndims(file, set, &rank) < 0 ||
        rank < 3 || H5LTget_dataset_info(file, set, shape, NULL, NULL) < 0)
        return CODE_OK;
    for (int k = 2; k < rank; k++)
        size *= shape[k];
    TRY(base_alloc(f, (size_t)(shape[0] * shape[1] * size), sizeof **f, err));
    *runs = (int)shape[0];
    *T = (int)shape[1];
    *entries = (int)size;
    if (H5LTread_dataset_double(file, set, *f) >= 0)
        return CODE_OK;
    free(*f);
    *f = NULL;
    return CODE_OK;
}

int result_outputs(const char *path, const char *group, double **f, int *runs, int *T, int *entries,
                   struct err *err) {
    char set[HDF5_NAME];
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    snprintf(set, sizeof set, "%s/f_runs", group);
    *f = NULL;
    int code = file >= 0 ? read_outputs(file, set, f, runs, T, entries, err) : CODE_OK;
    return hdf5_shut(H5Fclose, file, code, path, err);
}
