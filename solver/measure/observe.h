/* What is measured of a net at every time: loss, f, those of test inputs, the kernels of its model,
 * what [output] names, gate statistics, the coordinate check, and for the limit the ranks of the
 * bases and, if asked for, the responses. instrument.h has the list of all. */
#pragma once

#include "solver/measure/coordinate.h"
#include "solver/measure/gradients.h"
#include "solver/measure/kernel_series.h"
#include "solver/measure/sharpness.h"

/* Declares all series of a record for one kind of net (limit or finite). y: the targets of all
 * inputs, from which losses of the limit are those of the mean output; NULL: means of losses.
 * CODE_INPUT where two arrays of the output would have one name. */
int observe_declare(struct record *record, const struct config *config,
                    const struct net_setup *setup, const double *y, struct err *err);

/* One run's measuring, with what instruments keep from time to time. */
struct observer {
    const struct config *config;
    const double *y; /* targets of all inputs */
    struct record *record;
    int run;
    double **out;                  /* [record->slots] of the filler at work */
    double *room;                  /* of what fillers ask for: all of them, or one at a time */
    bool asked;                    /* about the forward pass of the last evaluation */
    struct kernel_history history; /* with full kernels */
    struct coordinate coordinate;
    struct gradients gradients; /* of the time that is being measured, and ... */
    struct sharpness sharpness; /* ... likewise */
};
int observer_init(struct observer *observer, const struct config *config, const double *y,
                  struct record *record, int run, const struct net *net, struct err *err);
/* For net->ask. */
int observer_ask(void *observer, const struct net *net, struct err *err);
/* After net_evaluate at time t; all values of that time go into the record. The net stays. */
int observer_measure(struct observer *observer, struct net *net, int t, struct err *err);
/* Loss and accuracy at inputs that are not trained on; the net stays as it is. */
int observer_predict(struct observer *observer, struct net *net, int t, struct err *err);
/* What it keeps of earlier times, and the record of its run until `steps`. Read: into one of
 * observer_init, of a net that has its state back. */
int observer_archive(struct observer *observer, const struct net *net, int steps,
                     struct archive *archive, struct err *err);
void observer_free(struct observer *observer);

/* Largest rank of any basis of the net; 0 for finite nets. */
int observe_rank(const struct net *net);
