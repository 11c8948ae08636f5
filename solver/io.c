/* The result file: HDF5 composed in memory and saved whole, so that the file on disk is always one
 * finished state. Order of calls: io_create, any of the writers, io_finish, io_close. */
#define _POSIX_C_SOURCE 200809L
#include "solver/io.h"
#include "solver/partial.h"
#include "solver/text.h"

#include <assert.h>
#include <hdf5.h>
#include <hdf5_hl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RANK = SERIES_AXES + 1, /* a series run by run has one axis more */
    COMPACT = 4096,         /* values; larger datasets are compressed */
    CHUNK = 1 << 17,        /* values of a chunk at most: HDF5 caches 1 MiB */
    GROW = 1 << 22,         /* bytes by which the file in memory grows */
    NAME = 256,             /* bytes of a name in the file */
    SENTENCE = 1024,        /* bytes of an attribute made here */
};

/* What is written as one dataset. */
struct dataset {
    const char *name, *dims, *about, *equation;
    int rank;
    hsize_t shape[RANK];
    hid_t type;
};

/* --- HDF5 calls ------------------------------------------------------------------------------ */

void io_quiet(void) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* The first, innermost entry of HDF5's error stack is the cause. */
static herr_t find_cause(unsigned depth, const H5E_error2_t *entry, void *cause) {
    if (depth == 0 && entry->desc)
        snprintf(cause, SENTENCE, ": %s", entry->desc);
    return 0;
}

/* CODE_SYSTEM if the result of an HDF5 call (an id, a size, a truth value or a status) is negative;
 * what says what could not be done to the object called name. */
static int check(int64_t result, const char *what, const char *name, struct err *err) {
    if (result >= 0)
        return CODE_OK;
    char cause[SENTENCE] = "";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_cause, cause);
    return err_set(err, CODE_SYSTEM, "HDF5 cannot %s %s%s", what, name, cause);
}

/* Closes an id unless it is negative; keeps an earlier failure. */
static int shut(herr_t (*close_id)(hid_t), hid_t id, int code, const char *name, struct err *err) {
    if (id < 0 || close_id(id) >= 0 || code)
        return code;
    return check(-1, "close", name, err);
}

/* For files and groups: lists in the order of creation (netCDF-4 wants that), no dates, so that the
 * same run gives the same bytes. */
static int prepare(hid_t plist, const char *name, struct err *err) {
    unsigned order = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
    TRY(check(plist, "prepare", name, err));
    TRY(check(H5Pset_link_creation_order(plist, order), "prepare", name, err));
    return check(H5Pset_obj_track_times(plist, false), "prepare", name, err);
}

static int create_group(hid_t file, const char *path, struct err *err) {
    int code = CODE_OK;
    hid_t group = -1, plist = H5Pcreate(H5P_GROUP_CREATE);
    DO(prepare(plist, path, err));
    group = H5Gcreate2(file, path, H5P_DEFAULT, plist, H5P_DEFAULT);
    DO(check(group, "create group", path, err));
done:
    code = shut(H5Gclose, group, code, path, err);
    return shut(H5Pclose, plist, code, path, err);
}

/* Opens the group "a/b/c", creating what is missing. */
static int open_group(hid_t *group, const struct io *io, const char *path, struct err *err) {
    char part[NAME], whole[NAME];
    size_t length = (size_t)snprintf(whole, sizeof whole, "%s%s", io->prefix, path);
    assert(length < sizeof whole);
    *group = -1;
    for (size_t end = 0; end < length;) {
        end += strspn(whole + end, "/");
        end += strcspn(whole + end, "/");
        snprintf(part, sizeof part, "%.*s", (int)end, whole);
        htri_t exists = H5Lexists(io->file, part, H5P_DEFAULT);
        TRY(check(exists, "look up", part, err));
        if (!exists)
            TRY(create_group(io->file, part, err));
    }
    *group = H5Gopen2(io->file, length ? whole : "/", H5P_DEFAULT);
    return check(*group, "open group", path, err);
}

/* --- attributes ------------------------------------------------------------------------------ */

/* Writes an attribute, count values or one scalar if count < 0; an existing one must have this
 * type and count. */
static int set_attribute(hid_t object, const char *name, hid_t type, int count, const void *value,
                         struct err *err) {
    int code = CODE_OK;
    hsize_t length = count > 0 ? (hsize_t)count : 0;
    hid_t attribute = -1, space = -1;
    htri_t exists = H5Aexists(object, name);
    DO(check(exists, "look up attribute", name, err));
    space = count < 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &length, NULL);
    DO(check(space, "describe attribute", name, err));
    attribute = exists ? H5Aopen(object, name, H5P_DEFAULT)
                       : H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    DO(check(attribute, "create attribute", name, err));
    DO(check(H5Awrite(attribute, type, value), "write attribute", name, err));
done:
    code = shut(H5Aclose, attribute, code, name, err);
    return shut(H5Sclose, space, code, name, err);
}

/* Strings of any length, UTF-8: what h5py returns as str. */
static int text_type(hid_t *type, struct err *err) {
    *type = H5Tcopy(H5T_C_S1);
    TRY(check(*type, "describe", "strings", err));
    TRY(check(H5Tset_size(*type, H5T_VARIABLE), "describe", "strings", err));
    return check(H5Tset_cset(*type, H5T_CSET_UTF8), "describe", "strings", err);
}

static int set_text(hid_t object, const char *name, const char *value, struct err *err) {
    int code = CODE_OK;
    hid_t type = -1;
    const char *text = value ? value : "";
    DO(text_type(&type, err));
    DO(set_attribute(object, name, type, -1, &text, err));
done:
    return shut(H5Tclose, type, code, name, err);
}

int io_attribute(struct io *io, const char *group, const char *name, double value,
                 struct err *err) {
    int code = CODE_OK;
    hid_t id;
    DO(open_group(&id, io, group, err));
    DO(set_attribute(id, name, H5T_NATIVE_DOUBLE, -1, &value, err));
done:
    return shut(H5Gclose, id, code, group, err);
}

int io_text(struct io *io, const char *group, const char *name, const char *value,
            struct err *err) {
    int code = CODE_OK;
    hid_t id;
    DO(open_group(&id, io, group, err));
    DO(set_text(id, name, value, err));
done:
    return shut(H5Gclose, id, code, group, err);
}

int io_provenance(struct io *io, const char *name, const char *value, struct err *err) {
    return io_text(io, "provenance", name, value, err);
}

/* One key; slot is its place in the configuration. Names of choices say more than their numbers. */
static int set_parameter(hid_t group, const char *name, const struct param_row *row,
                         const char *text, const void *slot, struct err *err) {
    const struct int_list *list = slot;
    const struct real_list *reals = slot;
    switch (row->type) {
    case PARAM_INT:
        return set_attribute(group, name, H5T_NATIVE_INT, -1, slot, err);
    case PARAM_SEED:
        return set_attribute(group, name, H5T_NATIVE_UINT64, -1, slot, err);
    case PARAM_REAL:
        return set_attribute(group, name, H5T_NATIVE_DOUBLE, -1, slot, err);
    case PARAM_INTS:
        return set_attribute(group, name, H5T_NATIVE_INT, list->count, list->value, err);
    case PARAM_REALS:
        return set_attribute(group, name, H5T_NATIVE_DOUBLE, reals->count, reals->value, err);
    default: /* words */
        return set_text(group, name, text, err);
    }
}

int io_parameters(struct io *io, const struct params *params, const void *config, struct err *err) {
    int code = CODE_OK;
    const struct param_value *value = params->values;
    char *ini = NULL;
    size_t size;
    hid_t group;
    DO(open_group(&group, io, "parameters", err));
    for (size_t s = 0; s < params->count; s++) {
        const struct param_section *section = &params->sections[s];
        for (size_t k = 0; k < section->count; k++, value++) {
            const struct param_row *row = &section->rows[k];
            const char *slot = (const char *)config + section->offset + row->offset;
            char name[NAME];
            snprintf(name, sizeof name, "%s.%s", section->name, row->key);
            DO(set_parameter(group, name, row, value->text, slot, err));
        }
    }
    for (size_t k = 0; k < params->frees; k++) {
        const struct param_free *key = &params->free[k];
        char name[NAME];
        snprintf(name, sizeof name, "%s.%s", key->section->name, key->key);
        DO(set_text(group, name, key->value.text, err));
    }
    DO(params_text(params, &ini, &size, err));
    DO(set_text(group, "ini", ini, err));
done:
    free(ini);
    return shut(H5Gclose, group, code, "parameters", err);
}

/* --- datasets -------------------------------------------------------------------------------- */

/* Large arrays are cut into chunks along their first axes and compressed. */
static int set_storage(hid_t plist, const struct dataset *array, struct err *err) {
    TRY(check(plist, "prepare", array->name, err));
    TRY(check(H5Pset_obj_track_times(plist, false), "prepare", array->name, err));
    hsize_t count = 1, chunk[RANK];
    for (int k = 0; k < array->rank; k++)
        count *= chunk[k] = array->shape[k];
    if (count <= COMPACT)
        return CODE_OK;
    for (int k = 0; k < array->rank && count > CHUNK; k++) {
        hsize_t rest = count / chunk[k]; /* values of one index of axis k */
        chunk[k] = rest < CHUNK ? CHUNK / rest : 1;
        count = rest * chunk[k];
    }
    TRY(check(H5Pset_chunk(plist, array->rank, chunk), "prepare", array->name, err));
    TRY(check(H5Pset_shuffle(plist), "prepare", array->name, err));
    return check(H5Pset_deflate(plist, 4), "prepare", array->name, err);
}

static int create_dataset(hid_t *set, hid_t group, const struct dataset *array, struct err *err) {
    int code = CODE_OK;
    const char *name = array->name;
    hid_t space = -1, plist = H5Pcreate(H5P_DATASET_CREATE);
    *set = -1;
    DO(set_storage(plist, array, err));
    space = H5Screate_simple(array->rank, array->shape, NULL);
    DO(check(space, "describe", name, err));
    *set = H5Dcreate2(group, name, array->type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    DO(check(*set, "create dataset", name, err));
    DO(set_text(*set, "dims", array->dims, err));
    DO(set_text(*set, "about", array->about, err));
    DO(set_text(*set, "equation", array->equation, err));
done:
    code = shut(H5Sclose, space, code, name, err);
    return shut(H5Pclose, plist, code, name, err);
}

/* Opens the dataset if the group has it, else *set = -1. Its shape must be that of the array: a
 * name, and the axes of a group, mean one thing. */
static int open_dataset(hid_t *set, hid_t group, const struct dataset *array, struct err *err) {
    *set = -1;
    htri_t exists = H5Lexists(group, array->name, H5P_DEFAULT);
    TRY(check(exists, "look up", array->name, err));
    if (!exists)
        return CODE_OK;
    *set = H5Dopen2(group, array->name, H5P_DEFAULT);
    TRY(check(*set, "open dataset", array->name, err));
    hid_t space = H5Dget_space(*set);
    TRY(check(space, "describe", array->name, err));
    hsize_t shape[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, shape, NULL);
    bool same = rank == array->rank;
    for (int k = 0; same && k < rank; k++)
        same = shape[k] == array->shape[k];
    assert(rank < 0 || same);
    int code = check(rank, "describe", array->name, err);
    return shut(H5Sclose, space, code, array->name, err);
}

static int create_scale(hid_t *scale, hid_t group, const struct dataset *array, const void *values,
                        struct err *err) {
    TRY(create_dataset(scale, group, array, err));
    TRY(check(H5Dwrite(*scale, array->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "write dataset",
              array->name, err));
    return check(H5DSset_scale(*scale, array->name), "make a scale of", array->name, err);
}

/* The scale of an axis, open; 0, 1, ..., length - 1 if it is new in the group. */
static int open_scale(hid_t *scale, hid_t group, const char *axis, hsize_t length,
                      struct err *err) {
    struct dataset array = {axis,     axis,          "index along this axis, from 0", "", 1,
                            {length}, H5T_NATIVE_INT};
    TRY(open_dataset(scale, group, &array, err));
    if (*scale >= 0)
        return CODE_OK;
    int *values;
    TRY(base_alloc(&values, (size_t)length, sizeof *values, err));
    for (hsize_t k = 0; k < length; k++)
        values[k] = (int)k;
    int code = create_scale(scale, group, &array, values, err);
    free(values);
    return code;
}

/* Creates the dataset after the scales of its axes, which it needs, and attaches them. */
static int create_array(hid_t *set, hid_t group, const struct dataset *array, struct err *err) {
    int code = CODE_OK;
    int scales = 0;
    hid_t scale[RANK];
    char *dims, *axis, *rest;
    *set = -1;
    TRY(base_copy(&dims, array->dims, err));
    for (int k = 0; k < array->rank; k++) {
        axis = strtok_r(k ? NULL : dims, " ", &rest);
        assert(axis);
        DO(open_scale(&scale[scales++], group, axis, array->shape[k], err));
    }
    DO(create_dataset(set, group, array, err));
    for (int k = 0; k < array->rank; k++)
        DO(check(H5DSattach_scale(*set, scale[k], (unsigned)k), "attach the scales of", array->name,
                 err));
done:
    while (scales--)
        code = shut(H5Dclose, scale[scales], code, array->name, err);
    free(dims);
    return code;
}

static int write_array(hid_t group, const struct dataset *array, const void *values,
                       struct err *err) {
    int code = CODE_OK;
    hid_t set;
    DO(open_dataset(&set, group, array, err));
    if (set < 0)
        DO(create_array(&set, group, array, err));
    DO(check(H5Dwrite(set, array->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "write dataset",
             array->name, err));
done:
    return shut(H5Dclose, set, code, array->name, err);
}

int io_scale(struct io *io, const char *group, const char *name, const char *axis,
             const double *values, const char *const *text, int count, struct err *err) {
    struct dataset array = {name, axis, "coordinates", "", 1, {(hsize_t)count}, H5T_NATIVE_DOUBLE};
    const void *from = text ? (const void *)text : values;
    hid_t id, scale = -1, words = -1;
    int code;
    DO(open_group(&id, io, group, err));
    DO(text_type(&words, err));
    if (text)
        array.type = words;
    DO(strcmp(name, axis) ? write_array(id, &array, from, err)
                          : create_scale(&scale, id, &array, from, err));
done:
    code = shut(H5Dclose, scale, code, axis, err);
    code = shut(H5Tclose, words, code, axis, err);
    return shut(H5Gclose, id, code, group, err);
}

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
    DO(open_group(&id, io, group, err));
    DO(write_array(id, &array, series->values, err));
done:
    return shut(H5Gclose, id, code, group, err);
}

int io_data(struct io *io, const struct data *data, struct err *err) {
    size_t P = (size_t)data->P, D = (size_t)data->D, tests = (size_t)data->tests;
    const struct series all[] = {
        {"X", "mu i", "inputs", "", 2, {P, D}, .values = data->X},
        {"y", "mu", "targets", "", 1, {P}, .values = data->y},
        {"X_test", "nu i", "test inputs", "", 2, {tests, D}, .values = data->X + P * D},
        {"y_test", "nu", "their targets", "", 1, {tests}, .values = data->y + P},
    };
    for (int k = 0; k < (tests ? 4 : 2); k++)
        TRY(io_series(io, "data", &all[k], err));
    return CODE_OK;
}

int io_batches(struct io *io, const int *index, int T, int P, struct err *err) {
    struct dataset array = {"batch",       "t b", "rows of X", "", 2, {(hsize_t)T, (hsize_t)P},
                            H5T_NATIVE_INT};
    hid_t group;
    int code;
    DO(open_group(&group, io, "data", err));
    DO(write_array(group, &array, index, err));
done:
    return shut(H5Gclose, group, code, "data", err);
}

/* --- records --------------------------------------------------------------------------------- */

/* The values of each run up to the time it reached; later ones may be half written by a run under
 * way and are NaN in the file. */
static int write_runs(hid_t group, const struct dataset *array, const struct record *record,
                      const struct series *series, struct err *err) {
    size_t each = series->size / (size_t)record->T, total = series->size * (size_t)record->runs;
    double *copy;
    TRY(base_alloc(&copy, total, sizeof *copy, err));
    for (size_t k = 0; k < total; k++) {
        size_t run = k / series->size, t = k % series->size / each;
        copy[k] = t < (size_t)record->steps[run] ? series->values[k] : NAN;
    }
    int code = write_array(group, array, copy, err);
    free(copy);
    return code;
}

/* NAME, NAME_se and perhaps NAME_runs; mean and se are workspace of the size of the series. */
static int write_series(hid_t group, const struct record *record, const struct series *series,
                        double *mean, double *se, struct err *err) {
    char name[NAME], text[SENTENCE];
    struct dataset array = dataset_of(series);
    record_statistics(record, series, mean, se);
    TRY(write_array(group, &array, mean, err));

    snprintf(name, sizeof name, "%s_se", series->name);
    snprintf(text, sizeof text, "standard error of the mean of %s over independent runs",
             series->name);
    array.name = name;
    array.about = text;
    array.equation = "sqrt(sum_r (x_r - mean)^2 / (n (n - 1))), n runs r";
    TRY(write_array(group, &array, se, err));
    if (!series->keep_runs)
        return CODE_OK;

    char dims[NAME];
    snprintf(name, sizeof name, "%s_runs", series->name);
    snprintf(dims, sizeof dims, "run %s", series->dims);
    snprintf(text, sizeof text, "%s run by run: %s", series->name,
             series->about ? series->about : "");
    array.dims = dims;
    array.equation = series->equation;
    array.rank++;
    array.shape[0] = (hsize_t)record->runs;
    for (int k = 0; k < series->axes; k++)
        array.shape[k + 1] = series->shape[k];
    return write_runs(group, &array, record, series, err);
}

static int write_reached(hid_t group, const struct record *record, struct err *err) {
    struct dataset array = {
        "n",           record->axis, "number of runs that reached it", "", 1, {(hsize_t)record->T},
        H5T_NATIVE_INT};
    int *count;
    TRY(base_alloc(&count, (size_t)record->T, sizeof *count, err));
    for (int t = 0; t < record->T; t++)
        count[t] = record_reached(record, t);
    int code = write_array(group, &array, count, err);
    free(count);
    return code;
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
    DO(text_type(&array.type, err));
    DO(write_array(group, &array, labels, err));
done:
    return shut(H5Tclose, array.type, code, array.name, err);
}

int io_record(struct io *io, const char *group, const struct record *record,
              const char *const *labels, struct err *err) {
    int code = CODE_OK;
    double *mean = NULL, *se = NULL;
    size_t size = 0;
    hid_t id;
    for (int k = 0; k < record->count; k++)
        size = record->series[k].size > size ? record->series[k].size : size;
    DO(open_group(&id, io, group, err));
    DO(base_alloc(&mean, size, sizeof *mean, err));
    DO(base_alloc(&se, size, sizeof *se, err));
    DO(write_reached(id, record, err));
    for (int k = 0; k < record->count; k++)
        DO(write_series(id, record, &record->series[k], mean, se, err));
    if (labels)
        DO(write_labels(id, record, labels, err));
done:
    free(mean);
    free(se);
    TRY(shut(H5Gclose, id, code, group, err));
    return io_flush(io, err);
}

/* --- the file -------------------------------------------------------------------------------- */

int io_flush(struct io *io, struct err *err) {
    int code = CODE_OK;
    char *bytes = NULL;
    ssize_t size = -1;
    DO(check(H5Fflush(io->file, H5F_SCOPE_LOCAL), "complete", io->partial, err));
    DO(check(size = H5Fget_file_image(io->file, NULL, 0), "measure", io->partial, err));
    DO(base_alloc(&bytes, (size_t)size, 1, err));
    DO(check(H5Fget_file_image(io->file, bytes, (size_t)size), "copy", io->partial, err));
    DO(partial_write(io->partial, bytes, (size_t)size, err));
done:
    free(bytes);
    return code;
}

/* An empty HDF5 file in memory. The driver takes the name but leaves the disk alone. */
static int create_file(struct io *io, struct err *err) {
    int code = CODE_OK;
    hid_t creation = H5Pcreate(H5P_FILE_CREATE), access = H5Pcreate(H5P_FILE_ACCESS);
    DO(prepare(creation, io->partial, err));
    DO(check(access, "prepare", io->partial, err));
    DO(check(H5Pset_fapl_core(access, GROW, false), "prepare", io->partial, err));
    hid_t file = H5Fcreate(io->partial, H5F_ACC_TRUNC, creation, access);
    DO(check(file, "create", io->partial, err));
    io->file = file;
done:
    code = shut(H5Pclose, creation, code, io->partial, err);
    return shut(H5Pclose, access, code, io->partial, err);
}

static int set_complete(struct io *io, int complete, struct err *err) {
    return set_attribute(io->file, "complete", H5T_NATIVE_INT, -1, &complete, err);
}

static void release(struct io *io) {
    if (io->file > 0)
        H5Fclose(io->file); /* memory only: what was to be kept has been saved */
    free(io->path);
    free(io->partial);
    *io = (struct io){0};
}

int io_create(struct io *io, const char *path, bool force, struct err *err) {
    int code = CODE_OK;
    *io = (struct io){0};
    DO(partial_check(path, force, err));
    DO(base_copy(&io->path, path, err));
    DO(partial_create(&io->partial, path, err));
    DO(create_file(io, err));
    DO(set_complete(io, 0, err));
    DO(set_text(io->file, "program", "dmft-solve", err));
    DO(io_flush(io, err));
done:
    if (code && io->partial)
        unlink(io->partial);
    if (code)
        release(io);
    return code;
}

int io_finish(struct io *io, bool force, struct err *err) {
    struct err ignored;
    TRY(set_complete(io, 1, err));
    int code = io_flush(io, err);
    if (code) {
        set_complete(io, 0, &ignored);
        return code;
    }
    TRY(partial_place(io->partial, io->path, force, err));
    code = partial_sync(io->path, err);
    release(io);
    return code;
}

void io_close(struct io *io) {
    struct err ignored;
    if (io->file > 0)
        io_flush(io, &ignored);
    release(io);
}
