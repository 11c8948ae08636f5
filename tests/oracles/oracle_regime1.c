#include "tests/oracles/oracle_regime1.h"
#include "tests/oracles/oracle.h"

#include <string.h>

struct oracle1 *oracle1_new(int P, int D, int N, int M, int E) {
    struct oracle1 *o = memory(1, sizeof *o);
    o->P = P;
    o->D = D;
    o->N = N;
    o->M = M;
    o->E = E;
    o->gate = ORACLE1_SOFTMAX;
    o->activation = ORACLE_TANH;
    o->loss = ORACLE_MSE;
    o->eta0 = o->gamma0 = o->kappa_Q = 1;
    o->X = array(P * D);
    o->y = array(P);
    o->W1 = array(N * D);
    o->Q = array(M * N);
    o->W = array(E * M * N * N);
    o->b = array(M);
    o->w = array(N);
    o->noise = array(M);
    o->f0 = array(P);
    o->h1 = array(P * N);
    o->x1 = array(P * N);
    o->psi = array(P * M);
    o->mask = array(P * M);
    o->p = array(P * M);
    o->h = array(E * M * P * N);
    o->x = array(E * M * P * N);
    o->hL = array(P * N);
    o->f = array(P);
    o->Delta = array(P);
    o->g = array(E * M * P * N);
    o->gphi = array(P * M);
    o->gpsi = array(P * M);
    o->z1 = array(P * N);
    o->g1 = array(P * N);
    return o;
}

void oracle1_free(struct oracle1 *o) {
    if (!o)
        return;
    double *owned[] = {o->X,  o->y,  o->W1,    o->Q,   o->W,    o->b,    o->w,  o->noise,
                       o->f0, o->h1, o->x1,    o->psi, o->mask, o->p,    o->h,  o->x,
                       o->hL, o->f,  o->Delta, o->g,   o->gphi, o->gpsi, o->z1, o->g1};
    for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++)
        free(owned[k]);
    free(o);
}

double *oracle1_W(const struct oracle1 *o, int l, int i) {
    return o->W + (l * o->M + i) * o->N * o->N;
}

double *oracle1_h(const struct oracle1 *o, int l, int i) {
    return o->h + (l * o->M + i) * o->P * o->N;
}

double *oracle1_g(const struct oracle1 *o, int l, int i) {
    return o->g + (l * o->M + i) * o->P * o->N;
}

/* sigma(h) of layer l of expert i, [P][N]; l = -1 is layer 1 */
static double *outgoing(const struct oracle1 *o, int l, int i) {
    return l < 0 ? o->x1 : o->x + (l * o->M + i) * o->P * o->N;
}

/* o(h_L,i), [P][N] */
static const double *expert_output(const struct oracle1 *o, int i) {
    return o->activated ? outgoing(o, o->E - 1, i) : oracle1_h(o, o->E - 1, i);
}

/* mask and p of one input from psi */
static void gate_forward(const struct oracle1 *o, const double *psi, double *m, double *p) {
    int M = o->M;
    if (o->gate == ORACLE1_CONSTANT) {
        for (int i = 0; i < M; i++) {
            m[i] = 1;
            p[i] = 1;
        }
        return;
    }
    if (o->K < 0 || o->K > M)
        stop("K is not from 0 to M");
    if (!o->hold_mask)
        find_mask(psi, M, o->K ? o->K : M, m);
    if (o->gate == ORACLE1_SIGMOID) {
        for (int i = 0; i < M; i++)
            p[i] = m[i] * sig(psi[i]);
        return;
    }
    double top = -INFINITY, sum = 0; /* top: common shift of the exponents */
    for (int i = 0; i < M; i++)
        if (m[i] > 0 && psi[i] > top)
            top = psi[i];
    for (int i = 0; i < M; i++)
        if (m[i] > 0)
            sum += exp(psi[i] - top);
    for (int i = 0; i < M; i++)
        p[i] = m[i] > 0 ? exp(psi[i] - top) / sum : 0;
}

/* h1, x1, psi of one input */
static void forward_bottom(struct oracle1 *o, int mu) {
    int D = o->D, N = o->N, M = o->M;
    for (int n = 0; n < N; n++) {
        double sum = 0;
        for (int d = 0; d < D; d++)
            sum += o->W1[n * D + d] * o->X[mu * D + d];
        o->h1[mu * N + n] = sum / sqrt(D);
        o->x1[mu * N + n] = oracle_sigma(o->activation, o->h1[mu * N + n]);
    }
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int n = 0; n < N; n++)
            sum += o->Q[i * N + n] * o->x1[mu * N + n];
        o->psi[mu * M + i] = sum / N + o->b[i] + o->noise[i];
    }
}

/* h and x of layer l of expert i, one input */
static void forward_layer(struct oracle1 *o, int l, int i, int mu) {
    int N = o->N;
    const double *W = oracle1_W(o, l, i);
    const double *in = outgoing(o, l - 1, i) + mu * N;
    double *h = oracle1_h(o, l, i) + mu * N, *x = outgoing(o, l, i) + mu * N;
    for (int n = 0; n < N; n++) {
        double sum = 0;
        for (int k = 0; k < N; k++)
            sum += W[n * N + k] * in[k];
        h[n] = sum / sqrt(N);
        x[n] = oracle_sigma(o->activation, h[n]);
    }
}

/* hL and f of one input */
static void forward_top(struct oracle1 *o, int mu) {
    int N = o->N, M = o->M;
    double f = 0;
    for (int n = 0; n < N; n++) {
        double sum = 0;
        for (int i = 0; i < M; i++)
            sum += o->p[mu * M + i] * expert_output(o, i)[mu * N + n];
        o->hL[mu * N + n] = sum;
        f += o->w[n] * sum;
    }
    o->f[mu] = f / (o->gamma0 * N);
    if (o->centre)
        o->f[mu] -= o->f0[mu];
}

double oracle1_forward(struct oracle1 *o) {
    double loss = 0;
    for (int mu = 0; mu < o->P; mu++) {
        forward_bottom(o, mu);
        gate_forward(o, o->psi + mu * o->M, o->mask + mu * o->M, o->p + mu * o->M);
        for (int l = 0; l < o->E; l++)
            for (int i = 0; i < o->M; i++)
                forward_layer(o, l, i, mu);
        forward_top(o, mu);
        double y = o->y[mu], f = o->f[mu];
        if (o->loss == ORACLE_MSE) {
            loss += (y - f) * (y - f) / 2;
            o->Delta[mu] = y - f;
        } else {
            loss += oracle_sigma(ORACLE_SOFTPLUS, -y * f);
            o->Delta[mu] = y * sig(-y * f);
        }
    }
    return loss / o->P;
}

void oracle1_centre_here(struct oracle1 *o) {
    o->centre = false;
    oracle1_forward(o);
    for (int mu = 0; mu < o->P; mu++)
        o->f0[mu] = o->f[mu];
    o->centre = true;
}

/* gphi and gpsi of one input */
static void backward_gate(struct oracle1 *o, int mu) {
    int N = o->N, M = o->M;
    const double *p = o->p + mu * M;
    double *gphi = o->gphi + mu * M, *gpsi = o->gpsi + mu * M;
    double mean = 0; /* sum_i p_i gphi_i */
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int n = 0; n < N; n++)
            sum += o->w[n] * expert_output(o, i)[mu * N + n];
        gphi[i] = sum / N;
        mean += p[i] * gphi[i];
    }
    for (int i = 0; i < M; i++) {
        gpsi[i] = 0; /* constant gate: the router is not trained */
        if (o->gate == ORACLE1_SOFTMAX)
            gpsi[i] = p[i] * (gphi[i] - mean);
        else if (o->gate == ORACLE1_SIGMOID)
            gpsi[i] = o->mask[mu * M + i] * p[i] * (1 - p[i]) * gphi[i];
    }
}

/* g of layer l of expert i, one input; the layer above, if any, is done */
static void backward_layer(struct oracle1 *o, int l, int i, int mu) {
    int N = o->N;
    const double *h = oracle1_h(o, l, i) + mu * N;
    double *g = oracle1_g(o, l, i) + mu * N;
    if (l == o->E - 1) {
        for (int n = 0; n < N; n++) {
            double slope = o->activated ? oracle_sigma_prime(o->activation, h[n]) : 1;
            g[n] = o->p[mu * o->M + i] * o->w[n] * slope;
        }
        return;
    }
    const double *above = oracle1_g(o, l + 1, i) + mu * N;
    const double *W = oracle1_W(o, l + 1, i);
    for (int k = 0; k < N; k++) {
        double z = 0;
        for (int n = 0; n < N; n++)
            z += W[n * N + k] * above[n];
        g[k] = oracle_sigma_prime(o->activation, h[k]) * z / sqrt(N);
    }
}

/* z1 and g1 of one input */
static void backward_bottom(struct oracle1 *o, int mu) {
    int N = o->N, M = o->M;
    for (int k = 0; k < N; k++) {
        double sum = 0;
        for (int i = 0; i < M; i++) {
            const double *g = oracle1_g(o, 0, i) + mu * N;
            double z = 0;
            for (int n = 0; n < N; n++)
                z += oracle1_W(o, 0, i)[n * N + k] * g[n];
            sum += z / sqrt(N) + o->Q[i * N + k] * o->gpsi[mu * M + i];
        }
        o->z1[mu * N + k] = sum;
        o->g1[mu * N + k] = oracle_sigma_prime(o->activation, o->h1[mu * N + k]) * sum;
    }
}

void oracle1_backward(struct oracle1 *o) {
    for (int mu = 0; mu < o->P; mu++) {
        backward_gate(o, mu);
        for (int l = o->E - 1; l >= 0; l--)
            for (int i = 0; i < o->M; i++)
                backward_layer(o, l, i, mu);
        backward_bottom(o, mu);
    }
}

/* The right-hand sides hold stored quantities only, no parameters: the order does not matter. */
double oracle1_step(struct oracle1 *o) {
    int D = o->D, N = o->N, M = o->M;
    double loss = oracle1_forward(o);
    oracle1_backward(o);
    for (int mu = 0; mu < o->P; mu++) {
        double cd = o->eta0 * o->gamma0 / o->P * o->Delta[mu];
        for (int n = 0; n < N; n++)
            for (int d = 0; d < D; d++)
                o->W1[n * D + d] += cd * o->g1[mu * N + n] * o->X[mu * D + d] / sqrt(D);
        for (int i = 0; i < M; i++) {
            for (int n = 0; n < N; n++)
                o->Q[i * N + n] += o->kappa_Q * cd * o->gpsi[mu * M + i] * o->x1[mu * N + n];
            o->b[i] += o->kappa_b * cd * o->gpsi[mu * M + i];
        }
        for (int l = 0; l < o->E; l++)
            for (int i = 0; i < M; i++)
                for (int n = 0; n < N; n++)
                    for (int k = 0; k < N; k++)
                        oracle1_W(o, l, i)[n * N + k] += cd / sqrt(N) *
                                                         oracle1_g(o, l, i)[mu * N + n] *
                                                         outgoing(o, l - 1, i)[mu * N + k];
        for (int n = 0; n < N; n++)
            o->w[n] += cd * o->hL[mu * N + n];
    }
    return loss;
}

int oracle1_blocks(const struct oracle1 *o) {
    return ORACLE1_MATRICES + o->E * o->M;
}

double *oracle1_block(const struct oracle1 *o, int block, int *count) {
    switch (block) {
    case ORACLE1_W1:
        *count = o->N * o->D;
        return o->W1;
    case ORACLE1_Q:
        *count = o->M * o->N;
        return o->Q;
    case ORACLE1_B:
        *count = o->M;
        return o->b;
    case ORACLE1_READOUT:
        *count = o->N;
        return o->w;
    }
    int matrix = block - ORACLE1_MATRICES;
    if (matrix < 0 || matrix >= o->E * o->M)
        stop("unknown block");
    *count = o->N * o->N;
    return oracle1_W(o, matrix / o->M, matrix % o->M);
}

double oracle1_rate(const struct oracle1 *o, int block) {
    double eta = o->eta0 * o->gamma0 * o->gamma0;
    if (block == ORACLE1_B)
        return eta * o->kappa_b;
    return eta * o->N * (block == ORACLE1_Q ? o->kappa_Q : 1);
}

/* (8 [L(h) - L(-h)] - [L(2h) - L(-2h)]) / (12 h) for one parameter, the mask as it stands */
static double difference(struct oracle1 *o, double *parameter, double h) {
    const double step[4] = {h, -h, 2 * h, -2 * h};
    double here = *parameter, at[4];
    for (int k = 0; k < 4; k++) {
        *parameter = here + step[k];
        at[k] = oracle1_forward(o);
    }
    *parameter = here;
    return (8 * (at[0] - at[1]) - (at[2] - at[3])) / (12 * h);
}

/* all blocks one after the other in one new array */
static double *copy_parameters(const struct oracle1 *o, int *total) {
    int count;
    *total = 0;
    for (int block = 0; block < oracle1_blocks(o); block++) {
        oracle1_block(o, block, &count);
        *total += count;
    }
    double *all = array(*total), *next = all;
    for (int block = 0; block < oracle1_blocks(o); block++, next += count) {
        const double *from = oracle1_block(o, block, &count);
        memcpy(next, from, (size_t)count * sizeof *from);
    }
    return all;
}

void oracle1_gradient_check(struct oracle1 *o, double h, double *error, double *scale) {
    int total, count;
    bool held = o->hold_mask;
    oracle1_forward(o);
    o->hold_mask = true;
    double *before = copy_parameters(o, &total), *expected = array(total);
    for (int block = 0, at = 0; block < oracle1_blocks(o); block++, at += count) {
        double *w = oracle1_block(o, block, &count);
        for (int k = 0; k < count; k++)
            expected[at + k] = -oracle1_rate(o, block) * difference(o, w + k, h);
    }
    oracle1_step(o);
    for (int block = 0, at = 0; block < oracle1_blocks(o); block++, at += count) {
        double *w = oracle1_block(o, block, &count);
        error[block] = scale[block] = 0;
        for (int k = 0; k < count; k++) {
            double gap = fabs(w[k] - before[at + k] - expected[at + k]);
            if (isnan(gap) || gap > error[block]) /* once NaN, always NaN */
                error[block] = gap;
            if (fabs(expected[at + k]) > scale[block])
                scale[block] = fabs(expected[at + k]);
        }
        memcpy(w, before + at, (size_t)count * sizeof *w);
    }
    free(before);
    free(expected);
    o->hold_mask = held;
}

/* a b of two vectors of N numbers, divided by N */
static double mean_product(const struct oracle1 *o, const double *a, const double *b) {
    return dot(a, b, o->N) / o->N;
}

double oracle1_phi1(const struct oracle1 *o, int mu, int nu) {
    return mean_product(o, o->x1 + mu * o->N, o->x1 + nu * o->N);
}

double oracle1_g1(const struct oracle1 *o, int mu, int nu) {
    return mean_product(o, o->g1 + mu * o->N, o->g1 + nu * o->N);
}

double oracle1_phiL(const struct oracle1 *o, int mu, int nu) {
    return mean_product(o, o->hL + mu * o->N, o->hL + nu * o->N);
}

double oracle1_phi(const struct oracle1 *o, int l, int i, int mu, int nu) {
    const double *x = outgoing(o, l, i);
    return mean_product(o, x + mu * o->N, x + nu * o->N);
}

double oracle1_gg(const struct oracle1 *o, int l, int i, int mu, int nu) {
    const double *g = oracle1_g(o, l, i);
    return mean_product(o, g + mu * o->N, g + nu * o->N);
}
