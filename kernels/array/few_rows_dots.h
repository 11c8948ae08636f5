/* Sums over sites of products of rows, for few_rows_tile.h. The factor with more rows streams past
 * once. Few rows of the other are met row by row, lanes being sites; more lie in panels of
 * PANEL columns, site after site, lanes being columns, so that no lanes are to be added up. */
/* The sums of lanes that are `half` apart, of both vectors side by side. */
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

/* The sums over lanes of R vectors, 1 or 4, NARROW apart. */
INLINE void NAME(totals)(const NAME(vec) * x, int R, real *total) {
    NAME(vec) y[4];
    int count = R;
    UNROLL for (int r = 0; r < R; r++) y[r] = x[r * NARROW];
    UNROLL for (int half = LANES / 2; half; half /= 2) {
        UNROLL for (int r = 0; r < count; r += 2) y[r / 2] =
            NAME(fold)(y[r], y[r + 1 < count ? r + 1 : r], half);
        count = (count + 1) / 2;
    }
    UNROLL for (int r = 0; r < count; r++) * (NAME(vec) *)(total + (ptrdiff_t)r * LANES) = y[r];
}

/* R rows of a times L rows of b, which also fetches A rows from `next` on; R, L and A are constants
 * where this is inlined. C[k * stride + l * step]. */
INLINE void NAME(dots_tile)(const real *a, const real *b, int n, size_t width, int R, int L,
                            double *C, size_t stride, size_t step, const real *next, int A) {
    NAME(vec) sum[4][NARROW] = {0};
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
        real total[4 * LANES] __attribute__((aligned(64)));
        NAME(totals)(&sum[0][l], R, total);
        UNROLL for (int r = 0; r < R; r++) C[(size_t)r * stride + (size_t)l * step] += total[r];
    }
}

INLINE void NAME(dots_rows)(const real *a, int na, const real *b, int n, size_t width, int L,
                            double *C, size_t stride, const real *next, int A) {
    size_t r = 0, rows = (size_t)na;
    for (; r + 4 <= rows; r += 4)
        NAME(dots_tile)
    (a + r * width, b, n, width, 4, L, C + r * stride, stride, 1, next + r / 4 * (size_t)A * width,
     A);
    for (; r < rows; r++)
        NAME(dots_tile)(a + r * width, b, n, width, 1, L, C + r * stride, stride, 1, next, 0);
}

/* Some rows of a, which stay in the cache, while all of b come past. Meanwhile the next ones are
 * fetched: A rows with each 4 of a times NARROW of b. */
INLINE void NAME(dots_chunk)(const real *a, int na, const real *b, int nb, int n, size_t width,
                             double *C, size_t stride, int A) {
    const real *next = a + CHUNK * width;
    for (; nb >= NARROW; nb -= NARROW) {
        NAME(dots_rows)(a, na, b, n, width, NARROW, C, stride, next, A);
        b += NARROW * width;
        C += NARROW;
        next += (size_t)(CHUNK / 4 * A) * width;
    }
    switch (nb) { /* fewer than NARROW */
    case 4:
        NAME(dots_rows)(a, na, b, n, width, NARROW > 4 ? 4 : 1, C, stride, next, A);
        break;
    case 3:
        NAME(dots_rows)(a, na, b, n, width, NARROW > 3 ? 3 : 1, C, stride, next, A);
        break;
    case 2:
        NAME(dots_rows)(a, na, b, n, width, 2, C, stride, next, A);
        break;
    case 1:
        NAME(dots_rows)(a, na, b, n, width, 1, C, stride, next, A);
    }
}

/* Transposes LANES sites of up to LANES rows of b, and writes the first `sites` of them, `apart`
 * from one another, each site's numbers side by side; rows that do not exist are 0. */
INLINE void NAME(turn)(const real *b, int rows, size_t width, real *out, int sites, size_t apart) {
    NAME(lanes) near, far;
    NAME(vec) x[LANES], y[LANES];
    UNROLL for (int lane = 0; lane < LANES; lane++) {
        near[lane] = lane / 2 + lane % 2 * LANES;
        far[lane] = near[lane] + LANES / 2;
    }
    UNROLL for (int l = 0; l < LANES; l++) x[l] =
        l < rows ? NAME(load)(b + (size_t)l * width) : (NAME(vec)){0};
    UNROLL for (int length = 1; length < LANES; length *= 2) {
        UNROLL for (int l = 0; l < LANES / 2; l++) {
            y[2 * l] = SHUFFLE(x[l], x[l + LANES / 2], near);
            y[2 * l + 1] = SHUFFLE(x[l], x[l + LANES / 2], far);
        }
        UNROLL for (int l = 0; l < LANES; l++) x[l] = y[l];
    }
    UNROLL for (int l = 0; l < LANES; l++) if (l < sites) * (NAME(vec) *)(out + (size_t)l * apart) =
        x[l];
}

/* R rows of a times V vectors of a panel, of which `columns` numbers count, over n sites. Meanwhile
 * the rows of the next tile are fetched, as far as the first cache has room for them, else the next
 * lines of these rows. R and V are constants where this is inlined. */
INLINE void NAME(panel_tile)(const real *a, const real *panel, int n, size_t width, int R, int V,
                             int columns, double *C, size_t stride) {
    NAME(vec) sum[WIDE][PANEL / LANES] = {0};
    size_t ahead = WIDE == 12 ? 4 * LINE : WIDE * width;
    const real *from[WIDE / 4 + 1]; /* each of four rows */
    UNROLL for (int r = 0; r < R; r += 4) from[r / 4] = a + (size_t)r * width;
    UNROLL for (int r = 0; r < R; r++) __builtin_prefetch(C + (size_t)r * stride, 1);
    for (int left = n; left > 0; left -= LINE) {
        UNROLL for (int r = 0; r < R; r++)
            __builtin_prefetch(from[r / 4] + (size_t)(r % 4) * width + ahead);
        for (int sites = left < LINE ? left : LINE; sites > 0; sites--) {
            NAME(vec) y[PANEL / LANES];
            UNROLL for (int v = 0; v < V; v++) {
                y[v] = NAME(load)(panel + v * LANES);
                __builtin_prefetch(panel + 8 * PANEL + v * LANES);
            }
            UNROLL for (int r = 0; r < R; r++) {
                UNROLL for (int v = 0; v < V; v++) sum[r][v] +=
                    from[r / 4][(size_t)(r % 4) * width] * y[v];
            }
            UNROLL for (int r = 0; r < R; r += 4) from[r / 4]++;
            panel += PANEL;
        }
    }
    UNROLL for (int r = 0; r < R; r++) {
        double *out = C + (size_t)r * stride;
        real total[PANEL] __attribute__((aligned(64)));
        UNROLL for (int v = 0; v < V; v++) * (NAME(vec) *)(total + v * LANES) = sum[r][v];
        if (columns == V * LANES)
            for (int l = 0; l < V * LANES; l++)
                out[l] += total[l];
        else
            for (int l = 0; l < V * LANES && l < columns; l++)
                out[l] += total[l];
    }
}

/* Functions of their own for each number of rows: only there do tiles stay in registers. */
#define TILE(R, V)                                                                                 \
    TARGET static __attribute__((noinline)) void NAME(panel_tile_##R##_##V)(                       \
        const real *a, const real *panel, int n, size_t width, int columns, double *C,             \
        size_t stride) {                                                                           \
        NAME(panel_tile)(a, panel, n, width, R, V, columns, C, stride);                            \
    }
#define TILES(R) TILE(R, 1) TILE(R, 2)
TILE(1, 2)
TILE(4, 2)
TILES(WIDE)
#define WIDE_TILE(V) NAME(PASTE(panel_tile_, PASTE(WIDE, _##V)))

/* Rows of a, at most WIDE, times each panel of nb columns. */
INLINE void NAME(panel_rows)(const real *a, int na, const real *panels, int nb, int n, size_t width,
                             double *C, size_t stride) {
    for (int l = 0, r = 0; l < nb; l += PANEL, r = 0) {
        const real *panel = panels + (size_t)l * SITES;
        int columns = nb - l < PANEL ? nb - l : PANEL;
        if (na == WIDE)
            (columns > LANES ? WIDE_TILE(2) : WIDE_TILE(1))(a, panel, n, width, columns, C + l,
                                                            stride);
        else {
            for (; r + 4 <= na; r += 4)
                NAME(panel_tile_4_2)
            (a + (size_t)r * width, panel, n, width, columns, C + (size_t)r * stride + l, stride);
            for (; r < na; r++)
                NAME(panel_tile_1_2)
            (a + (size_t)r * width, panel, n, width, columns, C + (size_t)r * stride + l, stride);
        }
    }
}

/* How many of nb rows are met row by row: what a panel, or half of it, would be too wide for. */
INLINE int NAME(single_rows)(int nb) {
    int rest = nb % PANEL;
    return rest <= NARROW || (rest > LANES && rest <= 2 * NARROW) ? rest : 0;
}

/* At most COLUMNS rows of b and SITES sites. */
TARGET static void NAME(dots_panels)(const real *a, int na, const real *b, int nb, int n,
                                     size_t width, double *C, size_t stride) {
    real panels[COLUMNS * SITES] __attribute__((aligned(64)));
    int rest = NAME(single_rows)(nb), whole = nb - rest;
    for (int l = 0; l < (whole + PANEL - 1) / PANEL * PANEL; l += LANES)
        for (int i = 0; i < n; i += LANES)
            NAME(turn)
    (b + (size_t)l * width + i, whole - l, width,
     panels + (size_t)(l / PANEL * SITES + i) * PANEL + l % PANEL, LANES, PANEL);
    for (int k = 0; k < na; k += WIDE) {
        int rows = na - k < WIDE ? na - k : WIDE;
        const real *x = a + (size_t)k * width;
        double *out = C + (size_t)k * stride;
        NAME(panel_rows)(x, rows, panels, whole, n, width, out, stride);
        NAME(dots_chunk)
        (x, rows, b + (size_t)whole * width, rest, n, width, out + whole, stride, 0);
    }
}

#if NARROW == 3
/* Four rows of b, a row of registers each, while NARROW of a at a time come past. */
TARGET static void NAME(dots_of_four)(const real *a, int na, const real *b, int n, size_t width,
                                      double *C, size_t stride) {
    int k = 0;
    for (; k + NARROW <= na; k += NARROW, a += NARROW * width, C += NARROW * stride)
        NAME(dots_tile)(b, a, n, width, 4, NARROW, C, 1, stride, a + NARROW * width, NARROW);
    for (; k < na; k++, a += width, C += stride)
        NAME(dots_tile)(b, a, n, width, 4, 1, C, 1, stride, a, 0);
}
#endif

TARGET static void NAME(dots)(const real *a, int na, const real *b, int nb, int n, size_t width,
                              double *C, size_t stride) {
#if NARROW == 3
    if (nb == 4) {
        for (int i = 0; i < n; i += SITES)
            NAME(dots_of_four)
        (a + i, na, b + i, n - i < SITES ? n - i : SITES, width, C, stride);
        return;
    }
#endif
    /* The lanes of few vectors are added up sooner than a panel is filled. */
    bool short_rows = nb <= 2 * NARROW && n <= 8 * LANES;
    if (short_rows || NAME(single_rows)(nb) == nb) {
        for (int i = 0; i < n; i += AT_ONCE)
            for (int k = 0; k < na; k += CHUNK)
                NAME(dots_chunk)
        (a + (size_t)k * width + i, na - k < CHUNK ? na - k : CHUNK, b + i, nb,
         n - i < AT_ONCE ? n - i : AT_ONCE, width, C + (size_t)k * stride, stride, 4);
        return;
    }
    for (int i = 0; i < n; i += SITES)
        for (int l = 0; l < nb; l += COLUMNS)
            NAME(dots_panels)
    (a + i, na, b + (size_t)l * width + i, nb - l < COLUMNS ? nb - l : COLUMNS,
     n - i < SITES ? n - i : SITES, width, C + l, stride);
}

/* A tile is R rows of W times L rows of x, or four rows of x times L rows of W. */
INLINE void NAME(times_tile)(const real *W, const real *x, int n, size_t width, int R, int L,
                             bool four, double inner, double outer, real *y, size_t apart) {
    double C[4 * NARROW] = {0};
    size_t row = four ? apart : 1, column = four ? 1 : apart;
    NAME(dots_tile)(four ? x : W, four ? W : x, n, width, R, L, C, 1, 4, W, 0);
    UNROLL for (int l = 0; l < L; l++) {
        UNROLL for (int r = 0; r < R; r++) y[(size_t)r * row + (size_t)l * column] =
            (real)(outer * (inner * C[l * 4 + r]));
    }
}

INLINE void NAME(times_rows)(const real *W, int rows, const real *x, int n, size_t width, int L,
                             bool four, double inner, double outer, real *y, size_t apart) {
    int some = four ? L : 4, i = 0;
    for (; i + some <= rows; i += some, W += (size_t)some * width)
        NAME(times_tile)(W, x, n, width, 4, L, four, inner, outer, y + i, apart);
    for (; i < rows; i++, W += width)
        NAME(times_tile)
    (W, x, n, width, four ? 4 : 1, four ? 1 : L, four, inner, outer, y + i, apart);
}

TARGET static void NAME(times)(const real *W, int rows, const real *x, int count, int n,
                               size_t width, double inner, double outer, real *y, size_t apart) {
    switch (count) {
    case 4:
        NAME(times_rows)(W, rows, x, n, width, NARROW, true, inner, outer, y, apart);
        break;
    case 3:
        NAME(times_rows)(W, rows, x, n, width, 3, false, inner, outer, y, apart);
        break;
    case 2:
        NAME(times_rows)(W, rows, x, n, width, 2, false, inner, outer, y, apart);
        break;
    case 1:
        NAME(times_rows)(W, rows, x, n, width, 1, false, inner, outer, y, apart);
    }
}

#undef TILE
#undef TILES
#undef WIDE_TILE
