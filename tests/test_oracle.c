/* Judges the forward passes of the oracles by cases worked out on paper, and their kernels by the
 * change of f, of which the page of regime II makes the tangent kernel. Their gradients need no
 * judge: the program has the same ones in every test that has both (tests/support/couple.h), and
 * test_models takes those of the program by differences. */
#include "tests/oracles/oracle.h"
#include "tests/support/support.h"

static void close_to(double got, double expected, double tolerance, const char *what) {
    CHECK_ABS(got, expected, tolerance * fabs(expected), "%s", what);
}

/* Numbers that look drawn, of variance 1. */
static void fill(double *w, int count, double j) {
    for (int k = 0; k < count; k++)
        w[k] = sqrt(2) * cos(1 + 2.3 * k + 0.7 * j);
}

/* erf(0.6) = 0.6038560908479259, normal distribution function at 0.6 = 0.7257468822499265. */
TEST(functions) {
    close_to(oracle_sigma(ORACLE_TANH, 0.6), 0.5370495669980353, 1e-15, "tanh");
    close_to(oracle_sigma(ORACLE_ERF, 0.6), 0.6038560908479259, 1e-15, "erf");
    close_to(oracle_sigma(ORACLE_GELU, 0.6), 0.6 * 0.7257468822499265, 1e-15, "gelu");
    close_to(oracle_sigma(ORACLE_GELU, -0.6), -0.6 * 0.2742531177500735, 1e-15, "gelu");
    close_to(oracle_sigma(ORACLE_SOFTPLUS, 0.6), log(1 + exp(0.6)), 1e-15, "softplus");
    close_to(oracle_sigma(ORACLE_SOFTPLUS, -0.6), log(1 + exp(-0.6)), 1e-15, "softplus");
    close_to(oracle_sigma(ORACLE_SOFTPLUS, 800), 800, 0, "softplus far out");
    close_to(oracle_sigma(ORACLE_SIGMOID, 0.6), 1 / (1 + exp(-0.6)), 1e-15, "sigmoid");
    assert_true(oracle_sigma(ORACLE_RELU, 0.6) == 0.6 && oracle_sigma(ORACLE_RELU, -0.6) == 0);
    assert_true(oracle_sigma(ORACLE_LINEAR, -0.6) == -0.6);
}

static double output(struct oracle *o) {
    oracle_forward(o);
    return o->f[o->P - 1];
}

/* Regimes 1 and 2, P = D = N = N_e = 1, M = 2, all numbers written out: a few dozen roundings. */
TEST(by_hand) {
    for (int regime = 1; regime < 3; regime++) {
        struct oracle of = {.network = &oracle_stack, .single = true, .regime = regime};
        of.P = of.D = of.N = of.N_e = 1;
        of.M = 2;
        of.E = regime;
        of.beta = 0.7;
        of.gamma0 = 1.5;
        struct oracle *o = oracle_new(of);
        double s = tanh(1.3 * 0.7), e[2] = {0.4, -0.9}, h[2] = {-0.6, 1.1}, in[2] = {0.8, 1.7};
        o->X[0] = 0.7;
        o->y[0] = -1;
        o->block[0].w[0] = 1.3;
        o->block[1].w[0] = 1.9;
        for (int i = 0; i < 2; i++) {
            o->noise[i] = i ? 0.25 : 0.2;
            o->block[2].w[i] = e[i];
            o->block[2 + regime].w[i] = h[i];
            e[i] = exp(0.7 * (e[i] * s + o->noise[i]));
            if (regime == 2)
                o->block[3].w[i] = in[i];
            h[i] *= regime == 1 ? s : tanh(in[i] * s) / sqrt(2);
        }
        double factor = regime, p = e[0] / (e[0] + e[1]); /* softmax adds up to 1, or to M */
        double f = 1.9 * factor * (p * h[0] + (1 - p) * h[1]) / 1.5;
        close_to(oracle_forward(o), (1 + f) * (1 + f) / 2, 1e-14, "softmax, mse");
        close_to(o->Delta[0], -1 - f, 1e-14, "Delta, mse");
        o->loss = ORACLE_LOGISTIC;
        close_to(oracle_forward(o), log(1 + exp(f)), 1e-14, "softmax, logistic");
        close_to(o->Delta[0], -1 / (1 + exp(-f)), 1e-14, "Delta, logistic");
        o->activated = true;
        if (regime == 1)
            close_to(output(o), 1.9 * (p * tanh(h[0]) + (1 - p) * tanh(h[1])) / 1.5, 1e-14,
                     "activated");
        o->activated = false;
        o->rho = 0.5; /* one expert of two, the first */
        close_to(output(o), 1.9 * factor * h[0] / 1.5, 1e-14, "softmax, top 1");
        o->gate = ORACLE_SIGMOID_M;
        close_to(output(o), 1.9 * e[0] / (1 + e[0]) * h[0] / 1.5, 1e-14, "sigmoid, top 1");
        o->gate = ORACLE_SIGMOID_K;
        close_to(output(o), 1.9 * 2 * e[0] / (1 + e[0]) * h[0] / 1.5, 1e-14, "over K, top 1");
        oracle_free(o);
    }
}

/* One nonzero weight per block, in general position, all sizes different: one path from input 1 to
 * output, which fixes the layout of the arrays and every power of a size in the forward pass. */
TEST(single_path) {
    enum { P = 2, D = 3, N = 5, M = 7, N_E = 4 };
    for (int regime = 1; regime <= 3; regime++) {
        struct oracle of = {.network = &oracle_stack, .single = true, .regime = regime};
        of.P = P, of.D = D, of.N = N, of.M = M, of.N_e = N_E, of.E = 2;
        of.beta = 1.5;
        of.gamma0 = 0.4;
        struct oracle *o = oracle_new(of);
        int i = 2, n = 3, j = 1, top = 4;
        o->X[1 * D + 1] = 1.4;
        o->block[0].w[n * D + 1] = 0.9;
        o->block[1].w[top] = 0.7;
        o->block[2].w[i * N + n] = 1.6;
        o->block[3].w[(i * N_E + j) * N + n] = -1.8;
        o->block[4].w[(i * N + top) * N_E + j] = 2.1;
        double s1 = tanh(0.9 * 1.4 / sqrt(D)), s2 = tanh(-1.8 * s1 / sqrt(N));
        double e = exp(1.5 * 1.6 * s1 / (regime == 1 ? N : sqrt(N))), p = e / (e + M - 1);
        double out = 2.1 * s2 *
                     (regime == 1   ? p / sqrt(N_E)
                      : regime == 2 ? M * p / sqrt(M * N_E)
                                    : p / sqrt(N));
        double loss = oracle_forward(o);
        close_to(o->f[1], 0.7 * out / (0.4 * N), 1e-14, "single path");
        assert_true(o->f[0] == 0);
        close_to(loss, o->f[1] * o->f[1] / 2 / P, 1e-14, "mean loss");
        close_to(oracle_kernel(o, "Phi1", 1, 1), s1 * s1 / N, 1e-14, "Phi1");
        close_to(oracle_kernel(o, regime == 1 ? "PhiL" : "Phi3", 1, 1), out * out / N, 1e-14,
                 "kernel of the top");
        oracle_free(o);
    }
}

/* The K largest logits are selected, the lower index among equals. */
TEST(ties) {
    static const double logits[6] = {0.5, 2, 0.5, -1, 0.5, 0.5}, mask[6] = {1, 1, 1, 0, 0, 0};
    struct oracle of = {.network = &oracle_stack, .single = true, .rho = 0.5};
    of.P = of.D = of.N = of.N_e = of.E = 1;
    of.M = 6;
    struct oracle *o = oracle_new(of);
    memcpy(o->bias, logits, sizeof logits);
    oracle_forward(o);
    assert_memory_equal(o->mask, mask, sizeof mask);
    oracle_free(o);
}

/* The sum of kernel products in df_mu/dt = (eta0/P) sum_nu ntk(mu, nu) Delta_nu, N_e of them of
 * regime II. */
static double tangent(const struct oracle *o, int mu, int nu) {
    double kappa = (double)o->M / o->N, phi0 = 0;
    for (int d = 0; d < o->D; d++)
        phi0 += o->X[mu * o->D + d] * o->X[nu * o->D + d] / o->D;
    double phi1 = oracle_kernel(o, "Phi1", mu, nu);
    double router = o->gate == ORACLE_CONSTANT ? 0 : oracle_kernel(o, "Gphi", mu, nu);
    return oracle_kernel(o, "G1", mu, nu) * phi0 +
           o->lambda_in / kappa * o->N_e * oracle_kernel(o, "Gb", mu, nu) * phi1 + router * phi1 +
           oracle_kernel(o, "G3", 0, 0) * oracle_kernel(o, "Phib", mu, nu) +
           oracle_kernel(o, "Phi3", mu, nu);
}

/* The change of f in one step of eta0 = 1e-7, relative to the largest. The second order in eta0 is
 * eta0 times up to about 10; round-off is a few 1e-16 over 1e-7 or, where the inputs' contributions
 * nearly cancel, 1e-8. A misplaced power of N, M or N_e would show up as O(1). */
TEST(tangent_kernel) {
    static const int sizes[][3] = {{8, 6, 2}, {32, 24, 2}, {32, 16, 4}, {32, 64, 1}, {48, 36, 3}};
    for (int k = 0; k < 5 * 24; k++) {
        const int *size = sizes[k % 5];
        struct oracle of = {.network = &oracle_stack, .single = true, .regime = 2, .eta0 = 1e-7};
        of.P = 4, of.D = 5, of.N = size[0], of.M = size[1], of.N_e = size[2], of.E = 2;
        of.gate = (enum oracle_gate)(k % 4);
        of.activation = of.expert_activation = (enum oracle_activation)(k % 6);
        of.loss = k % 3 ? ORACLE_MSE : ORACLE_LOGISTIC;
        of.beta = k % 2 ? 0.7 : 1;
        of.rho = k / 4 % 2 ? 0.5 : 1;
        of.lambda_in = k % 7 < 3 ? 1 : 0.3;
        of.gamma0 = k % 5 < 2 ? 1 : 0.6;
        struct oracle *o = oracle_new(of);
        double before[4], change[4], largest = 0;
        for (int b = 0; b < o->blocks; b++)
            fill(o->block[b].w, o->block[b].count, b + k);
        fill(o->X, o->P * o->D, k + 20);
        for (int mu = 0; mu < o->P; mu++)
            o->y[mu] = mu % 2 ? -1 : 1;
        oracle_step(o);
        for (int mu = 0; mu < 4; mu++) {
            before[mu] = o->f[mu];
            change[mu] = 0;
            for (int nu = 0; nu < 4; nu++)
                change[mu] += o->eta0 / o->P * tangent(o, mu, nu) * o->Delta[nu];
            largest = fmax(largest, fabs(change[mu]));
        }
        oracle_forward(o);
        for (int mu = 0; mu < 4; mu++)
            CHECK_ABS((o->f[mu] - before[mu] - change[mu]) / largest, 0, 2e-6,
                      "case %d: change of f[%d]", k, mu);
        oracle_free(o);
    }
}
