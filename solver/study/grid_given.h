/* Lines of [sweep] that stand on the command line: --sweep.section.key=VALUES. */
#ifndef SOLVER_GRID_GIVEN_H
#define SOLVER_GRID_GIVEN_H

#include "solver/study/grid.h"

struct grid_given {
    char *name;   /* of the keys, joined by commas, or of a setting ("objective"); owned */
    char *values; /* what stands behind "=", in the memory of name */
    bool taken;   /* it has replaced a line of the file */
};

/* Whether a word [--]section.key=value is of the section sweep; name: what follows the section. */
bool grid_given_is(const char *override, const char **name);
/* Finds them all; the last one of the same keys counts. */
int grid_given_read(struct grid *grid, int overrides, char *const *override, struct err *err);
/* The one that has the keys of a line of the file, which may have blanks around commas; or NULL. */
struct grid_given *grid_given_find(const struct grid *grid, const char *name);
void grid_given_free(struct grid *grid);

#endif
