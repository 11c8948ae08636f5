/* The coordinate check: how large the initial, the propagating and the effective part of what every
 * matrix makes is, forward and backward, of a finite network and of the limit. There are series
 * rms_... [t] of families of matrices and of the terms of aggregation.c; the parts of all maps but
 * field maps, which do not tell W(0) from what is learned. */
#pragma once

#include "models/engine/node.h"
#include "solver/measure/instrument.h"

/* The coordinate check of experts of one hidden layer: the composite terms of the papers. */

struct coordinate_matrix;

/* What one run keeps of t = 0. */
struct aggregation_check {
    struct array h3;
    double *x1, *back; /* [rows][N] of networks: x1, and A4 + A5 */
};

/* In the order of the table in aggregation.c. */
enum { H3, H3_DELTA, H3I_INIT, H3I_PROP, H3I_EFF, A1, A21, A22, A3 };
enum { B_00 = A3 + 1, B_D0, B_0D, B_DD, DPHI_INIT, DPHI_UPD, DPHI };
enum { A4 = DPHI + 1, A6, A5, E, D1E, R00, RD0, R0D, RDD, D1R, I6_INIT, I6_PROP, I6_EFF, TERMS };

/* How many matrices as large as the largest between populations it has on the host at once. */
int aggregation_matrices(const struct net *net);
/* Adds the series, if the network has said what its experts are, to be filled by a function that
 * calls aggregation_fill. */
int aggregation_declare(const struct declaring *d, record_fill *fill, struct err *err);
/* start [nodes]: the thin matrices at t = 0. */
int aggregation_fill(struct aggregation_check *check, const struct net *net,
                     const struct coordinate_matrix *start, int t, double *const *out,
                     struct err *err);
/* What is kept of the start. Read: net has its state back already. */
int aggregation_archive(struct aggregation_check *check, const struct net *net,
                        struct archive *archive, struct err *err);
void aggregation_free(struct aggregation_check *check);

/* For aggregation.c: value [TERMS] of a network, but for H3 and H3_DELTA. The first call, after
 * t = 0, fills check->x1 and check->back, which are there. */
int aggregation_terms(const struct aggregation_check *check, const struct net *net,
                      const struct coordinate_matrix *start, bool first, double *value,
                      struct err *err);

/* Mean of squares over rows and sites; y -= x. */
double aggregation_square(struct rows x);
void aggregation_subtract(struct rows x, struct rows y);

/* A matrix at t = 0. */
struct coordinate_matrix {
    struct array out, back; /* rows W(0) x(0), W(0)^T y(0) */
    struct array W;         /* a thin one: its columns */
    struct array in;        /* where alignments are asked for: rows x(0) */
    double *s;              /* numbers W(0) x(0) */
};

/* One run's check. */
struct coordinate {
    const struct backend *backend; /* of what is kept, which may outlive the net; NULL: the net's */
    struct coordinate_matrix *matrix; /* [nodes] */
    int nodes;
    struct aggregation_check aggregation;
};

/* What is kept of the start; aligned: for alignments as well. Read: into a check that has measured
 * nothing, of a net that has its state back. */
int coordinate_archive(struct coordinate *check, const struct net *net, bool aligned,
                       struct archive *archive, struct err *err);
void coordinate_free(struct coordinate *check); /* accepts a zeroed struct; idempotent */
