/* A change of explicit entries, rows over sites, along which something learns; and the optimizers
 * that remember earlier changes:
 *
 *     plain       entries += C a
 *     momentum    v = mu v + C a,   entries += rate v
 *     by entry    g = C a,   entries += s entry_step(g/s, ...)     with the rule's memories
 *
 * An entry changes by s when the learned part of its
 * map, as models count it, changes by 1: rate and eps mean the same for every map and width. */
#pragma once

#include "kernels/array/backend.h"

struct change {
    struct rows entries, a;
    double *C; /* [entries.count][a.count], or NULL: they are numbers of rows, */
    struct coefficients by_rows;
    double s;
    /* For what acts on matrices (polar.h). Rows of the entries are target sites, and so many of
     * them in turn are a matrix; 0: they are directions. Of their sites so many in turn belong to
     * one expert, whose part is a matrix; 0: all are one. */
    int row_group, column_group;
    /* NULL, or other rows over the same sites that take the same step of a matrix (polar.h), with
     * the sum of earlier changes that they remember. */
    struct change *along;
    struct array *along_memory;
};

/* rows = beta rows + C a for the entries from `first` on, as many as there are rows. */
int change_add(const struct change *change, int first, double beta, struct rows rows,
               struct err *err);
/* Coefficients on the host, wherever they were. */
int change_fetch(struct change *change, struct err *err);
/* The coefficients and their factors are the change's own, and go with it: the functions that use
 * a change up, which are those below and polar_change, do so. */
void change_free(struct change *change);
int change_apply(struct change *change, struct err *err);
/* The rows of `memory`, zeroed at first, that belong to the entries; new ones are zero. */
int change_remember(struct array *memory, struct rows entries, struct rows *rows, struct err *err);
/* velocity: zeroed at first; gets a row for every entry row, also for those that come later. */
int change_momentum(struct change *change, double mu, double rate, struct array *velocity,
                    struct err *err);
/* A rule for each entry. memory: m and v of the rule, or with one memory m, zeroed at first; the
 * entries are always the same. */
int change_entries(struct change *change, struct entry_rule rule, struct array memory[2],
                   int memories, struct err *err);
