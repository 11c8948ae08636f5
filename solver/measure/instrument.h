/* What is measured of a net is a list of instruments (observe.c). An instrument declares series of
 * the record, each with all that is said of it, and before them the function that fills them; at
 * every time the observer calls these functions in turn. Whoever adds a series writes one function
 * that declares and one that fills, in one file, and enters the instrument in the list. */
#ifndef SOLVER_INSTRUMENT_H
#define SOLVER_INSTRUMENT_H

#include "solver/measure/record.h"
#include "solver/settings/config.h"

struct observer;

/* One run of a net at one time, after net_evaluate: what series are filled from. */
struct measuring {
    const struct config *config;
    const struct net *net;
    const double *y; /* targets of all inputs, [inputs + tests][outputs] */
    struct record *record;
    struct observer *observer; /* with what instruments keep from time to time */
    int run, t, item;          /* item: what the function that fills was given with its series */
};

struct instrument {
    /* Adds its series, none where the net has not what it measures. The net is declared alone: it
     * has shapes and names, and no numbers. */
    int (*declare)(struct record *record, const struct config *config, const struct net *net,
                   struct err *err);
};

#endif
