/* Combinations of rows, for few_rows_tile.h. */
/* Combines L rows of y in V vectors of sites, and fetches the same of y from `later` on. */
INLINE void NAME(combine_tile)(real *y, const real *later, bool add, struct few_rows_matrix C,
                               const real *a, int na, size_t width, int L, int V) {
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
                               int n, size_t width, int L) {
    const int V = VECTORS(L), sites = V * LANES;
    int i = 0;
    for (; i + sites <= n; i += sites) {
        const real *later = i + 2 * sites <= n ? y + i + sites : y + (size_t)L * width;
        NAME(combine_tile)(y + i, later, add, C, a + i, na, width, L, V);
    }
    for (; V > 2 && i + LANES < n; i += 2 * LANES)
        NAME(combine_tile)(y + i, y, add, C, a + i, na, width, L, 2);
    for (; i < n; i += LANES)
        NAME(combine_tile)(y + i, y, add, C, a + i, na, width, L, 1);
}

/* Functions of their own for each number of rows: only there do their tiles stay in registers. */
#define ROWS(L)                                                                                    \
    TARGET static __attribute__((noinline)) void NAME(combine_rows_##L)(                           \
        real * y, bool add, struct few_rows_matrix C, const real *a, int na, int n,                \
        size_t width) {                                                                            \
        NAME(combine_rows)(y, add, C, a, na, n, width, L);                                         \
    }
#define TALL(L) {L, NAME(combine_rows_##L)},
COMBINE_ROWS(ROWS)
static const struct {
    int rows;
    void (*call)(real *, bool, struct few_rows_matrix, const real *, int, int, size_t);
} NAME(combine_tiles)[] = {COMBINE_ROWS(TALL)}; /* the tallest first */

/* All rows of y, some rows of a. Few or short rows of y meet a in few passes, of tall tiles; more,
 * which meet it often, in wide ones, which load less. No row is left for a tile of its own. */
TARGET static void NAME(combine_part)(real *y, int ny, bool add, struct few_rows_matrix C,
                                      const real *a, int na, int n, size_t width) {
    int most = ny > 2 * HIGH && n > 2 * LANES ? 6 : HIGH;
    for (int k = 0; ny > 0;) {
        int L = NAME(combine_tiles)[k].rows;
        if (L > ny || L > most || (L + 1 == ny && L > 1)) {
            k++;
            continue;
        }
        NAME(combine_tiles)[k].call(y, add, C, a, na, n, width);
        y += (size_t)L * width;
        C.at += (size_t)L * C.row;
        ny -= L;
    }
}

/* Few rows of y meet each row of a once, whole rows at a time, if a lies in a cache. From memory
 * rows come faster along strips, a few rows at a time: across all rows they come line by line. Many
 * rows of y meet a again, so that a strip of some rows of a stays in the cache while all of them
 * come past; it is short, so that it has more rows and y is met less often. Each element of y is
 * added up in the order of a's rows, whichever way is taken. */
TARGET static void NAME(combine)(real *y, int ny, real beta, struct few_rows_matrix C,
                                 const real *a, int na, int n, size_t width) {
    bool once = ny <= WHOLE && (size_t)na * (size_t)n <= SHARED;
    int most = ny <= WHOLE ? STRIP : MET_AGAIN;
    int strip = n < most || once ? n : most, rows = once ? na : CACHED / strip;
    for (int l = 0; l < ny && beta != 0 && beta != 1; l++)
        for (int i = 0; i < n; i++)
            y[(size_t)l * width + (size_t)i] *= beta;
    for (int i = 0; i < n; i += strip)
        for (int r = 0; r < na; r += rows)
            NAME(combine_part)
    (y + i, ny, beta != 0 || r,
     (struct few_rows_matrix){C.at + (size_t)r * C.column, C.row, C.column},
     a + (size_t)r * width + i, na - r < rows ? na - r : rows, n - i < strip ? n - i : strip,
     width);
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
