/* What fixed-point iteration is made of: the causal factor of a kernel, and the mixing. */
#include "tests/support/support.h"
#include "integrators/fixed_point.h"

static double entry(const double *K, size_t n, size_t a, size_t b) {
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += K[a * n + k] * K[b * n + k];
    return sum;
}

/* K = X X^T/S of T P = n rows with `rank` directions; row t begins a new one while there are any.
 */
static void random_kernel(struct twotime *K, int T, int P, int rank) {
    struct rng_stream stream = {.seed = 3, .purpose = PURPOSE_DATA};
    size_t n = (size_t)T * (size_t)P;
    double *X, pair[2];
    ASK(twotime_init(K, T, P, P, err));
    ASK(base_alloc(&X, n * n, sizeof *X, err));
    for (size_t a = 0; a < n; a++)
        for (size_t k = 0; k < (size_t)rank && k <= a; k++) {
            rng_normal_pair(stream, (uint32_t)a, (uint32_t)k, pair);
            X[a * n + k] = pair[0];
        }
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            K->value[a * n + b] = entry(X, n, a, b);
    free(X);
}

/* L L^T = K to round-off where K is regular; K with the floor of jitter K_aa where it is not; L is
 * lower triangular; zero rows stay zero. */
TEST(factor) {
    const int T = 6, P = 3, n = T * P;
    double L[18 * 18];
    for (int rank = n; rank >= 4; rank -= 14) {
        struct twotime K;
        int floored;
        random_kernel(&K, T, P, rank);
        for (int a = 0; a < n; a++)
            K.value[5 * n + a] = K.value[a * n + 5] = 0; /* one row that vanishes */
        ASK(twotime_cholesky(&K, 1e-8, L, &floored, err));
        assert_int_equal(floored, rank == n ? 0 : n - 1 - rank);
        for (int a = 0; a < n; a++)
            for (int b = 0; b <= a; b++) {
                double scale = sqrt(K.value[a * n + a] * K.value[b * n + b]);
                double tolerance = rank == n ? 1e-13 * n : a == b ? 2e-8 : 1e-7;
                CHECK_ABS(entry(L, (size_t)n, (size_t)a, (size_t)b), K.value[a * n + b],
                          tolerance * scale, "rank %d, (%d, %d)", rank, a, b);
                if (a > b)
                    assert_true(L[b * n + a] == 0);
            }
        twotime_free(&K);
    }
}

/* What is exactly at the floor is not raised. */
TEST(factor_at_the_floor) {
    double value[] = {4, 2, 2, 1.25}, L[4]; /* 1.25 - 1 is a fifth of 1.25 */
    const double jitters[] = {0.2 - 1e-12, 0.2, 0.2 + 1e-12};
    for (int i = 0; i < 3; i++) {
        struct twotime K = {2, 1, 1, value};
        int floored;
        ASK(twotime_cholesky(&K, jitters[i], L, &floored, err));
        assert_int_equal(floored, i == 2);
        assert_true(L[0] == 2 && L[1] == 0 && L[2] == 1);
        CHECK_ABS(L[3], 0.5, 2e-12, "jitter %g", jitters[i]);
    }
}

/* What a mixture of sweeps may become has no factor. */
TEST(factor_of_no_kernel) {
    const double bad[] = {-1e-9, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        double value[] = {1, 0.5, 0.5, bad[i]}, L[4];
        struct twotime K = {2, 1, 1, value};
        struct err told;
        int floored;
        assert_int_equal(twotime_cholesky(&K, 1e-8, L, &floored, &told), CODE_NUMERICAL);
        assert_non_null(strstr(told.text, "on its diagonal; lower eta0, gamma0 or damping"));
    }
}

/* x <- M x + b with M of rank 5: five differences span all changes, so that seven mixings end at
 * the fixed point up to round-off and the cut of directions at 1e-6; damping alone is far away.
 * Whether that is near is asked of the kernels that are mixed, not of what stands behind them. */
TEST(anderson_solves_a_linear_problem) {
    enum { N = 40, RANK = 5 };
    const double rate[RANK] = {0.9, -0.8, 0.7, 0.5, -0.3};
    for (int depth = 0; depth <= RANK; depth += RANK) {
        FREED(anderson_free) struct anderson anderson = {.depth = depth, .damping = 1};
        struct twotime given = {1, 1, N, NULL}, measured = given;
        ASK(base_alloc(&given.value, N, sizeof(double), err));
        ASK(base_alloc(&measured.value, N, sizeof(double), err));
        struct fixed_point_kernel kernel[] = {{"K", &given, &measured, 0}, {.change = 1}};
        for (int sweep = 0; sweep < RANK + 3; sweep++) {
            for (int i = 0; i < N; i++)
                measured.value[i] = 1 + (i < RANK ? rate[i] * given.value[i] : 0);
            ASK(anderson_mix(&anderson, kernel, 1, err));
        }
        double error = 0;
        for (int i = 0; i < N; i++)
            error = fmax(error, fabs(given.value[i] - (i < RANK ? 1 / (1 - rate[i]) : 1)));
        if (depth)
            assert_true(error < 1e-5);
        else
            assert_true(error > 1);
        free(given.value);
        free(measured.value);
    }
}

/* Kernels weigh alike whatever their sizes: of one in other units, a power of 2, all numbers are
 * the same but for these. Two differences do not span all changes, so that weights matter. */
TEST(anderson_knows_no_units) {
    enum { N = 8 };
    double value[2][4][N] = {{{0}}};
    for (int units = 0; units < 2; units++) {
        double(*x)[N] = value[units], unit = units ? 1. / (1 << 30) : 1;
        struct twotime of[4];
        FREED(anderson_free) struct anderson anderson = {.depth = 2, .damping = 1};
        for (int k = 0; k < 4; k++)
            of[k] = (struct twotime){1, 1, N, x[k]};
        const struct fixed_point_kernel kernel[] = {{"A", &of[0], &of[1], 0},
                                                    {"B", &of[2], &of[3], 0}};
        for (int sweep = 0; sweep < 5; sweep++) {
            for (int i = 0; i < N; i++) {
                x[1][i] = 1 + 0.1 * i * x[0][i];
                x[3][i] = unit * (0.2 * i + x[0][i]) - 0.1 * i * x[2][i];
            }
            ASK(anderson_mix(&anderson, kernel, 2, err));
        }
    }
    for (int i = 0; i < N; i++) {
        assert_true(value[0][0][i] == value[1][0][i]);
        assert_true(value[0][2][i] == value[1][2][i] * (1 << 30));
    }
}

/* What --help says of [solver] probe. */
TEST(probes) {
    static const STRUCT(const char *ini, *key; double given, used) cases[] = {
        {"data/dense.ini", "network.activation=tanh", 0, 1e-3},
        {"data/dense.ini", "network.activation=relu", 0, 0.2},
        {"data/regime2.ini", "network.rho=1", 0, 1e-3},
        {"data/regime2.ini", "network.rho=0.5", 0, 0.2},
        {"data/regime2.ini", "network.rho=0.5", 0.03, 0.03},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        FREED(run_free) struct run run;
        support_run(&run, cases[i].ini, ARGS(cases[i].key));
        assert_true(fixed_point_probe(&run.config.network, cases[i].given) == cases[i].used);
    }
}
