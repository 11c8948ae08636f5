/* Muon's step in the rows that a matrix has met (polar.h). A momentum is M = sum_s m_s y_s x_s^T,
 * that is Y^T H X with rows Y, X and H = diag(m), and a Newton-Schulz step keeps this form:
 *
 *     a M + b (M M^T) M + c (M M^T)^2 M = Y^T (a + b K + c K^2) H X     K = H <x x> H^T <y y>
 *
 * The shift of a field of one site of infinitely many moves no average, so H stays, and what
 * the site has learned is linear in its own row: its own x' or y' in the place of x or y. */
#include "kernels/maps/map_response.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* C [n][n] = A B, B transposed or not. */
static void multiply_square(int n, const double *A, bool transposed, const double *B, double *C) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, n, n, n, 1, A,
                n, B, n, 0, C, n);
}

/* K = H X H^T Y; scratch [n][n] */
static void momentum_square(int n, const double *H, const double *X, const double *Y, double *K,
                            double *scratch) {
    multiply_square(n, H, false, X, K);
    multiply_square(n, K, true, H, scratch);
    multiply_square(n, scratch, false, Y, K);
}

/* H <- that of p(M/|M|), 0 if |M| is `least` at most; scratch [3][n][n]. */
static void iterate_whole(int n, double *H, const double *X, const double *Y, double least,
                          double *scratch) {
    size_t all = (size_t)n * (size_t)n;
    double *K = scratch, *next = K + all, *more = next + all, norm2 = 0;
    momentum_square(n, H, X, Y, K, more);
    for (size_t i = 0; i < all; i += (size_t)n + 1)
        norm2 += K[i];
    bool nothing = !(norm2 > least * least);
    cblas_dscal((int)all, nothing ? 0 : 1 / sqrt(norm2), H, 1);
    for (int k = 0; k < POLAR_STEPS && !nothing; k++) {
        momentum_square(n, H, X, Y, K, more);
        polar_factor(n, K, next);
        multiply_square(n, next, false, H, more);
        memcpy(H, more, all * sizeof *H);
    }
}

/* A [n][n] = <row row>, each row of `rows` standing for as many numbers. */
static int number_products(int n, const struct array *rows, double *A, struct err *err) {
    int known = rows->rows, each = n / known;
    double *G;
    TRY(base_alloc(&G, (size_t)known * (size_t)known, sizeof *G, err));
    rows->backend->dots(array_all(rows), array_all(rows), G);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            A[i * n + k] = G[i / each * known + k / each];
    free(G);
    return CODE_OK;
}

/* The matrix of what is learned gets as many rows and columns as there are numbers. */
static int widen_whole(struct map_response *response, struct err *err) {
    int n = response->numbers, old = response->moved;
    double *wider;
    TRY(base_alloc(&wider, (size_t)n * (size_t)n, sizeof *wider, err));
    for (int i = 0; i < old; i++)
        memcpy(wider + i * n, response->whole + i * old, (size_t)old * sizeof *wider);
    free(response->whole);
    response->whole = wider;
    response->moved = n;
    return CODE_OK;
}

int map_response_polar(struct map *map, int k, const double *c, const struct polar_rule *rule,
                       struct err *err) {
    struct map_response *response = map->response;
    int n = response->numbers, code = CODE_OK;
    size_t all = (size_t)n * (size_t)n;
    double *gradient = NULL, *H = NULL;
    DO(map_response_gradient(map, k, c, &gradient, err));
    DO(base_alloc(&H, 6 * all, sizeof *H, err));
    DO(widen_whole(response, err));
    for (int a = 0; a < n; a++) {
        double *v = &response->velocity[a];
        *v = rule->momentum * *v + gradient[a];
        H[a * (n + 1)] = rule->nesterov ? gradient[a] + rule->momentum * *v : *v;
    }
    DO(number_products(n, &response->x, H + all, err));
    DO(number_products(n, &response->y, H + 2 * all, err));
    iterate_whole(n, H, H + all, H + 2 * all, POLAR_NOTHING, H + 3 * all);
    cblas_daxpy((int)all, rule->rate, H, 1, response->whole, 1);
done:
    free(gradient);
    free(H);
    return code;
}
