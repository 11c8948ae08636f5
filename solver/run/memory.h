/* The estimate of memory, before anything is allocated. */
#pragma once

#include "solver/run/run.h"

/* Tells what the run will need. run_open calls it first: CODE_INPUT with what to have less of where
 * that is more than [solver] max_memory, CODE_SYSTEM where a device has less. */
int memory_check(struct run *run, struct err *err);
/* Bytes: the most memory that this process has had since it runs this program; getrusage counts
 * what ran in it before, such as Python, too. */
double memory_most(void);
