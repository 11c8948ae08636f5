/* What training could move and never does: matrices and biases whose gradient is exactly 0 at every
 * step. A series that is not stored keeps why, at each time of each run; notes.c asks it at the
 * end. */
#pragma once

#include "kernels/base/text.h"
#include "solver/measure/instrument.h"

#define STILL_SERIES "still"
/* Nothing is said of fewer times: with a read-out of zero, what lies below begins a step later. */
#define STILL_TIMES 5

enum still {
    STILL_MOVES,
    STILL_READS_NOTHING, /* the rows that it acts on are 0 */
    STILL_UNANSWERED,    /* the cotangent of what it gives is */
    STILL_ONE_GATE,      /* because a softmax over one selected expert is 1 */
    STILL_CAUSES
};

/* Names what did not move in any run that went to the end, for this cause. net: a declared one. */
void still_find(const struct record *record, const struct net *net, enum still cause,
                struct text_names *names);
