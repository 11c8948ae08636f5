/* The sources of tokens: markov, copy and modular, judged by their definitions and by the
 * statistics of the chain. */
#define _POSIX_C_SOURCE 200809L
#include "kernels/maps/thin.h"
#include "tests/support/token_data.h"

/* Whether sequences of `few` begin those of `many`, and their first tokens are the same. */
static void check_prefix(const struct data *few, const struct data *many) {
    for (int mu = 0; mu < few->P; mu++)
        assert_memory_equal(few->token + mu * few->n, many->token + mu * many->n,
                            (size_t)few->n * sizeof(int));
}

TEST(test_markov) {
    enum { V = 3, n = 16, P = 3000, TESTS = 1000 };
    const struct sequences chain = {SEQUENCE_MARKOV, V, 5, 1.5};
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
    ASK(tokens_chain(&chain, T, err));
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
TEST(test_chain) {
    enum { V = 100 };
    static double T[V * V], other[V * V];
    double square = 0, mean = 0;
    const struct sequences chain = {SEQUENCE_MARKOV, V, 1, 2}, flat = {SEQUENCE_MARKOV, V, 1, 0};
    ASK(tokens_chain(&chain, T, err));
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
    ASK(tokens_chain(&flat, other, err));
    for (int k = 0; k < V * V; k++)
        CHECK_ABS(other[k], 1. / V, 1e-17, "flat");
    ASK(tokens_chain(&(struct sequences){SEQUENCE_MARKOV, V, 2, 2}, other, err));
    assert_memory_not_equal(T, other, sizeof T);
}

/* What a predictor expects to lose that knows the matrix, plainly: the entropy of the next letter,
 * over all tokens of the test inputs; and the rate, that of stationary letters, found by going on
 * for long. */
TEST(test_floor) {
    enum { V = 4, n = 9, P = 5, TESTS = 7 };
    const struct sequences law = {SEQUENCE_MARKOV, V, 3, 1.5};
    const struct data sizes = tokens_sizes(&law, P, TESTS, n, false);
    double T[V][V], letters[V] = {0.25, 0.25, 0.25, 0.25}, floor = 0, rate = 0;
    FREED(data_free) struct data data;
    ASK(data_init(&data, &sizes, err));
    ASK(tokens_draw(&data, &law, err));
    ASK(tokens_chain(&law, T[0], err));
    for (int row = P * n; row < (P + TESTS) * n; row++)
        for (int next = 0; next < V; next++)
            floor -= T[data.token[row]][next] * log(T[data.token[row]][next]) / (TESTS * n);
    CHECK_ABS(data.truth->floor, floor, 1e-13, "floor");
    for (int step = 0; step < 300; step++) {
        double next[V] = {0};
        for (int k = 0; k < V * V; k++)
            next[k % V] += letters[k / V] * T[k / V][k % V];
        memcpy(letters, next, sizeof next);
    }
    for (int k = 0; k < V * V; k++)
        rate -= letters[k / V] * T[k / V][k % V] * log(T[k / V][k % V]);
    CHECK_ABS(data.truth->rate, rate, 1e-13, "rate");
}

/* docs/data.md: the loss is the mean over all tokens, also those that are not asked. At the start f
 * is 0, so that l = ln V of the half of the tokens that is. */
TEST(loss_of_copy) {
    for (int N = 0; N <= 16; N += 16) {
        RUN_AND_NET;
        support_run_text(&run, (const char *const[]){NULL},
                         "[network]\nmodel = transformer\nexperts = 0\n[data]\nsource = copy\n"
                         "tokens = 10\nvocabulary = 4\ninputs = 3\n[training]\n"
                         "loss = cross_entropy\n[solver]\nsites = 128\n");
        support_begin(&net, &run, N, 0);
        CHECK_ABS(net.output.loss, log(4) / 2, 1e-14, "loss at N = %d", N);
    }
}

TEST(test_copy) {
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

TEST(test_modular) {
    enum { V = 5, PAIRS = V * V };
    static const struct {
        int inputs, tests;
    } cases[] = {{1, 0}, {10, 8}, {10, 15}, {10, 40}, {24, 3}, {25, 0}, {60, 0}};
    FREED(data_free) struct data small = {0};
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
    ASK(make(&small,
             (keys){"data.source=modular", "data.vocabulary=50", "data.inputs=10",
                    "data.test_inputs=10", "training.loss=cross_entropy"},
             err));
    int sorted = 0; /* pairs of tests are drawn, too */
    for (int mu = 11; mu < 20; mu++)
        sorted += small.token[3 * mu] * 50 + small.token[3 * mu + 1] >
                  small.token[3 * mu - 3] * 50 + small.token[3 * mu - 2];
    assert_true(sorted < 7);
}

/* A basis of the rows that open a direction is the one that Gram and Schmidt make of them. */
static void check_basis(const struct data *data) {
    size_t D = (size_t)data->D, row[data->V + data->n];
    double *X, *A, *B, *basis;
    int trained, count, all;
    ASK(tokens_open(data, row, &trained, &count, err));
    assert_true(0 < trained && trained < count);
    ASK(base_alloc(&basis, (size_t)count * D, sizeof *basis, err));
    ASK(base_alloc(&X, data_rows(data) * D, sizeof *X, err));
    ASK(tokens_basis(data, row, count, basis, err));
    tokens_rows(data, 0, data_rows(data), X);
    ASK(thin_coordinates(X, (int)data_rows(data), (int)D, &A, &B, &all, err));
    assert_int_equal(count, all);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < (size_t)all; k++) /* round-off of as many directions */
            CHECK_ABS(basis[i * (size_t)all + k], B[k * D + i], all * 1e-15, "%zu of %zu", i, k);
    free(X), free(A), free(B), free(basis);
}

TEST(test_basis) {
    struct data with, without; /* inputs have 12 of 40 letters, so that tests bring others */
    ASK(make(&with,
             (keys){"data.source=markov", "data.tokens=4", "data.vocabulary=40", "data.inputs=3",
                    "data.test_inputs=20", "training.loss=cross_entropy"},
             err));
    ASK(make(&without,
             (keys){"data.source=markov", "data.tokens=4", "data.vocabulary=40", "data.inputs=3",
                    "data.test_inputs=20", "data.positions=no"},
             err));
    check_basis(&with);
    check_basis(&without);
    free_two(&with, &without);
}
