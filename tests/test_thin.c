/* Thin matrices and coordinates of inputs, on every backend. */

#include "tests/support/pool.h"
#include "kernels/maps/thin.h"

/* rows [count][sites] = start + sum_k C[mu][k] a_k, to round-off. */
static void assert_combination(struct rows rows, const double *start, const double *C,
                               const double *a, int terms) {
    size_t sites = rows.array->sites, count = (size_t)terms;
    FREED(base_free) double *got = values(rows);
    for (size_t i = 0; i < (size_t)rows.count * sites; i++) {
        long double sum = start ? start[i] : 0, size = fabsl(sum);
        for (size_t k = 0; k < count; k++) {
            long double term = (long double)C[i / sites * count + k] * a[k * sites + i % sites];
            sum += term;
            size += fabsl(term);
        }
        assert_true(fabsl(got[i] - sum) <= (terms + 6) * DBL_EPSILON * size);
    }
}

TEST(test_thin) {
    enum { K = 5, P = 7, SITES = 300 };
    FREED(population_free) struct population p;
    FREED(thin_free) struct thin thin = {0}, empty = {0}, zero = {0};
    FREED(array_free) struct array out;
    double A[P * K], AT[K * P], c[P];
    draw(A, P * K, 1);
    draw(c, P, 2);
    for (int i = 0; i < P * K; i++)
        AT[i % K * P + i / K] = c[i / K] * A[i];
    open_population(&p, SITES, true, 0);
    ASK(thin_init(&thin, &p, K, 0, &err)); /* draws nothing */
    assert_true(thin.W.rows == K && p.span.rows.rows == 0 && p.draws.stream.draw == 0);
    assert_combination(array_all(&thin.W), NULL, NULL, NULL, 0);
    thin_free(&thin);
    ASK(thin_init(&thin, &p, K, -2, &err));
    ASK(thin_init(&empty, &p, 0, 1, &err));
    assert_true(thin.W.rows == K && p.span.rows.rows == K && p.draws.stream.draw == K);
    double *W = values(array_all(&thin.W)), *normal = values(array_all(&p.span.rows));
    assert_true(overlap(array_all(&p.span.rows), array_all(&p.span.rows)) <= ROUND_OFF);
    for (int i = 0; i < K * SITES; i++)
        assert_true(W[i] == -2 * normal[i]);
    ASK(array_init(&out, backend, SITES, 1, P, &err));
    thin_read(&thin, A, array_all(&out));
    assert_combination(array_all(&out), NULL, A, W, K);
    FREED(base_free) double *y = values(array_all(&out));
    ASK(thin_learn(&thin, A, c, array_all(&out), &err));
    assert_combination(array_all(&thin.W), W, AT, y, P);
    thin_read(&empty, NULL, array_all(&out));
    assert_combination(array_all(&out), NULL, NULL, NULL, 0);
    free(W);
    free(normal);
    thin_free(&thin);
}

/* X/sqrt(D) = A B with B orthonormal and A lower triangular. */
static void check_coordinates(const double *X, int P, int D, int rank) {
    double *A, *B, *again, scale = sqrt(D);
    int K;
    ASK(thin_coordinates(X, P, D, &A, &B, &K, &err));
    assert_int_equal(K, rank);
    for (int k = 0; k < K; k++)
        for (int l = 0; l < K; l++) {
            long double c = 0;
            for (int i = 0; i < D; i++)
                c += (long double)B[k * D + i] * B[l * D + i];
            assert_true(fabsl(c - (k == l)) <= ROUND_OFF);
        }
    for (int mu = 0; mu < P; mu++) {
        long double norm = 0;
        for (int i = 0; i < D; i++)
            norm += (long double)X[mu * D + i] * X[mu * D + i] / D;
        for (int i = 0; i < D; i++) {
            long double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (long double)A[mu * K + k] * B[k * D + i];
            assert_true(fabsl(sum - X[mu * D + i] / scale) <= ROUND_OFF * sqrtl(norm));
        }
        for (int k = mu + 1; k < K; k++)
            assert_true(A[mu * K + k] == 0);
    }
    ASK(thin_coordinates(X, P, D, &again, NULL, &K, &err));
    assert_memory_equal(again, A, (size_t)(P * K) * sizeof *A);
    free(A);
    free(B);
    free(again);
}

TEST(test_thin_coordinates) {
    static const int sizes[][2] = {{250, 7}, {520, 7}, {1, 1},   {3, 5},
                                   {5, 3},   {40, 7},  {1, 784}, {32, 784}};
    const size_t all = 32 * 784;
    FREED(base_free) double *X = memory(all, sizeof *X);
    for (size_t n = 0; n < LENGTH(sizes); n++) {
        int P = sizes[n][0], D = sizes[n][1];
        draw(X, (size_t)(P * D), (uint32_t)n);
        for (size_t i = (size_t)(P * D); i < all; i++)
            X[i] = INFINITY; /* refused where it is read */
        check_coordinates(X, P, D, P < D ? P : D);
    }
    const size_t D = 784; /* the last ones once more: repeated, zero, combined, almost combined */
    memcpy(X + 3 * D, X, D * sizeof *X);
    memset(X + 7 * D, 0, D * sizeof *X);
    for (size_t i = 0; i < D; i++) {
        X[5 * D + i] = 3 * X[i] - 1e5 * X[2 * D + i];
        X[9 * D + i] = X[i] + X[D + i] + 1e-6 * X[9 * D + i];
        X[31 * D + i] *= 1e-9;
    }
    check_coordinates(X, 32, (int)D, 29);
    memset(X, 0, D * sizeof *X);
    check_coordinates(X, 1, (int)D, 0);
    /* A direction is new where what is left of the input is above 1e-12 of it. */
    const double beyond[] = {1, 0, 1, 1.005e-12}, within[] = {1, 0, 1, 0.995e-12};
    check_coordinates(beyond, 2, 2, 2);
    double *A;
    int K;
    ASK(thin_coordinates(within, 2, 2, &A, NULL, &K, &err));
    assert_int_equal(K, 1);
    free(A);
    check_coordinates(X, 12, (int)D, 9);
}

ON_EACH_BACKEND(0)
