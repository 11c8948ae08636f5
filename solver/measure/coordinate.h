/* The coordinate check: how large the initial, the propagating and the effective part of what every
 * matrix makes is, forward and backward, of a finite network and of the limit. There are series
 * rms_... [t] of families of matrices and of the terms of aggregation.h; the parts of all maps but
 * field maps, which do not tell W(0) from what is learned. */
#pragma once

#include "solver/measure/aggregation.h"

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
