/* /data of a result: inputs and targets, what read-ins act on, the law of what was drawn, batches.
 */
#include "solver/files/io.h"
#include "solver/files/hdf5.h"
#include "kernels/base/text.h"
#include "solver/data/truth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without the axes whose extent is 0; dims [HDF5_NAME]: names of the others. */
static struct dataset without_empty(struct dataset array, char *dims) {
    const char *cursor = array.dims;
    struct text_word word;
    struct dataset kept = array;
    kept.dims = dims;
    kept.rank = 0;
    *dims = 0;
    for (int axis = 0; text_next_word(&cursor, " ", &word); axis++) {
        if (!array.shape[axis])
            continue;
        size_t length = strlen(dims);
        snprintf(dims + length, HDF5_NAME - length, "%s%.*s", length ? " " : "", (int)word.length,
                 word.text);
        kept.shape[kept.rank++] = array.shape[axis];
    }
    return kept;
}

static int write_data(hid_t group, struct dataset array, const void *values, struct err *err) {
    char dims[HDF5_NAME];
    struct dataset kept = without_empty(array, dims);
    return hdf5_write_array(group, &kept, values, err);
}

/* An array of /data by inputs, which are its first axis. It is written some inputs at a time, so
 * that no second copy of all inputs is needed, and a signal is heard. */
struct by_input {
    const struct data *data;
    bool test; /* of the test inputs */
    /* Numbers of inputs first ... first + count - 1, those of the test inputs behind the others. */
    void (*take)(const struct by_input *from, size_t first, size_t count, double *out);
    /* For coordinates: K of each row, out of all of them [row]. */
    const struct coordinates *inputs;
    size_t K;
    double *row;
};

static int write_by_input(hid_t group, struct dataset array, const struct by_input *from,
                          struct err *err) {
    char dims[HDF5_NAME];
    struct dataset kept = without_empty(array, dims);
    size_t each = 1, count = (size_t)array.shape[0];
    FREED(base_free) double *part = NULL;
    for (int k = 1; k < kept.rank; k++)
        each *= (size_t)kept.shape[k];
    size_t first = from->test ? (size_t)from->data->P : 0, most = hdf5_rows_of_chunk(each);
    TRY(base_alloc(&part, (most < count ? most : count) * each, sizeof *part, err));
    for (size_t k = 0; k < count; k += most) {
        size_t some = most < count - k ? most : count - k;
        TRY(base_poll(err, "the inputs are written"));
        from->take(from, first + k, some, part);
        TRY(hdf5_write_part(group, &kept, k, some, part, err));
    }
    return CODE_OK;
}

static void take_inputs(const struct by_input *from, size_t first, size_t count, double *out) {
    size_t n = (size_t)from->data->n;
    data_take(from->data, first * n, count * n, out);
}

static void take_targets(const struct by_input *from, size_t first, size_t count, double *out) {
    size_t places = from->data->per_token ? (size_t)from->data->n : 1;
    data_ask(from->data, first * places, count * places, out);
}

/* all: also X, and y where inputs are tokens. */
static int write_inputs(hid_t group, const struct data *data, bool test, bool all,
                        struct err *err) {
    size_t P = (size_t)data->P, n = (size_t)data->n, D = (size_t)data->D, C = (size_t)data->C;
    size_t count = test ? (size_t)data->tests : P, first = test ? P : 0;
    hsize_t rows = n > 1 ? n : 0, asked = data->per_token ? rows : 0, columns = C > 1 ? C : 0;
    const struct by_input X = {.data = data, .take = take_inputs, .test = test},
                          y = {.data = data, .take = take_targets, .test = test};
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
        TRY(write_data(group, weights, data->weight + first, err));
    if (data->V)
        TRY(write_data(group, tokens, data->token + first * n, err));
    if (data->V && !all)
        return CODE_OK;
    if (all)
        TRY(write_by_input(group, inputs, &X, err));
    return write_by_input(group, targets, &y, err);
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

/* Takes the first K of all coordinates of a row. */
static void take_coordinates(const struct by_input *from, size_t first, size_t count, double *out) {
    size_t n = (size_t)from->data->n, K = from->K;
    for (size_t row = 0; row < count * n; row++) {
        coordinates_take(from->inputs, from->data, first * n + row, 1, from->row);
        memcpy(out + row * K, from->row, K * sizeof *out);
    }
}

int io_coordinates(struct io *io, const struct data *data, const struct coordinates *inputs,
                   struct err *err) {
    size_t P = (size_t)data->P, n = (size_t)data->n, K = (size_t)inputs->K,
           all = K + (size_t)inputs->test_directions;
    hsize_t tokens = n > 1 ? n : 0;
    struct by_input rows = {.data = data, .take = take_coordinates, .inputs = inputs};
    const struct dataset trained = {"coordinates",
                                    "mu token k",
                                    "of the inputs, what read-ins act on",
                                    "A, with A A^T = X X^T/D",
                                    3,
                                    {P, tokens, K},
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
    DO(base_alloc(&rows.row, all, sizeof *rows.row, err));
    rows.K = K;
    DO(write_by_input(group, trained, &rows, err));
    rows.K = all;
    rows.test = true;
    if (data->tests)
        DO(write_by_input(group, tests, &rows, err));
done:
    free(rows.row);
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
