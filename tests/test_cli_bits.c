/* The program from outside: what changes no bit of a run, and what a profile tells of it. */
#define _GNU_SOURCE
#include "tests/support/cli.h"
#include "tests/support/support.h"

static void assert_same(const char *first, const char *second) {
    static const char *const sets[] =
        LIST("limit/loss", "limit/f", "limit/loss_se", "limit/Phi1_diag", "limit/Gphi_diag",
             "limit/rank", "limit/gate_top", "limit/n", "reference/N0016/f", "reference/N0016/loss",
             "data/X", "data/y", "limit/Gb_diag", "reference/N0016/f_se");
    size_t failures = 0;
    for (size_t i = 0; i < COUNT(sets); i++)
        failures += !cli_same(first, second, sets[i]);
    assert_int_equal(failures, 0);
}

CLEAN_TEST(test_threads_and_backends) {
    static const char *const threads[] = {"--solver.threads=1", "--solver.threads=2",
                                          "--solver.threads=3"};
    /* several blocks of sites, and with three threads more of them than replicates */
    const char *sites = "--solver.sites=520", *experts = "--solver.expert_sites=264";
    const char *widths = "--reference.widths=16", *seeds = "--reference.seeds=3";
    cli_solve_as("one.h5", ARGS(sites, experts, widths, seeds, threads[0]));
    for (size_t i = 1; i < COUNT(threads); i++) {
        cli_solve_as("other.h5", ARGS(sites, experts, widths, seeds, threads[i]));
        assert_same("one.h5", "other.h5");
        assert_true(cli_same("one.h5", "other.h5", "limit/loss_runs"));
    }
    cli_solve_as("other.h5",
                 ARGS(sites, experts, widths, seeds, threads[1], "--solver.backend=shadow"));
    assert_same("one.h5", "other.h5");
}

/* What an interrupted or diverged run has cost is told too. */
CLEAN_TEST(test_profile_of_a_failure) {
    FREED(cli_free) struct cli_result result;
    cli_run(&result, ARGS("-o", "out.h5", "--quiet", "--profile", "--training.eta0=1e6",
                          "--training.steps=50", "small.ini"));
    assert_int_equal(result.code, 3);
    assert_non_null(strstr(result.err, "\nshares:"));
    assert_non_null(strstr(result.err, "exceeds 1e+06 times that of the start"));
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

/* Rows of a profile, between its heading and the others, have falling shares of the time, which
 * stand before the four last columns. With those of the two lines below, which end with them, they
 * are all of it, to the decimal that is printed. */
static void check_order(const char *profile) {
    const char *line = strchr(strstr(profile, "\nplace ") + 1, '\n') + 1;
    double before = 100.05, sum = 0;
    int rows = 0;
    for (; strncmp(line, "other rows", 10) != 0; line = strchr(line, '\n') + 1, rows++) {
        const char *word[5], *end = strchr(line, '\n');
        for (int k = 0; k < 5; k++) {
            while (end[-1] == ' ')
                end--;
            while (end[-1] != ' ')
                end--;
            word[k] = end;
        }
        assert_true(atof(word[4]) <= before);
        before = atof(word[4]);
        sum += before;
    }
    assert_true(rows > 0); /* one, where another program delays it */
    for (int k = 0; k < 2; k++, line = strchr(line, '\n') + 1)
        sum += atof(strrchr(strndupa(line, strcspn(line, "\n")), ' '));
    CHECK_ABS(sum, 100, 0.05 * (rows + 2) + 1e-9, "shares of the time");
}

/* The floor times what the run takes of it is the time of the run, to the digits that are printed;
 * operations are a part of the run. */
static void check_floor(const char *profile) {
    const char *line = strstr(profile, "\nfloor: "), *took, *whole;
    assert_non_null(line);
    assert_non_null(took = strstr(line, "operations took "));
    assert_non_null(whole = strstr(line, "the whole run "));
    double seconds = atof(strstr(profile, "profile: ") + strlen("profile: ")),
           floor = atof(line + strlen("\nfloor: ")), run = atof(whole + strlen("the whole run "));
    assert_true(floor > 0 && run > atof(took + strlen("operations took ")));
    CHECK_ABS(floor * run, seconds, 0.0005 + 0.005 * floor + 0.005 * seconds, "the whole run");
}

/* A profile changes nothing; calls are counted; its shares are all of the time. */
CLEAN_TEST(test_profile) {
    FREED(cli_free) struct cli_result result;
    cli_solve_as("one.h5", ARGS("--reference.widths=16"));
    cli_run(&result, ARGS("-o", "other.h5", "--force", "--quiet", "--profile", "small.ini",
                          "--reference.widths=16"));
    assert_int_equal(result.code, 0);
    assert_same("one.h5", "other.h5");
    assert_non_null(strstr(result.err, "profile: "));
    assert_non_null(strstr(result.err, " orthonormalisation ")); /* its rows may be below 0.5 % */
    check_calls(result.err);
    check_order(result.err);
    check_floor(result.err);
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
}

CLEAN_TEST(test_fewer_steps_are_a_beginning) {
    cli_solve_as("one.h5", ARGS("--training.steps=6", "--reference.widths=16"));
    cli_solve_as("other.h5", ARGS("--training.steps=12", "--reference.widths=16"));
    assert_same("one.h5", "other.h5");
}

/* With sections of free keys. */
CLEAN_TEST(test_ini_of_a_file_repeats_it) {
    cli_solve_as("one.h5",
                 ARGS("--network.gate=softmax", "--network.rho=0.5",
                      "--solver.seed=18446744073709551615", "--training.eta0=0.1234567890123456",
                      "--reference.widths=16", "--reference.draws=balanced",
                      "--reference.centre=no", "--training.loss=logistic", "--rates.Q=2.0",
                      "--init.W_out=3 N^0", "--init.Q=0.5"));
    hid_t file = cli_file("one.h5");
    FREED(base_free)
    char *ini = cli_text(file, "parameters", "ini"),
         *rate = cli_text(file, "parameters", "rates.Q"),
         *scale = cli_text(file, "parameters", "init.W_out");
    H5Fclose(file);
    assert_string_equal(rate, "2.0");
    assert_string_equal(scale, "3 N^0");
    assert_non_null(strstr(ini, "\nQ = 0.5\nW_out = 3 N^0\n"));
    cli_print("again.ini", ini);
    cli_done("dmft-solve", ARGS("--quiet", "again.ini"));
    assert_same("one.h5", "again.h5");
    file = cli_file("again.h5");
    FREED(base_free) char *again = cli_text(file, "parameters", "ini");
    assert_string_equal(ini, again);
    H5Fclose(file);
}

AROUND_TESTS(cli_open, cli_close)
