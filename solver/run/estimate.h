/* What a run will cost: --estimate. */
#pragma once

#include "solver/run/run.h"

/* Prints the CPU time and peak memory of a configured run, from trials of the limit with fewer
 * sites and of networks with fewer steps, and the replicates and sites for other errors of the
 * loss; no trial is left. Both are taken to grow linearly with sites, since ranks hardly depend on
 * them, and with steps of networks; what is only seen at some steps (test inputs, kernels at some
 * times) may be missed. A trial is a process of its own with one thread, and writes to a folder in
 * $TMPDIR that is removed. CODE_INPUT on devices and several ranks, and where a trial fails. */
int estimate_print(struct run *run, FILE *stream, struct err *err);
