/* Whether a sweep may replace the file that stands at its output. For sweep_open. */
#ifndef SOLVER_SWEEP_OUTPUT_H
#define SOLVER_SWEEP_OUTPUT_H

#include "solver/study/sweep.h"

/* True if nothing is lost: the file was written by dmft-sweep, and each of its runs is a run of
 * this sweep or lies in the folder, so that the same file can be made again. The units and the name
 * of the folder must be known. */
bool sweep_output_replaceable(const struct sweep *sweep);

#endif
