/* Shapes of networks of the residual mixture of experts (residual.c), as its tests need them. */
#pragma once

#include "models/language/program.h"

/* Experts of a block and their units, in a network of width N; false: they are not whole numbers.
 */
bool residual_shape(const struct network *network, int N, double *E, double *N_e);
