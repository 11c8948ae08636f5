/* Gates over many experts that condense: a handful of experts comes to carry the average, and the
 * limit is no longer self-averaging (docs/method.md, section 5). */
#pragma once

#include "solver/run/run.h"

/* Gates against their values at t = 0, input by input and token by token. The replicate that
 * concentrates most decides: it alone can carry a mean. */
struct condense {
    double lowest;       /* participation ratio, of its initial value ... */
    int at;              /* ... at this time */
    double peak, growth; /* largest gate: in units of the mean, and of its initial value */
    /* The first times from which a handful of experts carries the average, and from which gates
     * concentrate so much that errors may be too small; T: never. */
    int condensed, concentrated;
};
/* Judged by what the gates did; only those that are not bounded can condense (condense_ask).
 * False: the network has no gates over many experts, or nothing has been run. */
bool condense_find(const struct record *record, bool unbounded, struct condense *gates);
/* The first time at which a handful of sites carries a feature kernel, as where units multiply rows
 * that grow: fewer than 10 in the mean over replicates, and than a quarter of those at the start.
 * T: never. */
int condense_units(const struct record *record);
/* Asks the network of the run, built in or a program of the user's, whether its gates have no bound
 * (exponentials), and how much they amplify fluctuations (net->gates.steep); keeps the answers in
 * run->gates_unbounded and run->steep. */
int condense_ask(struct run *run, struct err *err);
