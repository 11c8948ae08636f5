/* What the units of a sweep have come to: their runs, those that failed, and the numbers by which
 * points are compared. */
#ifndef SOLVER_CELLS_H
#define SOLVER_CELLS_H

#include "solver/study/marks.h"
#include "solver/study/objective.h"
#include "solver/study/sweep.h"

/* One number of each run, and what they have in common. All NaN where there is none. */
struct measured {
    int runs;
    double *run; /* [runs], in the order of the runs that ended; NULL: mean and error alone */
    double mean, error, median, median_error;
};

struct cell {
    int ended, failed; /* runs that reached the last time; that ended in a numerical failure */
    struct measured loss, test_loss, objective;
    double least; /* smallest mean loss of all times, of the runs that ended */
    bool still;   /* a limit that rests; networks whose loss is at all times what it was at first */
};

/* All units of a sweep, in its order. */
struct cells {
    const struct sweep *sweep;
    struct objective objective;
    int window;     /* of smooth_loss, times; the largest of all units */
    bool has_tests; /* some unit has a test loss */
    struct cell *cell;
    struct marks marks; /* what the units are worth */
};

/* Reads the files in sweep->folder. objective: as objective_read takes it; NULL: as the file of the
 * sweep has it, or else chosen. Of a point of which some networks failed the others count (its
 * file is HASH.h5.partial); of a limit that failed there is nothing. */
int cells_read(struct cells *cells, const struct sweep *sweep, const char *objective,
               struct err *err);
void cells_free(struct cells *cells); /* accepts a zeroed struct; idempotent */

/* Units between neighbours along an axis. */
int cells_stride(const struct sweep *sweep, int axis);
/* A limit that training does not move, where it moves networks (solver/run/at_rest.h). */
bool cells_rest(const struct cells *cells, int unit);

#endif
