/* dmft-solve --estimate beside the run: memory, and the error of the loss. CPU time is that of a
 * busy machine and judges nothing. */
#define _DEFAULT_SOURCE
#include "tests/support/cli.h"

#include <hdf5_hl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static const char ini[] =
    "[network]\nmodel = regime1\nexperts = 4\nexpert_layers = 2\ngate = softmax\n"
    "[data]\nsource = gaussian\ninputs = 4\ndimension = 10\n"
    "[training]\nsteps = 8\neta0 = 0.3\ngamma0 = 1\n"
    "[solver]\nsites = 4096\nreplicates = 8\n[reference]\nwidths = 16\nseeds = 3\n";

/* The number that stands at the end of the row which begins with this word, before `unit`. */
static double number_of(const char *text, const char *row, const char *unit) {
    const char *line = strstr(text, row), *end = line ? strstr(line, unit) : NULL;
    FAIL_IF(!end, "no %s before %s in\n%s", row, unit, text);
    while (end[-1] == ' ')
        end--;
    while (end[-1] != ' ')
        end--;
    return atof(end);
}

/* The error of the loss comes from eight runs with an eighth of the sites, from four with a half of
 * few sites, or from two with all; of a variance of n runs it is known to 1/sqrt(2 (n - 1)). */
static void known_from(const char *text, int runs) {
    TEXT(wanted, 64, "known to %.0f %%)\n", 100 / sqrt(2 * (runs - 1)));
    FAIL_IF(!strstr(text, wanted), "no %s in\n%s", wanted, text);
}

/* Over the loss, root mean squares over time, as the file has them. */
static double error_of_run(void) {
    enum { T = 8 };
    double loss[T], error[T], up = 0, down = 0;
    hid_t file = cli_file("out.h5");
    assert_true(H5LTread_dataset_double(file, "limit/loss", loss) >= 0);
    assert_true(H5LTread_dataset_double(file, "limit/loss_se", error) >= 0);
    H5Fclose(file);
    for (int t = 0; t < T; t++) {
        up += error[t] * error[t];
        down += loss[t] * loss[t];
    }
    return sqrt(up / down);
}

/* The estimate of large.ini with more arguments, which must succeed. */
static void estimate(struct cli_result *result, const char *const *more) {
    const char *arg[12] = {"--estimate", "large.ini", "--solver.threads=1"};
    for (int k = 0; more[k]; k++)
        arg[k + 3] = more[k];
    cli_run(result, arg);
    FAIL_IF(result->code, "%s", result->err);
}

CLEAN_TEST(an_estimate_is_close_and_leaves_nothing) {
    FREED(cli_free) struct cli_result result;
    struct rusage used;
    cli_run(&result, ARGS("large.ini", "--quiet", "-o", "out.h5", "--solver.threads=1"));
    assert_int_equal(result.code, 0);
    cli_free(&result);
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &used), 0);
    estimate(&result, ARGS(NULL));
    assert_true(number_of(result.out, "networks, N = 16, 3 seeds", " s of CPU") > 0);
#ifndef __SANITIZE_ADDRESS__
    double bytes = number_of(result.out, "all, with the data", " GB") * 1e9,
           ratio = bytes / (1024 * (double)used.ru_maxrss);
    if (ratio < 0.8 || ratio > 1.25)
        fail_msg("memory of the estimate is %g times that of the run", ratio);
#endif
    /* Of two variances of eight runs one is 15 times the other once in a thousand cases. */
    double error = number_of(result.out, "error of the loss", " % as it is") / 100;
    double times = error / error_of_run();
    if (times < 1 / sqrt(15) || times > sqrt(15))
        fail_msg("error of the loss is %g times that of the run", times);
    assert_true(number_of(result.out, "0.01 %   sites =", "replicates") >= 4096);
    known_from(result.out, 8);
    assert_int_equal(system("ls -d dmft_estimate* 2>/dev/null"), 512);
}

/* 24 new rows at each of 12 steps: 300 sites have room for 270, so that all 600 are tried. */
CLEAN_TEST(bases_that_need_all_sites_have_them) {
    FREED(cli_free) struct cli_result result;
    estimate(&result, ARGS("--data.inputs=288", "--data.dimension=300", "--training.batch=24",
                           "--training.steps=12", "--solver.sites=600"));
    assert_true(number_of(result.out, "limit, 8 replicates of 600 sites", " s of CPU") > 0);
    known_from(result.out, 2);
}

/* 1024 sites are few enough that half of them are tried, and then all. */
CLEAN_TEST(few_sites_are_tried_twice) {
    FREED(cli_free) struct cli_result result;
    estimate(&result, ARGS("--solver.sites=1024", "--reference.widths="));
    assert_true(number_of(result.out, "limit, 8 replicates of 1024 sites", " s of CPU") > 0);
    known_from(result.out, 4);
}

CLEAN_TEST(estimates_are_refused) {
    assert_int_equal(setenv("TMPDIR", "folder", 1), 0); /* there is none */
    cli_refused(2, ARGS("--estimate", "large.ini"), ARGS("output folder/dmft_estimate"));
    assert_int_equal(setenv("TMPDIR", ".", 1), 0);
    cli_refused(2, ARGS("--estimate", "large.ini", "-o", "x.h5"), ARGS("--estimate prints"));
    cli_refused(3, ARGS("--estimate", "large.ini", "--training.eta0=1e6", "--training.steps=50"),
                ARGS("a trial with", "has failed"));
    cli_refused(2, ARGS("--estimate", "large.ini", "--solver.sites=none"), ARGS("sites"));
}

/* By a signal to the program alone, and its trial with it: an orphan would be ours. */
CLEAN_TEST(a_signal_ends_the_trial_too) {
    FREED(cli_free) struct cli_result result;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t pid = cli_start(ARGS("--estimate", "large.ini", "--training.steps=3000"), 0);
    while (system("ls dmft_estimate*.h5.partial >/dev/null 2>&1"))
        cli_pause(1e-2);
    cli_pause(0.2);
    kill(pid, SIGTERM);
    cli_wait(pid, &result);
    assert_true(cli_ended(&result, 130, ARGS("interrupted")));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(system("ls -d dmft_estimate* 2>/dev/null"), 512);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

/* What a run says beforehand is within 1.5 of what it takes at most, whatever takes most of it:
 * a run says the one, and the system the other. Results are counted as they are before the file
 * compresses them, and errors of a single run are all NaN: where results are large, 2.5. */
CLEAN_TEST(what_is_said_is_near_the_peak) {
    static const char base[] = "[network]\nmodel = dense\ndepth = 2\n[data]\ninputs = 4\n"
                               "dimension = 10\n[training]\nsteps = 3\neta0 = 0.3\n[solver]\n"
                               "sites = 1024\nreplicates = 0\nthreads = 1\n[output]\n"
                               "kernels = none\n[reference]\nwidths = 64\nseeds = 1\n";
    static const struct {
        bool results; /* are large */
        const char *arg[6];
    } cases[] = {
        {false, {"--reference.widths=2000"}},
        {false, {"--reference.widths=1500", "--training.optimizer=adam", "--training.eta0=0.01"}},
        {false, {"--reference.widths=1500", "--reference.coordinate_check=yes"}},
        LIST(false, {"--network.model=regime3", "--network.iota=0.25", "--network.kappa=0.5",
                     "--reference.widths=256", "--reference.coordinate_check=yes"}),
        {false, {"--reference.widths=850", "--training.optimizer=muon"}},
        {false, {"--data.inputs=700", "--output.sharpness=sum", "--training.steps=1"}},
        {false, {"--data.inputs=1000", "--output.spectra=tangent", "--training.steps=1"}},
        {true, {"--data.inputs=650", "--output.tangent=sum", "--training.steps=2"}},
        {true, {"--reference.widths=1500", "--output.weights=final"}},
        {false,
         {"--network.model=transformer", "--network.head_limit=many", "--data.source=markov",
          "--data.tokens=200", "--data.vocabulary=3", "--training.steps=1"}},
        LIST(true, {"--network.model=transformer", "--reference.widths=256", "--data.source=markov",
                    "--data.tokens=300", "--data.vocabulary=3", "--training.steps=1"}),
        LIST(false, {"--reference.widths=", "--solver.replicates=1", "--solver.sites=20000",
                     "--data.inputs=20"}),
        {false,
         {"--reference.widths=", "--solver.replicates=1", "--solver.sites=6000", "--data.inputs=16",
          "--training.steps=41", "--solver.tolerance=1e-2"}}, /* most rows are not new */
    };
    cli_print("base.ini", base);
    for (size_t k = 0; k < COUNT(cases); k++) {
        double limit, networks, results, rest;
        struct rusage used;
        int status;
        const char *arg[12] = {"base.ini", "-o", "peak.h5", "--force"};
        for (int a = 0; a < 6 && cases[k].arg[a]; a++)
            arg[4 + a] = cases[k].arg[a];
        pid_t pid = cli_start(arg, 0);
        assert_int_equal(wait4(pid, &status, 0, &used), pid);
        FREED(base_free) char *text = cli_read("stderr.txt", NULL);
        const char *line = strstr(text, "memory: about");
        if (status || !line ||
            sscanf(line,
                   "memory: about %lf GB for the limit, %lf GB for networks, "
                   "%lf GB of results, beside %lf GB",
                   &limit, &networks, &results, &rest) != 4)
            fail_msg("%s: %s", cases[k].arg[0], text);
#ifndef __SANITIZE_ADDRESS__
        double said = fmax(limit, networks) + results + rest,
               taken = 1024e-9 * (double)used.ru_maxrss;
        if (!(1.5 * said > taken && (cases[k].results ? 2.5 : 1.5) * taken > said))
            fail_msg("%s: %g GB said, %g taken", cases[k].arg[0], said, taken);
#endif
    }
}

static int open_folder(void **state) {
    int failed = cli_open(state);
    if (!failed)
        cli_print("large.ini", ini);
    return failed || setenv("TMPDIR", ".", 1);
}

AROUND_TESTS(open_folder, cli_close)
