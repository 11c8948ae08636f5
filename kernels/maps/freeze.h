/* A backend that remembers population averages and can give them back.
 *
 * In the mean-field picture outputs, errors, gates of few experts and normalisations are averages
 * over infinitely many sites: shifting the fields of single sites does not move them. A network
 * takes every such average through `averages` and `dots`; all other ops act site by site. So a
 * second pass over the same program that finds the averages of the first one sees only the response
 * of the sites.
 *
 * To use it: make all arrays of the network with `table`; freeze_start(RECORD), first pass;
 * freeze_start(REPLAY), second pass, with the same calls of `averages` and `dots` in the same
 * order; freeze_start(OFF). */
#ifndef KERNELS_FREEZE_H
#define KERNELS_FREEZE_H

#include "kernels/array/backend.h"

enum freeze_mode { FREEZE_OFF, FREEZE_RECORD, FREEZE_REPLAY };

struct freeze {
    struct backend table; /* first: arrays lead from their backend to here */
    const struct backend *inner;
    enum freeze_mode mode;
    double *log;
    size_t count, capacity, at; /* numbers recorded, room, next to be given back */
    bool failed;                /* no memory for the log */
};

/* freeze must not move while arrays of its table live. */
void freeze_init(struct freeze *freeze, const struct backend *inner);
void freeze_free(struct freeze *freeze); /* accepts a zeroed struct; idempotent */
/* RECORD begins a new log; REPLAY begins at its first number. */
int freeze_start(struct freeze *freeze, enum freeze_mode mode, struct err *err);

#endif
