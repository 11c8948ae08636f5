/* Judges the oracle of regime II itself: by hand-made cases, by finite differences of the loss and
 * by the tangent kernel, made of the kernels of the theory page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>

#include <math.h>
#include <stdio.h>

#include "tests/oracles/oracle_regime2.h"

static gsl_rng *generator(unsigned long seed) {
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    assert_non_null(rng);
    gsl_rng_set(rng, seed);
    return rng;
}

static void gaussians(gsl_rng *rng, double *a, int count, double deviation) {
    for (int k = 0; k < count; k++)
        a[k] = gsl_ran_gaussian(rng, deviation);
}

/* weights of variance 1 (W2out: 1/M for muP) */
static void draw_weights(struct oracle *o, gsl_rng *rng, bool mup) {
    for (int block = 0; block < ORACLE_BLOCKS; block++) {
        int count;
        double *w = oracle_block(o, block, &count);
        gaussians(rng, w, count, mup && block == ORACLE_W2OUT ? 1 / sqrt(o->M) : 1);
    }
}

static void draw_data(struct oracle *o, gsl_rng *rng) {
    gaussians(rng, o->X, o->P * o->D, 1);
    for (int mu = 0; mu < o->P; mu++)
        o->y[mu] = mu % 2 ? -1 : 1;
}

/* smallest |h1|, |h2|: the distance of relu from its kinks */
static double kink_distance(const struct oracle *o) {
    double least = INFINITY;
    for (int k = 0; k < o->P * o->N; k++)
        least = fmin(least, fabs(o->h1[k]));
    for (int k = 0; k < o->P * o->M * o->Ne; k++)
        least = fmin(least, fabs(o->h2[k]));
    return least;
}

static void assert_close(double got, double expected, double tolerance, const char *what) {
    if (!(fabs(got - expected) <= tolerance * fabs(expected)))
        fail_msg("%s: %.17g instead of %.17g", what, got, expected);
}

/* P = D = N = Ne = 1, M = 2, all numbers written out. Tolerance: a few dozen roundings. */
static void test_by_hand(void **state) {
    (void)state;
    struct oracle *o = oracle_new(1, 1, 1, 2, 1);
    o->X[0] = 0.7;
    o->y[0] = -1;
    o->W1[0] = 1.3;
    o->Q[0] = 0.4, o->Q[1] = -0.9;
    o->W2in[0] = 0.8, o->W2in[1] = 1.7;
    o->W2out[0] = -0.6, o->W2out[1] = 1.1;
    o->w4[0] = 1.9;
    o->beta = 0.7;
    o->gamma0 = 1.5;
    double s1 = tanh(1.3 * 0.7);
    double out1 = sqrt(2) * -0.6 * tanh(0.8 * s1), out2 = sqrt(2) * 1.1 * tanh(1.7 * s1);
    double e1 = exp(0.7 * 0.4 * s1), e2 = exp(-0.7 * 0.9 * s1);
    double phi1 = 2 * e1 / (e1 + e2), phi2 = 2 * e2 / (e1 + e2);
    double f = 1.9 * (phi1 * out1 + phi2 * out2) / 2 / 1.5;
    assert_close(oracle_forward(o), (1 + f) * (1 + f) / 2, 1e-14, "softmax, mse");
    assert_close(o->Delta[0], -1 - f, 1e-14, "Delta, mse");
    o->loss = ORACLE_LOGISTIC;
    assert_close(oracle_forward(o), log(1 + exp(f)), 1e-14, "softmax, logistic");
    assert_close(o->Delta[0], -1 / (1 + exp(-f)), 1e-14, "Delta, logistic");

    o->rho = 0.5; /* one expert of two, the first */
    oracle_forward(o);
    assert_close(o->f[0], 1.9 * out1 / 1.5, 1e-14, "softmax, top 1");
    o->gate = ORACLE_SIGMOID_M;
    phi1 = 1 / (1 + 1 / e1);
    oracle_forward(o);
    assert_close(o->f[0], 1.9 * phi1 * out1 / 2 / 1.5, 1e-14, "sigmoid 1/M, top 1");
    o->gate = ORACLE_SIGMOID_K;
    oracle_forward(o);
    assert_close(o->f[0], 1.9 * phi1 * out1 / 1.5, 1e-14, "sigmoid 1/K, top 1");
    o->gate = ORACLE_CONSTANT;
    oracle_forward(o);
    assert_close(o->f[0], 1.9 * (out1 + out2) / 2 / 1.5, 1e-14, "constant");
    oracle_centre_here(o);
    oracle_forward(o);
    assert_true(o->f[0] == 0);
    assert_true(o->f0[0] != 0);
    oracle_free(o);
}

/* One nonzero weight per block, in general position, all sizes different: one path from input 1 to
 * output, which fixes the layout of the arrays and every power of a size in the forward pass. */
static void test_single_path(void **state) {
    (void)state;
    enum { P = 2, D = 3, N = 5, M = 7, NE = 4 };
    struct oracle *o = oracle_new(P, D, N, M, NE);
    int d = 1, n = 3, i = 2, j = 1, top = 4;
    o->X[1 * D + d] = 1.4;
    o->W1[n * D + d] = 0.9;
    o->Q[i * N + n] = 1.6;
    o->W2in[(i * NE + j) * N + n] = -1.8;
    o->W2out[top * M * NE + i * NE + j] = 2.1;
    o->w4[top] = 0.7;
    o->gamma0 = 0.4;
    o->beta = 1.5;
    double s1 = tanh(0.9 * 1.4 / sqrt(D));
    double e = exp(1.5 * 1.6 * s1 / sqrt(N));
    double phi = M * e / (e + M - 1);
    double out = sqrt((double)M / NE) * 2.1 * tanh(-1.8 * s1 / sqrt(N));
    double loss = oracle_forward(o);
    assert_close(o->f[1], 0.7 * phi * out / M / (0.4 * N), 1e-14, "single path");
    assert_true(o->f[0] == 0);
    assert_close(loss, o->f[1] * o->f[1] / 2 / P, 1e-14, "mean loss");
    o->gate = ORACLE_SIGMOID_K;
    o->rho = 3.0 / M;
    oracle_forward(o);
    assert_close(o->f[1], 0.7 * e / (1 + e) * out / 3 / (0.4 * N), 1e-14, "1/K aggregation");
    oracle_free(o);
}

/* erf(0.6) = 0.6038560908479259, normal distribution function at 0.6 = 0.7257468822499265 */
static void test_activations(void **state) {
    (void)state;
    assert_close(oracle_sigma(ORACLE_TANH, 0.6), 0.5370495669980353, 1e-15, "tanh");
    assert_close(oracle_sigma(ORACLE_ERF, 0.6), 0.6038560908479259, 1e-15, "erf");
    assert_close(oracle_sigma(ORACLE_GELU, 0.6), 0.6 * 0.7257468822499265, 1e-15, "gelu");
    assert_close(oracle_sigma(ORACLE_GELU, -0.6), -0.6 * 0.2742531177500735, 1e-15, "gelu");
    assert_close(oracle_sigma(ORACLE_SOFTPLUS, 0.6), log(1 + exp(0.6)), 1e-15, "softplus");
    assert_close(oracle_sigma(ORACLE_SOFTPLUS, -0.6), log(1 + exp(-0.6)), 1e-15, "softplus");
    assert_close(oracle_sigma(ORACLE_SOFTPLUS, 800), 800, 0, "softplus far out");
    assert_true(oracle_sigma(ORACLE_RELU, 0.6) == 0.6 && oracle_sigma(ORACLE_RELU, -0.6) == 0);
    assert_true(oracle_sigma(ORACLE_LINEAR, -0.6) == -0.6);
}

/* K largest logits, the lower index among equals */
static void test_ties(void **state) {
    (void)state;
    struct oracle *o = oracle_new(1, 1, 1, 6, 1);
    const double q[6] = {0.5, 2, 0.5, -1, 0.5, 0.5};
    const double mask[6] = {1, 1, 1, 0, 0, 0};
    o->X[0] = o->W1[0] = 1;
    for (int i = 0; i < 6; i++)
        o->Q[i] = q[i];
    o->rho = 0.5;
    oracle_forward(o);
    for (int i = 0; i < 6; i++)
        assert_true(o->mask[i] == mask[i]);
    oracle_free(o);
}

/* Finite differences, fourth order at distance h = 1e-3; two errors, added.
 * Round-off, absolute in dL/dw: the loss is about 1 with an error of some roundings, 1e-15,
 * and the difference quotient has (8 + 8 + 1 + 1) / 12 = 1.5 times that over h: 2e-12. (The step
 * itself, w after minus before, adds some 1e-15 in w, which is less than 1e-15 in dL/dw.)
 * Truncation, relative to the largest dL/dw of the block: h^4 L^(5) / 30. One parameter moves a
 * preactivation by about h. Four more derivatives bring at most about 20 from tanh or erf alone and
 * a few hundred from two of them nested with the gate and the loss: 1e-12 * 600 / 30 = 2e-11. (At
 * ten times the distance the deviation is 2e-8, growing as h^4, which is 2e-12 here.)
 * Each bound is taken with some reserve. A wrong factor or term is 1e-2 of the largest or more;
 * that the sum stays below 1e-6 of it is asserted. */
static const double DISTANCE = 1e-3;
static const double ROUND_OFF = 4e-12;
static const double TRUNCATION = 4e-11;
/* relu: one parameter by 2 h moves any h1 by at most 2 h max|x| / sqrt(D) < 4e-3 and any h2 by
 * about as much, so no kink is crossed if all are farther than this */
static const double KINK = 1e-2;

static const char *block_name[ORACLE_BLOCKS] = {"W1", "Q", "W2in", "W2out", "w4"};
static double worst; /* largest deviation seen, as a part of its tolerance */

static void check_gradient(struct oracle *o) {
    double error[ORACLE_BLOCKS], scale[ORACLE_BLOCKS];
    oracle_gradient_check(o, DISTANCE, error, scale);
    for (int block = 0; block < ORACLE_BLOCKS; block++) {
        if (block == ORACLE_Q && o->gate == ORACLE_CONSTANT) {
            assert_true(error[block] == 0 && scale[block] == 0); /* not trained, no influence */
            continue;
        }
        double tolerance = ROUND_OFF * oracle_rate(o, block) + TRUNCATION * scale[block];
        assert_true(tolerance < 1e-6 * scale[block]);
        if (!(error[block] <= tolerance))
            fail_msg("%s: relative deviation %g (gate %d, activation %d, loss %d, rho %g, beta %g)",
                     block_name[block], error[block] / scale[block], (int)o->gate,
                     (int)o->activation, (int)o->loss, o->rho, o->beta);
        worst = fmax(worst, error[block] / tolerance);
    }
}

/* both losses, lambda_in = 1 and kappa, MSSP and muP */
static void check_all_steps(struct oracle *o, gsl_rng *rng) {
    for (int mup = 0; mup < 2; mup++) {
        do {
            draw_weights(o, rng, mup);
            oracle_forward(o);
        } while (kink_distance(o) < KINK);
        for (int k = 0; k < 4; k++) {
            o->loss = k % 2 ? ORACLE_LOGISTIC : ORACLE_MSE;
            o->lambda_in = k / 2 ? (double)o->M / o->N : 1;
            check_gradient(o);
        }
    }
}

static const struct {
    enum oracle_gate gate;
    double beta;
} GATES[] = {{ORACLE_SOFTMAX, 1},     {ORACLE_SOFTMAX, 0.7},   {ORACLE_SIGMOID_M, 1},
             {ORACLE_SIGMOID_M, 0.7}, {ORACLE_SIGMOID_K, 0.7}, {ORACLE_SIGMOID_K, 1},
             {ORACLE_CONSTANT, 1}};
enum { GATE_COUNT = sizeof GATES / sizeof GATES[0] };

static void test_gradient(void **state) {
    (void)state;
    gsl_rng *rng = generator(1);
    struct oracle *o = oracle_new(2, 3, 5, 4, 2);
    o->gamma0 = 1.3;
    o->eta0 = 0.3;
    draw_data(o, rng);
    worst = 0;
    for (int a = ORACLE_TANH; a <= ORACLE_LINEAR; a++)
        for (int g = 0; g < GATE_COUNT; g++)
            for (int k = 0; k < 2; k++) {
                o->activation = (enum oracle_activation)a;
                o->gate = GATES[g].gate;
                o->beta = GATES[g].beta;
                o->rho = k ? 0.5 : 1;
                check_all_steps(o, rng);
            }
    print_message("largest deviation from finite differences %.2g of its tolerance\n", worst);
    oracle_free(o);
    gsl_rng_free(rng);
}

/* output centred, other sizes (kappa = 1.5, Ne = 3), real targets, after some steps of training */
static void test_gradient_centred(void **state) {
    (void)state;
    gsl_rng *rng = generator(2);
    struct oracle *o = oracle_new(4, 3, 6, 9, 3);
    draw_data(o, rng);
    gaussians(rng, o->y, o->P, 0.8);
    o->rho = 1.0 / 3;
    o->beta = 0.7;
    o->gamma0 = 0.8;
    o->eta0 = 0.05;
    o->lambda_in = 0.4;
    for (int g = 0; g < GATE_COUNT; g++) {
        o->gate = GATES[g].gate;
        draw_weights(o, rng, false);
        oracle_centre_here(o);
        double mean = 0;
        for (int mu = 0; mu < o->P; mu++)
            mean += o->y[mu] * o->y[mu] / 2 / o->P;
        assert_close(oracle_forward(o), mean, 1e-14, "loss of f = 0");
        for (int t = 0; t < 3; t++)
            oracle_step(o);
        check_gradient(o);
    }
    oracle_free(o);
    gsl_rng_free(rng);
}

/* The change of f in one step of eta0 = 1e-7 against (eta0/P) sum_nu ntk(mu, nu) Delta_nu, relative
 * to the largest change. The second order in eta0 is eta0 times a number that is O(1) at every
 * width, up to about 10 here; round-off is a few 1e-16 over a change of 1e-7 or, where the inputs'
 * contributions nearly cancel, 1e-8. A misplaced power of N, M or Ne would show up as O(1). */
static const double TANGENT = 2e-6;

static void check_tangent(struct oracle *o) {
    double before[8], change[8], largest = 0;
    oracle_step(o);
    for (int mu = 0; mu < o->P; mu++) {
        before[mu] = o->f[mu];
        change[mu] = 0;
        for (int nu = 0; nu < o->P; nu++)
            change[mu] += o->eta0 / o->P * oracle_ntk(o, mu, nu) * o->Delta[nu];
        largest = fmax(largest, fabs(change[mu]));
    }
    bool held = o->hold_mask;
    o->hold_mask = true;
    oracle_forward(o);
    o->hold_mask = held;
    for (int mu = 0; mu < o->P; mu++) {
        double gap = fabs(o->f[mu] - before[mu] - change[mu]) / largest;
        if (!(gap <= TANGENT))
            fail_msg("N %d M %d Ne %d gate %d activation %d: %g off the tangent kernel", o->N, o->M,
                     o->Ne, (int)o->gate, (int)o->activation, gap);
        worst = fmax(worst, gap / TANGENT);
    }
}

static void tangent_of_sizes(gsl_rng *rng, int N, int M, int Ne) {
    struct oracle *o = oracle_new(4, 5, N, M, Ne);
    draw_data(o, rng);
    o->eta0 = 1e-7;
    for (int k = 0; k < GATE_COUNT * 12; k++) {
        o->gate = GATES[k % GATE_COUNT].gate;
        o->beta = GATES[k % GATE_COUNT].beta;
        o->activation = (enum oracle_activation)(k / GATE_COUNT % 6);
        o->rho = k % 2 ? 0.5 : 1;
        o->loss = k % 3 ? ORACLE_MSE : ORACLE_LOGISTIC;
        o->lambda_in = k % 5 < 2 ? 1 : k % 5 < 4 ? (double)M / N : 0.3;
        o->gamma0 = k % 4 < 2 ? 1 : 0.6;
        draw_weights(o, rng, k >= GATE_COUNT * 6);
        check_tangent(o);
    }
    oracle_free(o);
}

static void test_tangent_kernel(void **state) {
    (void)state;
    gsl_rng *rng = generator(3);
    worst = 0;
    tangent_of_sizes(rng, 8, 6, 2);
    tangent_of_sizes(rng, 32, 24, 2);
    tangent_of_sizes(rng, 32, 16, 4);
    tangent_of_sizes(rng, 32, 64, 1);
    tangent_of_sizes(rng, 96, 72, 3);
    print_message("largest deviation from the tangent kernel %.2g of its tolerance\n", worst);
    gsl_rng_free(rng);
}

enum { SCALES = 11 };
static const char *scale_name[SCALES] = {"Phi1",       "Phi3",       "Phib",       "G1",
                                         "Gb",         "Gphi",       "step of h1", "step of psi",
                                         "step of h2", "step of h3", "ntk"};

static double mean_square_gap(const double *a, const double *b, int count) {
    double sum = 0;
    for (int k = 0; k < count; k++)
        sum += (a[k] - b[k]) * (a[k] - b[k]) / count;
    return sum;
}

/* kernels at the start (diagonal, first input) and mean square movement of all layers in one step
 */
static void add_scales(struct oracle *o, double weight, double scale[SCALES]) {
    double h1[256], psi[256], h2[512], h3[256];
    oracle_step(o);
    double now[SCALES] = {oracle_phi1(o, 0, 0), oracle_phi3(o, 0, 0), oracle_phib(o, 0, 0),
                          oracle_g1(o, 0, 0),   oracle_gb(o, 0, 0),   oracle_gphi(o, 0, 0)};
    now[10] = oracle_ntk(o, 0, 0);
    for (int n = 0; n < o->N; n++) {
        h1[n] = o->h1[n];
        h3[n] = o->h3[n];
    }
    for (int i = 0; i < o->M; i++)
        psi[i] = o->psi[i];
    for (int u = 0; u < o->M * o->Ne; u++)
        h2[u] = o->h2[u];
    oracle_forward(o);
    now[6] = mean_square_gap(o->h1, h1, o->N);
    now[7] = mean_square_gap(o->psi, psi, o->M);
    now[8] = mean_square_gap(o->h2, h2, o->M * o->Ne);
    now[9] = mean_square_gap(o->h3, h3, o->N);
    for (int k = 0; k < SCALES; k++)
        scale[k] += weight * now[k];
}

/* MSSP: the same at N = 64 and N = 256 up to O(1/N), some 10 per cent at N = 64, and the noise of
 * the draws (relative standard deviation of one draw up to 0.7 at N = 64 and 0.4 at N = 256, so
 * 0.07 for either mean). A wrong half power of the width would give a factor 2 or, in a square, 4;
 * the bound is a factor 1.4. */
static void test_scales(void **state) {
    (void)state;
    gsl_rng *rng = generator(4);
    const int width[2] = {64, 256}, draws[2] = {100, 30};
    for (int g = 0; g < 2; g++) {
        double scale[2][SCALES] = {{0}};
        for (int w = 0; w < 2; w++) {
            struct oracle *o = oracle_new(2, 4, width[w], width[w] * 3 / 4, 2);
            o->gate = g ? ORACLE_SIGMOID_K : ORACLE_SOFTMAX;
            o->rho = 0.5;
            o->eta0 = 0.3;
            for (int k = 0; k < o->P * o->D; k++)
                o->X[k] = k % 3 - 0.7;
            o->y[0] = 1, o->y[1] = -1;
            for (int k = 0; k < draws[w]; k++) {
                draw_weights(o, rng, false);
                add_scales(o, 1.0 / draws[w], scale[w]);
            }
            oracle_free(o);
        }
        for (int k = 0; k < SCALES; k++) {
            double ratio = scale[1][k] / scale[0][k];
            if (!(ratio > 1 / 1.4 && ratio < 1.4))
                fail_msg("%s: %g at N = 64, %g at N = 256", scale_name[k], scale[0][k],
                         scale[1][k]);
        }
    }
    gsl_rng_free(rng);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_ties),           cmocka_unit_test(test_single_path),
        cmocka_unit_test(test_gradient),       cmocka_unit_test(test_gradient_centred),
        cmocka_unit_test(test_tangent_kernel), cmocka_unit_test(test_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
