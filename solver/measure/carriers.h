/* How many sites of a limit carry its feature kernels. Where units multiply rows by each other, or
 * learn fast, a few of them come to hold a whole average, which then depends on the draw: the limit
 * is not self-averaging (solver/run/condense.h judges). */
#ifndef SOLVER_CARRIERS_H
#define SOLVER_CARRIERS_H

#include "solver/measure/instrument.h"

enum { CARRIERS_ROWS = 16 }; /* rows over sites that measuring takes */

/* Series `carriers` [t] of limits whose kernels are measured. */
extern const struct instrument carriers_instrument;

#endif
