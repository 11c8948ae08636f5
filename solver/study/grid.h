/* The [sweep] section of an ini file: the keys that a sweep varies, and their values.
 *
 * Each line is one axis of the grid; the points of the grid are the Cartesian product, the last
 * line varies fastest. A line is
 *
 *     section.key = VALUES               one key
 *     section.key, section.key = POINTS  a list of points: keys that vary together
 *
 * VALUES is logspace(first, last, n) or linspace(first, last, n), both ends included and numbers
 * rounded to six digits (whole numbers are left as they are), or a blank-separated list; with | in
 * it, | separates (for values that have blanks themselves). POINTS are separated by |; each has one
 * value for every key, separated by blanks, or, with a comma anywhere in POINTS, by commas:
 *
 *     training.eta0, network.q0 = 0.1 1 | 0.2 2 | 0.4 4
 *     data.classes, training.eta0 = 0 1, 0.1 | 2 4, 0.2
 *
 * A word --sweep.section.key=VALUES of the command line takes the place of the line of the same
 * keys, or is one more line behind all of them; so is --sweep.objective=... and --sweep.along=....
 *
 * Numbers of a single key increase or decrease; points come in any order, each once. Three lines
 * more say what dmft-sweep does with the runs (solver/study/objective.h, optima.h, marks.h):
 *
 *     objective = test_loss
 *     along = training.eta0
 *     columns = active_parameters flops_per_step */
#ifndef SOLVER_GRID_H
#define SOLVER_GRID_H

#include "kernels/base/base.h"

enum { GRID_LINES = 30 }; /* an HDF5 array has at most 32 axes */

struct grid_key {
    char *name;    /* section.key */
    char **text;   /* [count of the axis] values as they stand in an ini */
    double *value; /* [count]; NULL unless all are numbers */
};

/* One line: `keys` keys that vary together, `count` points. */
struct grid_axis {
    char *name; /* of its keys, joined by commas: "section.key" or "section.key,section.key" */
    struct grid_key *key;
    int keys, count, line; /* line 0: of the command line */
};

struct grid {
    char *file;
    char *rest;                        /* the text without [sweep], other lines where they were */
    char *objective, *along, *columns; /* NULL: not given */
    int axes, keys, points;            /* keys: of all axes */
    struct grid_axis *axis;
    int givens;
    struct grid_given *given; /* [givens] lines of the command line (grid_given.h) */
};

/* CODE_INPUT with one sentence for what is wrong in [sweep]; the rest is not looked at. Of the
 * words of the command line, [--]section.key=value, those of the section sweep are taken. */
int grid_read(struct grid *grid, const char *file, int overrides, char *const *override,
              struct err *err);
/* The same of the text of an ini; file: its name in messages. */
int grid_read_text(struct grid *grid, const char *file, const char *text, struct err *err);
void grid_free(struct grid *grid); /* accepts a zeroed struct; idempotent */
/* Which value of an axis a point has. */
int grid_index(const struct grid *grid, int point, int axis);
/* The values of point i of an axis as one text, to be freed: "0.1 1", or "0 1, 0.1" where a value
 * has blanks. */
int grid_point(char **text, const struct grid_axis *axis, int i, struct err *err);
/* Goes through the keys of all axes, first to last: number k, of its axis if not NULL. */
const struct grid_key *grid_key(const struct grid *grid, int k, int *axis);

#endif
