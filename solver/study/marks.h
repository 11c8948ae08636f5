/* What the units of a sweep are worth: the warnings of each run (solver/run/notes.h), what only all
 * widths of a point together show, and what its networks cost. */
#ifndef SOLVER_MARKS_H
#define SOLVER_MARKS_H

#include "solver/study/sweep.h"

enum mark_number {
    MARK_VALID,     /* the first time from which a warning holds, or the number of times */
    MARK_AVERAGES,  /* of a limit with gates over many experts: whether it is self-averaging */
    MARK_EDGE,      /* whether the point is at the edge of stability, told by all its widths */
    MARK_UNMATCHED, /* of a limit: normals not fully matched, over the sites of their population */
    MARK_DIVERGED,  /* runs that failed, by their causes */
    MARK_SITES,
    MARK_TOLERANCE,
    MARK_PARAMETERS, /* of networks: how large they are, and what they cost (engine/counts.h) */
    MARK_ACTIVE,
    MARK_FLOPS_TOKEN,
    MARK_FLOPS_STEP,
    MARK_FLOOR, /* of the data: the loss of the best predictor, where their law is known */
    MARKS
};

struct marks {
    const struct sweep *sweep;
    double (*unit)[MARKS]; /* [units] NaN: not known, or does not apply */
};

/* From the files in the folder of the sweep. */
int marks_read(struct marks *marks, const struct sweep *sweep, struct err *err);
void marks_free(struct marks *marks); /* accepts a zeroed struct; idempotent */

/* Series of /sweep like `shape`, which has its axes: valid_until, self_averaging, ... */
int marks_write(struct io *io, const struct marks *marks, struct series shape, struct err *err);
/* Columns of the table that [sweep] columns asks for, blank-separated names of such series: checks
 * them, CODE_INPUT with those that there are; prints their heads (unit -1) or the numbers of a
 * unit. text: NULL, none. */
int marks_check_columns(const char *text, struct err *err);
void marks_print_columns(const struct marks *marks, const char *text, int unit);
/* Whether the point of a unit is at the edge of stability, and what that means. */
bool marks_edge(const struct marks *marks, int unit, const char **means);
/* For tables; nothing where none were read. The letters of a unit behind its row of a table, "
 * [ce]", or nothing; and behind the table what those that occur mean. */
void marks_print(const struct marks *marks, int unit);
void marks_explain(const struct marks *marks);

#endif
