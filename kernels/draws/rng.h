/* Standard normals as a pure function of what they are for (Philox 4x32-10 of Random123).
 *
 * Key = seed; counter = (pair of sites, draw, replicate, width | owner | purpose); what an owner
 * has beyond 8 bits stands in front of the replicate. No state, no clock, no per-thread generator:
 * any thread, a rerun and a longer run find the same number. Usable from C and CUDA. Two sites
 * share one Philox block (Box-Muller). */
#pragma once

#define R123_USE_SSE 0 /* nothing that only one kind of machine has, or includes by the way */
#define R123_USE_IA32INTRIN_H 0
#include "kernels/base/base.h"

#include <Random123/philox.h>

/* Never renumbered: stored results depend on the values. */
enum purpose {
    PURPOSE_POOL = 1,    /* matched normals and thin matrices of a population; owner = population */
    PURPOSE_MATRIX = 2,  /* rows of an explicit W(0); owner = map */
    PURPOSE_DATA = 3,    /* owners: solver/data (normals.c, tokens.c, corpus.c, data.c) */
    PURPOSE_BIAS = 4,    /* router biases (owner 0) and noise (owner 1), for all runs of a seed;
                            selection biases, owner = block */
    PURPOSE_PROBE = 5,   /* permutations of sites for probes; owner = population */
    PURPOSE_PREDICT = 6, /* what inputs that are only predicted meet; owner = population */
    PURPOSE_ORDER = 7,   /* permutations of the inputs, draw = epoch */
    PURPOSE_NOISE = 8    /* noise of rows, draw = step rows + row; owner = operation */
};

enum { RNG_OWNERS = 1 << 16 };

struct rng_stream {
    uint64_t seed;
    uint32_t replicate; /* < 2^20, of the limit, or the number of a network */
    uint32_t width;     /* N < 2^20 of a network; 0: the limit */
    uint32_t owner;     /* < RNG_OWNERS */
    uint32_t purpose;   /* enum purpose, < 2^4 */
    uint32_t draw;      /* number of the first row */
    int mirror; /* 1, -1: the second site of a pair has the first one's normal, times this */
    uint32_t first_pair; /* of sites: where site 0 of the rows lies in the stream */
};

/* 128 random bits of row `draw` and number `pair` of the stream. */
ON_DEVICE static inline void rng_bits(struct rng_stream stream, uint32_t draw, uint32_t pair,
                                      uint32_t bits[4]) {
    uint32_t low = stream.owner & 0xff, high = stream.owner >> 8;
    philox4x32_ctr_t counter = {{stream.first_pair + pair, draw, (high << 20) | stream.replicate,
                                 (stream.width << 12) | (low << 4) | stream.purpose}};
    philox4x32_key_t key = {{(uint32_t)stream.seed, (uint32_t)(stream.seed >> 32)}};
    philox4x32_ctr_t result = philox4x32(counter, key);
    for (int i = 0; i < 4; i++)
        bits[i] = result.v[i];
}

/* What the normals of a pair are made of: u in (0, 1] and an angle. */
ON_DEVICE static inline void rng_polar(struct rng_stream stream, uint32_t draw, uint32_t pair,
                                       double *u, double *angle) {
    uint32_t bits[4];
    rng_bits(stream, draw, pair, bits);
    uint64_t a = ((uint64_t)bits[1] << 32) | bits[0];
    uint64_t b = ((uint64_t)bits[3] << 32) | bits[2];
    *u = ((double)(a >> 11) + 1.0) * 0x1p-53;
    *angle = (double)(b >> 11) * (0x1p-53 * 6.283185307179586476925);
}

/* The normals of sites 2 * pair and 2 * pair + 1 in row `draw` of the stream. */
ON_DEVICE static inline void rng_normal_pair(struct rng_stream stream, uint32_t draw, uint32_t pair,
                                             double normal[2]) {
    double u, angle;
    rng_polar(stream, draw, pair, &u, &angle);
    double radius = sqrt(-2.0 * log(u));
    normal[0] = radius * cos(angle);
    normal[1] = stream.mirror ? stream.mirror * normal[0] : radius * sin(angle);
}
