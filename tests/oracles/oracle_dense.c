#include "tests/oracles/oracle_dense.h"
#include "tests/oracles/plain.h"

#include <string.h>

struct oracle_dense *oracle_dense_new(int P, int D, int N, int depth) {
    return oracle_dense_new_outputs(P, D, N, depth, 1);
}

struct oracle_dense *oracle_dense_new_outputs(int P, int D, int N, int depth, int C) {
    struct oracle_dense *o = memory(1, sizeof *o);
    o->P = P;
    o->D = D;
    o->N = N;
    o->depth = depth;
    o->C = C;
    o->activation = ORACLE_TANH;
    o->loss = ORACLE_MSE;
    o->eta0 = o->gamma0 = 1;
    o->X = array(P * D);
    o->y = array(P * C);
    o->W1 = array(N * D);
    o->W = array((depth - 1) * N * N);
    o->w = array(C * N);
    o->f0 = array(P * C);
    o->h = array(depth * P * N);
    o->f = array(P * C);
    o->Delta = array(P * C);
    o->g = array(depth * P * N);
    return o;
}

void oracle_dense_free(struct oracle_dense *o) {
    if (!o)
        return;
    double *owned[] = {o->X, o->y, o->W1, o->W, o->w, o->f0, o->h, o->f, o->Delta, o->g};
    for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++)
        free(owned[k]);
    free(o);
}

/* Entry n of h_l or g_l of input mu, l from 1. */
static int entry(const struct oracle_dense *o, int l, int mu, int n) {
    return ((l - 1) * o->P + mu) * o->N + n;
}

/* W_l from neuron k to neuron n, l from 2. */
static double *weight(const struct oracle_dense *o, int l, int n, int k) {
    return o->W + ((l - 2) * o->N + n) * o->N + k;
}

/* sigma(h_l) of neuron n */
static double outgoing(const struct oracle_dense *o, int l, int mu, int n) {
    return oracle_sigma(o->activation, o->h[entry(o, l, mu, n)]);
}

static void forward_layer(struct oracle_dense *o, int l, int mu) {
    for (int n = 0; n < o->N; n++)
        o->h[entry(o, l, mu, n)] = 0;
    if (l == 1) {
        for (int n = 0; n < o->N; n++)
            for (int d = 0; d < o->D; d++)
                o->h[entry(o, 1, mu, n)] += o->W1[n * o->D + d] * o->X[mu * o->D + d] / sqrt(o->D);
        return;
    }
    for (int k = 0; k < o->N; k++) {
        double in = outgoing(o, l - 1, mu, k) / sqrt(o->N);
        for (int n = 0; n < o->N; n++)
            o->h[entry(o, l, mu, n)] += *weight(o, l, n, k) * in;
    }
}

/* l and Delta of one input, from f */
static double lose(struct oracle_dense *o, int mu) {
    const double *f = o->f + mu * o->C, *y = o->y + mu * o->C;
    double *Delta = o->Delta + mu * o->C, sum = 0, l = 0;
    for (int c = 0; c < o->C; c++)
        sum += exp(f[c]);
    for (int c = 0; c < o->C; c++)
        if (o->loss == ORACLE_MSE) {
            Delta[c] = y[c] - f[c];
            l += (y[c] - f[c]) * (y[c] - f[c]) / 2;
        } else if (o->loss == ORACLE_CROSS_ENTROPY) {
            Delta[c] = y[c] - exp(f[c]) / sum;
            l -= y[c] * log(exp(f[c]) / sum);
        } else {
            Delta[c] = y[c] / (1 + exp(y[c] * f[c]));
            l += log1p(exp(-y[c] * f[c]));
        }
    return l;
}

double oracle_dense_forward(struct oracle_dense *o) {
    double loss = 0;
    for (int mu = 0; mu < o->P; mu++) {
        for (int l = 1; l <= o->depth; l++)
            forward_layer(o, l, mu);
        for (int c = 0; c < o->C; c++) {
            double f = 0;
            for (int n = 0; n < o->N; n++)
                f += o->w[c * o->N + n] * outgoing(o, o->depth, mu, n);
            f /= o->gamma0 * o->N;
            o->f[mu * o->C + c] = o->centre ? f - o->f0[mu * o->C + c] : f;
        }
        loss += lose(o, mu);
    }
    return loss / o->P;
}

void oracle_dense_backward(struct oracle_dense *o) {
    for (int mu = 0; mu < o->P; mu++)
        for (int l = o->depth; l >= 1; l--)
            for (int k = 0; k < o->N; k++) {
                double z = 0;
                for (int c = 0; c < o->C && l == o->depth; c++)
                    z += (o->C > 1 ? o->Delta[mu * o->C + c] : 1) * o->w[c * o->N + k];
                if (l < o->depth)
                    for (int n = 0; n < o->N; n++)
                        z += *weight(o, l + 1, n, k) * o->g[entry(o, l + 1, mu, n)] / sqrt(o->N);
                int here = entry(o, l, mu, k);
                o->g[here] = oracle_sigma_prime(o->activation, o->h[here]) * z;
            }
}

double oracle_dense_step(struct oracle_dense *o) {
    double loss = oracle_dense_forward(o);
    oracle_dense_backward(o);
    for (int mu = 0; mu < o->P; mu++) {
        const double *Delta = o->Delta + mu * o->C;
        double step = o->eta0 * o->gamma0 / o->P;
        double unit = o->C > 1 ? step : step * Delta[0]; /* - rate dloss/dh = unit g */
        for (int n = 0; n < o->N; n++) {
            for (int d = 0; d < o->D; d++)
                o->W1[n * o->D + d] +=
                    unit * o->g[entry(o, 1, mu, n)] * o->X[mu * o->D + d] / sqrt(o->D);
            for (int c = 0; c < o->C; c++)
                o->w[c * o->N + n] += step * Delta[c] * outgoing(o, o->depth, mu, n);
        }
        for (int l = 2; l <= o->depth; l++)
            for (int k = 0; k < o->N; k++) {
                double in = outgoing(o, l - 1, mu, k) / sqrt(o->N);
                for (int n = 0; n < o->N; n++)
                    *weight(o, l, n, k) += unit * o->g[entry(o, l, mu, n)] * in;
            }
    }
    return loss;
}

double *oracle_dense_block(const struct oracle_dense *o, int block, int *count) {
    *count = block == 0 ? o->C * o->N : block == 1 ? o->N * o->D : o->N * o->N;
    return block == 0 ? o->w : block == 1 ? o->W1 : weight(o, block, 0, 0);
}

/* (8 [L(h) - L(-h)] - [L(2h) - L(-2h)]) / (12 h) for one parameter */
static double difference(struct oracle_dense *o, double *parameter, double h) {
    double here = *parameter, sum = 0;
    const double step[4] = {h, -h, 2 * h, -2 * h}, factor[4] = {8, -8, -1, 1};
    for (int k = 0; k < 4; k++) {
        *parameter = here + step[k];
        sum += factor[k] * oracle_dense_forward(o);
    }
    *parameter = here;
    return sum / (12 * h);
}

void oracle_dense_gradient_check(struct oracle_dense *o, double h, double *error, double *scale) {
    double rate = o->eta0 * o->gamma0 * o->gamma0 * o->N;
    int blocks = o->depth + 1, widest = o->N > o->D ? o->N : o->D, count;
    int largest = o->N * (widest > o->C ? widest : o->C);
    double *before = array(blocks * largest), *expected = array(blocks * largest);
    for (int block = 0; block < blocks; block++) {
        double *w = oracle_dense_block(o, block, &count);
        for (int k = 0; k < count; k++) {
            before[block * largest + k] = w[k];
            expected[block * largest + k] = -rate * difference(o, w + k, h);
        }
    }
    oracle_dense_step(o);
    for (int block = 0; block < blocks; block++) {
        double *w = oracle_dense_block(o, block, &count);
        error[block] = scale[block] = 0;
        for (int k = 0; k < count; k++) {
            double want = expected[block * largest + k];
            double gap = fabs(w[k] - before[block * largest + k] - want);
            if (isnan(gap) || gap > error[block]) /* once NaN, always NaN */
                error[block] = gap;
            scale[block] = fmax(scale[block], fabs(want));
            w[k] = before[block * largest + k];
        }
    }
    free(before);
    free(expected);
}

double oracle_dense_phi(const struct oracle_dense *o, int l, int mu, int nu) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += outgoing(o, l, mu, n) * outgoing(o, l, nu, n);
    return sum / o->N;
}

double oracle_dense_gg(const struct oracle_dense *o, int l, int mu, int nu) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += o->g[entry(o, l, mu, n)] * o->g[entry(o, l, nu, n)];
    return sum / o->N;
}
