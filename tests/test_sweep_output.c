/* The file of a sweep: what it replaces without --force (files of sweeps whose runs stay, and
 * nothing else), that its errors are those of its runs, and what it reads of other files; the
 * table that is printed. */
#define _XOPEN_SOURCE 700
#include "solver/files/partial.h"
#include "tests/support/cli.h"
#include "tests/support/support.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD                                                                                       \
    "[network]\nmodel = dense\n[data]\ninputs = 3\ndimension = 4\n[training]\nsteps = 2\n"         \
    "[solver]\nsites = 64\nreplicates = 2\nthreads = 1\n"

static void write_ini(const char *eta0) {
    char text[512];
    snprintf(text, sizeof text, HEAD "[sweep]\ntraining.eta0 = %s\n", eta0);
    cli_print("sweep.ini", text);
}

static void accept(const char *force) {
    struct cli_result result;
    cli_run(&result, ARGS("--quiet", "--jobs", "1", "-o", "out.h5", "sweep.ini", force));
    if (result.code)
        fail_msg("exit code %d: %s", result.code, result.err);
    cli_free(&result);
}

static void refuse(void) {
    struct cli_result result;
    cli_run(&result, ARGS("--quiet", "--jobs", "1", "-o", "out.h5", "sweep.ini"));
    assert_true(cli_ended(&result, 2, ARGS("out.h5: exists already", "--force")));
    cli_free(&result);
}

/* A folder OUT.d, as a stopped sweep leaves it, is no leave to replace what stands at OUT.h5. */
CLEAN_TEST(test_other_files_stay) {
    write_ini("0.2 0.4");
    assert_int_equal(mkdir("out.d", 0777), 0);
    cli_print("out.h5", "mine");
    refuse();
    char *text = cli_read("out.h5", NULL);
    assert_string_equal(text, "mine");
    free(text);
    accept("--force");
}

CLEAN_TEST(test_results_of_other_programs_stay) {
    struct cli_result result;
    write_ini("0.2 0.4");
    assert_int_equal(mkdir("out.d", 0777), 0);
    cli_print("case.ini", HEAD);
    cli_program("dmft-solve");
    cli_run(&result, ARGS("--quiet", "-o", "out.h5", "case.ini"));
    assert_int_equal(result.code, 0);
    cli_free(&result);
    cli_program("dmft-sweep");
    refuse();
}

/* Another grid in the same folder takes the place of the file, whose runs stay; a run that was
 * deleted is run again. Where the runs are gone and are none of this sweep, the file stays. */
CLEAN_TEST(test_sweeps_whose_runs_stay_are_replaced) {
    write_ini("0.2 0.4");
    accept(NULL);
    accept(NULL);
    write_ini("0.4 0.8");
    accept(NULL);
    assert_int_equal(system("rm -r out.d"), 0);
    accept(NULL);
    assert_int_equal(system("rm -r out.d"), 0);
    write_ini("0.3 0.8");
    refuse();
    accept("--force");
}

/* The file of a unit, in the order of the arrays. */
static hid_t unit_file(hid_t sweep, int unit) {
    char path[64], *names = cli_words(sweep, "sweep/file"), *rest = names, *name = NULL;
    for (int u = 0; u <= unit; u++)
        assert_non_null(name = strtok_r(rest, "\n", &rest));
    snprintf(path, sizeof path, "out.d/%s", name);
    free(names);
    return cli_file(path);
}

/* The error of the tolerance is part of the error of a run, and so of the same loss in a sweep;
 * that of the median has it, too, in quadrature. */
CLEAN_TEST(test_errors_are_those_of_the_runs) {
    size_t count, T;
    double median_se[2];
    for (int checked = 0; checked < 2; checked++) {
        cli_print("sweep.ini", HEAD "tolerance = 0.05\n[sweep]\ntraining.eta0 = 0.2\n");
        struct cli_result result;
        cli_run(&result,
                ARGS("--quiet", "--jobs", "1", "-o", "out.h5", "sweep.ini",
                     checked ? "--solver.check_tolerance=yes" : "--solver.check_tolerance=no"));
        assert_int_equal(result.code, 0);
        cli_free(&result);
        hid_t sweep = cli_file("out.h5"), run = unit_file(sweep, 0);
        double *se = cli_values(sweep, "sweep/loss_se", &count);
        double *median = cli_values(sweep, "sweep/loss_median_se", &count);
        double *want = cli_values(run, "limit/loss_se", &T);
        double *difference = checked ? cli_values(run, "limit/loss_tolerance", &T) : NULL;
        CHECK_ABS(se[0], want[T - 1], 1e-14 * want[T - 1], "loss_se");
        median_se[checked] = median[0];
        if (checked) { /* it matters, and is part of both */
            assert_true(fabs(difference[T - 1]) > 1e-6 * want[T - 1]);
            CHECK_ABS(median[0], hypot(median_se[0], difference[T - 1]), 1e-14 * median[0],
                      "loss_median_se");
        }
        free(se);
        free(median);
        free(want);
        free(difference);
        H5Fclose(sweep);
        H5Fclose(run);
    }
}

/* The smallest mean loss is that of all times, the first among them: at the rate 10 the loss of the
 * networks only rises, and that of the limit is smallest at t = 1. */
CLEAN_TEST(test_smallest_loss) {
    static const double rate[] = {0.01, 10};
    int smallest_at[2] = {0};
    size_t count, T;
    cli_print("sweep.ini", HEAD "[reference]\nwidths = 4\nseeds = 3\n"
                                "[sweep]\ntraining.eta0 = 0.01 10\n");
    accept("--training.steps=3");
    hid_t sweep = cli_file("out.h5");
    double *least = cli_values(sweep, "sweep/loss_min", &count);
    assert_int_equal(count, 2 * COUNT(rate));
    for (int u = 0; u < (int)count; u++) {
        hid_t run = unit_file(sweep, u);
        double *loss = cli_values(run, u % 2 ? "limit/loss" : "reference/N0004/loss", &T);
        size_t at = 0;
        for (size_t t = 1; t < T; t++)
            at = loss[t] < loss[at] ? t : at;
        CHECK_ABS(least[u], loss[at], 1e-15 * loss[at], "unit %d", u);
        if (rate[u / 2] > 1)
            smallest_at[u % 2] = (int)at;
        free(loss);
        H5Fclose(run);
    }
    assert_true(smallest_at[0] == 0 && smallest_at[1] == 1);
    free(least);
    H5Fclose(sweep);
}

/* One ini for several networks and optimizers: a point leaves out what only others use, and runs as
 * an ini of its own would; whether the ini or the command line has these keys, as it has those of a
 * dictionary of Python. */
CLEAN_TEST(test_points_of_several_networks) {
    static const char *const given[] = {"--network.kappa=0.5", "--training.eps=0.1",
                                        "--solver.expert_sites=64"};
    size_t count, T;
    cli_print("several.ini", "[network]\nmodel = dense\n[data]\ninputs = 3\ndimension = 4\n"
                             "[training]\nsteps = 6\n[solver]\nsites = 64\nreplicates = 2\n");
    cli_done("dmft-solve", ARGS("--quiet", "-o", "several.h5", "several.ini"));
    hid_t alone = cli_file("several.h5");
    double *loss = cli_values(alone, "limit/loss", &T);
    cli_program("dmft-sweep");
    for (int k = 0; k < 2; k++) {
        struct cli_result result;
        char ini[512];
        snprintf(ini, sizeof ini,
                 "[network]\nmodel = regime2\n%s[data]\ninputs = 3\ndimension = 4\n[training]\n"
                 "steps = 6\n%s[solver]\nsites = 64\n%sreplicates = 2\n[reference]\n"
                 "widths = 8 16\nseeds = 3\n[sweep]\nnetwork.model = dense regime2\n"
                 "training.optimizer = gd adam\n",
                 k ? "" : "kappa = 0.5\n", k ? "" : "eps = 0.1\n", k ? "" : "expert_sites = 64\n");
        cli_print("sweep.ini", ini);
        cli_run(&result,
                ARGS("-o", "out.h5", "sweep.ini", k ? given[0] : NULL, given[1], given[2]));
        if (result.code)
            fail_msg("%s", result.err);
        assert_non_null(strstr(result.err, "note: some points do not use, and leave out: "
                                           "network.kappa training.eps solver.expert_sites"));
        cli_free(&result);
        hid_t whole = cli_file("out.h5");
        double *swept = cli_values(whole, "sweep/loss", &count);
        assert_int_equal(count, 12); /* model, optimizer, N = 8, 16, infinity */
        assert_true(swept[2] == loss[T - 1]);
        free(swept);
        H5Fclose(whole);
        assert_int_equal(system("rm -r out.h5 out.d"), 0);
    }
    free(loss);
    H5Fclose(alone);
}

/* Units may name what only other units of their point have: under Adam networks alone have singular
 * values, and heads have rows of their own. A name that none has is refused. */
CLEAN_TEST(test_names_are_those_of_a_point) {
    static const char heads[] =
        "[network]\nmodel = transformer\ndepth = 1\nheads = 2\n[data]\nsource = markov\n"
        "vocabulary = 2\ntokens = 2\ninputs = 2\n[training]\nsteps = 2\noptimizer = adam\n"
        "loss = cross_entropy\n[solver]\nsites = 32\nreplicates = 1\n[reference]\nwidths = 8\n"
        "seeds = 1\n[sweep]\ntraining.eta0 = 0.1 0.2\n";
    struct cli_result result;
    cli_print("sweep.ini", heads);
    cli_run(&result, ARGS("--quiet", "--jobs", "1", "-o", "heads.h5", "sweep.ini",
                          "--output.singular=W_V", "--output.fields=W_Q_0_1"));
    if (result.code)
        fail_msg("%s", result.err);
    cli_free(&result);
    cli_run(&result, ARGS("--quiet", "-o", "more.h5", "sweep.ini", "--output.fields=W_Q_0_2"));
    assert_true(cli_ended(&result, 2, ARGS("no rows are called W_Q_0_2")));
    cli_free(&result);
}

/* The optimum of a sweep is that of all of its runs. */
CLEAN_TEST(test_a_missing_run_is_told) {
    struct cli_result result;
    write_ini("0.1 0.3");
    accept("--force");
    cli_run(&result, ARGS("--optimum", "out.h5"));
    assert_int_equal(result.code, 0);
    cli_free(&result);
    assert_int_equal(system("set -- out.d/*.h5 && mv $1 kept"), 0);
    cli_run(&result, ARGS("--optimum", "out.h5"));
    assert_true(cli_ended(&result, 2, ARGS("out.d/", "this run is missing; the same dmft-sweep")));
    cli_free(&result);
}

/* Nor is a run whose file lacks its loss taken for one that has failed. */
CLEAN_TEST(test_a_missing_loss_is_told) {
    struct cli_result result;
    glob_t runs;
    write_ini("0.1 0.3");
    accept("--force");
    assert_int_equal(glob("out.d/*.h5", 0, NULL, &runs), 0);
    hid_t file = H5Fopen(runs.gl_pathv[0], H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true(file >= 0 && H5Ldelete(file, "limit/loss", H5P_DEFAULT) >= 0);
    H5Fclose(file);
    globfree(&runs);
    cli_run(&result, ARGS("--optimum", "out.h5"));
    assert_true(cli_ended(&result, 1, ARGS("is not a complete file with limit/loss")));
    cli_free(&result);
}

/* The sum of a file is that of its bytes and its name, whatever the folder. */
CLEAN_TEST(test_a_sum_is_of_the_whole_name) {
    static const char *const same[] = {"first", "./first"}, *const other[] = {"./girst", "./firsu"};
    struct err refusal;
    cli_print("first", "bytes");
    ASK(partial_sum("first", "./first", "sum", err));
    for (size_t k = 0; k < 2; k++) {
        cli_print(other[k], "bytes");
        ASK(partial_verify(same[k], "sum", err));
        assert_int_equal(partial_verify(other[k], "sum", &refusal), CODE_INPUT);
        assert_non_null(strstr(refusal.text, "is not the file that was written under this name"));
    }
}

AROUND_TESTS(cli_open_sweep, cli_close)
