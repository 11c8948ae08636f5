/* What a run says of its own numbers. */
#include "solver/files/result_marks.h"
#include "solver/files/hdf5.h"

#include <hdf5_hl.h>
#include <stdio.h>
#include <stdlib.h>

int result_numbers(const char *path, const char *const *group, const char *const *name, int count,
                   double *value, struct err *err) {
    hid_t file;
    int code = CODE_OK;
    TRY(hdf5_open(&file, path, err));
    for (int k = 0; k < count && !code; k++)
        code = hdf5_get_number(file, group[k], name[k], &value[k], err);
    return hdf5_close(file, code, path, err);
}

static int read_outputs(hid_t file, const char *set, double **f, int *runs, int *T, int *entries,
                        struct err *err) {
    hsize_t shape[HDF5_RANK], size = 1;
    int rank;
    bool there;
    TRY(hdf5_has(file, set, &there, err));
    if (!there)
        return CODE_OK;
    TRY(hdf5_check(H5LTget_dataset_ndims(file, set, &rank), "read", set, err));
    if (rank < 3 || rank > HDF5_RANK)
        return CODE_OK;
    TRY(hdf5_check(H5LTget_dataset_info(file, set, shape, NULL, NULL), "read", set, err));
    for (int k = 2; k < rank; k++)
        size *= shape[k];
    TRY(base_alloc(f, (size_t)(shape[0] * shape[1] * size), sizeof **f, err));
    *runs = (int)shape[0];
    *T = (int)shape[1];
    *entries = (int)size;
    int code = hdf5_check(H5LTread_dataset_double(file, set, *f), "read", set, err);
    if (code) {
        free(*f);
        *f = NULL;
    }
    return code;
}

int result_outputs(const char *path, const char *group, double **f, int *runs, int *T, int *entries,
                   struct err *err) {
    char set[HDF5_NAME];
    hid_t file;
    snprintf(set, sizeof set, "%s/f_runs", group);
    *f = NULL;
    TRY(hdf5_open(&file, path, err));
    int code = read_outputs(file, set, f, runs, T, entries, err);
    return hdf5_close(file, code, path, err);
}
