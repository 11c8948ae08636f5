/* Vector loops over functions. Each is compiled for several sets of instructions; the compiler
 * calls the vector functions that these declarations say there are. */
#include "kernels/array/functions.h"

#include <tgmath.h>

#ifdef __clang__ /* knows no vector functions for these loops, which stay scalar, and says so */
#pragma clang diagnostic ignored "-Wpass-failed"
#define CLONES
#elif defined __x86_64__ && defined __GLIBC_PREREQ
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#if __GLIBC_PREREQ(2, 35)
#define VECTOR(name)                                                                               \
    _Pragma("omp declare simd notinbranch") extern double(name)(double);                           \
    _Pragma("omp declare simd notinbranch") extern float name##f(float);
VECTOR(tanh)
VECTOR(erf)
VECTOR(erfc)
VECTOR(exp)
VECTOR(log)
VECTOR(log1p)
VECTOR(sin)
VECTOR(cos)
#endif
#else
#define CLONES
#endif

#ifndef SINGLE
#define FN_X "x"
#define NAME(number, word, ...) word,
const char *const functions_name[FN_COUNT] = {FN_ALL(NAME)};
#undef NAME
#endif

/* Numbers of a pass, and of the longest vector: passes are whole vectors, so that no element is
 * left to scalar code. */
enum { PASS = 256, LANES = 64 / REAL_BYTES };

/* v = fn(u), d = fn'(u), n a multiple of LANES. */
CLONES static void pass(enum fn fn, const real *restrict u, int n, real *restrict v,
                        real *restrict d) {
#define FN_U u[i]
#define FN_VALUE v[i]
#define FN_SLOPE d[i]
#define FN_REAL(number) ((real)(number))
#define LOOPS(number, word, formula, loop, rest)                                                   \
    case number:                                                                                   \
        _Pragma("omp simd") for (int i = 0; i < n; i++) loop;                                      \
        _Pragma("omp simd") for (int i = 0; i < n; i++) rest;                                      \
        break;
    switch (fn) { FN_ALL(LOOPS) }
}

/* Rows that may differ in a or b. */
CLONES static void affine_rows(double factor, const double *a, const double *b, const real *x,
                               size_t step, int rows, int n, real *out, size_t out_step) {
    for (int k = 0; k < rows; k++, x += step, out += out_step) {
        real scale = (real)(a ? factor * a[k] : factor), shift = b ? (real)b[k] : 0;
#pragma omp simd
        for (int i = 0; i < n; i++)
            out[i] = scale * x[i] + shift;
    }
}

void functions_affine(double factor, const double *a, const double *b, const real *x, size_t step,
                      int rows, int n, real *out, size_t out_step) {
    if (factor != 1 || a || b)
        affine_rows(factor, a, b, x, step, rows, n, out, out_step);
    else if (step == (size_t)n && out_step == step)
        memmove(out, x, (size_t)rows * step * sizeof(real));
    else
        for (int k = 0; k < rows; k++)
            memmove(out + (size_t)k * out_step, x + (size_t)k * step, (size_t)n * sizeof(real));
}

static int whole_lanes(int n) {
    return (n + LANES - 1) / LANES * LANES;
}

void functions_apply(enum fn fn, double scale, double shift, const real *x, int n, real *value,
                     real *slope) {
    real u[PASS], v[PASS], d[PASS];
    for (int first = 0; first < n; first += PASS) {
        int count = n - first < PASS ? n - first : PASS;
        size_t bytes = (size_t)count * sizeof(real);
        affine_rows(1, &scale, &shift, x + first, 0, 1, count, u, 0);
        for (int i = count; i < whole_lanes(count); i++)
            u[i] = 0;
        bool whole = count == whole_lanes(count); /* else nothing may be written behind it */
        pass(fn, u, whole_lanes(count), whole && value ? value + first : v,
             whole && slope ? slope + first : d);
        if (value && !whole)
            memcpy(value + first, v, bytes);
        if (slope && !whole)
            memcpy(slope + first, d, bytes);
    }
}

/* Pairs of normals from u in (0, 1] and angles; n a multiple of LANES. */
CLONES static void polar(const double *restrict u, const double *restrict angle, int n,
                         double *restrict a, double *restrict b) {
    double radius[PASS]; /* loops apart: cos and sin together become scalar code */
#pragma omp simd
    for (int i = 0; i < n; i++)
        radius[i] = sqrt(-2.0 * log(u[i]));
#pragma omp simd
    for (int i = 0; i < n; i++)
        a[i] = radius[i] * cos(angle[i]);
#pragma omp simd
    for (int i = 0; i < n; i++)
        b[i] = radius[i] * sin(angle[i]);
}

void functions_normals(struct rng_stream stream, uint32_t draw, uint32_t first_pair, int n,
                       real *out) {
    double u[PASS], angle[PASS], a[PASS], b[PASS];
    int pairs = (n + 1) / 2;
    for (int first = 0; first < pairs; first += PASS) {
        int count = pairs - first < PASS ? pairs - first : PASS;
        for (int i = 0; i < count; i++)
            rng_polar(stream, draw, first_pair + (uint32_t)(first + i), &u[i], &angle[i]);
        for (int i = count; i < whole_lanes(count); i++)
            u[i] = angle[i] = 1;
        polar(u, angle, whole_lanes(count), a, b);
        real *pair = out + (size_t)first * 2;
        for (int i = 0; i < count; i++) {
            pair[2 * i] = (real)a[i];
            if (2 * (first + i) + 1 < n)
                pair[2 * i + 1] = (real)(stream.mirror ? stream.mirror * a[i] : b[i]);
        }
    }
}

#ifdef SINGLE
#define ENTRY_REAL float
#define ENTRY(name) single_##name
#include "kernels/array/entry.h"
#define ENTRY_OF(name) single_##name
#else
#define ENTRY_OF(name) entry_##name
#endif

CLONES static void adam(struct entry_rule rule, const real *restrict g, int n, real *restrict m,
                        real *restrict v, real *restrict y) {
#pragma omp simd
    for (int i = 0; i < n; i++)
        y[i] += ENTRY_OF(adam)(&rule, g[i], m + i, v + i);
}

CLONES static void lion(struct entry_rule rule, const real *restrict g, int n, real *restrict m,
                        real *restrict y) {
#pragma omp simd
    for (int i = 0; i < n; i++)
        y[i] += ENTRY_OF(lion)(&rule, g[i], m + i);
}

void functions_entries(const struct entry_rule *rule, const real *g, int n, real *m, real *v,
                       real *y) {
    if (rule->form == ENTRY_LION)
        lion(*rule, g, n, m, y);
    else
        adam(*rule, g, n, m, v, y);
}

CLONES static void sums_of_products(const real *x, size_t step_x, const real *y, size_t step_y,
                                    int rows, int n, double *sums) {
    for (int k = 0; k < rows; k++, x += step_x, y += step_y) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < n; i++)
            sum += (double)x[i] * (double)y[i];
        sums[k] += sum;
    }
}

CLONES static void sums_of(const real *x, size_t step, int rows, int n, double *sums) {
    for (int k = 0; k < rows; k++, x += step) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < n; i++)
            sum += (double)x[i];
        sums[k] += sum;
    }
}

void functions_sums(const real *x, size_t step_x, const real *y, size_t step_y, int rows, int n,
                    double *sums) {
    if (y)
        sums_of_products(x, step_x, y, step_y, rows, n, sums);
    else
        sums_of(x, step_x, rows, n, sums);
}

CLONES void functions_multiply(const real *x, const real *y, int n, real *out) {
#pragma omp simd
    for (int i = 0; i < n; i++)
        out[i] = x[i] * y[i];
}

CLONES void functions_multiply_groups(const real *a, const real *b, bool whole_a, bool whole_b,
                                      int groups, int group, real *y) {
    const real *whole = whole_a ? a : b, *one = whole_a ? b : a;
    for (int i = 0; i < groups; i++, y += group)
        if (whole_a || whole_b)
#pragma omp simd
            for (int j = 0; j < group; j++)
                y[j] = whole[i * group + j] * one[i];
        else
            for (int j = 0; j < group; j++)
                y[j] = a[i] * b[i];
}

CLONES void functions_sums_across(const real *x, int rows, real *out) {
    double sums[FUNCTIONS_SUMS] = {0};
    for (int k = 0; k < rows; k++, x += FUNCTIONS_SUMS)
#pragma omp simd
        for (int i = 0; i < FUNCTIONS_SUMS; i++)
            sums[i] += (double)x[i];
    for (int i = 0; i < FUNCTIONS_SUMS; i++)
        out[i] = (real)sums[i];
}
