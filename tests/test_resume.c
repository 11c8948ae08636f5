/* Runs that are cut, by SIGKILL or SIGTERM at random times, and go on (--continue) have the bits of
 * a run in one piece; states that do not belong are refused by name. With the argument `long` each
 * kind of run is cut twenty times.
 *
 * That every network goes on, by every way of training, is in test_models. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int cuts = 1; /* of each kind; `long`: twenty */

#define DATA(network) "[data]\ninputs = 4\ndimension = 4\n[network]\nmodel = " network "\n"
#define SIZES                                                                                      \
    "[solver]\nsites = 96\nreplicates = 2\nthreads = 2\n[reference]\nwidths = 16\nseeds = 2\n"
#define EXPERTS "[solver]\nexpert_sites = 64\n"

static const struct {
    const char *what, *ini;
    int steps;
} kinds[] = {
    {"gradient descent", DATA("regime2") SIZES EXPERTS, 60},
    {"momentum, clipped, at a rate that falls",
     DATA("dense") "[training]\noptimizer = momentum\nschedule = linear\nclip = 0.05\n" SIZES, 60},
    {"Adam", DATA("regime2") "[training]\noptimizer = adam\neta0 = 0.02\n" SIZES EXPERTS, 40},
    {"minibatches and test inputs",
     DATA("regime2") "[data]\ntest_inputs = 3\n[training]\nbatch = 3\norder = shuffled\n" SIZES
         EXPERTS,
     20},
    {"adaptive steps", DATA("dense") "[training]\nintegrator = bs32\neta0 = 2\n" SIZES, 30},
    {"selection biases",
     DATA("residual") "alpha = 1\nrho = 0.25\nexpert_width = 2\neta_bias = 0.1\n" SIZES
                      "[solver]\nexpert_sites = 16\n",
     40},
    {"tokens",
     "[data]\nsource = markov\ninputs = 3\ntokens = 3\nvocabulary = 4\n[training]\nloss = "
     "cross_entropy\n[network]\nmodel = transformer\ndepth = 1\n" SIZES,
     15},
    {"two-time kernels and responses", DATA("regime2") "[output]\nkernels = full\n" SIZES EXPERTS,
     20},
    {"coordinate check", DATA("regime2") "[reference]\ncoordinate_check = yes\n" SIZES EXPERTS, 30},
    {"networks that diverge",
     DATA("regime2") "activation = linear\ngate = constant\n[training]\neta0 = 0.6\n[reference]\n"
                     "widths = 2 16\nseeds = 6\n[solver]\nreplicates = 2\nsites = 64\n"
                     "expert_sites = 64\n",
     12},
};

/* --- two files ------------------------------------------------------------------------------- */

struct pair {
    hid_t first, second;
    const char *what;
    int compared;
};

/* Every dataset of numbers. */
static herr_t compare(hid_t file, const char *name, const H5O_info_t *info, void *context) {
    struct pair *pair = context;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), type = H5Dget_type(set);
    bool number = H5Tget_class(type) == H5T_FLOAT || H5Tget_class(type) == H5T_INTEGER;
    H5Tclose(type);
    H5Dclose(set);
    if (!number)
        return 0;
    size_t count[2];
    double *values[] = {cli_values(pair->first, name, &count[0]),
                        cli_values(pair->second, name, &count[1])};
    if (count[0] != count[1] || memcmp(values[0], values[1], count[0] * sizeof(double)) != 0)
        fail_msg("%s: %s differs", pair->what, name);
    free(values[0]);
    free(values[1]);
    pair->compared++;
    return 0;
}

static void same(const char *first, const char *second, const char *what) {
    struct pair pair = {cli_file(first), cli_file(second), what, 0};
    assert_true(H5Ovisit2(pair.first, H5_INDEX_NAME, H5_ITER_INC, compare, &pair, H5O_INFO_BASIC) >=
                0);
    assert_true(pair.compared > 10);
    H5Fclose(pair.first);
    H5Fclose(pair.second);
}

/* --- runs ------------------------------------------------------------------------------------ */

static int clean(void **state) {
    (void)state;
    return system("rm -rf out.* whole.* case.ini");
}

static void must(const char *const *arg, const char *what) {
    struct cli_result result;
    cli_run(&result, arg);
    if (result.code)
        fail_msg("%s: %s", what, result.err);
    cli_free(&result);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double random_share(void) {
    return rand() / (RAND_MAX + 1.0);
}

static bool is_gone(pid_t pid) {
    siginfo_t info = {0};
    return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == pid;
}

/* A signal meets a run at most so many seconds after it has begun (its file is there); false: it
 * was done before. */
static bool cut(const char *const *arg, const char *file, int number, double within) {
    struct cli_result result;
    pid_t pid = cli_start(arg, 0);
    while (!cli_exists(file) && !is_gone(pid))
        cli_pause(0.001);
    cli_pause(within * random_share());
    kill(pid, number);
    cli_wait(pid, &result);
    bool done = result.code == 0;
    if (!done && result.code != -number && result.code != CODE_INTERRUPTED)
        fail_msg("exit %d: %s", result.code, result.err);
    cli_free(&result);
    return !done;
}

static int met; /* cuts of runs that had a state by then */

/* Cut up to three times, then to its end; other threads, and the backend shadow, go on. A state of
 * every step meets SIGKILL; or the one state is that of the signal. */
static void cut_and_go_on(const char *program, const char *steps, int number, double time,
                          const char *what) {
    static const char *const change[] = {"--solver.threads=1", "--solver.backend=shadow",
                                         "--solver.threads=3"};
    static const char state[] = "out.h5.state/limit_0000.state";
    bool killed = number == SIGKILL;
    const char *often = killed ? "--output.checkpoint=1e-9" : "--output.checkpoint=99";
    cli_program(program);
    bool more = cut(ARGS("--quiet", "-o", "out.h5", "case.ini", steps, often),
                    killed ? state : "out.h5.state/ini", number, time);
    for (int left = 2; more && left; left--) {
        met += cli_exists(state);
        more = cut(ARGS("--quiet", "--continue", "out.h5", change[left]), "out.h5.state/ini",
                   number, time);
    }
    if (more)
        must(ARGS("--quiet", "--continue", "out.h5", change[0]), what);
}

/* Also: a run in two pieces, the first of which was done. */
static void pieces(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char whole[64], part[64];
        clean(NULL);
        snprintf(whole, sizeof whole, "--training.steps=%d", kinds[i].steps);
        snprintf(part, sizeof part, "--training.steps=%d",
                 1 + (int)((kinds[i].steps - 1) * random_share()));
        cli_print("case.ini", kinds[i].ini);
        double start = seconds();
        must(ARGS("--quiet", "-o", "whole.h5", "case.ini", whole), kinds[i].what);
        double time = seconds() - start;
        if (!strstr(kinds[i].ini, "schedule")) {
            must(ARGS("--quiet", "-o", "out.h5", "case.ini", part, "--output.checkpoint=99"),
                 kinds[i].what);
            must(ARGS("--quiet", "--continue", "out.h5", whole), kinds[i].what);
            same("whole.h5", "out.h5", kinds[i].what);
        }
        for (int k = 0; k < cuts; k++) {
            assert_int_equal(system("rm -rf out.*"), 0);
            cut_and_go_on("dmft-solve", whole, (k + (int)i) % 2 ? SIGTERM : SIGKILL, time,
                          kinds[i].what);
            same("whole.h5", "out.h5", kinds[i].what);
            assert_false(cli_exists("out.h5.partial"));
        }
    }
    print_message("%d cuts of runs with a state\n", met);
    assert_true(met > cuts);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "long"))
        cuts = 20;
    srand(7);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pieces, clean),
    };
    return cmocka_run_group_tests(tests, cli_open, cli_close);
}
