/* The program from outside: which inis, data files and command lines it refuses, and how. */
#define _POSIX_C_SOURCE 200809L
#include "kernels/array/backend.h"
#include "tests/support/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct refusal {
    const char *ini; /* the whole of case.ini, if not NULL */
    const char *add; /* else the small run with this behind it, from line 13 on */
    const char *arg[4];
    const char *part[5]; /* of the message */
};

static bool refused(const struct refusal *refusal) {
    const char *arg[8] = {"-o", "out.h5", "case.ini"};
    char text[2048];
    memcpy(arg + 3, refusal->arg, sizeof refusal->arg);
    snprintf(text, sizeof text, "%s%s", refusal->ini ? refusal->ini : cli_small,
             refusal->add ? refusal->add : "");
    cli_print("case.ini", text);
    struct cli_result result;
    cli_run(&result, arg);
    bool good = cli_ended(&result, 2, refusal->part);
    if (cli_exists("out.h5") || cli_exists("out.h5.partial")) {
        print_error("a file is left after: %s\n", result.err);
        good = false;
    }
    cli_clean(NULL);
    cli_free(&result);
    return good;
}

/* All of a table, so that one run of the test shows every failure. */
static void check_refusals(const struct refusal *refusal, size_t count) {
    size_t failures = 0;
    for (size_t i = 0; i < count; i++)
        failures += !refused(&refusal[i]);
    assert_int_equal(failures, 0);
}

static void test_names_are_refused(void **state) {
    (void)state;
    static const struct refusal table[] = {
        {.add = "[network]\nkapa = 3",
         .part = {"case.ini:14: [network] kapa: unknown key; did you mean \"kappa\"?"}},
        {.arg = {"--output.path="},
         .part = {"--output.path=: unknown key; the file of the result is named by -o OUT.h5"}},
        {.arg = {"--output=x.h5"},
         .part = {"--output=x.h5: the file of the result is named by -o"}},
        {.add = "[network]\neta0 = 3",
         .part = {"case.ini:14: [network] eta0: unknown key; it belongs to [training]"}},
        {.add = "[network]\nwidth = 64",
         .part = {"case.ini:14: [network] width: unknown key; here it is [reference] widths"}},
        {.add = "[trainning]\n",
         .part = {"case.ini:13: [trainning]: unknown section; did you mean \"training\"?"}},
        {.add = "[physics]\n", .part = {"case.ini:13: [physics]: unknown section; there are"}},
        {.add = "[training]\nsteps = 5",
         .part = {"case.ini:14: [training] steps: duplicate key, given before in line 7"}},
        {.add = "[output\n", .part = {"case.ini:13: \"[output\" is not a section line"}},
        {.add = "seed 4\n", .part = {"case.ini:13: \"seed 4\" has no \"=\""}},
        {.add = " = 4\n", .part = {"case.ini:13: no key before \"=\""}},
        {.add = "seed = \033[2J\n", .part = {"case.ini:13: not a text file (byte 0x1b)"}},
        {.add = "# caf\xe9\n", .part = {"case.ini:13:", "not UTF-8 (byte 0xe9)"}},
        {.ini = "model = regime2\n[network]\n",
         .part = {"case.ini:1: key \"model\" before the first [section]"}},
        {.ini = "", .part = {"case.ini: [network] model: the key must be given; one of dense"}},
        {.arg = {"--network.kapa=3"}, .part = {"--network.kapa=3: unknown key", "\"kappa\"?"}},
        {.arg = {"--netwrok.kappa=3"}, .part = {"--netwrok.kappa=3: unknown section"}},
        {.arg = {"--output.kernels=\xff"}, .part = {"--output.kernels=", "not UTF-8"}},
    };
    check_refusals(table, COUNT(table));
}

static void test_values_are_refused(void **state) {
    (void)state;
    static const struct refusal table[] = {
        {.add = "[reference]\nseeds = many",
         .part = {"case.ini:14: [reference] seeds = many: not an integer", "1 to 1000000"}},
        {.add = "[network]\nexpert_width = 2.5",
         .part = {"case.ini:14: [network] expert_width = 2.5: not a whole", "0 to 4096"}},
        {.add = "[network]\nexpert_width = 0",
         .part = {"case.ini:14:", "at least one hidden unit"}},
        {.arg = {"--data.source=multi_index", "--data.dimension=3"}, .part = {"at least 4"}},
        {.arg = {"--data.inputs=100000", "--data.dimension=1000000"},
         .part = {"the inputs alone would need about 2.4e+03 GB"}},
        {.arg = {"--data.source=fashion"},
         .part = {"unknown choice",
                  "\"dmft-data fashion --classes 2 4 --inputs 32 -o x.h5\" writes"}},
        {.arg = {"--data.source=mixture"}, .part = {"\"dmft-data mixture --components 3"}},
        {.arg = {"--data.source=file", "--data.file=README.csv"}, .part = {"No such file"}},
        {.add = "seed = -1", .part = {"case.ini:13: [solver] seed = -1: out of range"}},
        {.add = "[network]\nkappa = 1# one",
         .part = {"case.ini:14: [network] kappa = 1# one: trailing characters \"# one\""}},
        {.add = "[training]\neta0 = fast",
         .part = {"case.ini:14: [training] eta0 = fast: not a number", "0 to 1000000"}},
        {.add = "[training]\neta0 = nan", .part = {"case.ini:14:", "not a finite number"}},
        {.add = "[training]\neta0 = -0.1", .part = {"case.ini:14:", "out of range"}},
        {.add = "[training]\neta0 = 1e999", .part = {"case.ini:14:", "beyond the range"}},
        {.add = "[training]\neta0 =", .part = {"case.ini:14:", "empty value; must be a number"}},
        {.add = "[network]\nrho = 1.5",
         .part = {"case.ini:14: [network] rho = 1.5: out of range; must be a number, 1e-06 to 1"}},
        {.add = "[network]\ngate = softmex",
         .part = {"case.ini:14: [network] gate = softmex: unknown choice",
                  "one of sigmoid softmax constant", "did you mean \"softmax\"?"}},
        {.add = "[reference]\nwidths = 16 0",
         .part = {"case.ini:14: [reference] widths = 16 0: out of range at \"0\""}},
        {.add = "[reference]\nwidths = 16, 32",
         .part = {"case.ini:14:", "numbers are separated by blanks"}},
        {.arg = {"--solver.backend=abacus"},
         .part = {"--solver.backend=abacus: unknown choice", "one of cpu", "shadow"}},
        {.arg = {"--training.steps=0"}, .part = {"--training.steps=0: out of range"}},
        {.arg = {"--training.steps="}, .part = {"--training.steps=: empty value"}},
        {.ini = "[network]\nmodel = regime1\nq0 = -0.5\n",
         .part = {"case.ini:3: [network] q0 = -0.5:", "must be at least 0; -1 stands for"}},
        {.arg = {"--network.model=regime9"}, .part = {"--network.model=regime9", "regime2"}},
    };
    check_refusals(table, COUNT(table));
}

/* Not compiled in, or its device is hidden: one sentence, before anything is written. */
static void test_backend_that_is_not_there(void **state) {
    (void)state;
    struct cli_result result;
    struct err err;
    double bytes;
    cli_print("case.ini", cli_small);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
    int code = backend_cuda.open(&bytes, &err);
    assert_true(code == CODE_SYSTEM || code == CODE_INPUT);
    assert_non_null(strstr(err.text, code == CODE_INPUT ? "make CUDA=1" : "finds no device"));
    cli_run(&result, ARGS("-o", "out.h5", "case.ini", "--solver.backend=cuda"));
    assert_true(cli_ended(&result, code, ARGS(err.text)));
    assert_false(cli_exists("out.h5") || cli_exists("out.h5.partial"));
    cli_free(&result);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void test_keys_must_fit_together(void **state) {
    (void)state;
    static const struct refusal table[] = {
        {.add = "[network]\ngate = constant\nbeta = 2",
         .part = {"case.ini:15: [network] beta = 2: the key is used only when [network] gate = "
                  "sigmoid or softmax"}},
        {.add = "[network]\ngate = softmax\naggregation = K",
         .part = {"case.ini:15: [network] aggregation = K", "only when [network] gate = sigmoid"}},
        {.add = "[network]\nrho = 0.5\ngate = constant",
         .part = {"case.ini:14: [network] rho = 0.5", "only when [network] gate = sigmoid"}},
        {.add = "[data]\nsource = file",
         .part = {"case.ini:4: [data] inputs = 3", "only when [data] source = gaussian"}},
        {.add = "[data]\nfile = good.h5",
         .part = {"case.ini:14: [data] file = good.h5", "only when [data] source = file"}},
        {.add = "[network]\nkappa = 0.3\n[reference]\nwidths = 10 16",
         .part = {"case.ini:14: [network] kappa = 0.3:", "whole number of experts", "N = 16"}},
        {.add = "[reference]\nwidths = 10",
         .arg = {"--network.kappa=0.01"},
         .part = {"--network.kappa=0.01:", "at least 1", "N = 10"}},
        {.add = "[network]\nrho = 0.3",
         .part = {"case.ini:14: [network] rho = 0.3:", "whole number", "expert_sites = 64"}},
        {.add = "[network]\nrho = 0.25\n[reference]\nwidths = 16 18",
         .part = {"case.ini:14: [network] rho = 0.25:", "whole number", "N = 18"}},
        {.add = "[reference]\nwidths = 32 16",
         .part = {"case.ini:14: [reference] widths = 32 16: widths must increase"}},
        {.arg = {"--reference.widths=16 16"},
         .part = {"--reference.widths=16 16: widths must increase"}},
        {.add = "[reference]\nwidths = 3\ndraws = balanced",
         .part = {"case.ini:14: [reference] widths = 3:", "balanced", "N >= 4"}},
        {.arg = {"--training.integrator=heun", "--training.optimizer=adam"},
         .part = {"--training.optimizer=adam", "only when [training] integrator = gd"}},
        {.arg = {"--training.optimizer=momentum", "--training.beta1=0.5"},
         .part = {"--training.beta1=0.5", "only when [training] optimizer = adam or adamw"}},
        {.arg = {"--training.optimizer=adam", "--training.weight_decay=0.1"},
         .part = {"--training.weight_decay=0.1",
                  "only when [training] optimizer = gd or momentum or adamw"}},
        {.arg = {"--training.integrator=heun", "--training.weight_decay=0.1"},
         .part = {"--training.weight_decay=0.1", "only when [training]"}},
        {.arg = {"--training.weight_decay=-0.5"},
         .part = {"--training.weight_decay=-0.5", "out of range; must be a number, 0 to 1"}},
        {.arg = {"--training.weight_decay=0.1", "--solver.method=fixed_point"},
         .part = {"--training.weight_decay=0.1", "knows no decay of weights: 0"}},
        {.arg = {"--training.schedule=sine"},
         .part = {"--training.schedule=sine", "constant linear cosine polynomial power"}},
        {.arg = {"--training.warmup=-1"}, .part = {"--training.warmup=-1", "0 to"}},
        {.arg = {"--training.clip=-1"}, .part = {"--training.clip=-1", "0 to"}},
        {.arg = {"--training.schedule_end=0.1"},
         .part = {"--training.schedule_end=0.1",
                  "only when [training] schedule = linear or cosine or polynomial"}},
        {.arg = {"--training.schedule=cosine", "--training.schedule_power=1"},
         .part = {"--training.schedule_power=1",
                  "only when [training] schedule = polynomial or power"}},
        {.arg = {"--training.schedule=power", "--training.schedule_steps=3"},
         .part = {"--training.schedule_steps=3", "schedule = linear or cosine or polynomial"}},
        {.arg = {"--training.schedule=linear", "--training.warmup=100"},
         .part = {"--training.warmup=100", "to the end of the run at", "schedule_steps"}},
        {.arg = {"--training.integrator=heun", "--training.clip=1"},
         .part = {"--training.clip=1", "only when [training] integrator = gd"}},
        {.arg = {"--training.optimizer=adam", "--solver.method=fixed_point"},
         .part = {"--training.optimizer=adam", "plain gradient descent"}},
        {.arg = {"--training.optimizer=adam", "--solver.sites=20000",
                 "--solver.expert_sites=20000"},
         .part = {"max_memory = 8", "GB", "fewer sites"}},
        {.arg = {"--solver.max_memory=0.001", "--solver.sites=4096"},
         .part = {"--solver.max_memory=0.001:", "GB", "fewer sites", "raise max_memory"}},
        {.arg = {"--reference.widths=1000000"},
         .part = {"case.ini: [solver] max_memory = 8 (default):", "GB", "width 1000000",
                  "smaller widths"}},
        {.arg = {"--reference.widths=512", "--output.weights=all", "--training.steps=2000"},
         .part = {"max_memory = 8", "GB; try [output] weights = final or none, fewer seeds"}},
        {.arg = {"--reference.widths=512", "--output.weights=final", "--reference.seeds=9999"},
         .part = {"max_memory = 8", "GB; try [output] weights = none, fewer seeds"}},
        {.arg = {"--training.steps=100000", "--output.kernels=full"},
         .part = {"max_memory = 8", "GB", "kernels = diagonal", "fewer steps"}},
        {.arg = {"--solver.replicates=0"},
         .part = {"--solver.replicates=0: without a limit there must be [reference] widths"}},
        {.add = "[training]\nbatch = 4",
         .part = {"case.ini:14: [training] batch = 4: there are only 3 inputs"}},
        {.arg = {"--training.order=shuffled"},
         .part = {"--training.order=shuffled: it is used only with batch"}},
        {.arg = {"--training.batch=2", "--training.integrator=heun"},
         .part = {"--training.batch=2: it acts once a step", "integrator = gd"}},
        {.arg = {"--training.batch=2", "--solver.method=fixed_point"},
         .part = {"--solver.method=fixed_point: minibatches need method = march"}},
        {.arg = {"--training.batch=2", "--reference.coordinate_check=yes", "--reference.widths=16"},
         .part = {"--reference.coordinate_check=yes: it follows the same inputs"}},
        {.arg = {"--data.test_inputs=2", "--solver.method=fixed_point"},
         .part = {"--solver.method=fixed_point: test inputs need method = march"}},
        {.arg = {"--data.inputs=400", "--data.dimension=400", "--training.batch=2"},
         .part = {"[solver] sites", "the inputs have 400 directions"}},
        {.arg = {"--data.inputs=100000", "--data.dimension=1000000"},
         .part = {"max_memory = 8", "GB", "inputs"}},
    };
    check_refusals(table, COUNT(table));
}

static void make_data_files(void) {
    size_t size;
    cli_make_data("good.h5", 2, 3, 4, 3, 3, -1);
    cli_make_data("label.h5", 2, 3, 4, 3, 3, 0.5);
    cli_make_data("nan.h5", 2, 3, 4, 3, NAN, -1);
    cli_make_data("infinite.h5", 2, 3, 4, 3, 3, INFINITY);
    cli_make_data("long.h5", 2, 3, 4, 3, 1e200, -1);
    cli_make_data("flat.h5", 1, 3, 1, 3, 3, -1);
    cli_make_data("lengths.h5", 2, 3, 4, 2, 3, -1);
    cli_make_data("rows0.h5", 2, 0, 4, 0, 3, -1);
    cli_make_data("columns0.h5", 2, 3, 0, 3, 3, -1);
    cli_make_data("no_y.h5", 2, 3, 4, -1, 3, -1);
    char *bytes = cli_read("good.h5", &size);
    cli_write("short.h5", bytes, size / 2);
    free(bytes);
    cli_print("text.h5", "X y\n");
    cli_write("nul.ini", "[network]\nmodel = \0regime2\n", 27);
    assert_int_equal(mkdir("folder", 0777), 0);
}

static int open_with_files(void **state) {
    int failed = cli_open(state);
    if (!failed)
        make_data_files();
    return failed;
}

static void test_data_is_refused(void **state) {
    (void)state;
    static const struct refusal table[] = {
        {.ini = CLI_DATA("label.h5"),
         .arg = {"--training.loss=logistic"},
         .part = {"--training.loss=logistic:", "+1 or -1", "y[1] = 0.5"}},
        {.ini = "[network]\nmodel = dense\n",
         .arg = {"--network.pooling=token"},
         .part = {"--network.pooling=token:", "one target for each input: mean"}},
        {.ini = "[network]\nmodel = dense\npooling = mean\n[data]\nsource = markov\nvocabulary = "
                "4\ntokens = 3\n"
                "[training]\nloss = cross_entropy\n",
         .part = {"case.ini:3: [network] pooling = mean:", "targets for each token: token"}},
        {.ini = CLI_DATA(""), .part = {"case.ini:5: [data] file = :", "path"}},
        {.ini = "[network]\nmodel = regime2\n[data]\nsource = file\n",
         .part = {"case.ini: [data] file =", "(default):", "path"}},
        {.ini = CLI_DATA("none.h5"), .part = {"data file none.h5: cannot be opened: No such file"}},
        {.ini = CLI_DATA("folder"), .part = {"data file folder: is a folder"}},
        {.ini = CLI_DATA("text.h5"), .part = {"data file text.h5: is not an HDF5 file"}},
        {.ini = CLI_DATA("short.h5"), .part = {"data file short.h5: ", "damaged"}},
        {.ini = CLI_DATA("nan.h5"), .part = {"data file nan.h5: X[0][2] is NaN"}},
        {.ini = CLI_DATA("infinite.h5"), .part = {"data file infinite.h5: y[1] is infinite"}},
        {.ini = CLI_DATA("long.h5"), .part = {"input 0 is too large: its length overflows"}},
        {.ini = CLI_DATA("flat.h5"), .part = {"data file flat.h5: X has rank 1, needed is 2"}},
        {.ini = CLI_DATA("lengths.h5"),
         .part = {"data file lengths.h5: lengths differ, X has 3 inputs and y has 2"}},
        {.ini = CLI_DATA("rows0.h5"), .part = {"data file rows0.h5: X is empty (0 x 4"}},
        {.ini = CLI_DATA("columns0.h5"), .part = {"data file columns0.h5: X is empty (3 x 0"}},
        {.ini = CLI_DATA("no_y.h5"), .part = {"data file no_y.h5: has no dataset y"}},
        {.ini = CLI_DATA("good.h5"),
         .arg = {"--reference.widths=3", "--reference.draws=balanced"},
         .part = {"--reference.widths=3:", "balanced", "3 input directions", "N >= 4"}},
    };
    check_refusals(table, COUNT(table));
}

/* A key that says what is anyway may stand where it is not used, and no other value of it. */
static void test_unused_keys_at_their_defaults(void **state) {
    (void)state;
    static const char *const keys[][2] = {
        {"--network.bias=none", "--network.bias=fixed"},
        {"--network.beta=1.0", "--network.beta=2"},
        {"--network.rho=1", "--network.rho=0.5"},
        {"--solver.expert_sites=2048", "--solver.expert_sites=8"},
        {"--reference.seeds=16", "--reference.seeds=2"},
        {"--output.singular_values=8e0", "--output.singular_values=3"}};
    cli_print("dense.ini", "[network]\nmodel = dense\nbias = none\n[solver]\nsites = 64\n");
    for (size_t i = 0; i < COUNT(keys); i++)
        for (int other = 0; other < 2; other++) {
            struct cli_result result;
            cli_run(&result, ARGS("--program", "dense.ini", keys[i][other]));
            if (result.code != 2 * other)
                fail_msg("%s: %s", keys[i][other], result.err);
            cli_free(&result);
        }
}

static bool line_refused(const char *const *arg, int code, const char *const *part) {
    struct cli_result result;
    cli_run(&result, arg);
    bool good = cli_ended(&result, code, part);
    cli_free(&result);
    return good;
}

static void test_command_lines_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *arg[6], *part[3];
    } table[] = {
        {{NULL}, {"which ini file?"}},
        {{"small.ini", "other.ini"}, {"one ini file at a time: small.ini, other.ini"}},
        {{"small.ini", "-o"}, {"-o needs the name"}},
        {{"small.ini", "-o", ""}, {"-o needs the name"}},
        {{"small.ini", "--overwrite"}, {"unknown option --overwrite"}},
        {{"-v", "small.ini"}, {"unknown option -v"}},
        {{"small.ini", "--training.steps"}, {"--training.steps"}},
        {{"small.ini", "--steps=3"}, {"--steps=3"}},
        {{"--program", "small.ini", "-o", "x.h5"}, {"--program prints the network of an ini"}},
        {{"--program", "--continue", "good.h5"}, {"--program"}},
        {{"--predict", "good.h5", "small.h5"}, {"--predict needs -o and the output of a run"}},
        {{"--predict", "good.h5", "-o", "x.h5", "none.h5"}, {"none.h5: cannot be opened"}},
        {{"none.ini"}, {"none.ini: cannot be opened: No such file"}},
        {{""}, {": cannot be opened"}},
        {{"folder"}, {"folder: is a folder, not a file"}},
        {{"pipe.ini"}, {"pipe.ini: is not a regular file; what comes from a pipe"}},
        {{"small.ini", "--network.program=pipe.ini", "--network.model=program"},
         {"pipe.ini: is not a regular file"}},
        {{"nul.ini"}, {"nul.ini:2: not a text file (byte 0x00)"}},
        {{"good.h5"}, {"good.h5: is an HDF5 file, not an ini"}},
        {{"small.ini", "-o", "nowhere/out.h5"}, {"output nowhere/out.h5: folder nowhere: No such"}},
        {{"small.ini", "-o", "small.ini/out.h5"}, {"small.ini is not a folder"}},
        {{"small.ini", "-o", "folder"}, {"output folder: is not a regular file"}},
        {{"small.ini", "-o", "folder", "--force"}, {"output folder: is not a regular file"}},
        {{"small.ini", "-o", "folder/"}, {"output folder/: is not a regular file"}},
        {{"small.ini", "-o", "pipe.h5"}, {"output pipe.h5: pipe.h5.partial is not a regular file"}},
        {{"small.ini", "-o", "good.h5"}, {"output good.h5: exists already"}},
        {{"small.ini", "-o", "small.ini"}, {"-o small.ini would overwrite an input"}},
    };
    size_t size, after, failures = 0;
    assert_int_equal(mkfifo("pipe.h5.partial", 0600), 0);
    assert_int_equal(mkfifo("pipe.ini", 0600), 0);
    char *before = cli_read("good.h5", &size);
    for (size_t i = 0; i < COUNT(table); i++)
        failures += !line_refused(table[i].arg, 2, table[i].part);
    assert_int_equal(failures, 0);
    char *bytes = cli_read("good.h5", &after);
    assert_int_equal(size, after);
    assert_memory_equal(before, bytes, size);
    free(before);
    free(bytes);
    bytes = cli_read("small.ini", NULL);
    assert_string_equal(bytes, cli_small);
    free(bytes);
    assert_false(cli_exists("small.h5") || cli_exists("folder/out.h5"));
    assert_false(cli_exists("good.h5.partial") || cli_exists("small.ini.partial"));
}

static void test_permissions(void **state) {
    (void)state;
    static const struct {
        const char *arg[6], *part[3];
        int code;
    } table[] = {
        {{"locked.ini"}, {"locked.ini: cannot be opened: Permission denied"}, 2},
        {{"data.ini"}, {"data file locked.h5: cannot be opened: Permission denied"}, 2},
        {{"small.ini", "-o", "locked/out.h5"}, {"locked/out.h5", "Permission denied"}, 1},
    };
    cli_print("locked.ini", cli_small);
    cli_print("locked.h5", "");
    cli_print("data.ini", CLI_DATA("locked.h5"));
    assert_int_equal(mkdir("locked", 0555), 0);
    assert_int_equal(chmod("locked.ini", 0), 0);
    assert_int_equal(chmod("locked.h5", 0), 0);
    size_t failures = 0;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct cli_result result;
        cli_wait(cli_start(table[i].arg, CLI_NO_RIGHTS), &result);
        if (result.code == CLI_NO_SUCH_RIGHT) {
            print_message("permissions: root cannot give up its rights here, so not tested\n");
            cli_free(&result);
            skip();
        }
        failures += !cli_ended(&result, table[i].code, table[i].part);
        cli_free(&result);
    }
    assert_int_equal(failures, 0);
    assert_false(cli_exists("locked/out.h5") || cli_exists("locked/out.h5.partial"));
}

static void test_force(void **state) {
    (void)state;
    struct cli_result result;
    cli_print("out.h5", "mine\n");
    assert_true(line_refused(ARGS("small.ini", "-o", "out.h5"), 2,
                             ARGS("output out.h5: exists already", "--force")));
    char *bytes = cli_read("out.h5", NULL);
    assert_string_equal(bytes, "mine\n");
    free(bytes);
    assert_false(cli_exists("out.h5.partial"));
    cli_run(&result, ARGS("--force", "small.ini", "-o", "out.h5"));
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.err, "\nwrote out.h5\n"));
    assert_non_null(strstr(result.out, "limit"));
    assert_int_equal(cli_complete("out.h5"), 1);
    assert_false(cli_exists("out.h5.partial"));
    cli_free(&result);
    cli_clean(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_names_are_refused),
        TEST(test_values_are_refused),
        TEST(test_backend_that_is_not_there),
        TEST(test_keys_must_fit_together),
        TEST(test_data_is_refused),
        TEST(test_unused_keys_at_their_defaults),
        TEST(test_command_lines_are_refused),
        TEST(test_permissions),
        TEST(test_force),
    };
    return cmocka_run_group_tests_name("cli_refusals", tests, open_with_files, cli_close);
}
