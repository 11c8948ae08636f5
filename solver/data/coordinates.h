/* What read-ins act on: the inputs by their coordinates over a basis of the span of the training
 * inputs, K of them, and then of what only test inputs have; or, where read-ins move entry by entry
 * (Adam), X/sqrt(D) itself, K = D. Rows that are tokens are not kept one by one. */
#pragma once

#include "solver/data/data.h"

struct coordinates {
    double *A; /* [(P + tests) n][K + test_directions], row by row; NULL with V */
    /* With V: [D][K + test_directions], of the tokens and behind them of the places, if rows know
     * these; a row is the sum of its two. */
    double *table;
    const double *X; /* the inputs themselves, which the data own */
    int K, test_directions;
};
/* CODE_INPUT where the length of an input overflows. */
int coordinates_find(struct coordinates *coordinates, const struct data *data, bool by_entry,
                     struct err *err);
/* A [count][K + test_directions] of rows first ... first + count - 1, kept or not. */
void coordinates_take(const struct coordinates *coordinates, const struct data *data, size_t first,
                      size_t count, double *A);
void coordinates_free(struct coordinates *coordinates); /* accepts zeros; idempotent */
