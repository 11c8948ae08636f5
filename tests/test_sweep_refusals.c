/* The lines of [sweep] and the command line of dmft-sweep: what is refused and with which words. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/sweep_ini.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void check_refused(const char *sweep, const char *const *part) {
    struct cli_result result;
    sweep_ini(sweep);
    cli_run(&result, ARGS("-o", "out.h5", "case.ini"));
    if (!cli_ended(&result, 2, part) || cli_exists("out.d"))
        fail_msg("%s", sweep);
    cli_free(&result);
}

static void test_lists_of_points_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *sweep, *part[4];
    } table[] = {
        {"a.x, b.y = 1 2 | 3\n",
         {"case.ini:18: [sweep] a.x,b.y: point 2, \"3\", has 1 value, and it must have one for "
          "each "
          "of the 2 keys; blanks (or, for values with blanks, commas) separate values, | points"}},
        {"a.x, b.y = 1 2 3\n", {"point 1, \"1 2 3\", has 3 values", "each of the 2 keys"}},
        {"a.x, b.y = 1 2, 3 | 4\n", {"point 2, \"4\", has 1 value", "commas separate values"}},
        {"a.x, b.y = 1, 2, 3\n", {"point 1, \"1, 2, 3\", has 3 values"}},
        {"a.x, b.y = 1 2 | | 3 4\n", {":18: [sweep] a.x,b.y: point 2 is empty", "of the 2 keys"}},
        {"a.x, b.y = 1 2 || 3 4\n", {"point 2 is empty"}},
        {"a.x, b.y = | 1 2\n", {"point 1 is empty"}},
        {"a.x, b.y = 1 2 |\n", {"point 2 is empty; | stands between points"}},
        {"a.x, b.y = |\n", {"point 1 is empty"}},
        {"a.x, b.y =\n", {":18: [sweep] a.x,b.y: no points; they are separated by |"}},
        {"a.x, b.y = 1, | 2, 3\n", {"point 1 has no value for b.y; each has one value for each"}},
        {"a.x, b.y = 1, 2 | , 3\n", {"point 2 has no value for a.x"}},
        {"a.x, b.y = 1 2 | 2 3 | 1 2\n", {"point \"1 2\" comes twice; each is given once"}},
        {"a.x, b.y = 1 u | 1.0 v | 1e0 u\n", {"point \"1e0 u\" comes twice"}},
        {"a.x, b.y = 1 2, 3 | 1 2, 3\n", {"point \"1 2, 3\" comes twice"}},
        {"a.x, b.y = logspace(1, 2, 3)\n",
         {"logspace(first, last, n) makes values of one key", "each with 2 values"}},
        {"a.x, b.y = 1 linspace | 2 3\n", {"linspace(first, last, n) makes values of one key"}},
        {"a.x, a.x = 1 2\n", {"duplicate key a.x, given before in this line, 18; each is given"}},
        {"a.x, b.y = 1 2\nb.y = 3\n",
         {":19: [sweep] b.y: duplicate key b.y, given before in line 18"}},
        {"b.y = 3\na.x, b.y = 1 2\n",
         {":19: [sweep] a.x,b.y: duplicate key b.y, given before in l"}},
        {"a.x, b.y = 3 N^-0.5 | 2 4\n",
         {"would cut a factor from its power", "commas between the values of a point"}},
        {"a.x, = 1 2\n", {":18: [sweep] a.x,: a key is missing", "section.key, section.key"}},
        {", a.x = 1 2\n", {"a key is missing"}},
        {"a.x,,b.y = 1 2\n", {"a key is missing"}},
        {" = 1 2\n", {"a key is missing"}},
        {"a.x, y = 1 2\n", {"\"y\" is not a key to vary, which is written section.key"}},
        {"a.x b.y = 1 2\n",
         {"a key has no blanks, as \"a.x b.y\" has", "are written section.key, section"}},
        {"a.x, reference.widths = 1 2\n", {"it cannot vary reference.widths"}},
        {"a.x = 1 | | 2\n", {"value 2 is empty; | stands between values", "none is an empty list"}},
        {"a.x = 1 | 2 |\n", {"value 3 is empty"}},
        {"a.x = |\n", {"value 1 is empty"}},
        {"a.x =\n", {"no values; they are a list, logspace(first, last, n) or linspace(first,"}},
        {"a.x = 0.5 1 N^0.5\n",
         {"cut a factor from its power; write it without blanks, as 3N^-0.5, or | between"}},
        {"a.x = 0.5 N\n", {"would cut a factor from its power"}},
        {"a.x = N ^ 0.5 2\n", {"would cut a factor from its power"}},
        {"a.x = 2 N^ 0.5\n", {"would cut a factor from its power"}},
        {"a.x = 3N^ 0.5\n", {"would cut a factor from its power"}},
        {"a.x, b.y = 1 N^0.5 | 2 N^0.5\n", {"as 3N^-0.5, or commas between the values of a point"}},
    };
    for (size_t i = 0; i < COUNT(table); i++)
        check_refused(table[i].sweep, table[i].part);
}

/* A line more than an array can have axes, and points more than anybody can run. */
static void test_too_much_is_refused(void **state) {
    (void)state;
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

/* What is wrong with a value of a list is told with its line. */
static void test_values_are_checked_by_their_rows(void **state) {
    (void)state;
    static const struct {
        const char *sweep, *arg, *part[3];
    } table[] = {
        {"training.eta0, network.kappa = 1 0.5 | 2 fast\n",
         NULL,
         {"case.ini:18: [sweep] network.kappa=fast: not a number"}},
        {"solver.seed = 1 2\ntraining.etaO, network.kappa = 1 0.5\n",
         NULL,
         {"case.ini:19: [sweep] training.etaO=1: unknown key", "did you mean \"eta0\"?"}},
        {"training.eta0, network.rho = 1 0.25 | 2 0.3\n",
         NULL,
         {"case.ini:18: [sweep] network.rho=0.3: ", "whole number"}},
        {"training.eta0, network.kappa = 1 0.5\n",
         "--network.kappa=0.25",
         {"--network.kappa=0.25: [sweep] varies this key"}},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct cli_result result;
        sweep_ini(table[i].sweep);
        cli_run(&result, ARGS("-o", "out.h5", "case.ini", table[i].arg));
        if (!cli_ended(&result, 2, table[i].part) || cli_exists("out.h5") || cli_exists("out.d"))
            fail_msg("case %zu: %s", i, table[i].sweep);
        cli_free(&result);
    }
}

static void test_bad_sections_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *sweep, *arg[3], *part[3];
    } table[] = {
        {"", {0}, {"case.ini: [sweep] has no keys", "dmft-solve"}},
        {"training.eta0\n", {0}, {"case.ini:18: [sweep] \"training.eta0\" has no \"=\""}},
        {"eta0 = 1 2\n", {0}, {"case.ini:18: [sweep] eta0: \"eta0\" is not a key to vary"}},
        {"training.eta0 =\n", {0}, {"case.ini:18: [sweep] training.eta0: no values"}},
        {"training.eta0 = 1 0.5 2\n",
         {0},
         {"values must increase or decrease, each once, but 2 follows 0.5"}},
        {"network.gate = softmax softmax\n", {0}, {"value \"softmax\" comes twice"}},
        {"training.eta0 = logspace(1, 2)\n", {0}, {"must be logspace(first, last, n)"}},
        {"training.eta0 = linspace(1, 2, 3) 4\n", {0}, {"must be linspace(first, last, n)"}},
        {"training.eta0 = logspace(2, 1, 3)\n", {0}, {"first < last and 2 to"}},
        {"training.eta0 = linspace(1, 2, 1)\n", {0}, {"first < last and 2 to"}},
        {"training.eta0 = logspace(-1, 2, 3)\n", {0}, {"must be positive"}},
        {"training.eta0 = 1 2\ntraining.eta0 = 3\n", {0}, {":19:", "given before in line 18"}},
        {"reference.widths = 4 8\n", {0}, {"it cannot vary"}},
        {"solver.replicates = 4 8\n", {0}, {"it cannot vary"}},
        {"output.checkpoint = 4 8\n",
         {0},
         {"changes no number, so that all its values are one run"}},
        {"training.etaO = 1 2\n",
         {0},
         {"case.ini:18: [sweep] training.etaO=1: unknown key", "\"eta0\"?"}},
        {"trainin.eta0 = 1 2\n", {0}, {"case.ini:18: [sweep] trainin.eta0=1: unknown section"}},
        {"training.eta0 = 1 fast\n", {0}, {"case.ini:18: [sweep] training.eta0=fast: not a num"}},
        {"network.rho = 0.3 0.5\n", {0}, {"case.ini:18: [sweep] network.rho=0.3", "whole number"}},
        {"network.activation = tanh linear\n[network]\nrho = 0.3\n",
         {0},
         {"case.ini:20: [network] rho = 0.3", "(at network.activation = tanh, N = 8)"}},
        {"training.eta0 = \001\n", {0}, {"case.ini:18: a control character"}},
        {"training.eta0 = 1 2\n",
         {"--training.eta0=3"},
         {"--training.eta0=3: [sweep] varies this key"}},
        {"rates.W_Q_0_1 = 1 2\n",
         {"--network.model=transformer", "--network.heads=2", "--network.kappa=1"},
         {"case.ini:18: [sweep] rates.W_Q_0_1=1: ", "networks that the limit has as one"}},
        {"training.eta0 = 1 2\n",
         {"--reference.widths=", "--solver.replicates=0"},
         {"there must be [reference] widths"}},
        {"network.model = dense resnet\n",
         {0},
         {"case.ini: [network] kappa: no point of [sweep] uses this key; take it out"}},
        {"training.optimizer = gd adam\n[training]\nmomentum = 0.5\n",
         {0},
         {"case.ini: [training] momentum: no point of [sweep] uses this key"}},
        {"training.optimizer = gd adam\n",
         {"--training.momentum=0.5"},
         {"case.ini: [training] momentum: no point of [sweep] uses this key"}},
        {"training.eta0 = 1 2\n", {"--jobs", "none"}, {"--jobs none: must be an integer, 1 to"}},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct cli_result result;
        sweep_ini(table[i].sweep);
        const char *const *arg = table[i].arg;
        cli_run(&result, ARGS("-o", "out.h5", "case.ini", arg[0], arg[1], arg[2]));
        const char *part[] = {table[i].part[0], table[i].part[1], NULL};
        if (!cli_ended(&result, 2, part) || cli_exists("out.h5") || cli_exists("out.d"))
            fail_msg("case %zu: %s", i, table[i].sweep);
        cli_free(&result);
    }
}

static void test_each_program_names_the_other(void **state) {
    (void)state;
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
static void test_directions_are_checked(void **state) {
    (void)state;
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

/* Lines of [sweep] on the command line: no number of a line stands in the sentence. */
static void test_lines_of_the_command_line_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *sweep, *word[2], *part[2];
    } table[] = {
        {"training.eta0 = 1\n", {"--sweep.training.eta1=1"}, {"unknown key", "eta0"}},
        {"", {"--sweep.training.eta0=1 x"}, {"--sweep.training.eta0=x: not a number"}},
        {"", {"--sweep.training.eta0="}, {"--sweep.training.eta0: no values"}},
        {"training.eta0 = 1\n",
         {"--sweep.training.eta0,training.gamma0=1 2"},
         {"--sweep.training.eta0,training.gamma0: duplicate key training.eta0, given before in "
          "line 18"}},
        {"training.eta0 = 1\n", {"--sweep.along="}, {"--sweep.along: has no value"}},
        {"training.eta0 = 1\n",
         {"--sweep.training.eta0=2", "--training.eta0=2"},
         {"--training.eta0=2: [sweep] varies this key"}},
        {"", {NULL}, {"[sweep] has no keys, and there is no --sweep.section.key=VALUES"}},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        sweep_ini(table[i].sweep);
        cli_refused(2, ARGS("-o", "out.h5", "case.ini", table[i].word[0], table[i].word[1]),
                    (const char *const[]){table[i].part[0], table[i].part[1], NULL});
        assert_false(cli_exists("out.d"));
    }
}

/* A value that is the default goes with every network, whatever keys this has; a key that is given
 * twice is told in the file. */
static void test_defaults_go_with_every_network(void **state) {
    (void)state;
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
static void test_input_output_errors_of_an_ini(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_lists_of_points_are_refused),           TEST(test_too_much_is_refused),
        TEST(test_values_are_checked_by_their_rows),      TEST(test_bad_sections_are_refused),
        TEST(test_each_program_names_the_other),          TEST(test_directions_are_checked),
        TEST(test_lines_of_the_command_line_are_refused), TEST(test_input_output_errors_of_an_ini),
        TEST(test_defaults_go_with_every_network),
    };
    return cmocka_run_group_tests(tests, cli_open_sweep, cli_close);
}
