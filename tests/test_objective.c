/* What a sweep compares its points by. */
#define _GNU_SOURCE
#include "solver/files/hdf5.h"
#include "solver/study/objective.h"
#include "tests/support/cli.h"
#include "tests/support/support.h"

#include <hdf5_hl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two runs of six times, the third failed; time_to is interpolated, and NaN of a run that does not
 * get there. Sums of five numbers of order one: 1e-15. */
static void test_numbers_of_runs(void **state) {
    (void)state;
    double run[18] = {3, 2, 1, 0.5, 0.25, 0.5, 4, 3, 2, 1, 1, 1, 1, 1, NAN, NAN, NAN, NAN};
    struct result_runs series = {.runs = 3, .T = 6, .run = run};
    const bool ended[3] = {true, true, false};
    struct objective objective;
    double value[3] = {0};
    static const struct {
        const char *text;
        double want[2];
    } table[] = {{"loss", {0.5, 1}},          {"smooth_loss", {1.25 / 3, 1}},
                 {"test_loss", {0.5, 1}},     {"time_to=0.75", {2.5, NAN}},
                 {"time_to=1.5", {1.5, 2.5}}, {"loss[1]", {2, 3}},
                 {"loss[6]", {NAN, NAN}}};
    for (size_t k = 0; k < COUNT(table); k++) {
        ASK(objective_read(&objective, table[k].text, err));
        objective_runs(&objective, &series, ended, 3, value);
        for (int r = 0; r < 2; r++)
            if (isnan(table[k].want[r]))
                assert_true(isnan(value[r]));
            else
                CHECK_ABS(value[r], table[k].want[r], 1e-15, "%s", table[k].text);
    }
    assert_int_equal(objective_window(81, 1296, 16), 17); /* a fifth of the times */
    assert_int_equal(objective_window(41, 64, 16), 4);    /* one pass */
    assert_int_equal(objective_window(41, 64, 0), 1);     /* every loss is of all inputs */
}

/* Pseudo-values: their mean is the time of the mean curve but for the jackknife's correction, none
 * where the time is linear in the loss. */
static void test_times_of_pseudo_values(void **state) {
    (void)state;
    double run[4] = {1, 0.1, 1, 0.3}, value[2];
    struct result_runs series = {.runs = 2, .T = 2, .run = run, .pseudo = true};
    struct objective objective;
    ASK(objective_read(&objective, "time_to=0.5", err));
    objective_runs(&objective, &series, (const bool[]){true, true}, 1, value);
    /* 2 T(0.2) - T(0.3), 2 T(0.2) - T(0.1), with T(l) = 0.5/(1 - l) */
    CHECK_ABS(value[0], 1 / 0.8 - 0.5 / 0.7, 1e-15, "without run 0");
    CHECK_ABS(value[1], 1 / 0.8 - 0.5 / 0.9, 1e-15, "without run 1");
}

/* A group with a series [2][2][3] of the time, its errors, and its runs [2][2][2][3]. */
static void write_series(const char *path) {
    double mean[12], error[12], run[24], n[2] = {2, 2};
    for (int k = 0; k < 24; k++) {
        run[k] = k * k;
        mean[k % 12] = k % 12;
        error[k % 12] = k % 12 + 1;
    }
    const struct {
        struct dataset array;
        const double *values;
    } made[] = {
        {{"y", "t mu k", "", "", 3, {2, 2, 3}, H5T_NATIVE_DOUBLE}, mean},
        {{"y_se", "t mu k", "", "", 3, {2, 2, 3}, H5T_NATIVE_DOUBLE}, error},
        {{"y_runs", "run t mu k", "", "", 4, {2, 2, 2, 3}, H5T_NATIVE_DOUBLE}, run},
        {{"late", "s mu k", "", "", 3, {2, 2, 3}, H5T_NATIVE_DOUBLE}, mean},
        {{"n", "t", "", "", 1, {2}, H5T_NATIVE_DOUBLE}, n},
    };
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), group;
    ASK(hdf5_open_group(&group, file, "limit", err));
    for (size_t k = 0; k < COUNT(made); k++)
        ASK(hdf5_write_array(group, &made[k].array, made[k].values, err));
    H5Gclose(group);
    H5Fclose(file);
}

/* Of a series with more axes the entries that have an index, else means; sums of small whole
 * numbers, divided once or twice: 1e-13. */
static void test_entries_of_series(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double mean, error, run[2]; /* at t = 1; numbers 6 to 11, and 18 to 23 of the second run */
    } table[] = {
        {"y[1][0][2]", 8, 9, {64, 400}},
        {"y[1][1]", 10, 11, {302 / 3., 1454 / 3.}},
        {"y[last][mean][1]", 8.5, 9.5, {74.5, 422.5}},
        {"y[1][mean][mean]", 8.5, 9.5, {451 / 6., 2539 / 6.}},
        {"y", 8.5, 9.5, {451 / 6., 2539 / 6.}},
    };
    static const struct {
        const char *text, *part;
    } refused[] = {
        {"y[1][2]",
         "axis 1 of limit/y behind t has 2 entries, counted from 0: there is no entry 2"},
        {"y[1][0][2][0]", "limit/y has 2 axes behind t, and 3 indices"},
        {"late", "the first axis of limit/late is not t"},
    };
    struct objective objective;
    struct result_runs series;
    struct err why;
    double value[2], error;
    bool there;
    write_series("series.h5");
    for (size_t k = 0; k < COUNT(table); k++) {
        ASK(objective_read(&objective, table[k].text, err));
        ASK(result_runs_read(&series, "series.h5", "limit", objective.series, &objective.entry,
                             &there, err));
        objective_runs(&objective, &series, (const bool[]){true, true}, 1, value);
        for (int r = 0; r < 2; r++)
            CHECK_ABS(value[r], table[k].run[r], 1e-13 * 500, "%s", table[k].text);
        objective_mean(&objective, &series, value, &error);
        CHECK_ABS(value[0], table[k].mean, 1e-13, "%s", table[k].text);
        CHECK_ABS(error, table[k].error, 1e-13, "%s", table[k].text);
        result_runs_free(&series);
    }
    for (size_t k = 0; k < COUNT(refused); k++) {
        ASK(objective_read(&objective, refused[k].text, err));
        assert_int_equal(result_runs_read(&series, "series.h5", "limit", objective.series,
                                          &objective.entry, &there, &why),
                         CODE_INPUT);
        assert_non_null(strstr(why.text, refused[k].part));
    }
    static const char *const unread[] = {"y[",      "y[x]",       "y[-1]",
                                         "y[1",     "y[1]x",      "y[1][]",
                                         "y[mean]", "y[1][last]", "y[1][0][0][0][0][0][0][0][0][0]",
                                         "[1]"};
    for (size_t k = 0; k < COUNT(unread); k++) {
        assert_int_equal(objective_read(&objective, unread[k], &why), CODE_INPUT);
        assert_non_null(strstr(why.text, "NAME[t][i]..."));
    }
}

static void check_refused(const char *const *arg, const char *const *part) {
    struct cli_result result;
    cli_run(&result, arg);
    assert_true(cli_ended(&result, 2, part));
    cli_free(&result);
}

static char *sweep(const char *more) {
    struct cli_result result;
    cli_run(&result, ARGS("--jobs", "2", "-o", "out.h5", "sweep.ini", more));
    if (result.code)
        fail_msg("exit code %d: %s", result.code, result.err);
    free(result.err);
    return result.out;
}

/* One more line of the ini of a sweep, as another version may have written it. */
static void add_line(const char *name, const char *line) {
    hid_t file = H5Fopen(name, H5F_ACC_RDWR, H5P_DEFAULT),
          group = H5Gopen2(file, "parameters", H5P_DEFAULT),
          attribute = H5Aopen(group, "ini", H5P_DEFAULT), type = H5Aget_type(attribute),
          space = H5Aget_space(attribute);
    char *ini = cli_text(file, "parameters", "ini"), *longer = NULL;
    assert_true(asprintf(&longer, "%s%s", ini, line) > 0);
    H5Aclose(attribute);
    assert_true(H5Adelete(group, "ini") >= 0);
    attribute = H5Acreate2(group, "ini", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, type, &longer) >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    H5Gclose(group);
    H5Fclose(file);
    free(longer);
    free(ini);
}

/* Batches: the last one is no objective. With test inputs it is test_loss, else the loss over the
 * last times; another choice gives from the file what the sweep would have given. */
static void test_objectives(void **state) {
    (void)state;
    static const char batches[] =
        "[network]\nmodel = dense\n[data]\ninputs = 8\ndimension = 4\n[training]\nsteps = 20\n"
        "batch = 2\n[solver]\nreplicates = 0\nthreads = 1\n[reference]\nwidths = 8 16\nseeds = 4\n";
    static const char *const more[] = {"--data.test_inputs=4", NULL};
    static const char *const want[] = {"test_loss: ", "smooth_loss: "};
    char text[1024];
    size_t count;
    for (int k = 0; k < 2; k++) {
        cli_clean(NULL);
        snprintf(text, sizeof text, "%s[sweep]\ntraining.eta0 = 4 2 1 0.5 0.25 0.125\n", batches);
        cli_print("sweep.ini", text);
        char *table = sweep(more[k]);
        assert_int_equal(strncmp(table, want[k], strlen(want[k])), 0);
        free(table);
        cli_done("dmft-sweep", ARGS("--quiet", "--optimum", "out.h5", "--objective", "time_to=0.3",
                                    "-o", "again.h5"));
        cli_program("dmft-sweep");
        snprintf(text, sizeof text,
                 "%s[sweep]\ntraining.eta0 = 4 2 1 0.5 0.25 0.125\nobjective = time_to=0.3\n",
                 batches);
        cli_print("sweep.ini", text);
        free(sweep(more[k])); /* runs nothing */
        assert_true(cli_same("out.h5", "again.h5", "optimum/at_samples"));
        assert_true(cli_same("out.h5", "again.h5", "sweep/objective"));
        hid_t file = cli_file("out.h5");
        double *objective = cli_values(file, "sweep/objective", &count);
        assert_int_equal(count, 12);
        assert_int_equal(H5Lexists(file, "sweep/test_loss", H5P_DEFAULT) > 0, k == 0);
        for (size_t u = 0; u < count; u++)
            assert_true(isnan(objective[u]) || (objective[u] >= 0 && objective[u] <= 19));
        H5Fclose(file);
        free(objective);
        remove("again.h5");
    }
    check_refused(ARGS("--optimum", "out.h5", "--along", "network.kappa"),
                  ARGS("along = network.kappa: must be a key of [sweep]", "training.eta0"));
    check_refused(ARGS("--optimum", "out.h5", "--objective", "best"), ARGS("has no series best"));
    check_refused(ARGS("--optimum", "out.h5", "--objective", "time_to=0"),
                  ARGS("objective \"time_to=0\": must be test_loss, loss, smooth_loss"));
    check_refused(ARGS("--optimum", "none.h5"), ARGS("none.h5: cannot be opened"));
    add_line("out.h5", "columns = parameters width\n");
    check_refused(ARGS("--optimum", "out.h5"), ARGS("[sweep] columns: there is no width"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_runs),
        cmocka_unit_test(test_times_of_pseudo_values),
        TEST(test_entries_of_series),
        TEST(test_objectives),
    };
    return cmocka_run_group_tests(tests, cli_open_sweep, cli_close);
}
