/* Data sets: what is read, and every way to be refused. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "models/engine/net.h"
#include "solver/data/data.h"
#include "solver/files/io.h"

#include <hdf5.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder of its own for every test: the state. */
static int open_folder(void **state) {
    static const char pattern[] = "/tmp/test_data_XXXXXX";
    *state = malloc(sizeof pattern);
    if (!*state)
        return -1;
    memcpy(*state, pattern, sizeof pattern);
    return mkdtemp(*state) ? 0 : -1;
}

/* The one file that the tests leave. */
static int remove_folder(void **state) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/data.h5", (const char *)*state);
    remove(path);
    int failed = rmdir(*state);
    free(*state);
    return failed;
}

static const char *in_folder(char path[PATH_MAX], void **state, const char *name) {
    snprintf(path, PATH_MAX, "%s/%s", (const char *)*state, name);
    return path;
}

static void assert_ok(int code, const struct err *err) {
    if (code)
        fail_msg("code %d: %s", code, err->text);
}

static void assert_refused(int got, int code, const char *part, const struct err *err) {
    if (got != code || err->code != code || !strstr(err->text, part))
        fail_msg("code %d instead of %d, or no \"%s\" in: %s", got, code, part, err->text);
}

/* One dataset of a data file; rank -1: there is none. Values are 0, 1, 2, ... or given. */
struct set {
    int rank;
    hsize_t shape[4];
    const char *type; /* of the file: double, float, int, text, group */
    const double *value;
};
struct data_case {
    struct set X, y;
    const char *what; /* the values of X and y that are spoilt, see write_set */
    const char *part; /* of the sentence */
};
static const struct data_wanted mse = {.loss = &loss_mse, .most = 12};

static hid_t type_of(const char *name) {
    if (!strcmp(name, "float"))
        return H5T_IEEE_F32BE;
    if (!strcmp(name, "int"))
        return H5T_STD_I8LE;
    return strcmp(name, "text") ? H5T_IEEE_F64LE : H5T_C_S1;
}

static void write_set(hid_t file, const char *name, const struct set *set, const char *what) {
    double values[64];
    hsize_t count = 1;
    if (set->rank < 0)
        return;
    if (!strcmp(set->type, "group")) {
        H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        return;
    }
    for (int k = 0; k < set->rank; k++)
        count *= set->shape[k];
    assert_true(count <= 64);
    for (hsize_t k = 0; k < count; k++)
        values[k] = set->value ? set->value[k] : (double)k;
    if (!strcmp(what, "nan") && *name != 'y')
        values[5] = NAN;
    if (!strcmp(what, "inf") && *name == 'y')
        values[1] = -INFINITY;
    hid_t space = H5Screate_simple(set->rank, set->shape, NULL);
    hid_t made =
        H5Dcreate2(file, name, type_of(set->type), space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(made >= 0);
    if (strcmp(set->type, "text"))
        assert_true(H5Dwrite(made, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(made);
    H5Sclose(space);
}

static void write_sets(const char *path, int count, const char *const *name, const struct set *set,
                       const char *what) {
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    for (int k = 0; k < count; k++)
        write_set(file, name[k], &set[k], what);
    assert_true(H5Fclose(file) >= 0);
}

static void write_case(const char *path, const struct data_case *one) {
    const struct set sets[] = {one->X, one->y};
    write_sets(path, 2, (const char *const[]){"X", "y"}, sets, one->what);
}

static const struct set good_X = {2, {4, 3}, "double", NULL}, good_y = {1, {4}, "double", NULL};

static void test_data(void **state) {
    const struct data_case cases[] = {
        {good_X, good_y, "", NULL},
        {{2, {4, 3}, "int", NULL}, {2, {4, 1}, "float", NULL}, "", NULL}};
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        write_case(path, &cases[k]);
        assert_ok(data_read(&data, path, &mse, &err), &err);
        assert_true(data.P == 4 && data.D == 3 && data.X[7] == 7 && data.y[3] == 3);
        assert_true(data.n == 1 && data.C == 1 && !data.per_token && !data.V && !data.token);
        assert_false(data.classes);
        data_free(&data);
        data_free(&data);
    }
}

/* X_test and y_test follow; what is wrong with them is said by their names. */
static void test_test_inputs(void **state) {
    static const struct {
        struct set X, y;
        const char *part;
    } cases[] = {
        {{2, {2, 3}, "double", NULL}, {1, {2}, "double", NULL}, NULL},
        {{2, {2, 4}, "double", NULL},
         {1, {2}, "double", NULL},
         "X has 3 numbers in each and X_test 4"},
        {{2, {2, 3}, "double", NULL},
         {1, {3}, "double", NULL},
         "X_test has 2 inputs and y_test has 3"},
        {{2, {2, 3}, "double", NULL}, {.rank = -1}, "no dataset y_test"},
        {{2, {3, 3}, "double", NULL}, {1, {3}, "double", NULL}, "X_test is too large"},
    };
    const struct data_case train = {good_X, good_y, "", NULL};
    const struct data_wanted wanted = {.loss = &loss_mse, .most = 20};
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        write_case(path, &train);
        hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        write_set(file, "X_test", &cases[k].X, "");
        write_set(file, "y_test", &cases[k].y, "");
        assert_true(H5Fclose(file) >= 0);
        int code = data_read(&data, path, &wanted, &err);
        if (cases[k].part) {
            assert_refused(code, CODE_INPUT, cases[k].part, &err);
            continue;
        }
        assert_ok(code, &err);
        assert_true(data.P == 4 && data.tests == 2 && data.X[7] == 7 && data.X[12 + 4] == 4);
        assert_true(data.y[3] == 3 && data.y[4] == 0 && data.y[5] == 1);
        data_free(&data);
    }
}

static void test_data_refused(void **state) {
    const struct data_case cases[] = {
        {{.rank = -1}, good_y, "", "no dataset X"},
        {good_X, {.rank = -1}, "", "no dataset y"},
        {{1, {4}, "double", NULL}, good_y, "", "X has rank 1"},
        {{4, {2, 3, 1, 2}, "double", NULL}, good_y, "", "X has rank 4"},
        {good_X, {4, {4, 1, 1, 1}, "double", NULL}, "", "y has rank 4"},
        {{0, {0}, "double", NULL}, good_y, "", "X has rank 0"},
        {good_X, {0, {0}, "double", NULL}, "", "y has rank 0"},
        {good_X, {1, {5}, "double", NULL}, "", "X has 4 inputs and y has 5"},
        {{2, {0, 3}, "double", NULL}, {1, {0}, "double", NULL}, "", "X is empty (0 x 3"},
        {{2, {4, 0}, "double", NULL}, good_y, "", "X is empty (4 x 0"},
        {good_X, {2, {4, 0}, "double", NULL}, "", "y is empty (4 x 0"},
        {{3, {2, 2, 3}, "double", NULL},
         {3, {2, 3, 1}, "double", NULL},
         "",
         "in X has 2 rows and in y 3"},
        {{2, {4, 3}, "text", NULL}, good_y, "", "X does not hold"},
        {good_X, {1, {4}, "text", NULL}, "", "y does not hold"},
        {{0, {0}, "group", NULL}, good_y, "", "X is not a dataset"},
        {good_X, good_y, "nan", "X[1][2] is NaN"},
        {good_X, good_y, "inf", "y[1] is infinite"},
        {{3, {2, 2, 3}, "double", NULL},
         {3, {2, 2, 1}, "double", NULL},
         "nan",
         "X[0][1][2] is NaN"},
        {{3, {2, 2, 3}, "double", NULL},
         {3, {2, 2, 1}, "double", NULL},
         "inf",
         "y[0][1][0] is infinite"},
        {{2, {13, 2}, "double", NULL}, {1, {13}, "double", NULL}, "", "13 x 2"},
        {good_X, {2, {4, 4}, "double", NULL}, "", "y is too large, 4 x 4"},
    };
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        write_case(path, &cases[k]);
        assert_refused(data_read(&data, path, &mse, &err), CODE_INPUT, cases[k].part, &err);
        assert_non_null(strstr(err.text, path));
        assert_true(!data.X && !data.y && !data.P && !data.D);
    }
}

/* --- targets --------------------------------------------------------------------------------- */

#define ONES(...)                                                                                  \
    (const double[]) {                                                                             \
        __VA_ARGS__                                                                                \
    }

/* Every shape of y, and what becomes of it. */
static void test_targets(void **state) {
    const struct set X = {2, {3, 2}, "double", NULL}, rows = {3, {3, 2, 2}, "double", NULL};
    const struct {
        struct set X, y;
        const struct loss *loss;
        int outputs;
        int C;
        bool per_token, classes;
        const double *want; /* [places][C]; NULL: as stored */
    } cases[] = {
        {X, {1, {3}, "double", ONES(1, -1, 1)}, &loss_mse, 0, 1, false, true, NULL},
        {X, {1, {3}, "int", ONES(1, 0, 1)}, &loss_mse, 1, 1, false, false, NULL},
        {X, {2, {3, 1}, "int", ONES(1, -1, 1)}, &loss_logistic, 0, 1, false, true, NULL},
        {X, {2, {3, 2}, "double", ONES(.5, 2, 1, 0, 0, 1)}, &loss_mse, 0, 2, false, false, NULL},
        {X, {2, {3, 2}, "float", ONES(1, 0, 1, 0, 0, 1)}, &loss_mse, 2, 2, false, true, NULL},
        {X, {2, {3, 2}, "float", ONES(1, 0, 1, 0, 0, 0)}, &loss_mse, 2, 2, false, false, NULL},
        {X, {1, {3}, "int", ONES(1, 0, 1)}, &loss_mse, 2, 2, false, true, ONES(0, 1, 1, 0, 0, 1)},
        {X,
         {1, {3}, "double", ONES(2, 0, 1)},
         &loss_cross_entropy,
         0,
         3,
         false,
         true,
         ONES(0, 0, 1, 1, 0, 0, 0, 1, 0)},
        {X,
         {2, {3, 1}, "int", ONES(1, 0, 1)},
         &loss_cross_entropy,
         3,
         3,
         false,
         true,
         ONES(0, 1, 0, 1, 0, 0, 0, 1, 0)},
        {X,
         {2, {3, 2}, "int", ONES(1, 0, 1, 0, 0, 1)},
         &loss_cross_entropy,
         0,
         2,
         false,
         true,
         NULL},
        /* two rows in each input: integers [3][2] are labels of rows, floats are two outputs */
        {rows,
         {1, {3}, "int", ONES(1, 0, 1)},
         &loss_cross_entropy,
         0,
         2,
         false,
         true,
         ONES(0, 1, 1, 0, 0, 1)},
        {rows,
         {2, {3, 2}, "int", ONES(1, 0, -1, 1, 0, 1)},
         &loss_cross_entropy,
         0,
         2,
         true,
         true,
         ONES(0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1)},
        {rows,
         {2, {3, 2}, "double", ONES(1, 0, 1, 0, 0, 1)},
         &loss_cross_entropy,
         0,
         2,
         false,
         true,
         NULL},
        {rows,
         {2, {3, 2}, "int", ONES(1, -1, -1, 1, -1, 1)},
         &loss_logistic,
         0,
         1,
         true,
         true,
         NULL},
        {rows, {2, {3, 3}, "int", NULL}, &loss_mse, 0, 3, false, false, NULL},
        {rows, {3, {3, 2, 1}, "double", NULL}, &loss_mse, 0, 1, true, false, NULL},
        {rows,
         {3, {3, 2, 1}, "double", ONES(1, 0, 1, 1, 0, 1)},
         &loss_mse,
         2,
         2,
         true,
         true,
         ONES(0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1)},
        {rows,
         {3, {3, 2, 2}, "int", ONES(1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0)},
         &loss_cross_entropy,
         0,
         2,
         true,
         true,
         NULL},
        {{3, {3, 1, 2}, "double", NULL},
         {3, {3, 1, 2}, "double", NULL},
         &loss_mse,
         0,
         2,
         false,
         false,
         NULL},
    };
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct data_wanted wanted = {cases[k].loss, cases[k].outputs, .most = 18};
        const struct data_case one = {cases[k].X, cases[k].y, "", NULL};
        write_case(path, &one);
        assert_ok(data_read(&data, path, &wanted, &err), &err);
        if (data.P != 3 || data.C != cases[k].C || data.per_token != cases[k].per_token ||
            data.classes != cases[k].classes ||
            data.n != (cases[k].X.shape[1] == 2 && cases[k].X.rank == 3 ? 2 : 1) || data.D != 2)
            fail_msg("case %zu: P %d n %d D %d C %d per_token %d classes %d", k, data.P, data.n,
                     data.D, data.C, data.per_token, data.classes);
        const double *want = cases[k].want ? cases[k].want : cases[k].y.value;
        for (size_t i = 0; i < data_places(&data) * (size_t)data.C; i++)
            if (data.y[i] != (want ? want[i] : (double)i))
                fail_msg("case %zu: y[%zu] = %g", k, i, data.y[i]);
        for (size_t i = 0; i < data_rows(&data) * 2; i++)
            assert_true(data.X[i] == (double)i);
        data_free(&data);
    }
}

static void test_targets_refused(void **state) {
    const struct set X = {2, {3, 2}, "double", NULL}, rows = {3, {3, 2, 2}, "double", NULL};
    const struct {
        struct set X, y;
        const struct loss *loss;
        int outputs;
        const char *part;
    } cases[] = {
        {X, {2, {3, 2}, "double", NULL}, &loss_logistic, 0, "logistic has one output"},
        {X,
         {2, {3, 2}, "double", NULL},
         &loss_mse,
         3,
         "y has 2 columns, but [network] outputs = 3"},
        {X,
         {2, {3, 2}, "double", NULL},
         &loss_mse,
         1,
         "y has 2 columns, but [network] outputs = 1"},
        {X,
         {1, {3}, "double", ONES(0, 1.5, 1)},
         &loss_cross_entropy,
         0,
         "y[1] = 1.5, where classes"},
        {X, {1, {3}, "double", ONES(0, 1.5, 1)}, &loss_mse, 2, "y[1] = 1.5, where classes"},
        {X, {1, {3}, "int", ONES(1, 1, -1)}, &loss_cross_entropy, 0, "y[2] = -1, where classes"},
        {X, {1, {3}, "int", ONES(1, 2, 0)}, &loss_cross_entropy, 2, "0 to 1, as [network] outputs"},
        {X, {1, {3}, "int", ONES(0, 0, 0)}, &loss_cross_entropy, 0, "every label is 0"},
        {X, {1, {3}, "double", ONES(0, 3e9, 0)}, &loss_cross_entropy, 0, "y[1] = 3e+09, where"},
        {X, {1, {3}, "int", ONES(0, 99, 0)}, &loss_cross_entropy, 0, "100 classes at 3 places"},
        {X,
         {2, {3, 2}, "double", ONES(1, 0, 1, 1, 0, 1)},
         &loss_cross_entropy,
         0,
         "y[1] is not one-hot"},
        {X,
         {2, {3, 2}, "double", ONES(1, 0, 0, 0, 0, 1)},
         &loss_cross_entropy,
         0,
         "y[1] is not one-hot"},
        {rows,
         {3, {3, 2, 2}, "double", ONES(1, 0, .5, .5, 0, 1, 0, 1, 0, 1, 0, 1)},
         &loss_cross_entropy,
         0,
         "y[0][1] is not one-hot (one 1 and zeros, or zeros alone"},
        {rows,
         {2, {3, 2}, "int", ONES(1, 0, -1, -2, 0, 1)},
         &loss_cross_entropy,
         0,
         "y[1][1] = -2, where classes are integers from 0 on, or -1"},
        {rows, {2, {3, 2}, "int", ONES(1, 0, -1, 0, 0, 1)}, &loss_mse, 2, "y[1][0] = -1, where"},
        {rows,
         {2, {3, 2}, "int", ONES(-1, -1, -1, -1, -1, -1)},
         &loss_cross_entropy,
         0,
         "y asks for nothing"},
        {rows,
         {3, {3, 2, 2}, "int", ONES(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)},
         &loss_cross_entropy,
         0,
         "y asks for nothing"},
    };
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct data_wanted wanted = {cases[k].loss, cases[k].outputs, .most = 18};
        const struct data_case one = {cases[k].X, cases[k].y, "", NULL};
        write_case(path, &one);
        assert_refused(data_read(&data, path, &wanted, &err), CODE_INPUT, cases[k].part, &err);
        assert_true(!data.X && !data.y && !data.P);
    }
}

/* Test inputs count for the number of classes, and are as the others. */
static void test_test_targets(void **state) {
    const char *const names[] = {"X", "y", "X_test", "y_test"};
    const struct set X = {2, {3, 2}, "double", NULL}, rows = {3, {3, 2, 2}, "double", NULL};
    const struct set labels = {1, {3}, "int", ONES(0, 1, 0)};
    const struct set large = {1, {3}, "int", ONES(0, 2, 0)};
    const struct {
        struct set set[4];
        const struct loss *loss;
        const char *part;
    } cases[] = {
        {{X, large, {2, {1, 2}, "double", NULL}, {1, {1}, "int", ONES(1)}},
         &loss_cross_entropy,
         NULL},
        {{X, labels, {2, {1, 2}, "double", NULL}, {1, {1}, "int", ONES(2)}},
         &loss_cross_entropy,
         NULL},
        {{X, labels, {2, {1, 2}, "double", NULL}, {1, {1}, "int", ONES(-1)}},
         &loss_cross_entropy,
         "y_test[0] = -1"},
        {{X, labels, {2, {1, 2}, "double", NULL}, {2, {1, 2}, "int", NULL}},
         &loss_mse,
         "not of the same kind, 1 numbers for each input and 2 for each input"},
        {{rows, labels, {3, {1, 2, 2}, "double", NULL}, {2, {1, 2}, "int", NULL}},
         &loss_mse,
         "not of the same kind, 1 numbers for each input and 1 for each token"},
        {{X, labels, {3, {1, 2, 1}, "double", NULL}, labels},
         &loss_mse,
         "in rows of another length"},
        {{rows, labels, {3, {1, 4, 1}, "double", NULL}, labels},
         &loss_mse,
         "in rows of another length"},
        {{rows, labels, {3, {1, 4, 2}, "double", NULL}, labels},
         &loss_mse,
         "X has 4 numbers in each and X_test 8"},
        {{rows, labels, {2, {1, 2}, "double", NULL}, labels},
         &loss_mse,
         "X has 4 numbers in each and X_test 2"},
        {{X, labels, {.rank = -1}, labels}, &loss_mse, "has y_test and no X_test"},
    };
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct data_wanted wanted = {.loss = cases[k].loss, .most = 20};
        write_sets(path, 4, names, cases[k].set, "");
        int code = data_read(&data, path, &wanted, &err);
        if (cases[k].part) {
            assert_refused(code, CODE_INPUT, cases[k].part, &err);
            continue;
        }
        assert_ok(code, &err);
        assert_true(data.C == 3 && data.tests == 1);
        for (int mu = 0; mu < 4; mu++) { /* y of mu = 1, or of the test input, is the largest */
            double label = mu < 3 ? cases[k].set[1].value[mu] : cases[k].set[3].value[0];
            for (int c = 0; c < 3; c++)
                assert_true(data.y[3 * mu + c] == (c == (int)label));
        }
        data_free(&data);
    }
}

/* Extents without values, far too large for any memory: refused by their sizes alone. */
static void test_data_huge(void **state) {
    char path[PATH_MAX];
    struct err err;
    struct data data;
    const hsize_t shape[2] = {(hsize_t)1 << 32, (hsize_t)1 << 33};
    hid_t file =
        H5Fcreate(in_folder(path, state, "data.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t chunk[2] = {1, 1024};
    for (int rank = 1; rank <= 2; rank++) {
        hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
        assert_true(H5Pset_chunk(plist, rank, chunk) >= 0);
        hid_t space = H5Screate_simple(rank, shape, NULL);
        hid_t set = H5Dcreate2(file, rank == 2 ? "X" : "y", H5T_IEEE_F64LE, space, H5P_DEFAULT,
                               plist, H5P_DEFAULT);
        assert_true(set >= 0);
        H5Dclose(set);
        H5Sclose(space);
        H5Pclose(plist);
    }
    H5Fclose(file);
    const struct data_wanted wanted = {.loss = &loss_mse, .most = SIZE_MAX};
    assert_refused(data_read(&data, path, &wanted, &err), CODE_INPUT, "too large", &err);
}

static void test_data_files(void **state) {
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    assert_refused(data_read(&data, path, &mse, &err), CODE_INPUT, "No such file", &err);
    assert_refused(data_read(&data, *state, &mse, &err), CODE_INPUT, "is a folder", &err);
    assert_refused(data_read(&data, "/dev/null", &mse, &err), CODE_INPUT, "regular file", &err);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("X,y\n1,2\n", file);
    fclose(file);
    assert_refused(data_read(&data, path, &mse, &err), CODE_INPUT, "not an HDF5 file", &err);
    const struct data_case good = {good_X, good_y, "", NULL};
    write_case(path, &good);
    assert_int_equal(truncate(path, 900), 0);
    assert_refused(data_read(&data, path, &mse, &err), CODE_INPUT, "damaged", &err);
    data_free(&data);
}

static int close_library(void **state) {
    (void)state;
    return H5close();
}

static int quiet(void **state) {
    (void)state;
    io_quiet();
    return 0;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, open_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_data),
        IN_FOLDER(test_test_inputs),
        IN_FOLDER(test_data_refused),
        IN_FOLDER(test_data_huge),
        IN_FOLDER(test_data_files),
        IN_FOLDER(test_targets),
        IN_FOLDER(test_targets_refused),
        IN_FOLDER(test_test_targets),
    };
    return cmocka_run_group_tests_name("data", tests, quiet, close_library);
}
