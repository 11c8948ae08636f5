/* The fits of dmft-compare: exponents, extrapolations and z of laws that are known. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"
#include "solver/study/compare.h"
#include "solver/measure/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTHS = 3, RUNS = 2, T = 2 };
static const int N[WIDTHS] = {64, 128, 256};

/* Exact power laws are found exactly; the error of a slope through two points is that of their
 * difference over ln 2. */
static void test_exponents_of_power_laws(void **state) {
    (void)state;
    double gap[WIDTHS], se[WIDTHS], log_value[WIDTHS], exponent, error;
    for (int i = 0; i < WIDTHS; i++) {
        gap[i] = -3 * pow(N[i], -1.5);
        se[i] = 0.01 * fabs(gap[i]);
        log_value[i] = log(5 * pow(N[i], 0.25));
    }
    assert_int_equal(stats_approach(N, gap, se, 0, 3, &exponent, &error), 3);
    CHECK_ABS(exponent, -1.5, 1e-13, "approach");
    se[0] = 0.6 * fabs(gap[0]); /* below two errors */
    assert_int_equal(stats_approach(N, gap, se, 0, 3, &exponent, &error), 2);
    CHECK_ABS(exponent, -1.5, 1e-13, "approach of two widths");
    CHECK_ABS(error, sqrt(2) * 0.01 / log(2), 1e-13, "its error");
    se[1] = NAN;
    assert_int_equal(stats_approach(N, gap, se, 0, 3, &exponent, &error), 1);
    assert_true(isnan(exponent) && isnan(error));

    /* The limit, off by d, shifts all gaps by d: here ln 2^1.5 of two widths, whose gaps are g and
     * g 2^-1.5, by d (2^1.5 - 1)/g. Independent errors would give the root of 1 + 2^3. */
    const double exact[2] = {0, 0};
    double d = 0.01 * fabs(gap[1]);
    assert_int_equal(stats_approach(N, gap, exact, d, 2, &exponent, &error), 2);
    CHECK_ABS(exponent, -1.5, 1e-13, "approach to a limit with an error");
    CHECK_ABS(error, d * (1 / fabs(gap[1]) - 1 / fabs(gap[0])) / log(2), 1e-13, "its error");

    const double se_log[WIDTHS] = {0.03, 0.5, 0.04};
    stats_exponent(N, log_value, se_log, 3, &exponent, &error);
    CHECK_ABS(exponent, 0.25, 1e-13, "exponent");
    CHECK_ABS(error, 0.05 / log(4), 1e-13, "its error, from the networks"); /* 3, 4, 5 */
    log_value[1] += 1;
    stats_exponent(N, log_value, se_log, 3, &exponent, &error);
    CHECK_ABS(exponent, 0.25, 1e-13, "the middle point does not count");
    /* residuals 2/3, -1/3, -1/3: variance 2/3 over spread 2 ln^2 2 */
    CHECK_ABS(error, sqrt(1 / 3.) / log(2), 1e-13, "its error, from the residuals");
    const double unknown[WIDTHS] = {0.03, NAN, 0.04};
    stats_exponent(N, log_value, unknown, 3, &exponent, &error);
    CHECK_ABS(error, sqrt(1 / 3.) / log(2), 1e-13, "its error, one of a width being unknown");
    stats_exponent(N, log_value, unknown, 2, &exponent, &error);
    assert_true(isfinite(exponent) && isnan(error)); /* two widths leave no residuals */
    log_value[0] = -INFINITY;
    stats_exponent(N, log_value, se_log, 3, &exponent, &error);
    assert_true(isnan(exponent));
}

/* A record of two runs with values centre +- spread: mean centre, standard error spread. */
static void fill(struct record *record, const char *name, double centre, double spread) {
    struct series series = {.dims = "t", .about = "", .equation = "", .axes = 1, .shape = {T}};
    snprintf(series.name, sizeof series.name, "%s", name);
    ASK(record_add(record, series, err));
    struct series *added = record_find(record, name);
    for (int r = 0; r < record->runs; r++)
        for (int t = 0; t < T; t++)
            *record_at(record, added, r, t) = centre + (r ? spread : -spread);
}

static double entry(const struct comparison *fits, const char *name) {
    const struct series *series = record_find(&fits->record, name);
    assert_non_null(series);
    return *record_at(&fits->record, series, 0, 1);
}

/* The table has a row for each of the series, and none for what lies behind the last of them: of
 * the three in the record of the networks two are its own. */
static void check_rows(const struct run *run, const struct comparison *fits) {
    static struct compare compare;
    compare.run[0] = *run;
    compare.side[0] = *fits;
    compare.count = 1;
    compare.run[0].config.reference.widths.count = 1;
    compare.run[0].results.limit = (struct record){0};
    compare.run[0].results.reference[0].count = 2;
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    assert_true(freopen("table", "w", stdout) != NULL);
    int code = compare_table_print(&compare, &(struct err){0});
    fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0 && !close(kept));
    assert_int_equal(code, CODE_OK);
    char *table = cli_read("table", NULL);
    assert_true(strstr(table, "\nfar ") && strstr(table, "\nnear ") && !strstr(table, "\nalone "));
    free(table);
}

/* Networks at 2 + 3/N, their limit at 2 + 0.02, all with error 0.001 (at the approach 1e-9). */
static void test_fits_of_a_known_law(void **state) {
    (void)state;
    struct run run = {0};
    struct comparison fits = {0};
    run.config.reference.widths.count = WIDTHS;
    ASK(record_init(&run.results.limit, RUNS, T, err));
    run.results.limit.steps[0] = run.results.limit.steps[1] = T;
    fill(&run.results.limit, "far", 2.02, 0.001);
    fill(&run.results.limit, "near", 2, 1e-9);
    for (int i = 0; i < WIDTHS; i++) {
        struct record *record = &run.results.reference[i];
        run.config.reference.widths.value[i] = N[i];
        ASK(record_init(record, RUNS, T, err));
        record->steps[0] = record->steps[1] = T;
        fill(record, "far", 2 + 3. / N[i], 0.001);
        fill(record, "near", 2 + 3. / N[i], 1e-9);
        fill(record, "alone", 2 + 3. / N[i], 0.001);
        fill(record, "rms_A1", 0.1 / sqrt(N[i]), 0);
        fill(record, "gradient_norm_loss_Q", 2 + 3. / N[i], 1e-9);
    }
    ASK(compare_fit(&run, &fits, err));
    CHECK_ABS(entry(&fits, "far_inf"), 2, 1e-12, "extrapolated");
    CHECK_ABS(entry(&fits, "far_chi2"), 0, 1e-20, "chi^2 of a law that is a + b/N");
    double se = entry(&fits, "far_inf_se");
    assert_true(se > 0.001 && se < 0.003);
    assert_true(entry(&fits, "far_z") < -2 && entry(&fits, "far_z") > -4); /* Student's -8 */
    CHECK_ABS(entry(&fits, "near_z"), 0, 1e-5, "z of the truth");
    CHECK_ABS(entry(&fits, "near_approach"), -1, 1e-6, "approach");
    assert_true(entry(&fits, "near_approach_n") == 3);
    CHECK_ABS(entry(&fits, "alone_inf"), 2, 1e-12, "extrapolated without a limit");
    assert_true(isnan(entry(&fits, "alone_z")) && isnan(entry(&fits, "alone_approach")));
    CHECK_ABS(entry(&fits, "rms_A1_exponent"), -0.5, 1e-12, "exponent of a term");
    assert_true(entry(&fits, "rms_A1_exponent_se") < 1e-12); /* all networks of a width agree */
    assert_null(record_find(&fits.record, "rms_A1_inf"));
    CHECK_ABS(entry(&fits, "gradient_norm_loss_Q_exponent"),
              log((2 + 3. / N[2]) / (2 + 3. / N[0])) / log(N[2] / N[0]), 1e-12,
              "exponent of a norm, by its two ends");
    CHECK_ABS(entry(&fits, "gradient_norm_loss_Q_inf"), 2, 1e-12, "a norm has a limit as well");
    assert_null(record_find(&fits.record, "far_exponent"));
    struct comparison single = {0}; /* one network of each of two widths: no error is known */
    run.config.reference.widths.count = 2;
    for (int i = 0; i < 2; i++)
        run.results.reference[i].steps[1] = 0;
    ASK(compare_fit(&run, &single, err));
    CHECK_ABS(entry(&single, "rms_A1_exponent"), -0.5, 1e-12, "exponent of single networks");
    assert_true(isnan(entry(&single, "rms_A1_exponent_se")));
    record_free(&single.record);
    run.config.reference.widths.count = WIDTHS;
    for (int i = 0; i < 2; i++)
        run.results.reference[i].steps[1] = T;
    check_rows(&run, &fits);
    record_free(&fits.record);
    run_free(&run);
}

/* Where all runs but two have failed on the way, z is that of two. */
static void test_runs_that_failed_are_not_counted(void **state) {
    (void)state;
    double z[2];
    for (int more = 0; more < 2; more++) {
        struct run run = {0};
        struct comparison fits = {0};
        run.config.reference.widths.count = WIDTHS;
        for (int i = 0; i <= WIDTHS; i++) {
            struct record *record = i < WIDTHS ? &run.results.reference[i] : &run.results.limit;
            ASK(record_init(record, RUNS + 3 * more, T, err));
            for (int r = 0; r < record->runs; r++)
                record->steps[r] = r < RUNS ? T : 1;
            fill(record, "far", i < WIDTHS ? 2 + 3. / N[i] : 2.02, 0.001);
            if (i < WIDTHS)
                run.config.reference.widths.value[i] = N[i];
        }
        ASK(compare_fit(&run, &fits, err));
        z[more] = entry(&fits, "far_z");
        record_free(&fits.record);
        run_free(&run);
    }
    assert_true(isfinite(z[0]));
    CHECK_ABS(z[1], z[0], 0, "z of two runs, beside three that failed");
}

/* The error of a median is that of medians of draws from the three numbers, which are one of them
 * with 7, 13 and 7 chances of 27: differences of 3 x^2 - 2 x^3 at thirds. */
static void test_error_of_a_median(void **state) {
    (void)state;
    double value[] = {27, 0, 0}, median, se;
    stats_median(value, 3, &median, &se);
    CHECK_ABS(median, 0, 0, "median");
    CHECK_ABS(se, sqrt(7 * 27 - 7 * 7), 1e-12, "its error");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exponents_of_power_laws),
        cmocka_unit_test(test_fits_of_a_known_law),
        cmocka_unit_test(test_runs_that_failed_are_not_counted),
        cmocka_unit_test(test_error_of_a_median),
    };
    return cmocka_run_group_tests(tests, cli_open, cli_close);
}
