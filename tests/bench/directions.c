/* directions: prints the numbers of kernels/draws/directions.h, which it chooses (a minute).
 *
 * The variance that a scrambled set of S points leaves in a product of functions of coordinates i,
 * j, ..., over that of independent points, is S times the average over the points, unscrambled, of
 * w(x_i) w(x_j) ...: w is V_1 + ... + V_l - V_(l+1) where x has l zero digits in front, V_m the
 * part of the variance of z, and of z^2 (half and half), that the m-th digit decides.
 *
 * Coordinate after coordinate, digit after digit: of all numbers, or of TRIES drawn ones, the one
 * that makes least, of this variance among 2^digits points: the sum over all sets of earlier
 * coordinates, each with a weight of .35, and the squares of that of pairs, and a tenth of those of
 * threes whose first two are among the first 16, which keep single ones from being large. */
#include "kernels/draws/directions.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>

enum {
    D = SOBOL_DIMENSIONS,
    COLUMNS = SOBOL_COLUMNS,
    N = 1 << COLUMNS,
    LEVELS = 12,
    THREES = 16,
    PAIRS = THREES * (THREES - 1) / 2,
    TRIES = 400
};
static const double weight = 0.35, of_sets = 0.1, of_threes = 0.1;

static double w[33];
static double single[D][N], pair[PAIRS][N], sets[N]; /* of coordinates that are chosen */
static uint32_t point[N];                            /* of the next one */

/* What digits decide: differences of the variances of means over intervals. */
static void find_w(void) {
    enum { FINE = 1 << 16 };
    double V[LEVELS + 2] = {0}, last[2] = {0};
    for (int m = 0; m <= LEVELS; m++) {
        double all[2] = {0};
        for (int box = 0, length = FINE >> m; box < 1 << m; box++) {
            double mean[2] = {0};
            for (int i = 0; i < length; i++) {
                double z = gsl_cdf_ugaussian_Pinv((box * length + i + 0.5) / FINE);
                mean[0] += z / length;
                mean[1] += (z * z - 1) / sqrt(2) / length;
            }
            for (int f = 0; f < 2; f++)
                all[f] += mean[f] * mean[f] / (1 << m);
        }
        for (int f = 0; f < 2; f++) {
            V[m] += m ? (all[f] - last[f]) / 2 : 0;
            last[f] = all[f];
        }
    }
    double sum = 0;
    for (int l = 0; l <= 32; l++) {
        sum += l <= LEVELS ? V[l] : 0;
        w[l] = sum - (l < LEVELS ? V[l + 1] : 0);
    }
}

static double w_of(uint32_t x) {
    return w[x ? __builtin_clz(x) : 32];
}

static double dot(const double *restrict a, const double *restrict b, uint32_t count) {
    double sum[4] = {0};
    for (uint32_t i = 0; i < count; i++)
        sum[i % 4] += a[i] * b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Of coordinate d with values `next` of w at 2^digits points. */
static double cost(int d, int pairs, uint32_t points, const double *next) {
    double sum = of_sets * dot(sets, next, points);
    for (int i = 0; i < d; i++)
        sum += pow(dot(single[i], next, points), 2);
    for (int i = 0; i < pairs; i++)
        sum += of_threes * pow(dot(pair[i], next, points), 2);
    return sum;
}

static uint32_t drawn(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* An odd number below 2^(c+1): the digits that bit c of a point's number flips. */
static uint32_t choose(int d, int pairs, int c) {
    static double next[N];
    uint32_t half = 1u << c, best = 1, count = half < TRIES ? half : TRIES;
    double least = INFINITY;
    for (uint32_t i = 0; i < half; i++)
        next[i] = w_of(point[i]);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t m = ((half <= TRIES ? 2 * k : 2 * drawn()) + 1) & (2 * half - 1);
        for (uint32_t i = 0; i < half; i++)
            next[half + i] = w_of(point[i] ^ m << (31 - c));
        double now = cost(d, pairs, 2 * half, next);
        if (now < least) {
            least = now;
            best = m;
        }
    }
    for (uint32_t i = 0; i < half; i++)
        point[half + i] = point[i] ^ best << (31 - c);
    return best;
}

int main(void) {
    int pairs = 0;
    find_w();
    for (int i = 0; i < N; i++)
        sets[i] = 1;
    for (int d = 0; d < D; d++) {
        printf("    {");
        for (int c = 0; c < COLUMNS; c++)
            printf("%u%s", choose(d, pairs, c), c < COLUMNS - 1 ? ", " : "},\n");
        fflush(stdout);
        for (int i = 0; i < N; i++) {
            single[d][i] = w_of(point[i]);
            sets[i] *= 1 + weight * single[d][i];
        }
        for (int i = 0; i < d && d < THREES; i++, pairs++)
            for (int k = 0; k < N; k++)
                pair[pairs][k] = single[i][k] * single[d][k];
    }
    return 0;
}
