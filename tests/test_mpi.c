/* Under mpirun: 2 and 3 ranks, and the program built without MPI, write the same numbers, bit for
 * bit, whether ranks share out runs (as many as ranks, or more) or the sites of one run;
 * failures and signals end all ranks. The programs built for MPI lie beside this one. */
#define _GNU_SOURCE

#include "kernels/array/dist.h"
#include "models/language/program.h"
#include "solver/command.h"
#include "tests/support/cli.h"

#include <sched.h>

static char folder[PATH_MAX]; /* of the programs */
static char built[PATH_MAX];  /* the folder of those that were built without MPI */
static char top[PATH_MAX];    /* of the project */

/* Of all runs. Populations of 1100 and 900 sites are 5 and 4 blocks: shares differ, and the last
 * block is not full. */
#define BEGIN(model) "[data]\ninputs = 3\ndimension = 4\n[network]\nmodel = " model "\n"
#define SOLVER "[training]\nsteps = 4\n[solver]\nthreads = 1\nreplicates = 1\nsites = 1100\n"
#define EXPERTS "expert_sites = 900\n"

static const STRUCT(const char *what, *ini) cases[] = {
    {"dense", BEGIN("dense") SOLVER},
    {"more blocks than parts", BEGIN("dense") "[training]\nsteps = 2\n[solver]\nthreads = 1\n"
                                              "replicates = 1\nsites = 17000\n"},
    {"Adam, read-out and all", BEGIN("dense") "[training]\noptimizer = adam\nsteps = 4\n[solver]\n"
                                              "threads = 1\nreplicates = 1\nsites = 800\n"},
    {"groups, top-K, softmax, two-time kernels",
     BEGIN("regime2") "gate = softmax\nrho = 0.25\nexpert_width = 3\n" SOLVER EXPERTS
                      "[output]\nkernels = full\nresponses = yes\n"},
    {"tiles of shared units",
     BEGIN("regime3") "parameterization = mup\nrho = 0.5\n" SOLVER EXPERTS "unit_sites = 800\n"},
    {"tiles of units that are not shared out",
     BEGIN("regime3") "parameterization = mup\n" SOLVER EXPERTS "unit_sites = 64\n"},
    {"experts that are not shared out",
     BEGIN("residual") "alpha = 1\nrho = 0.25\nexpert_width = 2\neta_bias = 0.1\n" SOLVER
                       "expert_sites = 200\n"},
    {"lines of [init] and [rates]",
     BEGIN("regime2") SOLVER EXPERTS "[init]\nW_out = 0.5\n[rates]\nQ = 3\nW_in = 0\n"},
    {"fixed point", BEGIN("regime2") SOLVER EXPERTS "method = fixed_point\n"},
    {"minibatches and test inputs",
     BEGIN("regime2") "[data]\ntest_inputs = 2\n[training]\nbatch = 2\n" SOLVER EXPERTS},
    {"clipped momentum at a falling rate",
     BEGIN("regime2") "[training]\noptimizer = momentum\nschedule = linear\nclip = 0.1\n" SOLVER
         EXPERTS},
    {"Muon, of matrices and expert by expert",
     BEGIN("regime2") "expert_width = 3\n[training]\noptimizer = muon\nweight_decay = 0.01\n" SOLVER
         EXPERTS},
    {"the backend shadow", BEGIN("regime2") SOLVER EXPERTS "backend = shadow\n"},
    {"networks that diverge",
     BEGIN(
         "regime2") "activation = linear\ngate = constant\n[reference]\nwidths = 2 16\nseeds = 6\n"
                    "[training]\neta0 = 0.6\nsteps = 4\n[solver]\nthreads = 1\nreplicates = 2\n"
                    "sites = 64\nexpert_sites = 64\n"},
    {"whole runs: three replicates, two networks of each of two widths",
     BEGIN("regime2") "[reference]\nwidths = 16 32\nseeds = 2\n[training]\nsteps = 4\n[solver]\n"
                      "threads = 1\nreplicates = 3\nsites = 256\nexpert_sites = 256\n"
                      "[output]\nweights = both\n"},
};

static int open_all(void **state) {
    /* Debian's mpirun refuses root, which tests in a container are. */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    /* All ranks have one core, so that those that wait leave it to the one that computes: every
     * network takes 3 CPU s for 20, and 4 s for 60 beside other programs. */
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one))
        return -1;
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    return cli_open(state);
}

/* Ranks that wait for one another for ever are ended by the seconds that they compute, and not by a
 * clock, which on a busy machine ends what is right. All of this test computes less than a minute.
 */
#define CPU_LIMIT "ulimit -t 600;"

/* Exit status, of a signal 128 and its number; more ranks than cores are allowed. before: in front
 * of mpirun. */
static int ranks(const char *before, int n, const char *program, const char *arguments) {
    char command[5 * PATH_MAX];
    snprintf(command, sizeof command,
             "%s mpirun --oversubscribe -n %d %s/%s --quiet --force %s </dev/null >stdout.txt "
             "2>stderr.txt",
             before, n, folder, program, arguments);
    return system(command) >> 8;
}

static void must(int n, const char *program, const char *arguments) {
    int code = ranks(CPU_LIMIT, n, program, arguments);
    if (code) {
        char *text = cli_read("stderr.txt", NULL);
        fail_msg("%d ranks, %s %s: exit code %d: %s", n, program, arguments, code, text);
    }
}

/* The program built without MPI. */
static void plain(const char *output) {
    FREED(cli_free) struct cli_result result;
    cli_run(&result, ARGS("--quiet", "--force", "-o", output, "case.ini"));
    FAIL_IF(result.code, "without MPI: %s", result.err);
}

/* What n ranks make of inis, beside what the program makes of them that was built without MPI. One
 * job solves all of them (main): to start one takes longer than a run. */
static void same_for_ranks(const char *inis, int n) {
    char arguments[4 * PATH_MAX];
    snprintf(arguments, sizeof arguments,
             "for i in %s; do %s/dmft-solve --quiet --force -o $i.0 $i || exit 1; done", inis,
             built);
    FAIL_IF(system(arguments), "without MPI: %s", inis);
    must(n, "test_mpi", inis);
    for (const char *ini = inis; *ini; ini += strspn(ini, " ")) {
        char first[NAME_MAX], second[NAME_MAX];
        int length = (int)strcspn(ini, " ");
        snprintf(first, sizeof first, "%.*s.0", length, ini);
        snprintf(second, sizeof second, "%.*s.%d", length, ini, n);
        cli_same_files(first, second, second, 11);
        ini += length;
    }
}

/* One rank of such a job: solves these inis, each into FILE.RANKS. */
static int solve_all(int argc, char **argv) {
    struct err err = {0};
    int code = CODE_OK;
    const volatile sig_atomic_t *stop = command_signals();
    command_start(&argc, &argv);
    for (int i = 3; i < argc && !code; i++) { /* behind --quiet and --force */
        FREED(run_free) struct run run = {.stop = stop};
        TEXT(output, NAME_MAX, "%s.%d", argv[i], dist_ranks());
        code = run_configure(&run, argv[i], 0, NULL, &err) || run_open(&run, output, true, &err) ||
                       run_march(&run, &err) || run_finish(&run, true, &err)
                   ? err.code
                   : CODE_OK;
    }
    return command_end("test_mpi", code, &err);
}

/* Every second case by two ranks, and the others by three, which have all networks below. */
CLEAN_TEST(ranks_write_the_same) {
    for (size_t odd = 0; odd < 2; odd++) {
        char inis[32 * COUNT(cases)] = "";
        for (size_t i = odd, end = 0; i < COUNT(cases); i += 2) {
            TEXT(name, 32, "case_%zu.ini", i);
            cli_print(name, cases[i].ini);
            end += (size_t)snprintf(inis + end, sizeof inis - end, "%s ", name);
        }
        same_for_ranks(inis, 2 + (int)odd);
    }
}

CLEAN_TEST(every_network) {
    char inis[1024] = "";
    size_t end = 0;
    for (const struct model *const *model = model_list; *model; model++) {
        char name[64], ini[2 * PATH_MAX];
        const char *keys = (*model)->solver_keys ? (*model)->solver_keys : "";
        bool experts = strstr(keys, "expert_sites") && strcmp((*model)->name, "residual");
        snprintf(ini, sizeof ini,
                 "include = %s/data/%s.ini\n[data]\ninputs = 3\n[training]\nsteps = 4\n[solver]\n"
                 "threads = 1\nreplicates = 1\nsites = 1100\n%s%s[reference]\nwidths =\n",
                 top, (*model)->name, experts ? "expert_sites = 64\n" : "",
                 strstr(keys, "unit_sites") ? "unit_sites = 64\n" : "");
        snprintf(name, sizeof name, "%s.ini", (*model)->name);
        cli_print(name, ini);
        end += (size_t)snprintf(inis + end, sizeof inis - end, "%s ", name);
    }
    same_for_ranks(inis, 3);
}

static const char both[] = BEGIN("regime2") "parameterization = mup mssp\n[training]\nsteps = 3\n"
                                            "[solver]\nreplicates = 2\nsites = 256\n" EXPERTS
                                            "[reference]\nwidths = 16 32 64\nseeds = 2\n";

CLEAN_TEST(comparisons_are_the_same) {
    char command[2 * PATH_MAX];
    cli_print("case.ini", both);
    snprintf(command, sizeof command, "%s/dmft-compare --quiet -o plain.h5 case.ini", built);
    assert_int_equal(system(command), 0);
    for (int n = 2; n <= 3; n++) {
        must(n, "dmft-compare", "-o out.h5 case.ini");
        cli_same_files("plain.h5", "out.h5", "dmft-compare", 11);
    }
}

/* Kept by two ranks, by the program built without MPI, by three: each goes on from the one before;
 * sites of the limit are shared, networks dealt out. */
CLEAN_TEST(states_go_on) {
    static const char *const more[] = {"[training]\noptimizer = adam\n",
                                       "[reference]\ndraws = balanced\nprecision = single\n"};
    for (size_t i = 0; i < COUNT(more); i++) {
        struct cli_result result;
        TEXT(ini, 1024, "%s%s",
             BEGIN("regime2") "[training]\nsteps = 6\n[solver]\nsites = 800\nreplicates = 1\n"
                              "expert_sites = 700\n[reference]\nwidths = 16\nseeds = 2\n"
                              "[output]\ncheckpoint = 9\n",
             more[i]);
        assert_int_equal(system("rm -rf out.h5 out.h5.state"), 0);
        cli_print("case.ini", ini);
        plain("plain.h5");
        must(2, "dmft-solve", "-o out.h5 case.ini --training.steps=2");
        assert_true(cli_exists("out.h5.state/limit_0000.state"));
        assert_true(cli_exists("out.h5.state/N0016_0001.state"));
        cli_run(&result, ARGS("--quiet", "--continue", "out.h5", "--training.steps=3"));
        FAIL_IF(result.code, "without MPI: %s", result.err);
        cli_free(&result);
        must(3, "dmft-solve", "--continue out.h5 --training.steps=6");
        cli_same_files("plain.h5", "out.h5", more[i], 11);
    }
}

/* Every step needs exchanges where sites are shared. */
CLEAN_TEST(exchanges_are_told) {
    double exchanges[2], megabytes[2];
    cli_print("case.ini", BEGIN("dense") SOLVER);
    for (int k = 0; k < 2; k++) {
        must(2, "dmft-solve",
             k ? "-o out.h5 case.ini --profile --training.steps=8"
               : "-o out.h5 case.ini --profile");
        char *text = cli_read("stderr.txt", NULL), *line = strstr(text, "ranks: ");
        if (!line || sscanf(line, "ranks: %lf exchanges, %lf MB received by rank 0", &exchanges[k],
                            &megabytes[k]) != 2)
            fail_msg("no exchanges in: %s", text);
        free(text);
    }
    assert_true(exchanges[0] > 4 && exchanges[1] >= exchanges[0] + 4 && exchanges[1] < 1e6);
    assert_true(megabytes[0] > 0 && megabytes[1] > megabytes[0] && megabytes[1] < 1e3);
}

/* How often a word is in a text. */
static int occurrences(const char *text, const char *word) {
    int count = 0;
    while ((text = strstr(text, word))) {
        text += strlen(word);
        count++;
    }
    return count;
}

/* The message comes once, from whatever rank, with the exit code of the program. */
CLEAN_TEST(failures_end_all_ranks) {
    static const STRUCT(const char *arguments, *message; int code) bad[] = {
        {"-o none/out.h5 small.ini", "No such file or directory", 2},
        {"-o out.h5 missing.ini", "cannot be opened", 2},
        {"-o out.h5 small.ini --training.eta0=1e6 --training.steps=50", "exceeds 1e+06", 3},
        {"-o out.h5 small.ini --training.eta0=1e6 --training.steps=50 --solver.sites=1024 "
         "--solver.replicates=1",
         "exceeds 1e+06", 3},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        int code = ranks(CPU_LIMIT, 2, "dmft-solve", bad[i].arguments);
        FREED(base_free) char *text = cli_read("stderr.txt", NULL);
        if (code != bad[i].code || occurrences(text, bad[i].message) != 1)
            fail_msg("%s: exit %d\n%s", bad[i].arguments, code, text);
    }
    assert_int_equal(cli_complete("out.h5.partial"), 0);
}

/* The sites of the limit are shared, those of its halves are too few: one rank alone makes and
 * loses a half of the first parameterization. The second is computed all the same. */
CLEAN_TEST(halves_that_one_rank_loses) {
    cli_print("case.ini", "[network]\nmodel = regime1\nparameterization = mssp mup\nexperts = 2\n"
                          "[data]\ninputs = 4\ndimension = 8\n[training]\nsteps = 8\neta0 = 5.5\n"
                          "[solver]\nsites = 512\nreplicates = 1\nhalves = yes\nthreads = 1\n"
                          "[reference]\nwidths = 16 32\nseeds = 2\n");
    for (int n = 1; n <= 2; n++) {
        char name[16], arguments[64];
        snprintf(name, sizeof name, n > 1 ? "two.h5" : "one.h5");
        snprintf(arguments, sizeof arguments, "-o %s case.ini", name);
        int code = ranks(CPU_LIMIT, n, "dmft-compare", arguments);
        FREED(base_free) char *text = cli_read("stderr.txt", NULL);
        if (code != 3 || occurrences(text, "mssp: with half the sites (halves)") != 1)
            fail_msg("%d ranks: exit %d\n%s", n, code, text);
    }
    cli_same_files("one.h5.partial", "two.h5.partial", "after a half is lost", 11);
}

/* Only rank 0 makes the file, and all hear that it cannot: the run goes on, with a warning. */
CLEAN_TEST(states_that_cannot_be_made) {
    char command[3 * PATH_MAX];
    must(2, "dmft-solve",
         "-o out.h5 small.ini --training.steps=2 --solver.sites=1024 --solver.replicates=1 "
         "--output.checkpoint=9");
    assert_int_equal(system("mkdir out.h5.state/limit_0000.state.new"), 0);
    snprintf(command, sizeof command,
             CPU_LIMIT " mpirun --oversubscribe -n 2 %s/dmft-solve --continue out.h5 "
                       "--training.steps=3 </dev/null >stdout.txt 2>&1",
             folder);
    assert_int_equal(system(command), 0);
    FREED(base_free) char *text = cli_read("stdout.txt", NULL);
    if (occurrences(text, "warning: cannot create out.h5.state/limit_0000.state.new") != 1)
        fail_msg("%s", text);
}

/* The signal comes once the file is there; mpirun ends its ranks a second later. */
CLEAN_TEST(signals_leave_a_readable_file) {
    for (int replicates = 1; replicates <= 2; replicates++) { /* sites, then runs are shared */
        char command[3 * PATH_MAX];
        cli_clean(NULL);
        snprintf(command, sizeof command,
                 "mpirun --oversubscribe -n 2 %s/dmft-solve --quiet -o out.h5 small.ini "
                 "--training.steps=100000 --solver.sites=1024 --solver.replicates=%d "
                 "</dev/null >stdout.txt 2>stderr.txt & "
                 "for i in $(seq 600); do [ -s out.h5.partial ] && break; sleep 0.1; done; "
                 "kill -INT $!; wait $!",
                 folder, replicates);
        assert_int_not_equal(system(command), 0);
        assert_false(cli_exists("out.h5"));
        assert_int_equal(cli_complete("out.h5.partial"), 0);
    }
}

AROUND_TESTS(open_all, cli_close)

int main(int argc, char **argv) {
    const char *without = getenv("DMFT_SOLVE");
    if (argc > 1)
        return solve_all(argc, argv);
    if (argc < 1 || !realpath(argv[0], folder) || !realpath(".", top) ||
        !realpath(without ? without : "./dmft-solve", built))
        return 1;
    *strrchr(folder, '/') = *strrchr(built, '/') = 0;
    return run_registered("mpi");
}
