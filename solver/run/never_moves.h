/* The note of what training never moves, matrices and biases (solver/measure/still.h). */
#pragma once

#include "solver/run/run.h"

/* Adds it for the runs of width N (0: the limit), whose record this is, unless it has been said of
 * the same names before. */
int never_moves_find(struct run *run, int N, const struct record *record, struct err *err);
