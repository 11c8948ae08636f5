/* Targets of data sets: every shape of y, what becomes of it, and what is refused. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/data_file.h"

#include <limits.h>

#define ONES(...)                                                                                  \
    (const double[]) {                                                                             \
        __VA_ARGS__                                                                                \
    }

/* Every shape of y, and what becomes of it. */
FOLDER_TEST(test_targets) {
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

FOLDER_TEST(test_targets_refused) {
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
FOLDER_TEST(test_test_targets) {
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

AROUND_TESTS(quiet, close_library)
