/* Sections of an ini with free keys: what is read (and in tests/refusals.txt what is refused), what
 * is written, checked against names, and swept. */
#define _XOPEN_SOURCE 700

#include "tests/support/cli.h"
#include "tests/support/param_read.h"

static void accept_all(struct fixture *f, const char *text, const char *const *override) {
    FAIL_IF(read_text(f, text, override), "refused: %s", f->err.text);
}

static void check_factor(const struct factor *factor, const char *name, double number,
                         double power) {
    assert_string_equal(factor->name, name);
    assert_memory_equal(&factor->factor, &number, sizeof number);
    assert_memory_equal(&factor->power, &power, sizeof power);
}

TEST(test_factors_are_read) {
    static const STRUCT(const char *text; double factor, power) table[] =
        LIST({"3", 3, 0}, {"0.5", 0.5, 0}, {"+2e3", 2000, 0}, {"0", 0, 0}, {"-0", 0, 0},
             {"3 N^-0.5", 3, -0.5}, {"3N^-0.5", 3, -0.5}, {"3\tN\t^ -.5", 3, -0.5},
             {"0.25 N^1", 0.25, 1}, {"N", 1, 1}, {"N^0.5", 1, 0.5}, {"N ^ 0.5", 1, 0.5},
             {"3 N", 3, 1}, {"3N", 3, 1}, {"0 N^2", 0, 2}, {"2 N^0", 2, 0},
             {"0x1p-2 N^0x1p1", 0.25, 2}, {"1e-320 N^+1e0", 1e-320, 1});
    for (size_t i = 0; i < COUNT(table); i++) {
        FREED(fixture_free) struct fixture f;
        TEXT(text, 64, "[init]\n  W_out =  %s \r\n", table[i].text);
        accept(&f, text, NULL);
        assert_int_equal(f.config.rates.count, 0);
        assert_int_equal(f.config.init.count, 1);
        check_factor(f.config.init.factor, "W_out", table[i].factor, table[i].power);
    }
}

/* A key that is unused is accepted at its default; one of the file that a key of the command line
 * leaves without effect is left out; 1e3 is an integer. */
TEST(test_unused_keys_are_left_out) {
    FREED(fixture_free) struct fixture f;
    accept(&f, "[network]\nexperts = 4.0\ngate = sigmoid\n",
           NULL); /* the default, in other words */
    assert_int_equal(f.config.network.experts, 4);
    params_free(&f.params);
    /* of a base as of an ini, and not of the command line */
    accept_all(
        &f, "",
        ARGS("--base.network.gate=sigmoid", "--base.network.shape=smooth", "--network.gate=none"));
    assert_int_equal(f.config.network.shape, 0);
    params_free(&f.params);
    /* which it goes under, in whatever order they stand */
    accept_all(&f, "", ARGS("--network.experts=2", "--base.network.experts=3"));
    assert_int_equal(f.config.network.experts, 2);
    params_free(&f.params);
    assert_int_equal(read_text(&f, "", ARGS("--network.shape=smooth", "--network.gate=none")),
                     CODE_INPUT);
    params_free(&f.params);
    accept_all(&f, "[network]\nshape = hard\nexperts = 2\n",
               ARGS("--network.gate=sigmoid", "--run.steps=1e3"));
    assert_int_equal(f.config.run.steps, 1000);
    assert_int_equal(f.config.network.experts, 4); /* the default: unused */
}

/* Powers of other things than N, in any order, each once. */
TEST(test_other_powers_are_read) {
    FREED(fixture_free) struct fixture f;
    accept(&f, "[init]\nQ = 3 rho^0.5 N^-1 N_e^2 D\nR = kappa\n", NULL);
    const struct factor *Q = &f.config.init.factor[0], *R = &f.config.init.factor[1];
    check_factor(Q, "Q", 3, -1);
    check_factor(R, "R", 1, 0);
    const double q[FACTOR_QUANTITIES] = {0.5, 0, 0, 0, 2, 0, 1},
                 r[FACTOR_QUANTITIES] = {0, 1, 0, 0, 0, 0, 0};
    for (int k = 0; k < FACTOR_QUANTITIES; k++)
        assert_true(Q->powers[k] == q[k] && R->powers[k] == r[k]);
}

/* Sections apart, names in order; the command line over the file, its last word over earlier. */
TEST(test_lists_and_overrides) {
    FREED(fixture_free) struct fixture f;
    accept_all(&f, "[init]\nQ = 2\n[rates]\nW_out = 3 N\nQ = 0\n[init]\nW.1-b = 4\n",
               ARGS("--rates.Q=5 N^2", "rates.Q=6", "--init.A=7", "--run.seed=2"));
    assert_int_equal(f.config.rates.count, 2);
    check_factor(&f.config.rates.factor[0], "Q", 6, 0);
    check_factor(&f.config.rates.factor[1], "W_out", 3, 1);
    assert_int_equal(f.config.init.count, 3);
    check_factor(&f.config.init.factor[0], "A", 7, 0);
    check_factor(&f.config.init.factor[1], "Q", 2, 0);
    check_factor(&f.config.init.factor[2], "W.1-b", 4, 0);
    const struct param_value *value = params_find(&f.params, "rates", "W_out");
    assert_true(value && value->line == 6);
    assert_string_equal(value->text, "3 N");
    assert_int_equal(params_find(&f.params, "rates", "Q")->line, ON_COMMAND_LINE);
    assert_int_equal(params_find(&f.params, "init", "Q")->line, 4);
    assert_null(params_find(&f.params, "rates", "A"));
    assert_int_equal(params_error(&f.params, "rates", "W_out", &f.err, "too fast"), CODE_INPUT);
    assert_string_equal(strchr(f.err.text, ':'), ":6: [rates] W_out = 3 N: too fast");
    params_free(&f.params);
    params_free(&f.params);
    accept(&f, "[rates]\n", NULL);
    assert_true(f.config.rates.count == 0 && f.config.init.count == 0);
}

TEST(test_a_list_of_any_length) {
    enum { KEYS = 700 };
    FREED(fixture_free) struct fixture f;
    char text[32 * KEYS] = "[rates]\n", *end = text + strlen(text);
    for (int k = 0; k < KEYS; k++) /* 3 is prime to KEYS: all, out of order */
        end += sprintf(end, "W%03d = %d N^-1\n", 3 * k % KEYS, 3 * k % KEYS);
    accept(&f, text, NULL);
    assert_int_equal(f.config.rates.count, KEYS);
    for (int k = 0; k < KEYS; k++) {
        TEXT(name, 16, "W%03d", k);
        check_factor(&f.config.rates.factor[k], name, k, -1);
    }
}

/* The same set in any order is the same text, and reads back as the same numbers. */
TEST(test_written_factors_read_back) {
    FREED(fixture_free) struct fixture f, g;
    FREED(base_free) char *text, *again;
    size_t size;
    accept_all(&f, "[rates]\nQ = 0.1\nW_in = 3  N ^-0.5\n[init]\nQ = 0\n", ARGS("--init.B=N"));
    assert_int_equal(params_text(&f.params, &text, &size, &failure), CODE_OK);
    assert_non_null(strstr(text, "\n[rates]\n# Lines NAME = a factor, a number of at least 0"));
    assert_non_null(strstr(text, "\nQ = 0.1\nW_in = 3  N ^-0.5\n"));
    assert_non_null(strstr(text, "\nB = N\nQ = 0\n"));
    accept(&g, strstr(text, "\n[network]"), NULL);
    assert_int_equal(g.config.rates.count, 2);
    check_factor(&g.config.rates.factor[0], "Q", 0.1, 0);
    check_factor(&g.config.rates.factor[1], "W_in", 3, -0.5);
    assert_int_equal(g.config.init.count, 2);
    check_factor(&g.config.init.factor[0], "B", 1, 1);
    params_free(&g.params);
    accept(&g, "[init]\nQ = 0\nB = N\n[rates]\nW_in = 3  N ^-0.5\nQ = 0.1\n", NULL);
    assert_int_equal(params_text(&g.params, &again, &size, &failure), CODE_OK);
    assert_string_equal(text, again);
}

TEST(test_names_are_checked) {
    static const char *const names[] = {"W_in", "W_out", "Q"};
    FREED(fixture_free) struct fixture f;
    accept_all(&f, "[rates]\nQ = 3\nW_uot = 2 N\n[init]\nkappa = 1\n", ARGS("--init.W_in=1"));
    assert_int_equal(params_check_names(&f.params, "rates", names, 3, &f.err), CODE_INPUT);
    assert_string_equal(strchr(f.err.text, ':'),
                        ":5: [rates] W_uot = 2 N: unknown name; did you mean \"W_out\"? "
                        "(this network has W_in W_out Q)");
    assert_int_equal(params_check_names(&f.params, "init", names, 3, &f.err), CODE_INPUT);
    assert_string_equal(strchr(f.err.text, ':'),
                        ":7: [init] kappa = 1: unknown name (this network has "
                        "W_in W_out Q)");
    params_free(&f.params);
    accept_all(&f, "[rates]\nQ = 3\nW_out = 2 N\n", ARGS("--init.W_ni=1"));
    assert_int_equal(params_check_names(&f.params, "rates", names, 3, &f.err), CODE_OK);
    assert_int_equal(params_check_names(&f.params, "init", names, 3, &f.err), CODE_INPUT);
    assert_string_equal(f.err.text, "--init.W_ni=1: unknown name; did you mean \"W_in\"? (this "
                                    "network has W_in W_out Q)");
    assert_int_equal(params_check_names(&f.params, "init", names, 0, &f.err), CODE_INPUT);
    assert_non_null(strstr(f.err.text, "(this network has none)"));
    assert_int_equal(params_check_names(&f.params, "nowhere", names, 0, &f.err), CODE_OK);
}

TEST(test_help_and_defaults) {
    FREED(base_free) char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    params_help(table_sections, TABLE_COUNT, out);
    params_defaults(table_sections, TABLE_COUNT, out);
    fclose(out);
    assert_non_null(
        strstr(text, "\n  rates.NAME                 Rates by name. [a factor, a number"));
    assert_non_null(strstr(text, "\n# Scales by name.\n[init]\n# Lines NAME = a factor, a number"));
}

/* --- the programs ---------------------------------------------------------------------------- */

static void check_attribute(const char *name, const char *attribute, const char *want) {
    FREED(close_file) hid_t file = cli_file(name);
    FREED(base_free) char *text = cli_text(file, "parameters", attribute);
    assert_string_equal(text, want);
}

/* Both kinds of lines; every run has the values of its point. */
CLEAN_TEST(test_sweeps_vary_them) {
    static const char *const rate[] = {"0.5", "1", "2"}, *const init[] = {"0.5", "1 N^0.5"};
    char name[64];
    size_t count;
    cli_print("sweep.ini", "[network]\nmodel = regime2\n[data]\ninputs = 3\n[training]\nsteps = 3\n"
                           "[solver]\nthreads = 1\nreplicates = 0\n[reference]\nwidths = 8\n"
                           "seeds = 2\n[sweep]\nrates.Q = logspace(0.5, 2, 3)\n"
                           "init.W_out = 0.5 | 1 N^0.5\n");
    cli_done("dmft-sweep", ARGS("--quiet", "-o", "out.h5", "sweep.ini"));
    hid_t file = cli_file("out.h5");
    FREED(base_free)
    char *dims = cli_text(file, "sweep/loss", "dims"), *scale = cli_words(file, "sweep/init.W_out");
    char *files = cli_words(file, "sweep/file"), *rest = files;
    FREED(base_free) double *values = cli_values(file, "sweep/rates.Q", &count);
    H5Fclose(file);
    assert_string_equal(dims, "rates.Q init.W_out N");
    assert_string_equal(scale, "0.5\n1 N^0.5\n");
    assert_true(count == 3 && values[0] == 0.5 && values[1] == 1 && values[2] == 2);
    for (int point = 0; point < 6; point++, rest += strlen("0123456789abcdef.h5\n")) {
        snprintf(name, sizeof name, "out.d/%.19s", rest);
        check_attribute(name, "rates.Q", rate[point / 2]);
        check_attribute(name, "init.W_out", init[point % 2]);
    }
    assert_int_equal(*rest, 0);
    free(files);
}

AROUND_TESTS(cli_open, cli_close)
