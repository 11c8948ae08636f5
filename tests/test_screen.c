/* What the programs say and what they leave out; names of files and of who wrote them. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"

static const char study[] =
    "[network]\nmodel = regime2\n[data]\ninputs = 2\ndimension = 4\n[training]\nsteps = 2\n"
    "[solver]\nsites = 64\nexpert_sites = 64\nreplicates = 2\nthreads = 1\n"
    "[reference]\nwidths = 8\nseeds = 4\n";

/* The result of a program that must succeed. */
static struct cli_result run(const char *program, const char *const *arg) {
    struct cli_result result;
    cli_program(program);
    cli_run(&result, arg);
    if (result.code)
        fail_msg("%s: exit code %d: %s", program, result.code, result.err);
    return result;
}

CLEAN_TEST(test_quiet) {
    static const char *const program[] = {"dmft-solve", "dmft-compare", "dmft-sweep"};
    FREED(free_memory) char *text = malloc(sizeof study + 64);
    cli_print("study.ini", study);
    sprintf(text, "%s[sweep]\ntraining.eta0 = 0.1 0.2 0.4\n", study);
    cli_print("sweep.ini", text);
    for (int k = 0; k < 3; k++) {
        const char *ini = k == 2 ? "sweep.ini" : "study.ini";
        struct cli_result loud = run(program[k], ARGS("--force", "-o", "quiet.h5", ini)),
                          quiet =
                              run(program[k], ARGS("--quiet", "--force", "-o", "quiet.h5", ini));
        assert_true(strlen(loud.out) > 0 && strlen(loud.err) > 0);
        assert_string_equal(quiet.out, "");
        assert_string_equal(quiet.err, "");
        FREED(close_file) hid_t file = cli_file("quiet.h5");
        FREED(free_memory) char *who = cli_text(file, "/", "program");
        assert_string_equal(who, program[k]);
        cli_free(&loud);
        cli_free(&quiet);
    }
}

/* What a run left is not replaced by the next, unless that is told to. */
CLEAN_TEST(test_one_partial_file) {
    struct cli_result result;
    cli_program("dmft-solve");
    cli_print("study.ini", study);
    cli_run(&result, ARGS("-o", "out.h5", "study.ini", "--training.eta0=1e6"));
    assert_int_equal(result.code, 3);
    assert_true(cli_exists("out.h5.partial"));
    cli_free(&result);
    cli_run(&result, ARGS("-o", "out.h5", "study.ini"));
    assert_true(cli_ended(&result, 2, ARGS("output out.h5: out.h5.partial is there", "--force")));
    cli_free(&result);
    result = run("dmft-solve", ARGS("-o", "out.h5", "--force", "study.ini"));
    cli_free(&result);
    assert_true(cli_exists("out.h5") && !cli_exists("out.h5.partial"));
}

CLEAN_TEST(test_refusals) {
    static const struct {
        const char *arg[4], *part[3];
    } table[] = {
        {{"--training.eta0", "0.5"},
         {"--training.eta0: a key and its value are one word, --training.eta0=0.5"}},
        {{"--training.eta0"}, {"one word, --training.eta0=value"}},
        {{"--eta0", "0.5"}, {"unknown option --eta0; a key is set by --section.key=value"}},
        {{"--solver.max_memory=0.001", "--solver.sites=100000"},
         {"try fewer sites, expert_sites, inputs or steps, fewer threads"}},
        {{"--solver.max_memory=0.001", "--solver.sites=100000", "--network.model=regime3"},
         {"try fewer sites, expert_sites, unit_sites, inputs or steps"}},
        {{"--solver.max_memory=0.001", "--solver.sites=100000", "--network.model=dense",
          "--solver.expert_sites=2048"},
         {"try fewer sites, inputs or steps, fewer threads"}},
        {{"--network.rho=0.3"}, {"whole number of at least 1 (limit: expert_sites = 64)"}},
        {{"--network.model=residual", "--network.alpha=0"}, {"infinite width only"}},
    };
    cli_program("dmft-solve");
    cli_print("study.ini", study);
    for (size_t k = 0; k < COUNT(table); k++) {
        FREED(cli_free) struct cli_result result;
        const char *arg[6] = {"study.ini"};
        for (int a = 0; a < 4 && table[k].arg[a]; a++)
            arg[a + 1] = table[k].arg[a];
        cli_run(&result, arg);
        if (!cli_ended(&result, 2, table[k].part))
            fail_msg("case %zu: %s", k, result.err);
        assert_true(strstr(table[k].part[0], "limit:") || !strstr(result.err, "limit:"));
    }
}

/* Nothing but the name of the network, and of one in Lua its file. */
CLEAN_TEST(test_defaults_run) {
    struct cli_result help = run("dmft-solve", ARGS("--help"));
    char ini[96], name[16];
    const char *line = strstr(help.out, "\nNetworks ");
    int networks = 0;
    assert_non_null(line);
    cli_print("alone.lua", "read_out(sigma(read_in(population(\"top\"), \"W\")), \"w\")\n");
    for (line = strchr(line + 1, '\n'); sscanf(line, "%15s", name) == 1; networks++) {
        const char *file = strcmp(name, "program") ? "" : "program = alone.lua\n";
        snprintf(ini, sizeof ini, "[network]\nmodel = %s\n%s", name, file);
        cli_print("alone.ini", ini);
        struct cli_result result =
            run("dmft-solve", ARGS("--force", "-o", "out.h5", "alone.ini", "--training.steps=1",
                                   "--solver.replicates=1"));
        cli_free(&result);
        line = strchr(line + 1, '\n');
    }
    assert_true(networks >= 8);
    cli_free(&help);
}

CLEAN_TEST(test_scale_of_inputs) {
    struct cli_result result;
    cli_make_data("small.h5", 2, 3, 4, 3, 3, -1);
    cli_print("data.ini", CLI_DATA("small.h5") "[training]\nsteps = 1\n[solver]\nsites = "
                                               "64\nexpert_sites = 64\nreplicates = 1\n");
    result = run("dmft-solve", ARGS("-o", "out.h5", "data.ini"));
    hid_t file = cli_file("out.h5");
    size_t count;
    double *X = cli_values(file, "data/X", &count), sum = 0;
    char want[96];
    for (size_t k = 0; k < count; k++)
        sum += X[k] * X[k] / (double)count;
    assert_true(sum < 0.5 || sum > 2);
    snprintf(want, sizeof want, "note: |x|^2/D of the inputs is %.3g on average", sum);
    assert_non_null(strstr(result.err, want));
    free(X);
    H5Fclose(file);
    cli_free(&result);
    cli_clean(NULL);
    cli_print("study.ini", study);
    result = run("dmft-solve", ARGS("-o", "out.h5", "study.ini"));
    assert_null(strstr(result.err, "|x|^2/D"));
    cli_free(&result);
}

/* Weights that lose 0.1 in each step are those of the last ten: said from 100 updates on, and of
 * 0.01 from 1000 on. By default nothing decays, and a schedule takes part. */
CLEAN_TEST(test_decay) {
    static const struct {
        const char *optimizer, *decay, *schedule;
        int steps;
        const char *note;
    } cases[] = {
        {"adamw", "0.1", "constant", 101,
         "note: each step takes 0.1 of all weights (weight_decay, times the schedule), so that of "
         "100 steps about the last 10 are remembered"},
        {"adamw", "0.1", "constant", 100, NULL},
        {"adamw", "0.01", "constant", 1001,
         "so that of 1000 steps about the last 100 are remembered"},
        {"adamw", "0.0001", "constant", 1001, NULL},
        {"adamw", "1", "constant", 11, "about the last 1 are remembered"},
        {"gd", "0.1", "constant", 101, "about the last 10 are remembered"},
        {"adamw", "0", "constant", 1001, NULL},
        /* the last n of 200 steps take 0.1 n (n + 1)/400, which is above 1 from n = 63 on */
        {"adamw", "0.1", "linear", 201, "so that of 200 steps about the last 63 are remembered"},
        {"adamw", "0.1", "linear", 199, NULL},
    };
    cli_print("decay.ini", "[network]\nmodel = dense\n[data]\ninputs = 2\n[solver]\nreplicates = "
                           "0\n[reference]\nwidths = 2\nseeds = 1\n");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char steps[32], optimizer[32], decay[48], schedule[48];
        snprintf(steps, sizeof steps, "--training.steps=%d", cases[k].steps);
        snprintf(optimizer, sizeof optimizer, "--training.optimizer=%s", cases[k].optimizer);
        snprintf(decay, sizeof decay, "--training.weight_decay=%s", cases[k].decay);
        snprintf(schedule, sizeof schedule, "--training.schedule=%s", cases[k].schedule);
        struct cli_result result = run("dmft-solve", ARGS("--force", "-o", "out.h5", "decay.ini",
                                                          steps, optimizer, decay, schedule));
        assert_int_equal(result.code, 0);
        if (cases[k].note)
            assert_non_null(strstr(result.err, cases[k].note));
        else
            assert_null(strstr(result.err, "weight_decay"));
        cli_free(&result);
    }
}

/* Of targets of a file: those that are probably meant otherwise. */
CLEAN_TEST(test_odd_targets) {
    static const struct {
        const char *y[3], *loss, *note;
    } cases[] = {
        {{"0", "1", "1"}, "mse", "note: all targets are 0 or 1, which loss = mse takes for"},
        {{"0", "1", "0"}, "huber", "note: all targets are 0 or 1, which loss = huber takes for"},
        {{"1", "1", "1"}, "mse", NULL},
        {{"-1", "1", "0"}, "mse", NULL},
        {{"0", "1", "1"}, "cross_entropy", NULL},
        {{"1", "2", "2"}, "cross_entropy", "note: no training target is of class 0, so that 3"},
        {{"0", "2", "2"}, "cross_entropy", NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char lines[64], loss[64];
        snprintf(lines, sizeof lines, "1,-1,%s\n1,1,%s\n-1,1,%s\n", cases[k].y[0], cases[k].y[1],
                 cases[k].y[2]);
        snprintf(loss, sizeof loss, "--training.loss=%s", cases[k].loss);
        cli_lines("odd.h5", lines, false);
        cli_print("odd.ini", "[network]\nmodel = dense\n[data]\nsource = file\nfile = odd.h5\n"
                             "[training]\nsteps = 1\n[solver]\nsites = 64\nreplicates = 1\n");
        struct cli_result result =
            run("dmft-solve", ARGS("--force", "-o", "out.h5", "odd.ini", loss));
        if (cases[k].note)
            assert_non_null(strstr(result.err, cases[k].note));
        else
            assert_null(strstr(result.err, "note:"));
        cli_free(&result);
    }
}

/* Accuracies and the largest gate have no z, and one width is one column. */
CLEAN_TEST(test_compare) {
    struct cli_result result;
    cli_print("study.ini", study);
    result = run("dmft-compare", ARGS("--force", "-o", "out.h5", "study.ini"));
    const char *first = strstr(result.out, "N =");
    assert_null(strstr(first + 1, "N ="));
    const char *no_z = strstr(result.out, "no z and no exponent");
    assert_true(no_z && no_z < first);
    assert_null(strstr(result.out, "over all entries"));
    cli_free(&result);
    result = run("dmft-compare",
                 ARGS("--force", "-o", "out.h5", "study.ini", "--reference.widths=8 16 32"));
    assert_null(strstr(result.out, "\naccuracy "));
    assert_null(strstr(result.out, "\ngate_largest "));
    assert_non_null(strstr(result.out, "\ngate_participation "));
    FREED(close_file) hid_t file = cli_file("out.h5");
    assert_true(H5Lexists(file, "mssp/compare/accuracy_inf", H5P_DEFAULT) > 0);
    assert_true(H5Lexists(file, "mssp/compare/accuracy_z", H5P_DEFAULT) == 0);
    assert_true(H5Lexists(file, "mssp/compare/gate_top_inf", H5P_DEFAULT) > 0);
    assert_true(H5Lexists(file, "mssp/compare/gate_top_z", H5P_DEFAULT) == 0);
    cli_free(&result);
}

/* The loss of test inputs has a table of its own, at the times where it is measured. */
CLEAN_TEST(test_test_loss) {
    static const char *const title[] = {"\nloss of the test inputs, mean with 95 %",
                                        "\nmssp: loss of the test inputs, mean"};
    cli_print("study.ini", study);
    for (int k = 0; k < 2; k++) {
        struct cli_result result =
            run(k ? "dmft-compare" : "dmft-solve",
                ARGS("--force", "-o", "out.h5", "study.ini", "--data.test_inputs=2",
                     "--output.test_every=3", "--training.steps=6"));
        const char *table = strstr(result.out, title[k]);
        assert_true(table && strstr(table, "\n   0 ") && strstr(table, "\n   3 "));
        assert_true(!strstr(table, "\n   5 ") && strstr(result.out, "\n   5 "));
        cli_free(&result);
    }
}

/* Every loss is printed; an optimum only along what has an order. */
CLEAN_TEST(test_sweep) {
    static const struct {
        const char *axis, *optimum;
        int lines; /* of the table of losses */
    } table[] = {{"solver.seed = 1 2 3", NULL, 6},
                 {"network.activation = tanh erf relu", NULL, 6},
                 {"training.eta0 = 0.1 0.2 0.4", "optimum of training.eta0", 6},
                 {"rates.Q = 0.1 0.2 0.4", "optimum of rates.Q", 6}};
    FREED(free_memory) char *text = malloc(sizeof study + 64);
    for (size_t k = 0; k < COUNT(table); k++) {
        sprintf(text, "%s[sweep]\n%s\n", study, table[k].axis);
        cli_print("axis.ini", text);
        struct cli_result result = run("dmft-sweep", ARGS("--force", "-o", "axis.h5", "axis.ini"));
        const char *optimum = strstr(result.out, "optimum"), *line = strchr(result.out, '\n');
        assert_true(!optimum == !table[k].optimum);
        assert_true(!optimum || strstr(optimum, table[k].optimum));
        int lines = -2; /* two lines of head */
        while (line && line[1] && line[1] != '\n') {
            lines++;
            line = strchr(line + 1, '\n');
        }
        assert_int_equal(lines, table[k].lines);
        cli_free(&result);
    }
}

AROUND_TESTS(cli_open, cli_close)
