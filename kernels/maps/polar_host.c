/* Newton-Schulz steps and exact factors of matrices on the host, and of groups of columns. */
#include "kernels/maps/polar_host.h"
#include "kernels/array/companions.h"
#include "kernels/maps/polar.h"

#include <cblas.h>
#include <lapacke.h>
#include <stdlib.h>
#include <string.h>

const double polar_coefficient[3] = {3.4445, -4.7750, 2.0315};
/* Singular values below this share of the largest are round-off, and the exact factor leaves them
 * out. */
static const double negligible = 1e-10;

void polar_factor(int n, const double *A, double *C) {
    size_t all = (size_t)n * (size_t)n;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, polar_coefficient[2], A, n, A,
                n, 0, C, n);
    for (size_t i = 0; i < all; i++)
        C[i] += polar_coefficient[1] * A[i];
    for (size_t i = 0; i < all; i += (size_t)n + 1)
        C[i] += polar_coefficient[0];
}

/* X [r][c] <- p(X/|X|_F). A, C [n][n] with n = min(r, c), and Y [r][c], are scratch. */
static void iterate_host(int r, int c, double *X, double *A, double *C, double *Y) {
    size_t all = (size_t)r * (size_t)c;
    cblas_dscal((int)all, 1 / cblas_dnrm2((int)all, X, 1), X, 1);
    for (int k = 0; k < POLAR_STEPS; k++) {
        if (r <= c) {
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, r, r, c, 1, X, c, X, c, 0, A, r);
            polar_factor(r, A, C);
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, c, r, 1, C, r, X, c, 0, Y, c);
        } else {
            cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, c, c, r, 1, X, c, X, c, 0, A, c);
            polar_factor(c, A, C);
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, c, c, 1, X, c, C, c, 0, Y, c);
        }
        memcpy(X, Y, all * sizeof *X);
    }
}

int polar_failed(struct err *err) {
    return err_set(err, CODE_NUMERICAL,
                   "the singular values of a gradient cannot be computed: it is not finite; lower "
                   "eta0 or rest_eta0");
}

/* X [r][c] <- the same with singular values of 1; those that are round-off become 0. U [r][n],
 * Vt [n][c] and s [2n] are scratch. */
static int exact_host(int r, int c, double *X, double *U, double *Vt, double *s, struct err *err) {
    int n = r < c ? r : c;
    if (LAPACKE_dgesvd(LAPACK_ROW_MAJOR, 'S', 'S', r, c, X, c, s, U, n, Vt, c, s + n))
        return polar_failed(err);
    for (int k = 0; k < n; k++)
        cblas_dscal(r, s[k] > negligible * s[0] ? 1 : 0, U + k, n);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, c, n, 1, U, n, Vt, c, 0, X, c);
    return CODE_OK;
}

int polar_host(int r, int c, double *X, double least, bool exact, double *scratch,
               struct err *err) {
    size_t all = (size_t)r * (size_t)c, n = (size_t)(r < c ? r : c);
    if (cblas_dnrm2((int)all, X, 1) <= least) {
        memset(X, 0, all * sizeof *X);
        return CODE_OK;
    }
    if (exact)
        return exact_host(r, c, X, scratch, scratch + all, scratch + 2 * all, err);
    iterate_host(r, c, X, scratch + all, scratch + all + n * n, scratch);
    return CODE_OK;
}

/* along [n][c] <- along L, where p(X/|X|_F) = X L, X [r][c]; X is used up. scratch: [2 r^2], and
 * [r][c] or [2][n][r], the larger. */
static void follow_matrix(int r, int c, double *X, int n, double *along, double least,
                          double *scratch) {
    size_t all = (size_t)r * (size_t)c;
    double norm = cblas_dnrm2((int)all, X, 1), scale = norm <= least ? 0 : 1 / norm;
    double *A = scratch, *C = A + (size_t)r * (size_t)r, *made = C + (size_t)r * (size_t)r,
           *seen = made + (size_t)n * (size_t)r;
    cblas_dscal((int)all, scale, X, 1);
    cblas_dscal(n * c, scale, along, 1);
    for (int step = 0; step < POLAR_STEPS && scale > 0; step++) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, r, r, c, 1, X, c, X, c, 0, A, r);
        polar_factor(r, A, C); /* a along + (b S + c S A) X, S = along X^T */
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, r, c, 1, along, c, X, c, 0, seen,
                    r);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, r, r, polar_coefficient[2], seen,
                    r, A, r, 0, made, r);
        cblas_daxpy(n * r, polar_coefficient[1], seen, 1, made, 1);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, c, r, 1, made, r, X, c,
                    polar_coefficient[0], along, c);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, c, r, 1, C, r, X, c, 0, made, c);
        memcpy(X, made, all * sizeof *X);
    }
}

/* Copies the columns of a group from rows [count][sites], or back. */
static void exchange_columns(double *rows, int count, size_t sites, size_t first, int group,
                             double *columns, bool take) {
    for (int k = 0; k < count; k++) {
        double *here = rows + (size_t)k * sites + first,
               *there = columns + (size_t)k * (size_t)group;
        memcpy(take ? there : here, take ? here : there, (size_t)group * sizeof *rows);
    }
}

/* Other rows over the sites of x, by the factors of its groups. */
static int follow_columns(struct rows x, int group, double least, struct rows along,
                          struct err *err) {
    size_t sites = x.array->sites, r = (size_t)x.count, c = (size_t)group, n = (size_t)along.count,
           scratch = 2 * r * r + (c > 2 * n ? r * c : 2 * n * r);
    double *host;
    TRY(base_alloc(&host, (r + n) * (sites + c) + scratch, sizeof *host, err));
    double *others = host + r * sites, *X = others + n * sites, *columns = X + r * c;
    x.array->backend->get(x, host);
    along.array->backend->get(along, others);
    for (size_t first = 0; first < sites; first += c) {
        exchange_columns(host, x.count, sites, first, group, X, true);
        exchange_columns(others, along.count, sites, first, group, columns, true);
        follow_matrix(x.count, group, X, along.count, columns, least, columns + n * c);
        exchange_columns(others, along.count, sites, first, group, columns, false);
    }
    along.array->backend->put(along, others);
    free(host);
    return CODE_OK;
}

static int step_columns(struct rows x, int group, double least, bool exact, struct err *err) {
    size_t sites = x.array->sites, r = (size_t)x.count, c = (size_t)group;
    size_t n = r < c ? r : c, all = r * c;
    double *host = NULL, *X = NULL;
    int code = CODE_OK;
    DO(base_alloc(&host, r * sites, sizeof *host, err));
    DO(base_alloc(&X, 3 * all + 2 * n * n + 2 * n, sizeof *X, err));
    x.array->backend->get(x, host);
    for (size_t first = 0; first < sites; first += c) {
        exchange_columns(host, x.count, sites, first, group, X, true);
        DO(polar_host(x.count, group, X, least, exact, X + all, err));
        exchange_columns(host, x.count, sites, first, group, X, false);
    }
    x.array->backend->put(x, host);
done:
    free(host);
    free(X);
    return code;
}

int polar_columns(struct rows x, int group, double least, bool exact, struct rows along,
                  struct err *err) {
    if (along.count)
        TRY(follow_columns(x, group, least, along, err));
    for (int c = 0; c < COMPANIONS && companions_work(x); c++)
        TRY(step_columns(companions_rows(x, c), group, least, exact, err));
    return step_columns(rows_main(x), group, least, exact, err);
}
