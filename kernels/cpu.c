/* The reference backend: vector loops (few_rows.h), OpenBLAS and OpenMP.
 *
 * Layout: [block][row][width], a block being BACKEND_BLOCK groups of sites; the rows of a block are
 * contiguous, so a product with a basis streams through memory and appending rows moves nothing
 * until the capacity is used up. BLAS is called single-threaded, inside one block. */
#define _DEFAULT_SOURCE /* madvise */
#include "kernels/dist.h"
#include "kernels/functions.h"
#include "kernels/few_rows.h"

#include <assert.h>
#include <cblas.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* dots() works on TILE numbers of C at once, of at most SHORT rows of the shorter factor; a task is
 * PIECE rows of the longer one. All fixed, so bits do not depend on threads. */
#define TILE 8192
#define SHORT 64
#define PIECE 128
#define HUGE_PAGE ((size_t)2 << 20)

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
    size_t page = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : 64;
    array->memory = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (!array->memory)
        return err_set(err, CODE_SYSTEM, "out of memory: %d rows over %zu sites (%.3g GB)",
                       capacity, array->sites, 1e-9 * (double)bytes);
    if (page == HUGE_PAGE)
        madvise(array->memory, bytes, MADV_HUGEPAGE); /* fewer address translations; or nothing */
    return CODE_OK;
}

static int cpu_resize(struct array *array, int capacity, struct err *err) {
    struct array larger = *array;
    TRY(cpu_alloc(&larger, capacity, err));
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

/* C[k][l] += the sum over a block, rows of C `stride` apart. */
static void block_dots(struct rows a, struct rows b, int block, bool few, double *C,
                       size_t stride) {
    size_t width = array_width(a.array);
    int used = cpu_used(a.array, block);
    const double *x = cpu_at(a, 0, block), *y = cpu_at(b, 0, block);
    if (few && a.count > b.count)
        few_rows_dots(x, a.count, y, b.count, used, width, C, stride, 1);
    else if (few)
        few_rows_dots(y, b.count, x, a.count, used, width, C, 1, stride);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, a.count, b.count, used, 1.0, x,
                    (int)width, y, (int)width, 1.0, C, (int)stride);
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

/* The sums over a part, [a.count][b.count], of the rows of its longer factor from `row` on. */
static void part_dots(struct rows a, struct rows b, int part, int row, double *sum) {
    bool by_a = a.count > b.count, few = (by_a ? b.count : a.count) <= few_rows_most();
    int left = (by_a ? a.count : b.count) - row, rows = left < PIECE ? left : PIECE;
    struct rows x = by_a ? rows_part(a, row, rows) : a, y = by_a ? b : rows_part(b, row, rows);
    sum += by_a ? row * b.count : row;
    for (int k = 0; k < x.count; k++)
        memset(sum + k * b.count, 0, (size_t)y.count * sizeof *sum);
    for (int block = cpu_part(a.array, part); block < cpu_part(a.array, part + 1); block++)
        block_dots(x, y, block, few, sum, (size_t)b.count);
}

/* One tile of C, rows of which are `stride` apart. sums: room for all parts if these are worked on
 * at once, on all threads or all ranks; else for the total and a part. */
static void tile_dots(struct rows a, struct rows b, bool at_once, double *sums, double *C,
                      size_t stride) {
    const struct array_split *split = &a.array->split;
    int count = a.count > b.count ? a.count : b.count;
    size_t size = (size_t)a.count * (size_t)b.count;
    if (at_once) {
#pragma omp parallel for schedule(static) collapse(2) if (worth(size * a.array->sites))
        for (int part = split->first_part; part < split->end_part; part++)
            for (int row = 0; row < count; row += PIECE)
                part_dots(a, b, part, row, sums + (size_t)part * size);
        cpu_total(a.array, sums, size);
    } else
        for (int part = 0; part < split->parts; part++) {
            for (int row = 0; row < count; row += PIECE)
                part_dots(a, b, part, row, part ? sums + size : sums);
            if (part)
                cpu_add(sums + size, size, sums);
        }
    for (int k = 0; k < a.count; k++)
        for (int l = 0; l < b.count; l++)
            C[(size_t)k * stride + (size_t)l] =
                sums[k * b.count + l] * (1.0 / (double)a.array->sites);
}

static void cpu_dots(struct rows a, struct rows b, double *C) {
    assert(!a.count || !b.count ||
           (a.array->sites == b.array->sites && a.array->group == b.array->group));
    if (!a.count || !b.count)
        return;
    bool at_once = a.array->split.over_ranks || worth(cells(a) * (size_t)b.count);
    int shorter = a.count < b.count ? a.count : b.count;
    shorter = shorter < SHORT ? shorter : SHORT;
    int rows = a.count > b.count ? TILE / shorter : shorter;
    int columns = a.count > b.count ? shorter : TILE / shorter;
    size_t size =
        (size_t)(a.count < rows ? a.count : rows) * (size_t)(b.count < columns ? b.count : columns);
    double *sums =
        scratch(a.array->split.over_ranks, (at_once ? (size_t)a.array->split.parts : 2) * size);
    if (!sums)
        fill_nan(C, (size_t)a.count * (size_t)b.count);
    for (int i = 0; i < a.count && sums; i += rows)
        for (int j = 0; j < b.count; j += columns)
            tile_dots(rows_part(a, i, a.count - i < rows ? a.count - i : rows),
                      rows_part(b, j, b.count - j < columns ? b.count - j : columns), at_once, sums,
                      C + (size_t)i * (size_t)b.count + j, (size_t)b.count);
    free(sums);
}

static double sum_of(const double *x, const double *y, int n) {
    double sum = 0;
    if (y)
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < n; i++)
            sum += x[i] * y[i];
    else
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < n; i++)
            sum += x[i];
    return sum;
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
                sum += sum_of(cpu_at(a, k, i), b.array ? cpu_at(b, b.count == 1 ? 0 : k, i) : NULL,
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

/* Numbers in the order of the values, without a difference between 0 and -0. */
static uint64_t cpu_key(double value) {
    uint64_t bits;
    value += 0.0;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

/* Numbers at least `least` of row k. */
static size_t cpu_count(struct rows x, int k, uint64_t least) {
    size_t count = 0;
    for (int block = 0; block < cpu_blocks(x.array); block++) {
        const double *in = cpu_at(x, k, block);
        for (int i = 0, used = cpu_used(x.array, block); i < used; i++)
            count += cpu_key(in[i]) >= least;
    }
    return count;
}

static uint64_t cpu_largest(struct rows x, int k) {
    uint64_t largest = 0;
    for (int block = 0; block < cpu_blocks(x.array); block++) {
        const double *in = cpu_at(x, k, block);
        for (int i = 0, used = cpu_used(x.array, block); i < used; i++)
            largest = cpu_key(in[i]) > largest ? cpu_key(in[i]) : largest;
    }
    return largest;
}

/* The K-th largest number of each row, by bisection: K numbers are at least low, fewer at least
 * high. Or, as good, a smaller one that exactly K numbers reach. */
static void cpu_bisect(struct rows x, size_t K, uint64_t *low) {
    bool over_ranks = x.array->split.over_ranks;
    uint64_t high[x.count], middle[x.count];
    size_t count[x.count];
#pragma omp parallel for schedule(static) if (worth(cells(x)))
    for (int k = 0; k < x.count; k++)
        high[k] = cpu_largest(x, k);
    if (over_ranks)
        dist_largest(high, x.count);
    for (int k = 0; k < x.count; k++) {
        low[k] = K == 0 ? high[k] + 1 : K == 1 ? high[k] : 0;
        high[k]++;
    }
    for (bool open = true; open;) {
        open = false;
#pragma omp parallel for schedule(static) if (worth(cells(x)))
        for (int k = 0; k < x.count; k++) {
            middle[k] = low[k] + (high[k] - low[k]) / 2;
            count[k] = high[k] > low[k] + 1 ? cpu_count(x, k, middle[k]) : 0;
        }
        if (over_ranks)
            dist_sum(count, x.count);
        for (int k = 0; k < x.count; k++) {
            if (high[k] <= low[k] + 1)
                continue;
            open = true;
            if (count[k] == K)
                high[k] = (low[k] = middle[k]) + 1;
            else if (count[k] > K)
                low[k] = middle[k];
            else
                high[k] = middle[k];
        }
    }
}

static int cpu_top(struct rows x, size_t K, struct rows mask, struct err *err) {
    int ranks = x.array->split.over_ranks ? dist_ranks() : 1, rank = ranks > 1 ? dist_rank() : 0;
    uint64_t low[x.count];
    size_t *ties; /* [ranks][rows], then how many numbers are larger */
    TRY(base_alloc(&ties, (size_t)(ranks + 1) * (size_t)x.count, sizeof *ties, err));
    cpu_bisect(x, K, low);
    for (int k = 0; k < x.count; k++) {
        size_t larger = cpu_count(x, k, low[k] + 1);
        ties[ranks * x.count + k] = larger;
        ties[rank * x.count + k] = cpu_count(x, k, low[k]) - larger;
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
                uint64_t key = cpu_key(in[i]);
                bool tie = key == low[k] && left > 0;
                left -= tie;
                out[i] = key > low[k] || tie;
            }
        }
    }
    free(ties);
    return CODE_OK;
}

static void cpu_adam(struct adam adam, struct rows g, struct rows m, struct rows v, struct rows y) {
#pragma omp parallel for schedule(static) collapse(2) if (worth(10 * cells(y)))
    for (int k = 0; k < y.count; k++)
        for (int block = 0; block < cpu_blocks(y.array); block++)
            functions_adam(&adam, cpu_at(g, k, block), cpu_used(y.array, block),
                           cpu_at(m, k, block), cpu_at(v, k, block), cpu_at(y, k, block));
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
    .adam = cpu_adam,
    .sync = cpu_sync,
    .can_split = true,
};
