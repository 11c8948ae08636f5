/* The table of limit against networks, what the gates do, and all notes (notes.h), on standard
 * output. */
#ifndef SOLVER_REPORT_H
#define SOLVER_REPORT_H

#include "solver/run/run.h"

int report_print(const struct run *run, struct err *err);

/* What the tolerance does, if that was asked for. */
int report_tolerance(const struct run *run, struct err *err);

#define REPORT_TIMES 6
/* A few times, ending with the last one; returns how many. */
int report_times(int T, int time[REPORT_TIMES]);

#endif
