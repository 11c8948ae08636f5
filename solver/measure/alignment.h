/* How far a matrix is aligned with what it meets: mean squares of its entries and of its input,
 * over which the coordinate check divides what the matrix makes. n independent entries make n^1/2
 * times the product of the two roots, and n entries of one sign n times. */
#pragma once

#include "models/engine/net.h"

/* Sums over the matrices of a family. */
struct alignment {
    double start, learned; /* of the entries of W(0) and of W - W(0), as W is used */
    double input, moved;   /* of x and x - x(0) */
};

/* x: at present; start: at t = 0. */
int alignment_add_input(struct alignment *sum, struct rows x, struct rows start, struct err *err);
/* A map of a network that remembers its start. */
int alignment_add_map(struct alignment *sum, const struct map *map, struct err *err);
/* The columns of a matrix to numbers, now and at t = 0, of which an entry is unit times W. */
int alignment_add_thin(struct alignment *sum, struct rows W, struct rows start, double unit,
                       struct err *err);

/* What members of a family make, a sum of mean squares, over the product of these: members times a
 * square. NaN where the matrix or its input has not moved, but for round-off. */
double alignment_moved(const struct alignment *sum, double part, int members);
double alignment_learned(const struct alignment *sum, double part, int members);
