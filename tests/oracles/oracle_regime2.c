#include "tests/oracles/oracle_regime2.h"
#include "tests/oracles/oracle.h"

#include <string.h>

static const double TWO_OVER_SQRT_PI = 1.12837916709551257390;
static const double ONE_OVER_SQRT_2PI = 0.398942280401432677940;
static const double SQRT_HALF = 0.707106781186547524401;

struct oracle *oracle_new(int P, int D, int N, int M, int Ne) {
    struct oracle *o = memory(1, sizeof *o);
    o->P = P;
    o->D = D;
    o->N = N;
    o->M = M;
    o->Ne = Ne;
    o->gate = ORACLE_SOFTMAX;
    o->activation = ORACLE_TANH;
    o->loss = ORACLE_MSE;
    o->gamma0 = o->beta = o->lambda_in = o->rho = o->eta0 = 1;
    o->X = array(P * D);
    o->y = array(P);
    o->W1 = array(N * D);
    o->Q = array(M * N);
    o->W2in = array(M * Ne * N);
    o->W2out = array(N * M * Ne);
    o->w4 = array(N);
    o->f0 = array(P);
    o->h1 = array(P * N);
    o->psi = array(P * M);
    o->mask = array(P * M);
    o->phi = array(P * M);
    o->h2 = array(P * M * Ne);
    o->h3 = array(P * N);
    o->f = array(P);
    o->Delta = array(P);
    o->b = array(M * Ne);
    o->gam = array(P * M);
    o->gbar = array(P);
    o->gphi = array(P * M);
    o->g2 = array(P * M * Ne);
    o->z1 = array(P * N);
    o->g1 = array(P * N);
    return o;
}

void oracle_free(struct oracle *o) {
    if (!o)
        return;
    double *owned[] = {o->X,  o->y,   o->W1,   o->Q,    o->W2in, o->W2out, o->w4, o->f0,
                       o->h1, o->psi, o->mask, o->phi,  o->h2,   o->h3,    o->f,  o->Delta,
                       o->b,  o->gam, o->gbar, o->gphi, o->g2,   o->z1,    o->g1};
    for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++)
        free(owned[k]);
    free(o);
}

static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

double oracle_sigma(enum oracle_activation activation, double h) {
    switch (activation) {
    case ORACLE_TANH:
        return tanh(h);
    case ORACLE_ERF:
        return erf(h);
    case ORACLE_RELU:
        return h > 0 ? h : 0;
    case ORACLE_GELU:
        return h * 0.5 * erfc(-h * SQRT_HALF);
    case ORACLE_SOFTPLUS:
        return softplus(h);
    case ORACLE_LINEAR:
        return h;
    }
    stop("unknown activation");
    return 0;
}

double oracle_sigma_prime(enum oracle_activation activation, double h) {
    switch (activation) {
    case ORACLE_TANH:
        return 1 - tanh(h) * tanh(h);
    case ORACLE_ERF:
        return TWO_OVER_SQRT_PI * exp(-h * h);
    case ORACLE_RELU:
        return h > 0 ? 1 : 0;
    case ORACLE_GELU:
        return 0.5 * erfc(-h * SQRT_HALF) + h * ONE_OVER_SQRT_2PI * exp(-h * h / 2);
    case ORACLE_SOFTPLUS:
        return sig(h);
    case ORACLE_LINEAR:
        return 1;
    }
    stop("unknown activation");
    return 0;
}

static void softmax_gate(const struct oracle *o, const double *psi, const double *m, double *phi) {
    double top = -INFINITY; /* common shift of the exponents */
    for (int i = 0; i < o->M; i++)
        if (m[i] > 0 && o->beta * psi[i] > top)
            top = o->beta * psi[i];
    double sum = 0;
    for (int i = 0; i < o->M; i++)
        if (m[i] > 0)
            sum += exp(o->beta * psi[i] - top);
    for (int i = 0; i < o->M; i++)
        phi[i] = m[i] > 0 ? o->M * exp(o->beta * psi[i] - top) / sum : 0;
}

/* mask and phi of one input from psi */
static void gate_forward(const struct oracle *o, const double *psi, double *m, double *phi) {
    if (o->gate == ORACLE_CONSTANT) {
        for (int i = 0; i < o->M; i++) {
            m[i] = 1;
            phi[i] = 1;
        }
        return;
    }
    if (!o->hold_mask)
        find_mask(psi, o->M, whole(o->rho * o->M), m);
    if (o->gate == ORACLE_SOFTMAX) {
        softmax_gate(o, psi, m, phi);
        return;
    }
    for (int i = 0; i < o->M; i++) {
        phi[i] = m[i] * sig(o->beta * psi[i]);
        if (o->gate == ORACLE_SIGMOID_K)
            phi[i] /= o->rho;
    }
}

/* h1, psi, h2 of one input */
static void forward_bottom(const struct oracle *o, int mu) {
    int D = o->D, N = o->N, M = o->M, Ne = o->Ne;
    for (int n = 0; n < N; n++) {
        double sum = 0;
        for (int d = 0; d < D; d++)
            sum += o->W1[n * D + d] * o->X[mu * D + d];
        o->h1[mu * N + n] = sum / sqrt(D);
    }
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int n = 0; n < N; n++)
            sum += o->Q[i * N + n] * oracle_sigma(o->activation, o->h1[mu * N + n]);
        o->psi[mu * M + i] = sum / sqrt(N);
    }
    for (int u = 0; u < M * Ne; u++) {
        double sum = 0;
        for (int n = 0; n < N; n++)
            sum += o->W2in[u * N + n] * oracle_sigma(o->activation, o->h1[mu * N + n]);
        o->h2[mu * M * Ne + u] = sum / sqrt(N);
    }
}

/* h3 and f of one input */
static void forward_top(const struct oracle *o, int mu) {
    int N = o->N, M = o->M, Ne = o->Ne;
    for (int n = 0; n < N; n++) {
        double h3 = 0;
        for (int i = 0; i < M; i++) {
            double h2out = 0;
            for (int j = 0; j < Ne; j++)
                h2out += o->W2out[n * M * Ne + i * Ne + j] *
                         oracle_sigma(o->activation, o->h2[mu * M * Ne + i * Ne + j]);
            h2out *= sqrt((double)M / Ne);
            h3 += o->phi[mu * M + i] * h2out;
        }
        o->h3[mu * N + n] = h3 / M;
    }
    double f = 0;
    for (int n = 0; n < N; n++)
        f += o->w4[n] * o->h3[mu * N + n];
    o->f[mu] = f / (o->gamma0 * N);
    if (o->centre)
        o->f[mu] -= o->f0[mu];
}

double oracle_forward(struct oracle *o) {
    double loss = 0;
    for (int mu = 0; mu < o->P; mu++) {
        forward_bottom(o, mu);
        gate_forward(o, o->psi + mu * o->M, o->mask + mu * o->M, o->phi + mu * o->M);
        forward_top(o, mu);
        double y = o->y[mu], f = o->f[mu];
        if (o->loss == ORACLE_MSE) {
            loss += (y - f) * (y - f) / 2;
            o->Delta[mu] = y - f;
        } else {
            loss += softplus(-y * f);
            o->Delta[mu] = y * sig(-y * f);
        }
    }
    return loss / o->P;
}

void oracle_centre_here(struct oracle *o) {
    o->centre = false;
    oracle_forward(o);
    for (int mu = 0; mu < o->P; mu++)
        o->f0[mu] = o->f[mu];
    o->centre = true;
}

/* gamma, gbar, gphi of one input */
static void backward_gate(const struct oracle *o, int mu) {
    int M = o->M, Ne = o->Ne;
    double c = sqrt((double)M / o->N / Ne);
    double gbar = 0;
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int j = 0; j < Ne; j++)
            sum += o->b[i * Ne + j] * oracle_sigma(o->activation, o->h2[mu * M * Ne + i * Ne + j]);
        o->gam[mu * M + i] = c * sum;
        gbar += o->phi[mu * M + i] * o->gam[mu * M + i] / M;
    }
    o->gbar[mu] = o->gate == ORACLE_SOFTMAX ? gbar : 0;
    for (int i = 0; i < M; i++) {
        double gam = o->gam[mu * M + i];
        double s = sig(o->beta * o->psi[mu * M + i]);
        double slope = o->beta * o->mask[mu * M + i] * s * (1 - s);
        double gphi = 0; /* constant gate: the router is not trained */
        if (o->gate == ORACLE_SOFTMAX)
            gphi = o->beta * o->phi[mu * M + i] * (gam - gbar);
        else if (o->gate == ORACLE_SIGMOID_M)
            gphi = slope * gam;
        else if (o->gate == ORACLE_SIGMOID_K)
            gphi = slope / o->rho * gam;
        o->gphi[mu * M + i] = gphi;
    }
}

/* g2, z1, g1 of one input */
static void backward_input(const struct oracle *o, int mu) {
    int N = o->N, M = o->M, Ne = o->Ne;
    double kappa = (double)M / N;
    double c = sqrt(kappa / Ne);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < Ne; j++)
            o->g2[mu * M * Ne + i * Ne + j] =
                c * o->phi[mu * M + i] * o->b[i * Ne + j] *
                oracle_sigma_prime(o->activation, o->h2[mu * M * Ne + i * Ne + j]);
    for (int n = 0; n < N; n++) {
        double sum = 0;
        for (int i = 0; i < M; i++)
            sum += o->Q[i * N + n] * o->gphi[mu * M + i];
        for (int u = 0; u < M * Ne; u++)
            sum += o->W2in[u * N + n] * o->g2[mu * M * Ne + u];
        o->z1[mu * N + n] = sum / (kappa * sqrt(N));
        o->g1[mu * N + n] =
            oracle_sigma_prime(o->activation, o->h1[mu * N + n]) * o->z1[mu * N + n];
    }
}

void oracle_backward(struct oracle *o) {
    int N = o->N, M = o->M, Ne = o->Ne;
    for (int u = 0; u < M * Ne; u++) {
        double sum = 0;
        for (int n = 0; n < N; n++)
            sum += o->W2out[n * M * Ne + u] * o->w4[n];
        o->b[u] = sum / sqrt(N);
    }
    for (int mu = 0; mu < o->P; mu++) {
        backward_gate(o, mu);
        backward_input(o, mu);
    }
}

/* The output block goes before w4 because its step needs w4 before the step; everything else that
 * the steps read (h1 ... h3, phi, the g) is stored. */
double oracle_step(struct oracle *o) {
    int D = o->D, N = o->N, M = o->M, Ne = o->Ne;
    double kappa = (double)M / N;
    double r = o->eta0 * o->gamma0 / o->P;
    double lambda_Q = kappa;
    double loss = oracle_forward(o);
    oracle_backward(o);
    for (int mu = 0; mu < o->P; mu++) {
        double rd = r * o->Delta[mu];
        for (int n = 0; n < N; n++)
            for (int d = 0; d < D; d++)
                o->W1[n * D + d] += rd * o->g1[mu * N + n] * o->X[mu * D + d] / sqrt(D);
        for (int n = 0; n < N; n++) {
            double s1 = oracle_sigma(o->activation, o->h1[mu * N + n]);
            for (int i = 0; i < M; i++)
                o->Q[i * N + n] += rd * lambda_Q / kappa * o->gphi[mu * M + i] * s1 / sqrt(N);
            for (int u = 0; u < M * Ne; u++)
                o->W2in[u * N + n] +=
                    rd * o->lambda_in / kappa * o->g2[mu * M * Ne + u] * s1 / sqrt(N);
        }
        for (int i = 0; i < M; i++)
            for (int j = 0; j < Ne; j++) {
                int u = i * Ne + j;
                double s2 = oracle_sigma(o->activation, o->h2[mu * M * Ne + u]);
                for (int n = 0; n < N; n++)
                    o->W2out[n * M * Ne + u] +=
                        rd * o->w4[n] * o->phi[mu * M + i] * s2 / sqrt((double)M * Ne);
            }
    }
    for (int mu = 0; mu < o->P; mu++)
        for (int n = 0; n < N; n++)
            o->w4[n] += r * o->Delta[mu] * o->h3[mu * N + n];
    return loss;
}

double *oracle_block(struct oracle *o, int block, int *count) {
    switch (block) {
    case ORACLE_W1:
        *count = o->N * o->D;
        return o->W1;
    case ORACLE_Q:
        *count = o->M * o->N;
        return o->Q;
    case ORACLE_W2IN:
        *count = o->M * o->Ne * o->N;
        return o->W2in;
    case ORACLE_W2OUT:
        *count = o->N * o->M * o->Ne;
        return o->W2out;
    case ORACLE_W4:
        *count = o->N;
        return o->w4;
    }
    stop("unknown block");
    return NULL;
}

double oracle_rate(const struct oracle *o, int block) {
    double lambda = 1;
    if (block == ORACLE_Q)
        lambda = (double)o->M / o->N;
    if (block == ORACLE_W2IN)
        lambda = o->lambda_in;
    return o->eta0 * o->gamma0 * o->gamma0 * o->N * lambda;
}

/* (8 [L(h) - L(-h)] - [L(2h) - L(-2h)]) / (12 h) for one parameter, the mask as it stands */
static double difference(struct oracle *o, double *w, double h) {
    double w0 = *w, at[4];
    const double step[4] = {h, -h, 2 * h, -2 * h};
    for (int k = 0; k < 4; k++) {
        *w = w0 + step[k];
        at[k] = oracle_forward(o);
    }
    *w = w0;
    return (8 * (at[0] - at[1]) - (at[2] - at[3])) / (12 * h);
}

void oracle_gradient_check(struct oracle *o, double h, double error[ORACLE_BLOCKS],
                           double scale[ORACLE_BLOCKS]) {
    double *before[ORACLE_BLOCKS], *expected[ORACLE_BLOCKS];
    bool held = o->hold_mask;
    oracle_forward(o);
    o->hold_mask = true;
    for (int block = 0; block < ORACLE_BLOCKS; block++) {
        int count;
        double *w = oracle_block(o, block, &count);
        before[block] = array(count);
        expected[block] = array(count);
        memcpy(before[block], w, (size_t)count * sizeof *w);
        for (int k = 0; k < count; k++)
            expected[block][k] = -oracle_rate(o, block) * difference(o, w + k, h);
    }
    oracle_step(o);
    for (int block = 0; block < ORACLE_BLOCKS; block++) {
        int count;
        double *w = oracle_block(o, block, &count);
        error[block] = scale[block] = 0;
        for (int k = 0; k < count; k++) {
            double gap = fabs(w[k] - before[block][k] - expected[block][k]);
            if (isnan(gap) || gap > error[block]) /* once NaN, always NaN */
                error[block] = gap;
            if (fabs(expected[block][k]) > scale[block])
                scale[block] = fabs(expected[block][k]);
        }
        memcpy(w, before[block], (size_t)count * sizeof *w);
        free(before[block]);
        free(expected[block]);
    }
    o->hold_mask = held;
}

double oracle_phi0(const struct oracle *o, int mu, int nu) {
    return dot(o->X + mu * o->D, o->X + nu * o->D, o->D) / o->D;
}

double oracle_phi1(const struct oracle *o, int mu, int nu) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += oracle_sigma(o->activation, o->h1[mu * o->N + n]) *
               oracle_sigma(o->activation, o->h1[nu * o->N + n]);
    return sum / o->N;
}

double oracle_phi3(const struct oracle *o, int mu, int nu) {
    return dot(o->h3 + mu * o->N, o->h3 + nu * o->N, o->N) / o->N;
}

double oracle_phib(const struct oracle *o, int mu, int nu) {
    int M = o->M, Ne = o->Ne;
    double sum = 0;
    for (int i = 0; i < M; i++) {
        double units = 0;
        for (int j = 0; j < Ne; j++)
            units += oracle_sigma(o->activation, o->h2[mu * M * Ne + i * Ne + j]) *
                     oracle_sigma(o->activation, o->h2[nu * M * Ne + i * Ne + j]);
        sum += o->phi[mu * M + i] * o->phi[nu * M + i] * units / Ne;
    }
    return sum / M;
}

double oracle_g1(const struct oracle *o, int mu, int nu) {
    return dot(o->g1 + mu * o->N, o->g1 + nu * o->N, o->N) / o->N;
}

double oracle_g3(const struct oracle *o) {
    return dot(o->w4, o->w4, o->N) / o->N;
}

double oracle_gb(const struct oracle *o, int mu, int nu) {
    int units = o->M * o->Ne;
    return dot(o->g2 + mu * units, o->g2 + nu * units, units) / o->Ne / o->M;
}

double oracle_gphi(const struct oracle *o, int mu, int nu) {
    return dot(o->gphi + mu * o->M, o->gphi + nu * o->M, o->M) / o->M;
}

double oracle_ntk(const struct oracle *o, int mu, int nu) {
    double kappa = (double)o->M / o->N;
    double lambda_Q = kappa, lambda_out = 1;
    return oracle_g1(o, mu, nu) * oracle_phi0(o, mu, nu) +
           o->lambda_in / kappa * o->Ne * oracle_gb(o, mu, nu) * oracle_phi1(o, mu, nu) +
           lambda_Q / kappa * oracle_gphi(o, mu, nu) * oracle_phi1(o, mu, nu) +
           lambda_out * oracle_g3(o) * oracle_phib(o, mu, nu) + oracle_phi3(o, mu, nu);
}
