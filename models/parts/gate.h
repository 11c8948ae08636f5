/* Gates of a mixture of many experts: phi(psi), normalised to be of order one (M times the
 * papers').
 *
 *     softmax   phi = m exp(beta psi)/E[m exp(beta psi)]
 *     sigmoid   phi = m sig(beta psi)/share
 *     constant  phi = 1, and no router
 *
 * E is the average over experts; share = 1 (aggregation M) or rho (aggregation K); m = 1, or the
 * mask of the rho x sites largest logits of each input, a constant in the backward pass. */
#pragma once

#include "models/parts/block.h"

/* NULL, or why rho does not fit a number of experts. */
const char *gate_check(const struct network *network, double experts, const char **key);
/* The same, and that there is a whole number M = kappa N of experts. */
const char *gate_check_kappa(const struct network *network, int N, int expert_sites,
                             const char **key);
bool gate_is_constant(const struct program *p);
/* phi over the experts, and *psi, the logits: what the router Q makes of x1. Not to be called for a
 * constant gate (gate_is_constant). */
struct value gate_write(struct program *p, const struct block *block, struct value x1,
                        struct population *experts, struct weight Q, struct value *psi);
/* A mixture of many experts, from rows x1 to rows h3: logits and gates (none: at -1), rows of the
 * units before and after sigma, times the gates. */
struct gate_mixture {
    struct value x1, psi, phi, h_in, x, x2, h3;
};
/* Names of these rows; where the block is the whole network, also kernels of the top, and what the
 * coordinate check asks for: the scale of program_aggregation, and how many experts there are. */
void gate_show(struct program *p, const struct block *block, struct gate_mixture mixture,
               double scale, size_t experts);
/* The gradient kernel of the logits of kappa N experts; none for a constant gate. */
void gate_gradient(struct program *p, struct value psi, const char *name);
/* phi x over the units of the experts; x alone if the gate is constant. */
struct value gate_apply(struct program *p, struct value phi, struct value x);
