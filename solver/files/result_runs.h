/* Reading series of a run from its file, run by run where they were kept: for sweeps. */
#ifndef SOLVER_RESULT_RUNS_H
#define SOLVER_RESULT_RUNS_H

#include "kernels/base/base.h"

/* What stands for a series with more axes than t at each time: of the axes behind t, in their
 * order, the entry index[k], or the mean over all entries where this is RESULT_MEAN. Axes from
 * `count` on have no index: the mean is taken over them, too. */
enum { RESULT_AXES = 8, RESULT_MEAN = -1 };
struct result_entry {
    int count, index[RESULT_AXES];
};

/* A series NAME [t] of one group. run: NAME_pseudo, the pseudo-values of the jackknife, where there
 * are such, else NAME_runs, else NULL; mean, error: NAME and NAME_se, n runs reached the last time.
 * NaN where a run had ended or nothing was measured. The error of a mean over entries is the mean
 * of their errors, which it does not exceed; the runs tell it better. */
struct result_runs {
    int runs, T, n;
    bool pseudo;
    double *run;          /* [runs][T] */
    double *mean, *error; /* [T] */
    double *tolerance;    /* [T], or NULL: NAME_tolerance, an error common to all runs */
};

/* *there is false, and all of *series zero, where the group has no NAME. CODE_INPUT if the first
 * axis of NAME is not t, or if it lacks an axis or an entry with an index in `entry` (NULL: the
 * mean over all). path: OUT.h5, or OUT.h5.partial, complete or not. */
int result_runs_read(struct result_runs *series, const char *path, const char *group,
                     const char *name, const struct result_entry *entry, bool *there,
                     struct err *err);
void result_runs_free(struct result_runs *series); /* accepts a zeroed struct; idempotent */

/* The inputs of a run, and how many of them are in a batch: 0 where all are. */
int result_runs_batch(const char *path, int *inputs, int *batch, struct err *err);

/* The attribute `ini` of /parameters, to be freed. */
int result_runs_ini(const char *path, char **ini, struct err *err);
/* The numbers of a dataset, in the order of its axes, to be freed. */
int result_runs_numbers(const char *path, const char *set, double **value, int *count,
                        struct err *err);

#endif
