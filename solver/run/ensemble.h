/* The runs of the limit (replicates) or of networks of one width (seeds), and their record. */
#pragma once

#include "solver/run/run.h"

enum { ENSEMBLE_GROUP = 24 }; /* bytes of the name of a group */

/* An ensemble, and which of its runs is under way. */
struct ensemble {
    struct run *run;
    int N, r;
    struct record *record, *iterations; /* iterations: NULL, or those of a fixed-point iteration */
    char group[ENSEMBLE_GROUP];
    double start, *next; /* times: of the beginning, of the next save */
};

bool ensemble_iterates(const struct run *run, int N); /* by fixed-point iteration */
/* Runs in flight at once on this rank; a single one shares out its blocks of sites instead. */
int ensemble_concurrent(const struct run *run, int N, int runs);

/* Its group in the file: "limit" (N = 0), "reference/N0064". */
void ensemble_group(char group[ENSEMBLE_GROUP], int N);
struct ensemble ensemble_of(struct run *run, int N, struct record *record);
/* Its record, and that of the sweeps if there are any. */
int ensemble_declare(const struct ensemble *e, int runs, struct err *err);
/* The runs that this rank makes. A network that fails numerically is recorded as failed; any other
 * failure ends them, *first: the lowest run that had one. */
int ensemble_compute(const struct ensemble *e, int *first, struct err *err);
/* What each rank has made -> all ranks, and the file. */
int ensemble_collect(const struct ensemble *e, struct err *err);
