/* Tokens: the rows that they become; files of them; gaussian rows and classes; refusals of section
 * [data]; what of all this is written to the result. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/token_data.h"

#include "tests/support/files.h"

struct stored_tokens {
    double token[2][3], V; /* V: 0 none, > 0 attribute, < 0 dataset of -V */
    const char *more;      /* a further dataset */
};

static void write_tokens(const char *path, const struct stored_tokens *s) {
    static const hsize_t shape[] = {2, 3};
    static const double y[] = {1, -1};
    double V = fabs(s->V);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    H5LTmake_dataset_double(file, "tokens", 2, shape, s->token[0]);
    H5LTmake_dataset_double(file, "y", 1, shape, y);
    if (s->V > 0)
        H5LTset_attribute_double(file, "tokens", "V", &V, 1);
    if (s->V < 0)
        H5LTmake_dataset_double(file, "V", 0, NULL, &V);
    if (s->more)
        H5LTmake_dataset_double(file, s->more, 2, shape, s->token[0]);
    assert_true(H5Fclose(file) >= 0);
}

FOLDER_TEST(test_file) {
    char path[PATH_MAX];
    static const struct {
        struct stored_tokens file;
        int vocabulary, V;
        bool positions;
        const char *part;
    } cases[] = {
        {{{{0, 3, 1}, {1, 1, 0}}, 0, NULL}, 0, 4, true, NULL},
        {{{{0, 3, 1}, {1, 1, 0}}, 6, NULL}, 0, 6, true, NULL},
        {{{{0, 3, 1}, {1, 1, 0}}, -5, NULL}, 0, 5, false, NULL},
        {{{{0, 3, 1}, {1, 1, 0}}, 6, NULL}, 9, 9, true, NULL},
        LIST({{{0, 3, 1}, {1, 1, 0}}, 3, NULL}, 0, 0, true,
             "tokens[0][1] = 3, where tokens are "
             "integers 0 to 2, as the vocabulary is 3"),
        {{{{0, 3, 1}, {1, 1, 0}}, 0, NULL}, 3, 0, true, "tokens[0][1] = 3, where"},
        LIST({{{0, 3, 1}, {1, -1, 0}}, 0, NULL}, 0, 0, true,
             "tokens[1][1] = -1, where tokens are integers from 0 on"),
        {{{{0, 3, 1}, {1, 1, .5}}, 0, NULL}, 0, 0, true, "tokens[1][2] = 0.5, where"},
        {{{{0, 3, 1}, {1, 1, 0}}, 1.5, NULL}, 0, 0, true, "V must be one positive integer"},
        {{{{0, 3, 1}, {1, 1, 0}}, -1.5, NULL}, 0, 0, true, "V must be one positive integer"},
        LIST({{{0, 30, 1}, {1, 1, 0}}, 0, NULL}, 0, 0, true,
             "span 6 directions of 34 numbers each where 99"),
        {{{{0, 3, 1}, {1, 1, 0}}, 0, "X"}, 0, 0, true, "has X beside tokens"},
        {{{{0, 3, 1}, {1, 1, 0}}, 0, "X_test"}, 0, 0, true, "has X_test beside tokens"},
        {{{{0, 3, 1}, {1, 1, 0}}, 0, "y_test"}, 0, 0, true, "has y_test and no tokens_test"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct data_wanted wanted = LIST(.loss = &loss_mse, .vocabulary = cases[k].vocabulary,
                                               .positions = cases[k].positions, .most = 99);
        struct data data;
        struct err err = {0};
        write_tokens(in_folder(path, state, "data.h5"), &cases[k].file);
        int code = data_read(&data, path, &wanted, &err);
        if (cases[k].part && (code != CODE_INPUT || !strstr(err.text, cases[k].part)))
            fail_msg("case %zu: code %d, or no \"%s\" in: %s", k, code, cases[k].part, err.text);
        if (cases[k].part)
            continue;
        assert_int_equal(code, 0);
        assert_true(data.n == 3 && data.C == 1 && !data.per_token && data.V == cases[k].V);
        for (int i = 0; i < 6; i++)
            assert_int_equal(data.token[i], (int)cases[k].file.token[i / 3][i % 3]);
        check_rows(&data, cases[k].positions);
        data_free(&data);
    }
}

/* n rows are those of P n inputs; classes in turn; nothing else has changed. */
TEST(test_gaussian) {
    struct data rows, plain, two;
    ASK(make(&rows,
             (keys){"data.tokens=3", "data.inputs=4", "data.test_inputs=1", "network.outputs=3"},
             err));
    ASK(make(&plain, (keys){"data.inputs=12", "data.test_inputs=3"}, err));
    assert_true(rows.P == 4 && rows.n == 3 && rows.D == 10 && rows.C == 3 && rows.classes);
    assert_true(!rows.per_token && !rows.V && !rows.token);
    assert_true(plain.P == 12 && plain.n == 1 && plain.C == 1 && plain.classes);
    assert_memory_equal(rows.X, plain.X, 150 * sizeof(double));
    for (size_t mu = 0; mu < 5; mu++)
        assert_int_equal(asked(&rows, mu), mu % 3);
    for (size_t mu = 0; mu < 15; mu++)
        assert_true(plain.y[mu] == (mu % 2 ? -1 : 1));
    ASK(make(&two, (keys){"training.loss=cross_entropy"}, err));
    assert_true(two.C == 2 && asked(&two, 0) == 0 && asked(&two, 1) == 1);
    assert_memory_equal(two.X, plain.X, 40 * sizeof(double));
    data_free(&two);
    ASK(make(&two, (keys){"data.tokens=2", "training.loss=logistic"}, err));
    assert_true(two.n == 2 && two.C == 1 && two.y[1] == -1);
    data_free(&two);
    free_two(&rows, &plain);
}

static void check_set(hid_t file, const char *name, const char *dims, int rank,
                      const hsize_t *shape) {
    hsize_t extents[8];
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
    assert_true(set >= 0);
    assert_int_equal(H5Sget_simple_extent_dims(space, extents, NULL), rank);
    assert_memory_equal(extents, shape, (size_t)rank * sizeof *shape);
    assert_text(file, name, "dims", dims);
    H5Sclose(space);
    H5Dclose(set);
}

FOLDER_TEST(test_written) {
    char path[PATH_MAX];
    in_folder(path, state, "out.h5");
    static const struct {
        keys key;
        const char *X, *y;
        int X_rank, y_rank;
        hsize_t X_shape[3], y_shape[3];
    } cases[] = {
        {{"data.inputs=4"}, "mu i", "mu", 2, 1, {4, 10}, {4}},
        {{"network.outputs=3"}, "mu i", "mu c", 2, 2, {4, 10}, {4, 3}},
        {{"data.tokens=2"}, "mu token i", "mu", 3, 1, {4, 2, 10}, {4}},
        LIST({"data.source=markov", "data.tokens=5", "data.vocabulary=3", "data.test_inputs=2"},
             "mu token i", "mu token c", 3, 3, {4, 5, 8}, {4, 5, 3}),
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        FREED(data_free) struct data data;
        struct io io = {0};
        ASK(make(&data, cases[k].key, err));
        ASK(io_create(&io, path, true, err));
        ASK(io_data(&io, &data, true, err));
        ASK(io_finish(&io, true, err));
        hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
        check_set(file, "data/X", cases[k].X, cases[k].X_rank, cases[k].X_shape);
        check_set(file, "data/y", cases[k].y, cases[k].y_rank, cases[k].y_shape);
        assert_int_equal(H5Lexists(file, "data/tokens", H5P_DEFAULT), data.V > 0);
        if (data.V) {
            int tokens[20], tests[10];
            double y[30], asked[30];
            check_set(file, "data/tokens", "mu token", 2, (const hsize_t[]){4, 5});
            check_set(file, "data/X_test", "nu token i", 3, (const hsize_t[]){2, 5, 8});
            check_set(file, "data/y_test", "nu token c", 3, (const hsize_t[]){2, 5, 3});
            assert_true(H5LTread_dataset_int(file, "data/tokens", tokens) >= 0);
            assert_true(H5LTread_dataset_int(file, "data/tokens_test", tests) >= 0);
            assert_true(H5LTread_dataset_double(file, "data/y_test", y) >= 0);
            assert_memory_equal(tokens, data.token, sizeof tokens);
            assert_memory_equal(tests, data.token + 20, sizeof tests);
            data_ask(&data, 20, 10, asked);
            assert_memory_equal(y, asked, sizeof y);
        }
        H5Fclose(file);
    }
}

AROUND_TESTS(quiet, NULL)
