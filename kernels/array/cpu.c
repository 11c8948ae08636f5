/* The reference backend: vector loops (few_rows.h), OpenBLAS and OpenMP.
 *
 * Layout: [block][row][width], a block being BACKEND_BLOCK groups of sites; the rows of a block are
 * contiguous, so a product with a basis streams through memory and appending rows moves nothing
 * until the capacity is used up. BLAS is called single-threaded, inside one block. */
#define _DEFAULT_SOURCE /* madvise */
#include "kernels/array/dist.h"
#include "kernels/array/functions.h"
#include "kernels/array/few_rows.h"
#include "kernels/array/top.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* dots() works on SUMS numbers of C at once, for each of all parts, or on LONG_SUMS of one part
 * after the other, of at most SHORT rows of the shorter factor; a thread's task is PIECE rows of
 * the longer one. */
#define SUMS 32768
#define LONG_SUMS 131072
#define SHORT 128
#define PIECE 256
#define ROOM 8
#define LARGE ((size_t)16 << 20) /* bytes */

/* Whether this many elementary operations pay for waking other threads, if there are any. Small
 * regions on a loaded machine cost more than they save. */
static bool worth(size_t operations) {
    return operations > 200000 && omp_get_max_threads() > 1 && !omp_in_parallel();
}

static size_t cells(struct rows rows) {
    return (size_t)rows.count * rows.array->sites;
}

/* Numbers that an operation of this thread found no memory for, until sync() tells. */
static _Thread_local size_t not_allocated;

/* Memory of an operation, to be freed. NULL: the operation leaves NaN. Ranks that work on one
 * array must have it, or the job ends. */
static double *scratch(bool over_ranks, size_t count) {
    double *memory = over_ranks ? dist_buffer(count) : malloc(count * sizeof *memory);
    if (!memory)
        not_allocated = count;
    return memory;
}

static void fill_nan(double *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = NAN;
}

/* Blocks are those on this rank. */
static int cpu_blocks(const struct array *a) {
    return (int)(a->split.end - a->split.first);
}

/* The number of the first site of a block. */
static size_t cpu_first(const struct array *a, int block) {
    return (a->split.first + (size_t)block) * array_width(a);
}

/* Sites in use of a block. */
static int cpu_used(const struct array *a, int block) {
    size_t width = array_width(a), left = a->sites - cpu_first(a, block);
    return (int)(left < width ? left : width);
}

/* The block at which a part of this rank begins. */
static int cpu_part(const struct array *a, int part) {
    return (int)(array_part(&a->split, part) - a->split.first);
}

static double *cpu_at(struct rows r, int row, int block) {
    size_t width = array_width(r.array);
    size_t line = (size_t)block * (size_t)r.array->capacity + (size_t)(r.first + row);
    return (double *)r.array->memory + line * width;
}

static int cpu_open(double *bytes, struct err *err) {
    (void)err;
    *bytes = HUGE_VAL;
    return CODE_OK;
}

static int cpu_alloc(struct array *array, int capacity, struct err *err) {
    size_t bytes = array_bytes(array, capacity);
    array->capacity = capacity;
    array->memory = aligned_alloc(64, bytes);
    if (!array->memory)
        return err_set(err, CODE_SYSTEM, "out of memory: %d rows over %zu sites (%.3g GB)",
                       capacity, array->sites, 1e-9 * (double)bytes);
    return CODE_OK;
}

/* A huge page would be there whole as soon as one row of a block is. */
static void keep_pages_small(const struct array *array) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = array_bytes(array, array->capacity);
    size_t skip = (page - (uintptr_t)array->memory % page) % page;
    madvise((char *)array->memory + skip, bytes - skip, MADV_NOHUGEPAGE); /* or it stays as it is */
}

/* A large array gets addresses for ROOM times the rows asked for, if they are to be had: what was
 * never written to takes no memory, and the next copies come late. */
static int cpu_resize(struct array *array, int capacity, struct err *err) {
    struct array larger = *array;
    struct err ignored = {0};
    bool large = array_bytes(array, capacity) >= LARGE && capacity <= INT_MAX / ROOM;
    if (!large || cpu_alloc(&larger, ROOM * capacity, &ignored))
        TRY(cpu_alloc(&larger, capacity, err));
    else
        keep_pages_small(&larger);
    struct rows from = {array, 0, array->rows}, to = {&larger, 0, array->rows};
    size_t bytes = (size_t)array->rows * array_width(array) * sizeof(double);
    for (int block = 0; block < cpu_blocks(array) && bytes; block++)
        memcpy(cpu_at(to, 0, block), cpu_at(from, 0, block), bytes);
    free(array->memory);
    *array = larger;
    return CODE_OK;
}

static void cpu_release(struct array *array) {
    free(array->memory);
    array->memory = NULL;
}

static void cpu_put(struct rows rows, const double *host) {
    for (int k = 0; k < rows.count; k++)
        for (int block = 0; block < cpu_blocks(rows.array); block++)
            memcpy(cpu_at(rows, k, block),
                   host + (size_t)k * rows.array->sites + cpu_first(rows.array, block),
                   (size_t)cpu_used(rows.array, block) * sizeof(double));
}

/* Numbers of all parts, `size` for each: those of this rank -> all ranks. */
static void cpu_collect(const struct array *a, double *parts, size_t size) {
    int ranks = dist_ranks();
    size_t first[ranks + 1];
    for (int r = 0; r <= ranks; r++)
        first[r] = size * (size_t)array_rank(&a->split, r);
    if (a->split.over_ranks)
        dist_collect(parts, first);
}

static void cpu_get(struct rows rows, double *host) {
    const struct array *a = rows.array;
    int ranks = dist_ranks();
    size_t first[ranks + 1];
    for (int r = 0; r < ranks; r++)
        first[r] = array_part(&a->split, array_rank(&a->split, r)) * array_width(a);
    first[ranks] = a->sites;
    for (int k = 0; k < rows.count; k++) {
        double *row = host + (size_t)k * a->sites;
        for (int block = 0; block < cpu_blocks(a); block++)
            memcpy(row + cpu_first(a, block), cpu_at(rows, k, block),
                   (size_t)cpu_used(a, block) * sizeof(double));
        if (a->split.over_ranks)
            dist_collect(row, first);
    }
}

static void cpu_normals(struct rows rows, struct rng_stream stream) {
    const struct array *a = rows.array;
#pragma omp parallel for schedule(static) collapse(2) if (worth(20 * cells(rows)))
    for (int block = 0; block < cpu_blocks(a); block++)
        for (int k = 0; k < rows.count; k++)
            functions_normals(stream, stream.draw + (uint32_t)k,
                              (uint32_t)(cpu_first(a, block) / 2), cpu_used(a, block),
                              cpu_at(rows, k, block)); /* pairs never straddle blocks */
}

/* C[k][l] += the sum over a block, rows of C `stride` apart; a is the longer factor. The order in
 * which BLAS adds up an element depends on the number of rows: it always gets the same pieces, so
 * that the bits are the same for any number of threads. */
static void block_dots(struct rows a, struct rows b, int block, double *C, size_t stride) {
    size_t width = array_width(a.array);
    int used = cpu_used(a.array, block);
    const double *x = cpu_at(a, 0, block), *y = cpu_at(b, 0, block);
    if (b.count <= few_rows_most())
        few_rows_dots(x, a.count, y, b.count, used, width, C, stride);
    else
        for (int row = 0; row < a.count; row += PIECE)
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans,
                        a.count - row < PIECE ? a.count - row : PIECE, b.count, used, 1.0,
                        x + (size_t)row * width, (int)width, y, (int)width, 1.0,
                        C + (size_t)row * stride, (int)stride);
}

static void cpu_add(const double *x, size_t count, double *sum) {
    for (size_t i = 0; i < count; i++)
        sum[i] += x[i];
}

/* The sums of all parts, [parts][size], complete; the first is the total of all, in order. */
static void cpu_total(const struct array *a, double *sums, size_t size) {
    cpu_collect(a, sums, size);
    for (int part = 1; part < a->split.parts; part++)
        cpu_add(sums + (size_t)part * size, size, sums);
}

/* sum += the sums over a part, [a.count][b.count]. */
static void part_dots(struct rows a, struct rows b, int part, double *sum) {
    for (int block = cpu_part(a.array, part); block < cpu_part(a.array, part + 1); block++)
        block_dots(a, b, block, sum, (size_t)b.count);
}

/* The sums over all sites, [a.count][b.count]. sums: room for all parts if these are worked on at
 * once, on all threads or all ranks; else for the total and a part. */
static void tile_dots(struct rows a, struct rows b, bool at_once, double *sums) {
    const struct array_split *split = &a.array->split;
    size_t size = (size_t)a.count * (size_t)b.count;
    if (at_once) {
#pragma omp parallel for schedule(static) collapse(2) if (worth(size * a.array->sites))
        for (int part = split->first_part; part < split->end_part; part++)
            for (int row = 0; row < a.count; row += PIECE) {
                struct rows piece =
                    rows_part(a, row, a.count - row < PIECE ? a.count - row : PIECE);
                double *sum = sums + (size_t)part * size + (size_t)row * (size_t)b.count;
                memset(sum, 0, (size_t)piece.count * (size_t)b.count * sizeof *sum);
                part_dots(piece, b, part, sum);
            }
        cpu_total(a.array, sums, size);
        return;
    }
    bool whole = split->blocks == (size_t)split->parts && /* then a part is one sum */
                 b.count <= few_rows_most() && array_width(a.array) <= FEW_ROWS_SITES;
    memset(sums, 0, size * sizeof *sums);
    for (int part = 0; part < split->parts; part++)
        if (whole || part == 0)
            part_dots(a, b, part, sums);
        else {
            memset(sums + size, 0, size * sizeof *sums);
            part_dots(a, b, part, sums + size);
            cpu_add(sums + size, size, sums);
        }
}

static void cpu_dots(struct rows a, struct rows b, double *C) {
    assert(!a.count || !b.count ||
           (a.array->sites == b.array->sites && a.array->group == b.array->group));
    if (!a.count || !b.count)
        return;
    bool turned = a.count <= b.count, over_ranks = a.array->split.over_ranks;
    struct rows x = turned ? b : a, y = turned ? a : b;
    size_t along = turned ? 1 : (size_t)b.count, across = turned ? (size_t)b.count : 1;
    bool at_once = over_ranks || worth(cells(a) * (size_t)b.count);
    int columns = y.count < SHORT ? y.count : SHORT, rows = (at_once ? SUMS : LONG_SUMS) / columns;
    rows = rows / PIECE * PIECE; /* SUMS / SHORT is one piece */
    rows = x.count < rows ? x.count : rows;
    double *sums = scratch(over_ranks, (at_once ? (size_t)a.array->split.parts : 2) * (size_t)rows *
                                           (size_t)columns);
    if (!sums)
        fill_nan(C, (size_t)a.count * (size_t)b.count);
    for (int i = 0; i < x.count && sums; i += rows)
        for (int j = 0; j < y.count; j += columns) {
            struct rows few = rows_part(x, i, x.count - i < rows ? x.count - i : rows);
            struct rows fewer = rows_part(y, j, y.count - j < columns ? y.count - j : columns);
            tile_dots(few, fewer, at_once, sums);
            for (int l = 0; l < fewer.count; l++)
                for (int k = 0; k < few.count; k++)
                    C[(size_t)(i + k) * along + (size_t)(j + l) * across] =
                        sums[k * fewer.count + l] * (1.0 / (double)a.array->sites);
        }
    free(sums);
}

static void cpu_averages(struct rows a, struct rows b, double *out) {
    const struct array_split split = a.array->split;
    size_t size = (size_t)a.count;
    double *sums = split.over_ranks ? dist_buffer((size_t)split.parts * size) : NULL;
#pragma omp parallel for schedule(static) if (worth(cells(a)))
    for (int k = 0; k < a.count; k++)
        for (int part = split.first_part; part < split.end_part; part++) {
            double sum = 0;
            for (int i = cpu_part(a.array, part); i < cpu_part(a.array, part + 1); i++)
                sum += functions_sum(cpu_at(a, k, i),
                                     b.array ? cpu_at(b, b.count == 1 ? 0 : k, i) : NULL,
                                     cpu_used(a.array, i));
            if (sums)
                sums[(size_t)part * size + (size_t)k] = sum;
            else
                out[k] = part ? out[k] + sum : sum;
        }
    if (sums) {
        cpu_total(a.array, sums, size);
        memcpy(out, sums, size * sizeof *out);
        free(sums);
    }
    for (size_t k = 0; k < size; k++)
        out[k] /= (double)a.array->sites;
}

static void cpu_combine(struct rows y, double beta, const double *C, struct rows a) {
    if (!y.count)
        return;
    int width = (int)array_width(y.array);
#pragma omp parallel for schedule(static) if (worth(cells(y) * (size_t)(a.count + 1)))
    for (int block = 0; block < cpu_blocks(y.array); block++) {
        int used = cpu_used(y.array, block);
        if (a.count && (a.count <= few_rows_most() || y.count <= few_rows_most()))
            few_rows_combine(cpu_at(y, 0, block), y.count, beta, C, cpu_at(a, 0, block), a.count,
                             used, (size_t)width);
        else if (a.count)
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, y.count, used, a.count, 1.0, C,
                        a.count, cpu_at(a, 0, block), width, beta, cpu_at(y, 0, block), width);
        else if (beta == 0.0)
            for (int k = 0; k < y.count; k++)
                memset(cpu_at(y, k, block), 0, (size_t)used * sizeof(double));
        else
            for (int k = 0; k < y.count; k++)
                cblas_dscal(used, beta, cpu_at(y, k, block), 1);
    }
}

static void cpu_pointwise(enum fn fn, const double *scale, const double *shift, struct rows x,
                          struct rows value, struct rows slope) {
#pragma omp parallel for schedule(static) collapse(2) if (worth(10 * cells(x)))
    for (int k = 0; k < x.count; k++)
        for (int block = 0; block < cpu_blocks(x.array); block++)
            functions_apply(fn, scale ? scale[k] : 1, shift ? shift[k] : 0, cpu_at(x, k, block),
                            cpu_used(x.array, block), value.array ? cpu_at(value, k, block) : NULL,
                            slope.array ? cpu_at(slope, k, block) : NULL);
}

static void cpu_multiply(struct rows a, struct rows b, struct rows y) {
    int group = y.array->group, step_a = a.array->group, step_b = b.array->group;
#pragma omp parallel for schedule(static) collapse(2) if (worth(cells(y)))
    for (int k = 0; k < y.count; k++)
        for (int block = 0; block < cpu_blocks(y.array); block++) {
            const double *pa = cpu_at(a, a.count == 1 ? 0 : k, block);
            const double *pb = cpu_at(b, b.count == 1 ? 0 : k, block);
            double *py = cpu_at(y, k, block);
            int groups = cpu_used(y.array, block) / group;
            if (step_a == group && step_b == group) {
#pragma omp simd
                for (int i = 0; i < groups * group; i++)
                    py[i] = pa[i] * pb[i];
                continue;
            }
            for (int i = 0; i < groups; i++)
                for (int j = 0; j < group; j++)
                    py[i * group + j] = pa[step_a == group ? i * group + j : i] *
                                        pb[step_b == group ? i * group + j : i];
        }
}

static void cpu_group_sum(struct rows x, struct rows y) {
    int group = x.array->group / y.array->group;
#pragma omp parallel for schedule(static) collapse(2) if (worth(cells(x)))
    for (int k = 0; k < y.count; k++)
        for (int block = 0; block < cpu_blocks(y.array); block++) {
            const double *in = cpu_at(x, k, block);
            double *out = cpu_at(y, k, block);
            for (int i = 0, used = cpu_used(y.array, block); i < used; i++) {
                double sum = 0;
                for (int j = 0; j < group; j++)
                    sum += in[i * group + j];
                out[i] = sum;
            }
        }
}

/* Every group of y is a copy of x. */
static void cpu_tile(struct rows x, struct rows y) {
    size_t units = x.array->sites;
    assert((size_t)y.array->group == units && x.array->group == 1 && x.count == y.count);
    double *whole = scratch(x.array->split.over_ranks, (size_t)x.count * units);
    if (whole)
        cpu_get(x, whole);
#pragma omp parallel for schedule(static) collapse(2) if (worth(cells(y)))
    for (int k = 0; k < y.count; k++)
        for (int block = 0; block < cpu_blocks(y.array); block++) {
            double *out = cpu_at(y, k, block);
            size_t groups = (size_t)cpu_used(y.array, block) / units;
            if (!whole)
                fill_nan(out, groups * units);
            for (size_t i = 0; i < groups && whole; i++)
                memcpy(out + i * units, whole + (size_t)k * units, units * sizeof *out);
        }
    free(whole);
}

/* sum[j] over the groups of x of a part, added up in their order. */
static void cpu_sum_groups(struct rows x, int k, int part, size_t units, double *sum) {
    memset(sum, 0, units * sizeof *sum);
    for (int block = cpu_part(x.array, part); block < cpu_part(x.array, part + 1); block++) {
        const double *in = cpu_at(x, k, block);
        for (size_t i = 0, used = (size_t)cpu_used(x.array, block); i < used; i += units)
            for (size_t j = 0; j < units; j++)
                sum[j] += in[i + j];
    }
}

static void cpu_tile_mean(struct rows x, struct rows y) {
    const struct array_split split = x.array->split;
    size_t units = y.array->sites, size = units * (size_t)y.count;
    assert((size_t)x.array->group == units && y.array->group == 1 && x.count == y.count);
    double *sums = scratch(split.over_ranks, (size_t)split.parts * size);
    if (!sums) {
        for (int k = 0; k < y.count; k++)
            for (int block = 0; block < cpu_blocks(y.array); block++)
                fill_nan(cpu_at(y, k, block), (size_t)cpu_used(y.array, block));
        return;
    }
#pragma omp parallel for schedule(static) collapse(2) if (worth(cells(x)))
    for (int k = 0; k < y.count; k++)
        for (int part = split.first_part; part < split.end_part; part++)
            cpu_sum_groups(x, k, part, units, sums + (size_t)part * size + (size_t)k * units);
    cpu_total(x.array, sums, size);
    for (size_t j = 0; j < size; j++)
        sums[j] /= (double)x.array->sites / (double)units;
    cpu_put(y, sums);
    free(sums);
}

/* For each row the search for its K-th largest number, ended: `above` numbers of this rank belong
 * to the K largest, and of the `left` ones, which are equal to low, some. keys: room for all of x
 * that is on this rank. */
static int cpu_search(struct rows x, size_t K, uint64_t *keys, struct top_search *search,
                      struct err *err) {
    const struct array *a = x.array;
    uint64_t *largest = NULL, *smallest;
    size_t *here = NULL, *all, sites = 0, count = (size_t)x.count;
    int code = CODE_OK;
    DO(base_alloc(&largest, 2 * count, sizeof *largest, err));
    DO(base_alloc(&here, 2 * count, sizeof *here, err));
    smallest = largest + count;
    all = here + count;
    for (int block = 0; block < cpu_blocks(a); block++)
        sites += (size_t)cpu_used(a, block);
#pragma omp parallel for schedule(static) if (worth(cells(x)))
    for (int k = 0; k < x.count; k++) {
        search[k].keys = keys + (size_t)k * sites;
        top_start(&search[k]);
        for (int block = 0; block < cpu_blocks(a); block++)
            top_add(&search[k], cpu_at(x, k, block), cpu_used(a, block));
        largest[k] = search[k].high;
        smallest[k] = ~search[k].low;
    }
    if (a->split.over_ranks) {
        dist_largest(largest, x.count);
        dist_largest(smallest, x.count);
    }
    for (int k = 0; k < x.count; k++) {
        search[k].low = ~smallest[k];
        search[k].high = largest[k] + 1;
    }
    for (bool open = true; open;) {
        open = false;
#pragma omp parallel for schedule(static) if (worth(cells(x)))
        for (int k = 0; k < x.count; k++)
            all[k] = here[k] =
                top_open(&search[k]) ? top_count(&search[k], a->split.over_ranks) : 0;
        if (a->split.over_ranks)
            dist_sum(all, x.count);
        for (int k = 0; k < x.count; k++)
            if (top_open(&search[k])) {
                top_halve(&search[k], here[k], all[k], K);
                open = true;
            }
    }
done:
    free(largest);
    free(here);
    return code;
}

static int cpu_top(struct rows x, size_t K, struct rows mask, struct err *err) {
    int ranks = x.array->split.over_ranks ? dist_ranks() : 1, rank = ranks > 1 ? dist_rank() : 0;
    struct top_search *search = NULL;
    size_t *ties = NULL; /* [ranks][rows], then how many numbers are larger */
    uint64_t *keys = NULL;
    int code = CODE_OK;
    DO(base_alloc(&search, (size_t)x.count, sizeof *search, err));
    DO(base_alloc(&ties, (size_t)(ranks + 1) * (size_t)x.count, sizeof *ties, err));
    DO(base_alloc(&keys, cells(x), sizeof *keys, err));
    DO(cpu_search(x, K, keys, search, err));
    for (int k = 0; k < x.count; k++) {
        ties[ranks * x.count + k] = search[k].above;
        ties[rank * x.count + k] = search[k].left;
    }
    if (ranks > 1)
        dist_sum(ties, (ranks + 1) * x.count);
#pragma omp parallel for schedule(static) if (worth(cells(x)))
    for (int k = 0; k < x.count; k++) {
        size_t left = K - ties[ranks * x.count + k]; /* to be given to the lowest sites */
        for (int r = 0; r < rank; r++)
            left -= ties[r * x.count + k] < left ? ties[r * x.count + k] : left;
        for (int block = 0; block < cpu_blocks(x.array); block++) {
            const double *in = cpu_at(x, k, block);
            double *out = cpu_at(mask, k, block);
            for (int i = 0, used = cpu_used(x.array, block); i < used; i++) {
                uint64_t key = top_key(in[i]);
                bool tie = key == search[k].low && left > 0;
                left -= tie;
                out[i] = key > search[k].low || tie;
            }
        }
    }
done:
    free(search);
    free(ties);
    free(keys);
    return code;
}

static void cpu_entries(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                        struct rows y) {
#pragma omp parallel for schedule(static) collapse(2) if (worth(10 * cells(y)))
    for (int k = 0; k < y.count; k++)
        for (int block = 0; block < cpu_blocks(y.array); block++)
            functions_entries(&rule, cpu_at(g, k, block), cpu_used(y.array, block),
                              cpu_at(m, k, block), v.array ? cpu_at(v, k, block) : NULL,
                              cpu_at(y, k, block));
}

static int cpu_sync(struct err *err) {
    size_t count = not_allocated;
    not_allocated = 0;
    return count ? err_set(err, CODE_SYSTEM, "out of memory: %zu numbers of one operation", count)
                 : CODE_OK;
}

const struct backend backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .alloc = cpu_alloc,
    .resize = cpu_resize,
    .release = cpu_release,
    .put = cpu_put,
    .get = cpu_get,
    .normals = cpu_normals,
    .dots = cpu_dots,
    .averages = cpu_averages,
    .combine = cpu_combine,
    .pointwise = cpu_pointwise,
    .multiply = cpu_multiply,
    .group_sum = cpu_group_sum,
    .tile = cpu_tile,
    .tile_mean = cpu_tile_mean,
    .top = cpu_top,
    .entries = cpu_entries,
    .sync = cpu_sync,
    .can_split = true,
};
