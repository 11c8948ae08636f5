#include "kernels/maps/field.h"

#include <cblas.h>

int twotime_init(struct twotime *K, int T, int P, int Q, struct err *err) {
    *K = (struct twotime){.T = T, .P = P, .Q = Q};
    return base_alloc(&K->value, twotime_size(K), sizeof *K->value, err);
}

size_t twotime_size(const struct twotime *K) {
    return (size_t)K->T * (size_t)K->P * (size_t)K->T * (size_t)K->Q;
}

void twotime_free(struct twotime *K) {
    free(K->value);
    *K = (struct twotime){0};
}

void twotime_copy(const struct twotime *from, const struct twotime *to) {
    size_t row = (size_t)from->T * (size_t)from->Q;
    for (int a = 0; from->value && a < from->T * from->P; a++)
        memcpy(twotime_row(to, a / to->P, a % to->P), from->value + (size_t)a * row,
               row * sizeof(double));
}

double *twotime_row(const struct twotime *K, int t, int mu) {
    return K->value + ((size_t)t * (size_t)K->P + (size_t)mu) * (size_t)K->T * (size_t)K->Q;
}

/* Row a of a diagonal block that begins at `first`: L[a][first..a] from what is left of K there. */
static void factor_row(double *L, size_t n, size_t first, size_t a, double diagonal, double jitter,
                       int *floored) {
    double *row = L + a * n;
    for (size_t b = first; b <= a; b++) {
        const double *other = L + b * n;
        for (size_t k = first; k < b; k++)
            row[b] -= row[k] * other[k];
        if (b < a)
            row[b] /= other[b];
    }
    if (row[a] < 0)
        cblas_dscal((int)a, sqrt(diagonal / (diagonal - row[a])), row, 1);
    if (!(row[a] >= jitter * diagonal)) {
        row[a] = jitter * diagonal;
        ++*floored;
    }
    row[a] = sqrt(row[a]);
}

/* Block row t of L: L[t][<t] from a triangular solve against the rows before, then its own P x P
 * factor. Where K_aa = 0 the diagonal is 1 meanwhile: the solve finds the zeros of that column. */
static void factor_block(const struct twotime *K, size_t t, double jitter, double *L,
                         int *floored) {
    size_t P = (size_t)K->P, n = (size_t)K->T * P, first = t * P;
    double *block = L + first * n;
    int columns = (int)first, stride = (int)n;
    for (size_t a = first; a < first + P; a++)
        for (size_t b = 0; b < n; b++) {
            bool empty = b > a || K->value[a * n + a] == 0 || K->value[b * n + b] == 0;
            L[a * n + b] = empty ? 0 : K->value[a * n + b];
        }
    if (t)
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, K->P, columns,
                    1, L, stride, block, stride);
    for (size_t a = first; a < first + P; a++) {
        double diagonal = K->value[a * n + a];
        for (size_t b = first; b <= a; b++)
            L[a * n + b] -= cblas_ddot(columns, L + a * n, 1, L + b * n, 1);
        if (diagonal > 0)
            factor_row(L, n, first, a, diagonal, jitter, floored);
        else
            L[a * n + a] = 1;
    }
}

int twotime_cholesky(const struct twotime *K, double jitter, double *L, int *floored,
                     struct err *err) {
    size_t n = (size_t)K->T * (size_t)K->P;
    assert(K->P == K->Q);
    *floored = 0;
    for (size_t a = 0; a < n; a++)
        if (!(K->value[a * n + a] >= 0 && isfinite(K->value[a * n + a])))
            return err_set(err, CODE_NUMERICAL,
                           "a kernel is %g on its diagonal; lower eta0, gamma0 or damping",
                           K->value[a * n + a]);
    for (int t = 0; t < K->T; t++)
        factor_block(K, (size_t)t, jitter, L, floored);
    for (size_t a = 0; a < n; a++)
        if (K->value[a * n + a] == 0)
            L[a * n + a] = 0;
    return CODE_OK;
}
