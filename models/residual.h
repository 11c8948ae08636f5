/* Deep residual mixture of experts (docs/theory/residual.md). */
#ifndef MODELS_RESIDUAL_H
#define MODELS_RESIDUAL_H

#include "models/model.h"

#define RESIDUAL_DEPTH 32 /* most blocks: the range of the key depth */

extern const struct model model_residual;

/* Experts E and units per expert N_e of a network of width N: N_e E = N/alpha, or N^2 for alpha =
 * 0, where N/(N_e E) is then 1/N. One of them is given, the other need not be whole. */
void residual_shape(const struct network *network, int N, double *E, double *N_e);

#endif
