/* The limit again, for its errors: the first replicate at a third of the tolerance
 * (check_tolerance), and each replicate in two halves of its sites (halves; record.h). Both come
 * before the limit, whose means and errors contain them from the beginning. Nothing of them is
 * written; of halves states are kept, as of the limit. */
#pragma once

#include "solver/run/run.h"

/* Before a run: its limit with halves of its sites, and with sites = auto the one with twice as
 * many, must be the same limit, which a program may miss that selects so many sites. Else
 * CODE_INPUT. */
int recheck_check(const struct run *run, struct err *err);
/* What this rank makes, if it was asked for; the record run->limit must be declared. */
int recheck_compute(struct run *run, struct err *err);
/* What all ranks made, to all ranks. */
int recheck_collect(struct run *run, struct err *err);
void recheck_free(struct run *run);
/* The run whose limit is half number 1 or 2 of the sites. It shares all that it points to. */
struct run recheck_half(const struct run *run, int number);
