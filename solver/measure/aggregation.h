/* The coordinate check of experts of one hidden layer (program_aggregation): the composite terms of
 * the papers. */
#ifndef SOLVER_AGGREGATION_H
#define SOLVER_AGGREGATION_H

#include "models/engine/replay.h"
#include "solver/measure/record.h"

/* What nodes had: rows, or numbers [P][K]. */
struct piece {
    struct array rows;
    double *s;
};

/* One run's. Lists: the gates, then rows after rows of experts. */
struct aggregation_check {
    struct replay replay;
    int nodes, *h, *s2;      /* [nodes]: the gates in both, then h2 and s2 = sigma(h2) */
    struct piece *part[2];   /* [nodes] cotangents through W3(0); through its change */
    struct piece *start;     /* [nodes]: s2 at the start */
    struct array h3, w;      /* at the start */
    struct array back, work; /* A4 + A5 at the start; scratch */
};

/* Adds the series, if the network has said what its experts are, to be filled by a function that
 * calls aggregation_fill. */
int aggregation_declare(struct record *record, const struct net *net, record_fill *fill,
                        struct err *err);
int aggregation_fill(struct aggregation_check *check, const struct net *net, int t,
                     double *const *out, struct err *err);
/* What is kept of the start. Read: net has its state back already. */
int aggregation_archive(struct aggregation_check *check, const struct net *net,
                        struct archive *archive, struct err *err);
void aggregation_free(struct aggregation_check *check);

/* Mean of squares over rows and sites; y -= x. */
double aggregation_square(struct rows x);
void aggregation_subtract(struct rows x, struct rows y);

#endif
