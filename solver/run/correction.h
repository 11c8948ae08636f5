/* The bias that two halves of the sites have taken off a limit ([solver] halves), as they measure
 * it: a run tells by itself whether its sites are too few. */
#pragma once

#include "solver/measure/record.h"

/* What was taken off one series at one time, in its printed errors; rms over its entries, without
 * the noise of what was taken off. */
struct correction {
    const char *series; /* "loss" or "f" */
    int t;
    double size;
};

/* The largest one of loss and f over the times that all replicates reached. What was taken off
 * fluctuates from replicate to replicate, by .1 to .3 printed errors of 8 (.6 where experts change
 * places). Size 0: none, or the limit has no halves, or a single replicate. */
int correction_find(const struct record *limit, struct correction *largest, struct err *err);
