/* The loops of few_rows.c, compiled once for each set of instructions: LANES numbers in a vector,
 * tiles of 4 rows times TILE rows (or, of combine, TILE rows times 4 vectors) in registers. No
 * include guard. */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(name) PASTE(name, SUFFIX)
#define INLINE TARGET static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#define SHUFFLE(x, other) NAME(shuffle)(x, other)
#else
#define UNROLL _Pragma("GCC unroll 8")
#define SHUFFLE __builtin_shuffle
#endif

typedef double NAME(vec) __attribute__((vector_size(8 * LANES), may_alias));
typedef long long NAME(lanes) __attribute__((vector_size(8 * LANES)));

INLINE NAME(vec) NAME(load)(const double *x) {
    return *(const NAME(vec) *)x;
}

#ifdef __clang__
INLINE NAME(vec) NAME(shuffle)(NAME(vec) x, NAME(lanes) from) {
    NAME(vec) y = x;
    UNROLL for (int lane = 0; lane < LANES; lane++) y[lane] = x[from[lane]];
    return y;
}
#endif

/* The sum over lanes. */
INLINE double NAME(total)(NAME(vec) x) {
    UNROLL for (int half = LANES / 2; half; half /= 2) {
        NAME(lanes) other;
        UNROLL for (int lane = 0; lane < LANES; lane++) other[lane] = lane ^ half;
        x += SHUFFLE(x, other);
    }
    return x[0];
}

/* R rows of a times L rows of b, which also fetches A rows from `next` on; R, L and A are constants
 * where this is inlined. C[k * along + l * across]. */
INLINE void NAME(dots_tile)(const double *a, const double *b, int n, size_t width, int R, int L,
                            double *C, size_t along, size_t across, const double *next, int A) {
    NAME(vec) sum[4][TILE] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        NAME(vec) x[4];
        UNROLL for (int r = 0; r < R; r++) x[r] = NAME(load)(a + (size_t)r * width + i);
        UNROLL for (int r = 0; r < A; r++) __builtin_prefetch(next + (size_t)r * width + i);
        UNROLL for (int l = 0; l < L; l++) {
            NAME(vec) y = NAME(load)(b + (size_t)l * width + i);
            UNROLL for (int r = 0; r < R; r++) sum[r][l] += x[r] * y;
        }
    }
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int l = 0; l < L; l++) {
            double total = NAME(total)(sum[r][l]);
            const double *x = a + (size_t)r * width, *y = b + (size_t)l * width;
            for (int j = i; j < n; j++)
                total += x[j] * y[j];
            C[(size_t)r * along + (size_t)l * across] += total;
        }
    }
}

INLINE void NAME(dots_rows)(const double *a, int na, const double *b, int n, size_t width, int L,
                            double *C, size_t along, size_t across, const double *next, int A) {
    size_t r = 0, rows = (size_t)na;
    for (; r + 4 <= rows; r += 4)
        NAME(dots_tile)
    (a + r * width, b, n, width, 4, L, C + r * along, along, across,
     next + r / 4 * (size_t)A * width, A);
    for (; r < rows; r++)
        NAME(dots_tile)(a + r * width, b, n, width, 1, L, C + r * along, along, across, next, 0);
}

/* Some rows of a, which stay in the cache, while all of b come past. Meanwhile the next ones are
 * fetched: A rows with each 4 of a times TILE of b. */
INLINE void NAME(dots_chunk)(const double *a, int na, const double *b, int nb, int n, size_t width,
                             double *C, size_t along, size_t across, int A) {
    const double *next = a + CHUNK * width;
    for (; nb >= TILE; nb -= TILE) {
        NAME(dots_rows)(a, na, b, n, width, TILE, C, along, across, next, A);
        b += TILE * width;
        C += TILE * across;
        next += (size_t)(CHUNK / 4 * A) * width;
    }
    switch (nb) { /* fewer than TILE */
    case 4:
        NAME(dots_rows)(a, na, b, n, width, TILE > 4 ? 4 : 1, C, along, across, next, A);
        break;
    case 3:
        NAME(dots_rows)(a, na, b, n, width, TILE > 3 ? 3 : 1, C, along, across, next, A);
        break;
    case 2:
        NAME(dots_rows)(a, na, b, n, width, 2, C, along, across, next, A);
        break;
    case 1:
        NAME(dots_rows)(a, na, b, n, width, 1, C, along, across, next, A);
    }
}

TARGET static void NAME(dots)(const double *a, int na, const double *b, int nb, int n, size_t width,
                              double *C, size_t along, size_t across) {
    for (; na > 0; na -= CHUNK) {
        int rows = na < CHUNK ? na : CHUNK;
        if (nb > 2 * TILE)
            NAME(dots_chunk)(a, rows, b, nb, n, width, C, along, across, 1);
        else
            NAME(dots_chunk)(a, rows, b, nb, n, width, C, along, across, 4);
        a += CHUNK * width;
        C += CHUNK * along;
    }
}

/* L rows of y, V vectors of sites; rows of C are `stride` apart. */
INLINE void NAME(combine_tile)(double *y, double beta, const double *C, size_t stride,
                               const double *a, int na, size_t width, int L, int V) {
    NAME(vec) sum[TILE][4] = {0};
    if (beta != 0)
        UNROLL for (int l = 0; l < L; l++) {
            UNROLL for (int v = 0; v < V; v++) sum[l][v] =
                beta * NAME(load)(y + (size_t)l * width + v * LANES);
        }
    for (int r = 0; r < na; r++) {
        NAME(vec) x[4];
        UNROLL for (int v = 0; v < V; v++) {
            x[v] = NAME(load)(a + (size_t)r * width + v * LANES);
            __builtin_prefetch(a + (size_t)(r + 8) * width + v * LANES);
        }
        UNROLL for (int l = 0; l < L; l++) {
            UNROLL for (int v = 0; v < V; v++) sum[l][v] +=
                C[(size_t)l * stride + (size_t)r] * x[v];
        }
    }
    UNROLL for (int l = 0; l < L; l++) {
        UNROLL for (int v = 0; v < V; v++) * (NAME(vec) *)(y + (size_t)l * width + v * LANES) =
            sum[l][v];
    }
}

/* Rows are padded to whole vectors of 64 bytes; what is computed there is never looked at. */
INLINE void NAME(combine_rows)(double *y, double beta, const double *C, size_t stride,
                               const double *a, int na, int n, size_t width, int L) {
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        NAME(combine_tile)(y + i, beta, C, stride, a + i, na, width, L, 4);
    for (; i < n; i += LANES)
        NAME(combine_tile)(y + i, beta, C, stride, a + i, na, width, L, 1);
}

/* All rows of y, some rows of a. */
INLINE void NAME(combine_part)(double *y, int ny, double beta, const double *C, size_t stride,
                               const double *a, int na, int n, size_t width) {
    for (; ny >= TILE; ny -= TILE) {
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, TILE);
        y += TILE * width;
        C += TILE * stride;
    }
    switch (ny) { /* fewer than TILE */
    case 4:
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, TILE > 4 ? 4 : 1);
        break;
    case 3:
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, TILE > 3 ? 3 : 1);
        break;
    case 2:
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, 2);
        break;
    case 1:
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, 1);
    }
}

/* As many rows of a at a time as stay in the cache while all rows of y come past. */
TARGET static void NAME(combine)(double *y, int ny, double beta, const double *C, const double *a,
                                 int na, int n, size_t width) {
    int rows = ny > TILE ? (int)(CACHED / width) : na;
    rows = rows < 4 ? 4 : rows;
    for (int r = 0; r < na; r += rows)
        NAME(combine_part)
    (y, ny, r ? 1 : beta, C + r, (size_t)na, a + (size_t)r * width, na - r < rows ? na - r : rows,
     n, width);
}

#undef PASTE_
#undef PASTE
#undef NAME
#undef INLINE
#undef UNROLL
#undef SHUFFLE
#undef SUFFIX
#undef TARGET
#undef LANES
#undef TILE
