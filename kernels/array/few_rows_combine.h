/* Combinations of rows, for few_rows_tile.h. */
/* Combines L rows of y in V vectors of sites. Meanwhile it fetches the same of y from `later` on,
 * and if `fetch` a line with each row of a, the first of them at `next`, `step` apart. */
INLINE void NAME(combine_tile)(real *y, const real *later, bool add, struct few_rows_matrix C,
                               const real *a, int na, size_t width, int L, int V, bool fetch,
                               const real *next, size_t step) {
    NAME(vec) sum[HIGH][4] = {0};
    const int ahead = V * LANES > 2 * LINE ? 8 : 16; /* rows of a */
    const real *from[HIGH / 4 + 1];                  /* each of four rows of coefficients */
    UNROLL for (int l = 0; l < L; l += 4) from[l / 4] = C.at + (size_t)l * C.row;
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
                __builtin_prefetch(a + (size_t)(r + ahead) * width + v * LANES);
        }
        if (fetch) {
            __builtin_prefetch(next, 0, 2);
            next += step;
        }
        UNROLL for (int l = 0; l < L; l++) {
            UNROLL for (int v = 0; v < V; v++) sum[l][v] +=
                from[l / 4][(size_t)(l % 4) * C.row] * x[v];
        }
        UNROLL for (int l = 0; l < L; l += 4) from[l / 4] += C.column;
    }
    UNROLL for (int l = 0; l < L; l++) {
        UNROLL for (int v = 0; v < V; v++) * (NAME(vec) *)(y + (size_t)l * width + v * LANES) =
            sum[l][v];
    }
}

/* Rows are padded to whole vectors of 64 bytes; what is computed there is never looked at. */
INLINE void NAME(combine_rows)(real *y, bool add, struct few_rows_matrix C, const real *a, int na,
                               int n, size_t width, int L, bool fetch, const real *next,
                               size_t step) {
    const int V = VECTORS(L), sites = V * LANES;
    int i = 0;
    for (; i + sites <= n; i += sites) {
        const real *later = i + 2 * sites <= n ? y + i + sites : y + (size_t)L * width;
        NAME(combine_tile)(y + i, later, add, C, a + i, na, width, L, V, fetch, next, step);
        next += step * (size_t)na;
    }
    for (; V > 2 && i + LANES < n; i += 2 * LANES)
        NAME(combine_tile)(y + i, y, add, C, a + i, na, width, L, 2, false, next, 0);
    for (; i < n; i += LANES)
        NAME(combine_tile)(y + i, y, add, C, a + i, na, width, L, 1, false, next, 0);
}

/* Functions of their own for each number of rows: only there do their tiles stay in registers. */
#define ROWS(L, fetch)                                                                             \
    TARGET static __attribute__((noinline)) void NAME(combine_rows_##L##_##fetch)(                 \
        real * y, bool add, struct few_rows_matrix C, const real *a, int na, int n, size_t width,  \
        const real *next, size_t step) {                                                           \
        NAME(combine_rows)(y, add, C, a, na, n, width, L, fetch, next, step);                      \
    }
#define TALL(L, fetch) {L, fetch, NAME(combine_rows_##L##_##fetch)},
COMBINE_ROWS(ROWS)
/* The tallest first; of equal ones, the second where there is nothing to fetch. */
static const struct {
    int rows;
    bool fetch;
    void (*call)(real *, bool, struct few_rows_matrix, const real *, int, int, size_t, const real *,
                 size_t);
} NAME(combine_tiles)[] = {COMBINE_ROWS(TALL)};

/* All rows of y, some rows of a. Meanwhile `coming` rows from `next` on are fetched. Few or short
 * rows of y meet a in few passes, of tall tiles; more, which meet it often, in wide ones, which
 * load less. No row is left for a tile of its own. */
TARGET static void NAME(combine_part)(real *y, int ny, bool add, struct few_rows_matrix C,
                                      const real *a, int na, int n, size_t width, const real *next,
                                      int coming) {
    const real *end = next + (size_t)coming * width;
    int most = ny > 2 * HIGH && n > 2 * LANES ? 6 : HIGH;
    for (int k = 0; ny > 0;) {
        int L = NAME(combine_tiles)[k].rows;
        bool fetch = NAME(combine_tiles)[k].fetch;
        if (L > ny || L > most || (L + 1 == ny && L > 1) ||
            (fetch && next >= end && NAME(combine_tiles)[k + 1].rows == L)) {
            k++;
            continue;
        }
        size_t step = next < end && fetch ? LINE : 0;
        NAME(combine_tiles)[k].call(y, add, C, a, na, n, width, next, step);
        y += (size_t)L * width;
        C.at += (size_t)L * C.row;
        ny -= L;
        next += (size_t)(n / (VECTORS(L) * LANES)) * step * (size_t)na;
    }
}

/* Few rows of y meet each row of a once, whole rows at a time, if a lies in a cache. From memory
 * rows come faster along strips, a few rows at a time: across all rows they come line by line. Many
 * rows of y meet a again, so that a strip of some rows of a stays in the cache while all of them
 * come past; where whole rows are met, the next ones, which lie behind them, are fetched
 * meanwhile. Each element of y is added up in the order of a's rows, whichever way is taken. */
TARGET static void NAME(combine)(real *y, int ny, real beta, struct few_rows_matrix C,
                                 const real *a, int na, int n, size_t width) {
    bool once = ny <= WHOLE && (size_t)na * (size_t)n <= SHARED;
    int most = ny <= WHOLE ? STRIP : STRIP / 2; /* so that many rows of y stay in the cache, too */
    int strip = n < most || once ? n : most, rows = once ? na : CACHED / strip;
    for (int l = 0; l < ny && beta != 0 && beta != 1; l++)
        for (int i = 0; i < n; i++)
            y[(size_t)l * width + (size_t)i] *= beta;
    for (int i = 0; i < n; i += strip)
        for (int r = 0; r < na; r += rows) {
            int part = na - r < rows ? na - r : rows, left = na - r - part;
            const real *from = a + (size_t)r * width + i;
            /* What is to come is y, where it is large and each tile has time for it. */
            bool last = !left && na > 2 * HIGH && (size_t)ny * (size_t)n > CACHED;
            int coming = last ? ny : left < rows ? left : rows;
            NAME(combine_part)
            (y + i, ny, beta != 0 || r,
             (struct few_rows_matrix){C.at + (size_t)r * C.column, C.row, C.column}, from, part,
             n - i < strip ? n - i : strip, width, last ? y : from + (size_t)part * width,
             strip < n ? 0 : coming);
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
#undef TALL
