/* What the units of a sweep are worth: the warnings of each run (solver/run/notes.h), and what only
 * all widths of a point together show. */
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
/* For tables; nothing where none were read. The letters of a unit behind its row of a table, "
 * [ce]", or nothing; and behind the table what those that occur mean. */
void marks_print(const struct marks *marks, int unit);
void marks_explain(const struct marks *marks);

#endif
