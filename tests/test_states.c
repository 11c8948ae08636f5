/* States that nobody has asked for: when they are kept, how a run goes on from them, and that
 * nothing is left of them behind a run that is done. Those of [output] checkpoint: test_resume. */
#define _GNU_SOURCE
#include "solver/run/states.h"
#include "tests/support/cli.h"

#include <fcntl.h>
#include <hdf5_hl.h>
#include <sys/file.h>

/* One replicate: a signal between two of them would find no step whose state can be kept. */
static const char ini[] =
    "[network]\nmodel = dense\n[training]\nsteps = 800\n[solver]\nsites = 1024\n"
    "replicates = 1\nthreads = 1\n[reference]\nwidths = 16\nseeds = 2\n";

static int clean(void **state) {
    (void)state;
    cli_print("case.ini", ini);
    return system("rm -rf out.* whole.*");
}

/* The result of this ini in one piece, by dmft-solve made once. */
static const char *whole_of(const char *program) {
    static const char *const name[] = {"whole.h5", "solved.h5"};
    bool solve = !strcmp(program, "dmft-solve");
    cli_program(program);
    if (!cli_exists(name[solve]))
        cli_must(ARGS("--quiet", "-o", name[solve], "case.ini"));
    return name[solve];
}

/* A run of ten minutes and more keeps the state of what is done; a shorter one nothing. */
TEST_AFTER(clean, states_are_due) {
    static char *const override[] = {"output.checkpoint=0", "output.checkpoint=3",
                                     "solver.sites=auto", "solver.method=fixed_point"};
    static const double minutes[] = {10, 0, 3, 0, 0};
    for (int k = 0; k < 5; k++) {
        FREED(run_free) struct run run = {0};
        double now = base_seconds();
        log_init(&run.log, false);
        if (run_configure(&run, "case.ini", k > 0, override + (k ? k - 1 : 0), &failure))
            fail_msg("%s", failure.text);
        assert_true(states_minutes(&run) == minutes[k]);
        double late = now - 60 * minutes[k] - 1;
        bool any = minutes[k] > 0;
        run.states.since = late;
        assert_int_equal(states_due(&run, late, false), any);
        assert_int_equal(states_due(&run, now, false), false);
        assert_int_equal(states_due(&run, now, true), any);
        run.states.since = now;
        assert_int_equal(states_due(&run, now, true), k == 2);
    }
}

/* Stopped by a signal it goes on, by --continue alone, and ends with the bits of a run in one piece
 * and without states. */
TEST_AFTER(clean, a_stopped_run_goes_on) {
    static const char *const program[] = {"dmft-solve", "dmft-compare"};
    for (int k = 0; k < 2; k++) {
        struct cli_result result;
        clean(NULL);
        const char *whole = whole_of(program[k]);
        assert_false(cli_exists("whole.h5.state") || cli_exists("solved.h5.state"));
        pid_t pid = cli_start(ARGS("-o", "out.h5", "case.ini"), 0);
        while (!cli_exists("out.h5.partial"))
            cli_pause(0.001);
        cli_work(pid, 0.1);
        kill(pid, SIGTERM);
        cli_wait(pid, &result);
        assert_int_equal(result.code, 130);
        assert_non_null(strstr(result.err, "--continue out.h5"));
        cli_free(&result);
        assert_int_equal(system("ls out.h5.state/*.state >/dev/null"), 0);
        cli_must(ARGS("--quiet", "--continue", "out.h5"));
        cli_same_files(whole, "out.h5", program[k], 4);
        assert_false(cli_exists("out.h5.state"));
        cli_refused(2, ARGS("--continue", "out.h5"), ARGS("no state was kept"));
        assert_int_equal(system("mkdir out.h5.state"), 0); /* of a disk that was full */
        cli_refused(2, ARGS("--continue", "out.h5"),
                    ARGS("no state of it could be written: out.h5.state/ini: No such file"));
        assert_int_equal(system("rmdir out.h5.state"), 0);
    }
}

/* Killed before anything was kept it begins anew, by either command. */
TEST_AFTER(clean, a_killed_run_begins_anew) {
    const char *whole = whole_of("dmft-solve");
    for (int k = 0; k < 2; k++) {
        FREED(cli_free) struct cli_result result;
        assert_int_equal(system("rm -rf out.*"), 0);
        pid_t pid = cli_start(ARGS("-o", "out.h5", "case.ini"), 0);
        while (!cli_exists("out.h5.partial"))
            cli_pause(0.001);
        kill(pid, SIGKILL);
        cli_wait(pid, &result);
        assert_int_equal(result.code, -SIGKILL);
        assert_true(cli_exists("out.h5.state/ini"));
        cli_must(k ? ARGS("--quiet", "--continue", "out.h5")
                   : ARGS("--quiet", "--force", "-o", "out.h5", "case.ini"));
        cli_same_files(whole, "out.h5", "killed", 4);
        assert_false(cli_exists("out.h5.state"));
    }
}

/* A run that fails leaves no empty folder. */
TEST_AFTER(clean, a_run_that_fails_leaves_nothing) {
    cli_program("dmft-solve");
    cli_refused(3, ARGS("--quiet", "-o", "out.h5", "case.ini", "--training.eta0=1e4"),
                ARGS("step"));
    assert_false(cli_exists("out.h5.state"));
}

/* The network of width 2 of this seed fails, and so do two of six of seed 1; limits end. */
static const char failing[] =
    "[network]\nmodel = regime2\nactivation = linear\ngate = constant\n"
    "[data]\ninputs = 3\ndimension = 4\n[training]\nsteps = 4\neta0 = 0.6\n"
    "[solver]\nsites = 64\nexpert_sites = 64\nreplicates = 1\nthreads = 1\nseed = 4\n"
    "[reference]\nwidths = 2\nseeds = 1\n";

/* The same run would fail again, another one goes on from the limit that was done. */
TEST_AFTER(clean, a_failure_says_where_states_are) {
    cli_program("dmft-solve");
    cli_print("case.ini", failing);
    FREED(cli_free) struct cli_result result;
    cli_run(&result, ARGS("-o", "out.h5", "case.ini", "--output.checkpoint=99"));
    assert_int_equal(result.code, 3);
    assert_non_null(strstr(result.err,
                           "states of what did not fail are in out.h5.state: dmft-solve "
                           "--continue out.h5 goes on from them, with other widths"));
    cli_free(&result);
    assert_true(cli_exists("out.h5.state/limit_0000.state"));
    cli_must(ARGS("--quiet", "--continue", "out.h5", "--reference.widths="));
    cli_run(&result,
            ARGS("-o", "out.none.h5", "case.ini", "--output.checkpoint=99", "--training.eta0=5"));
    assert_int_equal(result.code, 3);
    assert_null(strstr(result.err, "--continue"));
}

/* A point of a sweep has nothing to change, so that states that nobody has asked for go. */
TEST_AFTER(clean, a_point_that_fails_leaves_none) {
    cli_program("dmft-sweep");
    cli_print("case.ini", failing);
    assert_int_equal(system("printf '[sweep]\ntraining.eta0 = 0.6\n' >> case.ini"), 0);
    cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini", "--output.checkpoint=99",
                  "--solver.seed=1", "--reference.seeds=6"));
    assert_int_equal(system("ls out.d/*.state/N0002_0000.state >/dev/null && ls out.d/*.failed "
                            ">/dev/null"),
                     0);
    cli_must(ARGS("--quiet", "--retry", "-o", "out.h5", "case.ini", "--solver.seed=1",
                  "--reference.seeds=6"));
    assert_int_not_equal(system("ls out.d/*.state/N0002_* 2>/dev/null"), 0);
    assert_int_equal(system("ls out.d/*.failed >/dev/null"), 0);
}

/* A second run of the same output is refused, and takes nothing of the first one away. One that
 * keeps no states is not concerned. */
TEST_AFTER(clean, another_run_is_left_alone) {
    cli_program("dmft-solve");
    assert_int_equal(mkdir("out.h5.state", 0777), 0);
    cli_print("out.h5.state/ini", ini);
    int folder = open("out.h5.state", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(folder, LOCK_EX), 0);
    cli_refused(2, ARGS("--quiet", "-o", "out.h5", "case.ini"),
                ARGS("another run is at work in out.h5.state; choose another name"));
    cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini", "--output.checkpoint=0",
                  "--solver.sites=64", "--training.steps=2"));
    assert_true(cli_exists("out.h5.state/ini"));
    close(folder);
}

/* Minutes are above 0; the two other numbers are words. */
TEST_AFTER(clean, minutes_are_above_0) {
    cli_program("dmft-solve");
    cli_refused(2, ARGS("--quiet", "-o", "out.h5", "case.ini", "--output.checkpoint=-0.5"),
                ARGS("--output.checkpoint=-0.5: minutes are above 0"));
}

/* What stands behind the keys of a state: which data, width and number, how many times the run has,
 * and how many it has done, which are neither less than none nor more than all. */
TEST_AFTER(clean, steps_are_those_of_the_run) {
    static const char name[] = "out.h5.state/limit_0000.state";
    const char *const *go_on = ARGS("--quiet", "--continue", "out.h5", "--training.steps=5");
    uint64_t length;
    size_t size;
    cli_program("dmft-solve");
    cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini", "--output.checkpoint=99",
                  "--solver.sites=64", "--training.steps=4", "--reference.widths="));
    FREED(base_free) char *good = cli_read(name, &size);
    size_t at = 16; /* behind the mark: two texts with their lengths */
    for (int text = 0; text < 2; text++) {
        memcpy(&length, good + at, sizeof length);
        at += sizeof length + length;
    }
    at += sizeof(uint64_t) + 2 * sizeof(int);
    int now[2]; /* times, steps */
    memcpy(now, good + at, sizeof now);
    assert_true(now[0] == 4 && now[1] == 4);
    const int times[] = {-1, 5, 4};
    for (int k = 0; k < 3; k++) {
        cli_change_state(name, at + sizeof *now, &times[k], sizeof times[k], true);
        if (times[k] != 4)
            cli_refused(2, go_on, ARGS(name, "it has more steps than its run"));
    }
    cli_must(go_on);
}

/* Outputs of other inputs, of states that are at the end of their run. */
TEST_AFTER(clean, predictions_need_whole_runs) {
    FREED(cli_free) struct cli_result result;
    const char *const *predict =
        ARGS("--predict", "in.h5", "-o", "out.prediction.h5", "--force", "out.h5");
    cli_program("dmft-solve");
    cli_lines("in.h5", "1,2,0\n", false);
    cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini", "--output.checkpoint=99",
                  "--solver.sites=64", "--data.dimension=2", "--training.steps=4"));
    cli_run(&result, predict);
    if (result.code || !strstr(result.err, "wrote out.prediction.h5"))
        fail_msg("code %d: %s", result.code, result.err);
    cli_free(&result);
    assert_true(cli_exists("out.prediction.h5"));
    assert_int_equal(system("mv out.h5.state away"), 0);
    cli_run(&result, predict);
    assert_ptr_equal(strstr(result.err, "dmft-solve: out.h5: no state was kept of it"), result.err);
    assert_int_equal(system("mv away out.h5.state"), 0);
    assert_int_equal(system("sed -i 's/^steps = 4/steps = 6/' out.h5.state/ini"), 0);
    cli_refused(2, predict, ARGS("the run has come to step 4 of 6: --continue goes on with it"));
}

/* Networks that failed have no outputs: their number is in the result, and as many may lack a state
 * of the end. Of this network 2 of 8 fail. */
TEST_AFTER(clean, predictions_leave_failed_networks_out) {
    FREED(cli_free) struct cli_result result;
    const char *const *predict =
        ARGS("--predict", "in.h5", "-o", "out.prediction.h5", "--force", "out.h5");
    cli_program("dmft-solve");
    cli_lines("in.h5", "1,2,0\n", false);
    cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini", "--network.model=dense",
                  "--network.activation=relu", "--data.dimension=2", "--data.inputs=4",
                  "--training.steps=20", "--training.eta0=8", "--solver.replicates=0",
                  "--reference.widths=8", "--reference.seeds=8", "--output.checkpoint=99"));
    cli_must(predict);
    int runs = 0;
    hid_t file = H5Fopen("out.prediction.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(H5LTread_dataset_int(file, "reference/N0008/n", &runs) >= 0);
    H5Fclose(file);
    assert_int_equal(runs, 6);
    assert_int_equal(system("rm out.h5.state/N0008_0000.state"), 0);
    cli_run(&result, predict); /* one more lacks a state than have failed */
    assert_int_equal(result.code, 2);
    assert_non_null(strstr(result.err, "has kept no state"));
}

/* Singular values are found at every n-th time and at the last. A run that is made longer has those
 * of its new length, and none at its former end. */
TEST_AFTER(clean, a_longer_run_has_its_own_last_time) {
#define SINGULAR_RUN(out, steps)                                                                   \
    ARGS("--quiet", "-o", out, "case.ini", "--output.singular=W2", "--output.singular_every=3",    \
         "--output.singular_values=2", "--solver.sites=64", "--output.checkpoint=99", steps)
    enum { T = 8, VALUES = 2 };
    static const char *const sets[] = {"limit/singular_W2", "limit/singular_W2_learned",
                                       "reference/N0016/singular_W2_independent"};
    cli_program("dmft-solve");
    cli_must(SINGULAR_RUN("whole.h5", "--training.steps=8"));
    cli_must(SINGULAR_RUN("out.h5", "--training.steps=5"));
    cli_must(ARGS("--quiet", "--continue", "out.h5", "--training.steps=8"));
    cli_same_files("whole.h5", "out.h5", "a longer run", 4);
    FREED(close_file) hid_t file = cli_file("whole.h5");
    for (size_t k = 0; k < COUNT(sets); k++) {
        size_t count;
        FREED(base_free) double *values = cli_values(file, sets[k], &count);
        assert_int_equal(count, T * VALUES);
        for (int i = 0, t = 0; i < T * VALUES; t = ++i / VALUES)
            assert_true(isnan(values[i]) || t % 3 == 0 || t == T - 1);
    }
}

/* What only the clock asks for leaves a tenth of the disk free, however many networks there are. */
TEST_AFTER(clean, the_disk_is_not_filled) {
    static const STRUCT(double bytes, available, size; bool room)
        cases[] = {{4e8, 2e10, 1e11, true}, {4e8, 1.05e10, 1e11, true}, {4e8, 1.03e10, 1e11, false},
                   {4e8, 5e9, 1e11, false}, {4e8, 1e8, 1e11, false},    {4e8, 1e8, 0, false},
                   {0, 1e10, 1e11, true}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        assert_int_equal(states_leave_room(cases[k].bytes, cases[k].available, cases[k].size),
                         cases[k].room);
    char here[] = ".", nowhere[] = "no/such/folder";
    struct run run = {.states.folder = here};
    assert_true(!states_fit(&run, 1e30));
    run.states.folder = nowhere; /* of which nothing is known */
    assert_true(states_fit(&run, 1e30));
}

AROUND_TESTS(cli_open, cli_close)
