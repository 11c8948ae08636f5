/* The table of limit against networks, what the gates say, and what was not fully matched, on
 * standard output. */
#ifndef SOLVER_REPORT_H
#define SOLVER_REPORT_H

#include "solver/run/run.h"

int report_print(const struct run *run, struct err *err);

/* What the tolerance does, if that was asked for; or a warning where nothing else is in the errors
 * of the limit. */
int report_tolerance(const struct run *run, struct err *err);
/* A note for each width of which a network has failed. */
void report_failures(const struct run *run);

/* Gates of the limit against their values at t = 0, input by input and token by token. The
 * replicate that concentrates most decides: it alone can carry a mean. False: none are measured. */
struct report_gates {
    double lowest;       /* participation ratio, of its initial value ... */
    int at;              /* ... at this time */
    double peak, growth; /* largest gate: in units of the mean, and of its initial value */
};
bool report_gates(const struct record *record, struct report_gates *gates);

/* Of unmatched normals for each site of a population; below it no bias was seen (docs/testing.md,
 * unmatched normals). */
#define REPORT_UNMATCHED 1.0

#define REPORT_TIMES 6
/* A few times, ending with the last one; returns how many. */
int report_times(int T, int time[REPORT_TIMES]);

#endif
