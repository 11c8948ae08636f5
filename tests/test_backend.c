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
static const int row_counts[] = {0, 1, 3, 33, 70};
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
    int group, next;
};

static bool next_shape(struct shape *shape) {
    static const size_t groups[] = {1, 7, 64, 255, 256, 257, 1000, 2048};
    static const int group[] = {1, 2, 3, 5};
    size_t next = (size_t)shape->next++;
    if (next == LENGTH(groups) * LENGTH(group))
        return false;
    shape->groups = groups[next / LENGTH(group)];
    shape->group = group[next % LENGTH(group)];
    return true;
}

/* Random rows, one more before and after them, in an array with or without spare capacity. */
struct sample {
    struct array array;
    size_t sites, total;
    int count;
    double *all, *now; /* host copies of all rows: as put, as fetched */
    double *x;         /* the rows in the middle of `all` */
};

static void put_all(struct sample *s) {
    backend->put(array_all(&s->array), s->all);
}

static void sample_init(struct sample *s, struct shape shape, int count) {
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
}

static void sample_free(struct sample *s) {
    array_free(&s->array);
    free(s->all);
    free(s->now);
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

static void test_put_and_get(void **state) {
    (void)state;
    for (struct shape shape = {0}; next_shape(&shape);)
        for (size_t n = 0; n < LENGTH(row_counts); n++) {
            struct sample s;
            sample_init(&s, shape, row_counts[n]);
            assert_memory_equal(fetch(&s), s.x, (size_t)s.count * s.sites * sizeof *s.x);
            assert_true(array_width(&s.array) % 8 == 0);
            assert_true(array_bytes(s.sites, shape.group, 3) % 64 == 0);
            assert_true(array_bytes(s.sites, shape.group, 3) >= 3 * s.sites * sizeof(double));
            int part = s.count / 3;
            for (size_t i = 0; i < (size_t)part * s.sites; i++)
                s.x[(size_t)part * s.sites + i] = uniform();
            backend->put(rows_part(middle(&s), part, part), s.x + (size_t)part * s.sites);
            assert_memory_equal(fetch(&s), s.x, (size_t)s.count * s.sites * sizeof *s.x);
            sample_free(&s);
        }
}

/* Same generator, other libm: a few units in the last place. */
static void test_normals(void **state) {
    (void)state;
    struct rng_stream stream = {0x123456789abcdefULL, 3, 128, 7, PURPOSE_MATRIX, 11};
    for (struct shape shape = {0}; next_shape(&shape);) {
        struct sample s;
        sample_init(&s, shape, 3);
        backend->normals(middle(&s), stream);
        const double *now = fetch(&s);
        for (int k = 0; k < s.count; k++)
            for (size_t i = 0; i < s.sites; i++) {
                double pair[2], got = now[(size_t)k * s.sites + i];
                rng_normal_pair(stream, stream.draw + (uint32_t)k, (uint32_t)(i / 2), pair);
                assert_near(got, pair[i % 2], 8 * DBL_EPSILON * fabs(pair[i % 2]));
            }
        backend->normals(rows_part(middle(&s), 0, 0), stream);
        sample_free(&s);
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

static void check_dots(const struct sample *a, const struct sample *b) {
    double *C = numbers((size_t)(a->count * b->count), NAN);
    long double bound;
    backend->dots(middle(a), middle(b), C);
    for (int k = 0; k < a->count; k++)
        for (int l = 0; l < b->count; l++) {
            long double want = average(a->x + (size_t)k * a->sites, b->x + (size_t)l * a->sites,
                                       a->sites, &bound);
            assert_near(C[k * b->count + l], want, bound);
        }
    free(C);
}

static void test_dots(void **state) {
    (void)state;
    static const int counts[][2] = {{0, 3}, {3, 0}, {1, 1}, {3, 70}, {33, 3}, {70, 1}, {33, 33}};
    for (struct shape shape = {0}; next_shape(&shape);)
        for (size_t n = 0; n < LENGTH(counts); n++) {
            struct sample a, b;
            sample_init(&a, shape, counts[n][0]);
            sample_init(&b, shape, counts[n][1]);
            check_dots(&a, &b);
            if (a.count == 3)
                check_dots(&a, &a);
            sample_free(&a);
            sample_free(&b);
        }
}

/* Factor b: none, one row, as many rows, or a itself. */
static void check_averages(const struct sample *a, const struct sample *b) {
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

static void test_averages(void **state) {
    (void)state;
    for (struct shape shape = {0}; next_shape(&shape);)
        for (size_t n = 0; n < LENGTH(row_counts); n++) {
            struct sample a, b, one;
            sample_init(&a, shape, row_counts[n]);
            sample_init(&b, shape, row_counts[n]);
            sample_init(&one, shape, 1);
            check_averages(&a, NULL);
            check_averages(&a, &one);
            check_averages(&a, &b);
            check_averages(&a, &a);
            sample_free(&a);
            sample_free(&b);
            sample_free(&one);
        }
}

static void check_combine(struct shape shape, int count, int terms, double beta) {
    struct sample y, a;
    sample_init(&y, shape, count);
    sample_init(&a, shape, terms);
    double *C = numbers((size_t)(count * terms), 0);
    for (int i = 0; i < count * terms; i++)
        C[i] = uniform();
    for (size_t i = 0; i < (size_t)count * y.sites && beta == 0; i++)
        y.x[i] = NAN;
    put_all(&y);
    backend->combine(middle(&y), beta, terms ? C : NULL, terms ? middle(&a) : none);
    const double *now = fetch(&y);
    for (int k = 0; k < count; k++)
        for (size_t i = 0; i < y.sites; i++) {
            size_t here = (size_t)k * y.sites + i;
            long double sum = beta == 0 ? 0 : (long double)beta * y.x[here], size = fabsl(sum);
            for (int l = 0; l < terms; l++) {
                long double term = (long double)C[k * terms + l] * a.x[(size_t)l * a.sites + i];
                sum += term;
                size += fabsl(term);
            }
            assert_near(now[here], sum, (terms + 4) * DBL_EPSILON * size);
        }
    free(C);
    sample_free(&y);
    sample_free(&a);
}

static void test_combine(void **state) {
    (void)state;
    static const int counts[][2] = {{0, 3}, {1, 1}, {3, 70}, {33, 3}, {70, 1}, {33, 33}};
    static const double betas[] = {0, 1, 0.5};
    for (struct shape shape = {0}; next_shape(&shape);)
        for (size_t n = 0; n < LENGTH(counts); n++) {
            size_t turn = ((size_t)shape.next + n) % LENGTH(betas);
            check_combine(shape, counts[n][0], counts[n][1], betas[turn]);
            check_combine(shape, counts[n][0] % 4, 0, betas[turn]);
        }
    struct shape shape = {257, 3, 0};
    for (size_t i = 0; i < LENGTH(betas); i++) {
        check_combine(shape, 70, 33, betas[i]);
        check_combine(shape, 3, 0, betas[i]);
    }
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

static void check_pointwise(enum fn fn, struct shape shape, int count, bool scaled, bool shifted) {
    struct sample x, v, d;
    double scale[70], shift[70];
    for (int k = 0; k < count; k++) {
        scale[k] = scaled ? 3 * uniform() : 1;
        shift[k] = shifted ? uniform() : 0;
    }
    sample_init(&x, shape, count);
    sample_init(&v, shape, count);
    sample_init(&d, shape, count);
    const double *a = scaled ? scale : NULL, *b = shifted ? shift : NULL;
    backend->pointwise(fn, a, b, middle(&x), middle(&v), middle(&d));
    const double *value = fetch(&v), *slope = fetch(&d);
    for (int k = 0; k < count; k++)
        for (size_t i = (size_t)k * x.sites; i < ((size_t)k + 1) * x.sites; i++)
            check_function(fn, scale[k] * x.x[i] + shift[k],
                           fabs(scale[k] * x.x[i]) + fabs(shift[k]), value[i], slope[i]);
    size_t bytes = (size_t)count * x.sites * sizeof *value;
    for (int way = 0; way < 6; way++) { /* a part of the results, or in place: the same bits */
        struct sample s;
        sample_init(&s, shape, count);
        put_all(&x);
        struct rows in = middle(&x), other = middle(&s);
        backend->pointwise(fn, a, b, in, way % 3 == 0 ? in : way % 3 == 1 ? other : none,
                           way == 1 || way == 3 ? none : way % 3 == 0 ? other : in);
        if (way % 3 < 2)
            assert_memory_equal(fetch(way % 3 ? &s : &x), value, bytes);
        if (way != 1 && way != 3)
            assert_memory_equal(fetch(way % 3 ? &x : &s), slope, bytes);
        sample_free(&s);
    }
    sample_free(&x);
    sample_free(&v);
    sample_free(&d);
}

static void test_pointwise(void **state) {
    (void)state;
    for (struct shape shape = {0}; next_shape(&shape);)
        for (size_t n = 0; n < LENGTH(row_counts); n++)
            if (row_counts[n] < 33 || shape.groups == 257) {
                size_t turn = (size_t)shape.next + n;
                check_pointwise(functions[turn % LENGTH(functions)], shape, row_counts[n],
                                turn / 8 % 2, turn / 16 % 2);
            }
    for (size_t n = 0; n < 4 * LENGTH(functions); n++)
        check_pointwise(functions[n / 4], (struct shape){257, 2, 0}, 3, n % 2, n / 2 % 2);
}

/* A factor of any shape: over the sites or over the groups, one row or `count`. */
static double factor_at(const struct sample *a, int k, size_t site, int group) {
    size_t line = a->count == 1 ? 0 : (size_t)k;
    return a->x[line * a->sites + (a->array.group == group ? site : site / (size_t)group)];
}

static void check_multiply(struct sample *a, struct sample *b, struct sample *y) {
    double *want = numbers((size_t)y->count * y->sites, 0);
    for (int k = 0; k < y->count; k++)
        for (size_t i = 0; i < y->sites; i++)
            want[(size_t)k * y->sites + i] =
                factor_at(a, k, i, y->array.group) * factor_at(b, k, i, y->array.group);
    rows_multiply(middle(a), middle(b), middle(y));
    assert_memory_equal(fetch(y), want, (size_t)y->count * y->sites * sizeof *want);
    put_all(y);
    free(want);
}

static void test_multiply(void **state) {
    (void)state;
    for (struct shape shape = {0}; next_shape(&shape);)
        for (size_t n = 0; n < LENGTH(row_counts); n++) {
            int count = row_counts[n];
            struct shape coarse = {shape.groups, 1, 0};
            struct sample s[5];
            for (int i = 0; i < 4; i++)
                sample_init(s + i, i % 2 ? coarse : shape, i / 2 ? 1 : count);
            sample_init(s + 4, shape, count);
            for (int i = 0; i < (count > 3 ? 0 : 16); i++)
                check_multiply(s + i % 4, s + i / 4, s + 4);
            for (int i = 0; i < 4; i++) { /* in place */
                check_multiply(s, s + i, s);
                check_multiply(s + i, s, s);
            }
            for (int i = 0; i < 5; i++)
                sample_free(s + i);
        }
}

static void test_group_sum(void **state) {
    (void)state;
    for (struct shape shape = {0}; next_shape(&shape);)
        for (size_t n = 0; n < LENGTH(row_counts); n++) {
            struct sample x, y;
            sample_init(&x, shape, row_counts[n]);
            sample_init(&y, (struct shape){shape.groups, 1, 0}, row_counts[n]);
            backend->group_sum(middle(&x), middle(&y));
            const double *now = fetch(&y);
            for (size_t i = 0; i < (size_t)y.count * y.sites; i++) {
                long double sum = 0, size = 0;
                for (size_t j = 0; j < (size_t)shape.group; j++) {
                    sum += x.x[i * (size_t)shape.group + j];
                    size += fabs(x.x[i * (size_t)shape.group + j]);
                }
                assert_near(now[i], sum, (shape.group + 4) * DBL_EPSILON * size);
            }
            sample_free(&x);
            sample_free(&y);
        }
}
