/* A result that cannot be read, or not be closed, for a moment: the n-th call of a program that
 * reads one fails, some of them in make test, every one with the argument long (minutes). */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long most = 40; /* calls that fail in turn; 0: every one */

static const char sweep[] =
    "[network]\nmodel = regime1\nexperts = 2\nq0 = 1\n[data]\ninputs = 2\ndimension = 3\n"
    "[training]\nsteps = 2\n[solver]\nsites = 8\nreplicates = 2\nthreads = 1\n"
    "[reference]\nwidths = 4 8\nseeds = 2\n[sweep]\ntraining.eta0 = 0.25 99\n";

/* The summary of a sweep whose runs are all there, once more, while the n-th call of this kind
 * fails: how many are wrong. */
static int summary_fails(const char *kind) {
    static const char *const again[] = {"--quiet", "--force", "--jobs",   "1",
                                        "-o",      "out.h5",  "read.ini", NULL};
    struct cli_result result;
    char fault[64];
    int bad = 0;
    snprintf(fault, sizeof fault, "%s 0", kind);
    setenv("DMFT_FAULT", fault, 1);
    cli_run(&result, again);
    assert_int_equal(result.code, 0);
    cli_free(&result);
    char *count = cli_read("count", NULL);
    long calls = atol(count), number = most && most < calls ? most : calls;
    free(count);
    assert_true(calls > 20 && !rename("out.h5", "whole.h5"));
    for (long k = 0; k < number; k++) {
        snprintf(fault, sizeof fault, "%s %ld", kind, 1 + k * (calls - 1) / (number - 1));
        setenv("DMFT_FAULT", fault, 1);
        cli_run(&result, again);
        if (result.code ? !cli_ended(&result, 1, ARGS("out.")) : !cli_exists("out.h5")) {
            print_error("%s: exit code %d: %s\n", fault, result.code, result.err);
            bad++;
        } else if (!result.code) {
            cli_same_files("whole.h5", "out.h5", fault, 4);
        }
        cli_free(&result);
    }
    print_message("dmft-sweep: %ld of %ld calls of %s\n", number, calls, kind);
    return bad;
}

/* It is that of before, or one sentence says what could not be read: no number of a run that cannot
 * be read becomes one that it never had. Nor does HDF5 crash in the end where it could not close.
 */
static void reading_fails(void **state) {
    (void)state;
    struct cli_result result;
    cli_print("read.ini", sweep);
    setenv("DMFT_FAULT_COUNT", "count", 1);
    unsetenv("DMFT_FAULT");
    assert_int_equal(system("rm -rf out.* whole.*"), 0);
    cli_run(&result, ARGS("--quiet", "--jobs", "1", "-o", "out.h5", "read.ini"));
    assert_int_equal(result.code, 0);
    cli_free(&result);
    int bad = summary_fails("read");
    assert_int_equal(bad + summary_fails("close"), 0);
}

/* The programs that fail lie in a folder beside the others. */
static int open_all(void **state) {
    int failed = cli_open(state);
    if (!failed)
        cli_program("faults/dmft-sweep");
    return failed;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {TEST(reading_fails)};
    if (argc > 1)
        most = strcmp(argv[1], "long") ? atol(argv[1]) : 0;
    return cmocka_run_group_tests(tests, open_all, cli_close);
}
