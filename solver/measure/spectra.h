/* Eigenvalues of equal-time kernels between inputs, and how well they match the targets: [output]
 * spectra.
 *
 * A kernel K [R][R] = sum_k l_k v_k v_k^T, l_k descending, and targets Y [R][C]: the share of the
 * targets along v_k is sum_c (v_k . Y_c)^2/|Y|^2, the alignment sum K (Y Y^T)/(|K| |Y Y^T|), 1
 * where K is a multiple of Y Y^T. Y as it is, not centred. Where rows are tokens and targets are
 * not, and where the error is inside (tangent_loss), there are eigenvalues alone. */
#ifndef SOLVER_SPECTRA_H
#define SOLVER_SPECTRA_H

#include "solver/measure/instrument.h"

/* Declaring it ends with CODE_INPUT and a sentence where a word is no kernel between inputs. */
extern const struct instrument spectra_instrument;

#endif
