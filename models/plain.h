/* A network whose experts have one hidden layer, as plain matrices of numbers in the form of the
 * papers (agg = 1/M where M grows with the width, else 1):
 *
 *     h1 = W1 x/sqrt D,  s1 = sigma(h1)       psi = Q s1 (+ bias),  phi = gate(psi)
 *     h2_i = W2_i s1,    s2_i = sigma(h2_i)   h3 = agg sum_i phi_i W3_i s2_i,   f = W4 h3
 *
 * for diagnostics that take a network to pieces, whatever maps it is made of. W4 = w/(gamma0 N).
 * In the limit only what lives on sites exists: h1, psi, h3 and W4, with N = sites; and W(0) s1 and
 * dW s1 for Q and W2, where limit maps can tell (net_setup.parts); a router over few experts (Q,
 * s1). */
#ifndef MODELS_PLAIN_H
#define MODELS_PLAIN_H

#include "models/model.h"

struct plain {
    int P, N, M, N_e;
    double agg;
    double b_scale;       /* makes b = W3^T W4^T of order one: 1 at fixed N_e and growing M, or N */
    enum gate_kind gate;  /* phi = sig(beta psi)/share, or proportional to exp(beta psi) */
    double beta, share;   /* of the gate */
    double *h1, *s1, *h3; /* [P][N] */
    double *psi, *phi;    /* [P][M]; psi NULL without a router */
    double *s2, *slope2;  /* [P][M][N_e]: sigma(h2), sigma'(h2) */
    double *Q, *W2, *W3;  /* [M][N] (NULL without a router), [M][N_e][N], [N][M][N_e] */
    double *Q_init, *Q_eff;   /* limit [P][M]: Q(0) s1 and (Q - Q(0)) s1 */
    double *W2_init, *W2_eff; /* limit [P][M][N_e] */
    double *W4;               /* [N] */
};

/* Sizes, memory, gate and W4; what the limit does not have stays NULL. */
int plain_init(struct plain *plain, const struct net *net, const struct thin *w, int M, int N_e,
               struct err *err);
void plain_free(struct plain *plain); /* accepts a zeroed struct; idempotent */
/* Nothing where out is NULL. */
void plain_rows(struct rows rows, double *out);
/* out [target][source] = factor times the matrix as it is used forward. */
int plain_map(const struct map *map, double factor, double *out, struct err *err);
/* initial, effective [P][target]: of W s1 in the limit. */
int plain_parts(const struct map *map, int P, double *initial, double *effective, struct err *err);

#endif
