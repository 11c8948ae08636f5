/* Data sets: what is read, and every way to be refused. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "solver/settings/data.h"
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

/* One dataset of a data file; rank -1: there is none. */
struct set {
    int rank;
    hsize_t shape[3];
    const char *type; /* of the file: double, float, int, text, group */
};
struct data_case {
    struct set X, y;
    const char *what; /* the values of X and y that are spoilt, see write_set */
    const char *part; /* of the sentence */
};

static hid_t type_of(const char *name) {
    if (!strcmp(name, "float"))
        return H5T_IEEE_F32BE;
    if (!strcmp(name, "int"))
        return H5T_STD_U8LE;
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
        values[k] = (double)k;
    if (!strcmp(what, "nan") && *name == 'X')
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

static void write_case(const char *path, const struct data_case *one) {
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    write_set(file, "X", &one->X, one->what);
    write_set(file, "y", &one->y, one->what);
    assert_true(H5Fclose(file) >= 0);
}

static const struct set good_X = {2, {4, 3}, "double"}, good_y = {1, {4}, "double"};

static void test_data(void **state) {
    const struct data_case cases[] = {{good_X, good_y, "", NULL},
                                      {{2, {4, 3}, "int"}, {2, {4, 1}, "float"}, "", NULL}};
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        write_case(path, &cases[k]);
        assert_ok(data_read(&data, path, 12, &err), &err);
        assert_true(data.P == 4 && data.D == 3 && data.X[7] == 7 && data.y[3] == 3);
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
        {{2, {2, 3}, "double"}, {1, {2}, "double"}, NULL},
        {{2, {2, 4}, "double"}, {1, {2}, "double"}, "X has 3 numbers and X_test 4"},
        {{2, {2, 3}, "double"}, {1, {3}, "double"}, "X_test has 2 rows and y_test has 3"},
        {{2, {2, 3}, "double"}, {.rank = -1}, "no dataset y_test"},
        {{2, {3, 3}, "double"}, {1, {3}, "double"}, "X_test is too large"},
    };
    const struct data_case train = {good_X, good_y, "", NULL};
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
        int code = data_read(&data, path, 20, &err);
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
        {{1, {4}, "double"}, good_y, "", "X has rank 1"},
        {{3, {4, 3, 1}, "double"}, good_y, "", "X has rank 3"},
        {{0, {0}, "double"}, good_y, "", "X has rank 0"},
        {good_X, {0, {0}, "double"}, "", "y has rank 0"},
        {good_X, {1, {5}, "double"}, "", "X has 4 rows and y has 5"},
        {good_X, {2, {4, 2}, "double"}, "", "y has 2 columns"},
        {{2, {0, 3}, "double"}, {1, {0}, "double"}, "", "X is empty (0 rows of 3"},
        {{2, {4, 0}, "double"}, good_y, "", "X is empty (4 rows of 0"},
        {{2, {4, 3}, "text"}, good_y, "", "X does not hold"},
        {good_X, {1, {4}, "text"}, "", "y does not hold"},
        {{0, {0}, "group"}, good_y, "", "X is not a dataset"},
        {good_X, good_y, "nan", "X[1][2] is NaN"},
        {good_X, good_y, "inf", "y[1] is infinite"},
        {{2, {13, 2}, "double"}, {1, {13}, "double"}, "", "13 x 2"},
    };
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        write_case(path, &cases[k]);
        assert_refused(data_read(&data, path, 12, &err), CODE_INPUT, cases[k].part, &err);
        assert_non_null(strstr(err.text, path));
        assert_true(!data.X && !data.y && !data.P && !data.D);
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
    assert_refused(data_read(&data, path, SIZE_MAX, &err), CODE_INPUT, "too large", &err);
}

static void test_data_files(void **state) {
    char path[PATH_MAX];
    struct err err;
    struct data data;
    in_folder(path, state, "data.h5");
    assert_refused(data_read(&data, path, 99, &err), CODE_INPUT, "No such file", &err);
    assert_refused(data_read(&data, *state, 99, &err), CODE_INPUT, "is a folder", &err);
    assert_refused(data_read(&data, "/dev/null", 99, &err), CODE_INPUT, "regular file", &err);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("X,y\n1,2\n", file);
    fclose(file);
    assert_refused(data_read(&data, path, 99, &err), CODE_INPUT, "not an HDF5 file", &err);
    const struct data_case good = {good_X, good_y, "", NULL};
    write_case(path, &good);
    assert_int_equal(truncate(path, 900), 0);
    assert_refused(data_read(&data, path, 99, &err), CODE_INPUT, "damaged", &err);
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
        IN_FOLDER(test_data),      IN_FOLDER(test_test_inputs), IN_FOLDER(test_data_refused),
        IN_FOLDER(test_data_huge), IN_FOLDER(test_data_files),
    };
    return cmocka_run_group_tests_name("data", tests, quiet, close_library);
}
