/* Every operation of every backend against plain loops over host copies.
 *
 * The loops run in extended precision, so what is left is the backend's own round-off. With the
 * unit round-off u = eps()/2, a sum of n rounded products in any order, fused or not, is within
 * n u/(1 - n u) times the sum of their absolute values; a scale and an addition to an old value are
 * a few roundings more. Hence the bound (n + 4) eps() sum |terms| below, a factor of two above. */
#define _DEFAULT_SOURCE
#include "tests/support/sample.h"

#include <omp.h>

static const int shape_group[] = {1, 2, 3, 17};

/* A check of one operation; `turn` varies the rest. */
typedef void check(struct shape shape, int count);
static size_t turn;

static void over_shapes(void **state) {
    static const int counts[] = {0, 1, 3, 33, 70};
    check *const *one = *state;
    bool half = backend->bytes == sizeof(float) || backend == &backend_shadow; /* as cpu */
    for (size_t i = turn = 0; i < LENGTH(shape_groups); i++)
        for (size_t j = 0; j < LENGTH(shape_group); j++)
            for (size_t k = 0; k < LENGTH(counts); k++, turn++) {
                size_t groups = shape_groups[i];
                if ((half && (i + j + k) % 2) ||
                    (groups != 257 && (shape_group[j] > 3 || (counts[k] > 3 && groups > 257))))
                    continue; /* for speed */
                (*one)((struct shape){groups, shape_group[j]}, counts[k]);
                release();
            }
}

static void assert_same(struct sample *s, const double *want) {
    assert_memory_equal(fetch(s), want, s->values * sizeof *want);
}

SAMPLES_TEST(test_names) {
    char names[256] = "";
    for (int i = 0; backend_list[i]; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "",
                 backend_list[i]->name);
    assert_string_equal(names, BACKEND_NAMES);
    ASK(backend->sync(&err));
}

static void check_put_and_get(struct shape shape, int count) {
    struct sample *s = sample(shape, count);
    assert_same(s, s->x);
    assert_true(array_width(&s->array) % 8 == 0 && array_bytes(&s->array, 3) % 64 == 0);
    assert_true(array_bytes(&s->array, 3) >= 3 * s->sites * backend->bytes);
    int part = count / 3;
    double *start = s->x + (size_t)part * s->sites;
    for (size_t i = 0; i < (size_t)part * s->sites; i++)
        start[i] = rounded(uniform());
    backend->put(rows_part(middle(s), part, part), start);
    assert_same(s, s->x);
}

/* Same generator, other libm: a few units in the last place. */
static void check_normals(struct shape shape, int count) {
    struct rng_stream stream = {0x123456789abcdefULL, 3, 128, 7, PURPOSE_MATRIX, (uint32_t)turn,
                                (int)(turn % 3) - 1,  0};
    struct sample *s = sample(shape, count);
    backend->normals(middle(s), stream);
    const double *now = fetch(s);
    for (size_t i = 0; i < s->values; i++) {
        uint32_t k = (uint32_t)(i / s->sites), site = (uint32_t)(i % s->sites);
        double pair[2];
        rng_normal_pair(stream, stream.draw + k, site / 2, pair);
        assert_near(now[i], pair[site % 2], 8 * eps() * fabs(pair[site % 2]));
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
    *bound = (long double)(sites + 4) * eps() * size / (long double)sites;
    return sum / (long double)sites;
}

static void dots_of(const struct sample *a, const struct sample *b) {
    FREED(base_free) double *C = numbers((size_t)(a->count * b->count), NAN);
    long double bound;
    backend->dots(middle(a), middle(b), C);
    for (int k = 0; k < a->count; k++)
        for (int l = 0; l < b->count; l++) {
            long double want =
                average(a->x + (size_t)k * a->sites, b->x + (size_t)l * a->sites, a->sites, &bound);
            assert_near(C[k * b->count + l], want, bound);
        }
}

static void check_dots(struct shape shape, int count) {
    struct sample *a = sample(shape, count);
    dots_of(a, sample(shape, 73 - count));
    dots_of(a, sample(shape, 0));
    dots_of(a, a);
}

/* Factor b: none, one row, as many rows, or a itself. */
static void averages_of(const struct sample *a, const struct sample *b) {
    FREED(base_free) double *out = numbers((size_t)a->count, NAN);
    long double bound;
    backend->averages(middle(a), b ? middle(b) : none, out);
    for (int k = 0; k < a->count; k++) {
        size_t line = b && b->count == 1 ? 0 : (size_t)k;
        long double want = average(a->x + (size_t)k * a->sites, b ? b->x + line * a->sites : NULL,
                                   a->sites, &bound);
        assert_near(out[k], want, bound);
    }
}

static void check_averages(struct shape shape, int count) {
    struct sample *a = sample(shape, count);
    averages_of(a, NULL);
    averages_of(a, sample(shape, 1));
    averages_of(a, sample(shape, count));
    averages_of(a, a);
}

/* One coefficient of `each` is not 0. */
static void combine_of(struct shape shape, int count, int terms, double beta, int each) {
    struct sample *y = sample(shape, count), *a = sample(shape, terms);
    FREED(base_free) double *C = numbers((size_t)(count * terms), 0);
    for (int i = 0; i < count * terms; i += each)
        C[i] = uniform();
    for (size_t i = 0; i < y->values && beta == 0; i++)
        y->x[i] = NAN;
    put_all(y);
    backend->combine(middle(y), beta, terms ? C : NULL, terms ? middle(a) : none);
    const double *now = fetch(y);
    for (size_t i = 0; i < y->values; i++) {
        const double *c = C + i / y->sites * (size_t)terms;
        long double sum = beta == 0 ? 0 : (long double)beta * y->x[i], size = fabsl(sum);
        for (size_t l = 0; l < (size_t)terms; l++) {
            long double term = (long double)c[l] * a->x[l * a->sites + i % y->sites];
            sum += term;
            size += fabsl(term);
        }
        assert_near(now[i], sum, (terms + 4) * eps() * size);
    }
}

static void check_combine(struct shape shape, int count) {
    static const double betas[] = {0, 1, 0.5};
    combine_of(shape, count, 0, betas[turn % 3], 1);
    combine_of(shape, count, 1, betas[turn % 3], 1);
    combine_of(shape, count, 73 - count, betas[turn % 3], 1);
    combine_of(shape, count, 73 - count, betas[turn % 3], 47); /* some rows have none */
}

/* The functions have their own test; here u = scale x + shift, and every way to ask for a part of
 * the results or to have them in place, which gives the same bits. */
static void check_pointwise(struct shape shape, int count) {
    struct sample *x = sample(shape, count), *v = sample(shape, count), *d = sample(shape, count);
    double a[70], b[70];
    const double *scale = turn % 4 / 2 ? a : NULL, *shift = turn % 2 ? b : NULL;
    for (int k = 0; k < count; k++) {
        a[k] = scale ? 3 * uniform() : 1;
        b[k] = shift ? uniform() : 0;
    }
    backend->pointwise(FN_TANH, scale, shift, middle(x), middle(v), middle(d));
    const double *value = fetch(v), *slope = fetch(d);
    for (size_t i = 0; i < x->values; i++) { /* u is good to eps |scale x| + eps |shift| */
        long double t = tanhl((long double)a[i / x->sites] * x->x[i] + b[i / x->sites]);
        assert_near(value[i], t, 16 * eps());
        assert_near(slope[i], 1 - t * t, 16 * eps());
    }
    struct sample *y = sample(shape, count),
                  *ways[][2] = {{x, NULL}, {NULL, x}, {x, y}, {y, x}, {y, NULL}, {NULL, y}};
    for (size_t i = 0; i < LENGTH(ways); i++) {
        struct sample *to = ways[i][0], *rise = ways[i][1];
        if (count > 3 && i != turn % LENGTH(ways))
            continue; /* for speed */
        put_all(x);
        backend->pointwise(FN_TANH, scale, shift, middle(x), to ? middle(to) : none,
                           rise ? middle(rise) : none);
        if (to)
            assert_same(to, value);
        if (rise)
            assert_same(rise, slope);
    }
}

/* A factor of any shape: over the sites or over the groups, one row or `count`. */
static double factor_at(const struct sample *a, size_t k, size_t site, int group) {
    size_t line = a->count == 1 ? 0 : k;
    return a->x[line * a->sites + (a->array.group == group ? site : site / (size_t)group)];
}

static void multiply_of(const struct sample *a, const struct sample *b, struct sample *y) {
    FREED(base_free) double *want = numbers(y->values, 0);
    for (size_t i = 0; i < y->values; i++)
        want[i] = rounded(factor_at(a, i / y->sites, i % y->sites, y->array.group) *
                          factor_at(b, i / y->sites, i % y->sites, y->array.group));
    rows_multiply(middle(a), middle(b), middle(y));
    assert_same(y, want);
    put_all(y);
}

static void check_multiply(struct shape shape, int count) {
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

static void group_sum_of(struct shape shape, int count) {
    struct sample *x = sample(shape, count), *y = sample((struct shape){shape.groups, 1}, count);
    backend->group_sum(middle(x), middle(y));
    const double *now = fetch(y), *in = x->x;
    for (size_t i = 0; i < y->values; i++) {
        long double sum = 0, size = 0;
        for (int j = 0; j < shape.group; j++, in++) {
            sum += *in;
            size += fabs(*in);
        }
        assert_near(now[i], sum, (shape.group + 4) * eps() * size);
    }
}

/* Also groups that are too large for one thread of a device. */
static void check_group_sum(struct shape shape, int count) {
    group_sum_of(shape, count);
    if (shape.group == 17)
        group_sum_of((struct shape){7, 1001}, count);
}

static const double *ranked;

/* Larger ones come first, NaN before all, and of equal ones those of the lower site. */
static int by_rank(const void *one, const void *other) {
    size_t i = *(const size_t *)one, j = *(const size_t *)other;
    double a = ranked[i], b = ranked[j];
    return (isnan(b) && isnan(a)) || a == b ? (i < j ? -1 : 1) : isnan(a) || a > b ? -1 : 1;
}

static void top_of(struct sample *x, struct sample *mask) {
    size_t sites = x->sites, Ks[] = {0, 1, 2, sites / 2, sites - 1, sites};
    FREED(base_free)
    size_t *rank = malloc(x->values * sizeof *rank), *order = malloc(x->values * sizeof *order);
    assert_true(rank && order);
    ranked = x->x;
    for (size_t i = 0; i < x->values; i++)
        order[i] = i;
    for (size_t i = 0; i < x->values; i++) {
        if (i % sites == 0)
            qsort(order + i, sites, sizeof *order, by_rank);
        rank[order[i]] = i % sites;
    }
    for (size_t n = 0; n < LENGTH(Ks); n++) {
        size_t K = Ks[n] > sites ? sites : Ks[n];
        backend->top(middle(x), K, middle(mask));
        const double *now = fetch(mask);
        for (size_t i = 0; i < x->values; i++)
            FAIL_IF(now[i] != (rank[i] < K), "%s: site %zu of rank %zu, K = %zu: %g", backend->name,
                    i % sites, rank[i], K, now[i]);
    }
}

/* All equal; many ties (also of 0 and -0); negative values; and last, where a search ends by
 * counting up to the last key, random values, some of them NaN of either sign. */
static void check_top(struct shape shape, int count) {
    if (count != 3 || (shape.groups > 257 && shape.group > 1))
        return; /* for speed */
    struct sample *x = sample(shape, 4), *mask = sample(shape, 4);
    for (size_t i = 0; i < x->sites; i++) {
        x->x[i] = -7;
        x->x[x->sites + i] = trunc(2.5 * x->x[x->sites + i]);
        x->x[2 * x->sites + i] = rounded(-1e-3 - fabs(x->x[2 * x->sites + i]));
        if (i % 7 == 3)
            x->x[3 * x->sites + i] = i % 2 ? NAN : -NAN;
    }
    put_all(x);
    top_of(x, mask);
}

static void check_rows_helpers(struct shape shape, int count) {
    struct sample *x = sample(shape, count), *y = sample(shape, count);
    double c[70];
    for (int k = 0; k < count; k++)
        c[k] = ldexp(1, k % 5 - 2); /* exact */
    rows_add(NULL, middle(x), middle(y));
    rows_scale(-0.5, middle(y));
    rows_add(c, middle(x), middle(y));
    for (size_t i = 0; i < y->values; i++)
        y->x[i] = rounded(-0.5 * rounded(y->x[i] + x->x[i]) + c[i / y->sites] * x->x[i]);
    assert_same(y, y->x);
    rows_copy(middle(x), middle(y));
    assert_same(y, x->x);
    rows_zero(middle(y));
    for (size_t i = 0; i < y->values; i++)
        y->x[i] = 0;
    assert_same(y, y->x);
}

/* Rows appended one by one keep their values; the capacity grows by a share, beyond 16 MB by more.
 */
static void check_append(struct shape shape, int count) {
    if (count != 70)
        return;
    struct sample *x = sample(shape, 70);
    FREED(array_free) struct array array;
    int moves = 0, most = x->values * backend->bytes < 16 << 20 ? 120 : 8 * 120;
    ASK(array_init(&array, backend, x->sites, shape.group, 0, &err));
    for (int k = 0; k < 70; k++) {
        struct rows added;
        int capacity = array.capacity;
        ASK(array_append(&array, 1, &added, &err));
        assert_true(added.array == &array && added.first == k && added.count == 1);
        moves += array.capacity != capacity;
        backend->put(added, x->x + (size_t)k * x->sites);
    }
    assert_true(array.rows == 70 && array.capacity < most && moves < 14);
    ASK(array_reserve(&array, 70, &err));
    ASK(backend->resize(&array, 200, &err));
    assert_true(array.rows == 70 && array.capacity >= 200 && array.capacity <= 200 * 8);
    backend->get(array_all(&array), x->now);
    assert_memory_equal(x->now, x->x, x->values * sizeof *x->x);
    array_free(&array);
    assert_null(array.memory);
}

/* Eight petabytes cannot be had; what was there stays. */
SAMPLES_TEST(test_out_of_memory) {
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    struct array array;
    assert_int_equal(array_init(&array, backend, 1 << 30, 1, 1 << 20, &err), CODE_SYSTEM);
    assert_non_null(strstr(err.text, "out of memory: 1048576 rows over 1073741824 sites"));
    array_free(&array);
    struct sample *s = sample((struct shape){2048, 1}, 3);
    assert_int_equal(backend->resize(&s->array, INT_MAX, &err), CODE_SYSTEM);
    assert_same(s, s->x);
}

/* Rows as long as pages, of one block and of several, are padded, and what is found is the same. */
SAMPLES_TEST(test_rows_of_pages) {
    static const struct shape shapes[] = {{1024, 1}, {1024, 4}, {6 * BACKEND_BLOCK, 2}};
    static check *const checks[] = {check_put_and_get, check_dots, check_combine, check_pointwise,
                                    check_append};
    for (size_t n = 0; n < LENGTH(shapes); n++) {
        struct sample *s = sample(shapes[n], 3);
        assert_int_not_equal(array_width(&s->array) * backend->bytes % 4096, 0);
        for (size_t k = 0; k < LENGTH(checks); k++) {
            checks[k](shapes[n], 6);
            release();
        }
    }
}

/* More blocks than parts, more rows than one task and than one tile of results take; a few rows on
 * one side, and many on both. */
static void test_products_in_parts(void **state UNUSED) {
    static const struct shape shape = {65 * BACKEND_BLOCK + 3, 1};
    static const int counts[][2] = {{140, 12}, {12, 140}, {140, 70}, {2, 3}};
    for (size_t n = 0; n < LENGTH(counts); n++) {
        int rows = counts[n][0], columns = counts[n][1];
        double *first = numbers((size_t)(rows * columns), 0), *other = numbers(140 * 70, 0);
        for (int way = 0; way < 4; way++) {
            backend = way == 3 ? &backend_shadow : &backend_cpu;
            omp_set_num_threads(1 + way % 3);
            random_state = 77;
            struct sample *a = sample(shape, rows), *b = sample(shape, columns);
            if (way == 0)
                dots_of(a, b);
            backend->dots(middle(a), middle(b), way ? other : first);
            if (way)
                assert_memory_equal(other, first, (size_t)(rows * columns) * sizeof *other);
            release();
        }
        free(first), free(other);
    }
}

/* Without memory for 128 MB, which malloc asks the system for, an operation leaves NaN, sync()
 * tells once, and then all is well. */
static void test_no_memory_within_an_operation(void **state UNUSED) {
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    enum { UNITS = 16 << 20 };
    struct array x, y;
    struct rlimit before;
    double mean;
    backend = &backend_cpu;
    omp_set_num_threads(1);
    ASK(array_init(&x, backend, UNITS, 1, 1, &err));
    ASK(array_init(&y, backend, UNITS, UNITS, 1, &err));
    rows_zero(array_all(&x));
    getrlimit(RLIMIT_AS, &before);
    setrlimit(RLIMIT_AS, &(struct rlimit){1, before.rlim_max});
    backend->tile(array_all(&x), array_all(&y));
    setrlimit(RLIMIT_AS, &before);
    backend->averages(array_all(&y), none, &mean);
    assert_true(isnan(mean));
    assert_int_equal(backend->sync(&err), CODE_SYSTEM);
    assert_non_null(strstr(err.text, "out of memory: 16777216 numbers of one operation"));
    assert_int_equal(backend->sync(&err), CODE_OK);
    backend->tile(array_all(&x), array_all(&y));
    backend->averages(array_all(&y), none, &mean);
    assert_true(mean == 0);
    array_free(&x), array_free(&y);
}

static const STRUCT(const char *name; check * check) operations[] = LIST(
    {"test_put_and_get", check_put_and_get}, {"test_normals", check_normals},
    {"test_dots", check_dots}, {"test_averages", check_averages}, {"test_combine", check_combine},
    {"test_pointwise", check_pointwise}, {"test_multiply", check_multiply},
    {"test_group_sum", check_group_sum}, {"test_top", check_top},
    {"test_rows_helpers", check_rows_helpers}, {"test_append", check_append});

__attribute__((constructor)) static void operations_are_tests(void) {
    for (size_t i = 0; i < LENGTH(operations); i++)
        test_add(__LINE__, (struct CMUnitTest){operations[i].name, over_shapes, NULL, teardown,
                                               (void *)&operations[i].check});
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest comparisons[] = {
        cmocka_unit_test_teardown(test_products_in_parts, teardown),
        cmocka_unit_test_teardown(test_no_memory_within_an_operation, teardown)};
    int failed = on_backends(&backend, 0, true, only);
    return only ? failed : failed + cmocka_run_group_tests_name("both", comparisons, NULL, NULL);
}
