/* Where an objective is smallest along a key: places, intervals and reasons on curves whose optimum
 * is known. */
#include "solver/study/optimum.h"
#include "solver/measure/stats.h"
#include "tests/support/support.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

enum { MOST_VALUES = 12, MOST_RUNS = 16 };

/* Made-up runs: objective = exp(height(x)) (1 + noise), noise of runs with a share that is common
 * to all values of the key. */
struct made {
    double (*height)(double x);
    double first, step, noise, common;
    int count, runs;
    bool heavy; /* Student's t of 2.5 degrees, whose fourth moment is infinite */
    double run[MOST_VALUES][MOST_RUNS];
    struct optimum_point point[MOST_VALUES];
};

#define MADE(f, from, by, sd, share, values, n, tails)                                             \
    (struct made) {                                                                                \
        .height = f, .first = from, .step = by, .noise = sd, .common = share, .count = values,     \
        .runs = n, .heavy = tails                                                                  \
    }

static double parabola(double x) {
    return (x - 0.13) * (x - 0.13);
}

/* Falls with slope 1, rises with slope 3; the bend is 1/4 wide. Its lowest place solves
 * e^(-x) = 3 e^(3 x). */
static double lopsided(double x) {
    return log(exp(-x) + exp(3 * x));
}

/* Divergence: falls slowly to 0.13, then rises steeply. */
static double edge(double x) {
    return x < 0.13 ? -0.8 * (x - 0.13) : 6 * (x - 0.13);
}

static double flat(double x) {
    (void)x;
    return 0;
}

static double slope(double x) {
    return -0.5 * x;
}

static double one_noise(const struct made *made, gsl_rng *rng) {
    return made->heavy ? gsl_ran_tdist(rng, 2.5) / sqrt(5) : gsl_ran_ugaussian(rng);
}

static void set_point(struct made *made, int i, const double *value) {
    struct optimum_point *point = &made->point[i];
    size_t n = (size_t)made->runs;
    *point = (struct optimum_point){
        made->first + i * made->step, gsl_stats_mean(value, 1, n), NAN, made->runs, value, false};
    if (n > 1)
        point->error = gsl_stats_sd(value, 1, n) / sqrt((double)n);
}

static void make(struct made *made, gsl_rng *rng) {
    double all[MOST_RUNS], share = made->common;
    for (int r = 0; r < made->runs; r++)
        all[r] = gsl_ran_ugaussian(rng);
    for (int i = 0; i < made->count; i++) {
        double height = exp(made->height(made->first + i * made->step));
        for (int r = 0; r < made->runs; r++)
            made->run[i][r] =
                height * (1 + made->noise * (share * all[r] +
                                             sqrt(1 - share * share) * one_noise(made, rng)));
        set_point(made, i, made->run[i]);
    }
}

static struct optimum found; /* 16 kB */

static enum optimum_reason find(const struct made *made, enum optimum_kind kind) {
    struct optimum_point point[MOST_VALUES];
    memcpy(point, made->point, sizeof point);
    for (int i = 0; i < made->count && kind == OPTIMUM_MEDIANS; i++) {
        double copy[MOST_RUNS];
        memcpy(copy, made->run[i], sizeof copy);
        stats_median(copy, made->runs, &point[i].value, &point[i].error);
    }
    ASK(optimum_find(&found, kind, made->count, point, 64, err));
    return found.reason;
}

/* ---- intervals ---- */

/* Over `repeats` sets of runs, on grids at random places: an interval of 95 % that is true holds
 * the optimum in 0.95 of them but for three standard errors of such a count. It may hold it more
 * often: shapes between values of the key are allowed that these curves do not have. `known`: in
 * how many an optimum must be found at least; `wide`: mean width of the intervals at most, in steps
 * of the grid. */
static void cover(const char *what, struct made made, enum optimum_kind kind, double at,
                  int repeats, double known, double wide) {
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
    double first = made.first, width = 0;
    int there = 0, inside = 0;
    for (int k = 0; k < repeats; k++) {
        made.first = first + made.step * gsl_rng_uniform(rng);
        make(&made, rng);
        if (find(&made, kind) != OPTIMUM_KNOWN)
            continue;
        there++;
        inside += found.low <= at && at <= found.high;
        width += (found.high - found.low) / made.step;
        assert_true(found.low <= found.at && found.at <= found.high);
    }
    gsl_rng_free(rng);
    double rate = (double)inside / there;
    print_message("%s: known in %.2f, held in %.3f of these, %.2f steps wide\n", what,
                  (double)there / repeats, rate, width / there);
    assert_true(there >= known * repeats);
    assert_true(rate >= 0.95 - 3 * sqrt(0.95 * 0.05 / there));
    assert_true(width / there <= wide);
}

static void test_intervals_hold_the_optimum(void **state) {
    (void)state;
    const double bend = -log(3) / 4;
    cover("parabola, 4 runs", MADE(parabola, -2, 0.5, 0.1, 0, 9, 4, false), OPTIMUM_MEANS, 0.13, 40,
          1, 1.1);
    cover("parabola, 12 runs, much noise", MADE(parabola, -2, 0.5, 0.5, 0, 9, 12, false),
          OPTIMUM_MEANS, 0.13, 40, 0.95, 2);
    cover("noise common to all values", MADE(parabola, -2, 0.5, 0.3, 0.95, 9, 6, false),
          OPTIMUM_MEANS, 0.13, 40, 1, 1.2);
    cover("heavy tails", MADE(parabola, -2, 0.5, 0.2, 0, 9, 6, true), OPTIMUM_MEANS, 0.13, 40, 0.95,
          1.5);
    cover("heavy tails, medians", MADE(parabola, -2, 0.5, 0.2, 0, 9, 8, true), OPTIMUM_MEDIANS,
          0.13, 40, 0.95, 1.5);
    cover("lopsided", MADE(lopsided, bend - 2, 0.4, 0.05, 0, 10, 6, false), OPTIMUM_MEANS, bend, 40,
          1, 1.5);
    cover("edge of divergence", MADE(edge, -2, 0.4, 0.05, 0, 8, 6, false), OPTIMUM_MEANS, 0.13, 40,
          0.95, 1.6);
}

/* Where there is none an optimum is found in at most 5 % but for three standard errors: the
 * interval of 95 % must lie inside by chance. */
static void check_none(const char *what, struct made made, int repeats) {
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
    int there = 0;
    for (int k = 0; k < repeats; k++) {
        make(&made, rng);
        there += find(&made, OPTIMUM_MEANS) == OPTIMUM_KNOWN;
    }
    gsl_rng_free(rng);
    print_message("%s: %d of %d\n", what, there, repeats);
    assert_true(there <= repeats * (0.05 + 3 * sqrt(0.05 * 0.95 / repeats)));
}

static void test_noise_has_no_optimum(void **state) {
    (void)state;
    check_none("noise alone, 4 runs", MADE(flat, -2, 0.5, 0.2, 0, 9, 4, false), 80);
    check_none("noise alone, 12 runs", MADE(flat, -2, 0.5, 0.2, 0, 9, 12, false), 80);
    check_none("drift", MADE(slope, -2, 0.5, 0.2, 0, 9, 6, false), 40);
}

/* ---- reasons ---- */

static void test_reasons(void **state) {
    (void)state;
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
    struct made made = MADE(parabola, -2, 0.5, 0.01, 0, 9, 4, false);
    make(&made, rng);
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_KNOWN);
    assert_int_equal(found.best, 4);
    made.point[5].failed = true; /* beside the smallest */
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_FAILED);
    assert_true(isnan(found.at) && isnan(found.value) && found.best == 4);
    made.point[5].failed = false;
    made.point[6].failed = made.point[7].failed = true; /* beyond that: one more value is enough */
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_KNOWN);
    made.point[2].failed = true; /* leaves three */
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_FEW);
    for (int i = 0; i < made.count; i++)
        made.point[i].failed = true;
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_NONE);
    assert_int_equal(found.best, -1);
    made.first = 0.2;
    make(&made, rng);
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_LOWEST);
    made.first = -4;
    make(&made, rng);
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_HIGHEST);
    made.first = -2;
    made.runs = 1;
    make(&made, rng);
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_SINGLE);
    gsl_rng_free(rng);
}

/* A limit whose losses at the high rates are jackknife estimates around zero: their least was its
 * optimum, 1.7 where networks have 0.58. */
static void test_estimates_around_zero_do_not_decide(void **state) {
    (void)state;
    static const double value[6][4] = {
        {0.043, 0.041, 0.044, 0.042},        {0.0125, 0.0131, 0.0119, 0.0124},
        {0.0024, 0.0031, 0.0019, 0.0026},    {-0.003, 0.002, 0.004, -0.006},
        {-0.0027, 0.0150, -0.0190, -0.0041}, {0.9, 0.7, 1.1, 0.8}};
    struct made made = {.first = log(0.18), .step = 0.56, .count = 6, .runs = 4};
    for (int i = 0; i < 6; i++)
        set_point(&made, i, memcpy(made.run[i], value[i], sizeof value[i]));
    assert_true(made.point[4].value < made.point[2].value);
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_NOISE);
    assert_int_equal(found.best, 2);
    made.count = 5; /* nothing known is higher on the other side */
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_NOISE);
    for (int r = 0; r < 4; r++)
        made.run[4][r] = 1e-4 * (r - 1.6); /* below all others, and not told from zero */
    made.count = 6;
    set_point(&made, 4, made.run[4]);
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_NOISE);
    assert_true(isnan(found.sample[0]));
}

/* ---- samples ---- */

/* The same bits again; samples of another width are others, and the interval is that of its
 * samples. Without noise and with it, the place of a parabola. */
static void test_samples(void **state) {
    (void)state;
    static struct optimum again, other;
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
    struct made made = MADE(parabola, -2, 0.5, 0.1, 0, 9, 6, false);
    make(&made, rng);
    find(&made, OPTIMUM_MEANS);
    ASK(optimum_find(&again, OPTIMUM_MEANS, made.count, made.point, 64, err));
    assert_memory_equal(&found, &again, sizeof again);
    ASK(optimum_find(&other, OPTIMUM_MEANS, made.count, made.point, 128, err));
    assert_memory_not_equal(found.sample, other.sample, sizeof other.sample);
    int below = 0, above = 0;
    for (int b = 0; b < OPTIMUM_SAMPLES; b++) {
        below += found.sample[b] < found.low;
        above += found.sample[b] > found.high;
    }
    assert_true(below <= 25 && above <= 25);
    made.noise = 0;
    make(&made, rng);
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_KNOWN);
    /* the spline of asinh of a parabola, of values half apart: a twentieth of a step */
    CHECK_ABS(found.at, 0.13, 0.025, "the place");
    assert_true(found.low <= 0.13 && 0.13 <= found.high && found.high - found.low < 0.5);
    assert_true(found.value_low <= 1.001 && found.value_high >= 0.999);
    gsl_rng_free(rng);
}

/* Another machine adds in another order: a sample is where it was, also before a cliff, up to which
 * an optimum may lie. */
static void test_round_off_moves_no_sample(void **state) {
    (void)state;
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    struct made made = MADE(edge, -1.2, 0.3, 0.02, 0.5, 9, 8, false);
    make(&made, rng);
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_KNOWN);
    struct optimum before = found;
    for (int i = 0; i < made.count; i++) {
        for (int r = 0; r < made.runs; r++)
            made.run[i][r] *= 1 + (i % 3 - 1) * 1e-13;
        set_point(&made, i, made.run[i]);
    }
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_KNOWN);
    for (int b = 0; b < OPTIMUM_SAMPLES; b++)
        if (isfinite(before.sample[b]))
            assert_true(fabs(found.sample[b] - before.sample[b]) < 1e-9);
    gsl_rng_free(rng);
}

/* Errors without runs (any series), and beside runs (that of the tolerance), widen the interval. */
static void test_errors_beside_runs(void **state) {
    (void)state;
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
    struct made made = MADE(parabola, -2, 0.5, 0.02, 0, 9, 6, false);
    make(&made, rng);
    find(&made, OPTIMUM_MEANS);
    double width = found.high - found.low;
    for (int i = 0; i < made.count; i++)
        made.point[i].error = hypot(made.point[i].error, 0.1 * made.point[i].value);
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_KNOWN);
    assert_true(found.high - found.low > 1.3 * width);
    width = found.high - found.low;
    for (int i = 0; i < made.count; i++)
        made.point[i].run = NULL;
    assert_int_equal(find(&made, OPTIMUM_MEANS), OPTIMUM_KNOWN);
    assert_true(found.high - found.low > 0.7 * width);
    gsl_rng_free(rng);
}

/* The fit weighs estimates by variances that are drawn towards their mean, the more the fewer runs
 * there are. Where all are equal nothing is drawn, and the lowest place is that of any number of
 * runs, but for round-off. Samples are drawn whatever that number is, and go on smoothly from 1000
 * to 1001 degrees of freedom, where their rule changes: a factor of that changes by some 1e-5. */
static void test_equal_errors_are_not_drawn(void **state) {
    (void)state;
    enum { PLACES = 9 };
    static const int runs[] = {2, 3, 6, 1000, 1002, 1000000};
    static const double moved[PLACES] = {0.1, -0.1, 0.05, 0.1, 0, -0.1, 0.1, -0.05, 0.1};
    struct optimum_point point[PLACES];
    static double sample[OPTIMUM_SAMPLES];
    double at = NAN;
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        for (int i = 0; i < PLACES; i++) {
            double x = 0.5 * (i - 4), height = parabola(x) + moved[i];
            double above = height - parabola(0); /* the least is that of x = 0 */
            point[i] = (struct optimum_point){
                x, exp(height), 0.1 * exp(height) * hypot(1, above), runs[k], NULL, false};
        }
        ASK(optimum_find(&found, OPTIMUM_MEANS, PLACES, point, 64, err));
        assert_int_equal(found.reason, OPTIMUM_KNOWN);
        at = k ? at : found.at;
        CHECK_ABS(found.at, at, 1e-9, "%d runs", runs[k]);
        for (int b = 0; b < OPTIMUM_SAMPLES; b++)
            assert_true(!isnan(found.sample[b]));
        if (runs[k] == 1000)
            memcpy(sample, found.sample, sizeof sample);
        for (int b = 0; b < OPTIMUM_SAMPLES && runs[k] == 1002; b++)
            CHECK_ABS(found.sample[b], sample[b], 1e-4, "sample %d", b);
    }
}

/* One run of eight far away at the optimum: the medians do not see it. */
static void test_medians_ignore_one_run(void **state) {
    (void)state;
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
    struct made made = MADE(parabola, -2, 0.5, 0.02, 0, 9, 8, false);
    make(&made, rng);
    made.run[4][5] = 3;
    set_point(&made, 4, made.run[4]);
    find(&made, OPTIMUM_MEANS);
    assert_int_not_equal(found.best, 4);
    assert_int_equal(find(&made, OPTIMUM_MEDIANS), OPTIMUM_KNOWN);
    assert_int_equal(found.best, 4);
    assert_true(found.low <= 0.13 && 0.13 <= found.high);
    gsl_rng_free(rng);
}

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

/* Of three values: all 27 draws with replacement. Sums of 27 numbers of order ten: 1e-14. */
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

/* Of a long grid the 31 values on either side of the best one are used, and no others: what is
 * found is found on these alone, bit by bit. */
static void far_values_do_not_count(void **state) {
    (void)state;
    enum { ALL = 200, BEST = 150, FAR = 31, RUNS = 4 };
    static double run[ALL][RUNS];
    static struct optimum_point point[ALL];
    static struct optimum whole;
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
    for (int i = 0; i < ALL; i++) {
        double x = 0.05 * (i - BEST), common = gsl_ran_ugaussian(rng);
        for (int r = 0; r < RUNS; r++)
            run[i][r] = exp(x * x) * (1 + 1e-3 * (common + gsl_ran_ugaussian(rng)));
        point[i] = (struct optimum_point){.x = x,
                                          .value = gsl_stats_mean(run[i], 1, RUNS),
                                          .error = gsl_stats_sd(run[i], 1, RUNS) / sqrt(RUNS),
                                          .runs = RUNS,
                                          .run = run[i]};
    }
    gsl_rng_free(rng);
    ASK(optimum_find(&whole, OPTIMUM_MEANS, ALL, point, 64, err));
    assert_int_equal(whole.reason, OPTIMUM_KNOWN);
    int first = whole.best - FAR;
    for (int less = 0; less < 2; less++) { /* without the outermost two it is another curve */
        ASK(optimum_find(&found, OPTIMUM_MEANS, 2 * (FAR - less) + 1, point + first + less, 64,
                         err));
        assert_int_equal(found.best + first + less, whole.best);
        bool same = found.at == whole.at && found.low == whole.low && found.high == whole.high &&
                    found.value == whole.value &&
                    !memcmp(found.sample, whole.sample, sizeof found.sample);
        assert_int_equal(same, !less);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(far_values_do_not_count),
        cmocka_unit_test(test_intervals_hold_the_optimum),
        cmocka_unit_test(test_noise_has_no_optimum),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_estimates_around_zero_do_not_decide),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_round_off_moves_no_sample),
        cmocka_unit_test(test_errors_beside_runs),
        cmocka_unit_test(test_equal_errors_are_not_drawn),
        cmocka_unit_test(test_medians_ignore_one_run),
        cmocka_unit_test(test_vertex),
        cmocka_unit_test(test_error_of_a_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
