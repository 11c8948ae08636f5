/* Inputs of independent standard normals, or of normals with a spectrum. */
#pragma once

#include "solver/data/data.h"

/* X and y of data of these sizes, which are zero: targets are the classes 0, 1, ... in turn, +1 and
 * -1 in turn with one output, or (staircase) (x1 + x1 x2 + x1 x2 x3 + x1 x2 x3 x4)/2, of mean 0 and
 * variance 1 over x; D >= 4. */
int normals_draw(struct data *data, uint64_t seed, bool staircase, struct err *err);

struct power_law {
    double spectrum, target, noise; /* the exponents a and b */
};
/* X, y and truth of data of these sizes, which are zero, n = C = 1:
 *     x_i = sqrt(lambda_i) g_i, lambda_i proportional to i^-a with the sum D, and
 *     y = sum_i sqrt(s_i) g_i + noise e, s_i proportional to i^-b with the sum 1,
 * with standard normals g and e: the spectrum of the inputs and the share of the targets along each
 * of its directions. The best predictor knows s, and its loss is noise^2/2. Input mu does not
 * depend on the number of inputs. */
int normals_power_law(struct data *data, uint64_t seed, const struct power_law *law,
                      struct err *err);
