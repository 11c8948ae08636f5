/* The refined coordinate check: how large the initial, the propagating and the effective part of
 * every signal of a network is, forward and backward. */
#ifndef SOLVER_COORDINATE_H
#define SOLVER_COORDINATE_H

#include "models/net.h"
#include "solver/measure/record.h"

/* One run's check. */
struct coordinate {

    double *work[4]; /* [P][units or N] */
};

/* Adds the series rms_TERM [t], of a finite network or of the limit, to the record. */
int coordinate_declare(struct record *record, const struct net_setup *setup, struct err *err);
/* After net_evaluate at time t; *next: the first of the series, then what follows the last. */
int coordinate_measure(struct coordinate *check, const struct net *net, int t, int run,
                       struct record *record, struct series **next, struct err *err);
void coordinate_free(struct coordinate *check); /* accepts a zeroed struct; idempotent */

#endif
