/* The program from outside: what can be asked on its command line, and what it answers. */
#define _POSIX_C_SOURCE 200809L
#include "solver/measure/stats.h"
#include "tests/support/cli.h"

#include <gsl/gsl_cdf.h>
#include <sys/stat.h>

/* Standard output of a call that succeeds and says nothing else; to be freed. */
static char *printed(const char *const *arg) {
    struct cli_result result;
    cli_run(&result, arg);
    assert_int_equal(result.code, 0);
    assert_string_equal(result.err, "");
    free(result.err);
    return result.out;
}

CLEAN_TEST(test_help) {
    static const char *const words[] = {"usage: dmft-solve", "Exit codes: 0 done", "network.model ",
                                        "data.file ",        "training.eta0 ",     "solver.sites ",
                                        "reference.widths ", "output.kernels "};
    char *help = printed(ARGS("--help")), *again = printed(ARGS("-h", "none.ini"));
    for (size_t i = 0; i < COUNT(words); i++)
        if (!strstr(help, words[i]))
            fail_msg("--help does not tell of %s", words[i]);
    assert_string_equal(help, again);
    free(help);
    free(again);
    char *version = printed(ARGS("--version")), *end = strchr(version, '\n');
    assert_true(!strncmp(version, "dmft-solve ", 11) && version[11] >= '0' && version[11] <= '9');
    assert_true(end && !end[1]);
    free(version);
}

/* A program starts a second time where variables of libraries are not set, as they are in tests:
 * the run that it then makes has the words, the output and the bits of one that need not. */
CLEAN_TEST(test_second_start) {
    static const char *const names[] = {"GOMP_SPINCOUNT", "OPENBLAS_NUM_THREADS"};
    double *loss[2];
    size_t count[2];
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < COUNT(names); i++)
            assert_int_equal(k ? setenv(names[i], i ? "1" : "10000", 1) : unsetenv(names[i]), 0);
        cli_solve(ARGS("--training.steps=5"));
        hid_t file = cli_file("out.h5");
        loss[k] = cli_values(file, "limit/loss", &count[k]);
        H5Fclose(file);
        cli_clean(NULL);
    }
    assert_int_equal(count[0], count[1]);
    assert_memory_equal(loss[0], loss[1], count[0] * sizeof **loss);
    free(loss[0]);
    free(loss[1]);
}

/* Half a unit of the last of three digits. */
static double rounding(double x) {
    return x > 0 ? 0.5 * pow(10, floor(log10(x)) - 2) : 0;
}

/* What is told of memory fits together, whatever is the largest part: a run needs its results, and
 * its limit or its networks; states are of both. Two threads, and two runs of each. */
CLEAN_TEST(test_memory) {
    static const char *const large[][2] = {
        {"--solver.sites=20000", "--solver.expert_sites=20000"},
        {"--reference.widths=1000"},
        {"--training.steps=20000"},
    };
    static const char form[] = "memory: about %lf GB for the limit, %lf GB for "
                               "networks, %lf GB of results, beside %*f GB of the program and its "
                               "data\n%*[^:]: %*[^:]: the run would need about %lf GB";
    for (size_t i = 0; i < COUNT(large); i++) {
        double limit, networks, results, all, disk;
        FREED(cli_free) struct cli_result result;
        cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--reference.widths=64",
                              "--reference.seeds=2", "--solver.threads=2", "--output.checkpoint=1",
                              "--solver.max_memory=0.001", large[i][0], large[i][1]));
        assert_int_equal(result.code, 2);
        const char *states = strstr(result.err, "states: "), *memory = strstr(states, "memory: ");
        assert_int_equal(sscanf(states, "states: at most about %lf GB on disk", &disk), 1);
        assert_int_equal(sscanf(memory, form, &limit, &networks, &results, &all), 4);
        double room = rounding(limit) + rounding(networks) + rounding(results);
        double off = fmax(limit, networks) + results - all;
        double off_disk = limit + networks + results - disk;
        if (fabs(off) > 1.001 * (room + rounding(all)) ||
            fabs(off_disk) > 1.001 * (room + rounding(disk)))
            fail_msg("%s: %g or %g GB too much in %s", large[i][0], off, off_disk, result.err);
    }
}

/* Results of two tangent kernels [T][P][P], beside which all others are small (two per cent): every
 * run of both, their means and errors twice in the file that is written, and once those of one
 * kernel, as they are computed. Kept run by run, runs are twice in the file, too; in halves all is
 * there three times. */
CLEAN_TEST(test_memory_of_results) {
    enum { T = 1000, P = 100 };
    static const struct {
        const char *arg[2];
        double kernels; /* as many numbers as that many kernels have */
    } cases[] = {
        {{"--solver.replicates=1", NULL}, 2 * (1 + 4) + 2},
        {{"--solver.replicates=3", NULL}, 2 * (3 + 4) + 2},
        {{"--solver.replicates=3", "--output.runs=yes"}, 2 * (3 + 4 + 2 * 3) + 2},
        {{"--solver.replicates=3", "--solver.halves=yes"}, 3 * (2 * (3 + 4) + 2)},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        double results = NAN, want = 8e-9 * T * P * P * cases[i].kernels;
        FREED(cli_free) struct cli_result result;
        cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--network.model=dense",
                              "--data.inputs=100", "--training.steps=1000", "--reference.widths=",
                              "--output.kernels=none", "--output.tangent=sum",
                              "--solver.max_memory=0.1", cases[i].arg[0], cases[i].arg[1]));
        assert_int_equal(result.code, 2);
        const char *memory = strstr(result.err, "networks, ");
        assert_non_null(memory);
        assert_int_equal(sscanf(memory, "networks, %lf GB of results", &results), 1);
        if (!(results > want - rounding(want) && results < 1.02 * want))
            fail_msg("%s %s: %g GB, not %g, in %s", cases[i].arg[0],
                     cases[i].arg[1] ? cases[i].arg[1] : "", results, want, result.err);
    }
}

/* What cannot be printed is a failure. */
CLEAN_TEST(test_full_disk) {
    static const char *const words[] = {"--help", "--version", "--defaults"};
    for (size_t i = 0; i < COUNT(words); i++) {
        FREED(cli_free) struct cli_result result;
        cli_wait(cli_start(ARGS(words[i]), CLI_FULL), &result);
        assert_true(cli_ended(&result, 1, ARGS("cannot write to standard output")));
    }
}

CLEAN_TEST(test_defaults) {
    static const char unset[] = "# model =\n", set[] = "model = regime2\n";
    static char text[1 << 16];
    char *defaults = printed(ARGS("--defaults")), *at = strstr(defaults, unset);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - defaults), defaults, set,
             at + strlen(unset));
    cli_print("defaults.ini", text);
    free(defaults);
    const char *const *tiny = ARGS("defaults.ini", "--solver.sites=64", "--solver.expert_sites=64",
                                   "--solver.replicates=2", "--training.steps=3");
    FREED(cli_free) struct cli_result result;
    cli_run(&result, tiny);
    if (result.code)
        fail_msg("refused: %s", result.err);
    assert_int_equal(cli_complete("defaults.h5"), 1); /* in the current folder, without -o */
}

#define TWICE "given more than once on the command line, where the last value counts: "

CLEAN_TEST(test_overrides) {
    size_t count;
    int steps = 0;
    cli_solve(ARGS("--training.steps=9", "--training.steps=5"));
    hid_t file = cli_file("out.h5");
    free(cli_values(file, "limit/loss", &count));
    assert_int_equal(count, 5);
    hid_t attribute =
        H5Aopen_by_name(file, "parameters", "training.steps", H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Aread(attribute, H5T_NATIVE_INT, &steps) >= 0);
    assert_int_equal(steps, 5);
    H5Aclose(attribute);
    H5Fclose(file);
    cli_clean(NULL);
    struct cli_result result;
    cli_run(&result, ARGS("-o", "out.h5", "small.ini", "--training.steps=9", "training . steps=5"));
    assert_non_null(strstr(result.err, "note: " TWICE "training . steps=5\n"));
    cli_free(&result);
    file = cli_file("out.h5");
    char *notes = cli_words(file, "notes/text");
    assert_non_null(strstr(notes, TWICE "training . steps=5\n"));
    free(notes);
    H5Fclose(file);
    cli_clean(NULL);
    cli_run(&result, ARGS("-o", "out.h5", "small.ini", "--training.steps=5", "--training.eta0=1"));
    assert_null(strstr(result.err, "given more than once"));
    cli_free(&result);
    cli_clean(NULL);
}

/* A file whose name has an equals sign is a file, and an override where there is none of that name.
 */
CLEAN_TEST(test_file_or_override) {
    struct cli_result result;
    assert_int_equal(rename("small.ini", "data.inputs=3.ini"), 0);
    cli_run(&result, ARGS("--program", "data.inputs=3.ini"));
    if (result.code)
        fail_msg("%s", result.err);
    cli_free(&result);
    assert_int_equal(rename("data.inputs=3.ini", "small.ini"), 0);
    cli_refused(2, ARGS("--program", "small.ini", "data.inputs=3.ini"), ARGS("3.ini"));
}

/* A path in the ini counts from the ini's folder, on the command line from here. */
CLEAN_TEST(test_data_paths) {
    const char *from_ini = "folder/run.ini", *more = "--data.file=good.h5";
    cli_make_data("good.h5", 2, 3, 4, 3, 3, -1);
    assert_int_equal(mkdir("folder", 0777), 0);
    cli_print(from_ini, CLI_DATA("../good.h5") "[training]\nsteps = 2\n[solver]\nsites = 64\n"
                                               "expert_sites = 64\nreplicates = 2\n");
    for (int k = 0; k < 2; k++) {
        struct cli_result result;
        size_t count, same;
        cli_run(&result, ARGS(from_ini, "-o", "out.h5", k ? more : NULL));
        if (result.code)
            fail_msg("refused: %s", result.err);
        hid_t in = cli_file("good.h5"), out = cli_file("out.h5");
        double *X = cli_values(in, "X", &count), *copy = cli_values(out, "data/X", &same);
        assert_int_equal(count, same);
        assert_memory_equal(X, copy, count * sizeof *X);
        free(X);
        free(copy);
        H5Fclose(in);
        H5Fclose(out);
        cli_free(&result);
        cli_clean(NULL);
    }
}

/* The table that is printed against the file: means, and t_2(.975) standard errors of three runs;
 * of their extrapolation t of its own degrees of freedom. */
CLEAN_TEST(test_table) {
    static const char *const places[] = {"limit", "reference/N0008", "reference/N0016",
                                         "reference/N0032"};
    static const int widths[] = {8, 16, 32};
    struct cli_result result;
    cli_run(&result,
            ARGS("small.ini", "-o", "out.h5", "--solver.replicates=3", "--reference.widths=8 16 32",
                 "--reference.seeds=3", "--training.steps=3"));
    assert_int_equal(result.code, 0);
    assert_non_null(
        strstr(result.err, "3 replicates (bottom 64, experts 64, units 128): with 192 "));
    assert_null(strstr(result.out, "give three widths"));
    assert_non_null(
        strstr(result.out, "with 1 degree of freedom: it is above 3.8 for\none good fit"));
    const char *row = strstr(result.out, "      z\n");
    hid_t file = cli_file("out.h5");
    for (int t = 0; t < 3; t++) {
        char want[256];
        struct stats_mean of[4];
        int length = snprintf(want, sizeof want, "\n%4d", t);
        for (int k = 0; k < 4 + (t > 0); k++) {
            char name[64], cell[64];
            size_t count;
            if (k == 4) {
                struct stats_fit line = stats_extrapolate(widths, of + 1, 3);
                snprintf(cell, sizeof cell, "%.5g +- %.1g", line.a,
                         line.se * gsl_cdf_tdist_Pinv(0.975, line.freedom));
                snprintf(want + length, sizeof want - (size_t)length, "  %18s %6.1f %6.1f\n", cell,
                         line.chi2, stats_z(line, of[0]));
                break;
            }
            snprintf(name, sizeof name, "%s/loss", places[k]);
            double *mean = cli_values(file, name, &count);
            snprintf(name, sizeof name, "%s/loss_se", places[k]);
            double *se = cli_values(file, name, &count);
            of[k] = (struct stats_mean){mean[t], se[t], 3};
            snprintf(cell, sizeof cell, "%.5g +- %.1g", mean[t], 4.302652729911275 * se[t]);
            length += snprintf(want + length, sizeof want - (size_t)length, "  %18s", cell);
            free(mean);
            free(se);
        }
        row = row ? strchr(row + 1, '\n') : NULL;
        if (!row || strncmp(row, want, strlen(want)))
            fail_msg("wanted:%s\nin:\n%s", want, result.out);
    }
    H5Fclose(file);
    cli_free(&result);
    cli_clean(NULL);
}

AROUND_TESTS(cli_open, cli_close)
