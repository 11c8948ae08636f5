#include "tests/oracles/oracle_regime3.h"
#include "tests/oracles/oracle.h"

#include <string.h>

int oracle3_count(const struct oracle3 *o, int block) {
    const int count[ORACLE3_BLOCKS] = {o->N * o->D, o->M * o->N, o->M * o->Ne * o->N,
                                       o->M * o->N * o->Ne, o->N};
    return count[block];
}

struct oracle3 *oracle3_new(int P, int D, int N, int M, int Ne) {
    struct oracle3 *o = memory(1, sizeof *o);
    *o = (struct oracle3){.P = P, .D = D, .N = N, .M = M, .Ne = Ne};
    o->gate = ORACLE_SOFTMAX;
    o->activation = ORACLE_TANH;
    o->loss = ORACLE_MSE;
    o->gamma0 = o->beta = o->rho = o->eta0 = 1;
    o->X = array(P * D);
    o->y = array(P);
    o->f0 = array(P);
    for (int b = 0; b < ORACLE3_BLOCKS; b++) {
        o->block[b] = array(oracle3_count(o, b));
        o->df_block[b] = array(oracle3_count(o, b));
    }
    o->h1 = array(P * N);
    o->psi = array(P * M);
    o->mask = array(P * M);
    o->phit = array(P * M);
    o->h = array(P * M * Ne);
    o->ho = array(P * M * N);
    o->h3 = array(P * N);
    o->f = array(P);
    o->Delta = array(P);
    o->df_h1 = array(P * N);
    o->df_psi = array(P * M);
    o->df_h = array(P * M * Ne);
    return o;
}

void oracle3_free(struct oracle3 *o) {
    double *owned[] = {o->X,  o->y,  o->f0, o->h1,    o->psi,   o->mask,   o->phit, o->h,
                       o->ho, o->h3, o->f,  o->Delta, o->df_h1, o->df_psi, o->df_h};
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
        free(owned[k]);
    for (int b = 0; b < ORACLE3_BLOCKS; b++) {
        free(o->block[b]);
        free(o->df_block[b]);
    }
    free(o);
}

static double sigma(const struct oracle3 *o, double h) {
    return oracle_sigma(o->activation, h);
}

static double sigma_prime(const struct oracle3 *o, double h) {
    return oracle_sigma_prime(o->activation, h);
}

/* phit = M phi */
static void gate(const struct oracle3 *o, const double *psi, double *m, double *phit) {
    double sum = 0;
    for (int i = 0; i < o->M && o->gate == ORACLE_CONSTANT; i++)
        phit[i] = m[i] = 1;
    if (o->gate == ORACLE_CONSTANT)
        return;
    if (!o->hold_mask)
        find_mask(psi, o->M, whole(o->rho * o->M), m);
    for (int i = 0; i < o->M; i++)
        sum += m[i] * exp(o->beta * psi[i]) / o->M;
    for (int i = 0; i < o->M; i++)
        phit[i] = o->gate == ORACLE_SOFTMAX
                      ? m[i] * exp(o->beta * psi[i]) / sum
                      : m[i] * sig(o->beta * psi[i]) / (o->gate == ORACLE_SIGMOID_K ? o->rho : 1);
}

/* Expert i on input mu: h, ho, and its share of h3. */
static void expert(struct oracle3 *o, int mu, int i) {
    int N = o->N, M = o->M, Ne = o->Ne;
    const double *Win = o->block[ORACLE3_WIN] + i * Ne * N, *h1 = o->h1 + mu * N;
    const double *Wout = o->block[ORACLE3_WOUT] + i * N * Ne;
    double *h = o->h + (mu * M + i) * Ne, *ho = o->ho + (mu * M + i) * N;
    for (int j = 0; j < Ne; j++) {
        h[j] = 0;
        for (int n = 0; n < N; n++)
            h[j] += Win[j * N + n] * sigma(o, h1[n]) / sqrt(N);
    }
    for (int n = 0; n < N; n++) {
        ho[n] = 0;
        for (int j = 0; j < Ne; j++)
            ho[n] += Wout[n * Ne + j] * sigma(o, h[j]) / sqrt(N);
        o->h3[mu * N + n] += o->phit[mu * M + i] / M * ho[n];
    }
}

/* l(f) of one input, and Delta */
static double loss(const struct oracle3 *o, double f, double y, double *Delta) {
    if (o->loss == ORACLE_LOGISTIC) {
        *Delta = y * sig(-y * f);
        return log(1 + exp(-y * f));
    }
    *Delta = y - f;
    return (y - f) * (y - f) / 2;
}

double oracle3_forward(struct oracle3 *o) {
    int P = o->P, D = o->D, N = o->N, M = o->M;
    double mean = 0;
    for (int mu = 0; mu < P; mu++) {
        for (int n = 0; n < N; n++) {
            o->h1[mu * N + n] = o->h3[mu * N + n] = 0;
            for (int d = 0; d < D; d++)
                o->h1[mu * N + n] += o->block[ORACLE3_W1][n * D + d] * o->X[mu * D + d] / sqrt(D);
        }
        for (int i = 0; i < M; i++) {
            o->psi[mu * M + i] = 0;
            for (int n = 0; n < N; n++)
                o->psi[mu * M + i] +=
                    o->block[ORACLE3_Q][i * N + n] * sigma(o, o->h1[mu * N + n]) / sqrt(N);
        }
        gate(o, o->psi + mu * M, o->mask + mu * M, o->phit + mu * M);
        for (int i = 0; i < M; i++)
            expert(o, mu, i);
        double gamma = o->gamma0 * sqrt(N);
        o->f[mu] = -o->f0[mu];
        for (int n = 0; n < N; n++)
            o->f[mu] += o->block[ORACLE3_W4][n] * o->h3[mu * N + n] / (sqrt(N) * gamma);
        mean += loss(o, o->f[mu], o->y[mu], &o->Delta[mu]) / P;
    }
    return mean;
}

/* d phit_k/d psi_i times df/dphit_k, summed over k */
static double gate_slope(const struct oracle3 *o, int mu, int i, const double *df_phit) {
    const double *phit = o->phit + mu * o->M, *m = o->mask + mu * o->M;
    double mean = 0, s = sig(o->beta * o->psi[mu * o->M + i]);
    if (o->gate == ORACLE_CONSTANT)
        return 0;
    if (o->gate != ORACLE_SOFTMAX)
        return o->beta * m[i] * s * (1 - s) * df_phit[i] /
               (o->gate == ORACLE_SIGMOID_K ? o->rho : 1);
    for (int k = 0; k < o->M; k++)
        mean += phit[k] * df_phit[k] / o->M;
    return o->beta * phit[i] * (df_phit[i] - mean);
}

/* Expert i on input mu, from df/dh3 = w4/(N gamma0): df_h, and dL of Win, Wout (l' = -Delta). */
static void expert_backward(struct oracle3 *o, int mu, int i, double *df_s1) {
    int N = o->N, M = o->M, Ne = o->Ne;
    const double *Win = o->block[ORACLE3_WIN] + i * Ne * N, *h1 = o->h1 + mu * N;
    const double *Wout = o->block[ORACLE3_WOUT] + i * N * Ne, *w4 = o->block[ORACLE3_W4];
    const double *h = o->h + (mu * M + i) * Ne;
    double *df_h = o->df_h + (mu * M + i) * Ne, dl = -o->Delta[mu] / o->P;
    double share = o->phit[mu * M + i] / M / (N * o->gamma0);
    for (int j = 0; j < Ne; j++) {
        double df_s = 0;
        for (int n = 0; n < N; n++) {
            df_s += share * w4[n] * Wout[n * Ne + j] / sqrt(N);
            o->df_block[ORACLE3_WOUT][(i * N + n) * Ne + j] +=
                dl * share * w4[n] * sigma(o, h[j]) / sqrt(N);
        }
        df_h[j] = df_s * sigma_prime(o, h[j]);
        for (int n = 0; n < N; n++) {
            df_s1[n] += df_h[j] * Win[j * N + n] / sqrt(N);
            o->df_block[ORACLE3_WIN][(i * Ne + j) * N + n] +=
                dl * df_h[j] * sigma(o, h1[n]) / sqrt(N);
        }
    }
}

static void input_backward(struct oracle3 *o, int mu, double *df_s1, double *df_phit) {
    int D = o->D, N = o->N, M = o->M;
    const double *w4 = o->block[ORACLE3_W4], *h1 = o->h1 + mu * N;
    double dl = -o->Delta[mu] / o->P;
    memset(df_s1, 0, (size_t)N * sizeof *df_s1);
    for (int i = 0; i < M; i++) {
        df_phit[i] = 0;
        for (int n = 0; n < N; n++)
            df_phit[i] += w4[n] / (N * o->gamma0) * o->ho[(mu * M + i) * N + n] / M;
        expert_backward(o, mu, i, df_s1);
    }
    for (int i = 0; i < M; i++) {
        double df_psi = gate_slope(o, mu, i, df_phit);
        o->df_psi[mu * M + i] = df_psi;
        for (int n = 0; n < N; n++) {
            df_s1[n] += df_psi * o->block[ORACLE3_Q][i * N + n] / sqrt(N);
            o->df_block[ORACLE3_Q][i * N + n] += dl * df_psi * sigma(o, h1[n]) / sqrt(N);
        }
    }
    for (int n = 0; n < N; n++) {
        o->df_h1[mu * N + n] = df_s1[n] * sigma_prime(o, h1[n]);
        o->df_block[ORACLE3_W4][n] += dl * o->h3[mu * N + n] / (N * o->gamma0);
        for (int d = 0; d < D; d++)
            o->df_block[ORACLE3_W1][n * D + d] +=
                dl * o->df_h1[mu * N + n] * o->X[mu * D + d] / sqrt(D);
    }
}

void oracle3_backward(struct oracle3 *o) {
    double *df_s1 = array(o->N), *df_phit = array(o->M);
    for (int b = 0; b < ORACLE3_BLOCKS; b++)
        memset(o->df_block[b], 0, (size_t)oracle3_count(o, b) * sizeof(double));
    for (int mu = 0; mu < o->P; mu++)
        input_backward(o, mu, df_s1, df_phit);
    free(df_s1);
    free(df_phit);
}

double oracle3_rate(const struct oracle3 *o, int block) {
    double gamma = o->gamma0 * sqrt(o->N), kappa = (double)o->M / o->N;
    const double factor[ORACLE3_BLOCKS] = {1, kappa, o->N, o->N, 1};
    return o->eta0 * gamma * gamma * factor[block];
}

void oracle3_step(struct oracle3 *o) {
    for (int b = 0; b < ORACLE3_BLOCKS; b++)
        for (int k = 0; k < oracle3_count(o, b); k++)
            o->block[b][k] -= oracle3_rate(o, b) * o->df_block[b][k];
}

/* f = w4.h3/(N gamma0), so a field of order one is N gamma0 times a derivative of f at a residual
 * site, M gamma0 at an expert, N M gamma0 at a hidden unit. */
static double site(const struct oracle3 *o, int kernel, int mu, int i, int j) {
    int pair = (mu * o->M + i) * o->Ne + j, expert_of = mu * o->M + i, n = mu * o->N + i;
    switch (kernel) {
    case ORACLE3_PHI1:
        return sigma(o, o->h1[n]);
    case ORACLE3_PHI3:
        return o->h3[n];
    case ORACLE3_G1:
        return o->N * o->gamma0 * o->df_h1[n];
    case ORACLE3_G3:
        return o->block[ORACLE3_W4][i];
    case ORACLE3_PHIE:
        return sigma(o, o->h[pair]);
    case ORACLE3_PHIBAR:
    case ORACLE3_PHITIL:
        return o->phit[expert_of] * sigma(o, o->h[pair]);
    case ORACLE3_GBAR:
    case ORACLE3_GTIL:
        return o->N * o->M * o->gamma0 * o->df_h[pair];
    case ORACLE3_G1PHI:
        return o->M * o->gamma0 * o->df_psi[expert_of];
    default:
        return o->phit[expert_of];
    }
}

double oracle3_kernel(const struct oracle3 *o, int kernel, int mu, int nu) {
    bool means = kernel == ORACLE3_PHITIL || kernel == ORACLE3_GTIL;
    bool pairs = kernel == ORACLE3_PHIBAR || kernel == ORACLE3_GBAR || kernel == ORACLE3_PHIE;
    bool experts = kernel == ORACLE3_G1PHI || kernel == ORACLE3_PHIT2;
    int outer = pairs || means || experts ? o->M : o->N, inner = pairs || means ? o->Ne : 1;
    double sum = 0;
    for (int j = 0; j < inner; j++) {
        double a = 0, b = 0;
        for (int i = 0; i < outer; i++) {
            double x = site(o, kernel, mu, i, j), y = site(o, kernel, nu, i, j);
            a += x / outer;
            b += y / outer;
            sum += means ? 0 : x * y / outer / inner;
        }
        sum += means ? a * b / inner : 0;
    }
    return sum;
}
