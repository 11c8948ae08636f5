/* Judges the oracles of regime I and of the dense network: by hand-made cases, by finite
 * differences of the loss and by each other where one is a case of the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>

#include <math.h>
#include <string.h>

#include "tests/oracles/oracle_dense.h"
#include "tests/oracles/oracle_regime1.h"

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

static void draw_data(gsl_rng *rng, int P, int D, double *X, double *y) {
    gaussians(rng, X, P * D, 1);
    for (int mu = 0; mu < P; mu++)
        y[mu] = mu % 2 ? -1 : 1;
}

static void assert_close(double got, double expected, double tolerance, const char *what) {
    if (!(fabs(got - expected) <= tolerance * fabs(expected)))
        fail_msg("%s: %.17g instead of %.17g", what, got, expected);
}

/* P = D = N = 1, M = 2, E = 1, all numbers written out. Tolerance: a few dozen roundings. */
static void test_by_hand(void **state) {
    (void)state;
    struct oracle1 *o = oracle1_new(1, 1, 1, 2, 1);
    o->X[0] = 0.7;
    o->y[0] = -1;
    o->W1[0] = 1.3;
    o->Q[0] = 0.4, o->Q[1] = -0.9;
    o->b[0] = 0.3, o->b[1] = 0.2;
    o->noise[0] = -0.1, o->noise[1] = 0.05;
    o->W[0] = -0.6, o->W[1] = 1.1;
    o->w[0] = 1.9;
    o->gamma0 = 1.5;
    double s = tanh(1.3 * 0.7), h1 = -0.6 * s, h2 = 1.1 * s;
    double e1 = exp(0.4 * s + 0.2), e2 = exp(-0.9 * s + 0.25);
    double p1 = e1 / (e1 + e2), p2 = e2 / (e1 + e2);
    double f = 1.9 * (p1 * h1 + p2 * h2) / 1.5;
    assert_close(oracle1_forward(o), (1 + f) * (1 + f) / 2, 1e-14, "softmax, mse");
    assert_close(o->Delta[0], -1 - f, 1e-14, "Delta, mse");
    oracle1_backward(o);
    double q1 = p1 * p2 * 1.9 * (h1 - h2), z = 1.9 * (-0.6 * p1 + 1.1 * p2) + (0.4 + 0.9) * q1;
    assert_close(o->gphi[1], 1.9 * h2, 1e-14, "gphi");
    assert_close(o->gpsi[0], q1, 1e-14, "gpsi");
    assert_close(o->gpsi[1], -q1, 1e-14, "gpsi");
    assert_close(o->g1[0], (1 - s * s) * z, 1e-14, "g1");
    o->loss = ORACLE_LOGISTIC;
    assert_close(oracle1_forward(o), log(1 + exp(f)), 1e-14, "softmax, logistic");
    assert_close(o->Delta[0], -1 / (1 + exp(-f)), 1e-14, "Delta, logistic");
    o->activated = true;
    oracle1_forward(o);
    assert_close(o->f[0], 1.9 * (p1 * tanh(h1) + p2 * tanh(h2)) / 1.5, 1e-14, "activated");

    o->activated = false;
    o->K = 1; /* the first */
    oracle1_forward(o);
    assert_close(o->f[0], 1.9 * h1 / 1.5, 1e-14, "softmax, top 1");
    o->gate = ORACLE1_SIGMOID;
    oracle1_forward(o);
    assert_close(o->f[0], 1.9 * e1 / (1 + e1) * h1 / 1.5, 1e-14, "sigmoid, top 1");
    o->gate = ORACLE1_CONSTANT;
    oracle1_forward(o);
    assert_close(o->f[0], 1.9 * (h1 + h2) / 1.5, 1e-14, "constant");
    oracle1_centre_here(o);
    oracle1_forward(o);
    assert_true(o->f[0] == 0);
    assert_true(o->f0[0] != 0);
    oracle1_free(o);
}

/* One nonzero weight per block, in general position, all sizes different: one path from input 1 to
 * output, which fixes the layout of the arrays and every power of a size, in the forward pass and
 * in the kernels. */
static void test_single_path(void **state) {
    (void)state;
    enum { P = 2, D = 3, N = 5, M = 7, E = 4 };
    struct oracle1 *o = oracle1_new(P, D, N, M, E);
    const int i = 2, at[E] = {1, 2, 4, 0}; /* the neurons of the path */
    const double weight[E] = {-1.8, 2.1, 1.5, 2.4};
    o->X[1 * D + 2] = 1.4;
    o->W1[3 * D + 2] = 0.9;
    o->Q[i * N + 3] = 1.6;
    double s1 = tanh(0.9 * 1.4 / sqrt(D)), s = s1, h = 0, g = 0.7;
    for (int l = 0; l < E; l++) {
        oracle1_W(o, l, i)[at[l] * N + (l ? at[l - 1] : 3)] = weight[l];
        h = weight[l] * s / sqrt(N);
        s = tanh(h);
    }
    o->w[at[E - 1]] = 0.7;
    o->gamma0 = 0.4;
    double e = exp(1.6 * s1 / N), p = e / (e + M - 1);
    double loss = oracle1_forward(o);
    oracle1_backward(o);
    assert_close(o->f[1], 0.7 * p * h / (0.4 * N), 1e-14, "single path");
    assert_true(o->f[0] == 0);
    assert_close(loss, o->f[1] * o->f[1] / 2 / P, 1e-14, "mean loss");
    assert_close(o->gphi[M + i], 0.7 * h / N, 1e-14, "gphi");
    assert_close(oracle1_phi1(o, 1, 1), s1 * s1 / N, 1e-14, "Phi1");
    assert_close(oracle1_phiL(o, 1, 1), p * p * h * h / N, 1e-14, "PhiL");
    assert_close(oracle1_phi(o, E - 1, i, 1, 1), s * s / N, 1e-14, "Phi of the last layer");
    assert_close(oracle1_gg(o, E - 1, i, 0, 1), p * g * g / M / N, 1e-14, "G of the last layer");
    assert_true(oracle1_phi1(o, 0, 1) == 0 && oracle1_phi(o, 0, i + 1, 1, 1) == 0);
    for (int l = E - 1; l > 0; l--) { /* input 0 has h = 0 everywhere: p = 1/M, slopes 1 */
        assert_close(oracle1_gg(o, l, i, 0, 0), g * g / M / M / N, 1e-14, "G of an expert");
        g *= weight[l] / sqrt(N);
    }
    g *= weight[0] / sqrt(N) / M; /* the router, z1's other part, has gphi = 0 */
    assert_close(oracle1_g1(o, 0, 0), g * g / N, 1e-14, "G1");
    oracle1_free(o);
}

/* K largest logits, the lower index among equals; K = 0 is all */
static void test_ties(void **state) {
    (void)state;
    struct oracle1 *o = oracle1_new(1, 1, 1, 6, 1);
    const double b[6] = {0.5, 2, 0.5, -1, 0.5, 0.5};
    const int rank[6] = {1, 0, 2, 5, 3, 4};
    memcpy(o->b, b, sizeof b);
    for (o->K = 0; o->K <= 6; o->K++) {
        oracle1_forward(o);
        for (int i = 0; i < 6; i++)
            assert_true(o->mask[i] == (o->K == 0 || rank[i] < o->K));
    }
    oracle1_free(o);
}

/* Finite differences, fourth order at distance h; two errors, added.
 * Round-off, absolute in dL/dw: the loss L has an error of some roundings, (1 + L) 1e-15, and the
 * difference quotient has (8 + 8 + 1 + 1) / 12 = 1.5 times that over h: 1.5e-12 (1 + L) at
 * h = 1e-3. (The step itself, w after minus before, adds some 1e-15 in w.)
 * Truncation, relative to the largest dL/dw of the block: h^4 L^(5) / 30. One parameter moves a
 * preactivation by about h. Four more derivatives bring at most about 20 from tanh or erf alone and
 * about a thousand from up to five of them nested with the gate and the loss, whose preactivations
 * may move by 2 h: 1e-12 * 1000 / 30 = 3e-11.
 * Each bound is taken with some reserve. A wrong factor or term is 1e-2 of the largest or more;
 * that the sum stays below 1e-4 of it is asserted.
 * relu: between the kinks only gate and loss bend, and h = 1e-4 is enough. A change of a parameter
 * by 2 h moves h1 by at most 2 h max|x| / sqrt(D) < 4e-4 and a later layer by as much times the
 * norms, about 2 or 3, of the matrices W / sqrt(N) between: no kink is crossed if all are farther
 * than 1e-2. Units that are off at all inputs have no gradient, on both sides exactly. */
static const double DISTANCE = 1e-3, DISTANCE_RELU = 1e-4;
static const double ROUND_OFF = 4e-15; /* over h */
static const double TRUNCATION = 1e-10;
static const double KINK = 1e-2;

static double worst; /* largest deviation seen, as a part of its tolerance */
static int checks;

static double distance(enum oracle_activation activation) {
    return activation == ORACLE_RELU ? DISTANCE_RELU : DISTANCE;
}

/* whether nothing depends on the router's parameters */
static bool router_is_idle(const struct oracle1 *o) {
    return o->gate == ORACLE1_CONSTANT || (o->gate == ORACLE1_SOFTMAX && (o->K == 1 || o->M == 1));
}

static bool expert_is_idle(const struct oracle1 *o, int i) {
    for (int mu = 0; mu < o->P; mu++)
        if (o->mask[mu * o->M + i] > 0)
            return false;
    return true;
}

static void check_block(const struct oracle1 *o, int block, double loss, double error,
                        double scale) {
    bool idle = oracle1_rate(o, block) == 0;
    if (block == ORACLE1_Q || block == ORACLE1_B)
        idle = idle || router_is_idle(o);
    if (block >= ORACLE1_MATRICES)
        idle = expert_is_idle(o, (block - ORACLE1_MATRICES) % o->M);
    bool dead = o->activation == ORACLE_RELU && scale == 0;
    if (idle || dead) {
        assert_true(error == 0 && scale == 0);
        return;
    }
    double tolerance = ROUND_OFF / distance(o->activation) * (1 + loss) * oracle1_rate(o, block) +
                       TRUNCATION * scale;
    if (!(error <= tolerance) || !(tolerance < 1e-4 * scale))
        fail_msg("block %d: %g off %g, tolerance %g (gate %d, activation %d %d, loss %d, M %d, "
                 "E %d, K %d)",
                 block, error, scale, tolerance, (int)o->gate, (int)o->activation, o->activated,
                 (int)o->loss, o->M, o->E, o->K);
    worst = fmax(worst, error / tolerance);
    checks++;
}

static void check_gradient(struct oracle1 *o) {
    double error[32], scale[32];
    double loss = oracle1_forward(o);
    assert_true(oracle1_blocks(o) <= 32);
    oracle1_gradient_check(o, distance(o->activation), error, scale);
    for (int block = 0; block < oracle1_blocks(o); block++)
        check_block(o, block, loss, error[block], scale[block]);
}

static void draw_weights(struct oracle1 *o, gsl_rng *rng) {
    for (int block = 0; block < oracle1_blocks(o); block++) {
        int count;
        double *w = oracle1_block(o, block, &count);
        gaussians(rng, w, count, 1);
    }
    gaussians(rng, o->noise, o->M, 0.5);
}

/* smallest |h| */
static double kink_distance(const double *h, int count) {
    double least = INFINITY;
    for (int k = 0; k < count; k++)
        least = fmin(least, fabs(h[k]));
    return least;
}

static void draw_off_kinks(struct oracle1 *o, gsl_rng *rng) {
    do {
        draw_weights(o, rng);
        oracle1_forward(o);
    } while (o->activation == ORACLE_RELU &&
             (kink_distance(o->h1, o->P * o->N) < KINK ||
              kink_distance(o->h, o->E * o->M * o->P * o->N) < KINK));
}

/* all gates, numbers of selected experts, expert outputs, losses */
static void check_sizes(int M, int E, enum oracle_activation activation, gsl_rng *rng) {
    struct oracle1 *o = oracle1_new(3, 3, 4, M, E);
    draw_data(rng, o->P, o->D, o->X, o->y);
    o->activation = activation;
    o->gamma0 = 1.3;
    o->eta0 = 0.3;
    o->kappa_Q = 0.7;
    o->kappa_b = 1.4;
    for (int g = ORACLE1_SOFTMAX; g <= ORACLE1_CONSTANT; g++)
        for (o->K = 0; o->K < M && (o->K == 0 || g != ORACLE1_CONSTANT); o->K++)
            for (int k = 0; k < 4; k++) {
                o->gate = (enum oracle1_gate)g;
                o->activated = k / 2;
                o->loss = k % 2 ? ORACLE_LOGISTIC : ORACLE_MSE;
                draw_off_kinks(o, rng);
                check_gradient(o);
            }
    oracle1_free(o);
}

static void test_gradient(void **state) {
    (void)state;
    gsl_rng *rng = generator(1);
    worst = checks = 0;
    for (int a = ORACLE_TANH; a <= ORACLE_LINEAR; a++)
        for (int M = 1; M <= 4; M++)
            for (int E = 1; E <= 3; E++)
                check_sizes(M, E, (enum oracle_activation)a, rng);
    print_message("largest of %d deviations from finite differences %.2g of its tolerance\n",
                  checks, worst);
    gsl_rng_free(rng);
}

/* output centred, other sizes, real targets, after some steps of training, b fixed or trained */
static void test_gradient_centred(void **state) {
    (void)state;
    gsl_rng *rng = generator(2);
    struct oracle1 *o = oracle1_new(4, 5, 6, 3, 2);
    draw_data(rng, o->P, o->D, o->X, o->y);
    gaussians(rng, o->y, o->P, 0.8);
    o->gamma0 = 0.8;
    o->eta0 = 0.1;
    for (int k = 0; k < 12; k++) {
        o->gate = (enum oracle1_gate)(k % 3);
        o->K = k / 3 % 2 ? 2 : 0;
        o->kappa_b = k / 6;
        draw_weights(o, rng);
        oracle1_centre_here(o);
        double mean = 0, b[3];
        for (int mu = 0; mu < o->P; mu++)
            mean += o->y[mu] * o->y[mu] / 2 / o->P;
        assert_close(oracle1_forward(o), mean, 1e-14, "loss of f = 0");
        memcpy(b, o->b, sizeof b);
        for (int t = 0; t < 3; t++)
            oracle1_step(o);
        bool moved = memcmp(b, o->b, sizeof b) != 0;
        assert_true(moved == (o->kappa_b > 0 && o->gate != ORACLE1_CONSTANT));
        if (o->kappa_b > 0)
            check_gradient(o);
    }
    oracle1_free(o);
    gsl_rng_free(rng);
}

static void draw_dense(struct oracle_dense *o, gsl_rng *rng) {
    do {
        for (int block = 0; block <= o->depth; block++) {
            int count;
            double *w = oracle_dense_block(o, block, &count);
            gaussians(rng, w, count, 1);
        }
        oracle_dense_forward(o);
    } while (o->activation == ORACLE_RELU && kink_distance(o->h, o->depth * o->P * o->N) < KINK);
}

static void test_dense_gradient(void **state) {
    (void)state;
    gsl_rng *rng = generator(3);
    worst = 0;
    for (int k = 0; k < 6 * 4 * 2; k++) {
        struct oracle_dense *o = oracle_dense_new(3, 4, 6, 1 + k / 6 % 4);
        double error[8], scale[8];
        draw_data(rng, o->P, o->D, o->X, o->y);
        o->activation = (enum oracle_activation)(k % 6);
        o->loss = k / 24 ? ORACLE_LOGISTIC : ORACLE_MSE;
        o->gamma0 = 0.7;
        o->eta0 = 0.4;
        draw_dense(o, rng);
        if (k % 5 == 0)
            oracle_dense_centre_here(o);
        double loss = oracle_dense_forward(o), h = distance(o->activation);
        oracle_dense_gradient_check(o, h, error, scale);
        for (int block = 0; block <= o->depth; block++) {
            double rate = o->eta0 * o->gamma0 * o->gamma0 * o->N;
            double tolerance = ROUND_OFF / h * (1 + loss) * rate + TRUNCATION * scale[block];
            if (!(error[block] <= tolerance) || !(tolerance < 1e-4 * scale[block]))
                fail_msg("dense, depth %d, block %d: %g off %g, tolerance %g (activation %d)",
                         o->depth, block, error[block], scale[block], tolerance, k % 6);
            worst = fmax(worst, error[block] / tolerance);
        }
        oracle_dense_free(o);
    }
    print_message("largest deviation, dense, %.2g of its tolerance\n", worst);
    gsl_rng_free(rng);
}

/* Two orders of summation differ by some N roundings per layer, 1e-15 relative to the largest entry
 * of an array; layers and steps carry these on with factors of order 1 to 10 each. */
static const double SAME = 1e-12;

static void assert_same(const double *a, const double *b, int count, const char *what) {
    double gap = 0, largest = 0;
    for (int k = 0; k < count; k++) {
        gap = fmax(gap, fabs(a[k] - b[k]));
        largest = fmax(largest, fabs(a[k]));
    }
    if (!(gap <= SAME * largest) || !(largest > 0))
        fail_msg("%s: %g apart, largest %g", what, gap, largest);
    worst = fmax(worst, gap / largest / SAME);
}

static void compare(const struct oracle1 *o, const struct oracle_dense *d) {
    int layer = o->P * o->N, square = o->N * o->N;
    assert_same(d->f, o->f, o->P, "f");
    assert_same(d->Delta, o->Delta, o->P, "Delta");
    assert_same(d->h, o->h1, layer, "h1");
    assert_same(d->g, o->g1, layer, "g1");
    assert_same(d->h + layer, o->h, o->E * layer, "h");
    assert_same(d->g + layer, o->g, o->E * layer, "g");
    assert_same(d->W1, o->W1, o->N * o->D, "W1");
    assert_same(d->W, o->W, o->E * square, "W");
    assert_same(d->w, o->w, o->N, "w");
    double a[] = {oracle_dense_phi(d, 1, 0, 1), oracle_dense_gg(d, 1, 0, 1),
                  oracle_dense_phi(d, d->depth, 0, 1), oracle_dense_phi(d, 2, 1, 1),
                  oracle_dense_gg(d, 2, 1, 2)};
    double b[] = {oracle1_phi1(o, 0, 1), oracle1_g1(o, 0, 1), oracle1_phiL(o, 0, 1),
                  oracle1_phi(o, 0, 0, 1, 1), oracle1_gg(o, 0, 0, 1, 2)};
    assert_same(a, b, 5, "kernels");
}

/* regime I with one expert, gate 1 and activated expert output is the dense network, whatever its
 * router */
static void test_dense_is_one_expert(void **state) {
    (void)state;
    gsl_rng *rng = generator(4);
    worst = 0;
    for (int k = 0; k < 6 * 3 * 2; k++) {
        struct oracle1 *o = oracle1_new(3, 4, 7, 1, 1 + k / 6 % 3);
        struct oracle_dense *d = oracle_dense_new(o->P, o->D, o->N, o->E + 1);
        draw_data(rng, o->P, o->D, o->X, o->y);
        draw_weights(o, rng);
        memcpy(d->X, o->X, (size_t)(o->P * o->D) * sizeof *d->X);
        memcpy(d->y, o->y, (size_t)o->P * sizeof *d->y);
        memcpy(d->W1, o->W1, (size_t)(o->N * o->D) * sizeof *d->W1);
        memcpy(d->W, o->W, (size_t)(o->E * o->N * o->N) * sizeof *d->W);
        memcpy(d->w, o->w, (size_t)o->N * sizeof *d->w);
        o->gate = ORACLE1_CONSTANT;
        o->activated = true;
        o->activation = d->activation = (enum oracle_activation)(k % 6);
        o->loss = d->loss = k / 18 ? ORACLE_LOGISTIC : ORACLE_MSE;
        o->gamma0 = d->gamma0 = 1.2;
        o->eta0 = d->eta0 = 0.1;
        o->centre = d->centre = k % 5 == 0;
        gaussians(rng, o->f0, o->P, 0.3);
        memcpy(d->f0, o->f0, (size_t)o->P * sizeof *d->f0);
        for (int t = 0; t < 4; t++) {
            double loss = oracle1_step(o), other = oracle_dense_step(d);
            assert_same(&loss, &other, 1, "loss");
            compare(o, d);
        }
        oracle1_free(o);
        oracle_dense_free(d);
    }
    print_message("dense and one expert: largest difference %.2g of its tolerance\n", worst);
    gsl_rng_free(rng);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_single_path),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_gradient_centred),
        cmocka_unit_test(test_dense_gradient),
        cmocka_unit_test(test_dense_is_one_expert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
