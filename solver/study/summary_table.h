/* The table of a sweep on standard output: the losses of all units, then the optima. */
#ifndef SOLVER_SUMMARY_TABLE_H
#define SOLVER_SUMMARY_TABLE_H

#include "solver/study/optimum.h"
#include "solver/study/marks.h"
#include "solver/study/sweep.h"

struct cell {
    int runs;
    double *last; /* [runs] final losses; NULL: failed */
    double loss, se, median, median_se, least;
    bool still; /* the loss of every run is at all times what it was at first */
};

struct summary {
    const struct sweep *sweep;
    struct cell *cell; /* [unit] */
    int axis;          /* of the optimum, -1: there is none */
    struct marks marks;
};

/* Of means or of medians: the optimum, and the smallest loss of the grid. */
struct optimum {
    double at, at_se, loss, loss_se;
    int best;
    enum edge edge;
};

/* Units between neighbours along an axis. */
int summary_stride(const struct summary *summary, int axis);
/* A limit that training does not move, where it moves networks (solver/run/rest.h). */
bool summary_rests(const struct summary *summary, int unit);

/* Every unit; a star marks means that one run carries. */
void summary_losses_print(const struct summary *summary);
/* The head of the optima; a row: a combination of the other keys and a width, by its first unit
 * along the axis. */
void summary_head_print(const struct summary *summary);
void summary_optimum_print(const struct summary *summary, int unit,
                           const struct optimum optimum[OPTIMUM_KINDS]);
/* Where the limit of some points rests: what that is. */
void summary_rests_print(const struct summary *summary);

#endif
