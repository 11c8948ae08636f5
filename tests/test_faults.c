/* One call of a program fails: the n-th allocation, write, launch, copy or routine of LAPACK, of
 * limits, networks, fixed points, sweeps and comparisons. It ends with one sentence and the code of
 * that failure, or passes it over and does all it should; what it leaves is whole. One n of each
 * run and second kind in make test, every n with the argument long (half an hour); places: one
 * allocation, and one call of HDF5, of every place, and thirty of what writes (an hour), of one
 * case alone where its number follows; inside: places of a mutant. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/cli.h"

#include <dirent.h>

static long most = 1;  /* calls that fail in turn, of each kind and program; 0: every one */
static bool places;    /* of kinds that count places alone */
static bool inside;    /* a call that a mutant does not check, where there may be none */
static long only = -1; /* of the cases below, and nothing else; below 0: all */

static const char single[] =
    "[network]\nmodel = regime1\nexperts = 2\nq0 = 1\n[data]\ninputs = 2\ndimension = 3\n"
    "[training]\nsteps = 2\n[solver]\nsites = 8\nreplicates = 2\nthreads = 1\n";
static const char mixture[] =
    "[network]\nmodel = regime2\nexpert_width = 2\nkappa = 1\n[data]\nsource = file\n"
    "file = d.h5\n[training]\nsteps = 2\n[solver]\nsites = 8\nexpert_sites = 150\n"
    "replicates = 2\nthreads = 1\n[reference]\nwidths = 4 8\nseeds = 2\ncoordinate_check = yes\n";
static const char networks[] = "[reference]\nwidths = 4 8\nseeds = 2\n";
static const char units[] =
    "[network]\nmodel = residual\n[data]\ninputs = 2\ndimension = 3\n[training]\nsteps = 2\n"
    "[solver]\nsites = 16\nunit_sites = 8\nreplicates = 2\nthreads = 1\nmethod = fixed_point\n"
    "anderson = 2\n";
static const char apart[] = /* Muon turns the matrix out of each expert by itself */
    "[network]\nmodel = regime3\n[data]\ninputs = 2\ndimension = 3\n[training]\nsteps = 2\n"
    "optimizer = muon\neta0 = 0.05\n[solver]\nsites = 8\nexpert_sites = 8\nunit_sites = 8\n"
    "replicates = 2\nthreads = 1\n";
static const char often[] = /* a matrix is used three times */
    "[network]\nmodel = program\nprogram_text = local a = population('a'); local h = read_in(a, "
    "'W1'); local function W(x) return map(tanh(x), a, {name = 'W2', tied = true}) end; "
    "read_out(W(h) + W(W(h)), 'w')\n[data]\ninputs = 2\ndimension = 3\n[training]\nsteps = "
    "2\n[solver]\nsites = 8\n"
    "replicates = 2\nthreads = 1\n";
static const char heads[] = /* Muon moves their matrices as one */
    "[network]\nmodel = transformer\ndepth = 1\nheads = 2\n[data]\ninputs = 2\ntokens = 2\n"
    "dimension = 2\n[training]\nsteps = 2\noptimizer = muon\neta0 = 0.05\nmuon_heads = together\n"
    "[solver]\nsites = 32\nreplicates = 1\nthreads = 1\n";
static const char tokens[] = /* a device brings coordinates of its matrices late */
    "[network]\nmodel = transformer\nexperts = 2\n[data]\ninputs = 2\ntokens = 2\ndimension = 2\n"
    "test_inputs = 2\n[training]\nsteps = 3\n[solver]\nsites = 32\nreplicates = 1\nthreads = 1\n";
/* The rest: test inputs, units, all outputs, a third of the tolerance, and halves. */
static const char rest[] =
    "[network]\nmodel = regime3\n[data]\nsource = power_law\ndimension = 4\nnoise = 0.1\n"
    "inputs = 2\ntest_inputs = 2\n[training]\nsteps = 2\nintegrator = bs32\n[solver]\nsites = 8\n"
    "expert_sites = 8\nunit_sites = 8\nreplicates = 2\nthreads = 1\ncheck_tolerance = yes\n"
    "halves = yes\n[reference]\nwidths = 4 8\nseeds = 2\n[output]\nkernels_of = h1\nfields = h1\n"
    "tangent = sum\nspectra = tangent\nrouter = yes\ncheckpoint = 1\n";

enum { ALLOC, PLACE, FILES, WRITE, LAUNCH, NUMBERS, LAPACK, KINDS };
static const struct {
    const char *name;
    int code;   /* of the failure */
    long least; /* calls that there are at least, where they are tried */
} kinds[KINDS] = {{"alloc", 1, 500}, {"place", 1, 100}, {"hdf5", 1, 40}, {"write", 1, 5},
                  {"launch", 1, 99}, {"nan", 3, 60},    {"lapack", 3, 1}};

#define FOUR "alloc place hdf5 write"
/* Kinds that are tried, and arguments; without --quiet it prints its tables. */
static const STRUCT(const char *program, *kinds, *arg[9]) cases[] = {
    LIST("dmft-solve", FOUR " lapack",
         {"--quiet", "one.ini", "--output.kernels=full", "--output.spectra=Phi1",
          "--data.test_inputs=2", "--rates.W1=0.5", "--output.responses=yes"}),
    LIST("dmft-solve", FOUR,
         {"--quiet", "two.ini", "--output.checkpoint=1", "--training.optimizer=adam",
          "--training.eta0=0.05", "--reference.coordinate_check=yes", "--output.sharpness=sum",
          "--training.clip=0.01"}),
    LIST("dmft-solve", FOUR " lapack",
         {"--quiet", "one.ini", "--output.experts=yes", "--output.singular=W2_0 W2",
          "--output.gradients=yes", "--output.sharpness=blocks", "--training.optimizer=muon"}),
    LIST("dmft-solve", FOUR,
         {"--quiet", "two.ini", "--output.experts=yes", "--output.singular=W2_0 W2",
          "--output.gradients=yes", "--output.sharpness=blocks", "--output.weights=both",
          "--output.runs=yes", "--training.clip=0.1"}),
    {"dmft-solve", FOUR " lapack", {"--quiet", "five.ini"}},
    {"dmft-sweep", FOUR, {"--quiet", "--jobs", "1", "sweep.ini"}},
    LIST("dmft-compare", FOUR,
         {"--quiet", "two.ini", "--training.batch=1", "--reference.widths=4 8 16"}),
    LIST("dmft-solve", FOUR " launch nan",
         {"--quiet", "two.ini", "--solver.backend=cuda", "--reference.seeds=1",
          "--training.integrator=bs32"}),
    /* A number that is none in what is measured alone ends no run. */
    LIST("dmft-solve", "launch",
         {"--quiet", "two.ini", "--solver.backend=cuda", "--reference.seeds=1",
          "--output.experts=yes"}),
    {"dmft-solve",
     "launch nan",
     {"--quiet", "one.ini", "--solver.backend=cuda", "--solver.method=fixed_point",
      "--solver.fp_tolerance=1",
      "--output.kernels=none" /* for `carriers` is measured alone, too */}},
    {"dmft-solve", "alloc place launch", {"--quiet", "ten.ini", "--solver.backend=cuda"}},
    {"dmft-solve", FOUR, {"--quiet", "three.ini"}},
    {"dmft-solve", FOUR, {"four.ini"}},
};
static char *said; /* by the run without a fault */

static char fault[64];

/* From here on the n-th call of this kind fails; 0: none. */
static void fail_at(const char *kind, long n) {
    snprintf(fault, sizeof fault, "%s %ld", kind, n);
    setenv("DMFT_FAULT", fault, 1);
}

static void run(size_t c, const char *kind, long n, const char *output, struct cli_result *result) {
    const char *arg[12] = {"-o", output};
    memcpy(arg + 2, cases[c].arg, sizeof cases[c].arg);
    fail_at(kind, n);
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

/* What stands in a file, with all dates, which alone may differ, made blank. */
static char *bytes_of(const char *name, size_t *size) {
    char *bytes = cli_read(name, size);
    for (char *p = bytes; p + 20 <= bytes + *size; p++)
        if (p[4] == '-' && p[7] == '-' && p[10] == 'T' && p[13] == ':' && p[16] == ':' &&
            p[19] == 'Z')
            memset(p, ' ', 20);
    return bytes;
}

/* Numbers, what is said of them, how they are stored: byte for byte. And its states. */
static bool same_rest(void) {
    size_t size[2];
    char *bytes[] = {bytes_of("whole.h5", &size[0]), bytes_of("out.h5", &size[1])};
    bool same = size[0] == size[1] && !memcmp(bytes[0], bytes[1], size[0]);
    free(bytes[0]);
    free(bytes[1]);
    return same && (!cli_exists("out.h5.state") ||
                    !system("cd out.h5.state && for f in *; do cmp -s $f ../whole.h5.state/$f || "
                            "exit 1; done"));
}

/* What HDF5 cannot do is named by a verb, and then to what. */
static bool says_what_hdf5_cannot(const char *text) {
    static const char *const verbs[] = {
        "attach ",          "close ",   "complete ", "copy ",    "create ", "describe ", "look up ",
        "make a scale of ", "measure ", "open ",     "prepare ", "read ",   "write "};
    const char *begin = "HDF5 cannot ", *at = strstr(text, begin);
    bool known = !at;
    for (size_t k = 0; k < COUNT(verbs) && !known; k++)
        known = !strncmp(at + strlen(begin), verbs[k], strlen(verbs[k]));
    return known;
}

/* Of a run with a fault. A result that is there is whole, and so is what was saved of another. */
static bool good(size_t c, struct cli_result *result, int code) {
    char what[64];
    if (!result->code && strcmp(result->out, said) != 0)
        return false;
    if (result->code && strstr(result->err, "wrote out.h5\n") && !cli_exists("out.h5"))
        return false;
    if (strcmp(cases[c].arg[0], "--quiet")) { /* what was printed before it failed */
        snprintf(what, sizeof what, "\n%s: ", cases[c].program);
        char *line = strstr(result->err, what);
        memmove(result->err, line ? line + 1 : result->err, strlen(line ? line : result->err));
        *result->out = 0;
    }
    snprintf(what, sizeof what, "case %zu", c);
    if (half_written() || !says_what_hdf5_cannot(result->err) ||
        (result->code && !cli_ended(result, code, ARGS(NULL))))
        return false;
    if (cli_exists("out.h5"))
        cli_same_files("whole.h5", "out.h5", what, 4);
    if (cli_exists("out.h5") ? !same_rest() : !result->code)
        return false;
    return !cli_exists("out.h5.partial") || cli_complete("out.h5.partial") >= 0;
}

/* How many of so many calls fail in turn. */
static long tried(long calls) {
    return most && most < calls ? most : calls;
}

static long calls_made(void) {
    FREED(base_free) char *text = cli_read("count", NULL);
    return atol(text);
}

/* Number k of so many, spread over all calls; a single one is at another share of them each time.
 */
static long spread(long k, long number, long calls) {
    static long turn;
    return 1 + (number < 2 ? turn++ * 5 % 13 * (calls - 1) / 12 : k * (calls - 1) / (number - 1));
}

/* The run without a fault, and how often it makes a call of each kind. */
static void run_whole(size_t c, long calls[KINDS]) {
    FREED(cli_free) struct cli_result result;
    assert_int_equal(system("rm -rf whole.*"), 0);
    run(c, "every", 0, "whole.h5", &result);
    FAIL_IF(result.code, "%s", result.err);
    free(said);
    said = strdup(result.out);
    FREED(base_free) char *text = cli_read("count", NULL);
    for (int kind = 0; kind < KINDS; kind++) {
        const char *line = strstr(text, kinds[kind].name);
        assert_non_null(line);
        calls[kind] = atol(line + strlen(kinds[kind].name));
    }
}

/* Whether this kind is tried now. All of PLACE are of ALLOC. In make test each second one is. */
static bool wanted(int kind) {
    static int turn;
    if (places)
        return kind == PLACE || kind == FILES || kind == WRITE;
    return kind != PLACE && (most != 1 || turn++ % 2);
}

/* How many are bad. */
static int check_kind(size_t c, int kind, long calls) {
    const char *name = kinds[kind].name;
    struct cli_result result;
    int bad = 0;
    long few = places && kind == WRITE ? 30 : most, number = few && few < calls ? few : calls;
    FAIL_IF(calls < kinds[kind].least && !inside, "case %zu: only %ld calls of %s", c, calls, name);
    for (long k = 0; k < number; k++) {
        long n = spread(k, number, calls);
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

CLEAN_TEST(one_call_fails) {
    setenv("DMFT_FAULT_COUNT", "count", 1);
    cli_print("one.ini", single);
    TEXT(text, 1024, "%s%s", single, networks);
    cli_print("two.ini", text);
    snprintf(text, sizeof text,
             "%s[reference]\nwidths = 4\nseeds = 2\n[sweep]\ntraining.eta0 = 0.25 0.5 1\n", single);
    cli_print("sweep.ini", text);
    cli_print("three.ini", mixture);
    cli_print("four.ini", rest);
    cli_print("five.ini", units);
    cli_print("ten.ini", tokens);
    cli_lines("d.h5", "1,0.5,1\n-0.5,1,-1\n", false);
    int bad = 0;
    for (size_t c = 0; c < COUNT(cases); c++) {
        long calls[KINDS];
        if (only >= 0 && (size_t)only != c)
            continue;
        cli_program(cases[c].program);
        run_whole(c, calls);
        for (int kind = 0; kind < KINDS; kind++)
            if (strstr(cases[c].kinds, kinds[kind].name) && wanted(kind))
                bad += check_kind(c, kind, calls[kind]);
    }
    free(said);
    assert_int_equal(bad, 0);
}

/* What is printed without a run: all of it, or a sentence. */
CLEAN_TEST(printing_fails) {
    static const char *const printed[][2] = LIST({"--help", "regime2"}, {"--help", "transformer"},
                                                 {"--program", "seven.ini"}, {"--defaults"});
    int bad = 0;
    setenv("DMFT_FAULT_COUNT", "count", 1);
    cli_print("one.ini", single);
    cli_print("seven.ini", "include = one.ini\n");
    cli_program("dmft-solve");
    for (size_t c = 0; c < COUNT(printed); c++) {
        FREED(cli_free) struct cli_result whole;
        struct cli_result result;
        fail_at("place", 0);
        cli_run(&whole, ARGS(printed[c][0], printed[c][1]));
        assert_int_equal(whole.code, 0);
        long calls = calls_made(), number = tried(calls);
        assert_true((inside || calls > 0) && *whole.out);
        for (long k = 0; k < number; k++) {
            fail_at("place", spread(k, number, calls));
            cli_run(&result, ARGS(printed[c][0], printed[c][1]));
            if (result.code)
                *result.out = 0; /* what was printed before */
            if (result.code ? !cli_ended(&result, 1, ARGS(NULL)) : strcmp(result.out, whole.out)) {
                print_error("%s, %s: exit code %d: %s\n", printed[c][0], fault, result.code,
                            result.err);
                bad++;
            }
            cli_free(&result);
        }
        print_message("%s: %ld of %ld places\n", printed[c][0], number, calls);
    }
    assert_int_equal(bad, 0);
}

/* The result of one step with its states, as it was before each run that goes on with it. */
static void put_back(void) {
    assert_int_equal(system("rm -rf out.* && cp -r kept/. ."), 0);
}

/* Of an ini, with one more argument or NULL: places that are bad. */
static int going_on(const char *ini, const char *more) {
    static const char *const on[] = {"--quiet", "--continue", "out.h5", "--training.steps=2", NULL};
    struct cli_result result;
    int bad = 0;
    fail_at("place", 0);
    assert_int_equal(system("rm -rf out.* whole.h5"), 0);
    cli_done("dmft-solve",
             ARGS("--quiet", "-o", "out.h5", ini, "--training.steps=1", "--output.kernels=full",
                  "--output.checkpoint=99", "--solver.replicates=1", "--reference.widths=4",
                  "--reference.seeds=1", more));
    assert_int_equal(system("rm -rf kept && mkdir kept && cp -r out.* kept"), 0);
    cli_done("dmft-solve", on);
    long calls = calls_made(), number = tried(calls);
    assert_int_equal(system("mv out.h5 whole.h5"), 0);
    for (long k = 0; k < number; k++) {
        put_back();
        fail_at("place", spread(k, number, calls));
        cli_run(&result, on);
        if (result.code ? !cli_ended(&result, 1, ARGS(NULL)) || cli_complete("out.h5") != 1
                        : !cli_exists("out.h5")) {
            print_error("--continue, %s, %s: exit code %d: %s\n", ini, fault, result.code,
                        result.err);
            bad++;
        }
        if (!result.code)
            cli_same_files("whole.h5", "out.h5", fault, 4);
        cli_free(&result);
    }
    print_message("--continue, %s: %ld of %ld places\n", ini, number, calls);
    return bad;
}

/* A run that goes on from its states does so, or says that it does not, whatever of them cannot be
 * held; the result of before is then still there. Experts share the matrices that they learn, or
 * each learns its own; or a matrix is used often, or two are moved as one. */
CLEAN_TEST(going_on_fails) {
    setenv("DMFT_FAULT_COUNT", "count", 1);
    cli_print("one.ini", single);
    cli_print("six.ini", apart);
    cli_print("eight.ini", often);
    cli_print("nine.ini", heads);
    cli_program("dmft-solve");
    int bad = going_on("one.ini", "--reference.coordinate_check=yes");
    bad += going_on("six.ini", NULL);
    bad += going_on("eight.ini", NULL);
    bad += going_on("nine.ini", NULL);
    assert_int_equal(bad, 0);
}

/* Of a result that cannot be read, or not be closed, for a moment. */
CLEAN_TEST(reading_fails) {
    static const char *const kind[] = {"read", "close"};
    struct cli_result result;
    unsetenv("DMFT_FAULT");
    assert_int_equal(system("rm -rf out.*"), 0);
    cli_print("one.ini", single);
    cli_program("dmft-solve");
    cli_done("dmft-solve", ARGS("--quiet", "-o", "out.h5", "one.ini", "--output.checkpoint=1"));
    setenv("DMFT_FAULT_COUNT", "count", 1);
    for (int k = 0; k < 2; k++)
        for (long n = 0, calls = 1; n <= calls; n++) {
            fail_at(kind[k], n);
            cli_run(&result, ARGS("--quiet", "--continue", "out.h5"));
            if (result.code && !cli_ended(&result, 1, ARGS("out.h5")))
                fail_msg("%s: exit code %d: %s", fault, result.code, result.err);
            cli_free(&result);
            calls = n ? calls : calls_made();
            assert_true((inside || calls > 0) && cli_exists("out.h5"));
        }
}

/* What a data file has is not taken for missing where HDF5 cannot tell for a moment. */
CLEAN_TEST(data_fail) {
    struct cli_result result;
    cli_print("three.ini", mixture);
    cli_lines("d.h5", "1,0.5,1\n-0.5,1,-1\n", false);
    long n = 1;
    for (;; n++, cli_free(&result)) { /* all that this file is asked, before results are written */
        fail_at("hdf5", n);
        cli_run(&result, ARGS("--quiet", "-o", "none.h5", "three.ini"));
        if (strstr(result.err, "none.h5"))
            break;
        assert_true(cli_ended(&result, 1, ARGS("data file d.h5: HDF5 cannot ")));
    }
    cli_free(&result);
    assert_true(n > 5);
}

/* The emulated device has 2^32 bytes. */
CLEAN_TEST(memory_of_the_device_is_told) {
    FREED(cli_free) struct cli_result result;
    unsetenv("DMFT_FAULT");
    cli_print("one.ini", single);
    cli_program("dmft-solve");
    cli_run(&result, ARGS("-o", "out.h5", "one.ini", "--solver.backend=cuda"));
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.err, "\nmemory of the device: 4.29 GB free\n"));
    cli_free(&result);
    cli_run(&result, ARGS("-o", "out2.h5", "one.ini", "--solver.backend=cuda",
                          "--solver.sites=20000000", "--solver.max_memory=1e6"));
    assert_int_equal(result.code, 1);
    assert_non_null(strstr(result.err, " GB on the device, which has 4.29 GB free; try fewer "));
}

/* The programs that fail lie in a folder beside the others. */
static int open_all(void **state) {
    int failed = cli_open(state);
    if (!failed)
        cli_program("faults/dmft-solve");
    return failed;
}

AROUND_TESTS(open_all, cli_close)

int main(int argc, char **argv) {
    inside = argc > 1 && !strcmp(argv[1], "inside");
    places = inside || (argc > 1 && !strcmp(argv[1], "places"));
    if (argc > 1)
        most = strcmp(argv[1], "long") ? atol(argv[1]) : 0; /* 0 of places, too */
    if (argc > 2 && (only = atol(argv[2])) >= 0)
        cmocka_set_test_filter("one_call_fails");
    return run_registered(__FILE__);
}
