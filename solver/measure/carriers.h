/* How many sites of a limit carry its feature kernels. Where units multiply rows by each other, or
 * learn fast, a few of them come to hold a whole average, which then depends on the draw: the limit
 * is not self-averaging (solver/run/condense.c judges). The series `carriers` [t] is of limits
 * whose kernels are measured. */
#pragma once

#include "solver/measure/instrument.h"

/* How many rows over these sites measuring takes: few where sites are many, since the operating
 * system clears large memory anew each time. */
int carriers_rows(const struct array *array);
