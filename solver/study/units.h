/* The runs of a sweep, one at a time: what the Python package, which reads the grid and makes the
 * summary, asks this program for (dmft-solve --units, docs/cluster.md). Every line of the input is
 * a JSON object with one question, every line of the output its answer, or {"code": NUMBER,
 * "error": TEXT}, with "unit": NUMBER where the question is of many.
 *
 * A unit is one point of the grid with one width, or with the limit. Questions "open", "check" and
 * "run" say which sweep it is of:
 *
 *     file, text       the name of the ini, and what it says without [sweep], line for line
 *     words            what the command line sets, [--]section.key=value
 *     points           [point][key] "--section.key=value" of each point
 *     widths, limit    of every point; "open" finds them in the ini
 *
 * {"keys": ["section.key", ...]}   the type of each: "path", "number", "integer" or "word"
 * {"open": SWEEP}                  widths, limit; given: an ini that repeats the settings from
 *                                  anywhere; inputs: files that the output must not replace;
 *                                  provenance
 * {"check": SWEEP}                 reads and checks each unit, points first; hash: the names of
 *                                  their files, sixteen digits of all that decides their numbers;
 *                                  note: which keys some points do not use, or ""
 * {"run": SWEEP, "column": C, "output": FILE, "jobs": N, "version": TEXT}
 *                                  runs the unit of column C of the first point into a file, with
 *                                  one of N parts of the processors */
#pragma once

#include "solver/run/run.h"

#include <jansson.h>

/* Answers until the input ends, or a signal sets `stop`, which a run that is under way heeds. It
 * dies with the process, or thread, that has started it. */
int units_answer(FILE *questions, FILE *answers, const volatile sig_atomic_t *stop,
                 struct err *err);

/* The units of a sweep: the settings of each, their checks and their names. For units.c. */

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
int units_append(json_t *list, json_t *value, struct err *err); /* the same to a list */
