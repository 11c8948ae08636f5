/* Tokens: the rows that they become; files of them; the sources markov, copy and modular, judged by
 * their definitions and by the statistics of the chain; gaussian rows and classes; refusals of
 * section [data]; what of all this is written to the result. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/support.h"

#include "solver/files/io.h"
#include "solver/data/tokens.h"

#include <hdf5_hl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEYS = 8 };
typedef const char *keys[KEYS + 1]; /* "section.key=value", ending with NULL */

static char folder[] = "/tmp/test_tokens_XXXXXX";
static char path[64];

static int open_folder(void **state) {
    (void)state;
    io_quiet();
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/data.h5", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    remove(path);
    return rmdir(folder);
}

/* The data of a dense network with these keys. */
static int make(struct data *data, const char *const *key, struct err *err) {
    char text[] = "[network]\nmodel = dense\n", *override[KEYS];
    struct param_section *sections = NULL;
    struct params params = {0};
    struct config config = {0};
    size_t count;
    int overrides = 0, code;
    FILE *stream = fmemopen(text, strlen(text), "r");
    *data = (struct data){0};
    for (; key[overrides]; overrides++) {
        override[overrides] = strdup(key[overrides]);
        assert_true(override[overrides] && overrides < KEYS);
    }
    DO(config_sections(&sections, &count, err));
    DO(params_read_stream(&params, sections, count,
                          &(struct param_source){"test.ini", stream, overrides, override}, &config,
                          err));
    DO(config_data(&config, &params, data, err));
done:
    while (overrides)
        free(override[--overrides]);
    fclose(stream);
    params_free(&params);
    free(sections);
    return code;
}

/* The class that is asked at a place, or -1. */
static int asked(const struct data *data, size_t place) {
    int class = -1;
    double y[data->C];
    data_ask(data, place, 1, y);
    for (int c = 0; c < data->C; c++) {
        assert_true(y[c] == 0 || (y[c] == 1 && class < 0));
        class = y[c] == 1 ? c : class;
    }
    return class;
}

/* X by its definition, up to the round-off of a square root and a quotient. */
static void check_rows(const struct data *data, bool positions) {
    int D = data->V + (positions ? data->n : 0);
    double x[D];
    assert_int_equal(data->D, D);
    assert_null(data->X);
    for (size_t row = 0; row < data_rows(data); row++) {
        data_take(data, row, 1, x);
        for (int i = 0; i < D; i++) {
            bool one = i == data->token[row] || i == data->V + (int)row % data->n;
            CHECK_ABS(x[i] / sqrt(D), one ? sqrt(positions ? .5 : 1) : 0, 4e-16,
                      "X[%zu][%d]/sqrt D", row, i);
        }
    }
}

static void free_two(struct data *a, struct data *b) {
    data_free(a);
    data_free(b);
}

/* --- files ----------------------------------------------------------------------------------- */

struct stored_tokens {
    double token[2][3], V; /* V: 0 none, > 0 attribute, < 0 dataset of -V */
    const char *more;      /* a further dataset */
};

static void write_tokens(const struct stored_tokens *s) {
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

static void test_file(void **state) {
    (void)state;
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
        {{{{0, 3, 1}, {1, 1, 0}}, 3, NULL},
         0,
         0,
         true,
         "tokens[0][1] = 3, where tokens are "
         "integers 0 to 2, as the vocabulary is 3"},
        {{{{0, 3, 1}, {1, 1, 0}}, 0, NULL}, 3, 0, true, "tokens[0][1] = 3, where"},
        {{{{0, 3, 1}, {1, -1, 0}}, 0, NULL},
         0,
         0,
         true,
         "tokens[1][1] = -1, where tokens are integers from 0 on"},
        {{{{0, 3, 1}, {1, 1, .5}}, 0, NULL}, 0, 0, true, "tokens[1][2] = 0.5, where"},
        {{{{0, 3, 1}, {1, 1, 0}}, 1.5, NULL}, 0, 0, true, "V must be one positive integer"},
        {{{{0, 3, 1}, {1, 1, 0}}, -1.5, NULL}, 0, 0, true, "V must be one positive integer"},
        {{{{0, 30, 1}, {1, 1, 0}}, 0, NULL},
         0,
         0,
         true,
         "span 6 directions of 34 numbers each where 99"},
        {{{{0, 3, 1}, {1, 1, 0}}, 0, "X"}, 0, 0, true, "has X beside tokens"},
        {{{{0, 3, 1}, {1, 1, 0}}, 0, "X_test"}, 0, 0, true, "has X_test beside tokens"},
        {{{{0, 3, 1}, {1, 1, 0}}, 0, "y_test"}, 0, 0, true, "has y_test and no tokens_test"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct data_wanted wanted = {.loss = &loss_mse,
                                           .vocabulary = cases[k].vocabulary,
                                           .positions = cases[k].positions,
                                           .most = 99};
        struct data data;
        struct err err = {0};
        write_tokens(&cases[k].file);
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

/* --- sources --------------------------------------------------------------------------------- */

/* Whether sequences of `few` begin those of `many`, and their first tokens are the same. */
static void check_prefix(const struct data *few, const struct data *many) {
    for (int mu = 0; mu < few->P; mu++)
        assert_memory_equal(few->token + mu * few->n, many->token + mu * many->n,
                            (size_t)few->n * sizeof(int));
}

static void test_markov(void **state) {
    (void)state;
    enum { V = 3, n = 16, P = 3000, TESTS = 1000 };
    const struct sequences chain = {SEQUENCE_MARKOV, V, 5, 1.5, 1, 0};
    double T[V * V], count[V][V] = {{0}}, first[V] = {0};
    struct data data, small;
    ASK(make(&data,
             (keys){"data.source=markov", "data.tokens=16", "data.vocabulary=3", "data.seed=5",
                    "data.sharpness=1.5", "data.inputs=3000", "data.test_inputs=1000",
                    "training.loss=cross_entropy"},
             err));
    assert_true(data.P == P && data.tests == TESTS && data.n == n && data.V == V && data.C == V);
    assert_true(data.per_token && data.classes);
    check_rows(&data, true);
    tokens_chain(&chain, T);
    for (int mu = 0; mu < P + TESTS; mu++) {
        first[data.token[mu * n]]++;
        for (int s = 0; s < n; s++) {
            int next = asked(&data, (size_t)(mu * n + s));
            assert_in_range(next, 0, V - 1);
            assert_true(s == n - 1 || data.token[mu * n + s + 1] == next);
            count[data.token[mu * n + s]][next]++;
        }
    }
    for (int a = 0; a < V; a++) { /* counts are binomial; five standard errors */
        double from = 0, sequences = P + TESTS;
        for (int b = 0; b < V; b++)
            from += count[a][b];
        for (int b = 0; b < V; b++) {
            double p = T[a * V + b];
            CHECK_ABS(count[a][b] / from, p, 5 * sqrt(p * (1 - p) / from), "T[%d][%d]", a, b);
        }
        CHECK_ABS(first[a] / sequences, 1. / V, 5 * sqrt(2. / 9 / sequences), "first %d", a);
    }
    ASK(make(&small,
             (keys){"data.source=markov", "data.tokens=7", "data.vocabulary=3", "data.seed=5",
                    "data.sharpness=1.5", "data.positions=no"},
             err));
    check_prefix(&small, &data);
    check_rows(&small, false);
    free_two(&data, &small);
}

/* The matrix: rows of probabilities whose logarithms, without the mean of the row, are sharpness
 * times normals without theirs: of variance sharpness^2 (1 - 1/V), known to sqrt(2/V^2). */
static void test_chain(void **state) {
    (void)state;
    enum { V = 100 };
    static double T[V * V], other[V * V];
    double square = 0, mean = 0;
    const struct sequences chain = {SEQUENCE_MARKOV, V, 1, 2, 1, 0},
                           flat = {SEQUENCE_MARKOV, V, 1, 0, 1, 0};
    tokens_chain(&chain, T);
    for (int a = 0; a < V; a++) {
        double sum = 0, average = 0;
        for (int b = 0; b < V; b++) {
            sum += T[a * V + b];
            average += log(T[a * V + b]) / V;
        }
        CHECK_ABS(sum, 1, V * 2.3e-16, "row %d", a);
        for (int k = 0; k < V * V; k++) /* every entry has a draw of its own */
            assert_true(k == a * V || T[k] != T[a * V]);
        for (int b = 0; b < V; b++) {
            square += pow(log(T[a * V + b]) - average, 2) / V / V;
            mean += (log(T[a * V + b]) - average) * (b % 2 ? 1 : -1) / V / V;
        }
    }
    CHECK_ABS(square, 4 * (1 - 1. / V), 5 * 4 * sqrt(2. / V / V), "variance");
    CHECK_ABS(mean, 0, 5 * 2. / V, "odd less even letters");
    tokens_chain(&flat, other);
    for (int k = 0; k < V * V; k++)
        CHECK_ABS(other[k], 1. / V, 1e-17, "flat");
    tokens_chain(&(struct sequences){SEQUENCE_MARKOV, V, 2, 2, 1, 0}, other);
    assert_memory_not_equal(T, other, sizeof T);
}

static void test_copy(void **state) {
    (void)state;
    enum { V = 4, m = 5, n = 2 * m, P = 2000, TESTS = 3 };
    struct data data, small;
    double count[m][V] = {{0}};
    ASK(make(&data,
             (keys){"data.source=copy", "data.tokens=10", "data.vocabulary=4", "data.inputs=2000",
                    "data.test_inputs=3", "training.loss=cross_entropy", "network.outputs=4"},
             err));
    assert_true(data.P == P && data.tests == TESTS && data.n == n && data.V == V + 1);
    assert_true(data.C == V && data.per_token && data.classes);
    check_rows(&data, true);
    for (int mu = 0; mu < P + TESTS; mu++) {
        const int *token = data.token + mu * n;
        assert_int_equal(token[m], V);
        for (int s = 0; s < m; s++) {
            size_t place = (size_t)(mu * n + s);
            assert_in_range(token[s], 0, V - 1);
            assert_int_equal(asked(&data, place), -1);
            assert_int_equal(asked(&data, place + m), token[s]);
            assert_true(s == m - 1 || token[m + 1 + s] == token[s]);
            count[s][token[s]]++;
        }
    }
    for (int s = 0; s < m; s++)
        for (int a = 0; a < V; a++)
            CHECK_ABS(count[s][a] / (P + TESTS), 1. / V, 5 * sqrt(3. / 16 / (P + TESTS)),
                      "letter %d at %d", a, s);
    ASK(make(&small,
             (keys){"data.source=copy", "data.tokens=10", "data.vocabulary=4", "data.inputs=3",
                    "training.loss=cross_entropy"},
             err));
    check_prefix(&small, &data);
    free_two(&data, &small);
}

/* How often each pair (a, b) is among inputs first ... first + count - 1. */
static void count_pairs(const struct data *data, int first, int count, int *times) {
    int V = data->C;
    memset(times, 0, (size_t)(V * V) * sizeof *times);
    for (int mu = first; mu < first + count; mu++) {
        const int *token = data->token + 3 * mu;
        size_t place = (size_t)(3 * mu);
        assert_true(token[0] < V && token[1] < V && token[2] == V);
        assert_true(asked(data, place) == -1 && asked(data, place + 1) == -1);
        assert_int_equal(asked(data, place + 2), (token[0] + token[1]) % V);
        times[token[0] * V + token[1]]++;
    }
}

static void test_modular(void **state) {
    (void)state;
    enum { V = 5, PAIRS = V * V };
    static const struct {
        int inputs, tests;
    } cases[] = {{1, 0}, {10, 8}, {10, 15}, {10, 40}, {24, 3}, {25, 0}, {60, 0}};
    struct data small = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int P = cases[k].inputs, tests = cases[k].tests, trained[PAIRS], tested[PAIRS], sorted = 0;
        char inputs[32], test_inputs[32];
        struct data data;
        snprintf(inputs, sizeof inputs, "data.inputs=%d", P);
        snprintf(test_inputs, sizeof test_inputs, "data.test_inputs=%d", tests);
        ASK(make(&data,
                 (keys){"data.source=modular", "data.vocabulary=5", inputs, test_inputs,
                        "training.loss=cross_entropy"},
                 err));
        assert_true(data.P == P && data.tests == tests && data.n == 3 && data.V == V + 1);
        assert_true(data.C == V && data.per_token && data.classes);
        check_rows(&data, true);
        count_pairs(&data, 0, P, trained);
        count_pairs(&data, P, tests, tested);
        for (int pair = 0; pair < PAIRS; pair++) { /* as evenly as can be */
            assert_in_range(trained[pair], P / PAIRS, (P + PAIRS - 1) / PAIRS);
            assert_false(trained[pair] && tested[pair]);
            if (!trained[pair])
                assert_in_range(tested[pair], tests / (PAIRS - P),
                                (tests + PAIRS - P - 1) / (PAIRS - P));
        }
        for (int mu = 1; mu < P; mu++)
            sorted += data.token[3 * mu] * V + data.token[3 * mu + 1] >
                      data.token[3 * mu - 3] * V + data.token[3 * mu - 2];
        assert_true(P < 10 || sorted < P - 3);
        if (small.P)
            check_prefix(&small, &data);
        data_free(&small);
        small = data;
        small.P = P < PAIRS ? P : 0; /* the next case has more */
    }
    data_free(&small);
}

/* n rows are those of P n inputs; classes in turn; nothing else has changed. */
static void test_gaussian(void **state) {
    (void)state;
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

static void test_refused(void **state) {
    (void)state;
#define MARKOV "data.source=markov", "data.vocabulary=4", "data.tokens=4"
#define COPY "data.source=copy", "data.vocabulary=4", "training.loss=cross_entropy"
#define MODULAR "data.source=modular", "data.vocabulary=4", "training.loss=cross_entropy"
    static const struct {
        keys key;
        const char *part;
    } cases[] = {
        {{"data.source=markov", "data.tokens=4"}, "source = markov needs at least 2 letters"},
        {{"data.source=markov", "data.vocabulary=4"}, "source = markov needs at least 2"},
        {{MARKOV, "training.loss=logistic"}, "a class for each letter"},
        {{MARKOV, "network.outputs=5"}, "source = markov has 4"},
        {{MARKOV, "network.outputs=1", "training.loss=cross_entropy"}, "needs at least 2, one for"},
        {{MARKOV, "data.inputs=100000", "data.tokens=1000", "solver.max_memory=1"},
         "fewer inputs, fewer tokens or a smaller vocabulary"},
        {{"data.source=markov", "data.vocabulary=100000", "data.tokens=2"}, "about 80"},
        {{"data.source=markov", "data.vocabulary=4", "data.tokens=4", "data.dimension=4"},
         "used only when"},
        {{COPY, "data.tokens=5"}, "must be even"},
        {{COPY, "data.tokens=1"}, "needs at least 2"},
        {{COPY, "data.tokens=4", "training.loss=mse"}, "asks at some tokens only"},
        {{COPY, "data.tokens=4", "network.outputs=5"}, "source = copy has 4"},
        {{COPY, "data.tokens=4", "data.sharpness=2"}, "used only when"},
        {{MODULAR, "data.tokens=3"}, "used only when"},
        {{MODULAR, "training.loss=mse"}, "asks at some tokens only"},
        {{MODULAR, "data.inputs=16", "data.test_inputs=1"}, "all 16 pairs are trained on"},
        {{"data.source=modular", "data.vocabulary=100000", "training.loss=cross_entropy"},
         "about 80"},
        {{"data.source=multi_index", "training.loss=cross_entropy"}, "are numbers, not classes"},
        {{"data.source=multi_index", "network.outputs=2"}, "source = multi_index has 1"},
        {{"training.loss=logistic", "network.outputs=2"}, "logistic has one output"},
        {{"training.loss=cross_entropy", "network.outputs=1"}, "needs at least 2"},
        {{"data.inputs=100000", "data.tokens=1000"}, "fewer inputs, fewer tokens or a smaller dim"},
        {{"data.source=file", "data.file=data/fashion_7x7.h5", "data.vocabulary=9"},
         "it is for tokens, and data file data/fashion_7x7.h5 has X"},
        {{"data.source=file", "data.file=data/fashion_7x7.h5", "data.positions=no"},
         "it is for tokens, and data file data/fashion_7x7.h5 has X"},
        {{"data.source=file", "data.file=data/fashion_7x7.h5", "training.loss=cross_entropy"},
         "y[1] = -1, where classes are integers from 0 on"},
        {{"data.positions=no"}, "used only when"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct data data;
        struct err err = {0};
        int code = make(&data, cases[k].key, &err);
        if (code != CODE_INPUT || !strstr(err.text, cases[k].part))
            fail_msg("case %zu: code %d, or no \"%s\" in: %s", k, code, cases[k].part, err.text);
        data_free(&data);
    }
}

/* --- the result ------------------------------------------------------------------------------ */

static void check_set(hid_t file, const char *name, const char *dims, int rank,
                      const hsize_t *shape) {
    char found[64] = "", *text = NULL;
    hsize_t extents[8];
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
    assert_true(set >= 0);
    assert_int_equal(H5Sget_simple_extent_dims(space, extents, NULL), rank);
    assert_memory_equal(extents, shape, (size_t)rank * sizeof *shape);
    hid_t attribute = H5Aopen(set, "dims", H5P_DEFAULT), type = H5Aget_type(attribute);
    assert_true(H5Aread(attribute, type, &text) >= 0);
    snprintf(found, sizeof found, "%s", text);
    assert_string_equal(found, dims);
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Dclose(set);
}

static void test_written(void **state) {
    (void)state;
    static const struct {
        keys key;
        const char *X, *y;
        int X_rank, y_rank;
        hsize_t X_shape[3], y_shape[3];
    } cases[] = {
        {{"data.inputs=4"}, "mu i", "mu", 2, 1, {4, 10}, {4}},
        {{"network.outputs=3"}, "mu i", "mu c", 2, 2, {4, 10}, {4, 3}},
        {{"data.tokens=2"}, "mu token i", "mu", 3, 1, {4, 2, 10}, {4}},
        {{"data.source=markov", "data.tokens=5", "data.vocabulary=3", "data.test_inputs=2"},
         "mu token i",
         "mu token c",
         3,
         3,
         {4, 5, 8},
         {4, 5, 3}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct data data;
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
        data_free(&data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),    cmocka_unit_test(test_markov),
        cmocka_unit_test(test_chain),   cmocka_unit_test(test_copy),
        cmocka_unit_test(test_modular), cmocka_unit_test(test_gaussian),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_written),
    };
    return cmocka_run_group_tests_name("tokens", tests, open_folder, remove_folder);
}
