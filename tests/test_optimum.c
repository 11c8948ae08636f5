/* Where a loss is smallest along a key: places and errors, of means and medians. */
#include "solver/study/optimum.h"
#include "solver/measure/stats.h"
#include "tests/support/support.h"

#include <gsl/gsl_randist.h>
#include <math.h>
#include <string.h>

enum { GRID = 5, RUNS = 8 };

/* ln loss = (x - 0.3)^2 + noise, at x = -2 ... 2. */
static void draw(double loss[GRID][RUNS], double noise, gsl_rng *rng) {
    for (int i = 0; i < GRID; i++)
        for (int r = 0; r < RUNS; r++)
            loss[i][r] =
                exp(pow(i - 2 - 0.3, 2)) * (1 + (noise > 0 ? gsl_ran_gaussian(rng, noise) : 0));
}

static const double x[GRID] = {-2, -1, 0, 1, 2};

static void test_optimum_of_a_parabola(void **state) {
    (void)state;
    double loss[GRID][RUNS], at, at_se;
    const double *rows[GRID] = {loss[0], loss[1], loss[2], loss[3], loss[4]};
    int best;
    draw(loss, 0, NULL);
    assert_int_equal(optimum_find(OPTIMUM_MEANS, GRID, x, rows, RUNS, &at, &at_se, &best),
                     EDGE_NONE);
    CHECK_ABS(at, 0.3, 1e-15, "the vertex"); /* a few roundings of numbers of order one */
    CHECK_ABS(at_se, 0, 1e-15, "no noise, no error");
    assert_int_equal(best, 2);
    assert_int_equal(optimum_find(OPTIMUM_MEANS, 2, x + 2, rows + 2, RUNS, &at, &at_se, &best),
                     EDGE_LOWEST);
    assert_true(at == 0 && isnan(at_se) && best == 0);
    assert_int_equal(optimum_find(OPTIMUM_MEANS, 3, x, rows, RUNS, &at, &at_se, &best),
                     EDGE_HIGHEST);
    assert_true(at == 0 && isnan(at_se) && best == 2);
    memset(loss[2], 0, sizeof loss[2]);
    assert_int_equal(optimum_find(OPTIMUM_MEANS, GRID, x, rows, RUNS, &at, &at_se, &best),
                     EDGE_ZERO);
    assert_true(at == 0 && isnan(at_se) && best == 2);
    rows[3] = NULL;
    assert_int_equal(optimum_find(OPTIMUM_MEANS, GRID, x, rows, RUNS, &at, &at_se, &best),
                     EDGE_FAILED);
    assert_true(at == 0 && best == 2);
    const double *none[GRID] = {0};
    assert_int_equal(optimum_find(OPTIMUM_MEANS, GRID, x, none, RUNS, &at, &at_se, &best),
                     EDGE_ALL_FAILED);
    assert_true(isnan(at) && best == -1);
}

/* The mean square of the error over the variance of the optimum over repeats; either is known to a
 * share of about sqrt(2/repeats). Of the jackknife it is 1 within five times that of both; of the
 * bootstrap of medians of eight, which are few, it is within a factor of two. */
static void check_error(enum optimum_kind kind, int repeats, double low, double high) {
    double loss[GRID][RUNS], at, at_se, sum = 0, squares = 0, errors = 0;
    const double *rows[GRID] = {loss[0], loss[1], loss[2], loss[3], loss[4]};
    int best;
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
    for (int k = 0; k < repeats; k++) {
        draw(loss, 0.03, rng);
        assert_int_equal(optimum_find(kind, GRID, x, rows, RUNS, &at, &at_se, &best), EDGE_NONE);
        sum += at;
        squares += at * at;
        errors += at_se * at_se;
    }
    gsl_rng_free(rng);
    double variance = (squares - sum * sum / repeats) / (repeats - 1);
    CHECK_ABS(errors / repeats / variance, (low + high) / 2, (high - low) / 2, "variance");
}

static void test_error_of_the_optimum(void **state) {
    (void)state;
    check_error(OPTIMUM_MEANS, 2000, 0.83, 1.17);
    check_error(OPTIMUM_MEDIANS, 200, 0.5, 2);
}

/* One run of eight far away: the mean's optimum moves, that of the medians does not. */
static void test_medians_ignore_one_run(void **state) {
    (void)state;
    double loss[GRID][RUNS], at, at_se;
    const double *rows[GRID] = {loss[0], loss[1], loss[2], loss[3], loss[4]};
    int best;
    draw(loss, 0, NULL);
    loss[2][5] = 1e3;
    assert_int_equal(optimum_find(OPTIMUM_MEANS, GRID, x, rows, RUNS, &at, &at_se, &best), 0);
    assert_int_equal(best, 3);
    optimum_find(OPTIMUM_MEDIANS, GRID, x, rows, RUNS, &at, &at_se, &best);
    CHECK_ABS(at, 0.3, 1e-15, "the vertex");
    assert_int_equal(best, 2);
}

/* Of three values: all 27 draws with replacement. Sums of 27 numbers of order ten: 1e-14. */
/* Of a parabola, whatever the distances of its three points. */
static void test_vertex(void **state) {
    (void)state;
    const double at[3] = {1, 2, 4.5}, top[3] = {-1, -3, -2};
    double y[3];
    for (int k = 0; k < 3; k++)
        y[k] = 3 * pow(at[k] - 2.2, 2) - 1;
    CHECK_ABS(stats_vertex(at, y), 2.2, 1e-14, "the vertex"); /* some ten roundings */
    assert_true(stats_vertex(at, top) > 1.5 && stats_vertex(at, top) < 3.25);
    for (int k = 0; k < 3; k++)
        y[k] *= -1;
    assert_true(stats_vertex(at, y) == 2); /* no minimum: the middle */
}

static void test_error_of_a_median(void **state) {
    (void)state;
    const double value[3] = {2, -1, 7};
    double sum = 0, squares = 0, median, se, draws[3], ignored;
    for (int k = 0; k < 27; k++) {
        draws[0] = value[k % 3];
        draws[1] = value[k / 3 % 3];
        draws[2] = value[k / 9];
        stats_median(draws, 3, &median, &ignored);
        sum += median;
        squares += median * median;
    }
    memcpy(draws, value, sizeof draws);
    stats_median(draws, 3, &median, &se);
    assert_true(median == 2);
    CHECK_ABS(se, sqrt(squares / 27 - sum * sum / 27 / 27), 1e-14, "the error");
    stats_median(draws, 2, &median, &se);
    assert_true(median == 0.5);
    stats_median(draws, 1, &median, &se);
    assert_true(median == -1 && isnan(se));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimum_of_a_parabola),  cmocka_unit_test(test_error_of_the_optimum),
        cmocka_unit_test(test_medians_ignore_one_run), cmocka_unit_test(test_vertex),
        cmocka_unit_test(test_error_of_a_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
