/* The [sweep] section of an ini file: the keys that a sweep varies, and their values.
 *
 * A line is section.key = VALUES, where VALUES is logspace(first, last, n) or linspace(first, last,
 * n), both ends included and numbers rounded to six digits, or a blank-separated list; with | in
 * it, | separates (for keys that are lists themselves). The points are the Cartesian product, the
 * last key varies fastest. */
#ifndef SOLVER_GRID_H
#define SOLVER_GRID_H

#include "kernels/base/base.h"

enum { GRID_AXES = 3 };

struct grid_axis {
    char *key;     /* section.key */
    char **text;   /* [count] values as they stand in an ini */
    double *value; /* [count], increasing; NULL unless all are numbers */
    int count, line;
};

struct grid {
    char *file;
    char *ini, *rest; /* the text as it is; and without [sweep], other lines where they were */
    int axes, points;
    struct grid_axis axis[GRID_AXES];
};

/* CODE_INPUT with one sentence for what is wrong in [sweep]; the rest is not looked at. */
int grid_read(struct grid *grid, const char *file, struct err *err);
void grid_free(struct grid *grid); /* accepts a zeroed struct; idempotent */
/* Which value of an axis a point has. */
int grid_index(const struct grid *grid, int point, int axis);

#endif
