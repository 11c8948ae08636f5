/* The grid of [sweep]: the order of its points, their names, and sweeps with many axes and with
 * keys that vary together: their runs, table and file. */
#define _XOPEN_SOURCE 700
#include "solver/study/grid.h"
#include "tests/support/support.h"
#include "tests/support/sweep_ini.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int clean(void **state) {
    return system("rm -rf one.d one.h5") || cli_clean(state);
}

#define GRID_TEST(name) cmocka_unit_test_setup(name, clean)

/* Whole numbers beyond six digits and beyond those of a double; a mark of the order of bytes before
 * [sweep]; and a zero byte, which would end a line early. */
static void test_numbers_and_bytes(void **state) {
    (void)state;
    static const char marked[] = "\xef\xbb\xbf[sweep]\na.x = linspace(1000000, 3000000, 3)\n"
                                 "a.y = 18446744073709551614 18446744073709551615\n"
                                 "a.z = logspace(1, 1e6, 3)\na.w = linspace(0.1, 1, 2)\n",
                      zero[] = "[sweep]\na.x = 0.1 0.2\0 0.4\n";
    static const char *const want[] = {"1000000", "2000000", "3000000"}, *const powers[] = {
                                                                             "1", "1000",
                                                                             "1000000"};
    struct grid grid;
    struct err err;
    cli_print("case.ini", marked);
    if (grid_read(&grid, "case.ini", 0, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(grid.axes, 4);
    assert_int_equal(grid.axis[1].count, 2);
    for (int k = 0; k < 3; k++) {
        assert_string_equal(grid.axis[0].key->text[k], want[k]);
        assert_string_equal(grid.axis[2].key->text[k], powers[k]);
    }
    assert_string_equal(grid.axis[3].key->text[0], "0.1");
    grid_free(&grid);
    cli_write("case.ini", zero, sizeof zero - 1);
    assert_int_equal(grid_read(&grid, "case.ini", 0, NULL, &err), CODE_INPUT);
    assert_non_null(strstr(err.text, "case.ini:2: not a text file (byte 0x00)"));
    grid_free(&grid);
    cli_print("case.ini", "\x89HDF\r\n\x1a\n");
    assert_int_equal(grid_read(&grid, "case.ini", 0, NULL, &err), CODE_INPUT);
    assert_non_null(strstr(err.text, "case.ini: is an HDF5 file, not an ini"));
    grid_free(&grid);
}

static void read_grid(struct grid *grid, const char *sweep) {
    struct err err;
    sweep_ini(sweep);
    if (grid_read(grid, "case.ini", 0, NULL, &err))
        fail_msg("%s", err.text);
}

/* All keys at a point: "a.x=1 b.y=2". */
static void spell(char *text, const struct grid *grid, int point) {
    *text = 0;
    for (int k = 0, axis; k < grid->keys; k++) {
        const struct grid_key *key = grid_key(grid, k, &axis);
        sprintf(text + strlen(text), "%s%s=%s", k ? " " : "", key->name,
                key->text[grid_index(grid, point, axis)]);
    }
}

/* A line of the command line takes the place of the one of the same keys, or comes last. */
static void test_lines_of_the_command_line(void **state) {
    (void)state;
    static const char *const words[] = {"--sweep.b.y=7 8", "a.x=1", "sweep . a.x,a.z = 1 2 | 3 4",
                                        "--sweep. along = b.y", "--sweep.c.u=linspace(0, 1, 3)"};
    static const char *const want[] = {"b.y", "a.x,a.z", "a.w", "c.u"};
    struct grid grid;
    struct err err;
    sweep_ini("along = a.w\nb.y = 1 2 3\na.x, a.z = 5 6\na.w = 0 1\n");
    if (grid_read(&grid, "case.ini", COUNT(words), (char *const *)words, &err))
        fail_msg("%s", err.text);
    assert_int_equal(grid.axes, 4);
    for (int a = 0; a < 4; a++)
        assert_string_equal(grid.axis[a].name, want[a]);
    assert_int_equal(grid.points, 2 * 2 * 2 * 3);
    assert_string_equal(grid.axis[0].key->text[1], "8");
    assert_string_equal(grid.axis[1].key[1].text[1], "4");
    assert_string_equal(grid.along, "b.y");
    grid_free(&grid);
}

/* The last line varies fastest, keys of one line go together, whatever its place. */
static void test_order_of_points(void **state) {
    (void)state;
    static const struct {
        const char *sweep, *point[9];
    } table[] = {
        {"a.x, b.y = 1 u | 0 v\nc.z = 5 6\n",
         {"a.x=1 b.y=u c.z=5", "a.x=1 b.y=u c.z=6", "a.x=0 b.y=v c.z=5", "a.x=0 b.y=v c.z=6"}},
        {"c.z = 5 6\na.x , b.y=1 u|0\tv\n",
         {"c.z=5 a.x=1 b.y=u", "c.z=5 a.x=0 b.y=v", "c.z=6 a.x=1 b.y=u", "c.z=6 a.x=0 b.y=v"}},
        {"a.x,b.y = 1,2 3|4 ,5\nc.z, d.w, e.v = 1 2 3\n",
         {"a.x=1 b.y=2 3 c.z=1 d.w=2 e.v=3", "a.x=4 b.y=5 c.z=1 d.w=2 e.v=3"}},
        {"a.x, b.y = 1 N^0.5, 2 | N, 3\n", {"a.x=1 N^0.5 b.y=2", "a.x=N b.y=3"}},
        {"a.x = 3 2 0.5\n", {"a.x=3", "a.x=2", "a.x=0.5"}},
        {"objective = loss\na.x = 1\nalong = a.x\n", {"a.x=1"}},
        {"a.x = 0.5 | 1 N^0.5 | N\n", {"a.x=0.5", "a.x=1 N^0.5", "a.x=N"}},
        {"a.x = linspace(-1, 2, 4)\n", {"a.x=-1", "a.x=0", "a.x=1", "a.x=2"}},
        {"a.x = logspace(0.5, 8, 3)\n", {"a.x=0.5", "a.x=2", "a.x=8"}},
        {"a.x = logspace(49, 1000001, 3)\n", {"a.x=49", "a.x=7000", "a.x=1000001"}},
        {"a.x = one linspace.csv\n", {"a.x=one", "a.x=linspace.csv"}},
        {"a.x = N^-0.5 N^0.5 2N\n", {"a.x=N^-0.5", "a.x=N^0.5", "a.x=2N"}},
        {"a.x = 1, 2 3\n", {"a.x=1,", "a.x=2", "a.x=3"}},
        {"a.a = 1 2\nb.b = u v\nc.c, d.d = 1 2\ne.e = 7\nf.f = 8 9\n",
         {"a.a=1 b.b=u c.c=1 d.d=2 e.e=7 f.f=8", "a.a=1 b.b=u c.c=1 d.d=2 e.e=7 f.f=9",
          "a.a=1 b.b=v c.c=1 d.d=2 e.e=7 f.f=8", "a.a=1 b.b=v c.c=1 d.d=2 e.e=7 f.f=9",
          "a.a=2 b.b=u c.c=1 d.d=2 e.e=7 f.f=8", "a.a=2 b.b=u c.c=1 d.d=2 e.e=7 f.f=9",
          "a.a=2 b.b=v c.c=1 d.d=2 e.e=7 f.f=8", "a.a=2 b.b=v c.c=1 d.d=2 e.e=7 f.f=9"}},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct grid grid;
        char text[256];
        int count = 0;
        read_grid(&grid, table[i].sweep);
        for (; table[i].point[count]; count++) {
            spell(text, &grid, count);
            assert_string_equal(text, table[i].point[count]);
        }
        assert_int_equal(grid.points, count);
        grid_free(&grid);
    }
}

static void test_names_of_points(void **state) {
    (void)state;
    struct grid grid;
    struct err err;
    char *text;
    read_grid(&grid, "a.x, b.y , c.z = 1, 2 3, w | 4, 5, w\nd.d = 1 2\n");
    assert_string_equal(grid.axis[0].name, "a.x,b.y,c.z");
    assert_string_equal(grid.axis[1].name, "d.d");
    assert_int_equal(grid_point(&text, &grid.axis[0], 0, &err), 0);
    assert_string_equal(text, "1, 2 3, w");
    free(text);
    assert_int_equal(grid_point(&text, &grid.axis[0], 1, &err), 0);
    assert_string_equal(text, "4 5 w");
    free(text);
    const struct grid_key *key = grid.axis[0].key;
    assert_true(key[0].value && key[0].value[1] == 4 && !key[1].value && !key[2].value);
    grid_free(&grid);
    grid_free(&grid);
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
static void test_a_list_of_points_is_the_grid_it_spells(void **state) {
    (void)state;
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
static void test_the_optimum_beside_a_list(void **state) {
    (void)state;
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

/* The final losses at each point, in the order of [point][N = 8, limit], are those of dmft-solve
 * with the values of the point. */
static void check_single_runs(const char *sweep) {
    struct grid grid;
    size_t count, times;
    read_grid(&grid, sweep);
    hid_t all = cli_file("out.h5");
    double *loss = cli_values(all, "sweep/loss", &count);
    assert_int_equal(count, 2 * grid.points);
    H5Fclose(all);
    cli_print("single.ini", grid.rest);
    cli_program("dmft-solve");
    for (int point = 0; point < grid.points; point++) {
        char value[8][64] = {{0}};
        const char *arg[16] = {"--quiet", "--force", "-o", "one.h5", "single.ini"};
        assert_in_range(grid.keys, 1, 8);
        for (int k = 0, axis; k < grid.keys; k++) {
            const struct grid_key *key = grid_key(&grid, k, &axis);
            snprintf(value[k], sizeof *value, "--%s=%s", key->name,
                     key->text[grid_index(&grid, point, axis)]);
            arg[5 + k] = value[k];
        }
        struct cli_result result;
        cli_run(&result, arg);
        assert_int_equal(result.code, 0);
        cli_free(&result);
        hid_t file = cli_file("one.h5");
        double *want[] = {cli_values(file, "reference/N0008/loss", &times),
                          cli_values(file, "limit/loss", &times)};
        for (int c = 0; c < 2; c++) {
            CHECK_ABS(loss[2 * point + c], want[c][times - 1], 0, "point %d", point);
            free(want[c]);
        }
        H5Fclose(file);
    }
    cli_program("dmft-sweep");
    grid_free(&grid);
    free(loss);
}

static void test_four_axes(void **state) {
    (void)state;
    static const char sweep[] = "training.eta0 = 0.2 0.4\ntraining.gamma0 = 0.5 1\n"
                                "network.activation = tanh linear\nsolver.seed = 1 2\n";
    char *table = sweep_into("out", sweep, NULL);
    assert_non_null(strstr(table, "\ntraining.eta0  training.gamma0  network.activation  solver"));
    hid_t file = cli_file("out.h5");
    check_axes(file, "sweep/loss", "training.eta0 training.gamma0 network.activation solver.seed N",
               SHAPE(2, 2, 2, 2, 2));
    assert_false(H5Aexists_by_name(file, "sweep", "coordinates", H5P_DEFAULT));
    H5Fclose(file);
    check_single_runs(sweep);
    free(table);
}

/* Seven keys, two of the axes lists of points; the optimum along the fourth. */
static void test_five_axes(void **state) {
    (void)state;
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
    check_single_runs(sweep);
    free(table);
}

/* Lists and axes beyond any buffer: names of 600 bytes in all, 22 axes. */
static void test_names_of_any_length(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        GRID_TEST(test_numbers_and_bytes),
        GRID_TEST(test_lines_of_the_command_line),
        GRID_TEST(test_order_of_points),
        GRID_TEST(test_names_of_points),
        GRID_TEST(test_a_list_of_points_is_the_grid_it_spells),
        GRID_TEST(test_the_optimum_beside_a_list),
        GRID_TEST(test_four_axes),
        GRID_TEST(test_five_axes),
        GRID_TEST(test_names_of_any_length),
    };
    return cmocka_run_group_tests(tests, cli_open_sweep, cli_close);
}
