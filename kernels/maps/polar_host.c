/* Newton-Schulz steps and exact factors of matrices on the host, and of groups of columns. */
#include "kernels/maps/polar_host.h"
#include "kernels/array/companions.h"
#include "kernels/maps/polar.h"

#include <cblas.h>
#include <lapacke.h>

const double polar_coefficient[3] = {3.4445, -4.7750, 2.0315};
/* Singular values below this share of the largest are round-off; the exact factor has none. */
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

void polar_seen(int count, int n, const double *seen, const double *A, double *out) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, count, n, n, polar_coefficient[2], seen,
                n, A, n, 0, out, n);
    for (size_t k = 0; k < (size_t)count; k++)
        cblas_daxpy(n, polar_coefficient[1], seen + k * (size_t)n, 1, out + k * (size_t)n, 1);
}

double polar_norm(size_t count, const double *X) {
    const size_t most = 1 << 30;
    double norm = 0;
    for (size_t first = 0; first < count; first += most)
        norm = hypot(norm,
                     cblas_dnrm2((int)(count - first < most ? count - first : most), X + first, 1));
    return norm;
}

void polar_scale(size_t count, double factor, double *X) {
    for (size_t i = 0; i < count; i++)
        X[i] *= factor;
}

/* X [r][c] <- p(X/|X|_F), and along [count][c] <- along L, where that is X L. A, C [n][n] with n =
 * min(r, c), and Y [max(r, count)][c], are scratch; where r <= c, seen [2][count][r], too. */
static void iterate_host(int r, int c, double *X, int count, double *along, double *A, double *C,
                         double *Y, double *seen) {
    size_t all = (size_t)r * (size_t)c, others = (size_t)count * (size_t)c;
    double scale = 1 / polar_norm(all, X), *made = seen + (size_t)count * (size_t)r;
    polar_scale(all, scale, X);
    polar_scale(others, scale, along);
    for (int k = 0; k < POLAR_STEPS; k++) {
        if (r <= c) {
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, r, r, c, 1, X, c, X, c, 0, A, r);
            if (count) { /* a along + (b S + c S A) X, S = along X^T */
                cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, count, r, c, 1, along, c, X, c,
                            0, seen, r);
                polar_seen(count, r, seen, A, made);
                cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, count, c, r, 1, made, r, X,
                            c, polar_coefficient[0], along, c);
            }
            polar_factor(r, A, C);
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, c, r, 1, C, r, X, c, 0, Y, c);
        } else {
            cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, c, c, r, 1, X, c, X, c, 0, A, c);
            polar_factor(c, A, C);
            if (count) {
                cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, count, c, c, 1, along, c, C,
                            c, 0, Y, c);
                memcpy(along, Y, others * sizeof *along);
            }
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, c, c, 1, X, c, C, c, 0, Y, c);
        }
        memcpy(X, Y, all * sizeof *X);
    }
}

int polar_check(int info, struct err *err) {
    TRY(err_lapack_memory(err, info, "the singular values of a gradient"));
    return !info ? CODE_OK
                 : err_set(err, CODE_NUMERICAL,
                           "the singular values of a gradient cannot be computed: it is not "
                           "finite; lower eta0 or rest_eta0");
}

/* X [r][c] <- the same with singular values of 1; those that are round-off become 0. U [r][n],
 * Vt [n][c] and s [2n] are scratch. */
static int exact_host(int r, int c, double *X, double *U, double *Vt, double *s, struct err *err) {
    int n = r < c ? r : c;
    TRY(polar_check(LAPACKE_dgesvd(LAPACK_ROW_MAJOR, 'S', 'S', r, c, X, c, s, U, n, Vt, c, s + n),
                    err));
    for (int k = 0; k < n; k++)
        cblas_dscal(r, s[k] > negligible * s[0] ? 1 : 0, U + k, n);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, c, n, 1, U, n, Vt, c, 0, X, c);
    return CODE_OK;
}

size_t polar_scratch(int r, int c, int count) {
    size_t n = (size_t)(r < c ? r : c), rows = (size_t)(r > count ? r : count);
    return (rows + (size_t)r) * (size_t)c + 2 * n * n + 2 * n + 2 * (size_t)count * (size_t)r;
}

int polar_host(int r, int c, double *X, int count, double *along, double least, bool exact,
               double *scratch, struct err *err) {
    size_t all = (size_t)r * (size_t)c, n = (size_t)(r < c ? r : c);
    if (polar_norm(all, X) <= least) {
        memset(X, 0, all * sizeof *X);
        if (count)
            memset(along, 0, (size_t)count * (size_t)c * sizeof *along);
        return CODE_OK;
    }
    if (exact)
        return exact_host(r, c, X, scratch, scratch + all, scratch + 2 * all, err);
    double *A = scratch + (size_t)(r > count ? r : count) * (size_t)c, *C = A + n * n;
    iterate_host(r, c, X, count, along, A, C, scratch, C + n * n);
    return CODE_OK;
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

/* Rows of x, and those along, on the host, one group after the other. */
static int step_columns(struct rows x, int group, struct rows along, double least, bool exact,
                        const struct stop *stop, struct err *err) {
    size_t sites = x.array->sites, rows = (size_t)x.count + (size_t)along.count,
           all = rows * (size_t)group;
    double *X;
    SCRATCH(double, host, rows *sites + all + polar_scratch(x.count, group, along.count));
    double *others = host + (size_t)x.count * sites;
    X = host + rows * sites;
    x.array->backend->get(x, host);
    if (along.count)
        along.array->backend->get(along, others);
    for (size_t first = 0; first < sites; first += (size_t)group) {
        TRY(base_go_on(stop, err));
        exchange_columns(host, (int)rows, sites, first, group, X, true);
        TRY(polar_host(x.count, group, X, along.count, X + (size_t)x.count * (size_t)group, least,
                       exact, X + all, err));
        exchange_columns(host, (int)rows, sites, first, group, X, false);
    }
    x.array->backend->put(x, host);
    if (along.count)
        along.array->backend->put(along, others);
    return CODE_OK;
}

int polar_columns(struct rows x, int group, double least, bool exact, struct rows along,
                  const struct stop *stop, struct err *err) {
    for (int c = 0; c < COMPANIONS && companions_work(x); c++)
        TRY(step_columns(companions_rows(x, c), group, (struct rows){0}, least, exact, stop, err));
    return step_columns(rows_main(x), group, along, least, exact, stop, err);
}
