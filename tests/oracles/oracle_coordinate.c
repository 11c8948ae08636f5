/* The terms of the refined coordinate check by plain loops. */
#include "tests/oracles/oracle_coordinate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which matrix: at the start, its change, now. */
enum which { W0, DW, WT };

static double pick(enum which which, double start, double now) {
    return which == W0 ? start : which == DW ? now - start : now;
}

static double Q(const struct oracle_coordinate *o, enum which w, int i, int n) {
    return pick(w, o->start.Q[i * o->N + n], o->now.Q[i * o->N + n]);
}

static double W2(const struct oracle_coordinate *o, enum which w, int i, int j, int n) {
    int k = (i * o->Ne + j) * o->N + n;
    return pick(w, o->start.W2[k], o->now.W2[k]);
}

static double W3(const struct oracle_coordinate *o, enum which w, int n, int i, int j) {
    int k = (n * o->M + i) * o->Ne + j;
    return pick(w, o->start.W3[k], o->now.W3[k]);
}

static double W4(const struct oracle_coordinate *o, enum which w, int n) {
    return pick(w, o->start.W4[n], o->now.W4[n]);
}

/* --- forward; time: W0 or WT (DW: the difference) -------------------------------------------- */

static double s1(const struct oracle_coordinate *o, enum which time, int mu, int n) {
    int k = mu * o->N + n;
    return pick(time, tanh(o->start.h1[k]), tanh(o->now.h1[k]));
}

/* Q s1, W2 s1 with matrix and argument of their own times. */
static double logit(const struct oracle_coordinate *o, enum which w, enum which x, int mu, int i) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += Q(o, w, i, n) * s1(o, x, mu, n);
    return sum;
}

static double hidden(const struct oracle_coordinate *o, enum which w, enum which x, int mu, int i,
                     int j) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += W2(o, w, i, j, n) * s1(o, x, mu, n);
    return sum;
}

static double s2(const struct oracle_coordinate *o, enum which time, int mu, int i, int j) {
    return pick(time, tanh(hidden(o, W0, W0, mu, i, j)), tanh(hidden(o, WT, WT, mu, i, j)));
}

/* Gate i from the logits psi [M]. */
static double gate(const struct oracle_coordinate *o, const double *psi, int i) {
    double sum = 0;
    if (!o->softmax)
        return 1 / (1 + exp(-psi[i]));
    for (int k = 0; k < o->M; k++)
        sum += exp(psi[k]);
    return o->many * exp(psi[i]) / sum;
}

static double phi(const struct oracle_coordinate *o, enum which time, int mu, int i) {
    double psi[o->M];
    for (int k = 0; k < o->M; k++)
        psi[k] = logit(o, time, time, mu, k);
    return gate(o, psi, i);
}

/* W3_i x_i of one expert; x: s2 at W0, DW, WT, or 3: tanh(W2_0 s1) - s2_0, 4: s2 - tanh(W2_0 s1) */
static double one_expert(const struct oracle_coordinate *o, enum which w, int x, int mu, int i,
                         int n) {
    double sum = 0;
    for (int j = 0; j < o->Ne; j++) {
        double between = tanh(hidden(o, W0, WT, mu, i, j));
        double value = x == 3   ? between - s2(o, W0, mu, i, j)
                       : x == 4 ? s2(o, WT, mu, i, j) - between
                                : s2(o, (enum which)x, mu, i, j);
        sum += W3(o, w, n, i, j) * value;
    }
    return sum;
}

/* agg sum_i phi_i W3_i x_i with the gates of this time. */
static double mixture(const struct oracle_coordinate *o, enum which gates, enum which w, int x,
                      int mu, int n) {
    double sum = 0;
    for (int i = 0; i < o->M; i++)
        sum += o->agg * phi(o, gates, mu, i) * one_expert(o, w, x, mu, i, n);
    return sum;
}

static double h3(const struct oracle_coordinate *o, enum which time, int mu, int n) {
    double start = time == WT ? 0 : mixture(o, W0, W0, W0, mu, n);
    return pick(time, start, time == W0 ? 0 : mixture(o, WT, WT, WT, mu, n));
}

static double output(const struct oracle_coordinate *o, enum which w, enum which x, int mu) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += W4(o, w, n) * h3(o, x, mu, n);
    return sum;
}

/* --- backward -------------------------------------------------------------------------------- */

static double b(const struct oracle_coordinate *o, enum which w3, enum which w4, int i, int j) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += W3(o, w3, n, i, j) * W4(o, w4, n);
    return sum;
}

/* df/dphi_i through W3 of this kind, now. */
static double dphi(const struct oracle_coordinate *o, enum which w3, int mu, int i) {
    double sum = 0;
    for (int j = 0; j < o->Ne; j++)
        sum += o->agg * b(o, w3, WT, i, j) * s2(o, WT, mu, i, j);
    return sum;
}

/* df/dpsi_i, the derivative of the gates by central differences. */
static double dpsi(const struct oracle_coordinate *o, enum which w3, int mu, int i) {
    double psi[o->M], sum = 0, h = 1e-5;
    for (int k = 0; k < o->M; k++)
        psi[k] = logit(o, WT, WT, mu, k);
    double centre = psi[i];
    for (int k = 0; k < o->M; k++) {
        psi[i] = centre + h;
        double up = gate(o, psi, k);
        psi[i] = centre - h;
        sum += (up - gate(o, psi, k)) / (2 * h) * dphi(o, w3, mu, k);
    }
    return sum;
}

/* g2 = agg phi sigma'(h2) b at this time, W3 of this kind. */
static double g2(const struct oracle_coordinate *o, enum which time, enum which w3, int mu, int i,
                 int j) {
    double value = s2(o, time, mu, i, j);
    return o->agg * phi(o, time, mu, i) * (1 - value * value) * b(o, w3, time, i, j);
}

static double dg2(const struct oracle_coordinate *o, int mu, int i, int j) {
    return g2(o, WT, WT, mu, i, j) - g2(o, W0, W0, mu, i, j);
}

static double through_experts(const struct oracle_coordinate *o, enum which w2, enum which w3,
                              int mu, int n) {
    double sum = 0;
    for (int i = 0; i < o->M; i++)
        for (int j = 0; j < o->Ne; j++)
            sum += o->N * W2(o, w2, i, j, n) * g2(o, WT, w3, mu, i, j);
    return sum;
}

static double through_router(const struct oracle_coordinate *o, enum which q, enum which w3, int mu,
                             int n) {
    double sum = 0;
    for (int i = 0; i < o->M; i++)
        sum += o->N * Q(o, q, i, n) * dpsi(o, w3, mu, i);
    return sum;
}

/* init: W2_0^T g2_0; else W2_0^T dg2 */
static double aggregated_back(const struct oracle_coordinate *o, bool init, int mu, int n) {
    double sum = 0;
    for (int i = 0; i < o->M; i++)
        for (int j = 0; j < o->Ne; j++)
            sum += o->N * W2(o, W0, i, j, n) * (init ? g2(o, W0, W0, mu, i, j) : dg2(o, mu, i, j));
    return sum;
}

/* --- the terms ------------------------------------------------------------------------------- */

static bool is(const char *term, const char *name) {
    return !strcmp(term, name);
}

/* Entry of a term over (mu, n); *known = false for others. */
static double over_neurons(const struct oracle_coordinate *o, const char *t, int mu, int n,
                           bool *known) {
    int k = mu * o->N + n;
    *known = true;
    if (is(t, "h1_init"))
        return o->start.h1[k];
    if (is(t, "h1_eff"))
        return o->now.h1[k] - o->start.h1[k];
    if (is(t, "h3"))
        return h3(o, WT, mu, n);
    if (is(t, "h3_delta"))
        return h3(o, DW, mu, n);
    if (is(t, "A1"))
        return mixture(o, WT, W0, W0, mu, n);
    if (is(t, "A21"))
        return mixture(o, WT, W0, 3, mu, n);
    if (is(t, "A22"))
        return mixture(o, WT, W0, 4, mu, n);
    if (is(t, "A3"))
        return mixture(o, WT, DW, WT, mu, n);
    if (is(t, "A4"))
        return through_experts(o, W0, W0, mu, n);
    if (is(t, "A5"))
        return through_experts(o, W0, DW, mu, n);
    if (is(t, "A6"))
        return through_experts(o, DW, W0, mu, n);
    if (is(t, "E"))
        return through_experts(o, DW, DW, mu, n);
    if (is(t, "d1e"))
        return through_experts(o, WT, WT, mu, n);
    if (is(t, "R00"))
        return through_router(o, W0, W0, mu, n);
    if (is(t, "R0d"))
        return through_router(o, W0, DW, mu, n);
    if (is(t, "Rd0"))
        return through_router(o, DW, W0, mu, n);
    if (is(t, "Rdd"))
        return through_router(o, DW, DW, mu, n);
    if (is(t, "d1r"))
        return through_router(o, WT, WT, mu, n);
    if (is(t, "I6_init") || is(t, "I6_prop"))
        return aggregated_back(o, is(t, "I6_init"), mu, n);
    if (is(t, "I6_eff"))
        return through_experts(o, DW, WT, mu, n);
    *known = false;
    return 0;
}

/* Over (mu, i, j, n), of which a term takes no notice of some. */
static double over_rest(const struct oracle_coordinate *o, const char *t, int mu, int i, int j,
                        int n) {
    if (is(t, "psi"))
        return logit(o, WT, WT, mu, i);
    if (is(t, "psi_init"))
        return logit(o, W0, W0, mu, i);
    if (is(t, "psi_prop"))
        return logit(o, W0, DW, mu, i);
    if (is(t, "psi_eff"))
        return logit(o, DW, WT, mu, i);
    if (is(t, "dphi_init") || is(t, "dphi_upd") || is(t, "dphi"))
        return dphi(o, is(t, "dphi") ? WT : is(t, "dphi_upd") ? DW : W0, mu, i) / o->agg;
    if (is(t, "h2_init"))
        return hidden(o, W0, W0, mu, i, j);
    if (is(t, "h2_prop"))
        return hidden(o, W0, DW, mu, i, j);
    if (is(t, "h2_eff"))
        return hidden(o, DW, WT, mu, i, j);
    if (is(t, "h3i_init"))
        return one_expert(o, W0, W0, mu, i, n);
    if (is(t, "h3i_prop"))
        return one_expert(o, W0, DW, mu, i, n);
    if (is(t, "h3i_eff"))
        return one_expert(o, DW, WT, mu, i, n);
    if (is(t, "b_00"))
        return o->b_scale * b(o, W0, W0, i, j);
    if (is(t, "b_0d"))
        return o->b_scale * b(o, W0, DW, i, j);
    if (is(t, "b_d0"))
        return o->b_scale * b(o, DW, W0, i, j);
    if (is(t, "b_dd"))
        return o->b_scale * b(o, DW, DW, i, j);
    if (is(t, "w4_upd"))
        return o->N * W4(o, DW, n);
    if (is(t, "f_init"))
        return output(o, W0, W0, mu);
    if (is(t, "f_prop"))
        return output(o, W0, DW, mu);
    if (is(t, "f_eff"))
        return output(o, DW, WT, mu);
    if (is(t, "f_delta"))
        return output(o, WT, WT, mu) - output(o, W0, W0, mu);
    fprintf(stderr, "oracle_coordinate: no term %s\n", t);
    exit(1);
}

double oracle_coordinate_rms(const struct oracle_coordinate *o, const char *term) {
    bool neurons, outer = strncmp(term, "h3i", 3) == 0 || is(term, "w4_upd");
    double sum = 0;
    over_neurons(o, term, 0, 0, &neurons);
    if (neurons) {
        for (int mu = 0; mu < o->P; mu++)
            for (int n = 0; n < o->N; n++)
                sum += pow(over_neurons(o, term, mu, n, &neurons), 2);
        return sqrt(sum / (o->P * o->N));
    }
    /* an index that the term does not have is averaged over: the mean stays the same */
    int J = outer ? 1 : o->Ne, N = outer ? o->N : 1;
    for (int mu = 0; mu < o->P; mu++)
        for (int i = 0; i < o->M; i++)
            for (int j = 0; j < J; j++)
                for (int n = 0; n < N; n++)
                    sum += pow(over_rest(o, term, mu, i, j, n), 2);
    return sqrt(sum / (o->P * o->M * J * N));
}

double oracle_coordinate_sum(const struct oracle_coordinate *o, int mu, int n) {
    static const char *const terms[] = {"A4", "A5", "A6", "E", "R00", "R0d", "Rd0", "Rdd"};
    double sum = 0;
    bool known;
    for (int k = 0; k < 8; k++)
        sum += over_neurons(o, terms[k], mu, n, &known);
    return sum;
}

/* f_mu now with s1_n moved by x. */
static double moved(const struct oracle_coordinate *o, int mu, int n, double x) {
    double h1[o->P * o->N];
    struct oracle_coordinate copy = *o;
    memcpy(h1, o->now.h1, sizeof h1);
    h1[mu * o->N + n] = atanh(tanh(h1[mu * o->N + n]) + x);
    copy.now.h1 = h1;
    return output(&copy, WT, WT, mu);
}

double oracle_coordinate_difference(const struct oracle_coordinate *o, int mu, int n) {
    double h = 1e-5;
    return o->N * (moved(o, mu, n, h) - moved(o, mu, n, -h)) / (2 * h);
}
