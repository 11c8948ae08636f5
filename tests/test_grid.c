/* Sweeps with many axes and with keys that vary together: their runs, table and file. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/sweep_ini.h"

#include <jansson.h>

static int clean(void **state) {
    return system("rm -rf one.d one.h5") || cli_clean(state);
}

/* Runs case.ini with this section into NAME.h5; the table, to be freed. */
static char *sweep_into(const char *name, const char *sweep, const char *more) {
    char output[32];
    struct cli_result result;
    sweep_ini(sweep);
    snprintf(output, sizeof output, "%s.h5", name);
    cli_run(&result, ARGS("--force", "--jobs", "2", "-o", output, "case.ini", more));
    if (result.code)
        fail_msg("exit code %d: %s", result.code, result.err);
    free(result.err);
    return result.out;
}

static void check_words(hid_t file, const char *set, const char *want) {
    char *text = cli_words(file, set);
    assert_string_equal(text, want);
    free(text);
}

static void check_attribute(hid_t file, const char *object, const char *name, const char *want) {
    char *text = cli_text(file, object, name);
    assert_string_equal(text, want);
    free(text);
}

/* The axes of a dataset, and their lengths, ended by 0. */
static void check_axes(hid_t file, const char *set, const char *dims, const hsize_t *want) {
    hid_t id = H5Dopen2(file, set, H5P_DEFAULT), space = H5Dget_space(id);
    hsize_t shape[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, shape, NULL), k = 0;
    check_attribute(file, set, "dims", dims);
    for (; want[k]; k++)
        assert_true(k < rank && shape[k] == want[k]);
    assert_int_equal(rank, k);
    H5Sclose(space);
    H5Dclose(id);
}

#define SHAPE(...) ((const hsize_t[]){__VA_ARGS__, 0})

/* A list of all points of a grid is that grid: the same runs, found again by their names, in the
 * same order. */
TEST_AFTER(clean, test_a_list_of_points_is_the_grid_it_spells) {
    static const char grid[] = "training.eta0 = 0.2 0.4\nnetwork.parameterization = mup mssp\n";
    static const char list[] = "training.eta0, network.parameterization = 0.2 mup | 0.2 mssp | "
                               "0.4 mup | 0.4 mssp\n";
    free(sweep_into("out", grid, NULL));
    hid_t file = cli_file("out.h5");
    char *names = cli_words(file, "sweep/file");
    H5Fclose(file);
    assert_int_equal(rename("out.h5", "one.h5"), 0);
    assert_int_equal(system("ls -i out.d | grep -v grid | sort > before.txt"), 0);
    char *table = sweep_into("out", list, NULL);
    assert_int_equal(system("ls -i out.d | grep -v grid | sort | cmp - before.txt"), 0);
    file = cli_file("out.h5");
    check_words(file, "sweep/file", names);
    check_axes(file, "sweep/loss", "training.eta0,network.parameterization N", SHAPE(4, 2));
    check_attribute(file, "sweep", "coordinates", "training.eta0 network.parameterization");
    check_words(file, "sweep/network.parameterization", "mup\nmssp\nmup\nmssp\n");
    check_words(file, "sweep/training.eta0,network.parameterization",
                "0.2 mup\n0.2 mssp\n0.4 mup\n0.4 mssp\n");
    check_axes(file, "sweep/training.eta0", "training.eta0,network.parameterization", SHAPE(4));
    size_t count;
    double *eta0 = cli_values(file, "sweep/training.eta0", &count);
    assert_true(eta0[0] == 0.2 && eta0[1] == 0.2 && eta0[2] == 0.4 && eta0[3] == 0.4);
    assert_false(H5Lexists(file, "optimum", H5P_DEFAULT)); /* a list has no order */
    H5Fclose(file);
    hid_t pair[] = {cli_file("one.h5"), cli_file("out.h5")};
    double *loss[] = {cli_values(pair[0], "sweep/loss", &count),
                      cli_values(pair[1], "sweep/loss", &count)};
    assert_int_equal(count, 8);
    assert_memory_equal(loss[0], loss[1], 8 * sizeof **loss);
    assert_non_null(strstr(table, "over the runs (+-: standard errors of sampling)\n"
                                  "training.eta0  network.parameterization       N  "));
    assert_non_null(strstr(table, "\n          0.4                       mup   limit  "));
    for (int k = 0; k < 2; k++) {
        H5Fclose(pair[k]);
        free(loss[k]);
    }
    free(eta0);
    free(names);
    free(table);
}

/* The optimum along eta0 beside a list of points, before it or behind: that of each point alone. */
TEST_AFTER(clean, test_the_optimum_beside_a_list) {
    static const char eta0[] = "training.eta0 = 0.5 2 8\n";
    static const char list[] = "training.gamma0, network.activation = 0.5 tanh | 1 linear\n";
    char sweep[2][256], *table[2];
    size_t count;
    free(sweep_into("one", eta0, "--network.activation=linear"));
    hid_t one = cli_file("one.h5");
    double *want[] = {cli_values(one, "optimum/least_at", &count),
                      cli_values(one, "optimum/least", &count)};
    assert_int_equal(count, 2);
    snprintf(sweep[0], sizeof *sweep, "%s%s", list, eta0);
    snprintf(sweep[1], sizeof *sweep, "%s%s", eta0, list);
    for (int k = 0; k < 2; k++) {
        table[k] = sweep_into("out", sweep[k], NULL);
        hid_t file = cli_file("out.h5");
        double *at = cli_values(file, "optimum/least_at", &count);
        double *loss = cli_values(file, "optimum/least", &count);
        check_attribute(file, "optimum", "key", "training.eta0");
        check_attribute(file, "optimum", "coordinates", "training.gamma0 network.activation");
        check_axes(file, "optimum/at", "training.gamma0,network.activation N", SHAPE(2, 2));
        check_axes(file, "sweep/loss",
                   k ? "training.eta0 training.gamma0,network.activation N"
                     : "training.gamma0,network.activation training.eta0 N",
                   k ? SHAPE(3, 2, 2) : SHAPE(2, 3, 2));
        check_words(file, "optimum/network.activation", "tanh\nlinear\n");
        assert_memory_equal(at + 2, want[0], 2 * sizeof *at);
        assert_memory_equal(loss + 2, want[1], 2 * sizeof *loss);
        H5Fclose(file);
        free(at);
        free(loss);
    }
    const char *optima[] = {strstr(table[0], "\noptimum"), strstr(table[1], "\noptimum")};
    assert_string_equal(optima[0], optima[1]);
    assert_non_null(strstr(optima[0], "\ntraining.gamma0  network.activation       N  "));
    assert_non_null(strstr(optima[0], "\n              1              linear   limit  "));
    H5Fclose(one);
    for (int k = 0; k < 2; k++) {
        free(table[k]);
        free(want[k]);
    }
}

/* The values of a point as words of a command line, behind those that are there; the last axis of
 * the grid (dmft-sweep --points) varies fastest. */
static void add_words(const char **arg, char value[][64], const json_t *axes, size_t point) {
    int words = 0;
    for (size_t a = json_array_size(axes); a-- > 0;) {
        const json_t *keys = json_object_get(json_array_get(axes, a), "keys"),
                     *values = json_object_get(json_array_get(axes, a), "values");
        const json_t *texts = json_array_get(values, point % json_array_size(values));
        point /= json_array_size(values);
        for (size_t k = 0; k < json_array_size(keys); k++, words++) {
            assert_in_range(words, 0, 7);
            snprintf(value[words], sizeof *value, "--%s=%s",
                     json_string_value(json_array_get(keys, k)),
                     json_string_value(json_array_get(texts, k)));
            arg[words] = value[words];
        }
    }
}

/* The final losses at each point, in the order of [point][N = 8, limit], are those of dmft-solve
 * with the values of the point. */
static void check_single_runs(void) {
    struct cli_result result;
    size_t count, times;
    cli_run(&result, ARGS("--points", "case.ini"));
    json_t *grid = json_loads(result.out, 0, NULL), *axes = json_object_get(grid, "axes");
    cli_free(&result);
    hid_t all = cli_file("out.h5");
    double *loss = cli_values(all, "sweep/loss", &count);
    H5Fclose(all);
    assert_true(count >= 32);
    cli_print("single.ini", json_string_value(json_object_get(grid, "ini")));
    cli_program("dmft-solve");
    for (size_t point = 0; point < count / 2; point++) {
        char value[8][64];
        const char *arg[16] = {"--quiet", "--force", "-o", "one.h5", "single.ini"};
        add_words(arg + 5, value, axes, point);
        cli_run(&result, arg);
        assert_int_equal(result.code, 0);
        cli_free(&result);
        hid_t file = cli_file("one.h5");
        double *want[] = {cli_values(file, "reference/N0008/loss", &times),
                          cli_values(file, "limit/loss", &times)};
        for (size_t c = 0; c < 2; c++) {
            CHECK_ABS(loss[2 * point + c], want[c][times - 1], 0, "point %zu", point);
            free(want[c]);
        }
        H5Fclose(file);
    }
    cli_program("dmft-sweep");
    json_decref(grid);
    free(loss);
}

TEST_AFTER(clean, test_four_axes) {
    static const char sweep[] = "training.eta0 = 0.2 0.4\ntraining.gamma0 = 0.5 1\n"
                                "network.activation = tanh linear\nsolver.seed = 1 2\n";
    char *table = sweep_into("out", sweep, NULL);
    assert_non_null(strstr(table, "\ntraining.eta0  training.gamma0  network.activation  solver"));
    hid_t file = cli_file("out.h5");
    check_axes(file, "sweep/loss", "training.eta0 training.gamma0 network.activation solver.seed N",
               SHAPE(2, 2, 2, 2, 2));
    assert_false(H5Aexists_by_name(file, "sweep", "coordinates", H5P_DEFAULT));
    H5Fclose(file);
    check_single_runs();
    free(table);
}

/* Seven keys, two of the axes lists of points; the optimum along the fourth. */
TEST_AFTER(clean, test_five_axes) {
    static const char sweep[] = "network.activation = tanh linear\n"
                                "training.gamma0, network.parameterization = 0.5 mup | 1 mssp\n"
                                "data.seed = 1 2\ntraining.eta0 = 0.2 0.4 0.8\n"
                                "network.kappa, solver.seed = 0.5, 3\n";
    static const char rest[] = "network.activation training.gamma0,network.parameterization "
                               "data.seed network.kappa,solver.seed N";
    char *table = sweep_into("out", sweep, NULL);
    hid_t file = cli_file("out.h5");
    check_axes(file, "sweep/loss",
               "network.activation training.gamma0,network.parameterization data.seed "
               "training.eta0 network.kappa,solver.seed N",
               SHAPE(2, 2, 2, 3, 1, 2));
    check_axes(file, "optimum/reason", rest, SHAPE(2, 2, 2, 1, 2));
    check_attribute(file, "optimum", "coordinates",
                    "training.gamma0 network.parameterization network.kappa solver.seed");
    H5Fclose(file);
    assert_non_null(strstr(table, "optimum of training.eta0"));
    check_single_runs();
    free(table);
}

/* Lists and axes beyond any buffer: names of 600 bytes in all, 22 axes. */
TEST_AFTER(clean, test_names_of_any_length) {
    static const char *const keys[] = {"training.eta0",       "training.gamma0",
                                       "network.activation",  "network.kappa",
                                       "solver.seed",         "solver.sites",
                                       "solver.tolerance",    "solver.max_memory",
                                       "data.seed",           "data.inputs",
                                       "data.dimension",      "training.steps",
                                       "solver.threads",      "network.expert_width",
                                       "solver.expert_sites", "reference.seeds",
                                       "reference.draws",     "reference.centre",
                                       "output.kernels",      "output.test_every",
                                       "network.gate",        "network.parameterization"};
    static const char *const value[] = {
        "0.2", "1", "tanh", "0.5", "1", "64",  "1e-3", "8",        "1", "3",       "4",
        "4",   "1", "2",    "64",  "2", "iid", "yes",  "diagonal", "1", "sigmoid", "mup"};
    char lines[2048] = "", names[2048] = "", values[1024] = "", all[4096];
    for (size_t k = 0; k < COUNT(keys); k++) {
        sprintf(lines + strlen(lines), "%s = %s\n", keys[k], value[k]);
        sprintf(names + strlen(names), "%s%s", k ? "," : "", keys[k]);
        sprintf(values + strlen(values), "%s%s", k ? " " : "", value[k]);
    }
    snprintf(all, sizeof all, "%s = %s\n", names, values);
    free(sweep_into("out", lines, NULL));
    assert_int_equal(rename("out.h5", "one.h5"), 0);
    free(sweep_into("out", all, NULL));
    assert_true(cli_same("one.h5", "out.h5", "sweep/loss"));
    hid_t file = cli_file("out.h5");
    snprintf(all, sizeof all, "%s N", names);
    check_axes(file, "sweep/loss", all, SHAPE(1, 2));
    H5Fclose(file);
    file = cli_file("one.h5");
    for (char *c = strcpy(all + 1, names); *c; c++)
        *c = *c == ',' ? ' ' : *c;
    strcat(all + 1, " N");
    check_attribute(file, "sweep/loss", "dims", all + 1);
    H5Fclose(file);
}

AROUND_TESTS(cli_open_sweep, cli_close)
