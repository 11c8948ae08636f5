/* The terms of the coordinate check of experts, and what both of its directions need. For
 * aggregation.c, whose head says what they are, and the files beside it. */
#ifndef SOLVER_AGGREGATION_TERMS_H
#define SOLVER_AGGREGATION_TERMS_H

#include "solver/measure/aggregation.h"

/* They are in the order of the table in aggregation.c. */
enum { H3, H3_DELTA, H3I_INIT, H3I_PROP, H3I_EFF, A1, A21, A22, A3 };
enum { B_00 = A3 + 1, B_D0, B_0D, B_DD, DPHI_INIT, DPHI_UPD, DPHI };
enum { A4 = DPHI + 1, A6, A5, E, D1E, R00, RD0, R0D, RDD, D1R, I6_INIT, I6_PROP, I6_EFF, TERMS };

const struct mixture *aggregation_mixture(const struct net *net);
/* What the read-out reads, before its tokens are pooled. */
int aggregation_h3(const struct net *net);
double aggregation_rms(struct rows x);
/* The replay has the values of these nodes from the net; the first, the gates, may be none. */
void aggregation_give(struct aggregation_check *check, const struct net *net, const int *list);

/* These fill value[TERMS]: the parts of h3; of rows k of experts, the squares of what one expert
 * puts out; the gradients. */
int aggregation_forward(struct aggregation_check *check, const struct net *net, double *value,
                        struct err *err);
int aggregation_experts(struct aggregation_check *check, const struct net *net, int k,
                        double *value, struct err *err);
int aggregation_backward(struct aggregation_check *check, const struct net *net, int t,
                         double *value, struct err *err);

#endif
