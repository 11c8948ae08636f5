/* The fits of dmft-compare: exponents, extrapolations and z of laws that are known. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"
#include "solver/study/compare.h"
#include "solver/run/report.h"
#include "kernels/draws/rng.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_fit.h>

enum { WIDTHS = 3, RUNS = 2, T = 2 };
static const int N[WIDTHS] = {64, 128, 256};

/* Exact power laws are found exactly; the error of a slope through two points is that of their
 * difference over ln 2. */
TEST(test_exponents_of_power_laws) {
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

/* How a number depends on the mean of each width, by GSL's fit with weights N times runs: `at` of
 * the lines through unit vectors. */
static void levers(const struct stats_mean *mean, double at, double lever[WIDTHS]) {
    double x[WIDTHS], w[WIDTHS], a, b, cov00, cov01, cov11, chi2;
    for (int i = 0; i < WIDTHS; i++) {
        x[i] = 1. / N[i];
        w[i] = (double)N[i] * mean[i].runs;
    }
    for (int i = 0; i < WIDTHS; i++) {
        double unit[WIDTHS] = {0};
        unit[i] = 1;
        gsl_fit_wlinear(x, 1, w, 1, unit, 1, WIDTHS, &a, &b, &cov00, &cov01, &cov11, &chi2);
        lever[i] = a + b * at;
    }
}

/* The degrees of freedom of a sum of lever_i mean_i, and its standard error. */
static double welch(const struct stats_mean *mean, const double *lever, double *se) {
    double square = 0, fourth = 0;
    for (int i = 0; i < WIDTHS; i++) {
        double part = pow(lever[i] * mean[i].se, 2);
        square += part;
        fourth += part * part / (mean[i].runs - 1);
    }
    *se = sqrt(square);
    return square * square / fourth;
}

/* Three widths of different runs and errors: a, its error, its freedom and z from the definition.
 * Of one degree of freedom chi^2 is as rare as the square of Student's t of what tells three points
 * from a line, v mean with v at right angles to 1 and 1/N. Roundings, times the condition of the
 * fit, which is below 100 here. */
TEST(test_extrapolation) {
    struct stats_mean of[WIDTHS] = {{2.05, 0.02, 3}, {2.01, 0.03, 5}, {2.03, 0.005, 4}},
                      limit = {1.9, 0.01, 4};
    double lever[WIDTHS],
        a = 0, se, off = 0, off_se,
        v[WIDTHS] = {1. / N[1] - 1. / N[2], 1. / N[2] - 1. / N[0], 1. / N[0] - 1. / N[1]};
    levers(of, 0, lever);
    struct stats_fit line = stats_extrapolate(N, of, WIDTHS);
    for (int i = 0; i < WIDTHS; i++) {
        a += lever[i] * of[i].value;
        off += v[i] * of[i].value;
    }
    double freedom = welch(of, lever, &se), rest = welch(of, v, &off_se);
    CHECK_ABS(line.a, a, 1e-13, "a");
    CHECK_ABS(line.se, se, 1e-13, "its error");
    CHECK_ABS(line.freedom, freedom, 1e-12 * freedom, "its degrees of freedom");
    CHECK_ABS(gsl_cdf_chisq_Q(line.chi2, 1), 2 * gsl_cdf_tdist_Q(fabs(off / off_se), rest), 1e-12,
              "how rare chi^2 is");
    double square = se * se + limit.se * limit.se, t = (a - limit.value) / sqrt(square);
    double joint = square * square / (pow(se, 4) / freedom + pow(limit.se, 4) / 3);
    CHECK_ABS(stats_z(line, limit), gsl_cdf_ugaussian_Qinv(gsl_cdf_tdist_Q(t, joint)), 1e-10, "z");
    assert_true(stats_z(line, limit) < 0.9 * t);

    limit.runs = 100000000; /* many runs: no difference to errors that are known */
    for (int i = 0; i < WIDTHS; i++)
        of[i].runs = 100000000;
    line = stats_extrapolate(N, of, WIDTHS);
    CHECK_ABS(line.chi2, pow(off / off_se, 2), 1e-6, "chi^2 of many runs");
    CHECK_ABS(stats_z(line, limit), (line.a - limit.value) / hypot(line.se, limit.se), 1e-5,
              "z of many runs");
    limit.value = line.a + 100 * hypot(line.se, limit.se);
    CHECK_ABS(stats_z(line, limit), -100, 1e-8, "z of a probability below all numbers");
    of[1].value = 4;
    CHECK_ABS(stats_extrapolate(N, of, WIDTHS).chi2, pow((off + v[1] * (4 - 2.01)) / off_se, 2),
              1e-8, "chi^2 of such a probability");
    limit.se = NAN;
    assert_true(isnan(stats_z(line, limit)));
}

/* Two widths: the line goes through both points, whose errors propagate, and there is no chi^2.
 * Points on a line give it back. A point without an error, or with one that says nothing, gives no
 * line. */
TEST(test_lines_without_residuals) {
    static const double no_error[] = {0, -0.1, INFINITY, NAN};
    struct stats_mean of[WIDTHS];
    for (int i = 0; i < WIDTHS; i++)
        of[i] = (struct stats_mean){2 + 3. / N[i], 0.01 * (i + 1), 4};
    struct stats_fit line = stats_extrapolate(N, of, WIDTHS);
    CHECK_ABS(line.a, 2, 1e-14, "three points on a line");
    CHECK_ABS(line.chi2, 0, 1e-20, "chi^2 of a line");
    line = stats_extrapolate(N, of, 2);
    CHECK_ABS(line.a, 2, 1e-14, "two points");
    CHECK_ABS(line.se, hypot(of[0].se / N[1], of[1].se / N[0]) / (1. / N[0] - 1. / N[1]), 1e-14,
              "error of two");
    assert_true(isnan(line.chi2));
    for (int i = 0; i < WIDTHS; i++)
        for (size_t k = 0; k <= COUNT(no_error); k++) {
            struct stats_mean kept = of[i];
            if (k < COUNT(no_error))
                of[i].se = no_error[k];
            else
                of[i].runs = 1;
            line = stats_extrapolate(N, of, WIDTHS);
            assert_true(isnan(line.a) && isnan(line.se) && isnan(line.chi2));
            of[i] = kept;
        }
}

/* Mean and standard error of n normal numbers of variance `variance`, from the place *at on. */
static struct stats_mean draw(int n, double variance, uint32_t *at) {
    const struct rng_stream stream = {.seed = 49, .purpose = PURPOSE_DATA};
    double sum = 0, squares = 0, pair[2];
    for (int r = 0; r < n; r++) {
        rng_normal_pair(stream, 0, (*at)++, pair);
        sum += sqrt(variance) * pair[0];
        squares += variance * pair[0] * pair[0];
    }
    return (struct stats_mean){sum / n, sqrt((squares - sum * sum / n) / (n * (n - 1.))), n};
}

/* Networks whose variance falls as 1/N, and a limit of eight replicates, all with the same mean, as
 * often as DRAWS: z is beyond 1.96 in .05 and beyond 3 in .0027 of them and has a mean square of 1,
 * within four standard errors of such shares (of the mean square 4 (2/DRAWS)^1/2), however few
 * networks there are: weights from the errors of the means have .026, .014 and .006 beyond 3 with
 * 3, 4 and 8 networks. chi^2 is above its point of .05 no more often than that; the law of Brown
 * and Forsythe is a little conservative with few networks. */
TEST(test_how_often_z_is_large) {
    enum { DRAWS = 10000 };
    static const int networks[] = {3, 4, 8, 16}, width[] = {16, 32, 64, 128};
    const double point = gsl_cdf_chisq_Qinv(0.05, 2), some = 4 * sqrt(0.05 * 0.95 / DRAWS);
    uint32_t at = 0;
    for (int k = 0; k < 4; k++) {
        double squares = 0, beyond = 0, far = 0, bad = 0;
        for (int d = 0; d < DRAWS; d++) {
            struct stats_mean of[4], limit = draw(8, 1. / 256, &at);
            for (int i = 0; i < 4; i++)
                of[i] = draw(networks[k], 1. / width[i], &at);
            struct stats_fit line = stats_extrapolate(width, of, 4);
            double z = stats_z(line, limit);
            squares += z * z / DRAWS;
            beyond += (fabs(z) > 1.96) / (double)DRAWS;
            far += (fabs(z) > 3) / (double)DRAWS;
            bad += (line.chi2 > point) / (double)DRAWS;
        }
        print_message("%d networks: rms z %.3f, beyond 1.96 %.4f, beyond 3 %.4f; chi^2 %.4f\n",
                      networks[k], sqrt(squares), beyond, far, bad);
        CHECK_ABS(squares, 1, 4 * sqrt(2. / DRAWS), "mean of z^2, %d networks", networks[k]);
        CHECK_ABS(beyond, 0.05, some, "|z| > 1.96, %d networks", networks[k]);
        CHECK_ABS(far, 0.0027, 4 * sqrt(0.0027 / DRAWS), "|z| > 3, %d networks", networks[k]);
        assert_true(bad > 0.025 && bad < 0.05 + some);
    }
}

/* What is counted says nothing of its error where all runs agree, and what is left out nothing
 * where it is 0 in all. Where runs differ the error is known, as is that of other numbers. */
TEST(test_runs_that_agree_by_chance_have_no_error) {
    FREED(record_free) struct record record;
    struct series series = {.name = "load", .dims = "t", .axes = 1, .shape = {T}};
    ASK(record_init(&record, RUNS, T, err));
    ASK(record_add(&record, series, err));
    struct series *added = &record.series[0];
    double mean[T], se[T];
    record.steps[0] = record.steps[1] = T;
    added->counted = true;
    memcpy(added->values, (const double[]){0, 0.3, 1, 0.3}, 4 * sizeof(double)); /* run 0, run 1 */
    record_statistics(&record, added, mean, se);
    assert_true(mean[0] == 0.5 && se[0] == 0.5 && mean[1] == 0.3 && isnan(se[1]));
    added->values[1] += 1e-15; /* as sums in another order */
    record_statistics(&record, added, mean, se);
    assert_true(isnan(se[1]));
    memset(added->values, 0, 4 * sizeof(double));
    record_statistics(&record, added, mean, se);
    assert_true(isnan(se[0]) && isnan(se[1]));
    added->counted = false;
    record_statistics(&record, added, mean, se);
    assert_true(se[0] == 0 && se[1] == 0);
    added->left_out = true;
    memcpy(added->values, (const double[]){0, 0.3, 0, 0.3}, 4 * sizeof(double));
    record_statistics(&record, added, mean, se);
    assert_true(isnan(se[0]) && se[1] == 0);
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

/* What `print` says of these, to be freed. */
static char *printed(int (*print)(const struct compare *, struct err *), const struct run *run,
                     const struct comparison *fits) {
    static struct compare compare;
    compare.run[0] = *run;
    compare.side[0] = *fits;
    compare.count = 1;
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    assert_true(freopen("table", "w", stdout) != NULL);
    int code = print(&compare, &(struct err){0});
    fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0 && !close(kept));
    assert_int_equal(code, CODE_OK);
    return cli_read("table", NULL);
}

static int print_report(const struct compare *compare, struct err *err) {
    return report_print(&compare->run[0], err);
}

/* The table has a row for each of the series, and none for what lies behind the last of them: of
 * the three in the record of the networks two are its own. */
static void check_rows(const struct run *run, const struct comparison *fits) {
    struct run some = *run;
    some.config.solver.replicates = RUNS;
    some.results.limit = (struct record){0};
    some.results.reference[0].count = 2;
    FREED(base_free) char *table = printed(compare_table_print, &some, fits);
    assert_true(strstr(table, "\nfar ") && strstr(table, "\nnear ") && !strstr(table, "\nalone "));
}

/* The words of the line behind the one that begins so, or of that one itself. */
static int words_of(const char *table, const char *begin) {
    const char *line = strstr(table, begin);
    assert_non_null(line);
    int words = 0;
    for (const char *at = line + 1; *at != '\n'; at++)
        words += *at != ' ' && at[-1] == ' ';
    return words + (line[1] != ' ');
}

/* Numbers that are wider than their columns leave a blank between them: a loss of the limit, two of
 * networks and the extrapolated one, mean +- error each, chi^2, z and an exponent with its error;
 * dmft-solve has a loss more and no exponent; a quantity has two z, a time, an exponent and how
 * many there are. */
TEST(test_columns_keep_apart) {
    FREED(run_free) struct run run = {0};
    struct comparison fits = {0};
    run.config.reference.widths.count = WIDTHS;
    run.config.training.steps = T;
    run.config.solver.replicates = RUNS;
    run.config.solver.method = METHOD_FIXED_POINT; /* of which no tolerance is told */
    for (int i = 0; i <= WIDTHS; i++) {
        struct record *record = i < WIDTHS ? &run.results.reference[i] : &run.results.limit;
        ASK(record_init(record, RUNS, T, err));
        record->steps[0] = record->steps[1] = T;
        fill(record, "loss", -123456.7 - (i < WIDTHS ? 1000. / N[i] : 0), 4e-5);
        if (i < WIDTHS)
            run.config.reference.widths.value[i] = 100000 * N[i];
    }
    ASK(compare_fit(&run, &fits, err));
    FREED(base_free) char *table = printed(compare_table_print, &run, &fits);
    print_message("%s", table);
    assert_int_equal(words_of(table, "\n   1 "), 1 + 4 * 3 + 1 + 1 + 3);
    assert_int_equal(words_of(table, "\nloss "), 1 + 2 + 1 + 1 + 1);
    free(table);
    table = printed(print_report, &run, &fits);
    print_message("%s", table);
    assert_int_equal(words_of(table, "\n   1 "), 1 + 5 * 3 + 1 + 1);
    record_free(&fits.record);
}

/* Networks at 2 + 3/N, their limit at 2 + 0.02, all with error 0.001 (at the approach 1e-9). */
TEST(test_fits_of_a_known_law) {
    FREED(run_free) struct run run = {0};
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
}

/* Where all runs but two have failed on the way, z is that of two. */
TEST(test_runs_that_failed_are_not_counted) {
    double z[2];
    for (int more = 0; more < 2; more++) {
        FREED(run_free) struct run run = {0};
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
    }
    assert_true(isfinite(z[0]));
    CHECK_ABS(z[1], z[0], 0, "z of two runs, beside three that failed");
}

AROUND_TESTS(cli_open, cli_close)
