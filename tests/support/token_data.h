/* Data sets of tokens and classes that keys describe, and what their rows and targets must be. */
#pragma once

#include "tests/support/support.h"
#include "solver/data/tokens.h"

enum { KEYS = 8 };
typedef const char *keys[KEYS + 1]; /* "section.key=value", ending with NULL */

/* The data of a dense network with these keys. */
static inline int make(struct data *data, const char *const *key, struct err *err) {
    char text[] = "[network]\nmodel = dense\n", *override[KEYS];
    struct param_section *sections = NULL;
    struct params params = {0};
    struct config config = {0};
    size_t count;
    int overrides = 0, code;
    FILE *stream = fmemopen(text, strlen(text), "r");
    *data = (struct data){0};
    for (; key[overrides]; overrides++) {
        override[overrides] = strdup(key[overrides]);
        assert_true(override[overrides] && overrides < KEYS);
    }
    DO(config_sections(&sections, &count, err));
    DO(params_read_stream(&params, sections, count,
                          &(struct param_source){"test.ini", stream, overrides, override, 0},
                          &config, err));
    DO(config_data(&config, &params, data, err));
done:
    while (overrides)
        free(override[--overrides]);
    fclose(stream);
    params_free(&params);
    free(sections);
    return code;
}

/* The class that is asked at a place, or -1. */
static inline int asked(const struct data *data, size_t place) {
    int class = -1;
    double y[data->C];
    data_ask(data, place, 1, y);
    for (int c = 0; c < data->C; c++) {
        assert_true(y[c] == 0 || (y[c] == 1 && class < 0));
        class = y[c] == 1 ? c : class;
    }
    return class;
}

/* X by its definition, up to the round-off of a square root and a quotient. */
static inline void check_rows(const struct data *data, bool positions) {
    int D = data->V + (positions ? data->n : 0);
    double x[D];
    assert_int_equal(data->D, D);
    assert_null(data->X);
    for (size_t row = 0; row < data_rows(data); row++) {
        data_take(data, row, 1, x);
        for (int i = 0; i < D; i++) {
            bool one = i == data->token[row] || i == data->V + (int)row % data->n;
            CHECK_ABS(x[i] / sqrt(D), one ? sqrt(positions ? .5 : 1) : 0, 4e-16,
                      "X[%zu][%d]/sqrt D", row, i);
        }
    }
}

static inline void free_two(struct data *a, struct data *b) {
    data_free(a);
    data_free(b);
}
