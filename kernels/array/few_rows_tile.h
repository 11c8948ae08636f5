/* The loops of few_rows.c, compiled once for each set of instructions: LANES numbers in a vector.
 * In registers lie, of dots, 4 rows times NARROW rows or WIDE rows times PANEL columns, of combine,
 * up to HIGH rows times VECTORS(rows) vectors. No include guard. */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(name) PASTE(name, SUFFIX)
#define INLINE TARGET static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#define ONCE _Pragma("nounroll")
#define SHUFFLE(x, y, from) NAME(shuffle)(x, y, from)
#else
#define UNROLL _Pragma("GCC unroll 16")
#define ONCE _Pragma("GCC unroll 1")
#define SHUFFLE __builtin_shuffle
#endif

typedef real NAME(vec) __attribute__((vector_size(REAL_BYTES * LANES), may_alias));
typedef real_lane NAME(lanes) __attribute__((vector_size(REAL_BYTES * LANES), may_alias));
typedef real_bits NAME(bits) __attribute__((vector_size(REAL_BYTES * LANES)));

INLINE NAME(vec) NAME(load)(const real *x) {
    return *(const NAME(vec) *)x;
}

#ifdef __clang__
INLINE NAME(vec) NAME(shuffle)(NAME(vec) x, NAME(vec) y, NAME(lanes) from) {
    NAME(vec) z = x;
    UNROLL for (int lane = 0; lane < LANES; lane++) z[lane] =
        from[lane] < LANES ? x[from[lane]] : y[from[lane] - LANES];
    return z;
}
#endif

/* The first `count` lanes, and 0 in the others, whatever is there. */
INLINE NAME(vec) NAME(first)(NAME(vec) x, int count) {
    NAME(lanes) in;
    UNROLL for (int lane = 0; lane < LANES; lane++) in[lane] = lane < count ? -1 : 0;
    return (NAME(vec))((NAME(lanes))x & in);
}

/* Whole numbers in the order of x, without a difference between 0 and -0; that of NaN, whatever its
 * sign, is the largest. */
INLINE NAME(lanes) NAME(keys)(NAME(vec) x) {
    NAME(lanes) bits = (NAME(lanes))(x + 0), sign = bits >> (8 * REAL_BYTES - 1);
    NAME(lanes) none = (NAME(lanes))(x != x), largest = (NAME(lanes))((NAME(bits))none >> 1);
    return ((bits ^ (NAME(lanes))((NAME(bits))sign >> 1)) & ~none) | largest;
}

/* A number is one of the K largest where fewer than K come before it: no branch depends on them. */
TARGET static void NAME(top)(const real *x, int n, int K, real *mask) {
    real_lane key[FEW_ROWS_TOP] __attribute__((aligned(64)));
    for (int i = 0; i < n; i += LANES)
        *(NAME(lanes) *)(key + i) = NAME(keys)(NAME(load)(x + i));
    for (int i = 0; i < n; i += LANES) {
        NAME(lanes) mine = *(NAME(lanes) *)(key + i), place, before = {0};
        NAME(vec) one = (NAME(vec)){0} + 1;
        UNROLL for (int lane = 0; lane < LANES; lane++) place[lane] = i + lane;
        for (int j = 0; j < n; j++)
            before -= (mine < key[j]) | ((mine == key[j]) & (place > j));
        *(NAME(vec) *)(mask + i) = (NAME(vec))((before < K) & (NAME(lanes))one);
    }
}

#ifndef SINGLE
/* PEAK_SUMS independent sums keep all units of multiply-adds at work. */
TARGET static void NAME(peak)(double *x, long multiply_adds) {
    NAME(vec) sum[PEAK_SUMS], shrink = (NAME(vec)){0} + 0.5, one = (NAME(vec)){0} + 1;
    UNROLL for (int k = 0; k < PEAK_SUMS; k++) sum[k] = one + k;
    for (long done = 0; done < multiply_adds; done += PEAK_SUMS * LANES) {
        UNROLL for (int k = 0; k < PEAK_SUMS; k++) sum[k] = sum[k] * shrink + one;
    }
    UNROLL for (int k = 1; k < PEAK_SUMS; k++) sum[0] += sum[k];
    *x = sum[0][0];
}
#endif

#include "kernels/array/few_rows_dots.h"
#include "kernels/array/few_rows_combine.h"
#include "kernels/array/few_rows_matrix.h"

#undef PASTE_
#undef PASTE
#undef NAME
#undef INLINE
#undef UNROLL
#undef ONCE
#undef SHUFFLE
#undef SUFFIX
#undef TARGET
#undef LANES
#undef NARROW
#undef WIDE
#undef PANEL
#undef HIGH
#undef COMBINE_ROWS
#undef VECTORS
