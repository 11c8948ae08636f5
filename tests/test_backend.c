/* Every operation of every backend against plain loops over host copies.
 *
 * The loops run in extended precision, so what is left is the backend's own round-off. With the
 * unit round-off u = eps/2, a sum of n rounded products in any order, fused or not, is within
 * n u/(1 - n u) times the sum of their absolute values; a scale and an addition to an old value are
 * a few roundings more. Hence the bound (n + 4) eps sum |terms| below, a factor of two above. */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/backend.h"

#include <float.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sf_erf.h>
#include <gsl/gsl_sf_fermi_dirac.h>
#include <limits.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(list) (sizeof(list) / sizeof *(list))

static const struct backend *backend; /* under test */
static const struct rows none;
static uint64_t random_state = 1;
static struct err err;

static double uniform(void) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (double)((random_state * 0x2545f4914f6cdd1dULL) >> 11) * 0x1p-52 - 1;
}

static void assert_ok(int code) {
    if (code)
        fail_msg("code %d: %s", code, err.text);
}

static void assert_near(double got, long double want, long double bound) {
    if (!(fabsl((long double)got - want) <= bound))
        fail_msg("%s: %.17g instead of %.17Lg, bound %.3Lg", backend->name, got, want, bound);
}

static double *numbers(size_t count, double value) {
    double *list = malloc((count ? count : 1) * sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < count; i++)
        list[i] = value;
    return list;
}

/* Sites in groups; blocks are BACKEND_BLOCK groups. */
struct shape {
    size_t groups;
    int group;
};

static const size_t shape_groups[] = {1, 7, 64, 255, 256, 257, 1000, 2048};
static const int shape_group[] = {1, 2, 3, 5};

/* Random rows, one more before and after them, in an array with or without spare capacity. */
struct sample {
    struct array array;
    size_t sites, total;
    int count;
    double *all, *now; /* host copies of all rows: as put, as fetched */
    double *x;         /* the rows in the middle of `all` */
};

static struct sample pool[8]; /* those in use, until release() */
static size_t pooled;

static void put_all(struct sample *s) {
    backend->put(array_all(&s->array), s->all);
}

static struct sample *sample(struct shape shape, int count) {
    assert_true(pooled < LENGTH(pool));
    struct sample *s = &pool[pooled++];
    *s = (struct sample){.sites = shape.groups * (size_t)shape.group, .count = count};
    assert_ok(array_init(&s->array, backend, s->sites, shape.group, count + 2, &err));
    assert_ok(backend->resize(&s->array, count + 2 + (int)(s->sites % 3), &err));
    s->total = s->sites * ((size_t)count + 2);
    s->all = numbers(s->total, 0);
    s->now = numbers(s->total, 0);
    s->x = s->all + s->sites;
    for (size_t i = 0; i < s->total; i++)
        s->all[i] = uniform();
    put_all(s);
    return s;
}

static void release(void) {
    while (pooled) {
        struct sample *s = &pool[--pooled];
        array_free(&s->array);
        free(s->all);
        free(s->now);
    }
}

/* A check of one operation: group and number of rows, and a turn to vary other choices. */
typedef void check(struct shape shape, int count, size_t turn);

static void over_shapes(void **state) {
    static const int counts[] = {0, 1, 3, 33, 70};
    check *const *one = *state;
    size_t turn = 0;
    for (size_t i = 0; i < LENGTH(shape_groups); i++)
        for (size_t j = 0; j < LENGTH(shape_group); j++)
            for (size_t k = 0; k < LENGTH(counts); k++, turn++) {
                if (counts[k] > 3 && shape_groups[i] > 257)
                    continue; /* for speed */
                (*one)((struct shape){shape_groups[i], shape_group[j]}, counts[k], turn);
                release();
            }
}

static int teardown(void **state) {
    (void)state;
    release();
    return 0;
}

static struct rows middle(const struct sample *s) {
    return array_rows(&s->array, 1, s->count);
}

/* The middle rows as they are now; nothing has touched the others. */
static const double *fetch(struct sample *s) {
    size_t line = s->sites * sizeof *s->all, last = s->total - s->sites;
    backend->get(array_all(&s->array), s->now);
    assert_memory_equal(s->now, s->all, line);
    assert_memory_equal(s->now + last, s->all + last, line);
    return s->now + s->sites;
}

static void test_names(void **state) {
    (void)state;
    char names[256] = "";
    for (int i = 0; backend_list[i]; i++) {
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "",
                 backend_list[i]->name);
        assert_non_null(backend_list[i]->doc);
    }
    assert_string_equal(names, BACKEND_NAMES);
    assert_ok(backend->sync(&err));
}

static void check_put_and_get(struct shape shape, int count, size_t turn) {
    struct sample *s = sample(shape, count);
    size_t bytes = (size_t)count * s->sites * sizeof *s->x;
    (void)turn;
    assert_memory_equal(fetch(s), s->x, bytes);
    assert_true(array_width(&s->array) % 8 == 0);
    assert_true(array_bytes(s->sites, shape.group, 3) % 64 == 0);
    assert_true(array_bytes(s->sites, shape.group, 3) >= 3 * s->sites * sizeof(double));
    int part = count / 3;
    double *start = s->x + (size_t)part * s->sites;
    for (size_t i = 0; i < (size_t)part * s->sites; i++)
        start[i] = uniform();
    backend->put(rows_part(middle(s), part, part), start);
    assert_memory_equal(fetch(s), s->x, bytes);
}

/* Same generator, other libm: a few units in the last place. */
static void check_normals(struct shape shape, int count, size_t turn) {
    struct rng_stream stream = {0x123456789abcdefULL, 3, 128, 7, PURPOSE_MATRIX, (uint32_t)turn};
    struct sample *s = sample(shape, count);
    backend->normals(middle(s), stream);
    const double *now = fetch(s);
    for (size_t i = 0; i < (size_t)count * s->sites; i++) {
        uint32_t k = (uint32_t)(i / s->sites), site = (uint32_t)(i % s->sites);
        double pair[2];
        rng_normal_pair(stream, stream.draw + k, site / 2, pair);
        assert_near(now[i], pair[site % 2], 8 * DBL_EPSILON * fabs(pair[site % 2]));
    }
}

/* <a_k b_l> and the bound of its round-off; b NULL: <a_k>. */
static long double average(const double *a, const double *b, size_t sites, long double *bound) {
    long double sum = 0, size = 0;
    for (size_t i = 0; i < sites; i++) {
        long double term = b ? (long double)a[i] * b[i] : a[i];
        sum += term;
        size += fabsl(term);
    }
    *bound = (long double)(sites + 4) * DBL_EPSILON * size / (long double)sites;
    return sum / (long double)sites;
}

static void dots_of(const struct sample *a, const struct sample *b) {
    double *C = numbers((size_t)(a->count * b->count), NAN);
    long double bound;
    backend->dots(middle(a), middle(b), C);
    for (int k = 0; k < a->count; k++)
        for (int l = 0; l < b->count; l++) {
            long double want =
                average(a->x + (size_t)k * a->sites, b->x + (size_t)l * a->sites, a->sites, &bound);
            assert_near(C[k * b->count + l], want, bound);
        }
    free(C);
}

static void check_dots(struct shape shape, int count, size_t turn) {
    struct sample *a = sample(shape, count);
    (void)turn;
    dots_of(a, sample(shape, 73 - count));
    dots_of(a, sample(shape, 0));
    dots_of(a, a);
}

/* Factor b: none, one row, as many rows, or a itself. */
static void averages_of(const struct sample *a, const struct sample *b) {
    double *out = numbers((size_t)a->count, NAN);
    long double bound;
    backend->averages(middle(a), b ? middle(b) : none, out);
    for (int k = 0; k < a->count; k++) {
        size_t line = b && b->count == 1 ? 0 : (size_t)k;
        long double want = average(a->x + (size_t)k * a->sites, b ? b->x + line * a->sites : NULL,
                                   a->sites, &bound);
        assert_near(out[k], want, bound);
    }
    free(out);
}

static void check_averages(struct shape shape, int count, size_t turn) {
    struct sample *a = sample(shape, count);
    (void)turn;
    averages_of(a, NULL);
    averages_of(a, sample(shape, 1));
    averages_of(a, sample(shape, count));
    averages_of(a, a);
}

static void combine_of(struct shape shape, int count, int terms, double beta) {
    struct sample *y = sample(shape, count), *a = sample(shape, terms);
    double *C = numbers((size_t)(count * terms), 0);
    for (int i = 0; i < count * terms; i++)
        C[i] = uniform();
    for (size_t i = 0; i < (size_t)count * y->sites && beta == 0; i++)
        y->x[i] = NAN;
    put_all(y);
    backend->combine(middle(y), beta, terms ? C : NULL, terms ? middle(a) : none);
    const double *now = fetch(y);
    for (int k = 0; k < count; k++)
        for (size_t i = 0; i < y->sites; i++) {
            size_t here = (size_t)k * y->sites + i;
            long double sum = beta == 0 ? 0 : (long double)beta * y->x[here], size = fabsl(sum);
            for (int l = 0; l < terms; l++) {
                long double term = (long double)C[k * terms + l] * a->x[(size_t)l * a->sites + i];
                sum += term;
                size += fabsl(term);
            }
            assert_near(now[here], sum, (terms + 4) * DBL_EPSILON * size);
        }
    free(C);
}

static void check_combine(struct shape shape, int count, size_t turn) {
    static const double betas[] = {0, 1, 0.5};
    combine_of(shape, count, 0, betas[turn % 3]);
    combine_of(shape, count, 1, betas[turn % 3]);
    combine_of(shape, count, 73 - count, betas[turn % 3]);
}

static const enum fn functions[] = {FN_LINEAR, FN_TANH,     FN_ERF,     FN_RELU,
                                    FN_GELU,   FN_SOFTPLUS, FN_SIGMOID, FN_EXP};

/* fn(u) and fn'(u) in extended precision. */
static long double reference(enum fn fn, long double u, long double *slope) {
    const long double root = sqrtl(0.5L), pi = acosl(-1);
    long double value = u;
    *slope = 1;
    if (fn == FN_TANH) {
        value = tanhl(u);
        *slope = 1 / (coshl(u) * coshl(u));
    } else if (fn == FN_ERF) {
        value = erfl(u);
        *slope = 2 / sqrtl(pi) * expl(-u * u);
    } else if (fn == FN_RELU) {
        value = u > 0 ? u : 0;
        *slope = u > 0;
    } else if (fn == FN_GELU) {
        value = u * erfcl(-u * root) / 2;
        *slope = erfcl(-u * root) / 2 + u * expl(-u * u / 2) / sqrtl(2 * pi);
    } else if (fn == FN_SOFTPLUS) {
        value = fmaxl(u, 0) + log1pl(expl(-fabsl(u)));
        *slope = 1 / (1 + expl(-u));
    } else if (fn == FN_SIGMOID) {
        value = 1 / (1 + expl(-u));
        *slope = 1 / (2 + expl(u) + expl(-u));
    } else if (fn == FN_EXP)
        *slope = value = expl(u);
    return value;
}

/* `size` = |scale x| + |shift| >= |u|. A library function is good to a few units, and roundings of
 * u or inside of the argument cost |fn'| size eps; slopes are of order one and so are second
 * derivatives, except those of exp. Where results underflow they need only be as small. */
static void check_function(enum fn fn, double u, double size, double value, double slope) {
    long double d, v = reference(fn, u, &d), tiny = 1000 * DBL_MIN;
    if (fn == FN_EXP && u > log(DBL_MAX)) {
        assert_true(value == INFINITY && slope == INFINITY);
        return;
    }
    assert_true(isfinite(value) && isfinite(slope));
    assert_near(value, v, 16 * DBL_EPSILON * (fabsl(v) + fabsl(d) * size) + tiny);
    assert_near(slope, d, 16 * DBL_EPSILON * (1 + fabsl(d)) * (1 + size));
}

/* Values and slopes of fn at u, by the backend. */
static void evaluate(enum fn fn, const double *u, size_t count, double *value, double *slope) {
    struct array x, v, d;
    assert_ok(array_init(&x, backend, count, 1, 1, &err));
    assert_ok(array_init(&v, backend, count, 1, 1, &err));
    assert_ok(array_init(&d, backend, count, 1, 1, &err));
    backend->put(array_all(&x), u);
    rows_fn(fn, array_all(&x), array_all(&v), array_all(&d));
    backend->get(array_all(&v), value);
    backend->get(array_all(&d), slope);
    array_free(&x);
    array_free(&v);
    array_free(&d);
}

static void test_functions(void **state) {
    (void)state;
    static const double large[] = {10, 20, 26.5, 30, 38, 50, 100, 700, 709, 710, 745, 750, 800};
    enum { GRID = 3201, ALL = GRID + 2 * 13 };
    double u[ALL], value[ALL], slope[ALL];
    for (int i = 0; i < GRID; i++)
        u[i] = (i - GRID / 2) / 200.0;
    for (size_t i = 0; i < LENGTH(large); i++) {
        u[GRID + 2 * i] = large[i];
        u[GRID + 2 * i + 1] = -large[i];
    }
    for (size_t n = 0; n < LENGTH(functions); n++) {
        evaluate(functions[n], u, ALL, value, slope);
        for (int i = 0; i < ALL; i++)
            check_function(functions[n], u[i], fabs(u[i]), value[i], slope[i]);
        for (int i = 0; i < GRID; i++) { /* a second opinion */
            double x = u[i], got = value[i];
            if (functions[n] == FN_ERF)
                assert_near(got, gsl_sf_erf(x), 1e-14);
            if (functions[n] == FN_GELU)
                assert_near(got, x * gsl_cdf_ugaussian_P(x), 1e-14 * (1 + fabs(x)));
            if (functions[n] == FN_SOFTPLUS)
                assert_near(got, gsl_sf_fermi_dirac_0(x), 1e-14 * (1 + fabs(x)));
            if (functions[n] == FN_SIGMOID)
                assert_near(got, gsl_sf_fermi_dirac_m1(x), 1e-14);
        }
    }
    evaluate(FN_RELU, u + GRID / 2, 1, value, slope);
    assert_true(value[0] == 0 && slope[0] == 0); /* at u = 0 */
}

/* (f(u + h) - f(u - h))/2h = f' + h^2 f'''/6 + eps |f|/h with h = 1e-5 and |f'''| < 6 (exp: f). */
static void test_slopes_are_derivatives(void **state) {
    (void)state;
    enum { GRID = 800 };
    const double h = 0x1p-17; /* sums with it are exact on the grid */
    double u[GRID], up[GRID], down[GRID], value[GRID], slope[GRID], above[GRID], below[GRID];
    for (int i = 0; i < GRID; i++) {
        u[i] = (2 * i - GRID + 1) / 128.0;
        up[i] = u[i] + h;
        down[i] = u[i] - h;
    }
    for (size_t n = 0; n < LENGTH(functions); n++) {
        evaluate(functions[n], up, GRID, above, slope);
        evaluate(functions[n], down, GRID, below, slope);
        evaluate(functions[n], u, GRID, value, slope);
        for (int i = 0; i < GRID; i++)
            assert_near(slope[i], (above[i] - below[i]) / (2 * h),
                        h * h * fmax(1, fabs(value[i])) + 4 * DBL_EPSILON * fabs(value[i]) / h);
    }
}

/* A row read before it is written shows. */
static void test_functions_keep_nan(void **state) {
    (void)state;
    for (size_t n = 0; n < LENGTH(functions); n++) {
        double u = NAN, value, slope;
        evaluate(functions[n], &u, 1, &value, &slope);
        if (!isnan(value))
            fail_msg("%s: function %zu of NaN is %g", backend->name, n, value);
    }
}

/* Every way to ask for a part of the results, or in place, gives the same bits. */
static void check_pointwise(struct shape shape, int count, size_t turn) {
    enum fn fn = functions[turn % LENGTH(functions)];
    bool scaled = turn / 8 % 2, shifted = turn / 16 % 2;
    struct sample *x = sample(shape, count), *v = sample(shape, count), *d = sample(shape, count);
    double a[70], b[70];
    const double *scale = scaled ? a : NULL, *shift = shifted ? b : NULL;
    for (int k = 0; k < count; k++) {
        a[k] = scaled ? 3 * uniform() : 1;
        b[k] = shifted ? uniform() : 0;
    }
    backend->pointwise(fn, scale, shift, middle(x), middle(v), middle(d));
    const double *value = fetch(v), *slope = fetch(d);
    for (size_t i = 0; i < (size_t)count * x->sites; i++) {
        double factor = a[i / x->sites] * x->x[i], offset = b[i / x->sites];
        check_function(fn, factor + offset, fabs(factor) + fabs(offset), value[i], slope[i]);
    }
    struct sample *y = sample(shape, count),
                  *ways[][2] = {{x, NULL}, {NULL, x}, {x, y}, {y, x}, {y, NULL}, {NULL, y}};
    size_t bytes = (size_t)count * x->sites * sizeof *value;
    for (size_t i = 0; i < LENGTH(ways); i++) {
        struct sample *to = ways[i][0], *rise = ways[i][1];
        put_all(x);
        backend->pointwise(fn, scale, shift, middle(x), to ? middle(to) : none,
                           rise ? middle(rise) : none);
        if (to)
            assert_memory_equal(fetch(to), value, bytes);
        if (rise)
            assert_memory_equal(fetch(rise), slope, bytes);
    }
}

/* A factor of any shape: over the sites or over the groups, one row or `count`. */
static double factor_at(const struct sample *a, size_t k, size_t site, int group) {
    size_t line = a->count == 1 ? 0 : k;
    return a->x[line * a->sites + (a->array.group == group ? site : site / (size_t)group)];
}

static void multiply_of(const struct sample *a, const struct sample *b, struct sample *y) {
    size_t count = (size_t)y->count * y->sites;
    double *want = numbers(count, 0);
    for (size_t i = 0; i < count; i++)
        want[i] = factor_at(a, i / y->sites, i % y->sites, y->array.group) *
                  factor_at(b, i / y->sites, i % y->sites, y->array.group);
    rows_multiply(middle(a), middle(b), middle(y));
    assert_memory_equal(fetch(y), want, count * sizeof *want);
    put_all(y);
    free(want);
}

static void check_multiply(struct shape shape, int count, size_t turn) {
    struct shape coarse = {shape.groups, 1};
    struct sample *s[4], *y = sample(shape, count);
    for (int i = 0; i < 4; i++)
        s[i] = sample(i % 2 ? coarse : shape, i / 2 ? 1 : count);
    for (size_t i = 0; i < 16; i++)
        if (count <= 3 || i == turn % 16)
            multiply_of(s[i % 4], s[i / 4], y);
    for (int i = 0; i < 4; i++) { /* in place */
        multiply_of(s[0], s[i], s[0]);
        multiply_of(s[i], s[0], s[0]);
    }
}

static void check_group_sum(struct shape shape, int count, size_t turn) {
    struct sample *x = sample(shape, count), *y = sample((struct shape){shape.groups, 1}, count);
    (void)turn;
    backend->group_sum(middle(x), middle(y));
    const double *now = fetch(y), *in = x->x;
    for (size_t i = 0; i < (size_t)count * y->sites; i++) {
        long double sum = 0, size = 0;
        for (int j = 0; j < shape.group; j++, in++) {
            sum += *in;
            size += fabs(*in);
        }
        assert_near(now[i], sum, (shape.group + 4) * DBL_EPSILON * size);
    }
}

/* Sites by their rank: the number of sites that are larger, or equal and lower. */
static void top_of(struct sample *x, struct sample *mask) {
    size_t sites = x->sites, Ks[] = {1, 2, sites / 2, sites - 1, sites};
    for (size_t n = 0; n < LENGTH(Ks); n++) {
        size_t K = Ks[n] < 1 ? 1 : Ks[n] > sites ? sites : Ks[n];
        assert_ok(backend->top(middle(x), K, middle(mask), &err));
        const double *now = fetch(mask);
        for (size_t i = 0; i < (size_t)x->count * sites; i++) {
            const double *row = x->x + i / sites * sites;
            size_t site = i % sites, before = 0;
            for (size_t j = 0; j < sites; j++)
                before += row[j] > row[site] || (row[j] == row[site] && j < site);
            if (now[i] != (before < K))
                fail_msg("%s: site %zu of rank %zu, K = %zu: %g", backend->name, site, before, K,
                         now[i]);
        }
    }
}

/* Random values; many ties (also of 0 and -0); negative values; all equal. */
static void check_top(struct shape shape, int count, size_t turn) {
    if (count != 3 || shape.groups * (size_t)shape.group > 2048)
        return;
    struct sample *x = sample(shape, 4), *mask = sample(shape, 4);
    (void)turn;
    for (size_t i = 0; i < x->sites; i++) {
        x->x[x->sites + i] = trunc(2.5 * x->x[x->sites + i]);
        x->x[2 * x->sites + i] = -1e-3 - fabs(x->x[2 * x->sites + i]);
        x->x[3 * x->sites + i] = -7;
    }
    put_all(x);
    top_of(x, mask);
}

static void check_rows_helpers(struct shape shape, int count, size_t turn) {
    struct sample *x = sample(shape, count), *y = sample(shape, count);
    size_t values = (size_t)count * x->sites;
    (void)turn;
    rows_add(middle(x), middle(y));
    const double *now = fetch(y);
    for (size_t i = 0; i < values; i++)
        assert_near(now[i], y->x[i] + x->x[i], 0);
    rows_copy(middle(x), middle(y));
    assert_memory_equal(fetch(y), x->x, values * sizeof *now);
    for (size_t i = 0; i < values; i++)
        y->x[i] = NAN;
    put_all(y);
    rows_zero(middle(y));
    now = fetch(y);
    for (size_t i = 0; i < values; i++)
        assert_near(now[i], 0, 0);
}

/* Rows appended one by one keep their values; the capacity grows by a share of itself. */
static void check_append(struct shape shape, int count, size_t turn) {
    if (count != 70)
        return;
    (void)turn;
    struct sample *x = sample(shape, 70);
    struct array array;
    int moves = 0;
    assert_ok(array_init(&array, backend, x->sites, shape.group, 0, &err));
    for (int k = 0; k < 70; k++) {
        struct rows added;
        int capacity = array.capacity;
        assert_ok(array_append(&array, 1, &added, &err));
        assert_true(added.array == &array && added.first == k && added.count == 1);
        moves += array.capacity != capacity;
        backend->put(added, x->x + (size_t)k * x->sites);
    }
    assert_true(array.rows == 70 && array.capacity < 120 && moves < 14);
    assert_ok(array_reserve(&array, 70, &err));
    assert_ok(backend->resize(&array, 200, &err));
    assert_true(array.rows == 70 && array.capacity == 200);
    backend->get(array_all(&array), x->now);
    assert_memory_equal(x->now, x->x, 70 * x->sites * sizeof *x->x);
    array_free(&array);
    assert_null(array.memory);
    array_free(&array);
}

/* Eight petabytes cannot be had; what was there stays. */
static void test_out_of_memory(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    struct array array;
    assert_int_equal(array_init(&array, backend, 1 << 30, 1, 1 << 20, &err), CODE_SYSTEM);
    assert_non_null(strstr(err.text, "out of memory: 1048576 rows over 1073741824 sites"));
    array_free(&array);
    struct sample *s = sample((struct shape){2048, 1}, 3);
    assert_int_equal(backend->resize(&s->array, INT_MAX, &err), CODE_SYSTEM);
    assert_memory_equal(fetch(s), s->x, 3 * s->sites * sizeof *s->x);
}

static void check_fresh_shadow_rows_are_nan(struct shape shape, int count, size_t turn) {
    (void)turn;
    backend = &backend_shadow;
    struct sample *s = sample(shape, count);
    struct array array;
    struct rows added;
    assert_ok(array_init(&array, backend, s->sites, shape.group, count, &err));
    for (int k = 0; k < 3; k++) { /* new, then appended over a move */
        backend->get(array_rows(&array, k * count, count), s->now);
        for (size_t i = 0; i < (size_t)count * s->sites; i++)
            assert_true(isnan(s->now[i]));
        assert_ok(array_append(&array, count, &added, &err));
    }
    array_free(&array);
}

static void test_shadow_memory_cannot_be_touched(void **state) {
    (void)state;
    backend = &backend_shadow;
    struct sample *s = sample((struct shape){7, 1}, 3);
    size_t last = array_bytes(s->sites, 1, s->array.capacity) / sizeof(double) - 1;
    for (int way = 0; way < 4; way++) { /* first and last value, read and written */
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
            signal(SIGSEGV, SIG_DFL);
            volatile double *value = (double *)s->array.memory + (way / 2 ? last : 0);
            if (way % 2)
                *value = 1;
            _exit(*value == 0 ? 0 : 1);
        }
        int status;
        assert_true(waitpid(child, &status, 0) == child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
}

/* Results of all operations on the same random input; *size values, to be freed. */
static double *results(struct shape shape, size_t *size) {
    random_state = 77;
    struct sample *a = sample(shape, 70), *b = sample(shape, 33), *y = sample(shape, 70);
    struct sample *coarse = sample((struct shape){shape.groups, 1}, 70);
    size_t line = 70 * a->sites;
    double *out = numbers(7 * line + 3 * 70 * 70, 0), *next = out;
    backend->dots(middle(a), middle(b), next);
    backend->dots(middle(a), middle(a), next += 70 * 70);
    backend->averages(middle(a), rows_part(middle(b), 0, 1), next += 70 * 70);
    next += 70 * 70;
    for (int way = 0; way < 7; way++, next += line) {
        if (way == 0)
            backend->combine(middle(y), 0.5, out, middle(b));
        else if (way == 1 || way == 2)
            backend->pointwise(FN_GELU, out, out + 70, middle(a), way == 1 ? middle(y) : none,
                               way == 2 ? middle(y) : none);
        else if (way == 3)
            rows_multiply(middle(a), middle(coarse), middle(y));
        else if (way == 4)
            assert_ok(backend->top(middle(a), 20, middle(y), &err));
        else if (way == 5)
            backend->normals(middle(y), (struct rng_stream){1, 2, 3, 4, PURPOSE_POOL, 5});
        else
            backend->group_sum(middle(a), middle(coarse));
        struct sample *to = way == 6 ? coarse : y;
        memcpy(next, fetch(to), 70 * to->sites * sizeof *next);
    }
    *size = 7 * line + 3 * 70 * 70;
    release();
    return out;
}

static void test_bits_depend_on_nothing(void **state) {
    (void)state;
    static const struct shape shapes[] = {{7, 1}, {257, 5}, {1000, 2}, {2048, 1}};
    for (size_t n = 0; n < LENGTH(shapes); n++) {
        double *first = NULL;
        for (int way = 0; way < 6; way++) {
            size_t size;
            backend = way % 2 ? &backend_shadow : &backend_cpu;
            omp_set_num_threads(way / 2 + 1);
            double *out = results(shapes[n], &size);
            if (first)
                assert_memory_equal(out, first, size * sizeof *out);
            if (first)
                free(out);
            else
                first = out;
        }
        free(first);
    }
}

#define ONCE(name)                                                                                 \
    { "test_" #name, test_##name, NULL, teardown, NULL }
#define OVER_SHAPES(name)                                                                          \
    {                                                                                              \
        "test_" #name, over_shapes, NULL, teardown, (check *[]) {                                  \
            check_##name                                                                           \
        }                                                                                          \
    }

int main(void) {
    const struct CMUnitTest tests[] = {ONCE(names),
                                       ONCE(functions),
                                       ONCE(slopes_are_derivatives),
                                       ONCE(functions_keep_nan),
                                       ONCE(out_of_memory),
                                       OVER_SHAPES(put_and_get),
                                       OVER_SHAPES(normals),
                                       OVER_SHAPES(dots),
                                       OVER_SHAPES(averages),
                                       OVER_SHAPES(combine),
                                       OVER_SHAPES(pointwise),
                                       OVER_SHAPES(multiply),
                                       OVER_SHAPES(group_sum),
                                       OVER_SHAPES(top),
                                       OVER_SHAPES(rows_helpers),
                                       OVER_SHAPES(append)};
    const struct CMUnitTest comparisons[] = {
        OVER_SHAPES(fresh_shadow_rows_are_nan),
        ONCE(shadow_memory_cannot_be_touched),
        ONCE(bits_depend_on_nothing),
    };
    int failed = 0;
    backend_start(1);
    for (int i = 0; backend_list[i]; i++) {
        backend = backend_list[i];
        failed += cmocka_run_group_tests_name(backend->name, tests, NULL, NULL);
    }
    return failed + cmocka_run_group_tests_name("both", comparisons, NULL, NULL);
}
