/* Records in the result file: means over runs with their errors, what is stored run by run, and the
 * axes of both. */
#include "solver/files/io.h"
#include "solver/files/hdf5.h"
#include "kernels/base/text.h"

#include <math.h>
#include <stdio.h>

_Static_assert(HDF5_RANK >= SERIES_AXES + 1, "a series run by run has one axis more");

/* The dataset of a series, values of one run. */
static struct dataset dataset_of(const struct series *series) {
    struct dataset array = {series->name,     series->dims, series->about,
                            series->equation, series->axes, .type = H5T_NATIVE_DOUBLE};
    for (int k = 0; k < series->axes; k++)
        array.shape[k] = series->shape[k];
    return array;
}

int io_series(struct io *io, const char *group, const struct series *series, struct err *err) {
    struct dataset array = dataset_of(series);
    hid_t id;
    int code;
    DO(io_open_group(&id, io, group, err));
    DO(hdf5_write_array(id, &array, series->values, err));
done:
    return hdf5_shut(H5Gclose, id, code, group, err);
}

/* The values of each run up to the time it reached; later ones may be half written by a run under
 * way and are NaN in the file. */
static int write_runs(hid_t group, const struct dataset *array, const struct record *record,
                      const struct series *series, const double *values, struct err *err) {
    size_t each = series->size / series->shape[0], total = series->size * (size_t)record->runs;
    FREED(base_free) double *copy = NULL;
    TRY(base_alloc(&copy, total, sizeof *copy, err));
    for (size_t k = 0; k < total; k++) {
        size_t run = k / series->size;
        int t = record_time(record, series, k % series->size / each);
        copy[k] = t < record->steps[run] ? values[k] : NAN;
    }
    return hdf5_write_array(group, array, copy, err);
}

/* NAME and its ending, with first axis "run". */
static int write_each(hid_t group, const struct record *record, const struct series *series,
                      const char *ending, const char *about, const double *values,
                      struct err *err) {
    char name[HDF5_NAME], dims[HDF5_NAME];
    struct dataset array = dataset_of(series);
    snprintf(name, sizeof name, "%s%s", series->name, ending);
    snprintf(dims, sizeof dims, "run %s", series->dims);
    array.name = name;
    array.dims = dims;
    array.about = about;
    array.rank++;
    array.shape[0] = (hsize_t)record->runs;
    for (int k = 0; k < series->axes; k++)
        array.shape[k + 1] = series->shape[k];
    return write_runs(group, &array, record, series, values, err);
}

/* NAME_tolerance, if it is known. */
static int write_tolerance(hid_t group, const struct record *record, const struct series *series,
                           double *difference, struct err *err) {
    char name[HDF5_NAME];
    struct dataset array = dataset_of(series);
    if (!record_tolerance(record, series, difference))
        return CODE_OK;
    snprintf(name, sizeof name, "%s_tolerance", series->name);
    array.name = name;
    array.about = "run 0 minus the same at a third of the tolerance";
    array.equation = "";
    return hdf5_write_array(group, &array, difference, err);
}

/* The attributes of a dataset that is there which not all series have. */
static int write_more(hid_t group, const struct series *series, struct err *err) {
    int code = CODE_OK;
    if (!series->tex && !series->label)
        return code;
    hid_t set = H5Dopen2(group, series->name, H5P_DEFAULT);
    DO(hdf5_check(set, "open dataset", series->name, err));
    if (series->tex)
        DO(hdf5_set_text(set, "tex", series->tex, err));
    if (series->label)
        DO(hdf5_set_text(set, "label", series->label, err));
done:
    return hdf5_shut(H5Dclose, set, code, series->name, err);
}

/* NAME, NAME_se, perhaps NAME_runs, NAME_tolerance; mean and se are workspace of the size of
 * the series, unless it is stored run by run alone. */
static int write_series(hid_t group, const struct record *record, const struct series *series,
                        double *mean, double *se, struct err *err) {
    char name[HDF5_NAME], text[HDF5_SENTENCE];
    struct dataset array = dataset_of(series);
    if (series->runs_alone) {
        TRY(write_each(group, record, series, "", series->about, series->values, err));
        return write_more(group, series, err);
    }
    record_statistics(record, series, mean, se);
    TRY(hdf5_write_array(group, &array, mean, err));
    TRY(write_more(group, series, err));
    if (series->first_run)
        return CODE_OK;

    snprintf(name, sizeof name, "%s_se", series->name);
    snprintf(text, sizeof text, "standard error of the mean of %s over independent runs",
             series->name);
    if (record->finer && !series->computation)
        text_append(text, ", with NAME_tolerance in quadrature");
    array.name = name;
    array.about = text;
    array.equation = series->of_mean
                         ? "sqrt(sum_r (x_r - mean)^2 / (n (n - 1))), pseudo-values x_r of n runs r"
                         : "sqrt(sum_r (x_r - mean)^2 / (n (n - 1))), n runs r";
    TRY(hdf5_write_array(group, &array, se, err));
    TRY(write_tolerance(group, record, series, mean, err));
    if (!series->keep_runs)
        return CODE_OK;
    snprintf(text, sizeof text, "%s run by run%s%s", series->name,
             series->of_mean ? ", of each by itself" : ": ",
             series->of_mean || !series->about ? "" : series->about);
    TRY(write_each(group, record, series, "_runs", text,
                   series->of_mean ? series->values : record_values(record, series), err));
    if (!series->of_mean)
        return CODE_OK;
    snprintf(text, sizeof text, "pseudo-values of the jackknife, whose mean is %s", series->name);
    return write_each(group, record, series, "_pseudo", text, record_values(record, series), err);
}

static int write_reached(hid_t group, const struct record *record, struct err *err) {
    struct dataset array = {"n",
                            record->times[TIMES_ALL].axis,
                            "number of runs that reached it",
                            "",
                            1,
                            {(hsize_t)record->T},
                            H5T_NATIVE_INT};
    FREED(base_free) int *count = NULL;
    TRY(base_alloc(&count, (size_t)record->T, sizeof *count, err));
    for (int t = 0; t < record->T; t++)
        count[t] = record_reached(record, t);
    return hdf5_write_array(group, &array, count, err);
}

/* The length of the named axis of the first series that has it, or 0. */
static size_t named_length(const struct record *record) {
    for (int k = 0; k < record->count; k++) {
        const char *dims = record->series[k].dims;
        struct text_word word;
        for (int axis = 0; text_next_word(&dims, " ", &word); axis++)
            if (text_is(word, record->named))
                return record->series[k].shape[axis];
    }
    return 0;
}

static int write_labels(hid_t group, const struct record *record, const char *const *labels,
                        struct err *err) {
    char name[64];
    snprintf(name, sizeof name, "%s_name", record->named);
    struct dataset array = {
        name, record->named, "names along this axis", "", 1, {named_length(record)}, -1};
    if (!array.shape[0])
        return CODE_OK;
    int code = CODE_OK;
    DO(hdf5_text_type(&array.type, err));
    DO(hdf5_write_array(group, &array, labels, err));
done:
    return hdf5_shut(H5Tclose, array.type, code, array.name, err);
}

static int write_times(hid_t group, const struct record_times *times, struct err *err) {
    struct dataset array = {
        times->axis,   times->axis, "measured times", "", 1, {(hsize_t)times->list.count},
        H5T_NATIVE_INT};
    return hdf5_write_scale(group, &array, times->list.value, err);
}

int io_axes(struct io *io, const char *group, const struct record *record, struct err *err) {
    struct dataset probabilities = {
        "probability",    "probability", "of quantiles", "", 1, {(hsize_t)record->probabilities},
        H5T_NATIVE_DOUBLE};
    hid_t id;
    int code;
    DO(io_open_group(&id, io, group, err));
    for (int k = 0; k < TIMES_KINDS; k++)
        if (record->times[k].list.count)
            DO(write_times(id, &record->times[k], err));
    if (record->probabilities)
        DO(hdf5_write_scale(id, &probabilities, record->probability, err));
done:
    return hdf5_shut(H5Gclose, id, code, group, err);
}

int io_record(struct io *io, const char *group, const struct record *record,
              const char *const *labels, struct err *err) {
    int code = CODE_OK;
    FREED(base_free) double *mean = NULL, *se = NULL;
    size_t size = 0;
    hid_t id;
    for (int k = 0; k < record->count; k++)
        if (!record->series[k].runs_alone && record->series[k].size > size)
            size = record->series[k].size;
    TRY(io_axes(io, group, record, err));
    DO(io_open_group(&id, io, group, err));
    DO(base_alloc(&mean, size, sizeof *mean, err));
    DO(base_alloc(&se, size, sizeof *se, err));
    DO(write_reached(id, record, err));
    for (int k = 0; k < record->count; k++)
        if (!record->series[k].inner)
            DO(write_series(id, record, &record->series[k], mean, se, err));
    if (labels)
        DO(write_labels(id, record, labels, err));
done:
    TRY(hdf5_shut(H5Gclose, id, code, group, err));
    return io_flush(io, err);
}
