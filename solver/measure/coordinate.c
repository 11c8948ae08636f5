/* The refined coordinate check of "How to Scale Mixture-of-Experts: From muP to the Maximally
 * Scale-Stable Parameterization" (its figures 1 and Q.26, equations I.4 and I.6).
 *
 * In the form of plain.h, with 0 for t = 0 and d for the difference from it, a linear map splits as
 *     W x = W0 x0 (init) + W0 dx (prop) + dW x (eff)
 * the aggregation of the experts as
 *     h3 = A1 + A21 + A22 + A3
 *     A1  = agg sum phi W3_0 s2_0           A21 = agg sum phi W3_0 (sigma(W2_0 s1) - s2_0)
 *     A3  = agg sum phi dW3 s2              A22 = agg sum phi W3_0 (s2 - sigma(W2_0 s1))
 * and the gradient of f with respect to s1 as
 *     b = W3^T W4^T                         b00 + b0d + bd0 + bdd: W3_0 or dW3, W4_0 or dW4
 *     experts: A4 + A5 + A6 + E             W2_0 or dW2 times g2 of W3_0 or dW3; A4: both initial,
 *                                           A5: W2_0, dW3; A6: dW2, W3_0; E: both learned
 *                                           g2 = agg phi sigma'(h2) b
 *     router:  R00 + R0d + Rd0 + Rdd        Q0 or dQ, then W3_0 or dW3
 *     I6: W2_0^T g2_0 (init) + W2_0^T dg2 (prop) + dW2^T g2 (eff)
 * Of each the root of the mean square over entries, experts and inputs is kept. Gradients are
 * multiplied by the width (df/dphi by 1/agg, b by b_scale), so that all are of order one where
 * nothing vanishes or blows up. In the limit there are those terms that need
 * no matrix, and of psi and h2 those that limit maps can tell apart. */
#include "solver/measure/coordinate.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum term {
    H1_INIT,
    H1_EFF,
    PSI,
    H3,
    H3_DELTA,
    F_DELTA,
    W4_UPD,
    PSI_INIT,
    PSI_PROP,
    PSI_EFF,
    H2_INIT,
    H2_PROP,
    H2_EFF,
    H3I_INIT,
    H3I_PROP,
    H3I_EFF,
    A1,
    A21,
    A22,
    A3,
    F_INIT,
    F_PROP,
    F_EFF,
    B_00,
    B_0D,
    B_D0,
    B_DD,
    DPHI_INIT,
    DPHI_UPD,
    DPHI,
    A4,
    A5,
    A6,
    E,
    D1E,
    R00,
    R0D,
    RD0,
    RDD,
    D1R,
    I6_INIT,
    I6_PROP,
    I6_EFF,
    TERMS
};

static const struct {
    const char *name, *about, *equation;
    bool router;                           /* needs one */
    enum { NETWORKS, PARTS, LIMIT } where; /* in the limit: never, if its maps tell parts, always */
} term[TERMS] = {
    [H1_INIT] = {"h1_init", "pre-activation of the bottom, at t = 0", "W1_0 x", false, LIMIT},
    [H1_EFF] = {"h1_eff", "its change", "dW1 x", false, LIMIT},
    [PSI] = {"psi", "router logits, biases included", "Q s1", true, LIMIT},
    [H3] = {"h3", "output of the mixture", "A1 + A21 + A22 + A3", false, LIMIT},
    [H3_DELTA] = {"h3_delta", "its change", "h3 - h3_0", false, LIMIT},
    [F_DELTA] = {"f_delta", "change of the output", "f - f_0", false, LIMIT},
    [W4_UPD] = {"w4_upd", "change of the read-out, times N", "N dW4", false, LIMIT},
    [PSI_INIT] = {"psi_init", "logits at t = 0", "Q0 s1_0", true, PARTS},
    [PSI_PROP] = {"psi_prop", "logits, propagating", "Q0 ds1", true, PARTS},
    [PSI_EFF] = {"psi_eff", "logits, effective", "dQ s1", true, PARTS},
    [H2_INIT] = {"h2_init", "hidden units of the experts at t = 0", "W2_0 s1_0", false, PARTS},
    [H2_PROP] = {"h2_prop", "hidden units, propagating", "W2_0 ds1", false, PARTS},
    [H2_EFF] = {"h2_eff", "hidden units, effective", "dW2 s1", false, PARTS},
    [H3I_INIT] = {"h3i_init", "output of one expert, initial", "W3_0 s2_0", false, NETWORKS},
    [H3I_PROP] = {"h3i_prop", "output of one expert, propagating", "W3_0 ds2", false, NETWORKS},
    [H3I_EFF] = {"h3i_eff", "output of one expert, effective", "dW3 s2", false, NETWORKS},
    [A1] = {"A1", "aggregated: initial", "agg sum phi W3_0 s2_0", false, NETWORKS},
    [A21] = {"A21", "aggregated: propagating from the bottom",
             "agg sum phi W3_0 (sigma(W2_0 s1) - s2_0)", false, NETWORKS},
    [A22] = {"A22", "aggregated: propagating from W2", "agg sum phi W3_0 (s2 - sigma(W2_0 s1))",
             false, NETWORKS},
    [A3] = {"A3", "aggregated: effective", "agg sum phi dW3 s2", false, NETWORKS},
    [F_INIT] = {"f_init", "output at t = 0, not centred", "W4_0 h3_0", false, NETWORKS},
    [F_PROP] = {"f_prop", "output, propagating", "W4_0 dh3", false, NETWORKS},
    [F_EFF] = {"f_eff", "output, effective", "dW4 h3", false, NETWORKS},
    [B_00] = {"b_00", "gradient at the hidden units", "W3_0^T W4_0", false, NETWORKS},
    [B_0D] = {"b_0d", "gradient at the hidden units", "W3_0^T dW4", false, NETWORKS},
    [B_D0] = {"b_d0", "gradient at the hidden units", "dW3^T W4_0", false, NETWORKS},
    [B_DD] = {"b_dd", "gradient at the hidden units", "dW3^T dW4", false, NETWORKS},
    [DPHI_INIT] = {"dphi_init", "gradient of the gates, W3_0", "(b_00 + b_0d) s2", true, NETWORKS},
    [DPHI_UPD] = {"dphi_upd", "gradient of the gates, dW3", "(b_d0 + b_dd) s2", true, NETWORKS},
    [DPHI] = {"dphi", "gradient of the gates", "b s2", true, NETWORKS},
    [A4] = {"A4", "gradient through the experts", "N sum W2_0^T g2[W3_0]", false, NETWORKS},
    [A5] = {"A5", "gradient through the experts", "N sum W2_0^T g2[dW3]", false, NETWORKS},
    [A6] = {"A6", "gradient through the experts", "N sum dW2^T g2[W3_0]", false, NETWORKS},
    [E] = {"E", "gradient through the experts", "N sum dW2^T g2[dW3]", false, NETWORKS},
    [D1E] = {"d1e", "gradient through the experts", "A4 + A5 + A6 + E", false, NETWORKS},
    [R00] = {"R00", "gradient through the router", "N Q0^T dpsi[W3_0]", true, NETWORKS},
    [R0D] = {"R0d", "gradient through the router", "N Q0^T dpsi[dW3]", true, NETWORKS},
    [RD0] = {"Rd0", "gradient through the router", "N dQ^T dpsi[W3_0]", true, NETWORKS},
    [RDD] = {"Rdd", "gradient through the router", "N dQ^T dpsi[dW3]", true, NETWORKS},
    [D1R] = {"d1r", "gradient through the router", "R00 + R0d + Rd0 + Rdd", true, NETWORKS},
    [I6_INIT] = {"I6_init", "backward aggregation, initial", "N sum W2_0^T g2_0", false, NETWORKS},
    [I6_PROP] = {"I6_prop", "backward aggregation, propagating", "N sum W2_0^T dg2", false,
                 NETWORKS},
    [I6_EFF] = {"I6_eff", "backward aggregation, effective", "N sum dW2^T g2", false, NETWORKS},
};

static bool exists(int k, const struct net_setup *setup) {
    return (!term[k].router || setup->network->gate != GATE_CONSTANT) &&
           (setup->N || term[k].where == LIMIT || (term[k].where == PARTS && setup->parts));
}

int coordinate_declare(struct record *record, const struct net_setup *setup, struct err *err) {
    for (int k = 0; k < TERMS; k++) {
        struct series series = {.dims = "t",
                                .about = term[k].about,
                                .equation = term[k].equation,
                                .axes = 1,
                                .shape = {(size_t)record->T}};
        snprintf(series.name, sizeof series.name, "rms_%s", term[k].name);
        if (exists(k, setup))
            TRY(record_add(record, series, err));
    }
    return CODE_OK;
}

/* --- arithmetic ------------------------------------------------------------------------------ */

static double squares(const double *x, size_t n) {
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += x[k] * x[k];
    return sum;
}

static double rms(const double *x, size_t n) {
    return sqrt(squares(x, n) / (double)n);
}

/* y += c x */
static void add(double *y, double c, const double *x, size_t n) {
    for (size_t k = 0; k < n; k++)
        y[k] += c * x[k];
}

static void subtract(const double *x, const double *y, double *out, size_t n) {
    for (size_t k = 0; k < n; k++)
        out[k] = x[k] - y[k];
}

/* out [P][rows] = factor W x, W [rows][cols], x [P][cols] */
static void apply(double factor, const double *W, int rows, int cols, const double *x, int P,
                  double *out) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, P, rows, cols, factor, x, cols, W, cols, 0,
                out, rows);
}

/* out [P][cols] = factor W^T y, y [P][rows] */
static void apply_back(double factor, const double *W, int rows, int cols, const double *y, int P,
                       double *out) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, P, cols, rows, factor, y, rows, W, cols,
                0, out, cols);
}

static size_t units(const struct plain *p) {
    return (size_t)p->M * (size_t)p->N_e;
}

/* out_mu,ij = phi_mu,i x_mu,ij */
static void gated(const struct plain *p, const double *x, double *out) {
    size_t n = (size_t)p->P * units(p), N_e = (size_t)p->N_e;
    for (size_t k = 0; k < n; k++)
        out[k] = p->phi[k / N_e] * x[k];
}

/* x [P][units] becomes sigma(x), by the operations of the backend. */
static int activate(const struct net *net, int P, size_t sites, double *x, struct err *err) {
    struct array array = {0};
    int code;
    DO(array_init(&array, net->setup.backend, sites, 1, P, err));
    struct rows rows = array_all(&array);
    array.backend->put(rows, x);
    rows_fn(net_activation(net), rows, rows, (struct rows){0});
    array.backend->get(rows, x);
    DO(array.backend->sync(err));
done:
    array_free(&array);
    return code;
}

/* --- the terms; o: at t = 0, p: now -------------------------------------------------------------
 */

static void split(const struct coordinate *c, const double *W0, const double *dW, int rows,
                  double *value) {
    const struct plain *o = &c->start, *p = &c->now;
    size_t n = (size_t)p->P * (size_t)p->N, out = (size_t)p->P * (size_t)rows;
    apply(1, W0, rows, p->N, o->s1, p->P, c->work[0]);
    value[0] = rms(c->work[0], out);
    subtract(p->s1, o->s1, c->work[1], n);
    apply(1, W0, rows, p->N, c->work[1], p->P, c->work[0]);
    value[1] = rms(c->work[0], out);
    apply(1, dW, rows, p->N, p->s1, p->P, c->work[0]);
    value[2] = rms(c->work[0], out);
}

/* The same in the limit, of W0 s1 at both times and dW s1. */
static void split_parts(const struct coordinate *c, const double *start, const double *initial,
                        const double *effective, size_t n, double *value) {
    value[0] = rms(start, n);
    subtract(initial, start, c->work[0], n);
    value[1] = rms(c->work[0], n);
    value[2] = rms(effective, n);
}

static void limit_parts(const struct coordinate *c, double *value) {
    const struct plain *o = &c->start, *p = &c->now;
    size_t experts = (size_t)p->P * (size_t)p->M, hidden = (size_t)p->P * units(p);
    if (p->Q_init)
        split_parts(c, o->Q_init, p->Q_init, p->Q_eff, experts, value + PSI_INIT);
    else if (p->Q && p->W2_init) { /* few experts: <Q0, s1> is 0 but for sampling */
        apply(1, p->Q, p->M, p->N, p->s1, p->P, c->work[0]);
        value[PSI_EFF] = rms(c->work[0], experts);
    }
    if (p->W2_init)
        split_parts(c, o->W2_init, p->W2_init, p->W2_eff, hidden, value + H2_INIT);
}

/* What exists in the limit too. */
static void signals(const struct coordinate *c, double *value) {
    const struct plain *o = &c->start, *p = &c->now;
    size_t P = (size_t)p->P, N = (size_t)p->N;
    double *work = c->work[0], change = 0;
    value[H1_INIT] = rms(o->h1, P * N);
    subtract(p->h1, o->h1, work, P * N);
    value[H1_EFF] = rms(work, P * N);
    if (p->psi)
        value[PSI] = rms(p->psi, P * (size_t)p->M);
    value[H3] = rms(p->h3, P * N);
    subtract(p->h3, o->h3, work, P * N);
    value[H3_DELTA] = rms(work, P * N);
    value[W4_UPD] = (double)N * rms(p->W4, N);
    for (size_t mu = 0; mu < P; mu++) {
        double df = cblas_ddot(p->N, o->W4, 1, work + mu * N, 1) +
                    cblas_ddot(p->N, p->W4, 1, p->h3 + mu * N, 1);
        change += df * df;
    }
    value[F_DELTA] = sqrt(change / (double)P);
}

static double read_out(const double *W4, const double *h3, const struct plain *p) {
    double sum = 0;
    for (int mu = 0; mu < p->P; mu++) {
        double f = cblas_ddot(p->N, W4, 1, h3 + (size_t)mu * (size_t)p->N, 1);
        sum += f * f;
    }
    return sqrt(sum / p->P);
}

/* Over all experts i, of W3_i x_i. */
static double one_expert(const struct plain *p, const double *W3, const double *x, double *work) {
    int U = p->M * p->N_e;
    double sum = 0, count = (double)p->P * p->N * p->M;
    for (int i = 0; i < p->M; i++) {
        size_t first = (size_t)i * (size_t)p->N_e;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p->P, p->N, p->N_e, 1, x + first, U,
                    W3 + first, U, 0, work, p->N);
        sum += squares(work, (size_t)p->P * (size_t)p->N);
    }
    return sqrt(sum / count);
}

/* Of agg sum phi W3 x. */
static double aggregate(const struct coordinate *c, const double *W3, const double *x) {
    const struct plain *p = &c->now;
    gated(p, x, c->work[0]);
    apply(p->agg, W3, p->N, p->M * p->N_e, c->work[0], p->P, c->work[1]);
    return rms(c->work[1], (size_t)p->P * (size_t)p->N);
}

/* s2 of now, and of t = 0, once more by the arithmetic of the terms, whatever that of the maps:
 * what is zero is then zero to the last bit. */
static int hidden_units(const struct coordinate *c, const struct net *net, int t, struct err *err) {
    const struct plain *o = &c->start, *p = &c->now;
    int U = p->M * p->N_e;
    size_t n = (size_t)p->P * (size_t)U;
    apply(1, o->W2, U, p->N, p->s1, p->P, c->work[0]);
    apply(1, p->W2, U, p->N, p->s1, p->P, p->s2);
    add(p->s2, 1, c->work[0], n);
    TRY(activate(net, p->P, (size_t)U, p->s2, err));
    if (t == 0)
        memcpy(o->s2, p->s2, n * sizeof *o->s2);
    return CODE_OK;
}

static int forward(const struct coordinate *c, const struct net *net, double *value,
                   struct err *err) {
    const struct plain *o = &c->start, *p = &c->now;
    size_t n = (size_t)p->P * units(p);
    double *x = c->work[2], *part = c->work[3];
    if (p->Q)
        split(c, o->Q, p->Q, p->M, value + PSI_INIT);
    split(c, o->W2, p->W2, p->M * p->N_e, value + H2_INIT);
    subtract(p->s2, o->s2, x, n);
    value[H3I_INIT] = one_expert(p, o->W3, o->s2, part);
    value[H3I_PROP] = one_expert(p, o->W3, x, part);
    value[H3I_EFF] = one_expert(p, p->W3, p->s2, part);
    apply(1, o->W2, p->M * p->N_e, p->N, p->s1, p->P, x);
    TRY(activate(net, p->P, units(p), x, err));
    value[A1] = aggregate(c, o->W3, o->s2);
    subtract(x, o->s2, part, n);
    value[A21] = aggregate(c, o->W3, part);
    subtract(p->s2, x, part, n);
    value[A22] = aggregate(c, o->W3, part);
    value[A3] = aggregate(c, p->W3, p->s2);
    subtract(p->h3, o->h3, x, (size_t)p->P * (size_t)p->N);
    value[F_INIT] = read_out(o->W4, o->h3, p);
    value[F_PROP] = read_out(o->W4, x, p);
    value[F_EFF] = read_out(p->W4, p->h3, p);
    return CODE_OK;
}

/* b [units] = W3^T W4 */
static double back(const struct plain *p, const double *W3, const double *W4, double *b) {
    apply_back(p->b_scale, W3, p->N, p->M * p->N_e, W4, 1, b);
    return rms(b, units(p));
}

/* g2 [P][units] = agg phi slope2 b, with the gates and slopes of q. */
static void hidden_gradient(const struct plain *q, const double *b, double *g2) {
    size_t n = (size_t)q->P * units(q), N_e = (size_t)q->N_e;
    for (size_t k = 0; k < n; k++)
        g2[k] = q->agg / q->b_scale * q->phi[k / N_e] * q->slope2[k] * b[k % units(q)];
}

/* dphi [P][M] = b s2, which is 1/agg df/dphi */
static double gate_gradient(const struct plain *p, const double *b, double *dphi) {
    size_t n = (size_t)p->P * (size_t)p->M, N_e = (size_t)p->N_e;
    for (size_t k = 0; k < n; k++)
        dphi[k] =
            cblas_ddot(p->N_e, b + k % (size_t)p->M * N_e, 1, p->s2 + k * N_e, 1) / p->b_scale;
    return rms(dphi, n);
}

/* df/dpsi [P][M] from dphi: the transposed Jacobian of the gates. */
static void logit_gradient(const struct plain *p, const double *dphi, double *dpsi) {
    size_t M = (size_t)p->M;
    for (size_t mu = 0; mu < (size_t)p->P; mu++) {
        const double *phi = p->phi + mu * M, *in = dphi + mu * M;
        double sum = 0, mean = 0;
        for (size_t i = 0; i < M; i++) {
            sum += phi[i];
            mean += phi[i] * in[i];
        }
        for (size_t i = 0; i < M; i++)
            dpsi[mu * M + i] =
                p->agg * p->beta * phi[i] *
                (p->gate == GATE_SOFTMAX ? in[i] - mean / sum : (1 - p->share * phi[i]) * in[i]);
    }
}

/* N W0^T y and N dW^T y; both are added to sum [P][N]. */
static void paths(const struct coordinate *c, const double *W0, const double *dW, int rows,
                  const double *y, double *initial, double *learned, double *sum) {
    const struct plain *p = &c->now;
    size_t n = (size_t)p->P * (size_t)p->N;
    apply_back(p->N, W0, rows, p->N, y, p->P, c->work[0]);
    *initial = rms(c->work[0], n);
    add(sum, 1, c->work[0], n);
    apply_back(p->N, dW, rows, p->N, y, p->P, c->work[0]);
    *learned = rms(c->work[0], n);
    add(sum, 1, c->work[0], n);
}

/* b0, bd: b with W3_0 and with dW3. */
static void backward_router(const struct coordinate *c, const double *b0, const double *bd,
                            double *value) {
    const struct plain *o = &c->start, *p = &c->now;
    size_t n = (size_t)p->P * (size_t)p->N, logits = (size_t)p->P * (size_t)p->M;
    double *dphi = c->work[1], *dpsi = c->work[2], *sum = c->work[3];
    memset(sum, 0, n * sizeof *sum);
    value[DPHI_INIT] = gate_gradient(p, b0, dphi);
    logit_gradient(p, dphi, dpsi);
    paths(c, o->Q, p->Q, p->M, dpsi, &value[R00], &value[RD0], sum);
    memcpy(c->work[0], dphi, logits * sizeof *dphi);
    value[DPHI_UPD] = gate_gradient(p, bd, dphi);
    add(c->work[0], 1, dphi, logits);
    value[DPHI] = rms(c->work[0], logits);
    logit_gradient(p, dphi, dpsi);
    paths(c, o->Q, p->Q, p->M, dpsi, &value[R0D], &value[RDD], sum);
    value[D1R] = rms(sum, n);
}

/* The same, and b_00. */
static void backward_experts(const struct coordinate *c, const double *b0, const double *bd,
                             const double *b00, double *value) {
    const struct plain *o = &c->start, *p = &c->now;
    size_t n = (size_t)p->P * (size_t)p->N, hidden = (size_t)p->P * units(p);
    int U = p->M * p->N_e;
    double *g2 = c->work[1], *part = c->work[2], *sum = c->work[3];
    memset(sum, 0, n * sizeof *sum);
    hidden_gradient(p, b0, g2);
    paths(c, o->W2, p->W2, U, g2, &value[A4], &value[A6], sum);
    hidden_gradient(p, bd, part);
    paths(c, o->W2, p->W2, U, part, &value[A5], &value[E], sum);
    value[D1E] = rms(sum, n);
    add(g2, 1, part, hidden);
    hidden_gradient(o, b00, part);
    apply_back(p->N, o->W2, U, p->N, part, p->P, c->work[0]);
    value[I6_INIT] = rms(c->work[0], n);
    add(part, -1, g2, hidden);
    apply_back(p->N, o->W2, U, p->N, part, p->P, c->work[0]);
    value[I6_PROP] = rms(c->work[0], n);
    apply_back(p->N, p->W2, U, p->N, g2, p->P, c->work[0]);
    value[I6_EFF] = rms(c->work[0], n);
}

static int backward(const struct coordinate *c, double *value, struct err *err) {
    const struct plain *o = &c->start, *p = &c->now;
    size_t U = units(p);
    double *b;
    TRY(base_alloc(&b, 5 * U, sizeof *b, err));
    double *b00 = b, *b0 = b + U, *bd = b + 2 * U, *part = b + 3 * U;
    value[B_00] = back(p, o->W3, o->W4, b00);
    value[B_0D] = back(p, o->W3, p->W4, b0);
    add(b0, 1, b00, U);
    value[B_D0] = back(p, p->W3, o->W4, bd);
    value[B_DD] = back(p, p->W3, p->W4, part);
    add(bd, 1, part, U);
    if (p->Q)
        backward_router(c, b0, bd, value);
    backward_experts(c, b0, bd, b00, value);
    free(b);
    return CODE_OK;
}

/* --- measuring ------------------------------------------------------------------------------- */

/* Matrices become differences. */
static void difference(struct plain *p, const struct plain *start) {
    size_t wide = units(p) * (size_t)p->N;
    add(p->W4, -1, start->W4, (size_t)p->N);
    if (p->Q)
        add(p->Q, -1, start->Q, (size_t)p->M * (size_t)p->N);
    if (p->W2) {
        add(p->W2, -1, start->W2, wide);
        add(p->W3, -1, start->W3, wide);
    }
}

static int begin(struct coordinate *check, const struct net *net, struct err *err) {
    const struct plain *start = &check->start;
    TRY(net->model->plain(net, &check->start, err));
    size_t most = start->W2 || start->W2_init ? units(start) : 0, N = (size_t)start->N,
           M = (size_t)start->M;
    most = most > N ? most : N;
    most = most > M ? most : M;
    for (int k = 0; k < 4; k++)
        TRY(base_alloc(&check->work[k], (size_t)start->P * most, sizeof(double), err));
    return CODE_OK;
}

int coordinate_measure(struct coordinate *check, const struct net *net, int t, int run,
                       struct record *record, struct series **next, struct err *err) {
    double value[TERMS] = {0};
    if (!t)
        TRY(begin(check, net, err));
    plain_free(&check->now);
    TRY(net->model->plain(net, &check->now, err));
    difference(&check->now, &check->start);
    signals(check, value);
    limit_parts(check, value);
    if (net->setup.N) {
        TRY(hidden_units(check, net, t, err));
        TRY(forward(check, net, value, err));
        TRY(backward(check, value, err));
    }
    for (int k = 0; k < TERMS; k++)
        if (exists(k, &net->setup))
            *record_at(record, (*next)++, run, t) = value[k];
    return CODE_OK;
}

void coordinate_free(struct coordinate *check) {
    plain_free(&check->start);
    plain_free(&check->now);
    for (int k = 0; k < 4; k++)
        free(check->work[k]);
    *check = (struct coordinate){0};
}
