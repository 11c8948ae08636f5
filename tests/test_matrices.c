/* Sections [init] and [rates] as a user meets them: what is refused, in one sentence with the line
 * and what to do; what names there are; sweeps and the fixed point. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"

#define SIZES                                                                                      \
    "[data]\ninputs = 3\ndimension = 4\n[training]\nsteps = 4\n[solver]\nthreads = 1\n"            \
    "replicates = 1\nsites = 64\n"
#define NO_LIMIT "so that there is no limit: its power of N must be 0 at most (lower it in ["
#define REMEDY "finite networks alone, [solver] replicates = 0, may have it)"

CLEAN_TEST(test_refusals) {
    static const struct {
        const char *network, *arg[4], *part[4];
    } table[] = {
        {"regime1",
         {"--rates.W4=2"},
         {"--rates.W4=2: unknown name; did you mean \"W1\"?",
          "(this network has W1 Q W2_0 W2_1 w W2)"}},
        {"regime1", {"--init.W3=2", "--network.expert_layers=1"}, {"--init.W3=2: unknown name"}},
        {"regime1", {"--rates.W=2"}, {"--rates.W=2: unknown name"}},
        {"regime3", {"--rates.W_in=2"}, {"unknown name", "W1 Q P_in A_in P_out A_out w"}},
        {"regime3",
         {"--rates.A_in=2"},
         {"--rates.A_in=2: matrix A_in never learns here and has no rate: take the line out"}},
        {"regime3",
         {"--rates.A_in=1", "--training.optimizer=adamw"},
         {"--rates.A_in=1: matrix A_in never learns here"}},
        {"regime3", {"--rates.A_out=0"}, {"--rates.A_out=0: matrix A_out never learns here"}},
        {"regime3",
         {"--init.P_in=2"},
         {"--init.P_in=2: matrix P_in starts at 0 here, whatever the factor: take the line out"}},
        {"regime1", {"--init.Q=2"}, {"--init.Q=2: matrix Q starts at 0 here"}},
        {"dense", {"--network.read_out=zero", "--init.w=2"}, {"--init.w=2: matrix w starts at 0"}},
        {"regime1",
         {"--network.bias=fixed", "--rates.b=2"},
         {"--rates.b=2: matrix b never learns"}},
        {"regime1",
         {"--network.bias=fixed", "--network.bias_per=token"},
         {"--network.bias_per=token: the inputs are no tokens, of which there are kinds: expert"}},
        {"regime1",
         {"--network.bias=fixed", "--network.biases=1 2 3"},
         {"--network.biases=1 2 3: biases must be one number per expert, or empty"}},
        {"regime1", {"--network.router_rate=0", "--rates.Q=2"}, {"matrix Q never learns here"}},
        {"residual",
         {"--init.R=2", "--network.alpha=1"},
         {"--init.R=2: matrix R_0 starts at 0 here"}},
        {"dense",
         {"--rates.W2=0.1 N^0.25"},
         {"--rates.W2=0.1 N^0.25: network dense: the learning rate of matrix W2 grows as "
          "N^0.25, " NO_LIMIT "rates]",
          REMEDY}},
        {"dense",
         {"--init.W2=1e-9 N^0.01"},
         {"--init.W2=1e-9 N^0.01: network dense: the initial scale of matrix W2 grows as "
          "N^0.01, " NO_LIMIT "init]",
          REMEDY}},
        {"dense", {"--init.w=N"}, {"the initial scale of matrix w grows as N^1, "}},
        {"regime1",
         {"--init.W2=N^0.3", "--init.W2_1=N^-0.2"},
         {"--init.W2=N^0.3: network regime1: the initial scale of matrix W2_0 grows as N^0.3"}},
        {"regime2",
         {"--network.parameterization=mup", "--init.W_out=N^0.6"},
         {"--init.W_out=N^0.6: network regime2: the initial scale of matrix W_out grows as N^0.1"}},
        {"regime1",
         {"--network.parameterization=sp"},
         {"--network.parameterization=sp: network regime1: the learning rate of matrix Q grows as "
          "N^1, " NO_LIMIT "rates] or choose another [network] parameterization; " REMEDY}},
        {"regime2", {"--network.parameterization=sp"}, {"learning rate of matrix w grows as N^1,"}},
        {"regime3",
         {"--network.parameterization=sp", "--training.optimizer=adam"},
         {"learning rate of matrix Q grows as N^1,"}},
        {"regime1",
         {"--network.parameterization=ntp"},
         {"initial scale of matrix Q grows as N^0.5"}},
        {"regime2",
         {"--network.parameterization=ntp"},
         {"initial scale of matrix w grows as N^0.5"}},
        {"regime3",
         {"--network.parameterization=ntp"},
         {"initial scale of matrix w grows as N^0.5"}},
        {"regime1",
         {"--network.parameterization=simp", "--training.optimizer=adam"},
         {"initial scale of matrix Q grows as N^0.5"}},
        {"regime2",
         {"--network.parameterization=simp"},
         {"simp is a router over a fixed number of experts: mup, mssp, sp or ntp here, or model = "
          "regime1"}},
        {"transformer",
         {"--network.parameterization=sp"},
         {"--network.parameterization=sp: attention is in muP: mup or mssp, which"}},
        {"transformer",
         {"--network.heads=2", "--reference.widths=8", "--rates.W_Q_0_1=2"},
         {"--rates.W_Q_0_1=2: matrix W_Q_0_1 is one of several of networks that the limit has as "
          "one: name W_Q_0, or train networks alone, [solver] replicates = 0"}},
        {"transformer",
         {"--network.heads=2", "--reference.widths=8", "--training.optimizer=muon",
          "--training.rest=W_K_0 W_Q_0_1"},
         {"--training.rest=W_K_0 W_Q_0_1: matrix W_Q_0_1 is one of several of networks"}},
        {"regime1",
         {"--eps.Q=2"},
         {"--eps.Q=2: eps is Adam's and Lion's: take the line out or choose [training] optimizer = "
          "adam"}},
        {"dense",
         {"--training.optimizer=muon", "--network.depth=1"},
         {"--training.optimizer=muon: no matrix of this network that learns has two infinite "
          "sides, so that Muon has nothing to move: gd, momentum, adam, adamw or lion"}},
        {"dense",
         {"--training.optimizer=muon", "--training.rest=W2 W3"},
         {"has two infinite sides and is not named in rest, so that Muon has nothing to move"}},
        {"regime2",
         {"--training.optimizer=muon", "--training.rest=Q w"},
         {"--training.rest=Q w: no matrix with two infinite sides that learns is called w"}},
        {"dense",
         {"--training.optimizer=muon", "--training.muon=exact"},
         {"momentum = 0.9 (default): muon = exact moves along one gradient, since"}},
        {"dense",
         {"--training.optimizer=muon", "--eps.W2=2"},
         {"--eps.W2=2: Muon moves it, which has no eps: take the line out, or name it in"}},
        {"dense",
         {"--training.optimizer=muon", "--training.rest_optimizer=gd", "--eps.w=2"},
         {"--eps.w=2: eps is Adam's and Lion's: take the line out"}},
        {"dense",
         {"--training.optimizer=muon", "--rates.W2=N^0.5"},
         {"the learning rate of matrix W2 grows as N^0.5, "}},
        {"regime1",
         {"--training.optimizer=adam", "--eps.Q=0"},
         {"--eps.Q=0: a factor of eps must be above 0"}},
        {"regime1",
         {"--training.optimizer=adam", "--eps.Q=N^-0.5"},
         {"--eps.Q=N^-0.5: network regime1: Adam's eps of matrix Q goes as N^-0.5 "}},
    };
    cli_print("case.ini", "[network]\nmodel = regime1\n" SIZES);
    for (size_t k = 0; k < COUNT(table); k++) {
        char model[64];
        FREED(cli_free) struct cli_result result;
        snprintf(model, sizeof model, "--network.model=%s", table[k].network);
        cli_run(&result, ARGS("-o", "out.h5", "case.ini", model, table[k].arg[0], table[k].arg[1],
                              table[k].arg[2], table[k].arg[3]));
        if (!cli_ended(&result, 2, table[k].part))
            fail_msg("case %zu", k);
    }
}

/* What has no limit is trained as a network. */
CLEAN_TEST(test_networks_may_have_any_power) {
    static const char *const all[] = {"sp", "ntp", "simp"};
    cli_print("case.ini", "[network]\nmodel = regime1\n" SIZES);
    for (size_t k = 0; k < COUNT(all); k++) {
        char text[64];
        snprintf(text, sizeof text, "--network.parameterization=%s", all[k]);
        cli_done("dmft-solve",
                 ARGS("--quiet", "--force", "-o", "out.h5", "case.ini", text,
                      "--solver.replicates=0", "--reference.widths=8", "--reference.seeds=1",
                      "--rates.Q=N^0.1", "--init.W1=0.5 N^0.2"));
    }
}

CLEAN_TEST(test_names_are_told) {
    static const struct {
        const char *arg[3], *line;
    } table[] = {
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
        if (!strstr(result.out, table[k].line))
            fail_msg("%s", result.out);
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
        char text[64];
        snprintf(text, sizeof text, "--solver.method=%s", methods[k]);
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
