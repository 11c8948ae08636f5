/* What router.c and router_gate.c share: functions of the logits psi [M] of one input. */
#ifndef MODELS_ROUTER_GATE_H
#define MODELS_ROUTER_GATE_H

#include "models/parts/router.h"

/* What rowwise functions know: numbers per input. */
struct router {
    int M;
    struct router_gate gate;
    double eta_bias;
    bool sign;                      /* of the rule by which selection biases move */
    double *shares, *scores;        /* scratch: [M], [2][M] */
    double *b;                      /* [M] selection biases; NULL: none */
    double *load, *largest, *flips; /* [M], [1], [1] measured */
    double *last;                   /* [count][M] masks of the last evaluation */
};

/* Gates of M numbers, without what only router_write knows. NULL without memory. */
struct router *router_new(struct program *p, int M, struct router_gate gate);
/* The masks as numbers; declares the series of their loads and, with eta_bias, the biases. The name
 * of each series ends in `suffix`. */
struct value router_watch(struct program *p, struct router *router, struct value psi,
                          const char *suffix);
/* The gates of psi. */
struct value router_apply(struct program *p, struct router *router, struct value psi);

#endif
