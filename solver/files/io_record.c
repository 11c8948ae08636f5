/* Records in the result file: means over runs and errors, what is stored run by run, all axes. */
#include "solver/files/io.h"
#include "solver/files/hdf5.h"
#include "kernels/base/text.h"

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
    FREED(hdf5_release) hid_t id = -1;
    TRY(io_open_group(&id, io, group, err));
    return hdf5_write_array(id, &array, series->values, err);
}

/* The values of each run up to the time it reached; later ones may be half written by a run under
 * way and are NaN in the file. */
static int write_runs(hid_t group, const struct dataset *array, const struct record *record,
                      const struct series *series, const double *values, struct err *err) {
    size_t each = series->size / series->shape[0], total = series->size * (size_t)record->runs;
    SCRATCH(double, copy, total);
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
    if (!series->tex && !series->label)
        return CODE_OK;
    FREED(hdf5_release) hid_t set = H5Dopen2(group, series->name, H5P_DEFAULT);
    TRY(hdf5_check(set, "open dataset", series->name, err));
    if (series->tex)
        TRY(hdf5_set_text(set, "tex", series->tex, err));
    return series->label ? hdf5_set_text(set, "label", series->label, err) : CODE_OK;
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
    const struct dataset array =
        hdf5_line("n", record->times[TIMES_ALL].axis, "number of runs that reached it",
                  (size_t)record->T, H5T_NATIVE_INT);
    SCRATCH(int, count, (size_t)record->T);
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

static int write_labels(hid_t group, const struct record *record, struct err *err) {
    size_t length = named_length(record);
    FREED(hdf5_release) hid_t type = -1;
    char name[64];
    if (!length)
        return CODE_OK;
    snprintf(name, sizeof name, "%s_name", record->named);
    TRY(hdf5_text_type(&type, err));
    const struct dataset array =
        hdf5_line(name, record->named, "names along this axis", length, type);
    return hdf5_write_array(group, &array, record->labels, err);
}

int io_axes(struct io *io, const char *group, const struct record *record, struct err *err) {
    const struct dataset probabilities =
        hdf5_line("probability", "probability", "of quantiles", (size_t)record->probabilities,
                  H5T_NATIVE_DOUBLE);
    FREED(hdf5_release) hid_t id = -1;
    TRY(io_open_group(&id, io, group, err));
    FOR_EACH_OF (const struct record_times, times, record->times, TIMES_KINDS) {
        const struct dataset array = hdf5_line(times->axis, times->axis, "measured times",
                                               (size_t)times->list.count, H5T_NATIVE_INT);
        if (times->list.count)
            TRY(hdf5_write_scale(id, &array, times->list.value, err));
    }
    return record->probabilities ? hdf5_write_scale(id, &probabilities, record->probability, err)
                                 : CODE_OK;
}

int io_record(struct io *io, const char *group, const struct record *record, struct err *err) {
    size_t size = 0;
    for (int k = 0; k < record->count; k++)
        if (!record->series[k].runs_alone && record->series[k].size > size)
            size = record->series[k].size;
    SCRATCH(double, mean, size);
    SCRATCH(double, se, size);
    FREED(hdf5_release) hid_t id = -1;
    TRY(io_axes(io, group, record, err));
    TRY(io_open_group(&id, io, group, err));
    TRY(write_reached(id, record, err));
    for (int k = 0; k < record->count; k++)
        if (!record->series[k].inner)
            TRY(write_series(id, record, &record->series[k], mean, se, err));
    if (record->labels)
        TRY(write_labels(id, record, err));
    return io_flush(io, err);
}
