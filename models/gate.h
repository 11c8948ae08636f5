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
    size_t K; /* 0: all experts */
    struct rows psi, phi, slope, mask, work;
    double *scale, *shift; /* [P] */
    const double *one;     /* [P], ones */
};

/* Allocates rows over `experts` in the net; psi is for the router to write. */
int gate_init(struct gate *gate, struct net *net, const struct population *experts,
              struct err *err);
int gate_forward(struct gate *gate, struct err *err);
/* a -> g_psi (rows that do not overlap a); a is used up. */
void gate_backward(struct gate *gate, struct rows a, struct rows g_psi);
/* NULL, or why rho does not fit a number of experts. */
const char *gate_check(const struct network *network, double experts, const char **key);

#endif
