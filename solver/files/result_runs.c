/* Reading series of a run from its file (result_runs.h). */
#include "solver/files/result_runs.h"
#include "kernels/base/text.h"
#include "solver/files/hdf5.h"

#include <hdf5_hl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An array of numbers and its axes; CODE_INPUT if it is none. */
struct array {
    double *value;
    int rank;
    hsize_t shape[HDF5_RANK];
};
static int read_array(hid_t file, const char *set, struct array *array, struct err *err) {
    size_t size = 1;
    bool there;
    array->value = NULL;
    TRY(hdf5_has(file, set, &there, err));
    if (!there)
        return err_set(err, CODE_INPUT, "has no %s", set);
    TRY(hdf5_check(H5LTget_dataset_ndims(file, set, &array->rank), "read", set, err));
    if (array->rank > HDF5_RANK)
        return err_set(err, CODE_INPUT, "%s has %d axes", set, array->rank);
    TRY(hdf5_check(H5LTget_dataset_info(file, set, array->shape, NULL, NULL), "read", set, err));
    for (int k = 0; k < array->rank; k++)
        size *= (size_t)array->shape[k];
    TRY(base_alloc(&array->value, size, sizeof *array->value, err));
    int code = hdf5_check(H5LTread_dataset_double(file, set, array->value), "read", set, err);
    if (code) {
        free(array->value);
        array->value = NULL;
    }
    return code;
}

/* ---- series with more axes than t ---- */

/* The first axis, of those that the attribute dims names, has to be t. */
static int check_time(hid_t file, const char *set, struct err *err) {
    struct text_word axis;
    char *dims;
    TRY(hdf5_get_text(file, set, "dims", &dims, err));
    const char *cursor = dims ? dims : "";
    bool time = text_next_word(&cursor, " ", &axis) && text_is(axis, "t");
    free(dims);
    return time ? CODE_OK : err_set(err, CODE_INPUT, "the first axis of %s is not t", set);
}

/* The indices have to be those of axes behind t, and of entries that these have. */
static int check_entry(const struct array *array, const char *set, int before,
                       const struct result_entry *entry, struct err *err) {
    int axes = array->rank - before;
    if (entry->count > axes)
        return err_set(err, CODE_INPUT,
                       "%s has %d ax%s behind t, and %d indices stand behind that of t", set, axes,
                       axes == 1 ? "is" : "es", entry->count);
    for (int k = 0; k < axes; k++) {
        int size = (int)array->shape[before + k];
        if (!size || (k < entry->count && entry->index[k] >= size))
            return err_set(
                err, CODE_INPUT,
                "axis %d of %s behind t has %d entries, counted from 0: there is no entry "
                "%d",
                k + 1, set, size, k < entry->count ? entry->index[k] : 0);
    }
    return CODE_OK;
}

/* One axis less: the entry `index`, or the mean, of the axis behind the first `before`. In place.
 */
static void take_entry(struct array *array, int before, int index) {
    size_t outer = 1, inner = 1, size = (size_t)array->shape[before];
    for (int k = 0; k < before; k++)
        outer *= (size_t)array->shape[k];
    for (int k = before + 1; k < array->rank; k++)
        inner *= (size_t)array->shape[k];
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const double *from = array->value + o * size * inner + i;
            double sum = 0;
            for (size_t k = 0; k < size && index == RESULT_MEAN; k++)
                sum += from[k * inner];
            array->value[o * inner + i] =
                index == RESULT_MEAN ? sum / (double)size : from[(size_t)index * inner];
        }
    for (int k = before + 1; k < array->rank; k++)
        array->shape[k - 1] = array->shape[k];
    array->rank--;
}

/* Of an array [...][t][...], whose first `before` axes end with t, a number for each of these. */
static int read_entry(hid_t file, const char *set, int before, const struct result_entry *entry,
                      struct array *array, struct err *err) {
    TRY(read_array(file, set, array, err));
    int code = check_entry(array, set, before, entry, err);
    if (code)
        free(array->value);
    for (int k = 0; array->rank > before && !code; k++)
        take_entry(array, before, k < entry->count ? entry->index[k] : RESULT_MEAN);
    return code;
}

static int read_series(hid_t file, const char *group, const char *name,
                       const struct result_entry *entry, struct result_runs *series,
                       struct err *err) {
    static const char *const ends[] = {"", "_se", "_tolerance"};
    double **const values[] = {&series->mean, &series->error, &series->tolerance};
    char set[256];
    struct array array;
    bool there;
    for (int k = 0; k < 3; k++) {
        snprintf(set, sizeof set, "%s/%s%s", group, name, ends[k]);
        TRY(hdf5_has(file, set, &there, err));
        if (k && !there)
            continue;
        TRY(read_entry(file, set, 1, entry, &array, err));
        *values[k] = array.value;
        series->T = (int)array.shape[0];
    }
    snprintf(set, sizeof set, "%s/%s_pseudo", group, name);
    TRY(hdf5_has(file, set, &series->pseudo, err));
    if (!series->pseudo)
        snprintf(set, sizeof set, "%s/%s_runs", group, name);
    TRY(hdf5_has(file, set, &there, err));
    if (there) {
        TRY(read_entry(file, set, 2, entry, &array, err));
        series->run = array.value;
        series->runs = (int)array.shape[0];
    }
    snprintf(set, sizeof set, "%s/n", group);
    TRY(read_array(file, set, &array, err));
    series->n = array.shape[0] ? (int)array.value[array.shape[0] - 1] : 0;
    free(array.value);
    return CODE_OK;
}

int result_runs_read(struct result_runs *series, const char *path, const char *group,
                     const char *name, const struct result_entry *entry, bool *there,
                     struct err *err) {
    static const struct result_entry all = {0};
    char set[256];
    hid_t file;
    *series = (struct result_runs){0};
    *there = false;
    TRY(hdf5_open(&file, path, err));
    snprintf(set, sizeof set, "%s/%s", group, name);
    int code = hdf5_has(file, set, there, err);
    if (!code && *there)
        code = check_time(file, set, err);
    if (!code && *there)
        code = read_series(file, group, name, entry ? entry : &all, series, err);
    code = hdf5_close(file, code, path, err);
    if (code)
        result_runs_free(series);
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
    const char *rows = "data/y";
    hid_t file;
    hsize_t shape[HDF5_RANK] = {0};
    double each = 0;
    bool there = false;
    int code, rank = 0;
    TRY(hdf5_open(&file, path, err));
    DO(hdf5_get_number(file, "parameters", "training.batch", &each, err));
    DO(hdf5_has(file, rows, &there, err));
    if (!there) { /* [output] inputs = none */
        rows = "data/tokens";
        DO(hdf5_has(file, rows, &there, err));
    }
    if (!there || !(each >= 0 && each <= INT_MAX))
        DO(err_set(err, CODE_INPUT, "%.1600s: has no training.batch or inputs", path));
    DO(hdf5_check(H5LTget_dataset_ndims(file, rows, &rank), "read", rows, err));
    if (rank < 1 || rank > HDF5_RANK)
        DO(err_set(err, CODE_INPUT, "%s has %d axes", rows, rank));
    DO(hdf5_check(H5LTget_dataset_info(file, rows, shape, NULL, NULL), "read", rows, err));
    *inputs = (int)shape[0];
    *batch = (int)each;
done:
    return hdf5_close(file, code, path, err);
}

int result_runs_ini(const char *path, char **ini, struct err *err) {
    hid_t file;
    *ini = NULL;
    TRY(hdf5_open(&file, path, err));
    int code = hdf5_get_text(file, "parameters", "ini", ini, err);
    if (!code && !*ini)
        code = err_set(err, CODE_INPUT, "%.1600s: has no /parameters with an ini", path);
    return hdf5_close(file, code, path, err);
}

int result_runs_numbers(const char *path, const char *set, double **value, int *count,
                        struct err *err) {
    hid_t file;
    struct array array = {0};
    TRY(hdf5_open(&file, path, err));
    int code = read_array(file, set, &array, err);
    *value = array.value;
    *count = 1;
    for (int k = 0; k < array.rank && !code; k++)
        *count *= (int)array.shape[k];
    return hdf5_close(file, code, path, err);
}
