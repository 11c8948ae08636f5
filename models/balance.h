/* Biased top-K selection that balances the loads of many experts, without an auxiliary loss.
 *
 *     m_k = 1 for the K = rho E largest sig(p_k) + b_k of each input (ties to the lower site)
 *     b_k -= eta_bias (mean_mu m_k - rho)        after each step: no gradient, no gamma0
 *
 * The bias acts in the selection only; the mask is a constant in the backward pass. */
#ifndef MODELS_BALANCE_H
#define MODELS_BALANCE_H

#include "models/model.h"

struct balance {
    size_t K;            /* 0: soft routing, nothing is selected */
    struct rows b, load; /* experts [1]; load: mean_mu m - rho */
    struct rows q, m;    /* experts [P]: sig(p) + b, mask */
    double *mean;        /* [P], 1/P */
};

/* b_k(0) of E experts of block l, values [E]: bias_std times normals (of the setup's number), or
 * the stratified quantiles Phi^{-1}((k + 1/2)/E). */
void balance_biases(const struct net_setup *setup, int l, int E, double *values);
/* Rows over the experts of block l, if rho < 1. */
int balance_init(struct balance *balance, struct net *net, struct population *experts, int l,
                 struct err *err);
/* Masks c = sig(p) and sd = sig'(p) [P]; measures thresholds qstar [P], load2 = <load^2> and the
 * variance b2 of the biases. */
int balance_select(struct balance *balance, const struct net *net, struct rows c, struct rows sd,
                   double *qstar, double *load2, double *b2, struct err *err);
void balance_update(struct balance *balance, double eta_bias);

#endif
