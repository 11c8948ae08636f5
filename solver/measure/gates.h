/* How the gates of a router over many experts share: the series gate_participation, gate_largest
 * and gate_top, by which a limit that condenses is known. */
#ifndef SOLVER_GATES_H
#define SOLVER_GATES_H

#include "solver/measure/instrument.h"

extern const struct instrument gates_instrument;

#endif
