/* A router over a fixed number M of experts: logits and gates are numbers, [P][M], not sites.
 *
 *     psi_i = <Q_i, x1> + b_i (+ noise)      p = softmax(beta psi) | sig(beta psi) | 1
 *     gpsi = (dp/dpsi)^T gphi                z1 += sum_i gpsi_i Q_i
 *
 * Top-K: p = 0 but for the K = rho M largest logits, ties to the lower index; the mask is a
 * constant in the backward pass. Q(0) has amplitude q0; in the limit psi(0) = b.
 *
 * Top-K without bias or noise: psi(0) = psi(1) = 0 in the limit, so fluctuations of order 1/sqrt N
 * decide the first selections, and the limit is a random one. Only their signs and order matter,
 * not their size: with iid Q and w, unmatched and not subtracted (`fluctuating`), the fluctuations
 * of order 1/sqrt S of a replicate have the law of those of a network, and each replicate is one
 * draw. */
#ifndef MODELS_ROUTER_H
#define MODELS_ROUTER_H

#include "models/model.h"

/* Multipliers of learning rates: gradient descent's, of eta0 gamma0^2 N, and Adam's. */
struct rate {
    double gd;
    struct adam_scale adam;
};

struct router {
    int M, K;
    bool gates; /* false: p = 1 and no router */
    bool fluctuating;
    double beta;
    struct thin *Q;                        /* NULL without gates */
    double *psi, *start, *p, *gphi, *gpsi; /* [P][M] */
    double *b;                             /* [M] */
    double *entropy;                       /* [P] of the normalised gates, over ln M */
};

/* NULL, or why the settings do not fit M = experts. */
const char *router_check(const struct network *network, const char **key);
/* What is known before the populations: sizes, and whether the limit is a random one. */
void router_plan(struct router *router, const struct network *network, int M);
/* Vectors, and unless the gate is constant Q on the bottom with its parameters: amplitude scales
 * q0, rate_Q and rate_b are multipliers; x1 are the rows that Q reads. gphi is for the network to
 * write. */
int router_init(struct router *router, struct net *net, struct population *bottom, struct rows x1,
                double amplitude, struct rate rate_Q, struct rate rate_b, struct err *err);
void router_forward(struct router *router, const struct net *net, struct rows x1);
void router_backward(struct router *router, const struct net *net, struct rows z1);

#endif
