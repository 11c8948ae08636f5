/* The program from outside: how a run ends, and what is the same bits. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/cli.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* --- how a run ends -------------------------------------------------------------------------- */

/* Deep linear networks at the edge of what they can learn with. */
#define EDGE "--network.activation=linear", "--network.gate=constant"

/* A run of small.ini whose file is kept under another name. */
static void solve_as(const char *name, const char *const *more) {
    cli_solve(more);
    assert_int_equal(rename("out.h5", name), 0);
}

/* How many runs reached the first and the last time, in what was left of a run. */
static void check_partial(const char *group, bool reached_last) {
    char set[64];
    size_t count;
    assert_false(cli_exists("out.h5"));
    assert_int_equal(cli_complete("out.h5.partial"), 0);
    hid_t file = cli_file("out.h5.partial");
    snprintf(set, sizeof set, "%s/n", group);
    double *n = cli_values(file, set, &count);
    assert_true(n[0] >= 1);
    assert_int_equal(n[count - 1] >= 1, reached_last);
    snprintf(set, sizeof set, "%s/loss", group);
    double *loss = cli_values(file, set, &count);
    assert_true(isfinite(loss[0]));
    assert_int_equal(isfinite(loss[count - 1]), reached_last);
    free(n);
    free(loss);
    H5Fclose(file);
}

static void check_numerical(const char *const *arg, bool limit_done, const char *const *part) {
    struct cli_result result;
    cli_run(&result, arg);
    assert_true(cli_ended(&result, 3, part));
    assert_non_null(strstr(result.err, "what was computed is in out.h5.partial"));
    check_partial("limit", limit_done);
    cli_free(&result);
    cli_clean(NULL);
}

static void test_numerical_failures(void **state) {
    (void)state;
    const char *const *large_rate =
        ARGS("small.ini", "-o", "out.h5", "--training.eta0=1e4", "--training.steps=20");
    const char *const *few_sites =
        ARGS("small.ini", "-o", "out.h5", "--network.activation=relu", "--solver.sites=300",
             "--data.inputs=64", "--data.dimension=64", "--training.eta0=20",
             "--solver.tolerance=1e-5", "--training.steps=20");
    const char *const *all_of_a_width =
        ARGS("small.ini", "-o", "out.h5", EDGE, "--training.steps=25", "--training.eta0=0.7",
             "--reference.widths=2 16 32", "--reference.seeds=1");
    check_numerical(large_rate, false, ARGS("replicate 0, step ", "exceeds 1e+06", "lower eta0"));
    check_numerical(few_sites, false,
                    ARGS("replicate 0, step ", "population bottom has too few sites", "rank ",
                         "of 300 sites", "raise sites"));
    check_numerical(all_of_a_width, true,
                    ARGS("1 of 1 networks failed: N = 16, network 0, step 5: the loss, ",
                         "exceeds 1e+06 times that of the start; lower eta0"));
}

static double attribute(hid_t file, const char *group, const char *name) {
    double value = NAN;
    hid_t id = H5Aopen_by_name(file, group, name, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Aread(id, H5T_NATIVE_DOUBLE, &value) >= 0);
    H5Aclose(id);
    return value;
}

/* Networks 2 and 4 of six reach the times before they leave all bounds, the others the last one. */
static void check_failed_networks(const char *name, size_t T) {
    size_t count;
    hid_t file = cli_file(name);
    double *loss = cli_values(file, "reference/N0002/loss_runs", &count),
           *mean = cli_values(file, "reference/N0002/loss", &count),
           *n = cli_values(file, "reference/N0002/n", &count), sum = 0;
    assert_int_equal(count, T);
    for (size_t run = 0; run < 6; run++)
        for (size_t t = 0; t < T; t++)
            assert_int_equal(isfinite(loss[run * T + t]), run == 2   ? t < 3
                                                          : run == 4 ? t < 2
                                                                     : true);
    assert_true(n[1] == 6 && n[2] == 5 && n[T - 1] == 4);
    for (size_t run = 0; run < 6; run++)
        sum += run == 2 || run == 4 ? 0 : loss[run * T + T - 1];
    assert_true(fabs(mean[T - 1] - sum / 4) < 1e-15 * sum);
    assert_true(attribute(file, "reference/N0002", "failed") == 2);
    assert_true(attribute(file, "reference/N0016", "failed") == 0);
    char *text = cli_text(file, "reference/N0002", "failure");
    assert_non_null(strstr(text, "N = 2, network 2, step 3: the loss, 2.86e+14, exceeds"));
    free(text);
    free(loss);
    free(mean);
    free(n);
    H5Fclose(file);
}

/* They diverge alone, whether their last number would be finite (4 steps) or not (25). */
static void test_networks_that_diverge(void **state) {
    (void)state;
    static const char *const steps[] = {"--training.steps=4", "--training.steps=25"};
    for (size_t i = 0; i < 2; i++) {
        struct cli_result result;
        cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--force", EDGE, "--training.eta0=0.6",
                              "--reference.widths=2 16", "--reference.seeds=6", steps[i]));
        assert_int_equal(result.code, 0);
        assert_non_null(strstr(result.err, "warning: N = 2, network 4, step 2: the loss, 3.13e+08, "
                                           "exceeds 1e+06 times that of the start; lower eta0"));
        assert_non_null(strstr(result.out, "note: 2 of 6 networks of N = 2 failed and count until "
                                           "then; the first:\n  N = 2, network 2, step 3: "));
        check_failed_networks("out.h5", i ? 25 : 4);
        cli_free(&result);
    }
    cli_clean(NULL);
    solve_as("two.h5", ARGS(EDGE, "--training.eta0=0.6", "--reference.widths=2 16",
                            "--reference.seeds=6", "--training.steps=4", "--solver.threads=2"));
    check_failed_networks("two.h5", 4);
}

/* A loss of 1e13 is none of a run that diverges where targets are 1e7. */
static void test_large_targets(void **state) {
    (void)state;
    cli_make_data("large.h5", 2, 3, 4, 3, 3, 1e7);
    cli_print("large.ini", CLI_DATA("large.h5") "[training]\nsteps = 2\neta0 = 1e-9\n[solver]\n"
                                                "sites = 64\nexpert_sites = 64\nreplicates = 2\n");
    struct cli_result result;
    cli_run(&result, ARGS("large.ini", "-o", "out.h5"));
    assert_int_equal(result.code, 0);
    cli_free(&result);
}

/* A single pass: 20 new directions a step in a basis that may have 270. */
static void test_rank_cap(void **state) {
    (void)state;
    struct cli_result result;
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--data.inputs=400", "--data.dimension=60",
                          "--training.batch=20", "--training.steps=20", "--solver.sites=300",
                          "--solver.expert_sites=300"));
    assert_true(cli_ended(&result, 3, ARGS("replicate 0, step 13: ", "too few sites", "280 of")));
    assert_non_null(strstr(result.err, "with new inputs at every step bases grow by 20 every "
                                       "evaluation, up to 300 of 300 sites; the run will probably "
                                       "end at step 13; more than 2000 sites"));
    cli_free(&result);
}

/* Tokens are rows of their own: 4 inputs of 8 tokens grow by 32 each step, of which 270 have room.
 * Flow by Heun's rule takes two evaluations a step. */
static void test_rank_of_tokens(void **state) {
    (void)state;
    static const char *const rule[] = {"--training.integrator=gd", "--training.integrator=heun"};
    static const char *const step[] = {"step 8", "step 4"};
    cli_print("tokens.ini",
              "[network]\nmodel = transformer\nactivation = relu\n[data]\ninputs = 4\n"
              "dimension = 40\ntokens = 8\n[training]\nsteps = 9\neta0 = 0.1\n"
              "[solver]\nsites = 300\nreplicates = 1\n");
    for (int k = 0; k < 2; k++) {
        struct cli_result result;
        char text[200];
        cli_run(&result, ARGS("tokens.ini", "-o", "out.h5", rule[k]));
        assert_true(cli_ended(&result, 3, ARGS("too few sites", "of 300", k ? "" : step[k])));
        snprintf(text, sizeof text,
                 "warning: with relu bases grow by 32 every evaluation, up to %d of 300 sites; the "
                 "run will probably end at %s; more than",
                 k ? 300 : 288, step[k]);
        assert_non_null(strstr(result.err, text));
        cli_free(&result);
        cli_clean(NULL);
    }
}

/* The warning names what keeps bases from compressing. */
static void test_uncompressed(void **state) {
    (void)state;
    static const char *const sets[][2] = {{"--network.activation=relu", "--network.rho=1"},
                                          {"--network.activation=tanh", "--network.rho=0.5"},
                                          {"--network.activation=relu", "--network.rho=0.5"}};
    static const char *const words[] = {"relu", "rho < 1", "relu and rho < 1"};
    for (int k = 0; k < 3; k++) {
        struct cli_result result;
        char text[80];
        cli_run(&result,
                ARGS("small.ini", "-o", "out.h5", "--training.steps=5", sets[k][0], sets[k][1]));
        assert_int_equal(result.code, 0);
        snprintf(text, sizeof text, "warning: with %s bases grow by 3 every", words[k]);
        assert_non_null(strstr(result.err, text));
        cli_free(&result);
        cli_clean(NULL);
    }
    struct cli_result result;
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--training.steps=5", sets[0][0],
                          "--solver.halves=yes"));
    assert_non_null(strstr(result.err, "up to 15 of 32 sites in each half; more than 150 sites"));
    cli_free(&result);
}

/* What the tolerance does is in the errors if that is asked for, and in a warning where the errors
 * would else be those of round-off. */
static void test_tolerance(void **state) {
    (void)state;
    static const char linear[] = "[network]\nmodel = dense\ndepth = 3\nactivation = linear\n"
                                 "[data]\nsource = gaussian\ninputs = 4\ndimension = 10\n"
                                 "[training]\nsteps = 50\neta0 = 0.96\ngamma0 = 1\n"
                                 "[solver]\nsites = 64\nreplicates = 2\n";
    static const char warning[] = "warning: the limit has no sampling error here";
    struct cli_result result;
    size_t count;
    cli_print("linear.ini", linear);
    cli_run(&result, ARGS("linear.ini", "-o", "out.h5"));
    assert_true(result.code == 0 && strstr(result.out, warning));
    cli_free(&result);
    cli_run(&result, ARGS("linear.ini", "-o", "out.h5", "--force", "--network.activation=tanh"));
    assert_true(result.code == 0 && !strstr(result.out, warning));
    assert_null(strstr(result.out, "tolerance"));
    cli_free(&result);
    cli_run(&result, ARGS("linear.ini", "-o", "out.h5", "--force", "--solver.check_tolerance=yes"));
    assert_true(result.code == 0 && !strstr(result.out, warning));
    assert_non_null(strstr(result.out, "tolerance: a third of it changes the loss by up to "));
    cli_free(&result);
    hid_t file = cli_file("out.h5");
    double *difference = cli_values(file, "limit/loss_tolerance", &count);
    double *se = cli_values(file, "limit/loss_se", &count);
    assert_int_equal(count, 50);
    assert_true(fabs(difference[49]) > 1e-3);
    assert_true(fabs(se[49] - fabs(difference[49])) < 1e-6); /* sampling: 4e-9 */
    assert_int_equal(H5Lexists(file, "limit/rank_tolerance", H5P_DEFAULT), 0);
    free(difference);
    free(se);
    H5Fclose(file);
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--force", "--solver.method=fixed_point",
                          "--solver.check_tolerance=yes"));
    assert_true(cli_ended(&result, 2, ARGS("check_tolerance", "method = march")));
    cli_free(&result);
}

/* Gates that stay as they are were lowest at first. */
static void test_gates_that_stay(void **state) {
    (void)state;
    struct cli_result result;
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--training.eta0=0"));
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "down to 1.000 of its initial value (t = 0); "));
    cli_free(&result);
}

/* Sweeps that end too early: which kernel still changes, and everything that was found. */
static void test_fixed_point_that_does_not_converge(void **state) {
    (void)state;
    struct cli_result result;
    size_t count;
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--solver.method=fixed_point",
                          "--solver.max_sweeps=3", "--solver.replicates=1"));
    assert_true(cli_ended(&result, 3,
                          ARGS("replicate 0: not converged in 3 sweeps", "still changes by",
                               "fp_tolerance is 0.0001", "raise max_sweeps")));
    cli_free(&result);
    check_partial("limit", true);
    hid_t file = cli_file("out.h5.partial");
    double *change = cli_values(file, "limit/sweeps/change", &count);
    assert_int_equal(count, 3 * 12); /* Phi, G, A, B of Q, W_in, W_out */
    for (size_t i = 0; i < count; i++)
        assert_true(change[i] >= 0);
    free(change);
    H5Fclose(file);
}

/* Waits until the partial file (of a run that is over, the file) has this group, "/" for the file
 * itself. */
static void await_group(pid_t pid, const char *group) {
    bool found = false;
    for (int i = 0; i < 10000 && !found && !kill(pid, 0); i++) {
        cli_pause(2e-3);
        const char *name = cli_exists("out.h5") ? "out.h5" : "out.h5.partial";
        hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
        found = file >= 0 && (!strcmp(group, "/") || H5Lexists(file, group, H5P_DEFAULT) > 0);
        if (file >= 0)
            H5Fclose(file);
    }
    if (!found)
        kill(pid, SIGKILL);
    assert_true(found);
}

/* The signal comes when the program has worked for half a second after the partial file has the
 * group `after`: more than it needs for a few steps. */
static void interrupt(int number, const char *const *arg, const char *after, const char *group) {
    struct cli_result result;
    pid_t pid = cli_start(arg, 0);
    await_group(pid, after);
    cli_work(pid, 0.5);
    kill(pid, number);
    cli_wait(pid, &result);
    assert_true(cli_ended(&result, 130, ARGS("interrupted")));
    check_partial(group, false);
    if (strcmp(group, "limit"))
        check_partial("limit", true);
    cli_free(&result);
    cli_clean(NULL);
}

static void test_interruptions(void **state) {
    (void)state;
    const char *const *limit =
        ARGS("small.ini", "-o", "out.h5", "--training.steps=20000", "--training.eta0=0.001",
             "--solver.sites=512", "--solver.expert_sites=512", "--output.kernels=none");
    const char *const *networks =
        ARGS("small.ini", "-o", "out.h5", "--training.steps=2000", "--data.inputs=1",
             "--training.eta0=0.001", "--solver.sites=8", "--solver.expert_sites=8",
             "--solver.threads=2", "--reference.widths=512", "--reference.seeds=2");
    /* between two measured times, too */
    const char *const *euler =
        ARGS("small.ini", "-o", "out.h5", "--training.integrator=euler",
             "--training.substeps=1000000", "--solver.replicates=1", "--reference.widths=");
    const char *const *bs32 =
        ARGS("small.ini", "-o", "out.h5", "--training.integrator=bs32", "--training.dt=1e6",
             "--solver.replicates=1", "--reference.widths=");
    interrupt(SIGTERM, euler, "/", "limit");
    interrupt(SIGINT, bs32, "/", "limit");
    interrupt(SIGINT, limit, "/", "limit");
    interrupt(SIGTERM, limit, "/", "limit");
    interrupt(SIGINT, networks, "limit", "reference/N0512");
}

/* As timeout(1) does: to the program, then to its process group. Both wait while it is stopped, so
 * that no time passes between them. */
static void test_signal_sent_twice(void **state) {
    (void)state;
    struct cli_result result;
    pid_t pid = cli_start(ARGS("small.ini", "-o", "out.h5", "--training.steps=20000"), 0);
    await_group(pid, "/");
    cli_work(pid, 0.2);
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    kill(pid, SIGTERM);
    kill(pid, SIGINT);
    kill(pid, SIGCONT);
    cli_wait(pid, &result);
    assert_true(cli_ended(&result, 130, ARGS("interrupted")));
    check_partial("limit", false);
    cli_free(&result);
}

/* A run that is over before the file appears is made again, longer. */
static void test_output_that_appears_meanwhile(void **state) {
    (void)state;
    struct cli_result result = {0};
    for (int steps = 2000; steps <= 32000; steps *= 4) {
        char length[32];
        snprintf(length, sizeof length, "--training.steps=%d", steps);
        pid_t pid = cli_start(ARGS("small.ini", "-o", "out.h5", length), 0);
        await_group(pid, "/");
        bool over = cli_exists("out.h5");
        cli_print("out.h5", "mine\n");
        cli_wait(pid, &result);
        if (!over && result.code)
            break;
        cli_free(&result);
        cli_clean(NULL);
    }
    assert_int_equal(result.code, 2);
    assert_non_null(strstr(result.err, "dmft-solve: output out.h5: has appeared meanwhile"));
    assert_null(strstr(result.err, "complete = 0"));
    assert_int_equal(cli_complete("out.h5.partial"), 1);
    char *bytes = cli_read("out.h5", NULL);
    assert_string_equal(bytes, "mine\n");
    free(bytes);
    cli_free(&result);
    cli_clean(NULL);
}

/* `dmft-solve ... | head` with a table longer than the buffer of the pipe's writer. */
static void test_reader_that_leaves(void **state) {
    (void)state;
    struct cli_result result;
    const char *widths = "--reference.widths=1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 "
                         "22 23 24 25 26 27 28 29 30 31 32";
    const char *const *arg =
        ARGS("small.ini", "-o", "out.h5", "--training.steps=20", "--reference.seeds=2", widths);
    cli_wait(cli_start(arg, CLI_NO_READER), &result);
    assert_true(cli_exists("out.h5"));
    assert_int_equal(cli_complete("out.h5"), 1);
    cli_free(&result);
    cli_clean(NULL);
}

/* --- the same bits --------------------------------------------------------------------------- */

static void assert_same(const char *first, const char *second) {
    static const char *const sets[] = {"limit/loss",
                                       "limit/f",
                                       "limit/loss_se",
                                       "limit/Phi1_diag",
                                       "limit/Gphi_diag",
                                       "limit/rank",
                                       "limit/gate_top",
                                       "limit/n",
                                       "reference/N0016/f",
                                       "reference/N0016/loss",
                                       "data/X",
                                       "data/y",
                                       "limit/Gb_diag",
                                       "reference/N0016/f_se"};
    size_t failures = 0;
    for (size_t i = 0; i < COUNT(sets); i++)
        failures += !cli_same(first, second, sets[i]);
    assert_int_equal(failures, 0);
}

static void test_threads_and_backends(void **state) {
    (void)state;
    static const char *const threads[] = {"--solver.threads=1", "--solver.threads=2",
                                          "--solver.threads=3"};
    /* several blocks of sites, and with three threads more of them than replicates */
    const char *sites = "--solver.sites=520", *experts = "--solver.expert_sites=264";
    const char *widths = "--reference.widths=16", *seeds = "--reference.seeds=3";
    solve_as("one.h5", ARGS(sites, experts, widths, seeds, threads[0]));
    for (size_t i = 1; i < COUNT(threads); i++) {
        solve_as("other.h5", ARGS(sites, experts, widths, seeds, threads[i]));
        assert_same("one.h5", "other.h5");
        assert_true(cli_same("one.h5", "other.h5", "limit/loss_runs"));
    }
    solve_as("other.h5",
             ARGS(sites, experts, widths, seeds, threads[1], "--solver.backend=shadow"));
    assert_same("one.h5", "other.h5");
}

static void test_of_a_parallel_job_without_mpi(void **state) {
    (void)state;
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct cli_result result;
        setenv(names[i], "3", 1);
        cli_run(&result, ARGS("-o", "out.h5", "--force", "--training.steps=1", "small.ini"));
        unsetenv(names[i]);
        assert_int_equal(result.code, 0);
        assert_non_null(strstr(result.err, "one of 3 processes of a job, but built without MPI"));
        cli_free(&result);
    }
}

/* What an interrupted or diverged run has cost is told too. */
static void test_profile_of_a_failure(void **state) {
    (void)state;
    struct cli_result result;
    cli_run(&result, ARGS("-o", "out.h5", "--quiet", "--profile", "--training.eta0=1e6",
                          "--training.steps=50", "small.ini"));
    assert_int_equal(result.code, 3);
    assert_non_null(strstr(result.err, "\nshares:"));
    assert_non_null(strstr(result.err, "exceeds 1e+06 times that of the start"));
    cli_free(&result);
}

/* Every row of the table is of one call or more. */
static void check_calls(const char *table) {
    const char *head = strstr(table, "\nplace "), *row = head + 1;
    int rows = 0;
    assert_non_null(head);
    long end = strstr(head, " calls ") - head + 5; /* of the column, behind the start of a line */
    while ((row = strchr(row, '\n') + 1), strncmp(row, "other rows", 10) != 0) {
        assert_true(atol(row + end - 7) > 0);
        rows++;
    }
    assert_true(rows > 0);
}

/* A profile changes nothing; calls are counted; its shares are all of the time. */
static void test_profile(void **state) {
    (void)state;
    struct cli_result result;
    solve_as("one.h5", ARGS("--reference.widths=16"));
    cli_run(&result, ARGS("-o", "other.h5", "--force", "--quiet", "--profile", "small.ini",
                          "--reference.widths=16"));
    assert_int_equal(result.code, 0);
    assert_same("one.h5", "other.h5");
    assert_non_null(strstr(result.err, "profile: "));
    assert_non_null(strstr(result.err, " orthonormalisation ")); /* its rows may be below 0.5 % */
    check_calls(result.err);
    char *shares = strstr(result.err, "\nshares:");
    assert_non_null(shares);
    double sum = 0;
    int count = 0;
    for (char *end = shares; (end = strstr(end, " %")); end++, count++) {
        char *number = end;
        while (number[-1] != ' ')
            number--;
        assert_true(atof(number) >= 0);
        sum += atof(number);
    }
    assert_int_equal(count, 8);
    assert_true(fabs(sum - 100) < 0.05 * count + 1e-9); /* one decimal is printed */
    cli_free(&result);
}

static void test_fewer_steps_are_a_beginning(void **state) {
    (void)state;
    solve_as("one.h5", ARGS("--training.steps=6", "--reference.widths=16"));
    solve_as("other.h5", ARGS("--training.steps=12", "--reference.widths=16"));
    assert_same("one.h5", "other.h5");
}

static void test_ini_of_a_file_repeats_it(void **state) {
    (void)state;
    solve_as("one.h5",
             ARGS("--network.gate=softmax", "--network.rho=0.5", "--network.beta=2.5",
                  "--solver.seed=18446744073709551615", "--training.eta0=0.1234567890123456",
                  "--reference.widths=16", "--reference.draws=balanced", "--reference.centre=no",
                  "--training.loss=logistic"));
    hid_t file = cli_file("one.h5");
    char *ini = cli_text(file, "parameters", "ini");
    H5Fclose(file);
    cli_print("again.ini", ini);
    struct cli_result result;
    cli_run(&result, ARGS("again.ini"));
    if (result.code)
        fail_msg("refused: %s", result.err);
    cli_free(&result);
    assert_same("one.h5", "again.h5");
    file = cli_file("again.h5");
    char *again = cli_text(file, "parameters", "ini");
    assert_string_equal(ini, again);
    free(ini);
    free(again);
    H5Fclose(file);
}

/* What each block measures of each input has an axis of tokens where inputs have them. */
static void test_series_of_blocks_and_tokens(void **state) {
    (void)state;
    enum { T = 2, L = 2, P = 3, TOKENS = 4 };
    cli_print("case.ini", "[network]\nmodel = residual\ndepth = 2\nrho = 0.5\nexpert_width = 2\n"
                          "[data]\nsource = markov\ninputs = 3\ntokens = 4\nvocabulary = 3\n"
                          "[training]\nsteps = 2\nloss = cross_entropy\n"
                          "[solver]\nsites = 32\nexpert_sites = 8\nreplicates = 1\n"
                          "[reference]\nwidths = 8\nseeds = 1\n");
    struct cli_result result;
    cli_run(&result, ARGS("--force", "-o", "out.h5", "case.ini"));
    if (result.code)
        fail_msg("%s", result.err);
    cli_free(&result);
    hid_t file = cli_file("out.h5");
    static const char *const sets[] = {"limit/qstar", "limit/p", "reference/N0008/A"};
    for (size_t k = 0; k < COUNT(sets); k++) {
        size_t count;
        free(cli_values(file, sets[k], &count));
        assert_int_equal(count, T * L * P * TOKENS);
        char *dims = cli_text(file, sets[k], "dims");
        assert_string_equal(dims, "t l mu token");
        free(dims);
    }
    H5Fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_numerical_failures),
        TEST(test_networks_that_diverge),
        TEST(test_large_targets),
        TEST(test_rank_cap),
        TEST(test_rank_of_tokens),
        TEST(test_uncompressed),
        TEST(test_tolerance),
        TEST(test_gates_that_stay),
        TEST(test_fixed_point_that_does_not_converge),
        TEST(test_interruptions),
        TEST(test_signal_sent_twice),
        TEST(test_output_that_appears_meanwhile),
        TEST(test_reader_that_leaves),
        TEST(test_threads_and_backends),
        TEST(test_profile),
        TEST(test_profile_of_a_failure),
        TEST(test_of_a_parallel_job_without_mpi),
        TEST(test_fewer_steps_are_a_beginning),
        TEST(test_ini_of_a_file_repeats_it),
        TEST(test_series_of_blocks_and_tokens),
    };
    return cmocka_run_group_tests_name("cli_runs", tests, cli_open, cli_close);
}
