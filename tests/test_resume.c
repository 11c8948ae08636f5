/* Runs that are cut, by SIGKILL or SIGTERM at random times, and go on (--continue) have the bits of
 * a run in one piece; states that do not belong are refused by name. With the argument `long` each
 * kind of run is cut twenty times.
 *
 * That every network goes on, by every way of training, is in test_models. */
#define _GNU_SOURCE /* memmem */
#include "tests/support/support.h"
#include "tests/support/cli.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/wait.h>
#include <time.h>

static int cuts = 1; /* of each kind; `long`: twenty */

#define DATA(network) "[data]\ninputs = 4\ndimension = 4\n[network]\nmodel = " network "\n"
#define SIZES                                                                                      \
    "[solver]\nsites = 96\nreplicates = 2\nthreads = 2\n[reference]\nwidths = 16\nseeds = 2\n"
#define EXPERTS "[solver]\nexpert_sites = 64\n"

static const STRUCT(const char *what, *ini; int steps) kinds[] = {
    {"gradient descent", DATA("regime2") SIZES EXPERTS, 24},
    {"momentum, clipped, at a rate that falls",
     DATA("dense") "[training]\noptimizer = momentum\nschedule = linear\nclip = 0.05\n" SIZES, 40},
    {"Adam", DATA("regime2") "[training]\noptimizer = adam\neta0 = 0.02\n" SIZES EXPERTS, 27},
    {"minibatches and test inputs",
     DATA("regime2") "[data]\ntest_inputs = 3\n[training]\nbatch = 3\norder = shuffled\n" SIZES
         EXPERTS,
     14},
    {"adaptive steps, with responses",
     DATA("dense") "[training]\nintegrator = bs32\n[output]\nresponses = yes\n" SIZES, 10},
    {"selection biases",
     DATA("residual") "alpha = 1\nrho = 0.25\nexpert_width = 2\neta_bias = 0.1\n" SIZES
                      "[solver]\nexpert_sites = 16\n",
     27},
    {"tokens, networks that are not centred",
     "[reference]\ncentre = no\n[data]\nsource = markov\ninputs = 3\ntokens = 3\nvocabulary = 4\n"
     "[training]\nloss = cross_entropy\n[network]\nmodel = transformer\ndepth = 1\n" SIZES,
     15},
    {"two-time kernels and responses",
     DATA("regime2") "[output]\nkernels = full\nresponses = yes\n" SIZES EXPERTS, 14},
    {"coordinate check", DATA("regime2") "[reference]\ncoordinate_check = yes\n" SIZES EXPERTS, 20},
    {"matrices, some of them at times that a longer run has not",
     DATA("dense") "[data]\ntest_inputs = 3\n[output]\nweights = both\n" SIZES, 40},
    {"networks that diverge",
     DATA("regime2") "activation = linear\ngate = constant\n[training]\neta0 = 0.6\n[reference]\n"
                     "widths = 2 16\nseeds = 6\n[solver]\nreplicates = 2\nsites = 64\n"
                     "expert_sites = 64\n[output]\nweights = final\n",
     12},
};

/* --- runs ------------------------------------------------------------------------------------ */

static int clean(void **state) {
    (void)state;
    cli_program("dmft-solve");
    return system("rm -rf out.* whole.* case.ini");
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
static bool cut(const char *const *arg, const char *file, int number, double within,
                const char *what) {
    FREED(cli_free) struct cli_result result;
    pid_t pid = cli_start(arg, 0);
    while (!cli_exists(file) && !is_gone(pid))
        cli_pause(0.001);
    cli_pause(within * random_share());
    kill(pid, number);
    cli_wait(pid, &result);
    bool done = result.code == 0;
    if (!done && result.code != -number && result.code != CODE_INTERRUPTED)
        fail_msg("%s: exit %d: %s", what, result.code, result.err);
    return !done;
}

static int met; /* cuts of runs that had a state by then */

/* Cut up to twice (`long`: three times), then to its end; other threads, and the backend shadow, go
 * on. A state of every step meets SIGKILL; or the one state is that of the signal. */
static void cut_and_go_on(const char *program, const char *steps, int number, double time,
                          const char *what) {
    static const char *const change[] = {"--solver.threads=1", "--solver.backend=shadow",
                                         "--solver.threads=3"};
    static const char state[] = "out.h5.state/limit_0000.state";
    bool killed = number == SIGKILL;
    const char *often = killed ? "--output.checkpoint=1e-9" : "--output.checkpoint=99";
    cli_program(program);
    bool more = cut(ARGS("--quiet", "-o", "out.h5", "case.ini", steps, often),
                    killed ? state : "out.h5.state/ini", number, time, what);
    for (int left = cuts > 1 ? 2 : 1; more && left; left--) {
        met += cli_exists(state);
        more = cut(ARGS("--quiet", "--continue", "out.h5", change[left]), "out.h5.state/ini",
                   number, time, what);
    }
    if (more)
        cli_must(ARGS("--quiet", "--continue", "out.h5", change[0]));
}

/* Also: a run in two pieces, the first of which was done, with two times or more: at one there is
 * nothing yet that an adaptive step must know. */
TEST_AFTER(clean, pieces) {
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char whole[64], part[64];
        clean(NULL);
        snprintf(whole, sizeof whole, "--training.steps=%d", kinds[i].steps);
        snprintf(part, sizeof part, "--training.steps=%d",
                 2 + (int)((kinds[i].steps - 2) * random_share()));
        cli_print("case.ini", kinds[i].ini);
        double start = seconds();
        cli_must(ARGS("--quiet", "-o", "whole.h5", "case.ini", whole));
        double time = seconds() - start;
        if (!strstr(kinds[i].ini, "schedule")) {
            cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini", part, "--output.checkpoint=99"));
            cli_must(ARGS("--quiet", "--continue", "out.h5", whole));
            cli_same_files("whole.h5", "out.h5", kinds[i].what, 4);
        }
        for (int k = 0; k < cuts; k++) {
            assert_int_equal(system("rm -rf out.*"), 0);
            cut_and_go_on("dmft-solve", whole, (k + (int)i) % 2 ? SIGTERM : SIGKILL, time,
                          kinds[i].what);
            cli_same_files("whole.h5", "out.h5", kinds[i].what, 4);
            assert_false(cli_exists("out.h5.partial"));
        }
    }
    print_message("%d cuts of runs with a state\n", met);
    assert_true(met > cuts);
}

/* A replicate that was alone has outputs at the test inputs, of which the mean over more is made.
 */
TEST_AFTER(clean, replicates_join) {
    cli_print("case.ini", DATA("regime2") "[data]\ntest_inputs = 3\n[output]\ntest_every = 2\n"
                                          "[solver]\nsites = 96\n" EXPERTS);
    cli_must(ARGS("--quiet", "-o", "whole.h5", "case.ini", "--training.steps=9",
                  "--solver.replicates=3"));
    cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini", "--training.steps=5",
                  "--solver.replicates=1", "--output.checkpoint=99"));
    cli_must(
        ARGS("--quiet", "--continue", "out.h5", "--training.steps=9", "--solver.replicates=3"));
    cli_same_files("whole.h5", "out.h5", "replicates", 4);
}

/* --- other programs -------------------------------------------------------------------------- */

static const char both[] = DATA("regime2") "parameterization = mup mssp\n[training]\nsteps = 30\n"
                                           "[solver]\nsites = 96\nreplicates = 2\n" EXPERTS
                                           "[reference]\nwidths = 8 16 32\nseeds = 2\n";

TEST_AFTER(clean, comparisons) {
    cli_program("dmft-compare");
    cli_print("case.ini", both);
    double start = seconds();
    cli_must(ARGS("--quiet", "-o", "whole.h5", "case.ini"));
    double time = seconds() - start;
    cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini", "--training.steps=7",
                  "--output.checkpoint=99"));
    cli_must(ARGS("--quiet", "--continue", "out.h5", "--training.steps=30"));
    cli_same_files("whole.h5", "out.h5", "dmft-compare", 4);
    for (int k = 0; k < cuts; k++) {
        assert_int_equal(system("rm -rf out.*"), 0);
        cut_and_go_on("dmft-compare", "--training.steps=30", k % 2 ? SIGKILL : SIGTERM, time,
                      "dmft-compare");
        cli_same_files("whole.h5", "out.h5", "dmft-compare", 4);
    }
}

static const char grid[] =
    DATA("regime2") "[training]\nsteps = 60\n" SIZES EXPERTS "[sweep]\ntraining.eta0 = 0.1 0.2\n";

/* The command is repeated; what it has done is not done again, nor a unit that was cut. */
TEST_AFTER(clean, sweeps) {
    cli_program("dmft-sweep");
    cli_print("case.ini", grid);
    cli_must(ARGS("--quiet", "-o", "whole.h5", "case.ini"));
    for (int k = 0; k < cuts; k++) {
        FREED(cli_free) struct cli_result result;
        assert_int_equal(system("rm -rf out.*"), 0);
        const char *const *again =
            ARGS("--quiet", "--jobs", "1", "-o", "out.h5", "case.ini", "--output.checkpoint=1e-9");
        pid_t pid = cli_start(again, 0);
        glob_t found;
        while (glob("out.d/*.h5.state/*.state", 0, NULL, &found) && !is_gone(pid))
            cli_pause(0.001);
        globfree(&found);
        kill(pid, SIGKILL);
        cli_wait(pid, &result);
        cli_must(again);
        cli_same_files("whole.h5", "out.h5", "dmft-sweep", 4);
    }
}

/* --- refusals -------------------------------------------------------------------------------- */

/* A run of four steps with its states, of a data file. */
static void prepare(void) {
    clean(NULL);
    cli_make_data("data.h5", 2, 3, 4, 3, 1, 1);
    cli_print("case.ini", CLI_DATA("data.h5") "[training]\nsteps = 4\n[solver]\nsites = 64\n"
                                              "expert_sites = 64\nreplicates = 1\n[rates]\nQ = 2\n"
                                              "[output]\ncheckpoint = 99\n");
    cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini"));
}

TEST_AFTER(clean, other_settings_are_refused) {
    static const char name[] = "out.h5.state/limit_0000.state";
    prepare();
#define GO_ON(...) ARGS("--quiet", "--continue", "out.h5", __VA_ARGS__)
    cli_refused(2, GO_ON("--training.eta0=0.4"),
                ARGS("--training.eta0=0.4", name, "eta0 = 0.3", "cannot go on"));
    cli_refused(2, GO_ON("--solver.seed=2"), ARGS("--solver.seed=2", name, "seed = 1"));
    cli_refused(2, GO_ON("--output.kernels=full"), ARGS("kernels = diagonal"));
    cli_refused(2, GO_ON("--solver.halves=yes"),
                ARGS("--solver.halves=yes", name, "halves = no", "cannot go on"));
    cli_refused(2, GO_ON("--rates.Q=3"), ARGS("--rates.Q=3", "Q = 2"));
    cli_refused(2, GO_ON("--rates.W_in=3"), ARGS("--rates.W_in=3", "without W_in"));
    cli_refused(2, GO_ON("--training.steps=3"),
                ARGS("--training.steps=3", name, "4 steps", "only become longer"));
    cli_refused(2, GO_ON("--solver.method=fixed_point"), ARGS("checkpoint", "fixed_point"));
    cli_refused(2, ARGS("--continue", "out.h5", "case.ini"),
                ARGS("takes keys to change", "ini file"));
    cli_refused(2, ARGS("--continue", "out.h5", "-o", "new.h5"), ARGS("no -o"));
    cli_refused(2, ARGS("--continue", "new.h5"), ARGS("new.h5.state/ini", "no state was kept"));
    cli_print("case.ini", "");
    assert_int_equal(remove("out.h5"), 0); /* its states are still there */
    cli_refused(2, ARGS("--quiet", "-o", "out.h5", "small.ini", "--output.checkpoint=1"),
                ARGS("out.h5.state", "--continue out.h5", "--force"));
    cli_must(GO_ON("--training.eta0=0.30", "--training.steps=4"));
    cli_make_data("data.h5", 2, 3, 4, 3, 2, 1);
    cli_refused(2, GO_ON("--training.steps=5"), ARGS(name, "other inputs or targets"));
    cli_must(ARGS("--quiet", "--force", "-o", "out.h5", "small.ini", "--output.checkpoint=1"));
    cli_must(ARGS("--quiet", "--force", "-o", "out.h5", "small.ini", "--output.checkpoint=1",
                  "--training.schedule=linear"));
    cli_refused(2, GO_ON("--training.steps=9"),
                ARGS("schedule = linear", "the beginning of one of 9", "schedule_steps"));
}

TEST_AFTER(clean, damaged_states_are_refused) {
    static const char name[] = "out.h5.state/limit_0000.state";
    const char *const *go_on = ARGS("--quiet", "--continue", "out.h5", "--training.steps=5");
    size_t size;
    prepare();
    FREED(base_free) char *good = cli_read(name, &size);
    for (int k = 0; k < 8; k++) {
        cli_write(name, good, size);
        cli_change_state(name, (size_t)((double)(size - 4) * random_share()), "###", 3, false);
        cli_refused(2, go_on, ARGS(name, "is damaged"));
        cli_write(name, good, (size_t)((double)size * random_share()));
        cli_refused(2, go_on, ARGS(name, "is damaged"));
    }
    cli_write(name, good, size);
    cli_change_state(name, 16 + 8, "9", 1, true); /* the first byte of the version */
    cli_refused(2, go_on, ARGS(name, "by version 9", "--force"));
    cli_write(name, good, size);
    cli_change_state(name, 0, "else", 4, true);
    cli_refused(2, go_on, ARGS(name, "no state of this program"));
    cli_write(name, good, size);
    cli_write("out.h5.state/limit_0001.state", good, size);
    cli_refused(2, ARGS("--quiet", "--continue", "out.h5", "--solver.replicates=2"),
                ARGS("limit_0001.state", "another replicate"));
    assert_int_equal(remove(name), 0);
    assert_int_equal(mkfifo(name, 0600), 0);
    cli_refused(2, go_on, ARGS(name, "is not a regular file"));
}

/* Counts and shapes, the words from 1 to `most` in the last share of a state, replaced by wrong
 * ones in turn: the run is refused or comes to its end. */
static void wrong_words(const char *name, const char *const *go_on, double share, int64_t most) {
    size_t size;
    int refused = 0, runs = 0;
    FREED(base_free) char *good = cli_read(name, &size);
    size_t step = cuts > 1 ? 1 : 11; /* bytes; words begin at every place */
    for (size_t at = 16 + (size_t)((1 - share) * (double)size); at + 16 <= size; at += step) {
        int64_t word;
        memcpy(&word, good + at, sizeof word);
        if (word < 1 || word > most)
            continue;
        FREED(cli_free) struct cli_result result;
        const int64_t wrong[] = {2 * word, -1, 0, 3, 1ll << 31, 1ll << 62};
        int64_t put = wrong[share < 1 ? 0 : (size_t)runs % COUNT(wrong)];
        runs++;
        cli_write(name, good, size);
        cli_change_state(name, at, &put, sizeof put, true);
        cli_run(&result, go_on);
        FAIL_IF(result.code < 0, "%s, byte %zu: %lld: ended by signal %d: %s", name, at,
                (long long)put, -result.code, result.err);
        refused += result.code != 0;
    }
    print_message("%s: %d of %d states refused\n", name, refused, runs);
    assert_true(refused > 0);
}

/* With a sum that is right but numbers that are not, wherever they stand: a sentence, or a run to
 * its end, but no crash. */
TEST_AFTER(clean, states_with_a_right_sum_may_be_wrong) {
    static const char name[] = "out.h5.state/limit_0000.state";
    static const char *const cut[] = {"\"eta0\"", "\"eta0\""}, *const with[] = {"!", ","};
    const char *const *go_on = ARGS("--quiet", "--continue", "out.h5", "--training.steps=5");
    size_t size;
    prepare();
    FREED(base_free) char *good = cli_read(name, &size);
    for (int k = 0; k < 2; k++) {
        const char *at = memmem(good, size, cut[k], strlen(cut[k]));
        cli_write(name, good, size);
        cli_change_state(name, (size_t)(at - good) + (k ? 6u : 0u), with[k], 1, true);
        cli_refused(2, go_on, ARGS(name, "its keys and values cannot be read"));
    }
    cli_write(name, good, size);
    wrong_words(name, go_on, 1, 1000);
    /* what the coordinate check keeps of every matrix and of the experts */
    cli_must(ARGS("--quiet", "--force", "-o", "out.h5", "case.ini", "--reference.widths=8",
                  "--reference.seeds=1", "--reference.coordinate_check=yes",
                  "--solver.replicates=0", "--output.kernels=none"));
    wrong_words("out.h5.state/N0008_0000.state", go_on, 0.5, 16);
}

/* Of networks, too, before anything is computed. */
TEST_AFTER(clean, states_of_networks_are_refused) {
    static const char *const name[] = {"out.h5.state/N0008_0001.state",
                                       "out.h5.state/N0016_0001.state"};
    cli_must(ARGS("--quiet", "-o", "out.h5", "small.ini", "--reference.widths=8 16",
                  "--reference.seeds=2", "--output.checkpoint=99"));
    for (size_t i = 0; i < COUNT(name); i++) {
        cli_change_state(name[i], 16 + 8, "9", 1, true);
        cli_refused(2, GO_ON("--training.steps=5"), ARGS(name[i], "by version 9"));
        assert_false(cli_exists("out.h5.partial"));
        cli_change_state(name[i], 16 + 8, "0", 1, true);
    }
}

/* A result goes on by the program that wrote it: another would begin anew and replace it. */
TEST_AFTER(clean, results_of_other_programs_are_refused) {
    static const char one[] =
        DATA("regime2") "parameterization = mup\n[training]\nsteps = 3\n" SIZES EXPERTS;
    static const char *const program[] = {"dmft-solve", "dmft-compare"};
    const char *const *go_on = ARGS("--quiet", "--continue", "out.h5");
    size_t size, now;
    for (int k = 0; k < 2; k++) {
        char remedy[64];
        clean(NULL);
        cli_print("case.ini", one);
        cli_program(program[k]);
        cli_must(ARGS("--quiet", "-o", "out.h5", "case.ini", "--output.checkpoint=99"));
        char *before = cli_read("out.h5", &size);
        snprintf(remedy, sizeof remedy, "%s --continue out.h5", program[k]);
        cli_program(program[1 - k]);
        cli_refused(2, go_on, ARGS("is of", remedy));
        FREED(base_free) char *after = cli_read("out.h5", &now);
        assert_true(size == now && !memcmp(before, after, size));
        free(before);
        cli_refused(2, ARGS("--quiet", "--continue", "case.ini"),
                    ARGS("case.ini", "is not a result"));
        assert_int_equal(rename("out.h5", "out.h5.partial"), 0); /* as a run that was cut has it */
        cli_refused(2, go_on, ARGS("is of", remedy));
        cli_program(program[k]);
        cli_must(go_on);
    }
    cli_print("case.ini", grid);
    cli_program("dmft-sweep");
    cli_must(ARGS("--quiet", "-o", "table.h5", "case.ini", "--training.steps=2"));
    cli_program("dmft-solve");
    cli_refused(2, ARGS("--continue", "table.h5"), ARGS("is of dmft-sweep", "began the sweep"));
}

AROUND_TESTS(cli_open, cli_close)

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "long"))
        cuts = 20;
    srand(7);
    return run_registered(__FILE__);
}
