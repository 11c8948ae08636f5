/* Muon's step of a matrix: a momentum V of its gradients G, and then a matrix with the singular
 * vectors of V and singular values near one.
 *
 *     V <- momentum V + G,     M = V, or with nesterov M = G + momentum V
 *     W += rate (n/m)^1/2 p(M/|M|_F)      W as it is used, n x m; |M|_F^2 = sum of squared entries
 *
 * p acts on singular values, each of which is 1 at most: five Newton-Schulz steps
 * s <- 3.4445 s - 4.7750 s^3 + 2.0315 s^5, which bring values above a few hundredths to about one
 * and multiply small ones by POLAR_GAIN; or p = 1 (exact) of every value that is no round-off. At
 * any sizes rows x of norm one move W x by order `rate`, whatever the size of the gradient
 * (docs/theory/muon.md).
 *
 * The entries may be the matrix, rows of which are target sites, or what a limit has learned, rows
 * of which belong to orthonormal directions: M has the same singular values in both. Where
 * column_group or row_group of the change say that the sites belong to experts, each expert's part
 * of the matrix has its own norm and takes its own step. */
#pragma once

#include "kernels/maps/change.h"

#define POLAR_GAIN 484.88 /* 3.4445^5: what a small singular value is multiplied by */

/* Momenta below this, in units where gradients are of order one at any size, are round-off of a
 * gradient that vanishes, and take no step. */
#define POLAR_NOTHING 1e-12

struct polar_rule {
    const struct stop *stop; /* asked between products of matrices; NULL: nothing is */
    double momentum, rate;
    bool nesterov, exact; /* exact: without momentum */
};

/* Uses the change up. velocity: zeroed at first; gets a row for every row of the entries.
 *
 * p(M) = L M with a matrix L on the sites, a polynomial in M M^T. change->along, whose momentum is
 * that of other rows m over the same sites, is moved by rate (n/m)^1/2 L m/|M|_F: a part of M that
 * belongs to single rows which M was summed from, say. Only where M is one matrix, and not exact:
 * there L has no bound. Used up, too. */
int polar_change(struct change *change, const struct polar_rule *rule, struct array *velocity,
                 struct err *err);
/* One matrix of which several changes have a part each takes the step as a whole; the parts have
 * the same shape and s, and no groups. stacked: their rows are one below the other, over the same
 * sites; else they are side by side, with as many rows each over sites of their own. `rate` is that
 * of a part, so that parts which are all alike move as each would by itself. */
struct polar_part {
    struct change change;
    struct array *velocity;
};
int polar_change_parts(struct polar_part *part, int parts, bool stacked,
                       const struct polar_rule *rule, struct err *err);

/* The momentum of a matrix: velocity [parts], those of polar_change, empty before its first step,
 * stacked or side by side. row_group, column_group: as in struct change; directions: its rows are
 * those of a limit, and those that are round-off of nothing count as none. */
struct polar_momentum {
    const struct array *const *velocity;
    int parts;
    bool stacked, directions;
    int row_group, column_group;
};
/* values [count]: the singular values of V over |V|_F, descending, NaN beyond as many as V has; of
 * several matrices (groups) their means over those that have a momentum. All NaN where none has. */
int polar_spectrum(const struct polar_momentum *V, int count, double *values, struct err *err);
/* 0, or what the info of a routine of LAPACK says of a gradient: it is not finite, or there is no
 * memory. */
int polar_check(int info, struct err *err);
