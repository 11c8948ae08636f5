/* Combinations of rows, for few_rows_tile.h. */
/* Combines L rows of y in V vectors of sites. Meanwhile it fetches the same of y from `later` on,
 * and A lines of 64 bytes for each row of a from `next` on. */
INLINE void NAME(combine_tile)(real *y, const real *later, bool add, struct few_rows_matrix C,
                               const real *a, int na, size_t width, int L, int V, const real *next,
                               int A) {
    NAME(vec) sum[HIGH][4] = {0};
    UNROLL for (int l = 0; l < L; l++) {
        UNROLL for (int v = 0; v < V; v++) {
            if (add)
                sum[l][v] = NAME(load)(y + (size_t)l * width + v * LANES);
            if (v * LANES % LINE == 0)
                __builtin_prefetch(later + (size_t)l * width + v * LANES, 1);
        }
    }
    for (int r = 0; r < na; r++) {
        NAME(vec) x[4];
        UNROLL for (int v = 0; v < V; v++) {
            x[v] = NAME(load)(a + (size_t)r * width + v * LANES);
            if (v * LANES % LINE == 0)
                __builtin_prefetch(a + (size_t)(r + 8) * width + v * LANES);
        }
        UNROLL for (int k = 0; k < A; k++) __builtin_prefetch(next + LINE * (A * r + k), 0, 2);
        UNROLL for (int l = 0; l < L; l++) {
            UNROLL for (int v = 0; v < V; v++) sum[l][v] += C.at[(size_t)l * C.row] * x[v];
        }
        C.at += C.column;
    }
    UNROLL for (int l = 0; l < L; l++) {
        UNROLL for (int v = 0; v < V; v++) * (NAME(vec) *)(y + (size_t)l * width + v * LANES) =
            sum[l][v];
    }
}

/* Rows are padded to whole vectors of 64 bytes; what is computed there is never looked at. */
INLINE void NAME(combine_rows)(real *y, bool add, struct few_rows_matrix C, const real *a, int na,
                               int n, size_t width, int L, const real *next, int A) {
    const int V = VECTORS(L), sites = V * LANES;
    int i = 0;
    for (; i + sites <= n; i += sites) {
        const real *later = i + 2 * sites <= n ? y + i + sites : y + (size_t)L * width;
        NAME(combine_tile)(y + i, later, add, C, a + i, na, width, L, V, next, A);
        next += LINE * A * na;
    }
    for (; V > 2 && i + LANES < n; i += 2 * LANES)
        NAME(combine_tile)(y + i, y, add, C, a + i, na, width, L, 2, next, 0);
    for (; i < n; i += LANES)
        NAME(combine_tile)(y + i, y, add, C, a + i, na, width, L, 1, next, 0);
}

/* Functions of their own for each number of rows: only there do their tiles stay in registers. */
#define ROWS(L, A)                                                                                 \
    TARGET static __attribute__((noinline)) void NAME(combine_rows_##L##_##A)(                     \
        real * y, bool add, struct few_rows_matrix C, const real *a, int na, int n, size_t width,  \
        const real *next) {                                                                        \
        NAME(combine_rows)                                                                         \
        (y, add, C, a, na, n, width, L, next, A);                                                  \
    }
ROWS(1, 0)
ROWS(2, 0)
ROWS(3, 0)
#if HIGH > 3
ROWS(4, 0)
ROWS(5, 0)
ROWS(6, 0)
ROWS(6, 1)
ROWS(6, 2)
#else
ROWS(3, 1)
ROWS(3, 2)
#endif

/* All rows of y, some rows of a. Meanwhile `coming` rows from `next` on are fetched, by the first
 * rows of y, A lines of 64 bytes for each row of a and tile. */
TARGET static void NAME(combine_part)(real *y, int ny, bool add, struct few_rows_matrix C,
                                      const real *a, int na, int n, size_t width, const real *next,
                                      int coming) {
    const real *end = next + (size_t)coming * width;
    int A = ny < 4 * HIGH ? 2 : 1;
    for (; ny >= HIGH; ny -= HIGH) {
        if (next >= end)
            NAME(PASTE(combine_rows_, PASTE(HIGH, _0)))(y, add, C, a, na, n, width, next);
        else if (A == 1)
            NAME(PASTE(combine_rows_, PASTE(HIGH, _1)))(y, add, C, a, na, n, width, next);
        else
            NAME(PASTE(combine_rows_, PASTE(HIGH, _2)))(y, add, C, a, na, n, width, next);
        y += HIGH * width;
        C.at += HIGH * C.row;
        next += n / (VECTORS(HIGH) * LANES) * LINE * A * na;
    }
    switch (ny) { /* fewer than HIGH */
#if HIGH > 3
    case 5:
        NAME(combine_rows_5_0)(y, add, C, a, na, n, width, next);
        break;
    case 4:
        NAME(combine_rows_4_0)(y, add, C, a, na, n, width, next);
        break;
    case 3:
        NAME(combine_rows_3_0)(y, add, C, a, na, n, width, next);
        break;
#endif
    case 2:
        NAME(combine_rows_2_0)(y, add, C, a, na, n, width, next);
        break;
    case 1:
        NAME(combine_rows_1_0)(y, add, C, a, na, n, width, next);
    }
}

/* Few rows of y meet each row of a once, whole rows at a time, if a lies in a cache. From memory
 * rows come faster along strips, a few rows at a time: across all rows they come line by line. Many
 * rows of y meet a again, so that a strip of some rows of a stays in the cache while all of them
 * come past; where whole rows are met, the next ones, which lie behind them, are fetched
 * meanwhile. Each element of y is added up in the order of a's rows, whichever way is taken. */
TARGET static void NAME(combine)(real *y, int ny, real beta, struct few_rows_matrix C,
                                 const real *a, int na, int n, size_t width) {
    bool once = ny <= HIGH && (size_t)na * (size_t)n <= SHARED;
    int most = ny <= HIGH ? STRIP : STRIP / 2; /* so that many rows of y stay in the cache, too */
    int strip = n < most || once ? n : most, rows = once ? na : CACHED / strip;
    for (int l = 0; l < ny && beta != 0 && beta != 1; l++)
        for (int i = 0; i < n; i++)
            y[(size_t)l * width + (size_t)i] *= beta;
    for (int i = 0; i < n; i += strip)
        for (int r = 0; r < na; r += rows) {
            int part = na - r < rows ? na - r : rows, left = na - r - part;
            const real *from = a + (size_t)r * width + i;
            NAME(combine_part)
            (y + i, ny, beta != 0 || r,
             (struct few_rows_matrix){C.at + (size_t)r * C.column, C.row, C.column}, from, part,
             n - i < strip ? n - i : strip, width, from + (size_t)part * width,
             strip < n     ? 0
             : left < rows ? left
                           : rows);
        }
}

/* y_k += c[k] x_k */
TARGET static void NAME(add)(real *y, const double *c, const real *x, int rows, int n,
                             size_t width) {
    for (int k = 0; k < rows; k++, x += width, y += width) {
        real factor = c ? (real)c[k] : 1;
        for (int i = 0; i < n; i += LANES)
            *(NAME(vec) *)(y + i) += factor * NAME(load)(x + i);
    }
}

#undef ROWS
