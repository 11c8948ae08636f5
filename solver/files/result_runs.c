/* Reading series of a run from its file (result_runs.h). */
#include "solver/files/result_runs.h"
#include "kernels/base/text.h"
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

/* An array of numbers and its axes; CODE_INPUT if it is none. */
struct array {
    double *value;
    int rank;
    hsize_t shape[HDF5_RANK];
};
static int read_array(hid_t file, const char *set, struct array *array, struct err *err) {
    size_t size = 1;
    array->value = NULL;
    if (H5LTget_dataset_ndims(file, set, &array->rank) < 0 ||
        H5LTget_dataset_info(file, set, array->shape, NULL, NULL) < 0)
        return err_set(err, CODE_INPUT, "has no %s", set);
    for (int k = 0; k < array->rank; k++)
        size *= (size_t)array->shape[k];
    TRY(base_alloc(&array->value, size, sizeof *array->value, err));
    if (H5LTread_dataset_double(file, set, array->value) < 0) {
        free(array->value);
        return err_set(err, CODE_SYSTEM, "%s cannot be read", set);
    }
    return CODE_OK;
}

/* ---- series with more axes than t ---- */

/* The first axis, of those that the attribute dims names, has to be t. */
static int check_time(hid_t file, const char *set, struct err *err) {
    hid_t type = -1, attribute = H5Aopen_by_name(file, set, "dims", H5P_DEFAULT, H5P_DEFAULT);
    const char *cursor = "";
    struct text_word axis;
    char *dims = NULL;
    int code = hdf5_text_type(&type, err);
    if (!code && attribute >= 0 && H5Aread(attribute, type, &dims) >= 0 && dims)
        cursor = dims;
    if (!code && !(text_next_word(&cursor, " ", &axis) && text_is(axis, "t")))
        code = err_set(err, CODE_INPUT, "the first axis of %s is not t", set);
    free(dims);
    code = hdf5_shut(H5Tclose, type, code, set, err);
    return hdf5_shut(H5Aclose, attribute, code, set, err);
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
    for (int k = 0; k < 3; k++) {
        snprintf(set, sizeof set, "%s/%s%s", group, name, ends[k]);
        if (k && !has(file, set))
            continue;
        TRY(read_entry(file, set, 1, entry, &array, err));
        *values[k] = array.value;
        series->T = (int)array.shape[0];
    }
    snprintf(set, sizeof set, "%s/%s_pseudo", group, name);
    series->pseudo = has(file, set);
    if (!series->pseudo)
        snprintf(set, sizeof set, "%s/%s_runs", group, name);
    if (has(file, set)) {
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
    int code = CODE_OK;
    *series = (struct result_runs){0};
    *there = false;
    TRY(open_file(path, &file, err));
    snprintf(set, sizeof set, "%s/%s", group, name);
    if (has(file, set)) {
        *there = true;
        code = check_time(file, set, err);
        if (!code)
            code = read_series(file, group, name, entry ? entry : &all, series, err);
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
    const char *rows = has(file, "data/y") ? "data/y" : "data/tokens"; /* [output] inputs = none */
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
    struct array array = {0};
    *value = NULL;
    TRY(open_file(path, &file, err));
    int code = read_array(file, set, &array, err);
    *value = array.value;
    *count = 1;
    for (int k = 0; k < array.rank && !code; k++)
        *count *= (int)array.shape[k];
    H5Fclose(file);
    return code ? err_set(err, code, "%.700s: %.1000s", path, err->text) : CODE_OK;
}
