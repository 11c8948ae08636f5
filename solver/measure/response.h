/* The responses of the limit, map by map:
 *
 *     W x_t   = u_t + sum_{s<t}  A(t,s) y_s + learned part      A(t,s) = fr^2 <dx_t/dv_s>
 *     W^T y_t = v_t + sum_{s<=t} B(t,s) x_s + learned part      B(t,s) = fg^2 <dy_t/du_s>
 *
 * u and v are the Gaussian parts, input indices are summed over. With C_s = <y_s, p> and
 * R_s = <x_s, q> the coefficients of all earlier rows, Stein's lemma gives the response part of a
 * map (map.h) as
 *
 *     fr <x_t, e_b> = sum_{s<t} A(t,s) C_s,b        fg <y_t, e_a> = sum_{s<=t} B(t,s) R_s,a
 *
 * A and B are the solutions of minimum norm, singular values below rcond times the largest taken as
 * zero, rcond the tolerance of the bases: nearly dependent rows x_s, y_s do not tell their
 * responses apart. A exists where fr is not 0, B where fg is not 0. Every evaluation must be
 * measured. */
#ifndef SOLVER_RESPONSE_H
#define SOLVER_RESPONSE_H

#include "models/engine/net.h"
#include "solver/measure/instrument.h"

/* A or B of one map during one run. */
struct response {
    const struct map *map;
    bool forward; /* A */
    int T, rows, count;
    double *values; /* in the record, [T][rows][T][count]; 0 where s is later */
    double **known; /* [T]: [count][columns[t]], the C or R of time t */
    int *columns;   /* [T] */
    int times;      /* known so far */
};

/* Adds A_MAP and B_MAP of every map of a net (declare_only will do), in this order. */
extern const struct instrument response_instrument;
/* All responses of one run of that record, count of them; free them one by one, then the array. */
int response_init(struct response **responses, int *count, const struct record *record, int run,
                  const struct net *net, struct err *err);
/* After net_evaluate at time t. */
int response_measure(struct response *response, int t, struct err *err);
/* The coefficients of the times so far. Read: into one of response_init. */
int response_archive(struct response *response, struct archive *archive, struct err *err);
void response_free(struct response *response); /* accepts a zeroed struct; idempotent */

#endif
