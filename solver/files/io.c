/* The result file: what of the program goes into it, composed in memory (hdf5.h) and saved whole,
 * so that the file on disk is always one finished state. Order of calls: io_create, any of the
 * writers, io_finish, io_close. */
#define _POSIX_C_SOURCE 200809L
#include "solver/files/io.h"
#include "solver/files/hdf5.h"
#include "solver/files/partial.h"
#include "kernels/base/text.h"
#include "solver/data/truth.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROW = 1 << 22 }; /* bytes by which the file in memory grows */

void io_quiet(void) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

int io_open_group(int64_t *group, const struct io *io, const char *path, struct err *err) {
    char whole[HDF5_NAME];
    size_t length = (size_t)snprintf(whole, sizeof whole, "%s%s", io->prefix, path);
    assert(length < sizeof whole);
    (void)length;
    return hdf5_open_group(group, io->file, whole, err);
}

/* --- attributes ------------------------------------------------------------------------------ */

int io_attribute(struct io *io, const char *group, const char *name, double value,
                 struct err *err) {
    int code = CODE_OK;
    hid_t id;
    DO(io_open_group(&id, io, group, err));
    DO(hdf5_set_attribute(id, name, H5T_NATIVE_DOUBLE, -1, &value, err));
done:
    return hdf5_shut(H5Gclose, id, code, group, err);
}

int io_text(struct io *io, const char *group, const char *name, const char *value,
            struct err *err) {
    int code = CODE_OK;
    hid_t id;
    DO(io_open_group(&id, io, group, err));
    DO(hdf5_set_text(id, name, value, err));
done:
    return hdf5_shut(H5Gclose, id, code, group, err);
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
        return hdf5_set_attribute(group, name, H5T_NATIVE_INT, -1, slot, err);
    case PARAM_SEED:
        return hdf5_set_attribute(group, name, H5T_NATIVE_UINT64, -1, slot, err);
    case PARAM_REAL:
        return hdf5_set_attribute(group, name, H5T_NATIVE_DOUBLE, -1, slot, err);
    case PARAM_INTS:
        return hdf5_set_attribute(group, name, H5T_NATIVE_INT, list->count, list->value, err);
    case PARAM_REALS:
        return hdf5_set_attribute(group, name, H5T_NATIVE_DOUBLE, reals->count, reals->value, err);
    default: /* words */
        return hdf5_set_text(group, name, text, err);
    }
}

int io_parameters(struct io *io, const struct params *params, const void *config, struct err *err) {
    int code = CODE_OK;
    const struct param_value *value = params->values;
    char *ini = NULL;
    size_t size;
    hid_t group;
    DO(io_open_group(&group, io, "parameters", err));
    for (size_t s = 0; s < params->count; s++) {
        const struct param_section *section = &params->sections[s];
        for (size_t k = 0; k < section->count; k++, value++) {
            const struct param_row *row = &section->rows[k];
            const char *slot = (const char *)config + section->offset + row->offset;
            char name[HDF5_NAME];
            snprintf(name, sizeof name, "%s.%s", section->name, row->key);
            DO(set_parameter(group, name, row, value->text, slot, err));
        }
    }
    for (size_t k = 0; k < params->frees; k++) {
        const struct param_free *key = &params->free[k];
        char name[HDF5_NAME];
        snprintf(name, sizeof name, "%s.%s", key->section->name, key->key);
        DO(hdf5_set_text(group, name, key->value.text, err));
    }
    DO(params_text(params, &ini, &size, err));
    DO(hdf5_set_text(group, "ini", ini, err));
done:
    free(ini);
    return hdf5_shut(H5Gclose, group, code, "parameters", err);
}

/* --- datasets -------------------------------------------------------------------------------- */

int io_scale(struct io *io, const char *group, const char *name, const char *axis,
             const double *values, const char *const *text, int count, struct err *err) {
    struct dataset array = {name, axis, "coordinates", "", 1, {(hsize_t)count}, H5T_NATIVE_DOUBLE};
    const void *from = text ? (const void *)text : values;
    hid_t id, words = -1;
    int code;
    DO(io_open_group(&id, io, group, err));
    DO(hdf5_text_type(&words, err));
    if (text)
        array.type = words;
    DO(strcmp(name, axis) ? hdf5_write_array(id, &array, from, err)
                          : hdf5_write_scale(id, &array, from, err));
done:
    code = hdf5_shut(H5Tclose, words, code, axis, err);
    return hdf5_shut(H5Gclose, id, code, group, err);
}

int io_document(struct io *io, const char *name, const char *about, const char *text,
                struct err *err) {
    struct dataset array = {name, "", about, "", 0, {0}, -1};
    hid_t group;
    int code;
    DO(io_open_group(&group, io, "", err));
    DO(hdf5_text_type(&array.type, err));
    DO(hdf5_write_array(group, &array, &text, err));
done:
    code = hdf5_shut(H5Tclose, array.type, code, name, err);
    return hdf5_shut(H5Gclose, group, code, name, err);
}

/* An array of /data without the axes whose extent is 0. */
static int write_data(hid_t group, struct dataset array, const void *values, struct err *err) {
    struct dataset kept = array;
    char dims[HDF5_NAME] = "";
    const char *cursor = array.dims;
    struct text_word word;
    kept.dims = dims;
    kept.rank = 0;
    for (int axis = 0; text_next_word(&cursor, " ", &word); axis++) {
        if (!array.shape[axis])
            continue;
        size_t length = strlen(dims);
        snprintf(dims + length, sizeof dims - length, "%s%.*s", length ? " " : "", (int)word.length,
                 word.text);
        kept.shape[kept.rank++] = array.shape[axis];
    }
    return hdf5_write_array(group, &kept, values, err);
}

/* all: also what follows from tokens. */
static int write_inputs(hid_t group, const struct data *data, bool test, bool all,
                        struct err *err) {
    size_t P = (size_t)data->P, n = (size_t)data->n, D = (size_t)data->D, C = (size_t)data->C;
    size_t count = test ? (size_t)data->tests : P, places = data->per_token ? n : 1;
    hsize_t rows = n > 1 ? n : 0, asked = places > 1 ? n : 0, columns = C > 1 ? C : 0;
    size_t first = test ? P : 0;
    double *X = NULL, *y = NULL;
    int code;
    const struct dataset inputs = {test ? "X_test" : "X",
                                   test ? "nu token i" : "mu token i",
                                   test ? "test inputs" : "inputs",
                                   "",
                                   3,
                                   {count, rows, D},
                                   H5T_NATIVE_DOUBLE};
    const struct dataset targets = {test ? "y_test" : "y",
                                    test ? "nu token c" : "mu token c",
                                    test ? "their targets" : "targets",
                                    "",
                                    3,
                                    {count, asked, columns},
                                    H5T_NATIVE_DOUBLE};
    const struct dataset tokens = {test ? "tokens_test" : "tokens",
                                   test ? "nu token" : "mu token",
                                   "numbers of the tokens",
                                   "",
                                   2,
                                   {count, rows},
                                   H5T_NATIVE_INT};
    const struct dataset weights = {test ? "weight_test" : "weight",
                                    test ? "nu" : "mu",
                                    "how often the input counts in the loss, 1 on average",
                                    "",
                                    1,
                                    {count},
                                    H5T_NATIVE_DOUBLE};
    if (data->weighted)
        DO(write_data(group, weights, data->weight + first, err));
    if (data->V)
        DO(write_data(group, tokens, data->token + first * n, err));
    if (data->V && !all)
        goto done;
    DO(base_alloc(&X, count * n * D, sizeof *X, err));
    data_take(data, first * n, count * n, X);
    DO(write_data(group, inputs, X, err));
    DO(base_alloc(&y, count * places * C, sizeof *y, err));
    data_ask(data, first * places, count * places, y);
    DO(write_data(group, targets, y, err));
done:
    free(X), free(y);
    return code;
}

/* The law of drawn data, and the loss below which no network comes. */
static int write_truth(hid_t group, const struct data_truth *truth, struct err *err) {
    for (int k = 0; k < truth->count; k++) {
        const struct truth_array *array = &truth->array[k];
        struct dataset set = {array->name, array->dims, array->about,     "",
                              TRUTH_AXES,  {0},         H5T_NATIVE_DOUBLE};
        for (int axis = 0; axis < TRUTH_AXES; axis++)
            set.shape[axis] = array->shape[axis];
        TRY(write_data(group, set, array->values, err));
    }
    if (isfinite(truth->rate))
        TRY(hdf5_set_attribute(group, "entropy_rate", H5T_NATIVE_DOUBLE, -1, &truth->rate, err));
    return isfinite(truth->floor)
               ? hdf5_set_attribute(group, "floor", H5T_NATIVE_DOUBLE, -1, &truth->floor, err)
               : CODE_OK;
}

int io_data(struct io *io, const struct data *data, bool all, struct err *err) {
    hid_t group;
    int code;
    const struct dataset letters = {"letters",
                                    "letter",
                                    "codes of the tokens: of characters, or bytes; -1: all others",
                                    "",
                                    1,
                                    {(hsize_t)data->V},
                                    H5T_NATIVE_INT};
    DO(io_open_group(&group, io, "data", err));
    DO(write_inputs(group, data, false, all, err));
    if (data->tests)
        DO(write_inputs(group, data, true, all, err));
    if (data->code)
        DO(hdf5_write_array(group, &letters, data->code, err));
    if (data->truth)
        DO(write_truth(group, data->truth, err));
done:
    return hdf5_shut(H5Gclose, group, code, "data", err);
}

/* Of all coordinates of rows first, first + 1, ... the first K. */
static int write_coordinates(hid_t group, struct dataset array, const struct data *data,
                             const struct coordinates *inputs, size_t first, struct err *err) {
    size_t rows = array.shape[0] * (array.shape[1] ? array.shape[1] : 1), K = array.shape[2];
    size_t all = (size_t)(inputs->K + inputs->test_directions);
    double *part = NULL, *A = NULL;
    int code;
    DO(base_alloc(&part, rows * K, sizeof *part, err));
    DO(base_alloc(&A, all, sizeof *A, err));
    for (size_t row = 0; row < rows; row++) {
        coordinates_take(inputs, data, first + row, 1, A);
        memcpy(part + row * K, A, K * sizeof *part);
    }
    DO(write_data(group, array, part, err));
done:
    free(part), free(A);
    return code;
}

int io_coordinates(struct io *io, const struct data *data, const struct coordinates *inputs,
                   struct err *err) {
    size_t P = (size_t)data->P, n = (size_t)data->n,
           all = (size_t)(inputs->K + inputs->test_directions);
    hsize_t tokens = n > 1 ? n : 0;
    const struct dataset trained = {"coordinates",
                                    "mu token k",
                                    "of the inputs, what read-ins act on",
                                    "A, with A A^T = X X^T/D",
                                    3,
                                    {P, tokens, (hsize_t)inputs->K},
                                    H5T_NATIVE_DOUBLE};
    const struct dataset tests = {"coordinates_test",
                                  "nu token k_test",
                                  "of the test inputs, those of no training input last",
                                  "A, with A A^T = X X^T/D",
                                  3,
                                  {(hsize_t)data->tests, tokens, all},
                                  H5T_NATIVE_DOUBLE};
    hid_t group;
    int code;
    DO(io_open_group(&group, io, "data", err));
    DO(write_coordinates(group, trained, data, inputs, 0, err));
    if (data->tests)
        DO(write_coordinates(group, tests, data, inputs, P * n, err));
done:
    return hdf5_shut(H5Gclose, group, code, "data", err);
}

int io_batches(struct io *io, const int *index, int T, int P, struct err *err) {
    struct dataset array = {"batch",       "t b", "rows of X", "", 2, {(hsize_t)T, (hsize_t)P},
                            H5T_NATIVE_INT};
    hid_t group;
    int code;
    DO(io_open_group(&group, io, "data", err));
    DO(hdf5_write_array(group, &array, index, err));
done:
    return hdf5_shut(H5Gclose, group, code, "data", err);
}

/* --- the file -------------------------------------------------------------------------------- */

int io_flush(struct io *io, struct err *err) {
    int code = CODE_OK;
    char *bytes = NULL;
    ssize_t size = -1;
    DO(hdf5_check(H5Fflush(io->file, H5F_SCOPE_LOCAL), "complete", io->partial, err));
    DO(hdf5_check(size = H5Fget_file_image(io->file, NULL, 0), "measure", io->partial, err));
    DO(base_alloc(&bytes, (size_t)size, 1, err));
    DO(hdf5_check(H5Fget_file_image(io->file, bytes, (size_t)size), "copy", io->partial, err));
    DO(partial_write(io->partial, &io->lock, bytes, (size_t)size, err));
done:
    io->behind = code != CODE_OK;
    free(bytes);
    return code;
}

/* An empty HDF5 file in memory. The driver takes the name but leaves the disk alone. */
static int create_file(struct io *io, struct err *err) {
    int code = CODE_OK;
    hid_t creation = H5Pcreate(H5P_FILE_CREATE), access = H5Pcreate(H5P_FILE_ACCESS);
    DO(hdf5_prepare(creation, io->partial, err));
    DO(hdf5_check(access, "prepare", io->partial, err));
    DO(hdf5_check(H5Pset_fapl_core(access, GROW, false), "prepare", io->partial, err));
    hid_t file = H5Fcreate(io->partial, H5F_ACC_TRUNC, creation, access);
    DO(hdf5_check(file, "create", io->partial, err));
    io->file = file;
done:
    code = hdf5_shut(H5Pclose, creation, code, io->partial, err);
    return hdf5_shut(H5Pclose, access, code, io->partial, err);
}

static int set_complete(struct io *io, int complete, struct err *err) {
    return hdf5_set_attribute(io->file, "complete", H5T_NATIVE_INT, -1, &complete, err);
}

static void release(struct io *io) {
    if (io->file > 0)
        H5Fclose(io->file); /* memory only: what was to be kept has been saved */
    if (io->partial)
        close(io->lock);
    free(io->path);
    free(io->partial);
    free(io->sum);
    *io = (struct io){0};
}

static int begin_file(struct io *io, struct err *err) {
    TRY(create_file(io, err));
    TRY(set_complete(io, 0, err));
    return hdf5_set_text(io->file, "program", "dmft-solve", err);
}

static int create(struct io *io, const char *path, bool force, bool save, struct err *err) {
    int code = CODE_OK;
    *io = (struct io){0};
    DO(partial_check(path, force, err));
    DO(base_copy(&io->path, path, err));
    DO(partial_create(&io->partial, &io->lock, path, force, err));
    DO(begin_file(io, err));
    if (save)
        DO(io_flush(io, err));
done:
    if (code && io->partial)
        partial_abandon(io->partial);
    if (code)
        release(io);
    return code;
}

int io_create(struct io *io, const char *path, bool force, struct err *err) {
    return create(io, path, force, true, err);
}

int io_again(struct io *io, const char *path, struct err *err) {
    return create(io, path, true, false, err);
}

int io_finish(struct io *io, bool force, struct err *err) {
    struct err ignored;
    TRY(set_complete(io, 1, err));
    int code = io_flush(io, err);
    if (code) {
        set_complete(io, 0, &ignored);
        return code;
    }
    if (io->sum)
        TRY(partial_sum(io->partial, io->path, io->sum, err));
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
