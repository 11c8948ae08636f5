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

/* What a term is made by, of which kinds of matrices and arguments: those before ONE are arrays
 * over (mu, n), those before LOGIT over (mu, i, n), others over (mu, i, j). */
enum maker { H1, H3, MIXTURE, EXPERTS, ROUTER, BACK, ONE, DW4, LOGIT, HIDDEN, DPHI, B, F, DF };
static const struct term {
    const char *name;
    enum maker by;
    int a, b;
} terms[] = {
    {"h1_init", H1, W0, 0},      {"h1_eff", H1, DW, 0},       {"h3", H3, WT, 0},
    {"h3_delta", H3, DW, 0},     {"A1", MIXTURE, W0, W0},     {"A21", MIXTURE, W0, 3},
    {"A22", MIXTURE, W0, 4},     {"A3", MIXTURE, DW, WT},     {"A4", EXPERTS, W0, W0},
    {"A5", EXPERTS, W0, DW},     {"A6", EXPERTS, DW, W0},     {"E", EXPERTS, DW, DW},
    {"d1e", EXPERTS, WT, WT},    {"I6_eff", EXPERTS, DW, WT}, {"R00", ROUTER, W0, W0},
    {"R0d", ROUTER, W0, DW},     {"Rd0", ROUTER, DW, W0},     {"Rdd", ROUTER, DW, DW},
    {"d1r", ROUTER, WT, WT},     {"I6_init", BACK, true, 0},  {"I6_prop", BACK, false, 0},
    {"h3i_init", ONE, W0, W0},   {"h3i_prop", ONE, W0, DW},   {"h3i_eff", ONE, DW, WT},
    {"w4_upd", DW4, 0, 0},       {"psi", LOGIT, WT, WT},      {"psi_init", LOGIT, W0, W0},
    {"psi_prop", LOGIT, W0, DW}, {"psi_eff", LOGIT, DW, WT},  {"h2_init", HIDDEN, W0, W0},
    {"h2_prop", HIDDEN, W0, DW}, {"h2_eff", HIDDEN, DW, WT},  {"dphi", DPHI, WT, 0},
    {"dphi_init", DPHI, W0, 0},  {"dphi_upd", DPHI, DW, 0},   {"b_00", B, W0, W0},
    {"b_0d", B, W0, DW},         {"b_d0", B, DW, W0},         {"b_dd", B, DW, DW},
    {"f_init", F, W0, W0},       {"f_prop", F, W0, DW},       {"f_eff", F, DW, WT},
    {"f_delta", DF, 0, 0},
};

static const struct term *find(const char *name) {
    for (size_t k = 0; k < sizeof terms / sizeof *terms; k++)
        if (!strcmp(terms[k].name, name))
            return &terms[k];
    fprintf(stderr, "oracle_coordinate: no term %s\n", name);
    exit(1);
}

/* Entry of a term, which takes no notice of the indices that it does not have. */
static double entry(const struct oracle_coordinate *o, const struct term *t, int mu, int i, int j,
                    int n) {
    enum which a = (enum which)t->a, b_ = (enum which)t->b;
    switch (t->by) {
    case H1:
        return pick(a, o->start.h1[mu * o->N + n], o->now.h1[mu * o->N + n]);
    case H3:
        return h3(o, a, mu, n);
    case MIXTURE:
        return mixture(o, WT, a, t->b, mu, n);
    case EXPERTS:
        return through_experts(o, a, b_, mu, n);
    case ROUTER:
        return through_router(o, a, b_, mu, n);
    case BACK:
        return aggregated_back(o, t->a, mu, n);
    case ONE:
        return one_expert(o, a, t->b, mu, i, n);
    case DW4:
        return o->N * W4(o, DW, n);
    case LOGIT:
        return logit(o, a, b_, mu, i);
    case HIDDEN:
        return hidden(o, a, b_, mu, i, j);
    case DPHI:
        return dphi(o, a, mu, i) / o->agg;
    case B:
        return o->b_scale * b(o, a, b_, i, j);
    case F:
        return output(o, a, b_, mu);
    default:
        return output(o, WT, WT, mu) - output(o, W0, W0, mu);
    }
}

/* The mean is over the indices of a term; over others it stays the same. */
double oracle_coordinate_rms(const struct oracle_coordinate *o, const char *name) {
    const struct term *t = find(name);
    int M = t->by < ONE ? 1 : o->M, J = t->by < LOGIT ? 1 : o->Ne, N = t->by < LOGIT ? o->N : 1;
    double sum = 0;
    for (int mu = 0; mu < o->P; mu++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < J; j++)
                for (int n = 0; n < N; n++)
                    sum += pow(entry(o, t, mu, i, j, n), 2);
    return sqrt(sum / (o->P * M * J * N));
}

double oracle_coordinate_sum(const struct oracle_coordinate *o, int mu, int n) {
    static const char *const parts[] = {"A4", "A5", "A6", "E", "R00", "R0d", "Rd0", "Rdd"};
    double sum = 0;
    for (int k = 0; k < 8; k++)
        sum += entry(o, find(parts[k]), mu, 0, 0, n);
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
