/* Targets of data sets: every shape of y, what becomes of it, and what is refused. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/data_file.h"

/* Inputs: three of one row of two numbers, and three of two rows. */
#define FLAT SET("double", NULL, 3, 2)
#define ROWS SET("double", NULL, 3, 2, 2)

/* Every shape of y, and what becomes of it. */
FOLDER_TEST(test_targets) {
    const struct {
        struct set X, y;
        const struct loss *loss;
        int outputs;
        int C;
        bool per_token, classes;
        const double *want; /* [places][C]; NULL: as stored */
    } cases[] = {
        {FLAT, SET("double", NUMBERS(1, -1, 1), 3), &loss_mse, 0, 1, false, true, NULL},
        {FLAT, SET("int", NUMBERS(1, 0, 1), 3), &loss_mse, 1, 1, false, false, NULL},
        {FLAT, SET("int", NUMBERS(1, -1, 1), 3, 1), &loss_logistic, 0, 1, false, true, NULL},
        {FLAT, SET("double", NUMBERS(.5, 2, 1, 0, 0, 1), 3, 2), &loss_mse, 0, 2, false, false,
         NULL},
        {FLAT, SET("float", NUMBERS(1, 0, 1, 0, 0, 1), 3, 2), &loss_mse, 2, 2, false, true, NULL},
        {FLAT, SET("float", NUMBERS(1, 0, 1, 0, 0, 0), 3, 2), &loss_mse, 2, 2, false, false, NULL},
        {FLAT, SET("int", NUMBERS(1, 0, 1), 3), &loss_mse, 2, 2, false, true,
         NUMBERS(0, 1, 1, 0, 0, 1)},
        {FLAT, SET("double", NUMBERS(2, 0, 1), 3), &loss_cross_entropy, 0, 3, false, true,
         NUMBERS(0, 0, 1, 1, 0, 0, 0, 1, 0)},
        {FLAT, SET("int", NUMBERS(1, 0, 1), 3, 1), &loss_cross_entropy, 3, 3, false, true,
         NUMBERS(0, 1, 0, 1, 0, 0, 0, 1, 0)},
        {FLAT, SET("int", NUMBERS(1, 0, 1, 0, 0, 1), 3, 2), &loss_cross_entropy, 0, 2, false, true,
         NULL},
        /* two rows in each input: integers [3][2] are labels of rows, floats are two outputs */
        {ROWS, SET("int", NUMBERS(1, 0, 1), 3), &loss_cross_entropy, 0, 2, false, true,
         NUMBERS(0, 1, 1, 0, 0, 1)},
        {ROWS, SET("int", NUMBERS(1, 0, -1, 1, 0, 1), 3, 2), &loss_cross_entropy, 0, 2, true, true,
         NUMBERS(0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1)},
        {ROWS, SET("double", NUMBERS(1, 0, 1, 0, 0, 1), 3, 2), &loss_cross_entropy, 0, 2, false,
         true, NULL},
        {ROWS, SET("int", NUMBERS(1, -1, -1, 1, -1, 1), 3, 2), &loss_logistic, 0, 1, true, true,
         NULL},
        {ROWS, SET("int", NULL, 3, 3), &loss_mse, 0, 3, false, false, NULL},
        {ROWS, SET("double", NULL, 3, 2, 1), &loss_mse, 0, 1, true, false, NULL},
        {ROWS, SET("double", NUMBERS(1, 0, 1, 1, 0, 1), 3, 2, 1), &loss_mse, 2, 2, true, true,
         NUMBERS(0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1)},
        {ROWS, SET("int", NUMBERS(1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0), 3, 2, 2),
         &loss_cross_entropy, 0, 2, true, true, NULL},
        {SET("double", NULL, 3, 1, 2), SET("double", NULL, 3, 1, 2), &loss_mse, 0, 2, false, false,
         NULL},
    };
    char path[PATH_MAX];
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < COUNT(cases); k++) {
        const struct data_wanted wanted = {cases[k].loss, cases[k].outputs, .most = 18};
        const struct data_case one = {cases[k].X, cases[k].y, "", NULL};
        write_case(path, &one);
        assert_ok(data_read(&data, path, &wanted, &failure), &failure);
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
    const struct {
        struct set X, y;
        const struct loss *loss;
        int outputs;
        const char *part;
    } cases[] = {
        {FLAT, SET("double", NULL, 3, 2), &loss_logistic, 0, "logistic has one output"},
        {FLAT, SET("double", NULL, 3, 2), &loss_mse, 3,
         "y has 2 columns, but [network] outputs = 3"},
        {FLAT, SET("double", NULL, 3, 2), &loss_mse, 1,
         "y has 2 columns, but [network] outputs = 1"},
        {FLAT, SET("double", NUMBERS(0, 1.5, 1), 3), &loss_cross_entropy, 0,
         "y[1] = 1.5, where classes"},
        {FLAT, SET("double", NUMBERS(0, 1.5, 1), 3), &loss_mse, 2, "y[1] = 1.5, where classes"},
        {FLAT, SET("int", NUMBERS(1, 1, -1), 3), &loss_cross_entropy, 0,
         "y[2] = -1, where classes"},
        {FLAT, SET("int", NUMBERS(1, 2, 0), 3), &loss_cross_entropy, 2,
         "0 to 1, as [network] outputs"},
        {FLAT, SET("int", NUMBERS(0, 0, 0), 3), &loss_cross_entropy, 0, "every label is 0"},
        {FLAT, SET("double", NUMBERS(0, 3e9, 0), 3), &loss_cross_entropy, 0, "y[1] = 3e+09, where"},
        {FLAT, SET("int", NUMBERS(0, 99, 0), 3), &loss_cross_entropy, 0, "100 classes at 3 places"},
        {FLAT, SET("double", NUMBERS(1, 0, 1, 1, 0, 1), 3, 2), &loss_cross_entropy, 0,
         "y[1] is not one-hot"},
        {FLAT, SET("double", NUMBERS(1, 0, 0, 0, 0, 1), 3, 2), &loss_cross_entropy, 0,
         "y[1] is not one-hot"},
        {ROWS, SET("double", NUMBERS(1, 0, .5, .5, 0, 1, 0, 1, 0, 1, 0, 1), 3, 2, 2),
         &loss_cross_entropy, 0, "y[0][1] is not one-hot (one 1 and zeros, or zeros alone"},
        {ROWS, SET("int", NUMBERS(1, 0, -1, -2, 0, 1), 3, 2), &loss_cross_entropy, 0,
         "y[1][1] = -2, where classes are integers from 0 on, or -1"},
        {ROWS, SET("int", NUMBERS(1, 0, -1, 0, 0, 1), 3, 2), &loss_mse, 2, "y[1][0] = -1, where"},
        {ROWS, SET("int", NUMBERS(-1, -1, -1, -1, -1, -1), 3, 2), &loss_cross_entropy, 0,
         "y asks for nothing"},
        {ROWS, SET("int", NUMBERS(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 3, 2, 2),
         &loss_cross_entropy, 0, "y asks for nothing"},
    };
    char path[PATH_MAX];
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < COUNT(cases); k++) {
        const struct data_wanted wanted = {cases[k].loss, cases[k].outputs, .most = 18};
        const struct data_case one = {cases[k].X, cases[k].y, "", NULL};
        write_case(path, &one);
        assert_refused(data_read(&data, path, &wanted, &failure), CODE_INPUT, cases[k].part,
                       &failure);
        assert_true(!data.X && !data.y && !data.P);
    }
}

/* Test inputs count for the number of classes, and are as the others. */
FOLDER_TEST(test_test_targets) {
    const char *const names[] = {"X", "y", "X_test", "y_test"};
    const struct set labels = SET("int", NUMBERS(0, 1, 0), 3);
    const struct set large = SET("int", NUMBERS(0, 2, 0), 3);
    const STRUCT(struct set set[4]; const struct loss *loss; const char *part) cases[] = {
        LIST({FLAT, large, SET("double", NULL, 1, 2), SET("int", NUMBERS(1), 1)},
             &loss_cross_entropy, NULL),
        LIST({FLAT, labels, SET("double", NULL, 1, 2), SET("int", NUMBERS(2), 1)},
             &loss_cross_entropy, NULL),
        LIST({FLAT, labels, SET("double", NULL, 1, 2), SET("int", NUMBERS(-1), 1)},
             &loss_cross_entropy, "y_test[0] = -1"),
        LIST({FLAT, labels, SET("double", NULL, 1, 2), SET("int", NULL, 1, 2)}, &loss_mse,
             "not of the same kind, 1 numbers for each input and 2 for each input"),
        LIST({ROWS, labels, SET("double", NULL, 1, 2, 2), SET("int", NULL, 1, 2)}, &loss_mse,
             "not of the same kind, 1 numbers for each input and 1 for each token"),
        LIST({FLAT, labels, SET("double", NULL, 1, 2, 1), labels}, &loss_mse,
             "in rows of another length"),
        LIST({ROWS, labels, SET("double", NULL, 1, 4, 1), labels}, &loss_mse,
             "in rows of another length"),
        LIST({ROWS, labels, SET("double", NULL, 1, 4, 2), labels}, &loss_mse,
             "X has 4 numbers in each and X_test 8"),
        LIST({ROWS, labels, SET("double", NULL, 1, 2), labels}, &loss_mse,
             "X has 4 numbers in each and X_test 2"),
        {{FLAT, labels, {.rank = -1}, labels}, &loss_mse, "has y_test and no X_test"},
    };
    char path[PATH_MAX];
    struct data data;
    in_folder(path, state, "data.h5");
    for (size_t k = 0; k < COUNT(cases); k++) {
        const struct data_wanted wanted = {.loss = cases[k].loss, .most = 20};
        write_sets(path, 4, names, cases[k].set, "");
        int code = data_read(&data, path, &wanted, &failure);
        if (cases[k].part) {
            assert_refused(code, CODE_INPUT, cases[k].part, &failure);
            continue;
        }
        assert_ok(code, &failure);
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
