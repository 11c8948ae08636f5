/* One call of a program fails: the n-th allocation, write, launch, copy or routine of LAPACK, of
 * limits, networks, fixed points, sweeps and comparisons. It ends with one sentence and the code of
 * that failure, or passes it over and does all it should; what it leaves is whole. A few n in make
 * test, every n with the argument long (twenty minutes); places: one allocation, and one call of
 * HDF5, of every place (a minute). */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/cli.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long most = 3; /* calls that fail in turn, of each kind and program; 0: every one */
static bool places;   /* of kinds that count places alone */

static const char single[] =
    "[network]\nmodel = regime1\nexperts = 2\nq0 = 1\n[data]\ninputs = 2\ndimension = 3\n"
    "[training]\nsteps = 2\n[solver]\nsites = 8\nreplicates = 2\nthreads = 1\n";
static const char mixture[] =
    "[network]\nmodel = regime2\nexpert_width = 2\nkappa = 1\n[data]\nsource = file\n"
    "file = d.csv\n[training]\nsteps = 2\n[solver]\nsites = 8\nexpert_sites = 8\n"
    "replicates = 2\nthreads = 1\n[reference]\nwidths = 4 8\nseeds = 2\ncoordinate_check = yes\n";
static const char networks[] = "[reference]\nwidths = 4 8\nseeds = 2\n";

enum { ALLOC, PLACE, FILES, WRITE, LAUNCH, NUMBERS, LAPACK, KINDS };
static const struct {
    const char *name;
    int code; /* of the failure */
} kinds[KINDS] = {{"alloc", 1},  {"place", 1}, {"hdf5", 1},  {"write", 1},
                  {"launch", 1}, {"nan", 3},   {"lapack", 3}};

static const struct {
    const char *program, *arg[8];
    long least[KINDS]; /* calls that there are at least */
} cases[] = {
    {"dmft-solve",
     {"one.ini", "--output.kernels=full", "--output.spectra=Phi1", "--data.test_inputs=2"},
     {500, 200, 40, 9, 0, 0, 9}},
    {"dmft-solve",
     {"two.ini", "--output.checkpoint=1", "--training.optimizer=adam", "--training.eta0=0.05",
      "--reference.coordinate_check=yes"},
     {500, 200, 40, 9, 0, 0, 0}},
    {"dmft-solve",
     {"one.ini", "--solver.method=fixed_point", "--solver.anderson=2"},
     {500, 200, 40, 9, 0, 0, 1}},
    {"dmft-sweep", {"--jobs", "1", "sweep.ini"}, {500, 100, 40, 5, 0, 0, 0}},
    {"dmft-compare", {"two.ini", "--training.batch=1"}, {500, 200, 40, 9, 0, 0, 0}},
    {"dmft-solve",
     {"two.ini", "--solver.backend=cuda", "--reference.seeds=1", "--training.integrator=bs32"},
     {500, 200, 40, 9, 99, 99, 0}},
    {"dmft-solve",
     {"one.ini", "--solver.backend=cuda", "--solver.method=fixed_point", "--solver.fp_tolerance=1"},
     {0, 0, 0, 0, 99, 99, 0}},
    {"dmft-solve", {"three.ini"}, {500, 200, 40, 9, 0, 0, 0}},
};

/* With the n-th call of this kind failing; 0: none. */
static void run(size_t c, const char *kind, long n, const char *output, struct cli_result *result) {
    const char *arg[12] = {"--quiet", "-o", output};
    char fault[64];
    for (int i = 0; i < 8 && cases[c].arg[i]; i++)
        arg[3 + i] = cases[c].arg[i];
    snprintf(fault, sizeof fault, "%s %ld", kind, n);
    setenv("DMFT_FAULT", fault, 1);
    assert_int_equal(system("rm -rf out.*"), 0);
    cli_run(result, arg);
}

static bool half_written(void) {
    DIR *folder = opendir(".");
    bool found = false;
    for (struct dirent *entry; (entry = readdir(folder));)
        found = found || strstr(entry->d_name, ".new");
    closedir(folder);
    return found;
}

/* The names of its matrices, and what states it has to go on from. */
static bool same_rest(void) {
    hid_t file[] = {cli_file("whole.h5"), cli_file("out.h5")};
    bool same = true;
    if (H5Aexists_by_name(file[0], "provenance", "matrices", H5P_DEFAULT) > 0) {
        char *list[] = {cli_text(file[0], "provenance", "matrices"),
                        cli_text(file[1], "provenance", "matrices")};
        same = !strcmp(list[0], list[1]);
        free(list[0]);
        free(list[1]);
    }
    H5Fclose(file[0]);
    H5Fclose(file[1]);
    return same && (!cli_exists("out.h5.state") ||
                    !system("cd out.h5.state && for f in *; do cmp -s $f ../whole.h5.state/$f || "
                            "exit 1; done"));
}

/* Of a run with a fault. A result that is there is whole, and so is what was saved of another. */
static bool good(size_t c, const struct cli_result *result, int code) {
    char what[64];
    snprintf(what, sizeof what, "case %zu", c);
    if (half_written() || (result->code && !cli_ended(result, code, ARGS(NULL))))
        return false;
    if (!result->code && !cli_exists("out.h5"))
        return false;
    if (cli_exists("out.h5")) {
        cli_same_files("whole.h5", "out.h5", what, 4);
        if (!same_rest())
            return false;
    }
    return !cli_exists("out.h5.partial") || cli_complete("out.h5.partial") >= 0;
}

/* Tries them all, whatever fails, and says how many. */
static int check_kind(size_t c, int kind) {
    const char *name = kinds[kind].name;
    struct cli_result result;
    int bad = 0;
    assert_int_equal(system("rm -rf whole.*"), 0);
    run(c, name, 0, "whole.h5", &result);
    if (result.code)
        fail_msg("%s", result.err);
    cli_free(&result);
    char *text = cli_read("count", NULL);
    long calls = atol(text), number = most && most < calls ? most : calls;
    free(text);
    if (calls < cases[c].least[kind])
        fail_msg("case %zu: only %ld calls of %s", c, calls, name);
    for (long k = 0; k < number; k++) { /* spread over all, both ends among them */
        long n = number < 2 ? 1 : 1 + k * (calls - 1) / (number - 1);
        run(c, name, n, "out.h5", &result);
        if (!good(c, &result, kinds[kind].code)) {
            print_error("case %zu, DMFT_FAULT=\"%s %ld\": exit code %d: %s\n", c, name, n,
                        result.code, result.err);
            bad++;
        }
        cli_free(&result);
    }
    print_message("case %zu: %ld of %ld calls of %s, %d bad\n", c, number, calls, name, bad);
    return bad;
}

static void one_call_fails(void **state) {
    (void)state;
    setenv("DMFT_FAULT_COUNT", "count", 1);
    cli_print("one.ini", single);
    char text[1024];
    snprintf(text, sizeof text, "%s%s", single, networks);
    cli_print("two.ini", text);
    snprintf(text, sizeof text, "%s%s[sweep]\ntraining.eta0 = 0.5 1\n", single, networks);
    cli_print("sweep.ini", text);
    cli_print("three.ini", mixture);
    cli_print("d.csv", "1,0.5,1\n-0.5,1,-1\n");
    int bad = 0;
    cli_program("faults/dmft-solve");
    for (size_t c = 0; c < COUNT(cases); c++) {
        cli_program(cases[c].program);
        for (int kind = 0; kind < KINDS; kind++)
            if (cases[c].least[kind] && (!places || kind == PLACE || kind == FILES))
                bad += check_kind(c, kind);
    }
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {TEST(one_call_fails)};
    places = argc > 1 && !strcmp(argv[1], "places");
    if (argc > 1)
        most = strcmp(argv[1], "long") ? atol(argv[1]) : 0; /* 0 of places, too */
    return cmocka_run_group_tests(tests, cli_open, cli_close);
}
