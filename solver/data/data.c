#define _POSIX_C_SOURCE 200809L
#include "solver/data/data.h"
#include "models/engine/net.h"
#include "solver/data/data_file.h"
#include "solver/data/tokens.h"

#include <limits.h>

int data_truth_init(struct data_truth **truth, struct err *err) {
    TRY(base_alloc(truth, 1, sizeof **truth, err));
    (*truth)->floor = (*truth)->rate = NAN;
    return CODE_OK;
}

int data_truth_add(struct data_truth *truth, struct truth_array array, double **values,
                   struct err *err) {
    size_t size = 1;
    assert(truth->count < TRUTH_ARRAYS);
    for (int k = 0; k < TRUTH_AXES; k++)
        size *= array.shape[k] ? array.shape[k] : 1;
    TRY(base_alloc(&array.values, size, sizeof *array.values, err));
    *values = array.values;
    truth->array[truth->count++] = array;
    return CODE_OK;
}

void data_truth_free(struct data_truth *truth) {
    for (int k = 0; truth && k < truth->count; k++)
        free(truth->array[k].values);
    free(truth);
}

size_t data_rows(const struct data *data) {
    return ((size_t)data->P + (size_t)data->tests) * (size_t)data->n;
}

size_t data_places(const struct data *data) {
    return data->per_token ? data_rows(data) : (size_t)data->P + (size_t)data->tests;
}

size_t data_targets(const struct data *data) {
    return data_places(data) * (data->numbered ? 1 : (size_t)data->C);
}

size_t data_weights(const struct data *data) {
    return data->weighted ? (size_t)data->P + (size_t)data->tests : 0;
}

uint64_t data_hash(uint64_t hash, const struct data *data) {
    const int shape[] = {data->P, data->tests,     data->n,       data->D,       data->C,
                         data->V, data->per_token, data->classes, data->numbered};
    size_t rows = data_rows(data);
    hash = base_hash(hash, shape, sizeof shape);
    hash = base_hash(hash, data->X, data->V ? 0 : rows * (size_t)data->D * sizeof *data->X);
    hash = base_hash(hash, data->token, data->V ? rows * sizeof *data->token : 0);
    hash = base_hash(hash, data->y, data_targets(data) * sizeof *data->y);
    return base_hash(hash, data->weight, data_weights(data) * sizeof *data->weight);
}

void data_take(const struct data *data, size_t first, size_t count, double *X) {
    size_t D = (size_t)data->D;
    if (data->V)
        tokens_rows(data, first, count, X);
    else
        memcpy(X, data->X + first * D, count * D * sizeof *X);
}

void data_ask(const struct data *data, size_t first, size_t count, double *y) {
    const struct data_setup setup = {.shape = data->shape};
    size_t C = (size_t)data->C;
    for (size_t k = 0; k < count; k++) {
        const double *target = net_targets(&setup, data->y, first + k, y + k * C);
        if (target != y + k * C)
            memcpy(y + k * C, target, C * sizeof *y);
    }
}

int data_init(struct data *data, const struct data *sizes, struct err *err) {
    *data = *sizes;
    data->X = data->y = data->weight = NULL;
    data->token = data->code = NULL;
    data->truth = NULL;
    if (data->V)
        TRY(base_alloc(&data->token, data_rows(data), sizeof *data->token, err));
    else
        TRY(base_alloc(&data->X, data_rows(data) * (size_t)data->D, sizeof *data->X, err));
    TRY(base_alloc(&data->y, data_targets(data), sizeof *data->y, err));
    for (size_t k = 0; k < data_targets(data) && data->numbered; k++)
        data->y[k] = -1;
    if (data->weighted)
        TRY(base_alloc(&data->weight, data_weights(data), sizeof *data->weight, err));
    return CODE_OK;
}

void data_free(struct data *data) {
    free(data->X);
    free(data->token);
    free(data->code);
    free(data->y);
    free(data->weight);
    data_truth_free(data->truth);
    *data = (struct data){0};
}

int data_check_file(const char *path, struct err *err) {
    FILE *stream;
    int code = base_open(&stream, path, err);
    if (code)
        return err_set(err, code, "data file %s", err->text);
    fclose(stream);
    return CODE_OK;
}

/* --- label noise ----------------------------------------------------------------------------- */

enum { OWNER_LABEL_NOISE = 10 }; /* of PURPOSE_DATA, beside those of the sources */

/* By how many classes, from 1 to C - 1, target number k is moved; 0: it stays. */
static int shift_of(struct rng_stream stream, size_t k, double share, int C) {
    uint32_t bits[4];
    rng_bits(stream, (uint32_t)(k >> 32), (uint32_t)k, bits);
    double u = (double)((((uint64_t)bits[1] << 32) | bits[0]) >> 11) * 0x1p-53;
    uint64_t other = ((uint64_t)bits[3] << 32) | bits[2];
    return u < share ? 1 + (int)(other % (uint64_t)(C - 1)) : 0;
}

static void move_row(double *y, int C, int shift) {
    int c = 0;
    while (c < C && y[c] == 0)
        c++;
    if (c == C) /* not asked */
        return;
    y[c] = 0;
    y[(c + shift) % C] = 1;
}

void data_make_wrong(struct data *data, double share, uint64_t seed) {
    struct rng_stream stream = {.seed = seed, .purpose = PURPOSE_DATA, .owner = OWNER_LABEL_NOISE};
    size_t places = (size_t)data->P * (data->per_token ? (size_t)data->n : 1);
    for (size_t k = 0; k < places; k++) {
        int shift = shift_of(stream, k, share, data->C == 1 ? 2 : data->C);
        if (shift && data->C == 1)
            data->y[k] = -data->y[k];
        else if (shift && !data->numbered)
            move_row(data->y + k * (size_t)data->C, data->C, shift);
        else if (shift && data->y[k] >= 0)
            data->y[k] = ((int)data->y[k] + shift) % data->C;
    }
}

/* --- files ----------------------------------------------------------------------------------- */

/* P, tests and n, and D of inputs that are not tokens. */
static int get_sizes(struct data *data, const struct data_file *stored, const char *path,
                     struct err *err) {
    const struct data_file_set *X = &stored->set[DATA_FILE_INPUT],
                               *test = &stored->set[DATA_FILE_TEST_INPUT];
    data->P = (int)X->shape[0];
    data->n = stored->tokens || X->rank == 3 ? (int)X->shape[1] : 1;
    data->D = stored->tokens ? 0 : (int)X->shape[X->rank - 1];
    if (!test->rank)
        return CODE_OK;
    data->tests = (int)test->shape[0];
    int last = test->rank - 1;
    if (test->rank != X->rank || test->shape[1] != X->shape[1] ||
        test->shape[last] != X->shape[last])
        return data_file_refuse(
            path, err, "inputs differ in shape, %s has %zu numbers in each and %s %zu%s",
            data_file_name(stored, DATA_FILE_INPUT), X->count / X->shape[0],
            data_file_name(stored, DATA_FILE_TEST_INPUT), test->count / test->shape[0],
            X->count / X->shape[0] == test->count / test->shape[0] ? ", in rows of another length"
                                                                   : "");
    return CODE_OK;
}

/* V, and with it D: every token is an integer from 0 to V - 1. */
static int get_vocabulary(struct data *data, const struct data_file *stored,
                          const struct data_wanted *wanted, const char *path, struct err *err) {
    double V = wanted->vocabulary ? wanted->vocabulary : stored->vocabulary, largest = 0;
    double last = V > 0 ? V - 1 : INT_MAX - 1;
    char place[DATA_FILE_NAME], range[DATA_FILE_NAME] = "from 0 on";
    if (V > 0)
        snprintf(range, sizeof range, "0 to %.0f, as the vocabulary is %.0f", last, V);
    for (enum data_file_role role = 0; role <= DATA_FILE_TEST_INPUT; role += DATA_FILE_TEST_INPUT)
        for (size_t k = 0; k < stored->set[role].count; k++) {
            double token = stored->set[role].value[k];
            largest = fmax(largest, token);
            if (token >= 0 && token <= last && token == floor(token))
                continue;
            data_file_place(stored, role, k, place);
            return data_file_refuse(path, err, "%s = %g, where tokens are integers %s", place,
                                    token, range);
        }
    V = V > 0 ? V : largest + 1;
    double D = V + (wanted->positions ? data->n : 0);
    double directions = fmin(D, (double)data_rows(data));
    if (D > INT_MAX || D * directions > (double)wanted->most)
        return data_file_refuse(path, err,
                                "the vocabulary is too large, tokens span %.0f directions of "
                                "%.0f numbers each where %zu are allowed",
                                directions, D, wanted->most);
    data->V = (int)V;
    data->D = (int)D;
    return CODE_OK;
}

static void fill_inputs(struct data *data, const struct data_file *stored) {
    size_t at = 0;
    for (enum data_file_role role = 0; role <= DATA_FILE_TEST_INPUT; role += DATA_FILE_TEST_INPUT) {
        const struct data_file_set *set = &stored->set[role];
        if (!stored->tokens && set->count)
            memcpy(data->X + at, set->value, set->count * sizeof *data->X);
        for (size_t k = 0; k < set->count && stored->tokens; k++)
            data->token[at + k] = (int)set->value[k];
        at += set->count;
    }
}

int data_read(struct data *data, const char *path, const struct data_wanted *wanted,
              struct err *err) {
    struct data_file stored = {0};
    struct data sizes = {0};
    int code;
    *data = (struct data){0};
    DO(data_check_file(path, err));
    DO(data_file_read(&stored, path, wanted->weight, wanted->loss->choice.name, wanted->most, err));
    DO(get_sizes(&sizes, &stored, path, err));
    DO(targets_weigh_inputs(&sizes, &stored, path, err));
    if (stored.tokens)
        DO(get_vocabulary(&sizes, &stored, wanted, path, err));
    DO(targets_shape(&sizes, &stored, wanted, path, err));
    DO(data_init(data, &sizes, err));
    fill_inputs(data, &stored);
    targets_fill_weights(data, &stored);
    if (isfinite(stored.floor)) {
        DO(data_truth_init(&data->truth, err));
        data->truth->floor = stored.floor;
    }
    DO(targets_fill(data, &stored, wanted, path, err));
done:
    data_file_free(&stored);
    if (code)
        data_free(data);
    return code;
}
