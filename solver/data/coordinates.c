#include "solver/data/coordinates.h"
#include "models/engine/net.h"
#include "solver/data/tokens.h"

#include <limits.h>

static int of_rows(struct coordinates *inputs, const struct data *data, bool by_entry,
                   struct err *err) {
    int rows = (int)data_rows(data), all;
    size_t count = data_rows(data) * (size_t)data->D;
    if (data_rows(data) > INT_MAX)
        return err_set(err, CODE_INPUT, "%zu rows of inputs are too many, at most %d are possible",
                       data_rows(data), INT_MAX);
    if (by_entry) {
        inputs->K = data->D;
        TRY(base_alloc(&inputs->A, count, sizeof *inputs->A, err));
        for (size_t i = 0; i < count; i++)
            inputs->A[i] = data->X[i] / sqrt((double)data->D);
        return CODE_OK;
    }
    TRY(thin_coordinates(data->X, rows, data->D, &inputs->A, NULL, &all, err));
    for (int row = 0; row < data->P * data->n; row++)
        while (inputs->K < all && inputs->A[(size_t)row * (size_t)all + (size_t)inputs->K] != 0)
            ++inputs->K;
    inputs->test_directions = all - inputs->K;
    return CODE_OK;
}

/* What the basis has of a row is the sum of what it has of the token and of the place. */
static int of_tokens(struct coordinates *inputs, const struct data *data, bool by_entry,
                     struct err *err) {
    size_t D = (size_t)data->D, all;
    double one = 1 / sqrt(data->D > data->V ? 2 : 1);
    int count = 0;
    SCRATCH(size_t, row, (size_t)data->V + (size_t)data->n);
    TRY(tokens_open(data, row, &inputs->K, &count, err));
    inputs->K = by_entry ? data->D : inputs->K;
    inputs->test_directions = by_entry ? 0 : count - inputs->K;
    all = by_entry ? D : (size_t)count;
    TRY(base_alloc(&inputs->table, D * all, sizeof *inputs->table, err));
    if (!by_entry)
        TRY(tokens_basis(data, row, count, inputs->table, err));
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < all; k++)
            inputs->table[i * all + k] = one * (by_entry ? i == k : inputs->table[i * all + k]);
    return CODE_OK;
}

int coordinates_find(struct coordinates *inputs, const struct data *data, bool by_entry,
                     struct err *err) {
    coordinates_free(inputs);
    inputs->X = data->X;
    return data->V ? of_tokens(inputs, data, by_entry, err) : of_rows(inputs, data, by_entry, err);
}

void coordinates_take(const struct coordinates *inputs, const struct data *data, size_t first,
                      size_t count, double *A) {
    const struct data_setup setup = {.shape = data->shape,
                                     .K = inputs->K,
                                     .test_directions = inputs->test_directions,
                                     .token = data->token,
                                     .A = inputs->A,
                                     .table = inputs->table};
    size_t all = (size_t)(inputs->K + inputs->test_directions);
    for (size_t row = 0; row < count; row++)
        net_coordinates(&setup, first + row, A + row * all, A + row * all + inputs->K);
}

void coordinates_free(struct coordinates *inputs) {
    free(inputs->A);
    free(inputs->table);
    *inputs = (struct coordinates){0};
}
