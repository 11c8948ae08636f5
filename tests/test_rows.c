/* Products whose coefficients or results are rows, rows_combine, rows_times and rows_low_rank, on
 * every backend against plain loops over host copies in extended precision. Bounds are those of
 * test_backend.c, with one or two roundings more for a coefficient; and the same bits for any
 * number of threads. */
#define _DEFAULT_SOURCE
#include "tests/support/sample.h"

#include <omp.h>

/* Few rows, and many: in pieces, over several blocks; the last three are a few rows through a small
 * matrix, of which both, neither or the results alone lie in one block. */
static const STRUCT(struct shape over; int rows, terms) cases[] = {
    {{7, 1}, 0, 3},    {{7, 1}, 3, 0},    {{7, 3}, 1, 1},      {{257, 1}, 5, 300},
    {{257, 2}, 70, 1}, {{64, 1}, 40, 40}, {{300, 1}, 300, 35}, {{31, 1}, 600, 290},
    {{64, 1}, 4, 64},  {{64, 1}, 3, 290}, {{300, 1}, 2, 35}};

static struct sample *column(int sites, int rows) {
    return sample((struct shape){(size_t)sites, 1}, rows);
}

/* y = beta y + C a against the coefficients C [y][a]. */
static void judge(struct sample *y, const struct sample *a, double beta, const double *C) {
    const double *now = fetch(y);
    size_t terms = (size_t)a->count;
    for (size_t i = 0; i < y->values; i++) {
        long double sum = beta == 0 ? 0 : (long double)beta * y->x[i], size = fabsl(sum);
        for (size_t l = 0; l < terms; l++) {
            long double term =
                (long double)C[i / y->sites * terms + l] * a->x[l * a->sites + i % y->sites];
            sum += term;
            size += fabsl(term);
        }
        assert_near(now[i], sum, (long double)(terms + 6) * eps() * size);
    }
}

static void combine_of(struct shape over, int rows, int terms, double beta) {
    struct sample *y = sample(over, rows), *a = sample(over, terms), *R = column(terms, rows);
    double *C = numbers((size_t)(rows * terms), 0);
    for (int i = 0; i < rows * terms; i++)
        C[i] = 0.3 * R->x[i];
    ASK(rows_combine(middle(y), beta, (struct coefficients){.rows = middle(R), .scale = 0.3},
                     middle(a), &err));
    judge(y, a, beta, C);
    free(C);
    release();
}

/* Row l of `of` rows, at sites from `first` on, times c[l], all c equal or not; one row: for all
 * l. */
static void turned_of(struct shape over, int rows, int terms, int of, int first, bool equal) {
    int sites = first + rows + 1;
    struct sample *y = sample(over, rows), *a = sample(over, terms), *R = column(sites, of);
    double *C = numbers((size_t)(rows * terms), 0), *c = numbers((size_t)terms, 0);
    for (int l = 0; l < terms; l++) {
        c[l] = equal && l ? c[0] : uniform();
        for (int k = 0; k < rows; k++)
            C[k * terms + l] = -0.7 * c[l] * R->x[(of == 1 ? 0 : l) * sites + first + k];
    }
    struct coefficients by_rows = {middle(R), -0.7, true, c, first};
    FREED(base_free) double *host;
    ASK(rows_coefficients(by_rows, rows, terms, &host, &err));
    for (int i = 0; i < rows * terms; i++)
        assert_near(host[i], C[i], 2 * DBL_EPSILON * fabs(C[i]));
    ASK(rows_combine(middle(y), 1, by_rows, middle(a), &err));
    judge(y, a, 1, C);
    free(C);
    free(c);
    release();
}

SAMPLES_TEST(test_combine) {
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct shape over = cases[i].over;
        int rows = cases[i].rows, terms = cases[i].terms;
        if (terms)
            combine_of(over, rows, terms, (double)(i % 3) / 2);
        turned_of(over, rows, terms, terms, 16 * (int)(i % 2), false);
        turned_of(over, rows, terms, terms, 16, true);
        turned_of(over, rows, terms, 1, 0, true);
    }
}

SAMPLES_TEST(test_times) {
    for (size_t i = 0; i < LENGTH(cases); i++) {
        int rows = cases[i].rows, sites = cases[i].terms;
        if (!sites)
            continue;
        struct sample *W = sample(cases[i].over, sites), *x = sample(cases[i].over, rows),
                      *y = column(sites, rows);
        ASK(rows_times(1.7, middle(W), middle(x), middle(y), &err));
        const double *now = fetch(y);
        for (size_t j = 0; j < y->values; j++) {
            const double *w = W->x + j % y->sites * W->sites, *u = x->x + j / y->sites * x->sites;
            long double sum = 0, size = 0;
            for (size_t l = 0; l < x->sites; l++) {
                sum += (long double)w[l] * u[l];
                size += fabsl((long double)w[l] * u[l]);
            }
            long double scale = 1.7L / (long double)x->sites;
            assert_near(now[j], scale * sum, (long double)(x->sites + 6) * eps() * scale * size);
        }
        release();
    }
}

/* By way of the host, as where ranks share the sites. */
SAMPLES_TEST(test_through_the_host) {
    static struct backend shared;
    const struct backend *whole = backend;
    if (!whole->can_split)
        return;
    shared = *whole;
    shared.split = true;
    backend = &shared;
    test_times(state);
    backend = whole;
}

/* Both products, of the same random input. */
static double *results(size_t *size) {
    random_state = 77;
    struct shape over = {300, 1};
    struct sample *W = sample(over, 600), *x = sample(over, 300), *y = column(600, 300);
    *size = y->values + x->values + W->values;
    double *out = numbers(*size, 0), *c = numbers(300, 0.5);
    ASK(rows_times(1, middle(W), middle(x), middle(y), &err));
    memcpy(out, fetch(y), y->values * sizeof *out);
    struct coefficients C = {middle(y), 1, true, c, 0};
    ASK(rows_combine(middle(W), 1, C, middle(x), &err));
    memcpy(out + y->values, fetch(W), W->values * sizeof *out);
    C.turned = false;
    ASK(rows_combine(middle(x), 0, C, middle(W), &err));
    memcpy(out + y->values + W->values, fetch(x), x->values * sizeof *out);
    free(c);
    release();
    return out;
}

/* Rows are combined by the products that come to the host, which they do when a hold ends. */
static void low_rank_of(struct shape over, int rows, int terms) {
    struct sample *y = sample(over, rows), *b = sample(over, terms), *a = sample(over, terms);
    double *C = numbers((size_t)(rows * terms), NAN);
    backend_hold(backend, true);
    rows_low_rank(middle(y), 1, -0.5, middle(y), middle(b), middle(a), C, true);
    backend_hold(backend, false);
    for (int i = 0; i < rows * terms; i++) {
        const double *u = y->x + (size_t)(i / terms) * y->sites,
                     *v = b->x + (size_t)(i % terms) * y->sites;
        long double sum = 0, size = 0;
        for (size_t j = 0; j < y->sites; j++) {
            sum += (long double)u[j] * v[j];
            size += fabsl((long double)u[j] * v[j]);
        }
        size /= (long double)y->sites;
        assert_near(C[i], -0.5L * sum / (long double)y->sites,
                    (long double)(y->sites + 5) * eps() * size);
    }
    judge(y, a, 1, C);
    free(C);
    release();
}

SAMPLES_TEST(test_low_rank) {
    for (size_t i = 0; i < LENGTH(cases); i++)
        low_rank_of(cases[i].over, cases[i].rows, cases[i].terms);
}

/* More rows than travel with a launch, some of them twice. */
SAMPLES_TEST(test_take) {
    enum { ROWS = 70 };
    struct sample *x = sample(cases[5].over, 23), *out = sample(cases[5].over, ROWS);
    int which[ROWS];
    for (int k = 0; k < ROWS; k++)
        which[k] = k * k % 23;
    rows_take(middle(x), which, middle(out));
    const double *now = fetch(out);
    for (int k = 0; k < ROWS; k++)
        assert_memory_equal(now + (size_t)k * x->sites, x->x + (size_t)which[k] * x->sites,
                            x->sites * sizeof *now);
}

/* Operations that follow each other on few rows, in a random order: copies, means of two rows,
 * products with rows over the groups, sums over groups and over sites that come late, each beside
 * the same on host copies. A device may delay them and join them, but must keep what each one
 * reads. All numbers stay below 1, so that round-off stays that of so many operations. */
enum { FINE = 8, COARSE = 4, GROUP = 4, OPERATIONS = 60, LATE = 2 * OPERATIONS };

struct in_order {
    struct sample *fine, *coarse;
    double late[LATE], expected[LATE];
    int lates;
};

static int some(int most) {
    return (int)(fabs(uniform()) * most) % most;
}

static struct rows fine_rows(const struct in_order *all, int first, int count) {
    return rows_part(middle(all->fine), first, count);
}

/* y = (y + sign x)/2, rows of the fine sites. */
static void mean_in_order(struct in_order *all, int x, int y, double sign) {
    size_t sites = all->fine->sites;
    double c[2] = {0.5 * sign, 0.5 * sign}, *values = all->fine->x;
    rows_scale(0.5, fine_rows(all, y, 2));
    rows_add(c, fine_rows(all, x, 2), fine_rows(all, y, 2));
    for (size_t i = 0; i < 2 * sites; i++)
        values[(size_t)y * sites + i] =
            0.5 * values[(size_t)y * sites + i] + c[0] * values[(size_t)x * sites + i];
}

/* Fine rows times a coarse one; or a coarse row becomes the mean over groups of a fine one. */
static void groups_in_order(struct in_order *all, int fine, int coarse, bool sum) {
    struct rows one = rows_part(middle(all->coarse), coarse, 1);
    double *x = all->fine->x + (size_t)fine * all->fine->sites,
           *y = all->coarse->x + (size_t)coarse * all->coarse->sites;
    if (!sum)
        rows_multiply(fine_rows(all, fine, 2), one, fine_rows(all, fine, 2));
    for (size_t i = 0; i < 2 * all->fine->sites && !sum; i++)
        x[i] *= y[i % all->fine->sites / GROUP];
    if (!sum)
        return;
    backend->group_sum(fine_rows(all, fine, 1), one);
    rows_scale(1.0 / GROUP, one);
    for (size_t i = 0; i < all->coarse->sites; i++)
        y[i] = (x[4 * i] + x[4 * i + 1] + x[4 * i + 2] + x[4 * i + 3]) / GROUP;
}

static void sums_in_order(struct in_order *all, int a, int b) {
    size_t sites = all->fine->sites;
    backend->dots(fine_rows(all, a, 1), fine_rows(all, b, 2), all->late + all->lates);
    for (int l = 0; l < 2; l++, all->lates++) {
        all->expected[all->lates] = 0;
        for (size_t i = 0; i < sites; i++)
            all->expected[all->lates] += all->fine->x[(size_t)a * sites + i] *
                                         all->fine->x[(size_t)(b + l) * sites + i] / (double)sites;
    }
}

static void one_in_order(struct in_order *all) {
    int x = 2 * some(FINE / 2), y = (x + 2 + some(FINE - 3)) % (FINE - 1);
    size_t line = all->fine->sites;
    if (y + 1 == x || y == x || y == x + 1)
        return;
    switch (some(5)) {
    case 0:
        rows_copy(fine_rows(all, x, 2), fine_rows(all, y, 2));
        memcpy(all->fine->x + (size_t)y * line, all->fine->x + (size_t)x * line,
               2 * line * sizeof *all->fine->x);
        break;
    case 1:
        mean_in_order(all, x, y, uniform() < 0 ? -1 : 1);
        break;
    case 2:
        groups_in_order(all, x, some(COARSE), false);
        break;
    case 3:
        groups_in_order(all, y, some(COARSE), true);
        break;
    default:
        sums_in_order(all, x, y);
    }
}

SAMPLES_TEST(test_order) {
    for (int round = 0; round < 100; round++) {
        struct in_order all = {.lates = 0};
        all.fine = sample((struct shape){37, GROUP}, FINE);
        all.coarse = sample((struct shape){37, 1}, COARSE);
        backend_hold(backend, true);
        for (int n = 0; n < OPERATIONS; n++)
            one_in_order(&all);
        backend_hold(backend, false);
        for (int n = 0; n < all.lates; n++)
            assert_near(all.late[n], all.expected[n], 10 * OPERATIONS * eps());
        const double *now = fetch(all.fine);
        for (size_t i = 0; i < all.fine->values; i++)
            assert_near(now[i], all.fine->x[i], 3 * OPERATIONS * eps());
        now = fetch(all.coarse);
        for (size_t i = 0; i < all.coarse->values; i++)
            assert_near(now[i], all.coarse->x[i], 3 * OPERATIONS * eps());
        release();
    }
}

/* As many rows as a device gives threads of their own are moved between places that coincide,
 * overlap or do not, in order or turned around: a thread may read at once what it has written in
 * its own rows alone. */
SAMPLES_TEST(test_order_of_many_rows) {
    enum { ROWS = 44, PLACES = 6 };
    static const int places[PLACES] = {0, 1, ROWS + 2, ROWS + 3, 2 * ROWS + 4, 2 * ROWS + 5};
    int turned[ROWS];
    for (int k = 0; k < ROWS; k++)
        turned[k] = ROWS - 1 - k;
    for (int round = 0; round < 20; round++) {
        struct sample *all = sample((struct shape){37, 1}, 3 * ROWS + 7);
        size_t line = all->sites;
        for (int n = 0; n < OPERATIONS; n++) {
            int x = places[some(PLACES)], y = places[some(PLACES)];
            bool turns = uniform() < 0;
            if (abs(x - y) < ROWS)
                continue;
            struct rows from = rows_part(middle(all), x, ROWS),
                        to = rows_part(middle(all), y, ROWS);
            if (turns)
                rows_take(from, turned, to);
            else
                rows_add_scaled(0.5, from, to);
            for (int k = 0; k < ROWS; k++)
                for (size_t i = 0; i < line; i++) {
                    double *out = all->x + (size_t)(y + k) * line + i;
                    const double *in = all->x + (size_t)(x + (turns ? turned[k] : k)) * line + i;
                    *out = turns ? *in : *out + 0.5 * *in;
                }
            if (!turns)
                rows_scale(0.5, to);
            for (size_t i = 0; i < ROWS * line && !turns; i++)
                all->x[(size_t)y * line + i] *= 0.5;
        }
        const double *now = fetch(all);
        for (size_t i = 0; i < all->values; i++)
            assert_near(now[i], all->x[i], 2 * OPERATIONS * eps());
        release();
    }
}

/* Numbers of a device that are still to come scale rows, and make others. */
SAMPLES_TEST(test_numbers_to_come) {
    enum { ROWS = 5 };
    const struct shape over = {300, 1};
    struct sample *x = sample(over, ROWS), *scaled = sample(over, ROWS),
                  *added = sample(over, ROWS), *one = sample(over, 1),
                  *combined = sample(over, ROWS);
    double square[ROWS], root[ROWS], product[ROWS];
    const double here[ROWS] = {0.5, -1, 3, 0.25, 2};
    if (backend_has_later(backend)) { /* no processor does */
        backend_later(backend, true);
        backend->averages(middle(x), middle(x), square);
        backend->distant->numbers(root, square, -0.5, 1, NULL, ROWS);
        backend->distant->numbers(product, root, 1, -2, here, ROWS);
        backend_later(backend, false);
        backend->pointwise(FN_LINEAR, root, NULL, middle(x), middle(scaled), (struct rows){0});
        backend->add(product, middle(x), middle(added));
        backend->combine(middle(combined), 0, product, middle(one));
        backend_arrive(backend, product, ROWS);
        const double *of_scaled = fetch(scaled), *of_added = fetch(added),
                     *of_one = fetch(combined);
        for (size_t k = 0, sites = x->sites; k < ROWS; k++) {
            long double norm2 = 0;
            for (size_t i = 0; i < sites; i++)
                norm2 += (long double)x->x[k * sites + i] * x->x[k * sites + i] / sites;
            long double r = 1 / sqrtl(norm2), p = -2 * here[k] * r,
                        small = 8 * eps() * (1 + fabsl(p));
            assert_near(square[k], norm2, (long double)sites * DBL_EPSILON * norm2);
            assert_near(root[k], r, (long double)sites * DBL_EPSILON * r);
            assert_near(product[k], p, (long double)sites * DBL_EPSILON * fabsl(p));
            for (size_t i = k * sites; i < (k + 1) * sites; i++) {
                long double most =
                    1 + fabsl((long double)x->x[i]) + fabsl((long double)one->x[i % sites]);
                assert_near(of_scaled[i], r * x->x[i], small * most);
                assert_near(of_added[i], added->x[i] + p * x->x[i], small * most);
                assert_near(of_one[i], p * one->x[i % sites], small * most);
            }
        }
    }
}

SAMPLES_TEST(test_threads) {
    size_t size;
    FREED(base_free) double *one, *more;
    omp_set_num_threads(1);
    one = results(&size);
    omp_set_num_threads(3);
    more = results(&size);
    omp_set_num_threads(1);
    assert_memory_equal(one, more, size * sizeof *one);
}

ON_EACH_PRECISION(0)
