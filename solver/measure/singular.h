/* Singular values of matrices between populations, [output] singular: those of networks' matrices,
 * and in the limit the spikes beyond the edge of the random bulk (kernels/maps/spikes.h, where
 * units and formulae are). W is n x m, as it is used.
 *
 *     singular_NAME              [t][k]  the largest ones over sqrt(n/m), descending; limit: those
 *                                        beyond the edge, NaN where there are fewer
 *     singular_NAME_learned      [t][k]  the same of W minus what is left of W(0)
 *     singular_NAME_independent  [t][k]  where these would be as spikes of a W(0) that they are
 *                                        independent of; NaN: none
 *     singular_NAME_edge         [t]     the edge of the bulk
 *
 * Values are NaN at times that singular_every leaves out and beyond the smaller side of W. Limit
 * maps whose entries move one by one (Adam) are of no finite rank and have no series; a note says
 * so (solver/run/notes.c). */
#ifndef SOLVER_SINGULAR_H
#define SOLVER_SINGULAR_H

#include "solver/measure/instrument.h"

extern const struct instrument singular_instrument;

#endif
