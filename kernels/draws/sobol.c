/* Normals of scrambled Sobol points. */
#include "kernels/draws/sobol.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_qrng.h>
#include <stdlib.h>

/* Of set 0, and two less for each further one. Pairs of sites end below 2^32 - 4: these numbers are
 * no site's. */
enum { KEY_ORDER = -1, KEY_SCRAMBLE = -2 };

static void bits_of(const struct sobol *sobol, struct rng_stream stream, uint32_t draw, int key,
                    uint32_t bits[4]) {
    stream.first_pair = 0;
    rng_bits(stream, draw, (uint32_t)key - 2 * sobol->set, bits);
}

/* Sobol points are x_i = x_(i-1) ^ v_c, c the lowest zero bit of i - 1, x_0 = 0 (which GSL leaves
 * out): v_c is met at i = 2^c. */
static int directions(struct sobol *sobol, struct err *err) {
    gsl_qrng *points = gsl_qrng_alloc(gsl_qrng_sobol, SOBOL_DIMENSIONS);
    double at[SOBOL_DIMENSIONS];
    uint32_t last[SOBOL_DIMENSIONS] = {0};
    if (!points)
        return err_set(err, CODE_SYSTEM, "out of memory: Sobol points");
    for (uint32_t i = 1, c = 0; c < (uint32_t)sobol->bits; i++) {
        gsl_qrng_get(points, at);
        for (int d = 0; d < SOBOL_DIMENSIONS; d++) {
            uint32_t x = (uint32_t)(at[d] * 0x1p32);
            if (i == 1u << c)
                sobol->direction[d * sobol->bits + (int)c] = x ^ last[d];
            last[d] = x;
        }
        c += i == 1u << c;
    }
    gsl_qrng_free(points);
    return CODE_OK;
}

int sobol_init(struct sobol *sobol, struct rng_stream stream, uint32_t set, size_t points,
               struct err *err) {
    *sobol = (struct sobol){.points = points, .set = set};
    while (1ull << sobol->bits < points)
        sobol->bits++;
    TRY(base_alloc(&sobol->order, points, sizeof *sobol->order, err));
    TRY(base_alloc(&sobol->direction, (size_t)(SOBOL_DIMENSIONS * (sobol->bits + 1)),
                   sizeof *sobol->direction, err));
    for (size_t i = 0; i < points; i++) { /* each place changes with one up to it */
        uint32_t bits[4];
        bits_of(sobol, stream, (uint32_t)i, KEY_ORDER, bits);
        size_t j = (size_t)(((uint64_t)bits[0] * (i + 1)) >> 32);
        sobol->order[i] = sobol->order[j];
        sobol->order[j] = (uint32_t)i;
    }
    return directions(sobol, err);
}

void sobol_free(struct sobol *sobol) {
    free(sobol->order);
    free(sobol->direction);
    *sobol = (struct sobol){0};
}

static uint32_t reversed(uint32_t x) {
    x = __builtin_bswap32(x);
    x = ((x & 0x0f0f0f0fu) << 4) | ((x >> 4) & 0x0f0f0f0fu);
    x = ((x & 0x33333333u) << 2) | ((x >> 2) & 0x33333333u);
    return ((x & 0x55555555u) << 1) | ((x >> 1) & 0x55555555u);
}

/* Each digit of x is flipped or not by a hash of key and the digits before it: from the lowest bit
 * on of the reversed number, sums and even multiples change a bit by lower ones alone. */
static uint32_t scrambled(uint32_t x, uint32_t key) {
    x = reversed(x) + key;
    x ^= x * 0x6c50b47cu;
    x ^= x * 0xb82f1e52u;
    x ^= x * 0xc7afe638u;
    x ^= x * 0x8d22f6e6u;
    return reversed(x);
}

void sobol_normals(const struct sobol *sobol, struct rng_stream stream, uint32_t d, double *out,
                   size_t stride) {
    const uint32_t *v = sobol->direction + (size_t)d * (size_t)sobol->bits;
    uint32_t key[4];
    bits_of(sobol, stream, d, KEY_SCRAMBLE, key);
    for (size_t i = 0; i < sobol->points; i++) {
        uint32_t number = sobol->order[i], x = 0;
        number ^= number >> 1;
        for (int c = 0; number >> c; c++)
            x ^= number >> c & 1 ? v[c] : 0;
        out[i * stride] = gsl_cdf_ugaussian_Pinv((scrambled(x, key[0]) + 0.5) * 0x1p-32);
    }
}
