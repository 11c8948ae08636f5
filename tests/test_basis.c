/* Orthonormal bases, on every backend.
 *
 * What a basis must be is computed by Gram-Schmidt in extended precision, repeated until nothing
 * changes. Site averages of rows with rms 1 are good to a few eps, hence ROUND_OFF for overlaps and
 * for what must vanish. ORTHONORMAL is 18 eps, tighter than what can be proven (averages over 500
 * sites in 8 lanes are wrong by 33 eps if all roundings conspire): twice the largest overlap of a
 * basis seen in these cases, 8 eps on the CPU and 3 on the emulated device. A vector made of the
 * part r that is left of a row, less parts c of vectors
 * with errors e, has the error (eps + sum c e)/r, but is orthonormal all the same. */

#include "tests/support/each_backend.h"

#define ORTHONORMAL 4e-15

static long double average(const double *a, const double *b, size_t sites) {
    long double sum = 0;
    for (size_t i = 0; i < sites; i++)
        sum += (long double)a[i] * b[i];
    return sum / (long double)sites;
}

/* max |<a_k b_l>|, less the unit matrix if a and b are the same rows */
static double overlap(struct rows a, struct rows b) {
    if (!a.count || !b.count)
        return 0;
    bool same = a.array == b.array && a.first == b.first;
    size_t sites = a.array->sites;
    FREED(base_free) double *x = values(a), *y = values(b);
    double largest = 0;
    for (int k = 0; k < a.count; k++)
        for (int l = 0; l < b.count; l++) {
            long double c = average(x + (size_t)k * sites, y + (size_t)l * sites, sites);
            largest = isnan(c) ? INFINITY : fmax(largest, (double)fabsl(c - (same && k == l)));
        }
    return largest;
}

/* The reference: vectors u with the number of their row and the error of what is compared. */
struct vectors {
    int count, row[200];
    long double error[200], *u;
};

/* Takes out the shares that v has of the first `count` vectors, and returns the rms of what is
 * left; error: the sum of these shares times the errors of the vectors, or NULL. */
static long double reduce(long double *v, const struct vectors *known, int count, size_t sites,
                          long double *error) {
    long double norm2 = 0;
    for (int k = 0; k < count; k++) {
        const long double *u = known->u + (size_t)k * sites;
        long double c = 0;
        for (size_t i = 0; i < sites; i++)
            c += u[i] * v[i];
        c /= (long double)sites;
        for (size_t i = 0; i < sites; i++)
            v[i] -= c * u[i];
        if (error)
            *error += fabsl(c) * known->error[k];
    }
    for (size_t i = 0; i < sites; i++)
        norm2 += v[i] * v[i];
    return sqrtl(norm2 / (long double)sites);
}

/* Continues `all` by rows x. */
static void reference(struct vectors *all, const double *x, int n, size_t sites, double threshold) {
    for (int mu = 0; mu < n; mu++) {
        long double *v = all->u + (size_t)all->count * sites, error = 0;
        for (size_t i = 0; i < sites; i++)
            v[i] = x[(size_t)mu * sites + i];
        long double rms = reduce(v, all, 0, sites, NULL);
        reduce(v, all, all->count, sites, &error);
        long double rest = reduce(v, all, all->count, sites, NULL); /* twice is enough */
        if (rest <= threshold)
            continue;
        for (size_t i = 0; i < sites; i++)
            v[i] /= rest;
        all->error[all->count] = (ROUND_OFF * rms + error) / rest;
        all->row[all->count++] = mu;
    }
}

/* Vectors of the reference from `base` on are the rows `out`; those before and `out` together span
 * the rows x to the threshold, and a row has no part in the vectors of later rows (one that was
 * dropped: none above the threshold). */
static void compare(struct vectors *want, int base, struct rows out, const double *x, int n,
                    double threshold) {
    size_t sites = out.array->sites;
    FREED(base_free) double *u = values(out);
    long double *v = memory(sites, sizeof *v), rms[n + 1];
    assert_int_equal(out.count, want->count - base);
    for (int mu = 0; mu < n; mu++)
        rms[mu] = sqrtl(average(x + (size_t)mu * sites, x + (size_t)mu * sites, sites));
    for (int k = 0; k < out.count; k++) {
        const double *uk = u + (size_t)k * sites;
        for (size_t i = 0; i < sites; i++)
            v[i] = uk[i] - want->u[(size_t)(base + k) * sites + i];
        long double off = reduce(v, want, 0, sites, NULL);
        if (!(off <= want->error[base + k]))
            fail_msg("vector %d of row %d is off by %Lg", k, want->row[base + k], off);
        for (int mu = 0; mu < want->row[base + k]; mu++) {
            bool dropped = true;
            for (int l = 0; l < k; l++)
                dropped = dropped && want->row[base + l] != mu;
            if (!(fabsl(average(x + (size_t)mu * sites, uk, sites)) <=
                  ROUND_OFF * rms[mu] + dropped * threshold))
                fail_msg("row %d has a part in vector %d of row %d", mu, k, want->row[base + k]);
        }
    }
    for (int k = 0; k < out.count; k++) { /* from here on as computed */
        want->error[base + k] = ROUND_OFF;
        for (size_t i = 0; i < sites; i++)
            want->u[(size_t)(base + k) * sites + i] = u[(size_t)k * sites + i];
    }
    for (int mu = 0; mu < n; mu++) {
        for (size_t i = 0; i < sites; i++)
            v[i] = x[(size_t)mu * sites + i];
        assert_true(reduce(v, want, want->count, sites, NULL) <=
                    1.0001 * threshold + ROUND_OFF * rms[mu]);
    }
    free(v);
}

static const struct basis_known unknown;

/* All that basis_residual promises, for n rows after `base` rows (taken to 1e-4). */
static int check_residual(const double *x, int base, int n, size_t sites, int group,
                          double threshold) {
    FREED(array_free) struct array in, known, out;
    struct vectors want = {.u = memory((size_t)(base + n + 1) * sites, sizeof *want.u)};
    const double *rest = x + (size_t)base * sites;
    int kept, before = 0;
    array_from(&in, sites, group, x, base + n);
    ASK(array_init(&known, backend, sites, group, 0, &err));
    ASK(array_init(&out, backend, sites, group, 0, &err));
    if (base) {
        ASK(basis_residual(none, NULL, array_rows(&in, 0, base), unknown, 1e-4, &known, NULL,
                           &before, &err));
        reference(&want, x, base, sites, 1e-4);
        compare(&want, 0, array_rows(&known, 0, before), x, base, 1e-4);
    }
    struct rows first = array_rows(&known, 0, before), x_rows = array_rows(&in, base, n);
    reference(&want, rest, n, sites, threshold);
    ASK(basis_residual(first, NULL, x_rows, unknown, threshold, &out, NULL, &kept, &err));
    struct rows second = array_rows(&out, 0, kept);
    compare(&want, before, second, rest, n, threshold);
    assert_true(overlap(second, second) <= ORTHONORMAL && overlap(second, first) <= ORTHONORMAL);
    int again;
    struct basis_known look = {0};
    ASK(basis_ask(first, x_rows, &look, &err));
    ASK(basis_residual(first, NULL, x_rows, look, threshold, &out, NULL, &again, &err));
    assert_int_equal(again, kept);
    assert_true(overlap(second, second) <= ORTHONORMAL && overlap(second, first) <= ORTHONORMAL);
    basis_forget(&look);
    free(want.u);
    return kept;
}

static const STRUCT(size_t sites; int group) shapes[] = {{64, 1}, {257, 1}, {771, 3}, {1000, 2}};

/* Row mu = sum_k c_k (normal row k) for four terms {k, c_k}; k is counted from 1. */
struct mixture {
    int k[4];
    double c[4];
};

static int check_mixtures(const struct mixture *mixtures, int base, int n, double threshold) {
    int kept = 0;
    for (size_t shape = 0; shape < LENGTH(shapes); shape++) {
        size_t sites = shapes[shape].sites;
        FREED(base_free)
        double *normal = memory(10 * sites, sizeof *normal),
               *x = memory((size_t)(base + n) * sites, sizeof *x);
        draw(normal, 10 * sites, 7);
        for (int mu = 0; mu < base + n; mu++)
            for (int t = 0; t < 4; t++)
                for (size_t i = 0; i < sites && mixtures[mu].k[t]; i++)
                    x[(size_t)mu * sites + i] +=
                        mixtures[mu].c[t] * normal[(size_t)(mixtures[mu].k[t] - 1) * sites + i];
        kept = check_residual(x, base, n, sites, shapes[shape].group, threshold);
    }
    return kept;
}

TEST(test_random_rows) {
    static const int counts[][2] = {{0, 0}, {0, 1}, {0, 33}, {1, 1}, {10, 5}, {3, 33}, {33, 3}};
    for (size_t shape = 0; shape < LENGTH(shapes); shape++)
        for (size_t n = 0; n < LENGTH(counts); n++) {
            size_t sites = shapes[shape].sites, count = (size_t)(counts[n][0] + counts[n][1]);
            FREED(base_free) double *x = memory(count * sites, sizeof *x);
            draw(x, count * sites, (uint32_t)n);
            assert_int_equal(
                check_residual(x, counts[n][0], counts[n][1], sites, shapes[shape].group, 1e-3),
                counts[n][1]);
        }
}

TEST(test_nearly_dependent_rows) {
    static const struct mixture rows[] = {
        {{1}, {1}},
        {{1, 2}, {1, 1e-6}},
        {{3}, {5}},
        {{1, 3, 4}, {-2, 1, 1e-6}},
        {{1, 2, 5}, {1, 1e-6, 1e-6}}, /* close to both the first and the second */
        {{2, 4, 6}, {1, 1, 1e-6}},
    };
    assert_int_equal(check_mixtures(rows, 0, 6, 1e-7), 6);
    assert_int_equal(check_mixtures(rows, 0, 6, 1e-5), 3);
    assert_int_equal(check_mixtures(rows, 1, 5, 1e-7), 5); /* the first one known before */
    assert_int_equal(check_mixtures(rows, 3, 3, 1e-7), 3);
}

TEST(test_repeated_rows) {
    static const struct mixture rows[] =
        LIST({{1}, {1}}, {{1}, {1}}, {{2}, {1}}, {{1}, {-3}}, {{1, 2}, {2, 1}}, {{2}, {1}},
             {{1, 2}, {1, 1}}, {{3}, {1}}, {{3}, {1e-3}}, {{1, 2, 3}, {1, 1, 1}});
    assert_int_equal(check_mixtures(rows, 0, 10, 1e-6), 3);
    assert_int_equal(check_mixtures(rows, 1, 9, 1e-6), 2);
    assert_int_equal(check_mixtures(rows, 5, 5, 1e-6), 1);
    assert_int_equal(check_mixtures(rows, 8, 2, 1e-6), 0);
}

TEST(test_zero_rows) {
    static const struct mixture rows[] = {{{0}, {0}}, {{1}, {1}}, {{0}, {0}}, {{2}, {1}}};
    assert_int_equal(check_mixtures(rows, 0, 4, 1e-3), 2);
    assert_int_equal(check_mixtures(rows, 0, 4, 0), 2);
    assert_int_equal(check_mixtures(rows, 0, 1, 0), 0);
    assert_int_equal(check_mixtures(rows, 2, 1, 0), 0);
}

TEST(test_rows_of_all_sizes) {
    static const struct mixture rows[] =
        LIST({{1}, {1}}, {{2}, {1e-9}}, {{3}, {1e4}}, {{1, 4}, {1e-7, 1e-10}}, {{5}, {1}});
    assert_int_equal(check_mixtures(rows, 0, 5, 1e-12), 5);
    assert_int_equal(check_mixtures(rows, 0, 5, 1e-8), 3);
    assert_int_equal(check_mixtures(rows + 1, 0, 1, 1e-12), 1);
}

/* Values of a smooth random function, row mu: size[mu] times it at the place at[mu]. */
static void smooth(double *x, int rows, size_t sites, const double *at, const double *size,
                   int waves, double decay) {
    FREED(base_free) double *wave = memory(2 * sites, sizeof *wave);
    memset(x, 0, (size_t)rows * sites * sizeof *x);
    for (int w = 0; w < waves; w++) {
        draw(wave, 2 * sites, (uint32_t)w);
        for (int mu = 0; mu < rows; mu++) {
            double share = size[mu] * exp(-w * w * decay), c = cos(w * at[mu]), s = sin(w * at[mu]);
            for (size_t i = 0; i < sites; i++)
                x[(size_t)mu * sites + i] += share * (c * wave[i] + s * wave[sites + i]);
        }
    }
}

/* The rows of one block determine each other more and more: the values of a smooth function at n
 * points, and a chain in which each row is within `rest` of what the one before it has shown. */
TEST(test_smooth_rows) {
    enum { N = 32, SITES = 250 };
    static const double lengths[] = {0.05, 0.2, 0.5, 1};
    static double x[N * SITES];
    double at[N], size[N];
    for (int mu = 0; mu < N; mu++)
        at[mu] = (double)mu / N, size[mu] = 0.3;
    for (size_t n = 0; n < LENGTH(lengths); n++) {
        smooth(x, N, SITES, at, size, 60, lengths[n] * lengths[n] / 4);
        for (double threshold = 1e-2; threshold > 1e-7; threshold /= 10)
            for (int base = 0; base < 20; base += 12)
                check_residual(x, base, N - base, SITES, 1, threshold);
    }
}

TEST(test_chain_of_rows) {
    for (double rest = 1e-1; rest > 1e-7; rest /= 10) {
        struct mixture rows[8] = {{{1}, {1}}};
        for (int mu = 1; mu < 8; mu++)
            rows[mu] = (struct mixture){{mu, mu + 1}, {1, rest}};
        assert_int_equal(check_mixtures(rows, 0, 8, rest / 2), 8);
        assert_int_equal(check_mixtures(rows, 1, 7, rest / 2), 7);
    }
}

/* What is left is compared, not squares of it or what was put in; rows that were dropped do not
 * count: the third row is within 0.9e-3 of the second but 1.27e-3 away from the first. */
TEST(test_threshold) {
    struct mixture rows[] = {{{1}, {1}}, {{1, 2}, {1, 0.9e-3}}, {{1, 2, 3}, {1, 0.9e-3, 0.9e-3}}};
    const size_t sites = 500;
    double x[1500], *third = x + 1000;
    assert_int_equal(check_mixtures(rows, 1, 2, 1.1e-3), 1);
    assert_int_equal(check_mixtures(rows, 0, 3, 1.1e-3), 2);
    assert_int_equal(check_mixtures(rows, 0, 3, 0.5e-3), 3);
    for (double size = 0.1; size > 1e-6; size /= 10) { /* orthogonal rows; size is what is left */
        for (size_t i = 0; i < sites; i++) {
            x[i] = i % 2 ? 1 : -1;
            x[sites + i] = i / 2 % 2 ? 1 : -1;
            third[i] = 3 * x[i] + 2 * x[sites + i] + size * (i / 4 % 2 ? 1 : -1);
        }
        for (int base = 0; base < 3; base++) {
            assert_int_equal(check_residual(x, base, 3 - base, sites, 1, 0.999 * size), 3 - base);
            assert_int_equal(check_residual(x, base, 3 - base, sites, 1, 1.002 * size), 2 - base);
        }
    }
}

/* More rows than sites. */
TEST(test_full_space) {
    double x[30 * 20];
    draw(x, LENGTH(x), 1);
    assert_int_equal(check_residual(x, 0, 30, 20, 1, 1e-6), 20);
    assert_int_equal(check_residual(x, 15, 15, 20, 2, 1e-6), 5);
}

/* On a device, which judges by itself: rows of norm one, some beside a row of the base or of
 * another block by little, some by nothing. */
TEST(test_straightened_rows) {
    enum { BASE = 5, ROWS = 40, SITES = 300 };
    static const struct {
        int row, like; /* like: negative for those of the base */
        double rest;
    } near[] = {{2, 1, 1e-6}, {7, -1, 1e-7}, {9, 8, 0}, {20, -2, 0}, {33, 3, 1e-6}, {39, 30, 0}};
    if (!basis_straightens(backend))
        skip();
    FREED(base_free) double *x = memory((size_t)(BASE + ROWS) * SITES, sizeof *x);
    FREED(array_free) struct array in;
    draw(x, (size_t)(BASE + ROWS) * SITES, 3);
    array_from(&in, SITES, 1, x, BASE + ROWS);
    struct rows base = array_rows(&in, 0, BASE), v = array_rows(&in, BASE, ROWS);
    basis_straighten(none, base, 1e-8);
    for (size_t n = 0; n < LENGTH(near); n++) {
        struct rows row = rows_part(v, near[n].row, 1);
        rows_scale(near[n].rest, row);
        rows_add(NULL, rows_part(v, near[n].like, 1), row);
    }
    basis_straighten(base, v, 1e-8);
    double C[ROWS * ROWS];
    backend->dots(v, v, C);
    for (int k = 0; k < ROWS; k++)
        for (int l = 0; l < ROWS; l++)
            assert_near(C[k * ROWS + l], k == l && k != 9 && k != 20 && k != 39, ORTHONORMAL);
    assert_true(overlap(v, base) <= ORTHONORMAL);
}

/* More rows than a block (16) has. */
enum { LARGE = 128, LARGE_SITES = 300 };

TEST(test_sizes_of_blocks) {
    static const int counts[] = {1, 15, 16, 17, 31, 32, 33, 48, LARGE};
    FREED(base_free) double *x = memory((size_t)(20 + LARGE) * LARGE_SITES, sizeof *x);
    draw(x, (size_t)(20 + LARGE) * LARGE_SITES, 5);
    for (size_t n = 0; n < LENGTH(counts); n++)
        for (int base = 0; base <= 20; base += 20)
            assert_int_equal(check_residual(x, base, counts[n], LARGE_SITES, 1, 1e-3), counts[n]);
}

/* Values of a smooth function at many points, one after the other or here and there, among them
 * some points again, once or with another factor, and rows of zeros. */
TEST(test_many_smooth_rows) {
    static double x[LARGE * LARGE_SITES];
    double at[LARGE], size[LARGE];
    for (int stride = 1; stride < 50; stride += 36) {
        for (int mu = 0; mu < LARGE; mu++) {
            int point = mu % 9 == 8 ? mu - 5 : mu;
            at[mu] = (double)(point * stride % LARGE) / LARGE;
            size[mu] = mu % 13 == 12 ? 0 : mu % 9 == 8 ? -2 : 0.3;
        }
        smooth(x, LARGE, LARGE_SITES, at, size, 150, 3e-4);
        for (double threshold = 1e-2; threshold > 1e-7; threshold /= 100)
            for (int base = 0; base <= 20; base += 20)
                assert_in_range(check_residual(x, base, LARGE - base, LARGE_SITES, 1, threshold),
                                20, 100);
    }
}

TEST(test_long_chain_of_rows) {
    enum { N = 50 };
    FREED(base_free) double *x = memory((size_t)(N + 1) * LARGE_SITES, sizeof *x);
    for (double rest = 1e-1; rest > 1e-7; rest /= 10) {
        draw(x, (size_t)(N + 1) * LARGE_SITES, 6);
        for (size_t i = 0; i < (size_t)N * LARGE_SITES; i++)
            x[i] += rest * x[i + LARGE_SITES];
        for (int base = 0; base <= 20; base += 10)
            assert_int_equal(check_residual(x, base, N - base, LARGE_SITES, 1, rest / 2), N - base);
    }
}

/* Every other row is left with 2^-10, and all sums are exact. */
TEST(test_rows_at_the_threshold) {
    enum { N = 40, SITES = 512 };
    FREED(base_free) double *x = memory((size_t)N * SITES, sizeof *x);
    for (int mu = 0; mu < N; mu++)
        for (int i = 0; i < SITES; i++) {
            double sign = __builtin_parity((unsigned)(i & (mu + 1))) ? -1 : 1;
            x[mu * SITES + i] = mu % 2 ? 0x1p-10 * sign : sign;
            x[mu * SITES + i] += mu > 2 ? 3 * x[i] - 2 * x[2 * SITES + i] : 0;
        }
    for (int base = 0; base <= 18; base += 9) {
        int small = N / 2 - base / 2;
        assert_int_equal(check_residual(x, base, N - base, SITES, 1, 0x1p-10), N - base - small);
        assert_int_equal(check_residual(x, base, N - base, SITES, 1, 0x1.fffffcp-11), N - base);
    }
    assert_int_equal(check_residual(x + SITES, 0, 1, SITES, 1, 0x1p-10), 0); /* a single row */
    assert_int_equal(check_residual(x + SITES, 0, 1, SITES, 1, 0x1.fffffcp-11), 1);
}

/* A basis that grows by few rows at a time stays orthonormal until it fills four fifths of space,
 * whatever is left of a row beside the vector before it: where that is a fifth, an account that
 * forgets the base lets overlaps grow fivefold from call to call. */
TEST(test_many_calls) {
    enum { SITES = 400, ROWS = 320 };
    static const double left[] = {1, 0.75, 0.5, 0.2, 0.13, 1e-3, 1e-6};
    FREED(base_free)
    double *x = memory((size_t)5 * SITES, sizeof *x), *loss = memory(SITES, sizeof *loss);
    for (size_t k = 0; k < LENGTH(left); k++) {
        FREED(array_free) struct array basis, out;
        ASK(array_init(&basis, backend, SITES, 1, 0, &err));
        ASK(array_init(&out, backend, SITES, 1, 0, &err));
        for (uint32_t call = 0; basis.rows < ROWS; call++) {
            FREED(array_free) struct array in;
            struct rows added;
            int kept, n = 1 + (int)call % 5;
            draw(x, (size_t)n * SITES, call);
            array_from(&in, SITES, 1, x, n);
            rows_scale(left[k], array_all(&in));
            if (basis.rows)
                rows_add(NULL, array_rows(&basis, basis.rows - 1, 1), array_rows(&in, 0, 1));
            ASK(basis_residual(array_all(&basis), loss, array_all(&in), unknown, 1e-8, &out, NULL,
                               &kept, &err));
            assert_int_equal(kept, n);
            ASK(array_append(&basis, kept, &added, &err));
            rows_copy(array_rows(&out, 0, kept), added);
        }
        assert_true(overlap(array_all(&basis), array_all(&basis)) <= ORTHONORMAL);
    }
}

ON_EACH_BACKEND(0)
