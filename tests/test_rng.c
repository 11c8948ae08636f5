/* The numbers: the generator against published vectors, their distribution, and that every use has
 * numbers of its own, the same ones however they are asked for.
 *
 * Seeds are fixed, so each statistical check passes or fails for good; its limit is what a correct
 * generator exceeds with a probability below 1e-3. */
#include "tests/support/test.h"

#include "kernels/array/backend.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort_double.h>

#define LENGTH(list) (sizeof(list) / sizeof *(list))

static const struct rng_stream plain = {.seed = 1, .purpose = PURPOSE_POOL};

static void *memory(size_t count, size_t size) {
    void *block = calloc(count ? count : 1, size);
    assert_non_null(block);
    return block;
}

/* kat_vectors of Random123, philox4x32 of 10 rounds: counter, key, result. */
static const struct vector {
    uint32_t counter[4], key[2], bits[4];
} vectors[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(test_philox) {
    for (size_t n = 0; n < LENGTH(vectors); n++) {
        philox4x32_ctr_t counter;
        philox4x32_key_t key;
        memcpy(counter.v, vectors[n].counter, sizeof vectors[n].counter);
        memcpy(key.v, vectors[n].key, sizeof vectors[n].key);
        philox4x32_ctr_t bits = philox4x32(counter, key);
        assert_memory_equal(bits.v, vectors[n].bits, sizeof vectors[n].bits);
    }
}

/* The same vectors through the layout of the counter, and Box-Muller in extended precision: the
 * 53 leading bits of two words give a number in (0, 1] and an angle. */
TEST(test_layout_and_box_muller) {
    for (size_t n = 0; n < LENGTH(vectors); n++) {
        const uint32_t *c = vectors[n].counter, *key = vectors[n].key, *bits = vectors[n].bits;
        struct rng_stream stream =
            LIST(.seed = (uint64_t)key[1] << 32 | key[0], .replicate = c[2], .width = c[3] >> 12,
                 .owner = c[3] >> 4 & 0xff, .purpose = c[3] & 0xf,
                 .draw = 12345); /* without effect: the call names the draw */
        uint64_t a = (uint64_t)bits[1] << 32 | bits[0], b = (uint64_t)bits[3] << 32 | bits[2];
        long double radius = sqrtl(-2 * logl((long double)((a >> 11) + 1) * 0x1p-53L));
        long double angle = 2 * acosl(-1) * ((long double)(b >> 11) * 0x1p-53L);
        double normal[2];
        rng_normal_pair(stream, c[1], c[0], normal);
        /* the angle is rounded twice: 2 eps of at most 2 pi */
        assert_true(fabsl(normal[0] - radius * cosl(angle)) <= 16 * DBL_EPSILON * radius);
        assert_true(fabsl(normal[1] - radius * sinl(angle)) <= 16 * DBL_EPSILON * radius);
    }
}

/* Row `draw` of a stream: sites first .. first + count - 1. */
static void draw_row(struct rng_stream stream, size_t first, size_t count, double *normal) {
    for (size_t i = 0; i < count; i++) {
        double pair[2];
        rng_normal_pair(stream, stream.draw, (uint32_t)((first + i) / 2), pair);
        normal[i] = pair[(first + i) % 2];
    }
}

/* Sorts; the largest distance between the empirical and the normal distribution function. */
static double kolmogorov_smirnov(double *x, size_t n) {
    double largest = 0;
    gsl_sort(x, 1, n);
    for (size_t i = 0; i < n; i++) {
        double p = gsl_cdf_ugaussian_P(x[i]);
        largest = fmax(largest, fmax(p - (double)i / (double)n, (double)(i + 1) / (double)n - p));
    }
    return largest;
}

/* Moments within four standard deviations: variances 1, 2, 6, 24 over n of the means of z, z^2 - 1,
 * z^3 - 3z and z^4 - 6z^2 + 3, which are uncorrelated. */
static void check_distribution(double *x, size_t n) {
    static const double variance[] = {1, 2, 6, 24};
    double sum[4] = {0};
    for (size_t i = 0; i < n; i++) {
        double z = x[i], z2 = z * z;
        assert_true(fabs(z) <= sqrt(2 * 53 * log(2))); /* so finite */
        double h[] = {z, z2 - 1, z * (z2 - 3), z2 * (z2 - 6) + 3};
        for (size_t k = 0; k < LENGTH(h); k++)
            sum[k] += h[k];
    }
    for (size_t k = 0; k < LENGTH(variance); k++)
        if (!(fabs(sum[k]) < 4 * sqrt(variance[k] * (double)n)))
            fail_msg("moment %zu: %g standard deviations", k + 1,
                     sum[k] / sqrt(variance[k] * (double)n));
    double distance = kolmogorov_smirnov(x, n) * sqrt((double)n);
    FAIL_IF(!(distance < 1.95), "Kolmogorov-Smirnov %g", distance);
}

TEST(test_normals_along_sites) {
    const size_t n = 1000000;
    FREED(base_free) double *x = memory(n, sizeof *x);
    draw_row(plain, 0, n, x);
    check_distribution(x, n);
}

/* Few sites and many of the other numbers: rows, replicates, owners, seeds. */
TEST(test_normals_along_other_numbers) {
    const size_t n = 100000;
    FREED(base_free) double *x = memory(n, sizeof *x);
    for (int way = 0; way < 6; way++) {
        for (size_t i = 0; i < n; i++) {
            struct rng_stream stream = plain;
            uint32_t k = (uint32_t)(way < 4 ? i / 2 : i); /* a pair, or one of its members */
            *(way % 4 == 0   ? &stream.draw
              : way % 4 == 1 ? &stream.replicate
              : way % 4 == 2 ? &stream.width
                             : &stream.owner) = way % 4 == 3 ? k & 0xff : k;
            if (way % 4 == 3)
                stream.seed = (uint64_t)(k >> 8) << 30;
            draw_row(stream, way < 4 ? i % 2 : (size_t)way % 2, 1, x + i);
        }
        check_distribution(x, n);
    }
}

/* Products of two standardised samples. */
static double correlation(const double *x, const double *y, size_t n) {
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        xy += x[i] * y[i];
        xx += x[i] * x[i];
        yy += y[i] * y[i];
    }
    return xy / sqrt(xx * yy);
}

/* One field changed at a time, by the lowest and by the highest bits; three shifts along the
 * sites. Their first numbers differ too. */
TEST(test_streams_are_distinct) {
    enum { COUNT = 20, SITES = 50000 };
    struct rng_stream s[COUNT];
    size_t first[COUNT] = {[17] = 2, [18] = 3, [19] = SITES};
    FREED(base_free) double *x = memory((size_t)COUNT * SITES, sizeof *x);
    for (int k = 0; k < COUNT; k++)
        s[k] = plain;
    s[1].seed ^= 1;
    s[2].seed ^= 2;
    s[3].seed ^= 1ULL << 32;
    s[4].seed ^= 1ULL << 63;
    s[5].replicate = 1;
    s[6].replicate = 1u << 31;
    s[7].width = 1;
    s[8].width = 64;
    s[9].width = (1u << 20) - 1;
    s[10].owner = 1;
    s[11].owner = 128;
    s[12].purpose = PURPOSE_MATRIX;
    s[13].purpose = PURPOSE_DATA;
    s[14].draw = 1;
    s[15].draw = 2;
    s[16].draw = 1u << 31;
    for (int k = 0; k < COUNT; k++)
        draw_row(s[k], first[k], SITES, x + k * SITES);
    for (int k = 0; k < COUNT; k++)
        for (int l = 0; l < k; l++) {
            double c = correlation(x + k * SITES, x + l * SITES, SITES);
            if (!(fabs(c) < 5 / sqrt(SITES)) || x[k * SITES] == x[l * SITES])
                fail_msg("streams %d and %d: correlation %g", l, k, c);
        }
}

/* Neighbours and the two members of a pair, and their squares. */
TEST(test_sites_are_independent) {
    enum { SITES = 200000, LAGS = 8 };
    FREED(base_free)
    double *x = memory(SITES + LAGS, sizeof *x), *even = memory(SITES / 2, sizeof *even),
           *odd = memory(SITES / 2, sizeof *odd);
    draw_row(plain, 0, SITES + LAGS, x);
    for (int lag = 1; lag <= LAGS; lag++)
        assert_true(fabs(correlation(x, x + lag, SITES)) < 4 / sqrt(SITES));
    for (size_t i = 0; i < SITES / 2; i++) {
        even[i] = x[2 * i];
        odd[i] = x[2 * i + 1];
    }
    assert_true(fabs(correlation(even, odd, SITES / 2)) < 4 / sqrt(SITES / 2));
    for (size_t i = 0; i < SITES / 2; i++) {
        even[i] = even[i] * even[i] - 1;
        odd[i] = odd[i] * odd[i] - 1;
    }
    assert_true(fabs(correlation(even, odd, SITES / 2)) < 4 / sqrt(SITES / 2));
}

static int compare_pairs(const void *a, const void *b) {
    return memcmp(a, b, 2 * sizeof(double));
}

/* Equal counters give equal pairs, distinct ones distinct pairs (up to 1e-26). */
TEST(test_packing_never_collides) {
    static const uint32_t widths[] = {0,     1,      2,       15,      16,      255,    256,
                                      0xfff, 0x1000, 0x7ffff, 0x80000, 0xffffe, 0xfffff};
    static const uint32_t owners[] = {0,   1,   2,   15,  16,  17,  127,  128,  240,
                                      254, 255, 256, 257, 511, 512, 4095, 65535};
    static const uint32_t replicates[] = {0, 1, 0xfffff};
    size_t count = 0;
    double(*pairs)[2] = memory(LENGTH(widths) * LENGTH(owners) * 16 * 3, sizeof *pairs);
    assert_true(owners[LENGTH(owners) - 1] == RNG_OWNERS - 1);
    for (size_t i = 0; i < LENGTH(widths); i++)
        for (size_t j = 0; j < LENGTH(owners); j++)
            for (uint32_t k = 0; k < 16 * 3; k++) {
                struct rng_stream stream =
                    LIST(.seed = 5, .replicate = replicates[k / 16], .width = widths[i],
                         .owner = owners[j], .purpose = k % 16);
                rng_normal_pair(stream, 0, 0, pairs[count++]);
            }
    qsort(pairs, count, sizeof *pairs, compare_pairs);
    for (size_t i = 1; i < count; i++)
        assert_true(memcmp(pairs[i - 1], pairs[i], sizeof *pairs) != 0);
    free(pairs);
}

static void fill(double *rows, size_t sites, int group, struct rng_stream stream, int first,
                 int count) {
    FREED(array_free) struct array array;
    assert_int_equal(array_init(&array, &backend_cpu, sites, group, first + count, &failure),
                     CODE_OK);
    array.backend->normals(array_rows(&array, first, count), stream);
    array.backend->get(array_rows(&array, first, count), rows);
}

/* In pieces, into other rows of an array, over fewer sites or sites in groups: the same bits. One
 * pair at a time: by libm, to 4 units in the last place of cos and sin, 2 of log and a few
 * roundings. */
TEST(test_rows_in_pieces) {
    enum { ROWS = 7, SITES = 2100 };
    static const size_t sites[] = {1, 2, 7, 8, 9, 255, 256, 257, 513, 1000, 2049, SITES};
    struct rng_stream stream = {~0ULL - 1, 9, 0, 3, PURPOSE_POOL, 1000, 0, 0}, later = stream;
    FREED(base_free)
    double *all = memory(ROWS * SITES, sizeof *all), *part = memory(ROWS * SITES, sizeof *part);
    later.draw += 4;
    fill(all, SITES, 1, stream, 0, ROWS);
    for (size_t n = 0; n < LENGTH(sites); n++)
        for (int group = 1; group <= 7; group++) {
            size_t S = sites[n] / (size_t)group * (size_t)group;
            if (!S)
                continue;
            fill(part, S, group, stream, group - 1, 4);
            fill(part + 4 * S, S, group, later, 5, 3);
            for (size_t k = 0; k < ROWS; k++)
                assert_memory_equal(part + k * S, all + k * SITES, S * sizeof *all);
        }
    for (size_t k = 0; k < ROWS; k++) { /* and one pair at a time */
        later.draw = stream.draw + (uint32_t)k;
        draw_row(later, 0, SITES, part);
        for (size_t i = 0; i < SITES; i++) {
            double want = all[k * SITES + i];
            assert_true(fabs(part[i] - want) <= 8 * DBL_EPSILON * fabs(want));
        }
    }
}

/* Stored results depend on these. */
TEST(test_purposes_keep_their_numbers) {
    assert_int_equal(PURPOSE_POOL, 1);
    assert_int_equal(PURPOSE_MATRIX, 2);
    assert_int_equal(PURPOSE_DATA, 3);
}

int main(void) {
    backend_start(1);
    return run_registered(__FILE__);
}
