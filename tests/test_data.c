/* Data sets: what is read, and every way to be refused. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/data_file.h"

static const struct set good_X = SET("double", NULL, 4, 3), good_y = SET("double", NULL, 4);

FOLDER_TEST(test_data) {
    const struct data_case cases[] = {{good_X, good_y, "", NULL},
                                      {SET("int", NULL, 4, 3), SET("float", NULL, 4, 1), "", NULL}};
    char path[PATH_MAX];
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < COUNT(cases); k++) {
        write_case(path, &cases[k]);
        assert_ok(data_read(&data, path, &mse, &failure), &failure);
        assert_true(data.P == 4 && data.D == 3 && data.X[7] == 7 && data.y[3] == 3);
        assert_true(data.n == 1 && data.C == 1 && !data.per_token && !data.V && !data.token);
        assert_false(data.classes);
        data_free(&data);
        data_free(&data);
    }
}

/* X_test and y_test follow; what is wrong with them is said by their names. */
FOLDER_TEST(test_test_inputs) {
    static const STRUCT(struct set X, y; const char *part) cases[] = {
        {SET("double", NULL, 2, 3), SET("double", NULL, 2), NULL},
        {SET("double", NULL, 2, 4), SET("double", NULL, 2), "X has 3 numbers in each and X_test 4"},
        {SET("double", NULL, 2, 3), SET("double", NULL, 3), "X_test has 2 inputs and y_test has 3"},
        {SET("double", NULL, 2, 3), {.rank = -1}, "no dataset y_test"},
        {SET("double", NULL, 3, 3), SET("double", NULL, 3), "X_test is too large"},
    };
    const struct data_case train = {good_X, good_y, "", NULL};
    const struct data_wanted wanted = {.loss = &loss_mse, .most = 20};
    char path[PATH_MAX];
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < COUNT(cases); k++) {
        write_case(path, &train);
        hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        write_set(file, "X_test", &cases[k].X, "");
        write_set(file, "y_test", &cases[k].y, "");
        assert_true(H5Fclose(file) >= 0);
        int code = data_read(&data, path, &wanted, &failure);
        if (cases[k].part) {
            assert_refused(code, CODE_INPUT, cases[k].part, &failure);
            continue;
        }
        assert_ok(code, &failure);
        assert_true(data.P == 4 && data.tests == 2 && data.X[7] == 7 && data.X[12 + 4] == 4);
        assert_true(data.y[3] == 3 && data.y[4] == 0 && data.y[5] == 1);
        data_free(&data);
    }
}

FOLDER_TEST(test_data_refused) {
    const struct data_case cases[] = {
        {{.rank = -1}, good_y, "", "no dataset X"},
        {good_X, {.rank = -1}, "", "no dataset y"},
        {SET("double", NULL, 4), good_y, "", "X has rank 1"},
        {SET("double", NULL, 2, 3, 1, 2), good_y, "", "X has rank 4"},
        {good_X, SET("double", NULL, 4, 1, 1, 1), "", "y has rank 4"},
        {{0, {0}, "double", NULL}, good_y, "", "X has rank 0"},
        {good_X, {0, {0}, "double", NULL}, "", "y has rank 0"},
        {good_X, SET("double", NULL, 5), "", "X has 4 inputs and y has 5"},
        {SET("double", NULL, 0, 3), SET("double", NULL, 0), "", "X is empty (0 x 3"},
        {SET("double", NULL, 4, 0), good_y, "", "X is empty (4 x 0"},
        {good_X, SET("double", NULL, 4, 0), "", "y is empty (4 x 0"},
        {SET("double", NULL, 2, 2, 3), SET("double", NULL, 2, 3, 1), "",
         "in X has 2 rows and in y 3"},
        {SET("text", NULL, 4, 3), good_y, "", "X does not hold"},
        {good_X, SET("text", NULL, 4), "", "y does not hold"},
        {{0, {0}, "group", NULL}, good_y, "", "X is not a dataset"},
        {good_X, good_y, "nan", "X[1][2] is NaN"},
        {good_X, good_y, "inf", "y[1] is infinite"},
        {SET("double", NULL, 2, 2, 3), SET("double", NULL, 2, 2, 1), "nan", "X[0][1][2] is NaN"},
        {SET("double", NULL, 2, 2, 3), SET("double", NULL, 2, 2, 1), "inf",
         "y[0][1][0] is infinite"},
        {SET("double", NULL, 13, 2), SET("double", NULL, 13), "", "13 x 2"},
        {good_X, SET("double", NULL, 4, 4), "", "y is too large, 4 x 4"},
    };
    char path[PATH_MAX];
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < COUNT(cases); k++) {
        write_case(path, &cases[k]);
        assert_refused(data_read(&data, path, &mse, &failure), CODE_INPUT, cases[k].part, &failure);
        assert_non_null(strstr(failure.text, path));
        assert_true(!data.X && !data.y && !data.P && !data.D);
    }
}

/* An array of these extents, whose values nobody has written. */
static void add_extents(hid_t file, const char *name, int rank, const hsize_t *shape) {
    const hsize_t chunk[2] = {1, 1};
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(rank, shape, NULL);
    assert_true(H5Pset_chunk(plist, rank, chunk) >= 0);
    hid_t set = H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(set >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(plist);
}

static const struct data_wanted any_size = {.loss = &loss_mse, .most = SIZE_MAX};

/* Extents far too large for any memory are refused by their sizes alone. */
FOLDER_TEST(test_data_huge) {
    char path[PATH_MAX];
    struct data data;
    const hsize_t shape[2] = {(hsize_t)1 << 32, (hsize_t)1 << 33};
    hid_t file =
        H5Fcreate(in_folder(path, state, "data.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    add_extents(file, "X", 2, shape);
    add_extents(file, "y", 1, shape);
    H5Fclose(file);
    assert_refused(data_read(&data, path, &any_size, &failure), CODE_INPUT, "too large", &failure);
}

/* Inputs and test inputs are counted together by one int, which is looked at before values are
 * read: one more than that is refused, as many as that end where memory does. */
FOLDER_TEST(test_inputs_are_counted_together) {
#ifdef __SANITIZE_ADDRESS__
    skip(); /* it breaks down where memory is limited */
#endif
    char path[PATH_MAX];
    struct data data;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    for (hsize_t tests = 1; tests <= 2; tests++) {
        const hsize_t inputs[2] = {INT_MAX - 1, 1}, others[2] = {tests, 1};
        hid_t file =
            H5Fcreate(in_folder(path, state, "data.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        add_extents(file, "X", 2, inputs);
        add_extents(file, "y", 1, inputs);
        add_extents(file, "X_test", 2, others);
        add_extents(file, "y_test", 1, others);
        H5Fclose(file);
        setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)8 << 30, before.rlim_max});
        int code = data_read(&data, path, &any_size, &failure);
        setrlimit(RLIMIT_AS, &before);
        assert_refused(code, tests == 2 ? CODE_INPUT : CODE_SYSTEM,
                       tests == 2 ? "2147483646 and 2 inputs are too many" : "out of memory",
                       &failure);
    }
}

FOLDER_TEST(test_data_files) {
    char path[PATH_MAX];
    FREED(data_free) struct data data;
    in_folder(path, state, "data.h5");
    assert_refused(data_read(&data, path, &mse, &failure), CODE_INPUT, "No such file", &failure);
    assert_refused(data_read(&data, *state, &mse, &failure), CODE_INPUT, "is a folder", &failure);
    assert_refused(data_read(&data, "/dev/null", &mse, &failure), CODE_INPUT, "regular file",
                   &failure);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("X,y\n1,2\n", file);
    fclose(file);
    assert_refused(data_read(&data, path, &mse, &failure), CODE_INPUT, "not an HDF5 file",
                   &failure);
    const struct data_case good = {good_X, good_y, "", NULL};
    write_case(path, &good);
    assert_int_equal(truncate(path, 900), 0);
    assert_refused(data_read(&data, path, &mse, &failure), CODE_INPUT, "damaged", &failure);
}

AROUND_TESTS(quiet, close_library)
