/* A backend that remembers population averages and can give them back, since a shift of the field
 * of a single site does not move them (companions.h). A network takes every such average through
 * `averages` and `dots`; all other ops act site by site. So a second pass over the same program
 * that finds the averages of the first one sees only the response of the sites.
 *
 * To use it: make all arrays of the network with `table`; tape_start(RECORD), first pass;
 * tape_start(REPLAY), second pass, with the same calls of `averages` and `dots` in the same
 * order; tape_start(OFF). */
#pragma once

#include "kernels/array/backend.h"

enum tape_mode { TAPE_OFF, TAPE_RECORD, TAPE_REPLAY };

struct tape {
    struct backend table; /* first: arrays lead from their backend to here */
    const struct backend *inner;
    struct distant distant;
    enum tape_mode mode;
    double *log;
    size_t count, capacity, at; /* numbers recorded, room, next to be given back */
    bool failed;                /* no memory for the log */
};

/* tape must not move while arrays of its table live. */
void tape_init(struct tape *tape, const struct backend *inner);
void tape_free(struct tape *tape); /* accepts a zeroed struct; idempotent */
/* RECORD begins a new log; REPLAY begins at its first number. */
int tape_start(struct tape *tape, enum tape_mode mode, struct err *err);
