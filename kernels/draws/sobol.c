#include "kernels/draws/sobol.h"

#include <gsl/gsl_cdf.h>

/* These keys are those of set 0; each further set has three lower ones. Pairs of sites end below
 * 2^32 - 6, so that no site has one of these numbers. */
enum { KEY_ORDER = -1, KEY_SCRAMBLE = -2, KEY_ROW = -3, KEYS = 3 };
enum { BLOCK = 8 }; /* of rows that change places */

static void bits_of(const struct sobol *sobol, struct rng_stream stream, uint32_t draw, int key,
                    uint32_t bits[4]) {
    stream.first_pair = 0;
    rng_bits(stream, draw, (uint32_t)key - KEYS * sobol->set, bits);
}

/* Behind the columns of the table digits are drawn, once and for all: 2^13 points and any number of
 * times as many are even in pairs as the table has them. */
static void make_directions(struct sobol *sobol) {
    for (int d = 0; d < SOBOL_DIMENSIONS; d++)
        for (int c = 0; c < sobol->bits; c++) {
            uint32_t bits[4], last = 1u << (31 - c);
            if (c < SOBOL_COLUMNS)
                bits[0] = (uint32_t)sobol_directions[d][c] * last;
            else
                rng_bits((struct rng_stream){0}, (uint32_t)d, (uint32_t)c, bits);
            sobol->direction[d * sobol->bits + c] = (bits[0] & (0u - last)) | last;
        }
}

/* The numbers below count, each block of so many in random order: each place changes with one of
 * its block up to it. */
static void shuffle_numbers(const struct sobol *sobol, struct rng_stream stream, int key,
                            size_t block, size_t count, uint32_t *out) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits[4];
        bits_of(sobol, stream, (uint32_t)i, key, bits);
        size_t first = i - i % block;
        size_t j = first + (size_t)(((uint64_t)bits[0] * (i - first + 1)) >> 32);
        out[i] = out[j];
        out[j] = (uint32_t)i;
    }
}

/* The places of the points, which come in random order. */
static int place_points(struct sobol *sobol, struct rng_stream stream, struct err *err) {
    uint32_t *order;
    TRY(base_alloc(&order, sobol->points, sizeof *order, err));
    shuffle_numbers(sobol, stream, KEY_ORDER, sobol->points, sobol->points, order);
    for (size_t i = 0; i < sobol->points; i++)
        sobol->place[order[i]] = (uint32_t)i;
    free(order);
    return CODE_OK;
}

int sobol_init(struct sobol *sobol, struct rng_stream stream, uint32_t set, size_t points,
               struct err *err) {
    *sobol = (struct sobol){.points = points, .set = set};
    while (1ull << sobol->bits < points)
        sobol->bits++;
    TRY(base_alloc(&sobol->place, points, sizeof *sobol->place, err));
    TRY(base_alloc(&sobol->direction, (size_t)(SOBOL_DIMENSIONS * (sobol->bits + 1)),
                   sizeof *sobol->direction, err));
    TRY(place_points(sobol, stream, err));
    shuffle_numbers(sobol, stream, KEY_ROW, BLOCK, SOBOL_DIMENSIONS, sobol->row);
    make_directions(sobol);
    return CODE_OK;
}

void sobol_free(struct sobol *sobol) {
    free(sobol->place);
    free(sobol->direction);
    *sobol = (struct sobol){0};
}

static uint32_t reversed_bits(uint32_t x) {
    x = __builtin_bswap32(x);
    x = ((x & 0x0f0f0f0fu) << 4) | ((x >> 4) & 0x0f0f0f0fu);
    x = ((x & 0x33333333u) << 2) | ((x >> 2) & 0x33333333u);
    return ((x & 0x55555555u) << 1) | ((x >> 1) & 0x55555555u);
}

/* Each digit of x is flipped or not by a hash of key and the digits before it: from the lowest bit
 * on of the reversed number, sums and even multiples change a bit by lower ones alone. */
static uint32_t scrambled_digits(uint32_t x, uint32_t key) {
    x = reversed_bits(x) + key;
    x ^= x * 0x6c50b47cu;
    x ^= x * 0xb82f1e52u;
    x ^= x * 0xc7afe638u;
    x ^= x * 0x8d22f6e6u;
    return reversed_bits(x);
}

void sobol_normals(const struct sobol *sobol, struct rng_stream stream, uint32_t d, double *out,
                   size_t stride) {
    const uint32_t *v = sobol->direction + (size_t)sobol->row[d] * (size_t)sobol->bits;
    uint32_t key[4];
    bits_of(sobol, stream, d, KEY_SCRAMBLE, key);
    uint32_t x = 0; /* the sum of the rows of digits for the bits of n ^ n/2 */
    for (size_t n = 0; n < sobol->points; n++) {
        if (n)
            x ^= v[__builtin_ctzll(n)];
        out[sobol->place[n] * stride] =
            gsl_cdf_ugaussian_Pinv((scrambled_digits(x, key[0]) + 0.5) * 0x1p-32);
    }
}
