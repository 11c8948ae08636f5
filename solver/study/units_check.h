/* The units of a sweep: the settings of each, their checks and their names. For units.c. */
#pragma once

#include "solver/run/run.h"
#include <jansson.h>

/* What a question says of a sweep (units.h); texts lie in the question. */
struct units {
    const char *file, *text;
    json_t *words, *points;
    struct int_list widths;
    bool limit;
};

int units_of(struct units *units, json_t *sweep, struct err *err);
/* The settings of a unit; column: a width, or behind them the limit. -1: all of the point. */
int units_read(const struct units *units, size_t point, int column, struct run *run,
               struct err *err);
/* The answers to "open" and "check". */
int units_open(const struct units *units, json_t *reply, int cores, struct err *err);
int units_check(const struct units *units, json_t *reply, struct err *err);

/* The text of a JSON string; "" where it is none. */
const char *units_text(const json_t *text);
/* Gives `value` to an answer under this name; CODE_SYSTEM where there was no memory for it. */
int units_put(json_t *reply, const char *name, json_t *value, struct err *err);
