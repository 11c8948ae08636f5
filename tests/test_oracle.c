/* Judges the oracles themselves: the tape and gradients by finite differences, and forward passes
 * by cases worked out on paper and by the tangent kernel, which the page of regime II makes of its
 * kernels. */
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

static void fill_all(struct oracle *o, double j) {
    for (int b = 0; b < o->blocks; b++)
        fill(o->block[b].w, o->block[b].count, b + j);
    fill(o->X, o->P * o->n * o->D, j + 20);
    for (int k = 0; k < o->P * o->C; k++)
        o->y[k] = k % o->C == k / o->C % o->C ? 1 : 0;
    for (int mu = 0; mu < o->P && o->C == 1; mu++)
        o->y[mu] = mu % 2 ? -1 : 1;
}

/* --- the tape -------------------------------------------------------------------------------- */

/* erf(0.6) = 0.6038560908479259, normal distribution function at 0.6 = 0.7257468822499265; slopes
 * by differences of second order at 1e-5: 1e-10 of truncation, 1e-11 of round-off. */
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
    for (int f = 0; f < ORACLE_FUNCTIONS; f++)
        for (double x = 0.3; x < 2; x += 0.7)
            for (int sign = f == ORACLE_SQRT ? 1 : -1; sign < 2; sign += 2) {
                double h = 1e-5, y = sign * x, up = oracle_sigma((enum oracle_activation)f, y + h),
                       down = oracle_sigma((enum oracle_activation)f, y - h);
                CHECK_ABS(oracle_sigma_prime((enum oracle_activation)f, y), (up - down) / (2 * h),
                          1e-9, "slope of function %d at %g", f, y);
            }
}

/* Everything that a tape can do, of 8 numbers; arguments that overlap, steps and factors. */
static double expression(struct tape *t, const double *x, double *gradient) {
    tape_rewind(t);
    int a = tape_put(t, x, 8);
    int product = tape_linear(t, 0.7, 2, 3, a, 1, 2, a + 1, 2);
    int both = tape_sum(t, 2, 1.3, product, -0.4, a);
    int mapped = tape_map(t, ORACLE_TANH, 2, both), total = tape_total(t, 0.3, 8, a);
    int squares = tape_product(t, 2, mapped, 1, mapped, 1);
    int scaled = tape_product(t, 2, total, 0, squares, 1);
    int exponents = tape_map(t, ORACLE_EXP, 2, scaled);
    int quotient = tape_quotient(t, 2, a + 3, 2, exponents, 1);
    int f = tape_times_matrix(t, 2, 1, 2, quotient, both);
    tape_clear(t);
    t->gradient[f] = 1;
    tape_sweep(t);
    for (int k = 0; k < 8 && gradient; k++)
        gradient[k] = t->gradient[a + k];
    return t->value[f];
}

TEST(tape_by_differences) {
    struct tape t = {0};
    double x[8], gradient[8], h = 1e-5;
    fill(x, 8, 0);
    expression(&t, x, gradient);
    for (int k = 0; k < 8; k++) {
        double here = x[k];
        x[k] = here + h;
        double up = expression(&t, x, NULL);
        x[k] = here - h;
        double down = expression(&t, x, NULL);
        x[k] = here;
        assert_true(fabs(gradient[k]) > 1e-3);
        CHECK_ABS(gradient[k], (up - down) / (2 * h), 1e-8, "gradient %d", k);
    }
    tape_release(&t);
}

/* The dense network with `layers` layers of experts, which are one expert without a router. */
static struct oracle *dense(int layers, int C, enum oracle_loss loss,
                            enum oracle_activation sigma) {
    return oracle_new((struct oracle){.network = &oracle_stack,
                                      .single = true,
                                      .activated = true,
                                      .gate = ORACLE_CONSTANT,
                                      .P = 3,
                                      .D = 4,
                                      .C = C,
                                      .N = 6,
                                      .M = 1,
                                      .N_e = 6,
                                      .E = layers,
                                      .activation = sigma,
                                      .expert_activation = sigma,
                                      .loss = loss,
                                      .gamma0 = 1.5});
}

/* Every loss and activation, by fourth order differences at h = 1e-4: ten times the round-off of a
 * loss of order one. Of relu a difference may cross a kink; tanh has passed what is not sigma'. */
TEST(gradients_by_differences) {
    static const double step[4] = {1e-4, -1e-4, 2e-4, -2e-4}, factor[4] = {8, -8, -1, 1};
    for (int k = 0; k < 24; k++) {
        int C = k % 2 ? 3 : 1;
        enum oracle_loss loss = k % 4 < 2 ? ORACLE_MSE
                                : C > 1   ? ORACLE_CROSS_ENTROPY
                                          : ORACLE_LOGISTIC;
        struct oracle *o = dense(1 + k % 3, C, loss, (enum oracle_activation)(k / 4));
        fill_all(o, 0);
        for (int b = 0; b < o->blocks && o->activation != ORACLE_RELU; b++) {
            double largest = 0;
            for (int i = 0; i < o->block[b].count; i++) {
                double here = o->block[b].w[i], sum = 0;
                for (int j = 0; j < 4; j++) {
                    o->block[b].w[i] = here + step[j];
                    sum += factor[j] * oracle_forward(o) / 12e-4;
                }
                o->block[b].w[i] = here;
                oracle_forward(o);
                CHECK_ABS(o->block[b].G[i], sum, 1.5e-10, "case %d: block %d, entry %d", k, b, i);
                largest = fmax(largest, fabs(sum));
            }
            assert_true(largest > 5e-5);
        }
        oracle_free(o);
    }
}

/* --- forward passes -------------------------------------------------------------------------- */

static double output(struct oracle *o) {
    oracle_forward(o);
    return o->f[o->P - 1];
}

/* Regimes 1 and 2, P = D = N = N_e = 1, M = 2, all numbers written out: a few dozen roundings. */
TEST(by_hand) {
    for (int regime = 1; regime < 3; regime++) {
        struct oracle *o = oracle_new((struct oracle){.network = &oracle_stack,
                                                      .single = true,
                                                      .regime = regime,
                                                      .P = 1,
                                                      .D = 1,
                                                      .N = 1,
                                                      .M = 2,
                                                      .N_e = 1,
                                                      .E = regime,
                                                      .beta = 0.7,
                                                      .gamma0 = 1.5});
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
        struct oracle *o = oracle_new((struct oracle){.network = &oracle_stack,
                                                      .single = true,
                                                      .regime = regime,
                                                      .P = P,
                                                      .D = D,
                                                      .N = N,
                                                      .M = M,
                                                      .N_e = N_E,
                                                      .E = 2,
                                                      .beta = 1.5,
                                                      .gamma0 = 0.4});
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
    struct oracle *o = oracle_new((struct oracle){.network = &oracle_stack,
                                                  .single = true,
                                                  .P = 1,
                                                  .D = 1,
                                                  .N = 1,
                                                  .M = 6,
                                                  .N_e = 1,
                                                  .E = 1,
                                                  .rho = 0.5});
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
        struct oracle *o =
            oracle_new((struct oracle){.network = &oracle_stack,
                                       .single = true,
                                       .regime = 2,
                                       .P = 4,
                                       .D = 5,
                                       .N = size[0],
                                       .M = size[1],
                                       .N_e = size[2],
                                       .E = 2,
                                       .gate = (enum oracle_gate)(k % 4),
                                       .activation = (enum oracle_activation)(k % 6),
                                       .expert_activation = (enum oracle_activation)(k % 6),
                                       .loss = k % 3 ? ORACLE_MSE : ORACLE_LOGISTIC,
                                       .beta = k % 2 ? 0.7 : 1,
                                       .rho = k / 4 % 2 ? 0.5 : 1,
                                       .lambda_in = k % 7 < 3 ? 1 : 0.3,
                                       .gamma0 = k % 5 < 2 ? 1 : 0.6,
                                       .eta0 = 1e-7});
        double before[4], change[4], largest = 0;
        fill_all(o, k);
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
