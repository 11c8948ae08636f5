/* One run of the program: configure, march the limit, train the networks, write, compare. */
#pragma once

#include "solver/files/io.h"
#include "solver/run/notes.h"
#include "solver/settings/config.h"

/* Which part of a larger job a run is. */
struct run_share {
    int side;        /* which of several parameterizations, from 1; 0: there must be one only */
    char prefix[24]; /* of the groups in the output */
};

/* Where states are kept, from which a stopped run goes on (states.h). */
struct run_states {
    bool resume;  /* from the states that are there */
    double since; /* when it has begun, in seconds (base_seconds) */
    char *ini;    /* the ini that goes with them, on rank 0 */
    char *folder; /* NULL: none are kept or looked for */
    int lock;     /* descriptor of the folder while it is ours, else 0 */
};

struct run_results {
    struct record limit, iterations; /* iterations: of a fixed-point iteration */
    struct record finer, half[2];    /* the limit again, if asked for (recheck.c) */
    struct record reference[INT_LIST_MAX];
};

struct run {
    struct config config;
    struct params params;
    struct param_section *sections;
    struct data data;
    struct coordinates inputs;
    int threads;
    struct run_share share;
    struct run_states states;
    struct io io;
    bool io_open;
    const char *program; /* that writes the file; NULL: dmft-solve */
    struct log log;
    const volatile sig_atomic_t *stop; /* set by a signal: finish the step, write, leave */
    struct run_results results;
    struct err failed;    /* the first on this rank that ends the run; code 0: none */
    struct notes notes;   /* what is to be said of it all */
    bool gates_unbounded; /* findings.h */
    double steep;         /* likewise */
    int place;            /* the number of the run that failed, counted through all ensembles */
};

/* Reads and checks everything; nothing is written yet. */
int run_configure(struct run *run, const char *file, int overrides, char *const *override,
                  struct err *err);
/* The second half of it, behind the ini: data, checks across keys, threads. Parameters and data are
 * those that rank 0 reads. */
int run_prepare(struct run *run, struct err *err);
/* Announces memory; creates the output, unless one is open or it is NULL. */
int run_open(struct run *run, const char *output, bool force, struct err *err);
/* The limit, then each width; results of this rank go to the file as they come. A network that
 * fails numerically ends alone, and is so recorded. */
int run_march(struct run *run, struct err *err);
int run_finish(struct run *run, bool force, struct err *err);
void run_free(struct run *run); /* accepts a zeroed struct; idempotent */

/* Shares out the sites of a limit with fewer replicates than ranks, and blocks enough. */
void run_split(struct run *run);
/* The setup of one run: width N (0: the limit), and the number of the replicate or seed. */
struct net_setup run_setup(const struct run *run, int N, int r);
/* CODE_NUMERICAL, with the sentence of the first, where all networks of a width have failed or,
 * with `any`, one of them. For run_march it is the former. */
int run_failures(const struct run *run, bool any, struct err *err);
/* The runs (replicates or seeds) of one ensemble that this rank makes, into a fresh record; N = 0:
 * the limit. Without an open file nothing is written. For tests and benches. */
int run_ensemble(struct run *run, int N, int runs, struct record *record, struct err *err);
