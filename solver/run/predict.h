/* Outputs at inputs that come after a run is done, from the states that it has kept: those that it
 * would have had with these as test inputs, with the same bits. */
#pragma once

#include "solver/run/run.h"

/* run: configured as the one whose states they are, of the file `result`, and states_open has found
 * these. path: a data
 * file, whose X or tokens are the inputs; its targets are not looked at. Into the file `output`, as
 * a result with one time, that of the states: `f` [1][inputs][tokens][C] of the limit and of each
 * width, its mean over runs, its error and f_runs. Of halves, too, there must be states: they take
 * the bias off. Networks that failed, as many as the result says, have no output. CODE_INPUT where
 * another run has no state at its end, or the inputs are of another shape. */
int predict_run(struct run *run, const char *result, const char *path, const char *output,
                bool force, struct err *err);
