/* What a sweep compares its points by. */
#define _GNU_SOURCE
#include "tests/support/cli.h"
#include "tests/support/support.h"

static void check_refused(const char *const *arg, const char *const *part) {
    struct cli_result result;
    cli_run(&result, arg);
    assert_true(cli_ended(&result, 2, part));
    cli_free(&result);
}

static char *sweep(const char *more) {
    struct cli_result result;
    cli_run(&result, ARGS("--jobs", "2", "-o", "out.h5", "sweep.ini", more));
    if (result.code)
        fail_msg("exit code %d: %s", result.code, result.err);
    free(result.err);
    return result.out;
}

/* One more line of the ini of a sweep, as another version may have written it. */
static void add_line(const char *name, const char *line) {
    hid_t file = H5Fopen(name, H5F_ACC_RDWR, H5P_DEFAULT),
          group = H5Gopen2(file, "parameters", H5P_DEFAULT),
          attribute = H5Aopen(group, "ini", H5P_DEFAULT), type = H5Aget_type(attribute),
          space = H5Aget_space(attribute);
    char *ini = cli_text(file, "parameters", "ini"), *longer = NULL;
    assert_true(asprintf(&longer, "%s%s", ini, line) > 0);
    H5Aclose(attribute);
    assert_true(H5Adelete(group, "ini") >= 0);
    attribute = H5Acreate2(group, "ini", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, type, &longer) >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    H5Gclose(group);
    H5Fclose(file);
    free(longer);
    free(ini);
}

/* Batches: the last one is no objective. With test inputs it is test_loss, else the loss over the
 * last times; another choice gives from the file what the sweep would have given. */
CLEAN_TEST(test_objectives) {
    static const char batches[] =
        "[network]\nmodel = dense\n[data]\ninputs = 8\ndimension = 4\n[training]\nsteps = 20\n"
        "batch = 2\n[solver]\nreplicates = 0\nthreads = 1\n[reference]\nwidths = 8 16\nseeds = 4\n";
    static const char *const more[] = {"--data.test_inputs=4", NULL};
    static const char *const want[] = {"test_loss: ", "smooth_loss: "};
    char text[1024];
    size_t count;
    for (int k = 0; k < 2; k++) {
        cli_clean(NULL);
        snprintf(text, sizeof text, "%s[sweep]\ntraining.eta0 = 4 2 1 0.5 0.25 0.125\n", batches);
        cli_print("sweep.ini", text);
        char *table = sweep(more[k]);
        assert_int_equal(strncmp(table, want[k], strlen(want[k])), 0);
        free(table);
        cli_done("dmft-sweep", ARGS("--quiet", "--optimum", "out.h5", "--objective", "time_to=0.3",
                                    "-o", "again.h5"));
        cli_program("dmft-sweep");
        snprintf(text, sizeof text,
                 "%s[sweep]\ntraining.eta0 = 4 2 1 0.5 0.25 0.125\nobjective = time_to=0.3\n",
                 batches);
        cli_print("sweep.ini", text);
        free(sweep(more[k])); /* runs nothing */
        assert_true(cli_same("out.h5", "again.h5", "optimum/at_samples"));
        assert_true(cli_same("out.h5", "again.h5", "sweep/objective"));
        hid_t file = cli_file("out.h5");
        double *objective = cli_values(file, "sweep/objective", &count);
        assert_int_equal(count, 12);
        assert_int_equal(H5Lexists(file, "sweep/test_loss", H5P_DEFAULT) > 0, k == 0);
        for (size_t u = 0; u < count; u++)
            assert_true(isnan(objective[u]) || (objective[u] >= 0 && objective[u] <= 19));
        H5Fclose(file);
        free(objective);
        remove("again.h5");
    }
    check_refused(ARGS("--optimum", "out.h5", "--along", "network.kappa"),
                  ARGS("along = network.kappa: must be a key of [sweep]", "training.eta0"));
    check_refused(ARGS("--optimum", "out.h5", "--objective", "best"), ARGS("has no series best"));
    check_refused(ARGS("--optimum", "out.h5", "--objective", "time_to=0"),
                  ARGS("objective \"time_to=0\": must be test_loss, loss, smooth_loss"));
    check_refused(ARGS("--optimum", "none.h5"), ARGS("none.h5: cannot be opened"));
    add_line("out.h5", "columns = parameters width\n");
    check_refused(ARGS("--optimum", "out.h5"), ARGS("[sweep] columns: there is no width"));
}

AROUND_TESTS(cli_open_sweep, cli_close)
