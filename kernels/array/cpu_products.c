/* Products of the reference backend: averages over sites of products of rows, and combinations of
 * rows. BLAS is called single-threaded, inside one block. */
#include "kernels/array/cpu.h"
#include "kernels/array/few_rows.h"
#include "kernels/array/functions.h"

#include <cblas.h>

#ifdef SINGLE
#define GEMM cblas_sgemm
#define SCALE cblas_sscal
#else
#define GEMM cblas_dgemm
#define SCALE cblas_dscal
#endif

/* dots() works on SUMS numbers of C at once, for each of all parts, or on LONG_SUMS of one part
 * after the other, of at most SHORT rows of the shorter factor; a task is PIECE of the longer. */
#define SUMS 32768
#define LONG_SUMS 131072
#define SHORT 128
#define PIECE 256
/* Sites whose sums, of some rows, stay in the first cache. */
#define PLACED 64
/* So few sums, as those of attention of an input, need no memory of their own. */
#define FEW_SUMS 128
/* In single precision rows meet a matrix in pieces, one for each thread, as long as a piece has so
 * many rows: the matrix is copied for each of them. There are so few pieces that none is so much
 * shorter than others that it would have few rows. */
#define MATRIX_ROWS 256
#define MATRIX_PIECES 64
/* From so many rows on they are the columns of such a product, up to as many as a panel has, or of
 * a matrix that the first cache does not have, twice as many. */
#define LEAST_ACROSS 8
#define ACROSS_ROWS 64
#define LINE 64 /* bytes of a line of the cache */

/* BLAS does the same for a piece, and its sums are numbers of the sites; nb <= SHORT. */
static void piece_gemm(const real *a, int na, const real *b, int nb, int n, size_t width, double *C,
                       size_t stride) {
    real sums[PIECE * SHORT];
    GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, na, nb, n, 1, a, (int)width, b, (int)width, 0,
         sums, nb);
    for (int k = 0; k < na; k++)
        for (int l = 0; l < nb; l++)
            C[(size_t)k * stride + (size_t)l] += (double)sums[k * nb + l];
}

/* Whether loops for few rows are faster than few_rows_matrix, where `size` numbers would be read
 * again and again. In double precision they are, except where the first cache has all of these, and
 * in plain code BLAS is faster than both. */
static bool few_are_faster(int rows, int terms, size_t size) {
    int most = few_rows_most() < 24 ? few_rows_most() : 24;
    bool other = REAL_BYTES == 8 && (size > FEW_ROWS_NEAR || few_rows_level() == FEW_ROWS_PLAIN);
    return other || rows <= most || terms <= most;
}

/* C[k][l] += the sum over a block, rows of C `stride` apart; a is the longer factor. The order in
 * which BLAS adds up an element depends on the number of rows: it always gets the same pieces, so
 * that the bits are the same for any number of threads. */
static void block_dots(struct rows a, struct rows b, int block, double *C, size_t stride) {
    size_t width = array_width(a.array);
    int used = cpu_used(a.array, block);
    const real *x = cpu_at(a, 0, block), *y = cpu_at(b, 0, block);
    if (b.count <= few_rows_most())
        few_rows_dots(x, a.count, y, b.count, used, width, C, stride);
    else
        for (int row = 0; row < a.count; row += PIECE)
            piece_gemm(x + (size_t)row * width, a.count - row < PIECE ? a.count - row : PIECE, y,
                       b.count, used, width, C + (size_t)row * stride, stride);
}

/* sum += the sums over a part, [a.count][b.count]. */
static void part_dots(struct rows a, struct rows b, int part, double *sum) {
    for (int block = cpu_part(a.array, part); block < cpu_part(a.array, part + 1); block++)
        block_dots(a, b, block, sum, (size_t)b.count);
}

/* The sums over a part of piece number `piece` of a, to its place among those of all. */
static void piece_dots(struct rows a, struct rows b, int piece, int part, double *sums) {
    int row = piece * PIECE, count = a.count - row < PIECE ? a.count - row : PIECE;
    double *sum = sums + ((size_t)part * (size_t)a.count + (size_t)row) * (size_t)b.count;
    memset(sum, 0, (size_t)count * (size_t)b.count * sizeof *sum);
    part_dots(rows_part(a, row, count), b, part, sum);
}

/* The sums over all sites, [a.count][b.count]. sums: room for all parts if these are worked on at
 * once, on all threads or all ranks; else for the total and a part. */
static void tile_dots(struct rows a, struct rows b, bool at_once, double *sums) {
    const struct array_split *split = &a.array->split;
    size_t size = (size_t)a.count * (size_t)b.count;
    if (at_once) {
        CPU_EACH(size * a.array->sites, piece, (a.count + PIECE - 1) / PIECE, part,
                 split->first_part, split->end_part, piece_dots(a, b, piece, part, sums));
        cpu_total(a.array, sums, size);
        return;
    }
    bool whole = split->blocks == (size_t)split->parts && /* then a part is one sum */
                 b.count <= few_rows_most() && cpu_used(a.array, 0) <= FEW_ROWS_SITES;
    memset(sums, 0, size * sizeof *sums);
    for (int part = 0; part < split->parts; part++)
        if (whole || part == 0)
            part_dots(a, b, part, sums);
        else {
            memset(sums + size, 0, size * sizeof *sums);
            part_dots(a, b, part, sums + size);
            cpu_add_numbers(sums + size, size, sums);
        }
}

/* Where averages go: C, rows of it `stride` apart, or `scale` times them to rows y. */
struct target {
    double *C;
    size_t stride;
    struct rows y;
    double scale;
};

/* The number of a site, and how many of the next `count` ones lie behind it. */
static real *site_at(struct rows rows, int row, int site, int *count) {
    int block = (int)array_block(rows.array), from = site % block;
    *count = *count < block - from ? *count : block - from;
    return cpu_at(rows, row, site / block) + from;
}

/* Results (first + k, site + l) = scale sums[k][l], or turned, PLACED sites at a time; rows of
 * sums: `columns` long. */
static void place_sums(const double *sums, int columns, bool turned, double scale, int first,
                       int rows, int site, int sites, struct target out) {
    size_t along = turned ? (size_t)columns : 1, across = turned ? 1 : (size_t)columns;
    for (int l = 0, run; l < sites; l += run) {
        run = turned && sites - l > PLACED ? PLACED : sites - l;
        for (int k = 0; k < rows; k++) {
            const double *from = sums + (size_t)k * across + (size_t)l * along;
            if (out.C) {
                double *to = out.C + (size_t)(first + k) * out.stride + (size_t)(site + l);
                for (int j = 0; j < run; j++)
                    to[j] = scale * from[(size_t)j * along];
            } else {
                real *to = site_at(out.y, first + k, site + l, &run);
                for (int j = 0; j < run; j++)
                    to[j] = (real)(out.scale * (scale * from[(size_t)j * along]));
            }
        }
    }
}

/* <a_k b_l> to their places. */
static void dots_into(struct rows a, struct rows b, struct target out) {
    bool turned = a.count <= b.count, over_ranks = a.array->split.over_ranks;
    struct rows x = turned ? b : a, y = turned ? a : b;
    bool at_once = over_ranks || cpu_worth(cpu_cells(a) * (size_t)b.count);
    int columns = y.count < SHORT ? y.count : SHORT, rows = (at_once ? SUMS : LONG_SUMS) / columns;
    double scale = 1.0 / (double)a.array->sites;
    rows = rows / PIECE * PIECE; /* SUMS / SHORT is one piece */
    rows = x.count < rows ? x.count : rows;
    size_t room = (at_once ? (size_t)a.array->split.parts : 2) * (size_t)rows * (size_t)columns;
    double few[FEW_SUMS],
        *sums = !over_ranks && room <= FEW_SUMS ? few : cpu_scratch(over_ranks, room);
    for (size_t k = 0; k < (size_t)a.count * (size_t)b.count && !sums && out.C; k++)
        out.C[k] = NAN;
    if (!sums && !out.C)
        cpu_fill_rows_nan(out.y);
    for (int i = 0; i < x.count && sums; i += rows)
        for (int j = 0; j < y.count; j += columns) {
            struct rows some = rows_part(x, i, x.count - i < rows ? x.count - i : rows);
            struct rows fewer = rows_part(y, j, y.count - j < columns ? y.count - j : columns);
            tile_dots(some, fewer, at_once, sums);
            if (turned)
                place_sums(sums, fewer.count, true, scale, j, fewer.count, i, some.count, out);
            else
                place_sums(sums, fewer.count, false, scale, i, some.count, j, fewer.count, out);
        }
    if (sums != few)
        free(sums);
}

void cpu_dots(struct rows a, struct rows b, double *C) {
    assert(!a.count || !b.count ||
           (a.array->sites == b.array->sites && a.array->group == b.array->group));
    if (a.count && b.count)
        dots_into(a, b, (struct target){.C = C, .stride = (size_t)b.count});
}

/* Rows of a piece; the last one may have fewer. */
static int matrix_rows(int rows) {
    int threads = omp_in_parallel() ? 1 : omp_get_max_threads(), pieces = rows / MATRIX_ROWS;
    pieces = pieces < threads ? pieces : threads;
    pieces = pieces < MATRIX_PIECES ? pieces : MATRIX_PIECES;
    return pieces > 1 ? (rows + pieces - 1) / pieces : rows;
}

/* The rows of W that belong to a block of y, a block of the sites of x and W after the other: W as
 * it lies with rows of x as columns, or (`across`) rows of x with W. */
static void multiply_block(double scale, struct rows W, struct rows x, int block, size_t width,
                           struct rows y, bool across, real *out) {
    int first = (int)cpu_first(y.array, block), used = cpu_used(y.array, block);
    size_t apart = array_width(x.array);
    real factor = (real)(scale / (double)x.array->sites);
    for (int from = 0; from < cpu_blocks(x.array); from++) {
        const real *rows = cpu_at(x, 0, from), *matrix = cpu_at(W, first, from);
        int terms = cpu_used(x.array, from);
        if (across)
            few_rows_matrix((struct few_rows_matrix){matrix, apart, 1},
                            (struct few_rows_matrix){rows, 1, apart}, used, terms, x.count, factor,
                            from > 0, out, width);
        else
            few_rows_matrix((struct few_rows_matrix){rows, apart, 1},
                            (struct few_rows_matrix){matrix, 1, apart}, x.count, terms, used,
                            factor, from > 0, out, width);
    }
}

/* Rows of x through the rows of W that belong to a block of y. The shorter factor is copied into
 * panels, and where that is x, results lie across at first. */
static void times_matrix(double scale, struct rows W, struct rows x, struct rows y, int block) {
    real across[BACKEND_BLOCK * ACROSS_ROWS] __attribute__((aligned(LINE)));
    size_t width = array_width(y.array);
    if (x.count > ACROSS_ROWS / (cpu_cells(W) > 4 * FEW_ROWS_NEAR ? 1 : 2) || width > BACKEND_BLOCK)
        multiply_block(scale, W, x, block, width, y, false, cpu_at(y, 0, block));
    else {
        multiply_block(scale, W, x, block, ACROSS_ROWS, y, true, across);
        few_rows_turned(across, ACROSS_ROWS, cpu_used(y.array, block), x.count, cpu_at(y, 0, block),
                        width);
    }
}

/* Piece number `piece` of all rows, of `rows` rows, or fewer where it is the last. */
static struct rows piece_of(struct rows all, int piece, int rows) {
    int first = piece * rows, left = all.count - first;
    return rows_part(all, first, left < rows ? left : rows);
}

void cpu_times(double scale, struct rows W, struct rows x, struct rows y) {
    assert((size_t)W.count == y.array->sites && W.array->sites == x.array->sites);
    if (!few_are_faster(x.count, W.count, (size_t)W.count * array_width(x.array)) ||
        (REAL_BYTES == 4 && x.count >= LEAST_ACROSS && W.count > x.count)) {
        int rows = matrix_rows(x.count);
        CPU_EACH(cpu_cells(x) * (size_t)W.count, piece, (x.count + rows - 1) / rows, block, 0,
                 cpu_blocks(y.array),
                 times_matrix(scale, W, piece_of(x, piece, rows), piece_of(y, piece, rows), block));
        return;
    }
    bool one_block = x.array->split.blocks == 1 && y.array->split.blocks == 1,
         small = one_block && x.count <= FEW_ROWS_TIMES && x.array->sites <= FEW_ROWS_SITES;
    if (small && x.count && !cpu_worth(cpu_cells(x) * (size_t)W.count))
        few_rows_times(cpu_at(W, 0, 0), W.count, cpu_at(x, 0, 0), x.count, (int)x.array->sites,
                       array_width(x.array), 1.0 / (double)x.array->sites, scale, cpu_at(y, 0, 0),
                       array_width(y.array));
    else if (x.count)
        dots_into(x, W, (struct target){.y = y, .scale = scale});
}

/* y = beta y + C a in n sites of a block, where rows of y and of a are `width` apart. */
static void combine_sites(real *y, int rows, real beta, struct few_rows_matrix C, const real *a,
                          int terms, int n, size_t width) {
    int most = few_rows_most();
    bool few = REAL_BYTES == 4 ? few_are_faster(rows, terms, 0) : rows <= most || terms <= most;
    if (few || !C.column)
        few_rows_combine(y, rows, beta, C, a, terms, n, width);
    else
#ifdef SINGLE
        few_rows_matrix(C, (struct few_rows_matrix){a, width, 1}, rows, terms, n, 1, beta, y,
                        width);
#else
        GEMM(CblasRowMajor, C.column == 1 ? CblasNoTrans : CblasTrans, CblasNoTrans, rows, n, terms,
             1, C.at, (int)(C.column == 1 ? C.row : C.column), a, (int)width, beta, y, (int)width);
#endif
}

static void combine_block(struct rows y, real beta, const real *C, struct rows a, int block) {
    int used = cpu_used(y.array, block);
    if (a.count)
        combine_sites(cpu_at(y, 0, block), y.count, beta,
                      (struct few_rows_matrix){C, (size_t)a.count, 1}, cpu_at(a, 0, block), a.count,
                      used, array_width(y.array));
    else if (beta == 0)
        for (int k = 0; k < y.count; k++)
            memset(cpu_at(y, k, block), 0, (size_t)used * sizeof(real));
    else
        for (int k = 0; k < y.count; k++)
            SCALE(used, beta, cpu_at(y, k, block), 1);
}

/* Whether nearly all of many coefficients are 0, as where rows are those of tokens. */
static bool is_sparse(const double *C, int rows, int terms) {
    size_t count = (size_t)rows * (size_t)terms, most = count / 16, found = 0;
    if (rows <= 32 || terms <= 32)
        return false;
    for (size_t k = 0; k < count && found <= most; k++)
        found += C[k] != 0;
    return found <= most;
}

/* Row k of the same, from the coefficients that are not 0. */
static void combine_sparse(struct rows y, double beta, const double *C, struct rows a, int k,
                           int block) {
    C += (size_t)k * (size_t)a.count;
    combine_block(rows_part(y, k, 1), (real)beta, NULL, rows_part(a, 0, 0), block);
    for (int l = 0; l < a.count; l++) {
        real c = (real)C[l];
        if (c != 0)
            combine_block(rows_part(y, k, 1), 1, &c, rows_part(a, l, 1), block);
    }
}

static void combine_all(struct rows y, real beta, const real *C, struct rows a) {
    CPU_EACH(cpu_cells(y) * (size_t)(a.count + 1), all, 1, block, 0, cpu_blocks(y.array),
             combine_block(y, beta, C, a, block));
}

/* Coefficients cross as numbers of the sites: once, before all blocks. */
void cpu_combine(struct rows y, double beta, const double *C, struct rows a) {
    if (!y.count)
        return;
    if (is_sparse(C, y.count, a.count)) {
        CPU_EACH(2 * cpu_cells(y), k, y.count, block, 0, cpu_blocks(y.array),
                 combine_sparse(y, beta, C, a, k, block));
        return;
    }
#ifdef SINGLE
    size_t count = (size_t)y.count * (size_t)a.count;
    real small[64], *more = count > 64 ? (real *)cpu_scratch(false, (count + 1) / 2) : small;
    if (more) {
#pragma omp simd
        for (size_t k = 0; k < count; k++)
            more[k] = (real)C[k];
        combine_all(y, (real)beta, more, a);
    } else {
        cpu_fill_rows_nan(y);
    }
    if (more != small)
        free(more);
#else
    combine_all(y, beta, C, a);
#endif
}

/* Rows that combine_rows works on at once: of so many coefficients, but not fewer rows. */
#define COEFFICIENTS 65536
#define LEAST_ROWS 128

/* out [rows][terms] = C from row `first` on, which has a number of sites for each term. */
static void gather_coefficients(struct coefficients C, int first, int rows, int terms, real *out) {
    for (int l = 0, run = terms; l < terms; l += run, run = terms - l) {
        const real *from = site_at(C.rows, first, l, &run);
        functions_affine(C.scale, NULL, NULL, from, array_width(C.rows.array), rows, run, out + l,
                         (size_t)terms);
    }
}

/* Coefficients that lie across are read where they lie, and the rows are multiplied by the rest of
 * them before: some [terms][width], at a multiple of 64 bytes. Blocks of sites of C follow. */
static void combine_across(struct rows y, double beta, struct coefficients C, struct rows a,
                           int first, int block, real *some) {
    size_t width = array_width(a.array), step = C.rows.count == 1 ? 0 : array_width(C.rows.array);
    int used = cpu_used(y.array, block);
    functions_affine(C.scale, C.c, NULL, cpu_at(a, 0, block), width, a.count, used, some, width);
    for (int k = 0, run = y.count; k < y.count; k += run, run = y.count - k) {
        const real *from = site_at(C.rows, 0, C.first + first + k, &run);
        combine_sites(cpu_at(y, k, block), run, (real)beta, (struct few_rows_matrix){from, 1, step},
                      some, a.count, used, width);
    }
}

/* Coefficients as they lie: block after block of their sites. */
static void combine_matrix(struct rows y, real beta, struct coefficients C, struct rows a,
                           int first, int block) {
    const struct array *R = C.rows.array;
    for (int from = 0; from < cpu_blocks(R); from++)
        few_rows_matrix((struct few_rows_matrix){cpu_at(C.rows, first, from), array_width(R), 1},
                        (struct few_rows_matrix){cpu_at(a, (int)cpu_first(R, from), block),
                                                 array_width(a.array), 1},
                        y.count, cpu_used(R, from), cpu_used(y.array, block), (real)C.scale,
                        from ? 1 : beta, cpu_at(y, 0, block), array_width(y.array));
}

/* Does the same with coefficients that lie across, for one factor of all rows. false: they lie in
 * several blocks, or their factors differ. */
static bool combine_turned(struct rows y, real beta, struct coefficients C, struct rows a,
                           int first, int block) {
    int run = y.count;
    const real *from = site_at(C.rows, 0, C.first + first, &run);
    if (run < y.count || C.rows.count < a.count || !cpu_all_equal(C.c, a.count))
        return false;
    few_rows_matrix((struct few_rows_matrix){from, 1, array_width(C.rows.array)},
                    (struct few_rows_matrix){cpu_at(a, 0, block), array_width(a.array), 1}, y.count,
                    a.count, cpu_used(y.array, block), (real)(C.scale * C.c[0]), beta,
                    cpu_at(y, 0, block), array_width(y.array));
    return true;
}

/* Whether coefficients need not be copied. */
static bool as_they_lie(struct rows y, double beta, struct coefficients C, struct rows a, int first,
                        int block) {
    if (few_are_faster(y.count, a.count, (size_t)a.count * array_width(a.array)))
        return false;
    if (C.turned)
        return combine_turned(y, (real)beta, C, a, first, block);
    combine_matrix(y, (real)beta, C, a, first, block);
    return true;
}

static void combine_piece(struct rows y, double beta, struct coefficients C, struct rows a,
                          int first, int block) {
    if (as_they_lie(y, beta, C, a, first, block))
        return;
    size_t each = C.turned ? array_width(a.array) : (size_t)y.count;
    double *memory = cpu_scratch(false, each * (size_t)a.count + LINE);
    real *some = (real *)(((uintptr_t)memory + LINE - 1) / LINE * LINE);
    if (memory && C.turned && a.count)
        combine_across(y, beta, C, a, first, block, some);
    else if (memory) {
        gather_coefficients(C, first, y.count, a.count, some);
        combine_block(y, (real)beta, some, a, block);
    } else
        cpu_fill_rows_nan(y);
    free(memory);
}

/* A piece of rows and a block after the other, so that coefficients stay in the cache. */
void cpu_combine_rows(struct rows y, double beta, struct coefficients C, struct rows a) {
    int rows = COEFFICIENTS / (a.count ? a.count : 1);
    rows = rows < LEAST_ROWS ? LEAST_ROWS : rows;
    rows = few_are_faster(y.count, a.count, (size_t)a.count * array_width(a.array))
               ? rows
               : matrix_rows(y.count);
    CPU_EACH(cpu_cells(y) * (size_t)(a.count + 1), piece, (y.count + rows - 1) / rows, block, 0,
             cpu_blocks(y.array),
             combine_piece(piece_of(y, piece, rows), beta, C, a, piece * rows, block));
}

void cpu_add(const double *c, struct rows x, struct rows y) {
    int run = cpu_run(y.array);
    assert(x.count == y.count);
    CPU_EACH_RUN(2 * cpu_cells(y), k, y.count, run, block, 0, cpu_blocks(y.array),
                 few_rows_add(cpu_at(y, k, block), c ? c + k : NULL, cpu_at(x, k, block),
                              cpu_rest(y, k, run), cpu_used(y.array, block), array_width(y.array)));
}
