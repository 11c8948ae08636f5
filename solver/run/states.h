/* The states of runs on disk, one file for each replicate and seed in the folder OUT.h5.state, from
 * which a run that was cut goes on, or one that is done goes further, with the bits that it would
 * have had in one piece. Beside them lies `ini`, which repeats the run.
 *
 * A state says which version made it, of which run, of which ini and of which data. Those of an ini
 * may differ that decide no number of this run: length, where it is computed, which other runs
 * there are. Anything else is refused. */
#pragma once

#include "solver/measure/observe.h"
#include "solver/run/run.h"

/* One run between two times. */
struct state {
    int N, r;    /* as in run_setup */
    int steps;   /* measured so far */
    bool shared; /* every rank has its share of the sites */
    struct net *net;
    struct observer *observer;
    const struct data_setup *of; /* NULL, or: into a net with other test inputs than the run, whose
                                    are these; without an observer */
};

/* The ini of a result whose states were kept; to be freed. */
int states_ini(char **ini, const char *output, struct err *err);
/* Rank 0: the folder of an output, where states are to be kept or found. Earlier states are checked
 * (run->states.resume), or removed (force), or refused. */
int states_open(struct run *run, const char *output, bool force, struct err *err);
/* All ranks, behind it: where it is. */
int states_share(struct run *run, struct err *err);
/* Rank 0: whether a run that is cut leaves states, or an ini at least where they were asked for. */
bool states_kept(const struct run *run);
int states_count(const struct run *run); /* rank 0: how many there are */
/* Once the result is complete, nothing can go on: states that nobody has asked for are removed. */
void states_done(struct run *run);
void states_close(struct run *run); /* and removes a folder that has no state */

/* Into a fresh net and observer, where there is a state; else state->steps = 0. */
int states_find(const struct run *run, struct state *state, struct err *err);
int states_keep(const struct run *run, const struct state *state, struct err *err);
/* All of one run, into a file or out of it. */
int state_archive(const struct state *state, struct archive *archive, struct err *err);
/* Minutes between two states of a run; 0: none are kept. Without [output] checkpoint a run of more
 * than so many minutes keeps them, until it is done; a shorter one, only at a signal. */
double states_minutes(const struct run *run);
/* Whether the clock asks for a state. kept: when the last one was kept, or the run began, in
 * seconds; last: no step is left. */
bool states_due(const struct run *run, double kept, bool last);
/* Whether to keep it takes seconds rather than minutes; *bytes: how many it takes. */
bool states_quick(const struct state *state, double *bytes);
/* Whether the disk has room for a state that only the clock asks for: runs of many large networks
 * should not fill it, so that a tenth of it has to be free then. */
bool states_fit(const struct run *run, double bytes);
bool states_leave_room(double bytes, double available, double size); /* the rule */
