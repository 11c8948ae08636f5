/* How well outputs answer. */
#pragma once

#include "models/engine/net.h"

/* Sums over rows of outputs f and targets y, [C] each, every row counting `weight` times. Where a
 * row of y is one class (or, of one output, +-1), it is right if that is the largest output (has
 * the sign), and among the K largest; ties to the lower class. Its margin is that output minus the
 * largest of the others (of one output y f). A row of zeros asks for nothing. loss NULL: the sum of
 * losses, which costs as many exponentials as there are outputs, is not asked for. */
struct score {
    double loss, margin, rows, asked, right, top;
};
void score_add(struct score *score, const struct loss *loss, int C, int K, const double *f,
               const double *y, double weight);
