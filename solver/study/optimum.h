/* Where the final loss is smallest along a key: the vertex of the parabola through the smallest
 * loss and its two neighbours, in the logarithm of the loss, of means over runs or of their
 * medians. The runs of all values share their initial weights. Errors are of sampling alone: of
 * means the jackknife's over the runs, of medians (for which the jackknife fails) the bootstrap's.
 * A minimum that is sharper than a parabola may lie half a step of the grid away. */
#ifndef SOLVER_OPTIMUM_H
#define SOLVER_OPTIMUM_H

/* Why the optimum is a value of the grid, or none; values of `edge` in the file. */
enum edge {
    EDGE_NONE,
    EDGE_LOWEST,
    EDGE_HIGHEST,
    EDGE_FAILED,
    EDGE_ALL_FAILED,
    EDGE_ZERO,
    EDGE_RESTS
};
enum optimum_kind { OPTIMUM_MEANS, OPTIMUM_MEDIANS, OPTIMUM_KINDS };

/* x [count] increasing, final losses of `runs` runs each (NULL: failed). Returns the place in x and
 * its error (NaN at an edge or for one run), and *best, the index of the smallest, -1 if all
 * failed. EDGE_RESTS is never returned. */
enum edge optimum_find(enum optimum_kind kind, int count, const double *x,
                       const double *const *loss, int runs, double *at, double *at_se, int *best);

#endif
