/* What router.c and router_gate.c share: functions of the logits psi [M] of one input. */
#ifndef MODELS_ROUTER_GATE_H
#define MODELS_ROUTER_GATE_H

#include "models/parts/router.h"

/* What rowwise functions know: numbers per input. */
struct router {
    int M;
    struct router_gate gate;
    double eta_bias;
    bool sign;                               /* of the rule by which selection biases move */
    double balance_loss, z_loss, bias_noise; /* of routers with more than gates */
    double *shares, *scores;                 /* scratch: [M], [2][M] */
    double *b;                               /* [M] selection biases; NULL: none */
    double *load, *largest, *flips;          /* [M], [1], [1] measured */
    double *last;                            /* [count][M] masks of the last evaluation */
};

/* Gates of M numbers, without what only router_write knows. NULL without memory. */
struct router *router_new(struct program *p, int M, struct router_gate gate);
/* e_i = exp(beta psi_i - max beta psi), whatever the sign of beta; returns max beta psi. */
double router_exponentials(const struct router *router, const double *psi, double *e);
/* Writes the weights of all experts, exponentials or sigmoids, over their sum. */
void router_shares(const struct router *router, const double *psi, double *q);
/* The constants of the gates, for the description of the program (struct rule_name). */
#define ROUTER_CONSTANT(name, type, member) CONSTANT_OF(struct router, name, type, member)
#define ROUTER_CONSTANTS                                                                           \
    ROUTER_CONSTANT("softmax", FIELD_BOOL, gate.softmax),                                          \
        ROUTER_CONSTANT("beta", FIELD_REAL, gate.beta), ROUTER_CONSTANT("top", FIELD_INT, gate.K), \
        ROUTER_CONSTANT("over_all", FIELD_BOOL, gate.over_all),                                    \
        ROUTER_CONSTANT("eta_bias", FIELD_REAL, eta_bias),                                         \
        ROUTER_CONSTANT("sign", FIELD_BOOL, sign)
/* The masks as numbers; declares the series of their loads and, with eta_bias, the biases. The name
 * of each series ends in `suffix`. */
struct value router_watch(struct program *p, struct router *router, struct value psi,
                          const char *suffix);
/* The gates of psi. */
struct value router_apply(struct program *p, const struct router *router, struct value psi);

#endif
