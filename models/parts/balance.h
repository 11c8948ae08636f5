/* Biased top-K selection that balances the loads of experts, without an auxiliary loss: of many,
 * whose scores are rows, or of a fixed number E.
 *
 *     m_k = 1 for the K = rho E largest c_k + b_k of each input (ties to the lower site)
 *     b_k -= eta_bias (mean_mu m_k - rho)        after each step: no gradient, no gamma0
 *     b_k -= eta_bias sign(mean_mu m_k - rho)    the same by the sign rule
 *
 * The bias acts in the selection only; the mask is a constant in the backward pass. */
#pragma once

#include "models/language/program.h"

/* b_k(0) of E experts of block l, values [E]: bias_std times normals (of the setup's number), or
 * the stratified quantiles Phi^{-1}((k + 1/2)/E). */
void balance_biases(const struct net_setup *setup, int l, int E, double *values);

/* Loads are multiples of one over the number of inputs; closer to their share than this they have
 * it, and round-off is all that differs: the sign rule moves no bias then. Over sites of single
 * precision a count, one over the number and the share are rounded by 2^-24 each. */
#define BALANCE_EVEN 1e-9
#define BALANCE_EVEN_SINGLE 2.5e-7
/* A share rho of the experts, K of them; b starts at `start` [sites] (NULL: 0). Block l of L, or a
 * suffix, tells what is measured from what others of the network measure. */
struct balance_rule {
    size_t K;
    double rho, eta_bias;
    bool sign; /* the sign rule */
    const double *start;
    int l, L;
    const char *suffix; /* NULL: none */
};
struct balance_rule balance_rule(const struct network *network, const struct population *experts,
                                 int l, int L);
/* The mask of the K largest scores + b; b moves by eta_bias, and numbers have none where that is 0.
 * Thresholds and biases of rows are measured, and what balance_watch measures. */
struct value balance_select(struct program *p, struct value scores, struct balance_rule rule);
/* A mask as it is; its loads (of rows their spread), the largest and flips are measured. */
struct value balance_watch(struct program *p, struct value mask, struct balance_rule rule);

/* Gates c = m sig(psi) over the experts of block l of `depth`, m = 1 for rho = 1; psi = R h. Logits
 * and gradients are measured; for rho < 1 also thresholds, loads and biases. */
struct value balance_write(struct program *p, struct value h, struct population *experts,
                           struct weight R, int l);
