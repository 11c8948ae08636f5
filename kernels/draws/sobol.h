/* Normals of scrambled Sobol points, in place of independent ones: averages over sites of smooth
 * functions of few normals then err by less than 1/sqrt(sites).
 *
 * Number d of the normals that a population draws is coordinate d of the points, so the draws that
 * come first (read-in, then the first forward and backward pass) have the most even ones; beyond
 * SOBOL_DIMENSIONS normals are independent as ever. Point i is the sum, digit by digit, of a row of
 * digits for each bit of i, as Sobol's points are, but with rows chosen so that pairs and threes of
 * coordinates are even, too (directions.h). Each coordinate is scrambled (Owen's nested
 * permutation of digits by a hash, Laine & Karras) by a key from the stream: replicates are
 * independent, and each point is uniform. The points come in random order, another one in each
 * population: populations whose sites go together (experts and their units) meet as independent
 * draws would. Where sites come in groups a group is a point, and its members are coordinates.
 *
 * Which row of the table a coordinate has is drawn for each replicate, among eight neighbours. No
 * finite set is even in all threes and fours: some share digits, and averages of their products
 * have thirty times the variance of others. Were they the same in all replicates they would be a
 * bias, where the first draws are among them; so they are part of what differs between replicates.
 * (Drawn among all rows, the first draws lose what the first rows are best at.)
 *
 * A stream has several sets of points, scrambled and ordered independently of each other. Two
 * halves of the sites are a set each, and the whole, computed beside them, is both sets: its
 * averages are then means of two independent ones of one law, as (3.2) of docs/method.md needs. */
#pragma once

#include "kernels/base/base.h"
#include "kernels/draws/rng.h"
#include "kernels/draws/directions.h"

struct sobol {
    size_t points;
    uint32_t set;                   /* 0 or 1: its number */
    int bits;                       /* of their numbers */
    uint32_t *place;                /* [points]: where the point of each number stands */
    uint32_t row[SOBOL_DIMENSIONS]; /* of the table, of each coordinate */
    uint32_t *direction;            /* [SOBOL_DIMENSIONS][bits] */
};

/* Points for the draws of a stream; the order depends on all of it but draw and first_pair. */
int sobol_init(struct sobol *sobol, struct rng_stream stream, uint32_t set, size_t points,
               struct err *err);
void sobol_free(struct sobol *sobol); /* accepts a zeroed struct; idempotent */
/* Normals of coordinate d < SOBOL_DIMENSIONS at all points, into out[0], out[stride], ... */
void sobol_normals(const struct sobol *sobol, struct rng_stream stream, uint32_t d, double *out,
                   size_t stride);
