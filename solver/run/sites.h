/* [solver] sites = auto: the limit begins with few sites, and where its bases outgrow them again
 * with twice as many of every kind that the network has. What is computed with the last number is
 * what a run with that number computes, bit for bit; the record has the number. */
#pragma once

#include "solver/run/run.h"

/* Where the sites are `auto`: the number to begin with, enough for K directions of the inputs.
 * Before config_check. */
void sites_begin(struct config *config, int K);
/* Records the numbers that `auto` stands for now among the settings of a run. The sweep that it
 * belongs to has kept `auto`. */
int sites_record(struct run *run, struct err *err);
/* A run has ended with this code: *again, and all is ready for a new beginning with twice the
 * sites, where the limit had too few. Else the code stays as it is, and the sentence says what
 * hinders, where it is memory. All ranks call it. */
int sites_raise(struct run *run, int code, bool *again, struct err *err);

/* Each kind of sites that the limit draws, so many times fewer. */
void sites_divide(struct config *config, int by);
