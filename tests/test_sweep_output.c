/* What dmft-sweep replaces without --force: files of sweeps whose runs stay, and nothing else. */
#define _XOPEN_SOURCE 700
#include "tests/support/cli.h"
#include "tests/support/support.h"

#include <stdlib.h>
#include <sys/stat.h>

#define HEAD                                                                                       \
    "[network]\nmodel = dense\n[data]\ninputs = 3\ndimension = 4\n[training]\nsteps = 2\n"         \
    "[solver]\nsites = 64\nreplicates = 2\nthreads = 1\n"

static void write_ini(const char *eta0) {
    char text[512];
    snprintf(text, sizeof text, HEAD "[sweep]\ntraining.eta0 = %s\n", eta0);
    cli_print("sweep.ini", text);
}

static int clean(void **state) {
    return system("rm -rf out.d") || cli_clean(state);
}

static int open_sweep(void **state) {
    int code = cli_open(state);
    if (!code)
        cli_program("dmft-sweep");
    return code;
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
static void test_other_files_stay(void **state) {
    (void)state;
    write_ini("0.2 0.4");
    assert_int_equal(mkdir("out.d", 0777), 0);
    cli_print("out.h5", "mine");
    refuse();
    char *text = cli_read("out.h5", NULL);
    assert_string_equal(text, "mine");
    free(text);
    accept("--force");
}

static void test_results_of_other_programs_stay(void **state) {
    (void)state;
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
static void test_sweeps_whose_runs_stay_are_replaced(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_other_files_stay, clean),
        cmocka_unit_test_setup(test_results_of_other_programs_stay, clean),
        cmocka_unit_test_setup(test_sweeps_whose_runs_stay_are_replaced, clean),
    };
    return cmocka_run_group_tests(tests, open_sweep, cli_close);
}
