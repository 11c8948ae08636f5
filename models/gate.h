/* Gates of a mixture of many experts: phi(psi), normalised to be of order one (M times the
 * papers'), and the gradient of the router logits.
 *
 *     softmax   phi = m exp(beta psi)/E[m exp(beta psi)]      g_psi = beta phi (a - E[phi a])
 *     sigmoid   phi = m sig(beta psi)/share                   g_psi = (beta/share) m sig'(beta psi)
 * a constant  phi = 1                                       no router
 *
 * E is the average over experts; share = 1 (aggregation M) or rho (aggregation K); m = 1, or the
 * mask of the rho x sites largest logits of each input (a constant in every backward pass:
 * straight-through). a_i is the gradient with respect to phi_i. */
#ifndef MODELS_GATE_H
#define MODELS_GATE_H

#include "models/model.h"

struct gate {
    enum gate_kind kind;
    double beta, share;
    size_t K;      /* 0: all experts */
    struct map *Q; /* NULL: constant */
    struct rows psi, phi, slope, mask, work, a, g_psi;
    double *scale, *shift; /* [P] */
    const double *one;     /* [P], ones */
};

/* Gate and router Q: bottom -> experts (none for a constant gate), which learns with rate kappa.
 * Rows, map and parameter belong to the net; call before the other maps are declared. */
int gate_init(struct gate *gate, struct net *net, struct population *bottom,
              struct population *experts, struct err *err);
/* psi = Q x1 and phi. */
int gate_forward(struct gate *gate, struct rows x1, struct err *err);
/* a_i = to_a sum_j b_ij x_ij over the units of expert i, g_psi, and z1 += Q^T g_psi. work: free
 * rows over the units, z: free rows over the bottom. */
int gate_backward(struct gate *gate, double to_a, struct rows x, struct rows b, struct rows work,
                  struct rows z, struct rows z1, struct err *err);
/* Gates, logits and Q as plain numbers, agg = 1/M. */
int gate_plain(const struct gate *gate, struct plain *plain, struct err *err);
/* NULL, or why rho does not fit a number of experts. */
const char *gate_check(const struct network *network, double experts, const char **key);

#endif
