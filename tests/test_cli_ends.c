/* The program from outside: how a run ends that fails, is interrupted or cannot keep its file. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cli.h"

#include <sys/wait.h>

/* Deep linear networks at the edge of what they can learn with. */
#define EDGE "--network.activation=linear", "--network.gate=constant"

/* How many runs reached the first and the last time, in what was left of a run. */
static void check_partial(const char *group, bool reached_last) {
    char set[64];
    size_t count;
    assert_false(cli_exists("out.h5"));
    assert_int_equal(cli_complete("out.h5.partial"), 0);
    FREED(close_file) hid_t file = cli_file("out.h5.partial");
    snprintf(set, sizeof set, "%s/n", group);
    FREED(base_free) double *n = cli_values(file, set, &count);
    assert_true(n[0] >= 1);
    assert_int_equal(n[count - 1] >= 1, reached_last);
    snprintf(set, sizeof set, "%s/loss", group);
    FREED(base_free) double *loss = cli_values(file, set, &count);
    assert_true(isfinite(loss[0]));
    assert_int_equal(isfinite(loss[count - 1]), reached_last);
}

static void check_numerical(const char *const *arg, bool limit_done, const char *const *part) {
    FREED(cli_free) struct cli_result result;
    cli_run(&result, arg);
    assert_true(cli_ended(&result, 3, part));
    assert_non_null(strstr(result.err, "what was computed is in out.h5.partial"));
    check_partial("limit", limit_done);
    cli_clean(NULL);
}

/* A stack that settings do not fit into is refused before they are read. */
CLEAN_TEST(test_small_stacks) {
    struct rlimit limit;
    FREED(cli_free) struct cli_result result;
    assert_int_equal(getrlimit(RLIMIT_STACK, &limit), 0);
    assert_int_equal(setrlimit(RLIMIT_STACK, &(struct rlimit){100 << 10, limit.rlim_max}), 0);
    cli_run(&result, ARGS("small.ini", "-o", "out.h5"));
    assert_int_equal(setrlimit(RLIMIT_STACK, &limit), 0);
    assert_true(cli_ended(&result, 1, ARGS("a stack of 100 kB is too small, 768 are needed")));
}

CLEAN_TEST(test_numerical_failures) {
    const char *const *few_sites =
        ARGS("small.ini", "-o", "out.h5", "--network.activation=relu", "--solver.sites=300",
             "--data.inputs=64", "--data.dimension=64", "--training.eta0=20",
             "--solver.tolerance=1e-5", "--training.steps=20");
    const char *const *all_of_a_width =
        ARGS("small.ini", "-o", "out.h5", EDGE, "--training.steps=25", "--training.eta0=0.7",
             "--reference.widths=2 16 32", "--reference.seeds=1");
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
    FREED(close_file) hid_t file = cli_file(name);
    FREED(base_free)
    double *loss = cli_values(file, "reference/N0002/loss_runs", &count),
           *mean = cli_values(file, "reference/N0002/loss", &count),
           *n = cli_values(file, "reference/N0002/n", &count);
    double sum = 0;
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
    FREED(base_free) char *text = cli_text(file, "reference/N0002", "failure");
    assert_non_null(strstr(text, "N = 2, network 2, step 3: the loss, 2.86e+14, exceeds"));
}

/* They diverge alone, whether their last number would be finite (4 steps) or not (25). */
CLEAN_TEST(test_networks_that_diverge) {
    static const char *const steps[] = {"--training.steps=4", "--training.steps=25"};
    for (size_t i = 0; i < 2; i++) {
        FREED(cli_free) struct cli_result result;
        cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--force", EDGE, "--training.eta0=0.6",
                              "--reference.widths=2 16", "--reference.seeds=6", steps[i]));
        assert_int_equal(result.code, 0);
        assert_non_null(strstr(result.err, "warning: N = 2, network 4, step 2: the loss, 3.13e+08, "
                                           "exceeds 1e+06 times that of the start; lower eta0"));
        assert_non_null(strstr(result.out, "note: 2 of 6 networks of N = 2 failed and count until "
                                           "then; the first:\n  N = 2, network 2, step 3: "));
        check_failed_networks("out.h5", i ? 25 : 4);
    }
    cli_clean(NULL);
    cli_solve_as("two.h5", ARGS(EDGE, "--training.eta0=0.6", "--reference.widths=2 16",
                                "--reference.seeds=6", "--training.steps=4", "--solver.threads=2"));
    check_failed_networks("two.h5", 4);
}

/* A loss of 1e13 is none of a run that diverges where targets are 1e7. */
CLEAN_TEST(test_large_targets) {
    cli_make_data("large.h5", 2, 3, 4, 3, 3, 1e7);
    cli_print("large.ini", CLI_DATA("large.h5") "[training]\nsteps = 2\neta0 = 1e-9\n[solver]\n"
                                                "sites = 64\nexpert_sites = 64\nreplicates = 2\n");
    FREED(cli_free) struct cli_result result;
    cli_run(&result, ARGS("large.ini", "-o", "out.h5"));
    assert_int_equal(result.code, 0);
}

/* Sweeps that end too early: which kernel still changes, and everything that was found. */
CLEAN_TEST(test_fixed_point_that_does_not_converge) {
    FREED(cli_free) struct cli_result result;
    size_t count;
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--solver.method=fixed_point",
                          "--solver.max_sweeps=3", "--solver.replicates=1"));
    assert_true(cli_ended(&result, 3,
                          ARGS("replicate 0: not converged in 3 sweeps", "still changes by",
                               "fp_tolerance is 0.0001", "raise max_sweeps")));
    check_partial("limit", true);
    FREED(close_file) hid_t file = cli_file("out.h5.partial");
    FREED(base_free) double *change = cli_values(file, "limit/sweeps/change", &count);
    assert_int_equal(count, 3 * 12); /* Phi, G, A, B of Q, W_in, W_out */
    for (size_t i = 0; i < count; i++)
        assert_true(i < 2 * 12 ? change[i] >= 0 : change[i] > 0); /* all in the last sweep */
}

/* Sweeps of adaptive steps: a window that becomes longer keeps to max_memory, of which the forecast
 * knew the first window alone; and a horizon that has not grown to the end is what is missing, not
 * a change of the kernels up to it. */
CLEAN_TEST(test_fixed_point_of_adaptive_steps_that_ends_early) {
    static const STRUCT(const char *more, *says[4]) cases[] = {
        {"eta0 = 2\nrtol = 2e-3\nsteps = 4\n[solver]\nsites = 256\nmax_memory = 0.1\n",
         {"the steps come to", "at 4 of 4 measured times", "raise rtol and atol or max_memory"}},
        {"eta0 = 3\nrtol = 1e-4\natol = 1e-4\nsteps = 30\n[solver]\nsites = 64\ntolerance = 1e-5\n",
         {"not converged in 3 sweeps, which have come to 1 of 30 measured times; raise "
          "max_sweeps"}}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        FREED(cli_free) struct cli_result result;
        TEXT(text, 512,
             "[network]\nmodel = dense\ndepth = %d\n[data]\nsource = gaussian\ninputs = 4\n"
             "[training]\nintegrator = bs32\n%smethod = fixed_point\nreplicates = 1\n%s",
             i ? 2 : 3, cases[i].more, i ? "max_sweeps = 3\n" : "");
        cli_print("sweeps.ini", text);
        cli_run(&result, ARGS("sweeps.ini", "-o", "out.h5", "--force"));
        assert_true(cli_ended(&result, 3, cases[i].says));
    }
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

/* The signal comes when the program has worked for some seconds after the partial file has the
 * group `after`: longer than it needs for a few steps. */
static void interrupt(int number, const char *const *arg, const char *after, const char *group,
                      double seconds) {
    FREED(cli_free) struct cli_result result;
    pid_t pid = cli_start(arg, 0);
    await_group(pid, after);
    cli_work(pid, seconds);
    kill(pid, number);
    cli_wait(pid, &result);
    assert_true(cli_ended(&result, 130, ARGS("interrupted")));
    check_partial(group, false);
    if (strcmp(group, "limit"))
        check_partial("limit", true);
    cli_clean(NULL);
}

CLEAN_TEST(test_interruptions) {
    const char *const *limit =
        ARGS("small.ini", "-o", "out.h5", "--training.steps=20000", "--training.eta0=0.001",
             "--solver.sites=512", "--solver.expert_sites=512", "--output.kernels=none");
    const char *const *networks =
        ARGS("small.ini", "-o", "out.h5", "--training.steps=2000", "--data.inputs=1",
             "--training.eta0=0.001", "--solver.sites=8", "--solver.expert_sites=8",
             "--solver.threads=2", "--reference.widths=512", "--reference.seeds=2");
    /* between two measured times, too: the second one is not reached */
    const char *const *euler = ARGS("small.ini", "-o", "out.h5", "--training.integrator=euler",
                                    "--training.substeps=1000000", "--training.steps=2",
                                    "--solver.replicates=1", "--reference.widths=");
    const char *const *bs32 =
        ARGS("small.ini", "-o", "out.h5", "--training.integrator=bs32", "--training.dt=1e6",
             "--training.steps=2", "--solver.replicates=1", "--reference.widths=");
    interrupt(SIGTERM, euler, "/", "limit", 0.15);
    interrupt(SIGHUP, limit, "/", "limit", 0.15);
    interrupt(SIGINT, bs32, "/", "limit", 0.15);
    interrupt(SIGINT, networks, "limit", "reference/N0512", 0.3);
}

/* As timeout(1) does: to the program, then to its process group. Both wait while it is stopped, so
 * that no time passes between them. */
CLEAN_TEST(test_signal_sent_twice) {
    FREED(cli_free) struct cli_result result;
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
}

/* A name that leaves no room for .state. */
CLEAN_TEST(test_folder_of_states_that_cannot_be_made) {
    FREED(cli_free) struct cli_result result;
    char name[NAME_MAX + 1];
    memset(name, 'x', NAME_MAX - 1);
    name[NAME_MAX - 1] = 0;
    cli_run(&result, ARGS("small.ini", "-o", name));
    assert_true(cli_ended(&result, 1,
                          ARGS("output xxx", ".state, for the state of the run, cannot be made",
                               "; name an output elsewhere with -o")));
}

/* A run that is over before the file appears is made again, longer. */
CLEAN_TEST(test_output_that_appears_meanwhile) {
    FREED(cli_free) struct cli_result result = {0};
    for (int steps = 2000; steps <= 32000; steps *= 4) {
        TEXT(length, 32, "--training.steps=%d", steps);
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
    FREED(base_free) char *bytes = cli_read("out.h5", NULL);
    assert_string_equal(bytes, "mine\n");
    cli_clean(NULL);
}

/* `dmft-solve ... | head` with a table longer than the buffer of the pipe's writer. */
CLEAN_TEST(test_reader_that_leaves) {
    FREED(cli_free) struct cli_result result;
    const char *widths = "--reference.widths=1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 "
                         "22 23 24 25 26 27 28 29 30 31 32";
    const char *const *arg =
        ARGS("small.ini", "-o", "out.h5", "--training.steps=20", "--reference.seeds=2", widths);
    cli_wait(cli_start(arg, CLI_NO_READER), &result);
    assert_true(cli_exists("out.h5"));
    assert_int_equal(cli_complete("out.h5"), 1);
    cli_clean(NULL);
}

AROUND_TESTS(cli_open, cli_close)
