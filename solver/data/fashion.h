/* Fashion-MNIST as a data set of two classes, or of several. */
#ifndef SOLVER_FASHION_H
#define SOLVER_FASHION_H

#include "kernels/base/key.h"
#include "solver/data/data.h"

enum { FASHION_SIDE = 28, FASHION_CLASSES = 10 };

struct fashion {
    const char *folder; /* of the two files of the training set, and of the test set */
    /* C = 1: an even number of different labels, the first half has y = +1, the second y = -1; else
     * C of them, which are the classes 0, 1, ... in this order, and y is one-hot. */
    struct int_list classes;
    int C;
    int inputs, side, tests; /* even if C = 1; side: pixels along an edge, divides FASHION_SIDE */
    /* 0: an input is one row of D = side^2; else it has (side/patch)^2 rows of D = patch^2, squares
     * of pixels, row by row. It divides side. */
    int patch;
};
/* Inputs and their targets. CODE_INPUT with one sentence naming the file: missing
 * (and where it comes from), not gzip, damaged or truncated anywhere, not IDX, of other sizes than
 * its header or its sibling says, too few images of these classes, an image that has nothing but
 * the mean of all. */
int fashion_read(struct data *data, const struct fashion *fashion, struct err *err);

#endif
