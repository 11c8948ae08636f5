/* The loops of few_rows.c, compiled once for each set of instructions: LANES numbers in a vector,
 * tiles of 4 rows times TILE rows (or, of combine, TILE rows times 4 vectors) in registers. No
 * include guard. */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(name) PASTE(name, SUFFIX)
#define INLINE TARGET static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#define SHUFFLE(x, y, from) NAME(shuffle)(x, y, from)
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

/* Of both vectors the sums of lanes that are `half` apart, side by side. */
INLINE NAME(vec) NAME(fold)(NAME(vec) x, NAME(vec) y, int half) {
    NAME(lanes) near, far;
    UNROLL for (int lane = 0, k = 0; lane < LANES; lane++) if (!(lane & half)) {
        near[k] = lane;
        near[k + LANES / 2] = LANES + lane;
        far[k] = lane + half;
        far[k++ + LANES / 2] = LANES + lane + half;
    }
    return SHUFFLE(x, y, near) + SHUFFLE(x, y, far);
}

/* The sums over lanes of R vectors, 1 or 4, TILE apart. */
INLINE void NAME(totals)(const NAME(vec) * x, int R, double *total) {
    NAME(vec) y[4];
    int count = R;
    UNROLL for (int r = 0; r < R; r++) y[r] = x[r * TILE];
    UNROLL for (int half = LANES / 2; half; half /= 2) {
        UNROLL for (int r = 0; r < count; r += 2) y[r / 2] =
            NAME(fold)(y[r], y[r + 1 < count ? r + 1 : r], half);
        count = (count + 1) / 2;
    }
    UNROLL for (int r = 0; r < count; r++) * (NAME(vec) *)(total + (ptrdiff_t)r * LANES) = y[r];
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
    if (i < n)
        UNROLL for (int l = 0; l < L; l++) {
            NAME(vec) y = NAME(first)(NAME(load)(b + (size_t)l * width + i), n - i);
            UNROLL for (int r = 0; r < R; r++) sum[r][l] +=
                NAME(first)(NAME(load)(a + (size_t)r * width + i), n - i) * y;
        }
    UNROLL for (int l = 0; l < L; l++) {
        double total[4 * LANES] __attribute__((aligned(64)));
        NAME(totals)(&sum[0][l], R, total);
        UNROLL for (int r = 0; r < R; r++) C[(size_t)r * along + (size_t)l * across] += total[r];
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

/* L rows of y, V vectors of sites; rows of C are `stride` apart. Meanwhile A lines of 64 bytes for
 * each row of a are fetched from `next` on. */
INLINE void NAME(combine_tile)(double *y, double beta, const double *C, size_t stride,
                               const double *a, int na, size_t width, int L, int V,
                               const double *next, int A) {
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
        UNROLL for (int k = 0; k < A; k++) __builtin_prefetch(next + 8 * (A * r + k), 0, 2);
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
                               const double *a, int na, int n, size_t width, int L,
                               const double *next, int A) {
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        NAME(combine_tile)(y + i, beta, C, stride, a + i, na, width, L, 4, next, A);
        next += 8 * A * na;
    }
    for (; i < n; i += LANES)
        NAME(combine_tile)(y + i, beta, C, stride, a + i, na, width, L, 1, next, 0);
}

/* All rows of y, some rows of a. */
INLINE void NAME(combine_part)(double *y, int ny, double beta, const double *C, size_t stride,
                               const double *a, int na, int n, size_t width, const double *next,
                               int A) {
    for (; ny >= TILE; ny -= TILE) {
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, TILE, next, A);
        y += TILE * width;
        C += TILE * stride;
        next += n / (4 * LANES) * 8 * A * na;
    }
    switch (ny) { /* fewer than TILE */
    case 4:
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, TILE > 4 ? 4 : 1, next, A);
        break;
    case 3:
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, TILE > 3 ? 3 : 1, next, A);
        break;
    case 2:
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, 2, next, A);
        break;
    case 1:
        NAME(combine_rows)(y, beta, C, stride, a, na, n, width, 1, next, A);
    }
}

/* A part of the rows of a stays in the cache while all rows of y come past. Where whole rows are
 * met, the next part, which lies behind it, is fetched, A lines of 64 bytes a row and tile. */
#define PART(A)                                                                                    \
    NAME(combine_part)                                                                             \
    (y, ny, r ? 1 : beta, C + r, (size_t)na, from, part, n, width, from + (size_t)part * width, A)

TARGET static void NAME(combine_parts)(double *y, int ny, double beta, const double *C,
                                       const double *a, int na, int n, size_t width, int rows) {
    for (int r = 0; r < na; r += rows) {
        int part = na - r < rows ? na - r : rows;
        const double *from = a + (size_t)r * width;
        if (r + part == na || n < (int)width)
            PART(0);
        else if (ny <= 3 * TILE)
            PART((LANES / 2 + 1) / 2);
        else
            PART((LANES / 2 + 3) / 4);
    }
}

/* Rows of a that are met once stream past; where they are met again, in strips that leave room in
 * the cache for at least CACHED / STRIP of them. */
TARGET static void NAME(combine)(double *y, int ny, double beta, const double *C, const double *a,
                                 int na, int n, size_t width) {
    if (ny <= TILE) {
        NAME(combine_parts)(y, ny, beta, C, a, na, n, width, na);
        return;
    }
    int strip = n < STRIP ? n : STRIP;
    for (int i = 0; i < n; i += strip)
        NAME(combine_parts)
    (y + i, ny, beta, C, a + i, na, n - i < strip ? n - i : strip, width, CACHED / strip);
}

#undef PART
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
