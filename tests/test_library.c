/* The library (include/dmft.h) against the program: the same bits, the same sentences; and networks
 * that are added to those of the project. */
#define _XOPEN_SOURCE 700
#include "include/dmft.h"
#include "models/language/program.h"
#include "tests/support/cli.h"
#include "tests/support/support.h"

#include <cblas.h>
#include <locale.h>
#include <sys/time.h>
#include <sys/wait.h>

static const char ini[] = "[network]\nmodel = dense\ndepth = 2\n[data]\ninputs = 3\ndimension = 4\n"
                          "[training]\nsteps = 4\n[solver]\nsites = 64\nreplicates = 2\n"
                          "[reference]\nwidths = 8 16\nseeds = 3\n";

static size_t sites_of_experts, sites_of_units; /* told to what was written last */

/* The network dense of depth 2, by other means. */
static void copy_write(struct program *p) {
    sites_of_experts = dmft_expert_sites(p);
    sites_of_units = dmft_unit_sites(p);
    struct population *bottom = program_population(p, "bottom", 1, dmft_sites(p), 1);
    struct population *top = program_population(p, "top", 1, dmft_sites(p), 1);
    struct value h1 = program_read_in(p, bottom, (struct weight){.name = "W1"});
    struct value x1 = program_sigma(p, h1);
    struct value h2 = program_map(p, x1, top, (struct weight){.name = "W2"});
    program_read_out(p, program_sigma(p, h2), (struct weight){.name = "w"});
}

static struct model copy = LIST(.name = "copy", .doc = "dense of depth 2", .source = "this file",
                                .keys = "read_out activation depth",
                                .solver_keys = "expert_sites unit_sites", .write = copy_write);

static void dmft_freed(struct dmft **d) {
    dmft_free(*d);
}

static void accept(struct dmft *d, int code) {
    FAIL_IF(code, "refused: %s", dmft_error(d));
}

static void refuse(struct dmft *d, int got, int code, const char *part) {
    assert_int_equal(got, code);
    FAIL_IF(!strstr(dmft_error(d), part), "\"%s\" is not in: %s", part, dmft_error(d));
}

/* Before all else: afterwards the list of networks is closed. */
CLEAN_TEST(test_networks_are_added_first) {
    openblas_set_num_threads(2);
    FREED(dmft_freed) struct dmft *d = dmft_new();
    assert_int_equal(openblas_get_num_threads(), 1); /* the library's threads call it, each alone */
    struct model bad = copy;
    bad.name = "dense";
    refuse(d, dmft_add_network(d, &bad), DMFT_INPUT, "there is a network dense already");
    bad.name = "two words";
    refuse(d, dmft_add_network(d, &bad), DMFT_INPUT, "without blanks");
    bad = copy;
    bad.keys = NULL;
    refuse(d, dmft_add_network(d, &bad), DMFT_INPUT, "must be given");
    accept(d, dmft_add_network(d, &copy));
    accept(d, dmft_text(d, ini));
    accept(d, dmft_run(d, NULL, 0));
    bad = copy;
    bad.name = "late";
    refuse(d, dmft_add_network(d, &bad), DMFT_INPUT, "before anything is read");
}

static void same_bits(struct dmft *d, int N, const char *name, hid_t file, const char *set) {
    struct dmft_series series;
    size_t count;
    accept(d, dmft_series(d, N, name, &series));
    FREED(base_free) double *want = cli_values(file, set, &count);
    assert_int_equal(count, series.size);
    assert_memory_equal(series.mean, want, count * sizeof *want);
}

CLEAN_TEST(test_a_run_is_that_of_the_program) {
    FREED(dmft_freed) struct dmft *d = dmft_new();
    FREED(cli_free) struct cli_result result;
    cli_print("dense.ini", ini);
    cli_run(&result, ARGS("-o", "out.h5", "dense.ini", "--training.eta0=0.25"));
    assert_int_equal(result.code, 0);
    accept(d, dmft_file(d, "dense.ini"));
    accept(d, dmft_set(d, "training.eta0", "7"));
    accept(d, dmft_set(d, "training.eta0", "0.25"));
    accept(d, dmft_run(d, "library.h5", 0));
    assert_true(cli_same("out.h5", "library.h5", "limit/loss"));
    hid_t file = cli_file("library.h5");
    FREED(base_free) char *who = cli_text(file, "/", "program");
    assert_string_equal(who, "dmft-library");
    FREED(base_free) char *version = cli_text(file, "provenance", "version");
    assert_string_equal(version, dmft_version());
    same_bits(d, 0, "loss", file, "limit/loss");
    same_bits(d, 0, "Phi1_diag", file, "limit/Phi1_diag");
    same_bits(d, 16, "f", file, "reference/N0016/f");
    H5Fclose(file);

    struct dmft_series f;
    accept(d, dmft_series(d, 8, "f", &f));
    assert_int_equal(f.axes, 2);
    assert_int_equal(f.runs, 3);
    assert_true(f.shape[0] == 4 && f.shape[1] == 3 && f.size == 12);
    assert_string_equal(f.dims, "t mu");
    assert_true(isfinite(f.se[11]) && f.se[11] > 0);
    assert_string_equal(dmft_name(d, 0, 0), "loss");
    int names = 0;
    while (dmft_name(d, 0, names))
        names++;
    assert_in_range(names, 5, 40);
    refuse(d, dmft_run(d, "library.h5", 0), DMFT_INPUT, "exists already");
    refuse(d, dmft_series(d, 0, "loss", &f), DMFT_INPUT, "no limit was run");
    accept(d, dmft_run(d, "library.h5", 1));
}

CLEAN_TEST(test_an_added_network) {
    FREED(dmft_freed) struct dmft *d = dmft_new(), *own = dmft_new();
    accept(d, dmft_text(d, ini));
    accept(own, dmft_text(own, ini));
    accept(own, dmft_set(own, "network.model", "copy"));
    accept(own, dmft_set(own, "reference.widths", ""));
    accept(own, dmft_set(own, "solver.expert_sites", "24"));
    accept(own, dmft_set(own, "solver.unit_sites", "12"));
    accept(own, dmft_run(own, NULL, 0));
    assert_true(sites_of_experts == 24 && sites_of_units == 12);
    accept(own, dmft_set(own, "reference.widths", "8 16"));
    accept(d, dmft_run(d, NULL, 0));
    accept(own, dmft_run(own, NULL, 0));
    for (int N = 0; N <= 16; N += 8) {
        struct dmft_series a, b;
        accept(d, dmft_series(d, N, "loss", &a));
        accept(own, dmft_series(own, N, "loss", &b));
        assert_true(a.size == 4 && b.size == 4 && a.mean[3] < a.mean[0]);
        assert_memory_equal(a.mean, b.mean, 4 * sizeof *a.mean);
    }
}

CLEAN_TEST(test_refusals) {
    FREED(dmft_freed) struct dmft *d = dmft_new();
    struct dmft_series series;
    refuse(d, dmft_run(d, NULL, 0), DMFT_INPUT, "nothing to run");
    refuse(d, dmft_series(d, 0, "loss", &series), DMFT_INPUT, "no limit was run");
    assert_null(dmft_name(d, 0, 0));
    accept(d, dmft_file(d, "none.ini"));
    refuse(d, dmft_run(d, NULL, 0), DMFT_INPUT, "none.ini: cannot be opened");
    accept(d, dmft_text(d, ini));
    accept(d, dmft_run(d, NULL, 0));
    refuse(d, dmft_series(d, 12, "loss", &series), DMFT_INPUT, "no networks of width 12");
    refuse(d, dmft_series(d, 8, "los", &series), DMFT_INPUT, "los is not among what was measured");
    accept(d, dmft_set(d, "output.weights", "final"));
    accept(d, dmft_run(d, NULL, 0));
    refuse(d, dmft_series(d, 8, "weights_w", &series), DMFT_INPUT, "weights_w is kept run by run");
    accept(d, dmft_series(d, 8, "loss", &series));
    accept(d, dmft_set(d, "training.eta", "1"));
    refuse(d, dmft_run(d, NULL, 0), DMFT_INPUT, "--training.eta=1: unknown key");
    dmft_free(d);
    d = dmft_new();
    accept(d, dmft_text(d, ini));
    accept(d, dmft_set(d, "training.eta0", "1e6"));
    refuse(d, dmft_run(d, NULL, 0), DMFT_NUMERICAL, "lower eta0");
    accept(d, dmft_series(d, 0, "loss", &series));
    assert_true(isfinite(series.mean[0]));
    dmft_free(NULL);
}

CLEAN_TEST(test_null_is_refused) {
    struct dmft *d = dmft_new();
    struct dmft_series series;
    refuse(d, dmft_add_network(d, NULL), DMFT_INPUT,
           "dmft_add_network: the argument model is NULL");
    refuse(d, dmft_file(d, NULL), DMFT_INPUT, "dmft_file: the argument ini is NULL");
    refuse(d, dmft_text(d, NULL), DMFT_INPUT, "dmft_text: the argument text is NULL");
    refuse(d, dmft_set(d, NULL, "1"), DMFT_INPUT, "dmft_set: the argument key is NULL");
    refuse(d, dmft_set(d, "training.eta0", NULL), DMFT_INPUT, "the argument value is NULL");
    accept(d, dmft_text(d, ini));
    accept(d, dmft_run(d, NULL, 0));
    refuse(d, dmft_series(d, 0, NULL, &series), DMFT_INPUT, "the argument name is NULL");
    refuse(d, dmft_series(d, 0, "loss", NULL), DMFT_INPUT, "the argument out is NULL");
    dmft_free(d);
    refuse(NULL, dmft_file(NULL, "x.ini"), DMFT_INPUT, "is NULL");
    assert_int_equal(dmft_text(NULL, ini), DMFT_INPUT);
    assert_int_equal(dmft_set(NULL, "training.eta0", "1"), DMFT_INPUT);
    assert_int_equal(dmft_add_network(NULL, &copy), DMFT_INPUT);
    assert_int_equal(dmft_run(NULL, NULL, 0), DMFT_INPUT);
    assert_int_equal(dmft_series(NULL, 0, "loss", &series), DMFT_INPUT);
    assert_null(dmft_name(NULL, 0, 0));
    dmft_stop(NULL);
}

/* A text of no bytes is an ini without keys. */
CLEAN_TEST(test_no_text) {
    FREED(dmft_freed) struct dmft *d = dmft_new();
    accept(d, dmft_text(d, ""));
    refuse(d, dmft_run(d, NULL, 0), DMFT_INPUT, "ini: [network] model: the key must be given");
}

/* A child of a process that has run on two threads runs on two, and to the same number; and it is
 * told what it gets wrong. */
CLEAN_TEST(test_a_child_runs) {
    FREED(dmft_freed) struct dmft *d = dmft_new();
    struct dmft_series mine, its;
    int status;
    accept(d, dmft_text(d, ini));
    accept(d, dmft_set(d, "solver.threads", "2"));
    accept(d, dmft_run(d, NULL, 0));
    accept(d, dmft_series(d, 0, "loss", &mine));
    double last = mine.mean[mine.size - 1];
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        alarm(300);
        bool same = !dmft_run(d, NULL, 0) && !dmft_series(d, 0, "loss", &its) &&
                    its.mean[its.size - 1] == last;
        bool told = !dmft_set(d, "training.eta0", "1e6") &&
                    dmft_run(d, NULL, 0) == DMFT_NUMERICAL && strstr(dmft_error(d), "lower eta0");
        _exit(same && told ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A value that was replaced is gone: it is neither read nor kept, however often a key is set. */
CLEAN_TEST(test_a_key_has_one_value) {
    FREED(dmft_freed) struct dmft *d = dmft_new();
    struct dmft_series once, twice;
    accept(d, dmft_text(d, ini));
    accept(d, dmft_set(d, "training.eta0", "fast"));
    accept(d, dmft_set(d, "training.steps", "5")); /* begins as another key does */
    accept(d, dmft_set(d, "training.eta0", "0.25"));
    accept(d, dmft_set(d, "training.step", "1"));
    refuse(d, dmft_run(d, NULL, 0), DMFT_INPUT, "--training.step=1: unknown key");
    dmft_free(d);
    d = dmft_new();
    accept(d, dmft_text(d, ini));
    accept(d, dmft_set(d, "training.eta0", "fast"));
    accept(d, dmft_set(d, "training.eta0", "0.25"));
    accept(d, dmft_run(d, NULL, 0));
    accept(d, dmft_series(d, 0, "loss", &once));
    double last = once.mean[once.size - 1];
    accept(d, dmft_set(d, "training.eta0", "0.5"));
    accept(d, dmft_run(d, NULL, 0));
    accept(d, dmft_series(d, 0, "loss", &twice));
    assert_true(twice.mean[twice.size - 1] != last);
}

static struct dmft *running;

static void on_alarm(int number) {
    (void)number;
    dmft_stop(running);
}

/* In a host whose numbers have a comma: keys, defaults and programs mean what they do elsewhere, in
 * all threads, and the host's own numbers stay as they were. */
CLEAN_TEST(test_decimal_comma) {
    static const char program[] = "if tostring(0.5) ~= '0.5' then error('a comma') end\\n"
                                  "read_out(tanh(read_in(population('a'), 'W1')), 'w')";
    char text[16];
    cli_print("comma.src", "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\n"
                           "END LC_NUMERIC\n");
    /* its exit status tells of the categories that are not there */
    assert_true(system("localedef -c -i ./comma.src -f ANSI_X3.4-1968 ./comma 2>localedef.txt") >=
                0);
    assert_int_equal(setenv("LOCPATH", ".", 1), 0);
    if (!setlocale(LC_NUMERIC, "comma"))
        skip(); /* a C library without localedef */
    FREED(dmft_freed) struct dmft *d = dmft_new();
    struct dmft_series series;
    accept(d, dmft_text(d, "[network]\nmodel = program\n[data]\ninputs = 3\n[solver]\nsites = 64\n"
                           "replicates = 4\nthreads = 2\n"));
    accept(d, dmft_set(d, "network.program_text", program));
    accept(d, dmft_set(d, "training.steps", "2"));
    accept(d, dmft_set(d, "training.eta0", "0.25"));
    int code = dmft_run(d, NULL, 0);
    snprintf(text, sizeof text, "%g", 0.5);
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    accept(d, code);
    assert_string_equal(text, "0,5");
    accept(d, dmft_series(d, 0, "loss", &series));
    assert_true(isfinite(series.mean[0]));
    accept(d, dmft_set(d, "training.eta0", "0,25"));
    refuse(d, dmft_run(d, NULL, 0), DMFT_INPUT, "a number has a point and no comma");
}

CLEAN_TEST(test_stop) {
    const struct itimerval soon = {.it_value = {.tv_usec = 200000}};
    running = dmft_new();
    accept(running, dmft_text(running, ini));
    accept(running, dmft_set(running, "training.steps", "20000"));
    signal(SIGALRM, on_alarm);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    refuse(running, dmft_run(running, NULL, 0), DMFT_INTERRUPTED, "interrupted");
    accept(running, dmft_set(running, "training.steps", "2"));
    accept(running, dmft_run(running, NULL, 0));
    dmft_stop(running); /* too late for that run, and not meant for the next */
    accept(running, dmft_run(running, NULL, 0));
    dmft_free(running);
}

AROUND_TESTS(cli_open, cli_close)
