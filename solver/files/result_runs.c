/* Reading series of a run from its file (result_runs.h). */
#include "solver/files/result_runs.h"
#include "solver/files/hdf5.h"

#include <hdf5_hl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_file(const char *path, hid_t *file, struct err *err) {
    *file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    return *file < 0 ? err_set(err, CODE_INPUT, "%.1600s: cannot be opened as an HDF5 file", path)
                     : CODE_OK;
}

static bool has(hid_t file, const char *set) {
    return H5LTpath_valid(file, set, false) > 0;
}

/* A dataset of doubles with `rank` axes; CODE_INPUT if it is none. */
static int read_array(hid_t file, const char *set, int rank, double **values, hsize_t *shape,
                      struct err *err) {
    int found;
    size_t size = 1;
    if (H5LTget_dataset_ndims(file, set, &found) < 0 || found != rank ||
        H5LTget_dataset_info(file, set, shape, NULL, NULL) < 0)
        return err_set(err, CODE_INPUT, "%s is not a series with %d ax%s", set, rank,
                       rank == 1 ? "is" : "es");
    for (int k = 0; k < rank; k++)
        size *= (size_t)shape[k];
    TRY(base_alloc(values, size, sizeof **values, err));
    if (H5LTread_dataset_double(file, set, *values) < 0)
        return err_set(err, CODE_SYSTEM, "%s cannot be read", set);
    return CODE_OK;
}

static int read_series(hid_t file, const char *group, const char *name, struct result_runs *series,
                       struct err *err) {
    char set[256];
    hsize_t shape[2];
    double *n = NULL;
    snprintf(set, sizeof set, "%s/%s", group, name);
    TRY(read_array(file, set, 1, &series->mean, shape, err));
    series->T = (int)shape[0];
    snprintf(set, sizeof set, "%s/%s_se", group, name);
    if (has(file, set))
        TRY(read_array(file, set, 1, &series->error, shape, err));
    snprintf(set, sizeof set, "%s/%s_tolerance", group, name);
    if (has(file, set))
        TRY(read_array(file, set, 1, &series->tolerance, shape, err));
    snprintf(set, sizeof set, "%s/%s_pseudo", group, name);
    series->pseudo = has(file, set);
    if (!series->pseudo)
        snprintf(set, sizeof set, "%s/%s_runs", group, name);
    if (has(file, set)) {
        TRY(read_array(file, set, 2, &series->run, shape, err));
        series->runs = (int)shape[0];
    }
    snprintf(set, sizeof set, "%s/n", group);
    TRY(read_array(file, set, 1, &n, shape, err));
    series->n = shape[0] ? (int)n[shape[0] - 1] : 0;
    free(n);
    return CODE_OK;
}

int result_runs_read(struct result_runs *series, const char *path, const char *group,
                     const char *name, bool *there, struct err *err) {
    char set[256];
    hid_t file;
    int code = CODE_OK;
    *series = (struct result_runs){0};
    *there = false;
    TRY(open_file(path, &file, err));
    snprintf(set, sizeof set, "%s/%s", group, name);
    if (has(file, set)) {
        *there = true;
        code = read_series(file, group, name, series, err);
    }
    if (code) {
        err_set(err, code, "%.700s: %.1000s", path, err->text);
        result_runs_free(series);
    }
    H5Fclose(file);
    return code;
}

void result_runs_free(struct result_runs *series) {
    free(series->run);
    free(series->mean);
    free(series->error);
    free(series->tolerance);
    *series = (struct result_runs){0};
}

int result_runs_batch(const char *path, int *inputs, int *batch, struct err *err) {
    hid_t file;
    hsize_t shape[HDF5_RANK] = {0};
    TRY(open_file(path, &file, err));
    const char *rows = has(file, "data/X") ? "data/X" : "data/tokens"; /* [output] inputs = none */
    bool good = H5LTget_attribute_int(file, "parameters", "training.batch", batch) >= 0 &&
                has(file, rows) && H5LTget_dataset_info(file, rows, shape, NULL, NULL) >= 0;
    *inputs = (int)shape[0];
    H5Fclose(file);
    return good ? CODE_OK
                : err_set(err, CODE_INPUT, "%.1600s: has no training.batch or inputs", path);
}

int result_runs_ini(const char *path, char **ini, struct err *err) {
    hid_t file;
    char *text = NULL;
    *ini = NULL;
    TRY(open_file(path, &file, err));
    hid_t type = -1,
          attribute = H5Aopen_by_name(file, "parameters", "ini", H5P_DEFAULT, H5P_DEFAULT);
    int code = hdf5_text_type(&type, err);
    if (!code && (attribute < 0 || H5Aread(attribute, type, &text) < 0 || !text))
        code = err_set(err, CODE_INPUT, "%.1600s: has no /parameters with an ini", path);
    if (!code)
        code = base_copy(ini, text, err);
    free(text);
    code = hdf5_shut(H5Tclose, type, code, path, err);
    code = hdf5_shut(H5Aclose, attribute, code, path, err);
    return hdf5_shut(H5Fclose, file, code, path, err);
}

int result_runs_numbers(const char *path, const char *set, double **value, int *count,
                        struct err *err) {
    hid_t file;
    int rank = 0;
    hsize_t shape[HDF5_RANK];
    *value = NULL;
    TRY(open_file(path, &file, err));
    int code = H5LTget_dataset_ndims(file, set, &rank) < 0
                   ? err_set(err, CODE_INPUT, "has no %s", set)
                   : read_array(file, set, rank, value, shape, err);
    *count = 1;
    for (int k = 0; k < rank && !code; k++)
        *count *= (int)shape[k];
    H5Fclose(file);
    return code ? err_set(err, code, "%.700s: %.1000s", path, err->text) : CODE_OK;
}
