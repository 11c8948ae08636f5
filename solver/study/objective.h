/* What a sweep compares its points by: one positive number of each run, the smaller the better.
 *
 *     test_loss     the last one that was measured
 *     loss          that of the last time; with `batch`, of the last batch alone
 *     smooth_loss   the mean of the loss over the last times: with `batch`, over one pass through
 *                   the inputs, so that each counts once and the choice of the last batch not at
 *                   all, but at most over the last fifth of the times, in which the network is
 *                   still much the same; without, the same as loss
 *     time_to=X     the time, in steps and interpolated, at which the loss falls to X
 *     NAME[t][i]... any series NAME at time t ("last": the last time, which is also meant without
 * an index), of each of its further axes the entry i or the mean over the axis
 *                   ("mean", which is also meant without an index): Phi3_diag[20][mean], f[last][2]
 *
 * Without a choice it is test_loss where all runs have it, else smooth_loss. */
#ifndef SOLVER_OBJECTIVE_H
#define SOLVER_OBJECTIVE_H

#include "solver/files/result_runs.h"

enum objective_kind {
    OBJECTIVE_LOSS,
    OBJECTIVE_TEST_LOSS,
    OBJECTIVE_SMOOTH,
    OBJECTIVE_TIME_TO,
    OBJECTIVE_SERIES
};
struct objective {
    enum objective_kind kind;
    char text[96];   /* as it is written */
    char series[64]; /* what is read */
    double level;    /* of time_to */
    int t;           /* -1: the last time */
    struct result_entry entry;
    char about[256]; /* a sentence for tables and files */
};

/* CODE_INPUT with the choices there are. */
int objective_read(struct objective *objective, const char *text, struct err *err);
/* How many of the last T times smooth_loss is over. */
int objective_window(int T, int inputs, int batch);
/* The objective of each run with ended[r], in their order, into value [series->runs]: NaN where it
 * has none, as a loss that does not fall to X. Pseudo-values give pseudo-values. */
void objective_runs(const struct objective *objective, const struct result_runs *series,
                    const bool *ended, int window, double *value);
/* The error of the tolerance that all of these values share, where one was measured: 0 else, and of
 * time_to. */
double objective_tolerance(const struct objective *objective, const struct result_runs *series);
/* Of a series that was not kept run by run: its mean and standard error. */
void objective_mean(const struct objective *objective, const struct result_runs *series,
                    double *value, double *error);

#endif
