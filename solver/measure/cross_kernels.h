/* Whether experts differ: kernels between different experts at equal time and input, [output]
 * cross.
 *
 * A word that addresses several rows of one population (outputs of a fixed number of experts) gives
 * <x_i x_j> of all of them; one that addresses rows over the units of many experts gives the mean
 * over pairs i != j of <x_i x_j>_units, beside that of i = j. Units of different populations are
 * not numbered alike, and not compared; nor are those of a limit where experts share their normals.
 */
#ifndef SOLVER_CROSS_KERNELS_H
#define SOLVER_CROSS_KERNELS_H

#include "solver/measure/instrument.h"

/* Declaring it ends with CODE_INPUT and a sentence where rows cannot be compared. */
extern const struct instrument cross_kernels_instrument;

#endif
