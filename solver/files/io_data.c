/* /data of a result: inputs and targets, coordinates, the law of what was drawn, batches. */
#include "solver/files/io.h"
#include "solver/files/hdf5.h"
#include "kernels/base/text.h"

/* What is written of inputs, or of test inputs: names and axes of both kinds. */
struct named {
    char name[HDF5_NAME], dims[HDF5_NAME];
};

/* Without the axes whose extent is 0. The name gets an ending and the axes of the array, where
 * there is a first one, that in front of them. */
static struct dataset complete_array(struct dataset array, const char *first, const char *ending,
                                     struct named *named) {
    char all[HDF5_NAME];
    const char *cursor = all;
    struct text_word word;
    struct dataset kept = array;
    snprintf(all, sizeof all, "%s %s", first, array.dims);
    snprintf(named->name, sizeof named->name, "%s%s", array.name, ending);
    kept.name = named->name;
    kept.dims = named->dims;
    kept.rank = 0;
    *named->dims = 0;
    for (int axis = 0; text_next_word(&cursor, " ", &word); axis++) {
        if (!array.shape[axis])
            continue;
        size_t length = strlen(named->dims);
        snprintf(named->dims + length, HDF5_NAME - length, "%s%.*s", length ? " " : "",
                 (int)word.length, word.text);
        kept.shape[kept.rank++] = array.shape[axis];
    }
    return kept;
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
    struct named named;
    const struct dataset kept =
        complete_array(array, from->test ? "nu" : "mu", from->test ? "_test" : "", &named);
    size_t each = 1, count = (size_t)array.shape[0];
    for (int k = 1; k < kept.rank; k++)
        each *= (size_t)kept.shape[k];
    size_t first = from->test ? (size_t)from->data->P : 0, most = hdf5_rows_of_chunk(each);
    SCRATCH(double, part, (most < count ? most : count) * each);
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
    const char *mu = test ? "nu" : "mu", *ending = test ? "_test" : "";
    const struct by_input X = {.data = data, .take = take_inputs, .test = test},
                          y = {.data = data, .take = take_targets, .test = test};
    const struct dataset inputs = {.name = "X",
                                   .dims = "token i",
                                   .about = test ? "test inputs" : "inputs",
                                   .equation = "",
                                   .shape = {count, rows, D},
                                   .type = H5T_NATIVE_DOUBLE};
    struct dataset targets = inputs, part;
    struct named named;
    targets.name = "y";
    targets.dims = "token c";
    targets.about = test ? "their targets" : "targets";
    targets.shape[1] = asked;
    targets.shape[2] = columns;
    part = complete_array(hdf5_line("weight", "",
                                    "how often the input counts in the loss, 1 on average", count,
                                    H5T_NATIVE_DOUBLE),
                          mu, ending, &named);
    if (data->weighted)
        TRY(hdf5_write_array(group, &part, data->weight + first, err));
    part = hdf5_line("tokens", "token", "numbers of the tokens", count, H5T_NATIVE_INT);
    part.shape[1] = rows;
    part = complete_array(part, mu, ending, &named);
    if (data->V)
        TRY(hdf5_write_array(group, &part, data->token + first * n, err));
    if (data->V && !all)
        return CODE_OK;
    if (all)
        TRY(write_by_input(group, inputs, &X, err));
    return write_by_input(group, targets, &y, err);
}

/* The law of drawn data, and the loss below which no network comes. */
static int write_truth(hid_t group, const struct data_truth *truth, struct err *err) {
    FOR_EACH_OF (const struct truth_array, array, truth->array, truth->count) {
        struct dataset set =
            hdf5_line(array->name, array->dims, array->about, 0, H5T_NATIVE_DOUBLE);
        struct named named;
        for (int axis = 0; axis < TRUTH_AXES; axis++)
            set.shape[axis] = array->shape[axis];
        set = complete_array(set, "", "", &named);
        TRY(hdf5_write_array(group, &set, array->values, err));
    }
    if (isfinite(truth->rate))
        TRY(hdf5_set_attribute(group, "entropy_rate", H5T_NATIVE_DOUBLE, -1, &truth->rate, err));
    return isfinite(truth->floor)
               ? hdf5_set_attribute(group, "floor", H5T_NATIVE_DOUBLE, -1, &truth->floor, err)
               : CODE_OK;
}

int io_data(struct io *io, const struct data *data, bool all, struct err *err) {
    const struct dataset letters = hdf5_line(
        "letters", "letter", "codes of the tokens: of characters, or bytes; -1: all others",
        (size_t)data->V, H5T_NATIVE_INT);
    FREED(hdf5_release) hid_t group = -1;
    TRY(io_open_group(&group, io, "data", err));
    TRY(write_inputs(group, data, false, all, err));
    if (data->tests)
        TRY(write_inputs(group, data, true, all, err));
    if (data->code)
        TRY(hdf5_write_array(group, &letters, data->code, err));
    return data->truth ? write_truth(group, data->truth, err) : CODE_OK;
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
    size_t n = (size_t)data->n, all = (size_t)(inputs->K + inputs->test_directions);
    SCRATCH(double, row, all);
    struct by_input rows = {.data = data,
                            .take = take_coordinates,
                            .inputs = inputs,
                            .K = (size_t)inputs->K,
                            .row = row};
    struct dataset array = {.name = "coordinates",
                            .dims = "token k",
                            .about = "of the inputs, what read-ins act on",
                            .equation = "A, with A A^T = X X^T/D",
                            .shape = {(hsize_t)data->P, n > 1 ? n : 0, rows.K},
                            .type = H5T_NATIVE_DOUBLE};
    FREED(hdf5_release) hid_t group = -1;
    TRY(io_open_group(&group, io, "data", err));
    TRY(write_by_input(group, array, &rows, err));
    rows.K = array.shape[2] = all;
    rows.test = true;
    array.dims = "token k_test";
    array.about = "of the test inputs, those of no training input last";
    array.shape[0] = (hsize_t)data->tests;
    return data->tests ? write_by_input(group, array, &rows, err) : CODE_OK;
}

int io_batches(struct io *io, const int *index, int T, int P, struct err *err) {
    struct dataset array = hdf5_line("batch", "t b", "rows of X", (size_t)T, H5T_NATIVE_INT);
    FREED(hdf5_release) hid_t group = -1;
    array.rank = 2;
    array.shape[1] = (hsize_t)P;
    TRY(io_open_group(&group, io, "data", err));
    return hdf5_write_array(group, &array, index, err);
}
