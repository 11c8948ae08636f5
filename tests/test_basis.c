/* Bases, the pool of matched normals and thin matrices, on every backend.
 *
 * What a call must give is computed beside it by Gram-Schmidt in extended precision, repeated until
 * nothing changes. Site averages of rows with rms 1 are good to about eps; a row of which a part r
 * is left after the others is known to eps/r, and so is its basis vector, while orthonormality does
 * not suffer: 1e-13 throughout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/thin.h"

#include <float.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort_double.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(list) (sizeof(list) / sizeof *(list))
#define ROUND_OFF 1e-13

static const struct backend *backend; /* under test */
static const struct rows none;
static struct err err;

#define ASK(call)                                                                                  \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s:%d: %s", __FILE__, __LINE__, err.text);                                   \
    } while (0)

static void *memory(size_t count, size_t size) {
    void *block = calloc(count ? count : 1, size);
    assert_non_null(block);
    return block;
}

static double *values(struct rows rows) {
    double *host = memory((size_t)rows.count * rows.array->sites, sizeof *host);
    backend->get(rows, host);
    return host;
}

/* Standard normals that have nothing to do with those of the populations below. */
static void draw(double *x, size_t count, uint32_t number) {
    struct rng_stream stream = {.seed = 4711, .purpose = PURPOSE_DATA};
    for (size_t i = 0; i < count; i++) {
        double pair[2];
        rng_normal_pair(stream, number, (uint32_t)(i / 2), pair);
        x[i] = pair[i % 2];
    }
}

static void rows_from(struct array *array, size_t sites, int group, const double *x, int count) {
    ASK(array_init(array, backend, sites, group, count, &err));
    backend->put(array_all(array), x);
}

static long double average(const double *a, const double *b, size_t sites) {
    long double sum = 0;
    for (size_t i = 0; i < sites; i++)
        sum += (long double)a[i] * b[i];
    return sum / (long double)sites;
}

/* max |<a_k b_l> - (k == l if they are the same)| */
static double overlap(struct rows a, struct rows b) {
    if (!a.count || !b.count)
        return 0;
    bool same = a.array == b.array && a.first == b.first;
    size_t sites = a.array->sites;
    double *x = values(a), *y = values(b), largest = 0;
    for (int k = 0; k < a.count; k++)
        for (int l = 0; l < b.count; l++) {
            long double c = average(x + (size_t)k * sites, y + (size_t)l * sites, sites);
            largest = fmax(largest, (double)fabsl(c - (same && k == l)));
        }
    free(x);
    free(y);
    return largest;
}

/* Vectors of a basis, each with the input row it came from and the part of that row it is. */
struct vectors {
    int count, from[64];
    long double part[64], *u;
};

/* rms of v after the projections. */
static long double reduce(long double *v, const long double *u, int count, size_t sites) {
    long double norm2 = 0;
    for (int pass = 0; pass < 4; pass++)
        for (int k = 0; k < count; k++) {
            long double c = 0;
            for (size_t i = 0; i < sites; i++)
                c += u[(size_t)k * sites + i] * v[i];
            for (size_t i = 0; i < sites; i++)
                v[i] -= c / (long double)sites * u[(size_t)k * sites + i];
        }
    for (size_t i = 0; i < sites; i++)
        norm2 += v[i] * v[i];
    return sqrtl(norm2 / (long double)sites);
}

/* Continues `all` (with room) by rows x. */
static void gram_schmidt(struct vectors *all, const double *x, int n, size_t sites,
                         double threshold) {
    for (int mu = 0; mu < n; mu++) {
        long double *v = all->u + (size_t)all->count * sites;
        for (size_t i = 0; i < sites; i++)
            v[i] = x[(size_t)mu * sites + i];
        long double rms = reduce(v, all->u, 0, sites), rest = reduce(v, all->u, all->count, sites);
        if (rest <= threshold)
            continue;
        for (size_t i = 0; i < sites; i++)
            v[i] /= rest;
        all->part[all->count] = rest / rms;
        all->from[all->count++] = mu;
    }
}

/* The rows kept are those of the reference, orthonormal, and to the precision that the least part
 * so far allows the same vectors; rows of x have no overlap with vectors of later rows. */
static void compare_residual(const struct vectors *want, int base, struct rows out, const double *x,
                             size_t sites) {
    double *u = values(out);
    long double least = 1;
    assert_int_equal(out.count, want->count - base);
    for (int k = 0; k < out.count; k++) {
        const long double *v = want->u + (size_t)(base + k) * sites;
        double *uk = u + (size_t)k * sites;
        long double distance2 = 0;
        for (size_t i = 0; i < sites; i++)
            distance2 += (uk[i] - v[i]) * (uk[i] - v[i]);
        least = fminl(least, want->part[base + k]);
        if (!(sqrtl(distance2 / (long double)sites) <= ROUND_OFF / least))
            fail_msg("vector %d is off by %Lg", k, sqrtl(distance2 / (long double)sites));
    }
    free(u);
    (void)x;
}

/* All promises of basis_residual; base is made of the first rows of x. Returns what is kept. */
static int check_residual(const double *x, int base, int n, size_t sites, int group,
                          double threshold) {
    struct array in, known = {0}, out, scratch;
    struct vectors want = {.u = memory((size_t)(base + n + 1) * sites, sizeof *want.u)};
    int kept;
    double defect;
    rows_from(&in, sites, group, x, base + n);
    ASK(array_init(&known, backend, sites, group, 0, &err));
    ASK(array_init(&out, backend, sites, group, 0, &err));
    ASK(array_init(&scratch, backend, sites, group, 0, &err));
    ASK(basis_residual(none, array_rows(&in, 0, base), 1e-6, &known, &scratch, &kept, &err));
    struct rows first = array_rows(&known, 0, kept);
    gram_schmidt(&want, x, base, sites, 1e-6);
    compare_residual(&want, 0, first, x, sites);
    base = want.count;
    gram_schmidt(&want, x + (size_t)(in.rows - n) * sites, n, sites, threshold);
    ASK(basis_residual(first, array_rows(&in, in.rows - n, n), threshold, &out, &scratch, &kept,
                       &err));
    compare_residual(&want, base, array_rows(&out, 0, kept), x, sites);
    assert_true(overlap(array_rows(&out, 0, kept), array_rows(&out, 0, kept)) <= ROUND_OFF);
    assert_true(overlap(array_rows(&out, 0, kept), first) <= ROUND_OFF);
    ASK(basis_defect(array_rows(&out, 0, kept), &defect, &err));
    assert_true(defect <= ROUND_OFF);
    array_free(&in);
    array_free(&known);
    array_free(&out);
    array_free(&scratch);
    free(want.u);
    return kept;
}
