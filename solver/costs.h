/* What --profile prints: seconds, flops and bytes of every operation at every place, beside what
 * this machine can do, measured at the end of the same run. */
#ifndef SOLVER_COSTS_H
#define SOLVER_COSTS_H

#include "solver/base.h"
#include <stdio.h>

/* wall: seconds of the run, which used so many threads. */
int costs_print(FILE *stream, double wall, int threads, struct err *err);
/* Of all threads together: flops a second of dgemm (512 x 512 x 512), bytes a second of
 * a = b + s c over 200 MB a thread. */
void costs_machine(int threads, double *dgemm, double *triad);

#endif
