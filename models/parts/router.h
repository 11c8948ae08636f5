/* A router over a fixed number M of experts: logits and gates are numbers, [P][M], not sites.
 *
 *     psi_i = <Q_i, x1> + b_i (+ noise)      p = softmax(beta psi) | sig(beta psi) | 1
 *
 * Top-K: p = 0 but for the K = rho M largest logits, ties to the lower index; the mask is a
 * constant in the backward pass. Q(0) has amplitude q0; in the limit psi(0) = b.
 *
 * Top-K without bias or noise, or with biases that are equal across the K-th place: fluctuations
 * decide the first selections, and the limit is a random one (models/language/ties.c). */
#pragma once

#include "models/parts/balance.h"
#include "models/parts/block.h"

/* NULL, or why the settings, a constant gate among them, do not fit M = experts. */
const char *router_check(const struct network *network, const char **key);
/* p, M numbers; Q is q0 times as large and learns router_rate times as fast as its weight says.
 * The block names what is measured. */
struct value router_write(struct program *p, const struct block *block, struct value x1,
                          struct weight Q, struct weight b);

/* softmax(beta psi) or sig(beta psi) of the numbers psi, 0 but for the K largest: where the mask
 * (none where all have gates) is 1. */
struct router_gate {
    bool softmax;
    double beta;
    int K;
    bool over_all;  /* of softmax: before the mask is taken */
    double *shares; /* scratch of the gates: as many as there are */
};
struct value router_gates(struct program *p, struct value psi, struct value mask,
                          struct router_gate gate);
/* Normals shared by the limit and all networks of a seed, i >= 0. */
double router_normal(const struct program *p, int i);
