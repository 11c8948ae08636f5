/* The lines of [sweep] and the command line of dmft-sweep: what is refused that is not a line of
 * tests/refusals.txt. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/sweep_ini.h"

#include <errno.h>

static void check_refused(const char *sweep, const char *const *part) {
    struct cli_result result;
    sweep_ini(sweep);
    cli_run(&result, ARGS("-o", "out.h5", "case.ini"));
    if (!cli_ended(&result, 2, part) || cli_exists("out.d"))
        fail_msg("%s", sweep);
    cli_free(&result);
}

/* A line more than an array can have axes, and points more than anybody can run. */
CLEAN_TEST(test_too_much_is_refused) {
    char text[2048] = "";
    for (int k = 0; k <= 30; k++)
        sprintf(text + strlen(text), "a.k%d = 1\n", k);
    check_refused(text, ARGS("case.ini:48: [sweep] a.k30: a sweep has at most 30 lines",
                             "keys that vary together can share one"));
    check_refused("a.x = linspace(0, 1, 10000)\na.y = linspace(1, 2, 11)\n",
                  ARGS(":19: [sweep] a.y: more than 100000 points in all; try fewer values"));
    check_refused("a.x = linspace(0, 1, 10001)\n", ARGS("2 to 10000 values"));
    check_refused("a.x = linspace(0, 1, 4294967299)\n", ARGS("2 to 10000 values")); /* 2^32 + 3 */
    check_refused("a.x = linspace(0, 1, 2.5)\n", ARGS("2 to 10000 values"));
    check_refused("a.x = 1 18446744073709551615 18446744073709551614\n",
                  ARGS("values must increase or decrease, each once, but 18446744073709551614 "
                       "follows"));
}

CLEAN_TEST(test_each_program_names_the_other) {
    sweep_ini("training.eta0 = 1 2\n");
    cli_refused(2, ARGS("small.ini"), ARGS("small.ini: there is no section [sweep]", "dmft-solve"));
    cli_refused(2, ARGS("none.ini"), ARGS("none.ini: cannot be opened"));
    cli_refused(2, ARGS(NULL), ARGS("which ini file?"));
    cli_refused(2, ARGS("."), ARGS(".: is a folder, not a file"));
    cli_refused(2, ARGS("--optimum", "out.h5", "case.ini"),
                ARGS("--optimum takes a sweep that is done, and no ini or keys"));
    cli_refused(2, ARGS("--optimum", "out.h5", "--training.eta0=1"), ARGS("and no ini or keys"));
    cli_refused(2, ARGS("--points", "case.ini", "-o", "out.h5"), ARGS("it takes no -o"));
    cli_program("dmft-solve");
    cli_refused(2, ARGS("-o", "out.h5", "case.ini"),
                ARGS("case.ini:17: [sweep]: a sweep over values of keys is run by dmft-sweep"));
    cli_program("dmft-sweep");
}

/* What depends on the directions of the inputs is checked before anything runs, of each unit: Adam
 * takes all coordinates for directions. */
CLEAN_TEST(test_directions_are_checked) {
    sweep_ini("training.eta0 = 0.1 0.2\n");
    cli_refused(2,
                ARGS("-o", "out.h5", "case.ini", "--data.inputs=8", "--data.dimension=10",
                     "--reference.draws=balanced", "--reference.widths=4 16"),
                ARGS("balanced draws over 8 input directions need N >= 9", "N = 4"));
    sweep_ini("training.optimizer = gd adam\n");
    cli_refused(
        2, ARGS("-o", "out.h5", "case.ini", "--data.dimension=10", "--reference.draws=balanced"),
        ARGS("balanced draws over 10 input directions need N >= 11", "adam", "N = 8"));
    assert_false(cli_exists("out.d"));
}

/* A value that is the default goes with every network, whatever keys this has; a key that is given
 * twice is told in the file. */
CLEAN_TEST(test_defaults_go_with_every_network) {
    struct cli_result result;
    sweep_ini("network.bias = none\n");
    const char *const dense[] = {
        "-o", "out.h5", "case.ini", "--network.model=dense", "--network.bias=fixed", NULL};
    cli_refused(2, dense, ARGS("--network.bias=fixed: [sweep] varies this key"));
    cli_run(&result, ARGS("-o", "out.h5", "case.ini", "--network.model=dense", "--data.inputs=4",
                          "--data.inputs=2"));
    if (result.code)
        fail_msg("%s", result.err);
    cli_free(&result);
    hid_t file = cli_file("out.h5");
    char *notes = cli_words(file, "notes/text");
    assert_non_null(strstr(notes, "the last value counts: data.inputs=2\n"));
    assert_null(strstr(notes, "leave out"));
    free(notes);
    H5Fclose(file);
    cli_clean(NULL);
    cli_refused(2,
                ARGS("-o", "out.h5", "case.ini", "--network.model=dense",
                     "--sweep.network.bias=none fixed"),
                ARGS("network.bias=fixed: model = dense does not use it"));
}

/* Opening its own memory succeeds, reading at its beginning is an input/output error. */
CLEAN_TEST(test_input_output_errors_of_an_ini) {
    static const char *const programs[] = {"dmft-solve", "dmft-compare", "dmft-sweep"};
    for (size_t i = 0; i < COUNT(programs); i++) {
        cli_program(programs[i]);
        cli_refused(1, ARGS("-o", "out.h5", "/proc/self/mem"),
                    ARGS("/proc/self/mem: cannot be read: Input/output error"));
    }
    assert_int_equal(base_file_code(EIO), CODE_SYSTEM);
    assert_int_equal(base_file_code(EMFILE), CODE_SYSTEM);
    assert_int_equal(base_file_code(ENOENT), CODE_INPUT);
}

AROUND_TESTS(cli_open_sweep, cli_close)
