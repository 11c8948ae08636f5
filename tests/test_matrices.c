/* Sections [init] and [rates] as a user meets them: what names there are; sweeps and the fixed
 * point. What is refused is in tests/refusals.txt. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"

#define SIZES                                                                                      \
    "[data]\ninputs = 3\ndimension = 4\n[training]\nsteps = 4\n[solver]\nthreads = 1\n"            \
    "replicates = 1\nsites = 64\n"

/* What has no limit is trained as a network. */
CLEAN_TEST(test_networks_may_have_any_power) {
    static const char *const all[] = {"sp", "ntp", "simp"};
    cli_print("case.ini", "[network]\nmodel = regime1\n" SIZES);
    for (size_t k = 0; k < COUNT(all); k++) {
        TEXT(text, 64, "--network.parameterization=%s", all[k]);
        cli_done("dmft-solve",
                 ARGS("--quiet", "--force", "-o", "out.h5", "case.ini", text,
                      "--solver.replicates=0", "--reference.widths=8", "--reference.seeds=1",
                      "--rates.Q=N^0.1", "--init.W1=0.5 N^0.2"));
    }
}

CLEAN_TEST(test_names_are_told) {
    static const STRUCT(const char *arg[3], *line) table[] = {
        {{"regime1"},
         "[init], [rates], [eps] and [decays]: W1 Q W2_0 W2_1 w; several at once: W2\n"},
        {{"regime3"}, "[init], [rates], [eps] and [decays]: W1 Q P_in A_in P_out A_out w\n"},
        {{"regime3", "--network.parameterization=mup"}, "[eps] and [decays]: W1 Q W_in W_out w\n"},
        {{"residual", "--network.depth=1"},
         "[eps] and [decays]: W0 R_0 W1_0 W2_0 w; several at once: R\n    W1 W2\n"},
        {{"dense"}, "Keys of [network]: read_out activation depth\n"},
    };
    for (size_t k = 0; k < COUNT(table); k++) {
        FREED(cli_free) struct cli_result result;
        cli_run(&result, ARGS("--help", table[k].arg[0], table[k].arg[1]));
        assert_int_equal(result.code, 0);
        FAIL_IF(!strstr(result.out, table[k].line), "%s", result.out);
    }
    /* limits alone, the second of a network that has no experts at width 1 */
    static const char *const files[][2] = {
        {"[network]\nmodel = regime1\nexperts = 3\n" SIZES, "W1 Q W2_0 W2_1 W2_2 w"},
        {"[network]\nmodel = regime2\nkappa = 0.3\n" SIZES, "W1 Q W_in W_out w"}};
    for (size_t k = 0; k < COUNT(files); k++) {
        cli_print("case.ini", files[k][0]);
        cli_done("dmft-solve", ARGS("--quiet", "--force", "-o", "out.h5", "case.ini"));
        FREED(close_file) hid_t file = cli_file("out.h5");
        FREED(base_free) char *text = cli_text(file, "provenance", "matrices");
        assert_string_equal(text, files[k][1]);
    }
}

/* By classical mean-field theory too; lines of a file and of the command line say the same. */
CLEAN_TEST(test_fixed_point) {
    static const char *const methods[] = {"march", "fixed_point"};
    cli_print("case.ini", "[network]\nmodel = regime1\nq0 = 1\n" SIZES "[rates]\nQ = 4\n");
    cli_print("plain.ini", "[network]\nmodel = regime1\nq0 = 1\n" SIZES);
    for (size_t k = 0; k < COUNT(methods); k++) {
        TEXT(text, 64, "--solver.method=%s", methods[k]);
        cli_done("dmft-solve", ARGS("--quiet", "--force", "-o", "out.h5", "case.ini", text));
        cli_done("dmft-solve", ARGS("--quiet", "--force", "-o", "key.h5", "plain.ini", text,
                                    "--network.router_rate=4"));
        cli_done("dmft-solve",
                 ARGS("--quiet", "--force", "-o", "line.h5", "plain.ini", text, "--rates.Q=4"));
        cli_done("dmft-solve", ARGS("--quiet", "--force", "-o", "plain.h5", "plain.ini", text));
        assert_true(cli_same("out.h5", "key.h5", "limit/loss"));
        assert_true(cli_same("out.h5", "line.h5", "limit/loss"));
        assert_false(cli_same("out.h5", "plain.h5", "limit/loss"));
    }
}

/* Each point is the run of its values; a bad one is told with its line before anything runs. */
CLEAN_TEST(test_sweeps) {
    FREED(cli_free) struct cli_result result;
    size_t count;
    cli_print("sweep.ini", "[network]\nmodel = regime3\nparameterization = mup\n[data]\ninputs = "
                           "2\ndimension = 3\n[training]\nsteps = 3\n[solver]\nthreads = 1\n"
                           "sites = 64\nexpert_sites = 8\nunit_sites = 8\nreplicates = 1\n"
                           "[sweep]\nrates.W_in = 0 2\n");
    cli_done("dmft-sweep", ARGS("--quiet", "-o", "out.h5", "sweep.ini"));
    hid_t file = cli_file("out.h5");
    FREED(base_free) double *loss = cli_values(file, "sweep/loss", &count);
    H5Fclose(file);
    assert_true(count == 2 && loss[0] != loss[1]);
    cli_print("bad.ini", "[network]\nmodel = regime3\n[sweep]\nrates.A_in = 1 2\n");
    cli_program("dmft-sweep");
    cli_run(&result, ARGS("-o", "out.h5", "bad.ini"));
    assert_true(cli_ended(&result, 2, ARGS("bad.ini:4: [sweep] rates.A_in=1: matrix A_in never")));
    cli_program("dmft-solve");
}

/* Words of a list stand apart by blanks or tabs, as keys of an ini may have them. */
TEST(test_lists) {
    static const char list[] = " W1\tW2_0  W3\t";
    static const char *const in[] = {"W1", "W1_0", "W2_0", "W3"}, *const out[] = {"W2", "W", "W12"};
    for (size_t k = 0; k < COUNT(in); k++)
        assert_true(program_lists(list, in[k]));
    for (size_t k = 0; k < COUNT(out); k++)
        assert_false(program_lists(list, out[k]));
    assert_false(program_lists(NULL, "W1") || program_lists("", "W1"));
}

AROUND_TESTS(cli_open, cli_close)
