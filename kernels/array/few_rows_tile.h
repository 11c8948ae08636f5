/* The loops of few_rows.c, compiled once for each set of instructions: LANES numbers in a vector.
 * In registers lie, of dots, 4 rows times NARROW rows or WIDE rows times PANEL columns, of combine,
 * up to HIGH rows times VECTORS(rows) vectors. No include guard. */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(name) PASTE(name, SUFFIX)
#define INLINE TARGET static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#define SHUFFLE(x, y, from) NAME(shuffle)(x, y, from)
#else
#define UNROLL _Pragma("GCC unroll 16")
#define SHUFFLE __builtin_shuffle
#endif

typedef real NAME(vec) __attribute__((vector_size(REAL_BYTES * LANES), may_alias));
typedef real_lane NAME(lanes) __attribute__((vector_size(REAL_BYTES * LANES)));

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

#include "kernels/array/few_rows_dots.h"
#include "kernels/array/few_rows_combine.h"
#ifdef SINGLE
#include "kernels/array/few_rows_matrix.h"
#endif

#undef PASTE_
#undef PASTE
#undef NAME
#undef INLINE
#undef UNROLL
#undef SHUFFLE
#undef SUFFIX
#undef TARGET
#undef LANES
#undef NARROW
#undef WIDE
#undef PANEL
#undef HIGH
#undef VECTORS
