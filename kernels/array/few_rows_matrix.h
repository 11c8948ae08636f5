/* Rows through a matrix, for few_rows_tile.h: many rows times many columns. Parts of the matrix,
 * TERMS long, lie in panels of PANEL columns, term after term, in the second cache, while GROUP
 * rows after the other come past in the first. What lies in the first cache anyway is not copied.
 * Each sum of TERMS products is added up term by term in one lane of a register, whichever rows and
 * columns it is found with. Where a size is at most FEW, the largest matrix comes from memory, and
 * what comes next is fetched: b of few rows, which do not copy it, a of few columns, y of terms. */

#define GROUP (2 * WIDE) /* SLAB is a multiple of it */
#define FEW 64

/* LANES columns of a matrix from column l on, a few terms of them, to their panel. */
INLINE void NAME(matrix_strip)(struct few_rows_matrix b, int first, int terms, int l, int columns,
                               real *panels) {
    real *panel = panels + (size_t)(l / PANEL * TERMS + first) * PANEL + l % PANEL;
    const real *from = b.at + (size_t)first * b.row + (size_t)l * b.column;
    if (b.column == 1)
        for (int k = 0; k < terms; k++)
            *(NAME(vec) *)(panel + (size_t)k * PANEL) = NAME(load)(from + (size_t)k * b.row);
    else
        for (int k = 0; k < terms; k += LANES)
            NAME(turn)(from + k, columns - l, b.column, panel + (size_t)k * PANEL, LANES, PANEL);
}

/* Numbers (term, column) of the matrix; what lies behind `columns` is padding. Few terms at a time,
 * so that the lines which are read and written are used up at once. */
INLINE void NAME(matrix_panels)(struct few_rows_matrix b, int terms, int columns, real *panels) {
    for (int k = 0; k < terms; k += LINE)
        for (int l = 0; l < columns; l += LANES)
            NAME(matrix_strip)(b, k, terms - k < LINE ? terms - k : LINE, l, columns, panels);
}

/* How the factors of a tile lie: rows one behind the other or ACROSS, and copied, or NEAR. */
#define ACROSS 1
#define NEAR 2

/* R rows times V vectors of a panel: y = beta y + scale sum. Rows are `row` apart and their numbers
 * 1; where they lie across, rows are 1 apart and numbers `row`, or GROUP where they are copied. The
 * terms of a panel are `wide` or PANEL apart. With each term WIDE rows fetch a line for the second
 * cache, `ahead` behind the last one. R and V are constants where this is inlined. */
INLINE void NAME(matrix_tile)(const real *a, size_t row, const real *panel, size_t wide, int terms,
                              int R, int V, int lie, real scale, real beta, real *y, size_t width,
                              const real *next, size_t ahead) {
    NAME(vec) sum[WIDE][PANEL / LANES] = {0};
    const real *from[WIDE / 4 + 1]; /* each of four rows */
    size_t step = lie & ACROSS ? 1 : row, term = !(lie & ACROSS) ? 1 : lie & NEAR ? row : GROUP;
    wide = lie & NEAR ? wide : PANEL;
    UNROLL for (int r = 0; r < R; r += 4) from[r / 4] = a + (size_t)r * step;
    UNROLL for (int r = 0; r < R; r++) __builtin_prefetch(y + (size_t)r * width, 1);
    __asm__("" : "+r"(y), "+r"(width)); /* so that where rows of y lie takes no registers below */
    ONCE for (int k = 0; k < terms; k++, panel += wide) {
        NAME(vec) x[PANEL / LANES];
        UNROLL for (int v = 0; v < V; v++) x[v] = NAME(load)(panel + v * LANES);
        if (R == WIDE && ahead) {
            __builtin_prefetch(next, 0, 2);
            next += ahead;
        }
        if (!(lie & NEAR))
            UNROLL for (int v = 0; v < V; v += LINE / LANES)
                __builtin_prefetch(panel + 8 * PANEL + v * LANES);
        UNROLL for (int r = 0; r < R; r++) {
            UNROLL for (int v = 0; v < V; v++) sum[r][v] +=
                from[r / 4][(size_t)(r % 4) * step] * x[v];
        }
        UNROLL for (int r = 0; r < R; r += 4) from[r / 4] += term;
    }
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int v = 0; v < V; v++) {
            NAME(vec) *out = (NAME(vec) *)(y + (size_t)r * width + v * LANES);
            *out = beta == 0 ? scale * sum[r][v] : beta * *out + scale * sum[r][v];
        }
    }
}

/* Functions of their own for each number of rows: only there do tiles stay in registers. Those of
 * WIDE rows have none to spare, and there is one for each way in which their factors lie. */
#define MATRIX_TILE(R, V, WHICH, LIE)                                                              \
    TARGET static __attribute__((noinline)) void NAME(matrix_tile_##R##_##V##_##WHICH)(            \
        const real *a, size_t row, const real *panel, size_t wide, int terms, int lie UNUSED,      \
        real scale, real beta, real *y, size_t width, const real *next, size_t ahead) {            \
        NAME(matrix_tile)                                                                          \
        (a, row, panel, wide, terms, R, V, LIE, scale, beta, y, width, next, ahead);               \
    }
#define MATRIX_TILES(R, V)                                                                         \
    MATRIX_TILE(R, V, 0, 0)                                                                        \
    MATRIX_TILE(R, V, 1, 1)                                                                        \
    MATRIX_TILE(R, V, 2, 2)                                                                        \
    MATRIX_TILE(R, V, 3, 3)
#define MATRIX_ROW(R, V) MATRIX_ROW_(R, V)
#define MATRIX_ROW_(R, V)                                                                          \
    {                                                                                              \
        NAME(matrix_tile_##R##_##V##_0), NAME(matrix_tile_##R##_##V##_1),                          \
            NAME(matrix_tile_##R##_##V##_2), NAME(matrix_tile_##R##_##V##_3)                       \
    }
MATRIX_TILE(1, 1, any, lie)
MATRIX_TILE(1, 2, any, lie)
MATRIX_TILE(4, 1, any, lie)
MATRIX_TILE(4, 2, any, lie)
typedef void NAME(of_matrix)(const real *, size_t, const real *, size_t, int, int, real, real,
                             real *, size_t, const real *, size_t);
MATRIX_TILES(WIDE, 1)
MATRIX_TILES(WIDE, 2)
static NAME(of_matrix) *const NAME(matrix_wide)[2][4] = {MATRIX_ROW(WIDE, 1), MATRIX_ROW(WIDE, 2)};
static NAME(of_matrix) *const
    NAME(matrix_few)[2][2] = {{NAME(matrix_tile_1_1_any), NAME(matrix_tile_1_2_any)},
                              {NAME(matrix_tile_4_1_any), NAME(matrix_tile_4_2_any)}};

/* Some rows times a panel of one vector or two. */
INLINE void NAME(matrix_rows)(const real *a, size_t row, int rows, const real *panel, size_t wide,
                              int terms, int lie, bool two, real scale, real beta, real *y,
                              size_t width, const real *next, size_t ahead) {
    for (int r = 0, R; r < rows; r += R) {
        R = rows - r >= WIDE ? WIDE : rows - r >= 4 ? 4 : 1;
        NAME(of_matrix) *tile =
            R == WIDE ? NAME(matrix_wide)[two][lie] : NAME(matrix_few)[R == 4][two];
        tile(a + (size_t)r * (lie & ACROSS ? 1 : row), row, panel, wide, terms, lie, scale, beta,
             y + (size_t)r * width, width, next, ahead);
        next += ahead * (size_t)terms;
    }
}

/* At most SLAB rows that lie across, GROUP of them after the other; `apart`: from term to term. */
INLINE void NAME(matrix_slab)(const real *x, size_t apart, int terms, int rows, real *slab) {
    for (int k = 0; k < terms; k++, x += apart, slab += GROUP)
        for (int i = 0; i < rows; i += GROUP) {
            if (rows - i >= GROUP)
                memcpy(slab + (size_t)i * TERMS, x + i, GROUP * sizeof *slab);
            else
                memcpy(slab + (size_t)i * TERMS, x + i, (size_t)(rows - i) * sizeof *slab);
        }
}

/* Whether so many terms, `apart` from one another, lie in the first cache. */
INLINE bool NAME(matrix_is_near)(int terms, size_t apart) {
    return (size_t)terms * apart <= FEW_ROWS_NEAR;
}

/* What comes next, of which a line is fetched with each term, `step` behind the last one, while a
 * group of rows from k on meets the panel at column l: of b, the same rows of the next panel; of
 * rows that lie one behind the other, the share of this panel; of others, one line each. */
INLINE const real *NAME(matrix_next)(struct few_rows_matrix a, struct few_rows_matrix b, int rows,
                                     int terms, int columns, int k, int l, const real *y,
                                     size_t width, size_t *step) {
    *step = rows > FEW ? (l ? 0 : a.column) : k / GROUP < PANEL / LINE ? b.row / 2 : 0;
    if (rows <= FEW)
        return b.at + PANEL + k / GROUP * LINE;
    if (terms > FEW && a.column != 1)
        return a.at + k / SLAB * SLAB + SLAB + k % SLAB / GROUP * LINE;
    size_t row = terms <= FEW ? width : a.row, each = 2 * (size_t)terms,
           all = each * (size_t)((columns + PANEL - 1) / PANEL);
    *step = (GROUP * row + all - 1) / all;
    return (terms <= FEW ? y : a.at) + (size_t)(k + GROUP) * row +
           *step * each * (size_t)(l / PANEL);
}

/* All rows times at most MATRIX_COLUMNS columns and TERMS terms. Rows that lie across are copied,
 * SLAB of them at a time. While a group meets a panel, a share of what comes next is fetched. */
TARGET static void NAME(matrix_part)(struct few_rows_matrix a, struct few_rows_matrix b, int rows,
                                     int terms, int columns, real scale, real beta, real *y,
                                     size_t width) {
    real panels[TERMS * MATRIX_COLUMNS] __attribute__((aligned(64))), slab[TERMS * SLAB];
    bool across = a.column != 1, few = !across && rows <= FEW,
         near = b.column == 1 && (few || (NAME(matrix_is_near)(terms, b.row) &&
                                          (!across || NAME(matrix_is_near)(terms, a.column))));
    int lie = (across ? ACROSS : 0) | (near ? NEAR : 0);
    if (!near)
        NAME(matrix_panels)(b, terms, columns, panels);
    for (int k = 0; k < rows; k += GROUP) {
        int count = rows - k < GROUP ? rows - k : GROUP, of_slab = k % SLAB;
        const real *x = a.at + (size_t)k * a.row;
        if (lie == ACROSS) {
            if (!of_slab)
                NAME(matrix_slab)(x, a.column, terms, rows - k < SLAB ? rows - k : SLAB, slab);
            x = slab + (size_t)of_slab * TERMS;
        }
        for (int l = 0; l < columns; l += PANEL) {
            size_t step;
            const real *next = NAME(matrix_next)(a, b, rows, terms, columns, k, l, y, width, &step);
            NAME(matrix_rows)
            (x, across ? a.column : a.row, count, near ? b.at + l : panels + (size_t)l * TERMS,
             b.row, terms, lie, columns - l > LANES, scale, beta, y + (size_t)k * width + l, width,
             next, step);
        }
    }
}

TARGET static void NAME(matrix)(struct few_rows_matrix a, struct few_rows_matrix b, int rows,
                                int terms, int columns, real scale, real beta, real *y,
                                size_t width) {
    /* Where all rows lie in the first cache, panels of what is too much for it come one by one; so
     * does what few rows read where it lies. */
    bool one = a.column == 1 && (b.column == 1 ? rows <= FEW && !NAME(matrix_is_near)(terms, b.row)
                                               : NAME(matrix_is_near)(rows, a.row) &&
                                                     (size_t)terms * (size_t)columns >= ONE_BY_ONE);
    int most = one ? PANEL : MATRIX_COLUMNS;
    for (int l = 0; l < columns; l += most)
        for (int k = 0; k < terms; k += TERMS) {
            struct few_rows_matrix x = a, m = b;
            x.at += (size_t)k * a.column;
            m.at += (size_t)k * b.row + (size_t)l * b.column;
            NAME(matrix_part)
            (x, m, rows, terms - k < TERMS ? terms - k : TERMS,
             columns - l < most ? columns - l : most, scale, k ? 1 : beta, y + l, width);
        }
}

TARGET static void NAME(turned)(const real *x, size_t row, int rows, int columns, real *out,
                                size_t width) {
    for (int k = 0; k < rows; k += LANES)
        for (int l = 0; l < columns; l += LANES)
            NAME(turn)
    (x + (size_t)k * row + l, rows - k, row, out + (size_t)l * width + k, columns - l, width);
}

#undef GROUP
#undef FEW
#undef ACROSS
#undef NEAR
#undef MATRIX_TILE
#undef MATRIX_TILES
#undef MATRIX_ROW
#undef MATRIX_ROW_
