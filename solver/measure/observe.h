/* What is measured of a net at every time: loss, f, those of test inputs, the kernels of its model,
 * what [output] names, gate statistics, the coordinate check, and for the limit the ranks of the
 * bases and, with full kernels, the responses.
 */
#ifndef SOLVER_OBSERVE_H
#define SOLVER_OBSERVE_H

#include "solver/settings/config.h"
#include "solver/measure/coordinate.h"
#include "solver/measure/response.h"

/* Declares all series of a record for one kind of net (limit or finite). y: the targets of all
 * inputs, from which losses of the limit are those of the mean output; NULL: means of losses. The
 * labels of axis "basis" go to *labels (one block, freed by the caller), NULL for finite nets. */
int observe_declare(struct record *record, const struct config *config,
                    const struct net_setup *setup, const double *y, char ***labels,
                    struct err *err);

/* One run's measuring: keeps the rows of earlier times when kernels are full. */
struct observer {
    const struct config *config;
    const double *y; /* targets of all inputs */
    struct record *record;
    int run;
    struct array *history; /* [histories][T * P] (or [T]) rows of each kernel */
    int histories;
    struct array work_array;   /* for gate statistics */
    struct response *response; /* [responses] */
    int responses;
    struct coordinate coordinate;
    struct series *next; /* to be written, in the order of declaration */
    double *scratch;     /* host coefficients */
};
int observer_init(struct observer *observer, const struct config *config, const double *y,
                  struct record *record, int run, const struct net *net, struct err *err);
/* After net_evaluate at time t; all values of that time go into the record. */
int observer_measure(struct observer *observer, const struct net *net, int t, struct err *err);
/* Loss and accuracy at inputs that are not trained on; the net stays as it is. */
int observer_look(struct observer *observer, struct net *net, int t, struct err *err);
/* What it keeps of earlier times, and the record of its run until `steps`. Read: into one of
 * observer_init, of a net that has its state back. */
int observer_archive(struct observer *observer, const struct net *net, int steps,
                     struct archive *archive, struct err *err);
void observer_free(struct observer *observer);

/* Bytes that measuring a net (declared) will need, besides those of net_bytes and two-time kernels.
 */
double observe_bytes(const struct config *config, const struct net *net);

/* Largest rank of any basis of the net; 0 for finite nets. */
int observe_rank(const struct net *net);

#endif
