/* What failures leave: records of runs that failed, files of processes that were killed, sums. */
#define _GNU_SOURCE
#include "solver/files/io.h"
#include "solver/files/partial.h"
#include "tests/support/cli.h"
#include "tests/support/support.h"

#include <fcntl.h>

static const char dense[] = "[network]\nmodel = dense\nactivation = linear\n[data]\n%s"
                            "[training]\nsteps = 4\n[solver]\nsites = 64\nreplicates = 2\n";

TEST(records_of_failed_runs) {
    enum { RUNS = 4, T = 3 };
    FREED(record_free) struct record record;
    int first;
    const struct series loss = {
        .name = "loss", .dims = "t", .about = "", .equation = "", .axes = 1, .shape = {T}};
    ASK(record_init(&record, RUNS, T, err));
    ASK(record_add(&record, loss, err));
    assert_int_equal(record_failures(&record, &first), 0);
    assert_int_equal(first, RUNS);
    record.failed[1] = record.failed[3] = true;
    assert_int_equal(record_failures(&record, &first), 2);
    assert_int_equal(first, 1);
    double *value = record_at(&record, &record.series[0], 2, 1);
    assert_null(record_overflow(&record, 2, 1)); /* NaN: not measured */
    *value = RECORD_MOST;
    assert_null(record_overflow(&record, 2, 1));
    *value = -INFINITY;
    assert_string_equal(record_overflow(&record, 2, 1), "loss");
    assert_null(record_overflow(&record, 2, 0));
    assert_null(record_overflow(&record, 1, 1));
}

/* Beyond 1e6 times the largest of 1, the first loss and that of f = 0. */
TEST(bound_of_the_loss) {
    RUN_AND_NET;
    support_run_text(&run, NULL, dense, "");
    support_begin(&net, &run, 0, 0);
    assert_true(net.output.loss_scale == 1 && !net_runs_away(&net));
    net.output.loss = NET_RUNAWAY;
    assert_false(net_runs_away(&net));
    net.output.loss = 1.1 * NET_RUNAWAY;
    assert_true(net_runs_away(&net));
    net.output.loss = NAN;
    assert_true(net_runs_away(&net));
    net_free(&net);
    double squares = 0; /* f(0) = 0: the first loss is that of f = 0 */
    for (int mu = 0; mu < run.data.P; mu++) {
        run.data.y[mu] *= 1e3;
        squares += run.data.y[mu] * run.data.y[mu];
    }
    support_begin(&net, &run, 0, 0);
    double scale = squares / 2 / run.data.P;
    CHECK_ABS(net.output.loss_scale, scale, 1e-14 * scale, "scale of large targets");
}

/* Wherever it comes, a signal is heard: by draws of a matrix, operations, updates. */
TEST(signals) {
    volatile sig_atomic_t stop = 0;
    FREED(run_free) struct run run;
    struct net net, other;
    struct err told;
    support_run_text(&run, NULL, dense, "");
    run.stop = &stop;
    for (int N = 0; N <= 16; N += 16) {
        struct net_setup setup = run_setup(&run, N, 0);
        ASK(net_init(&net, &setup, err));
        support_evaluate(&net, &run);
        stop = 1;
        assert_int_equal(net_init(&other, &setup, &told), CODE_INTERRUPTED);
        net_free(&other);
        assert_int_equal(net_evaluate(&net, &loss_mse, run.data.y, &told), CODE_INTERRUPTED);
        assert_int_equal(program_backward(&net, &told), CODE_INTERRUPTED);
        assert_int_equal(net_learn(&net, 0, 0.1, &told), CODE_INTERRUPTED);
        struct map *map = support_map(&net, "W2"), again;
        int code = map_init(&again, map->kind, map->declared, map->settings, &told);
        assert_int_equal(code, N ? CODE_INTERRUPTED : CODE_OK);
        map_free(&again);
        stop = 0;
        net_free(&net);
    }
}

/* One that is at work holds a lock on its partial file, and while it writes on its new file; what
 * one that was killed has left of the latter is written over. */
CLEAN_TEST(files_left_by_kills) {
    static const char left[] = "out.h5.partial.new";
    const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct io io, other;
    struct err told;
    cli_print(left, "what is longer than nothing, and was left");
    int busy = open(left, O_WRONLY);
    assert_int_equal(fcntl(busy, F_OFD_SETLK, &whole), 0);
    assert_int_equal(io_create(&io, "out.h5", false, &told), CODE_INPUT);
    assert_non_null(strstr(told.text, "another run is writing out.h5.partial.new"));
    close(busy);
    ASK(io_create(&io, "out.h5", false, err));
    assert_false(cli_exists(left));
    cli_print(left, "half");
    ASK(io_flush(&io, err));
    assert_false(cli_exists(left));
    assert_int_equal(io_create(&other, "out.h5", true, &told), CODE_INPUT);
    assert_non_null(
        strstr(told.text, "another run is writing out.h5.partial; choose another name"));
    io_close(&io);
    assert_int_equal(cli_complete("out.h5.partial"), 0);
}

/* A full disk, for which a limit on the size of files stands in: it has room for the settings, but
 * not for the trajectories. */
CLEAN_TEST(disk_full) {
    struct rlimit limit, small;
    FREED(cli_free) struct cli_result result;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 1 << 16;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    pid_t pid = cli_start(ARGS("small.ini", "-o", "out.h5", "--training.steps=400"), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cli_wait(pid, &result);
    assert_int_equal(result.code, 1);
    assert_non_null(strstr(result.err, "the last state that could be saved is in out.h5.partial\n"
                                       "dmft-solve: cannot write out.h5.partial: File too large; "
                                       "it still holds what was saved before\n"));
    assert_int_equal(cli_complete("out.h5.partial"), 0);
    assert_false(cli_exists("out.h5") || cli_exists("out.h5.partial.new"));
}

/* 100000 inputs on a stack of 768 kB: what has a number for each row is not on it, and nothing has
 * one for each pair of rows, which would be 80 GB. */
CLEAN_TEST(many_rows) {
#ifdef __SANITIZE_ADDRESS__
    skip(); /* its frames are larger */
#endif
#define RUN                                                                                        \
    "[solver]\nsites = 8\nthreads = 1\n[data]\ninputs = 100000\ndimension = 2\n"                   \
    "[training]\nsteps = 2\neta0 = 0.01\n[output]\nkernels = none\n"
#define LIMIT "[solver]\nreplicates = 1\n"
#define NETWORK "[solver]\nreplicates = 0\n[reference]\nseeds = 1\nwidths = 4\n"
    static const char *const networks[] = {
        "[network]\nmodel = regime2\nrho = 0.5\n[solver]\nexpert_sites = 8\n" RUN LIMIT,
        "[network]\nmodel = regime3\n" RUN NETWORK};
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_STACK, &limit), 0);
    small = limit;
    small.rlim_cur = 768 << 10;
    for (size_t k = 0; k < COUNT(networks); k++) {
        FREED(cli_free) struct cli_result result;
        cli_print("case.ini", networks[k]);
        assert_int_equal(setrlimit(RLIMIT_STACK, &small), 0);
        pid_t pid = cli_start(ARGS("--quiet", "--force", "-o", "out.h5", "case.ini"), 0);
        assert_int_equal(setrlimit(RLIMIT_STACK, &limit), 0);
        cli_wait(pid, &result);
        FAIL_IF(result.code, "%s: code %d: %s", networks[k], result.code, result.err);
    }
}

/* Clipping takes two numbers for each pair of rows, 64 MB of 2000 inputs: they are in the estimate.
 */
CLEAN_TEST(memory_of_clipping) {
    FREED(cli_free) struct cli_result result;
    cli_print("case.ini", "[network]\nmodel = dense\n[data]\ninputs = 2000\ndimension = 2\n"
                          "[solver]\nsites = 8\nreplicates = 1\nmax_memory = 0.05\n"
                          "[training]\nsteps = 1\nclip = 1\n[output]\nkernels = none\n");
    cli_run(&result, ARGS("--quiet", "-o", "out.h5", "case.ini"));
    assert_true(result.code > 0);
    assert_non_null(strstr(result.err, "the run would need about 0.06"));
}

/* --- numbers that are none ------------------------------------------------------------------- */

#define NETWORKS "--solver.replicates=0", "--reference.widths=8", "--reference.seeds=2"
#define FIXED_POINT "--solver.method=fixed_point"
#define FAST "--training.eta0=1e6"
/* Programs whose rows x of population p read the input. */
#define PROGRAM(text)                                                                              \
    "--network.program_text=local p = population(\"p\"); local x = read_in(p, \"A\"); " text

/* Inputs and targets as in cli_make_data; small: the run of cli_small, drawn: a dense network. */
static const STRUCT(const char *ini, *arg[7], *part[2]) numerical[] = {
    {"target 1e200",
     {NULL},
     {"replicate 0, step 0: the loss is not finite before any step, so that no rate is to blame"}},
    {"target 1e200", {FIXED_POINT}, {"replicate 0: step 0: the loss or a kernel exceeds 1e+06"}},
    {"input 1e76",
     {NULL},
     {"replicate 0, step 0: Phi1_diag exceeds 1e+150 before any step", "it is the size of inputs"}},
    {"input 1e154", {NULL}, {"step 0: map W2: its forward input is not finite before any step"}},
    LIST("input 1e154", {"--network.depth=1", "--output.spectra=tangent"},
         {"step 0: kernel tangent is not finite before any step"}),
    {"input 1e154",
     {"--training.clip=1", NETWORKS},
     {"2 of 2 networks failed: N = 8, network 0, step 0: the norm of the gradient is not finite"}},
    {"program",
     {PROGRAM("local h = map(1e-160 * x, p, \"B\"); read_out(tanh(1e160 * h), \"w\")")},
     {"replicate 0, step 0: map B: its backward input is not finite before any step"}},
    LIST("program", {PROGRAM("kernel((x - x) / (x - x), \"K\"); read_out(x, \"w\")")},
         {"replicate 0, step 0: K_diag is not finite before any step"}),
    {"program",
     {PROGRAM("kernel((x - x) / (x - x), \"K\"); read_out(x, \"w\")"), "--output.kernels=full"},
     {"replicate 0, step 0: K is not finite before any step"}},
    {"program",
     {PROGRAM("local s = average(x, x); penalty(sum(0 * log(s - s)), \"b\"); read_out(x, \"w\")")},
     {"replicate 0, step 0: the loss is not finite before any step",
      "it begins in `log` of numbers up to 0"}},
    {"program",
     {PROGRAM("local s = 1e200 * average(x, x); penalty(sum(s * s), \"b\"); read_out(x, \"w\")")},
     {"b exceeds 1e+150 before any step", "it begins in `multiply` of numbers up to "}},
    {"program",
     {PROGRAM("read_out(1e156 * x, \"w\")"), "--output.sharpness=sum", "--data.inputs=1", NETWORKS},
     {"network 0, step 0: the sharpness is not finite before any step"}},
    LIST("program", {PROGRAM("read_out(map(log(x), p, \"B\"), \"w\")")},
         {"map B: its forward input is not finite before any step",
          "or a logarithm or power of rows that are not above 0"}),
    LIST("program", {PROGRAM("read_out(log(x), \"w\")")},
         {"the loss is not finite before any step",
          "or a logarithm or power of rows that are not above 0"}),
    {"program", /* relu leaves exact zeros once weights have moved */
     {PROGRAM("read_out(relu(0.1 * x + vector(p, {name = \"b\", start = 1, fixed = true})) ^ 0.5,"
              " \"w\")"),
      "--training.eta0=50", "--training.steps=15", NETWORKS},
     {"the loss is not finite; lower eta0 or gamma0, unless rows are exactly 0 where it takes a "
      "logarithm or a power of them"}},
    LIST("transformer", {NULL},
         {"exceeds 1e+150: with few sites the noise of responses", "more [solver] sites than 16"}),
    {"small", {"--training.eta0=1e4", FIXED_POINT}, {"step 1: the loss or a kernel exceeds 1e+06"}},
    LIST("small", {"--training.eta0=1e4", "--solver.halves=yes"},
         {"with half the sites (halves): limit, replicate 0, step 2: the loss", "exceeds 1e+06"}),
    LIST("small", {"--training.eta0=1e4", "--solver.check_tolerance=yes"},
         {"at a third of tolerance (check_tolerance): limit, replicate 0, step 2: the loss",
          "exceeds 1e+06 times that of the start; lower eta0"}),
    {"drawn", {FAST, "--training.optimizer=momentum"}, {"step 1: the loss, 2.86e+12, exceeds"}},
    {"drawn", {FAST, "--training.optimizer=adam"}, {"step 1: the loss, 1.08e+38, exceeds"}},
    {"drawn", {FAST, "--training.optimizer=adamw"}, {"step 1: the loss, 1.08e+38, exceeds"}},
    {"drawn", {FAST, "--training.integrator=euler"}, {"step 1: the loss, 2.86e+12, exceeds"}},
    {"drawn", {FAST, "--training.integrator=heun"}, {"step 1: the loss, 2.04e+134, exceeds"}},
    LIST("drawn", {FAST, "--training.integrator=heun", "--training.dt=1000", NETWORKS},
         {"2 of 2 networks failed: N = 8, network 0, step 1: the loss is not finite"}),
};

/* What they leave: one sentence, what was computed, no result. */
static void check_numerical(size_t c, const char *const *arg) {
    FREED(cli_free) struct cli_result result;
    const char *const *part = numerical[c].part;
    cli_run(&result, arg);
    if (!cli_ended(&result, 3, ARGS(part[0], part[1])) || cli_exists("out.h5") ||
        cli_exists("out.h5.partial.new") || cli_complete("out.h5.partial") != 0)
        fail_msg("numerical failure %zu", c);
    cli_clean(NULL);
}

CLEAN_TEST(numerical_failures) {
    char text[1024];
    cli_make_data("target.h5", 2, 3, 4, 3, 3, 1e200);
    cli_make_data("input.h5", 2, 3, 4, 3, 1e76, 1);
    cli_make_data("large.h5", 2, 3, 4, 3, 1.3e154, 1);
    static const char *const inis[][2] = {
        {"target 1e200", "source = file\nfile = target.h5\n"},
        {"input 1e76", "source = file\nfile = input.h5\n"},
        {"input 1e154", "source = file\nfile = large.h5\n"},
        {"drawn", "inputs = 3\ndimension = 4\n"},
    };
    for (size_t k = 0; k < COUNT(inis); k++) {
        snprintf(text, sizeof text, dense, inis[k][1]);
        cli_print(inis[k][0], text);
    }
    cli_print("small", cli_small);
    cli_print("transformer",
              "[network]\nmodel = transformer\ndepth = 1\ncausal = yes\nattention_beta = 3\n"
              "zero_queries = yes\nexperts = 2\niota = 0.5\ngate = sigmoid\nq0 = 0\n"
              "router_rate = 4\nbias = trained\nbiases = 0.5 -0.5\n[data]\nsource = markov\n"
              "inputs = 4\ntokens = 6\nvocabulary = 4\n[training]\nsteps = 36\neta0 = 0.4\n"
              "gamma0 = 1\nloss = cross_entropy\n[solver]\nsites = 16\nreplicates = 1\n"
              "tolerance = 1e-2\n[output]\nresponses = yes\n");
    cli_print("program", "[network]\nmodel = program\n[data]\ninputs = 3\ndimension = 4\n"
                         "[training]\nsteps = 1\n[solver]\nsites = 64\nreplicates = 2\n");
    for (size_t c = 0; c < COUNT(numerical); c++) {
        const char *arg[12] = {"--quiet", "-o", "out.h5", "--solver.threads=1", numerical[c].ini};
        for (int k = 0; k < 6 && numerical[c].arg[k]; k++)
            arg[5 + k] = numerical[c].arg[k];
        check_numerical(c, arg);
    }
}

/* A run that goes on to where it diverges. */
CLEAN_TEST(continued_into_divergence) {
    FREED(cli_free) struct cli_result result;
    cli_solve(ARGS("--training.eta0=1e4", "--training.steps=2", "--output.checkpoint=1"));
    cli_run(&result, ARGS("--quiet", "--continue", "out.h5", "--training.steps=20"));
    assert_true(cli_ended(&result, 3, ARGS("limit, replicate 0, step 2: the loss, ", "exceeds")));
    assert_int_equal(cli_complete("out.h5"), 1);
    assert_int_equal(cli_complete("out.h5.partial"), 0);
}

AROUND_TESTS(cli_open, cli_close)
