#include "tests/oracles/oracle_resnet.h"
#include "tests/oracles/oracle.h"

struct oracle_resnet *oracle_resnet_new(int P, int D, int N, int L) {
    struct oracle_resnet *o = memory(1, sizeof *o);
    *o = (struct oracle_resnet){.P = P, .D = D, .N = N, .L = L};
    o->activation = ORACLE_TANH;
    o->loss = ORACLE_MSE;
    o->eta0 = o->gamma0 = o->branch = 1;
    o->X = array(P * D);
    o->y = array(P);
    o->W0 = array(N * D);
    o->W = array(L * N * N);
    o->w = array(N);
    o->f0 = array(P);
    o->h = array((L + 1) * P * N);
    o->f = array(P);
    o->Delta = array(P);
    o->g = array((L + 1) * P * N);
    return o;
}

void oracle_resnet_free(struct oracle_resnet *o) {
    if (!o)
        return;
    double *owned[] = {o->X, o->y, o->W0, o->W, o->w, o->f0, o->h, o->f, o->Delta, o->g};
    for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++)
        free(owned[k]);
    free(o);
}

/* h_l or g_l of input mu, [N]. */
static double *layer(const struct oracle_resnet *o, double *rows, int l, int mu) {
    return rows + (l * o->P + mu) * o->N;
}

/* W_l from neuron k to neuron n. */
static double *weight(const struct oracle_resnet *o, int l, int n, int k) {
    return o->W + (l * o->N + n) * o->N + k;
}

/* (b/sqrt L)/sqrt N */
static double branch(const struct oracle_resnet *o) {
    return o->branch / sqrt(o->L) / sqrt(o->N);
}

/* (1) of one input */
static void forward_input(struct oracle_resnet *o, int mu) {
    double *h = layer(o, o->h, 0, mu);
    for (int n = 0; n < o->N; n++) {
        h[n] = 0;
        for (int d = 0; d < o->D; d++)
            h[n] += o->W0[n * o->D + d] * o->X[mu * o->D + d] / sqrt(o->D);
    }
    for (int l = 0; l < o->L; l++) {
        double *next = layer(o, o->h, l + 1, mu);
        h = layer(o, o->h, l, mu);
        for (int n = 0; n < o->N; n++) {
            double sum = 0;
            for (int k = 0; k < o->N; k++)
                sum += *weight(o, l, n, k) * oracle_sigma(o->activation, h[k]);
            next[n] = h[n] + branch(o) * sum;
        }
    }
}

double oracle_resnet_forward(struct oracle_resnet *o) {
    double loss = 0;
    for (int mu = 0; mu < o->P; mu++) {
        double f = 0, y = o->y[mu];
        forward_input(o, mu);
        for (int n = 0; n < o->N; n++)
            f += o->w[n] * layer(o, o->h, o->L, mu)[n];
        f = f / (o->gamma0 * o->N) - o->f0[mu];
        o->f[mu] = f;
        if (o->loss == ORACLE_MSE) {
            o->Delta[mu] = y - f;
            loss += (y - f) * (y - f) / 2;
        } else {
            o->Delta[mu] = y / (1 + exp(y * f));
            loss += log1p(exp(-y * f));
        }
    }
    return loss / o->P;
}

/* (3) */
void oracle_resnet_backward(struct oracle_resnet *o) {
    for (int mu = 0; mu < o->P; mu++) {
        for (int n = 0; n < o->N; n++)
            layer(o, o->g, o->L, mu)[n] = o->w[n];
        for (int l = o->L - 1; l >= 0; l--) {
            const double *above = layer(o, o->g, l + 1, mu), *h = layer(o, o->h, l, mu);
            for (int k = 0; k < o->N; k++) {
                double sum = 0;
                for (int n = 0; n < o->N; n++)
                    sum += *weight(o, l, n, k) * above[n];
                layer(o, o->g, l, mu)[k] =
                    above[k] + branch(o) * oracle_sigma_prime(o->activation, h[k]) * sum;
            }
        }
    }
}

/* (4), (5) */
double oracle_resnet_step(struct oracle_resnet *o) {
    double loss = oracle_resnet_forward(o);
    oracle_resnet_backward(o);
    for (int mu = 0; mu < o->P; mu++) {
        double c = o->eta0 * o->gamma0 / o->P * o->Delta[mu];
        for (int l = 0; l < o->L; l++)
            for (int n = 0; n < o->N; n++)
                for (int k = 0; k < o->N; k++)
                    *weight(o, l, n, k) += c * branch(o) * layer(o, o->g, l + 1, mu)[n] *
                                           oracle_sigma(o->activation, layer(o, o->h, l, mu)[k]);
        for (int n = 0; n < o->N; n++) {
            o->w[n] += c * layer(o, o->h, o->L, mu)[n];
            for (int d = 0; d < o->D; d++)
                o->W0[n * o->D + d] +=
                    c * layer(o, o->g, 0, mu)[n] * o->X[mu * o->D + d] / sqrt(o->D);
        }
    }
    return loss;
}

double *oracle_resnet_block(const struct oracle_resnet *o, int block, int *count) {
    *count = block == 0 ? o->N : block == 1 ? o->N * o->D : o->N * o->N;
    return block == 0 ? o->w : block == 1 ? o->W0 : weight(o, block - 2, 0, 0);
}

static double mean_product(const struct oracle_resnet *o, double *rows, int l, int mu, int nu) {
    return dot(layer(o, rows, l, mu), layer(o, rows, l, nu), o->N) / o->N;
}

double oracle_resnet_phi(const struct oracle_resnet *o, int l, int mu, int nu) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += oracle_sigma(o->activation, layer(o, o->h, l, mu)[n]) *
               oracle_sigma(o->activation, layer(o, o->h, l, nu)[n]);
    return sum / o->N;
}

double oracle_resnet_hh(const struct oracle_resnet *o, int l, int mu, int nu) {
    return mean_product(o, o->h, l, mu, nu);
}

double oracle_resnet_gg(const struct oracle_resnet *o, int l, int mu, int nu) {
    return mean_product(o, o->g, l, mu, nu);
}
