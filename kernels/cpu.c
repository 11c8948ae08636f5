/* The reference backend: vector loops (skinny.h), OpenBLAS and OpenMP.
 *
 * Layout: [block][row][width], a block being BACKEND_BLOCK groups of sites; the rows of a block are
 * contiguous, so a product with a basis streams through memory and appending rows moves nothing
 * until the capacity is used up. BLAS is called single-threaded, inside one block. */
#define _DEFAULT_SOURCE /* madvise */
#include "kernels/functions.h"
#include "kernels/skinny.h"

#include <assert.h>
#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Rows of the longer factor of dots() that one task handles; fixed, so bits do not depend on
 * threads. */
#define CHUNK 32
/* Rows of the shorter factor of a product beyond which BLAS does it. */
#define SKINNY 16
#define HUGE_PAGE ((size_t)2 << 20)

/* Whether this many elementary operations pay for waking other threads. Small regions on a loaded
 * machine cost more than they save. */
static bool worth(size_t operations) {
    return operations > 200000;
}

static size_t cells(struct rows rows) {
    return (size_t)rows.count * rows.array->sites;
}

static int cpu_blocks(const struct array *a) {
    size_t width = array_width(a);
    return (int)((a->sites + width - 1) / width);
}

/* Sites in use of a block. */
static int cpu_used(const struct array *a, int block) {
    size_t width = array_width(a), left = a->sites - (size_t)block * width;
    return (int)(left < width ? left : width);
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
    size_t bytes = array_bytes(array->sites, array->group, capacity);
    array->capacity = capacity;
    size_t page = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : 64;
    array->memory = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (!array->memory)
        return err_set(err, CODE_SYSTEM, "out of memory: %d rows over %zu sites (%.3g GB)",
                       capacity, array->sites, 1e-9 * (double)bytes);
    if (page == HUGE_PAGE)
        madvise(array->memory, bytes, MADV_HUGEPAGE); /* a third faster out of cache; or nothing */
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
    size_t width = array_width(rows.array);
    for (int k = 0; k < rows.count; k++)
        for (int block = 0; block < cpu_blocks(rows.array); block++)
            memcpy(cpu_at(rows, k, block),
                   host + (size_t)k * rows.array->sites + (size_t)block * width,
                   (size_t)cpu_used(rows.array, block) * sizeof(double));
}

static void cpu_get(struct rows rows, double *host) {
    size_t width = array_width(rows.array);
    for (int k = 0; k < rows.count; k++)
        for (int block = 0; block < cpu_blocks(rows.array); block++)
            memcpy(host + (size_t)k * rows.array->sites + (size_t)block * width,
                   cpu_at(rows, k, block), (size_t)cpu_used(rows.array, block) * sizeof(double));
}

static void cpu_normals(struct rows rows, struct rng_stream stream) {
    const struct array *a = rows.array;
    size_t width = array_width(a); /* a multiple of 8: pairs never straddle blocks */
#pragma omp parallel for schedule(static) collapse(2) if (worth(20 * cells(rows)))
    for (int block = 0; block < cpu_blocks(a); block++)
        for (int k = 0; k < rows.count; k++)
            functions_normals(stream, stream.draw + (uint32_t)k,
                              (uint32_t)((size_t)block * width / 2), cpu_used(a, block),
                              cpu_at(rows, k, block));
}

/* C[k][l] += the sum over a block, rows of C `stride` apart. */
static void block_dots(struct rows a, struct rows b, int block, double *C, int stride) {
    size_t width = array_width(a.array);
    int used = cpu_used(a.array, block);
    const double *x = cpu_at(a, 0, block), *y = cpu_at(b, 0, block);
    if (a.count <= SKINNY || b.count <= SKINNY)
        skinny_dots(x, a.count, y, b.count, used, width, C, stride);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, a.count, b.count, used, 1.0, x,
                    (int)width, y, (int)width, 1.0, C, stride);
}

static void cpu_dots(struct rows a, struct rows b, double *C) {
    assert(!a.count || !b.count ||
           (a.array->sites == b.array->sites && a.array->group == b.array->group));
    if (!a.count || !b.count)
        return;
    bool by_a = a.count > b.count;
    int blocks = cpu_blocks(a.array), count = by_a ? a.count : b.count;
    double scale = 1.0 / (double)a.array->sites;
    memset(C, 0, (size_t)a.count * (size_t)b.count * sizeof *C);
#pragma omp parallel for schedule(static) if (worth(cells(a) * (size_t)b.count))
    for (int first = 0; first < count; first += CHUNK) {
        int rows = count - first < CHUNK ? count - first : CHUNK;
        struct rows x = by_a ? rows_part(a, first, rows) : a;
        struct rows y = by_a ? b : rows_part(b, first, rows);
        double *out = C + (by_a ? first * b.count : first);
        for (int block = 0; block < blocks; block++)
            block_dots(x, y, block, out, b.count);
        for (int k = 0; k < x.count; k++)
            for (int l = 0; l < y.count; l++)
                out[k * b.count + l] *= scale;
    }
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
#pragma omp parallel for schedule(static) if (worth(cells(a)))
    for (int k = 0; k < a.count; k++) {
        double sum = 0;
        for (int block = 0; block < cpu_blocks(a.array); block++)
            sum +=
                sum_of(cpu_at(a, k, block), b.array ? cpu_at(b, b.count == 1 ? 0 : k, block) : NULL,
                       cpu_used(a.array, block));
        out[k] = sum / (double)a.array->sites;
    }
}

static void cpu_combine(struct rows y, double beta, const double *C, struct rows a) {
    if (!y.count)
        return;
    int width = (int)array_width(y.array);
#pragma omp parallel for schedule(static) if (worth(cells(y) * (size_t)(a.count + 1)))
    for (int block = 0; block < cpu_blocks(y.array); block++) {
        int used = cpu_used(y.array, block);
        if (a.count && (a.count <= SKINNY || y.count <= SKINNY))
            skinny_combine(cpu_at(y, 0, block), y.count, beta, C, cpu_at(a, 0, block), a.count,
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

/* A group of y holds the blocks of x one after the other. */
static void cpu_tile(struct rows x, struct rows y) {
    size_t units = x.array->sites, width = array_width(x.array);
    assert((size_t)y.array->group == units && x.array->group == 1 && x.count == y.count);
#pragma omp parallel for schedule(static) collapse(2)
    for (int k = 0; k < y.count; k++)
        for (int block = 0; block < cpu_blocks(y.array); block++) {
            double *out = cpu_at(y, k, block);
            size_t groups = (size_t)cpu_used(y.array, block) / units;
            for (size_t i = 0; i < groups; i++)
                for (int part = 0; part < cpu_blocks(x.array); part++)
                    memcpy(out + i * units + (size_t)part * width, cpu_at(x, k, part),
                           (size_t)cpu_used(x.array, part) * sizeof(double));
        }
}

static void cpu_tile_mean(struct rows x, struct rows y) {
    size_t units = y.array->sites, width = array_width(y.array), groups = x.array->sites / units;
    assert((size_t)x.array->group == units && y.array->group == 1 && x.count == y.count);
#pragma omp parallel for schedule(static) collapse(2)
    for (int k = 0; k < y.count; k++)
        for (int part = 0; part < cpu_blocks(y.array); part++) {
            double *out = cpu_at(y, k, part);
            int used = cpu_used(y.array, part);
            memset(out, 0, (size_t)used * sizeof(double));
            for (size_t i = 0; i < groups; i++) {
                const double *block = cpu_at(x, k, (int)(i / BACKEND_BLOCK));
                const double *in = block + i % BACKEND_BLOCK * units + (size_t)part * width;
                for (int j = 0; j < used; j++)
                    out[j] += in[j];
            }
            for (int j = 0; j < used; j++)
                out[j] /= (double)groups;
        }
}

struct ranked {
    double value;
    size_t site;
};

/* Larger values first, then lower sites. */
static int cpu_before(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return (x->site > y->site) - (x->site < y->site);
}

static int cpu_top(struct rows x, size_t K, struct rows mask, struct err *err) {
    size_t sites = x.array->sites, width = array_width(x.array);
    struct ranked *scratch;
    TRY(base_alloc(&scratch, sites * (size_t)x.count, sizeof *scratch, err));
#pragma omp parallel for schedule(static) if (worth(10 * cells(x)))
    for (int k = 0; k < x.count; k++) {
        struct ranked *order = scratch + (size_t)k * sites;
        for (size_t i = 0; i < sites; i++)
            order[i] = (struct ranked){cpu_at(x, k, (int)(i / width))[i % width], i};
        if (K == 1) { /* the largest alone needs no sorting */
            for (size_t i = 1; i < sites; i++)
                if (cpu_before(order + i, order) < 0) {
                    struct ranked swap = order[0];
                    order[0] = order[i];
                    order[i] = swap;
                }
        } else
            qsort(order, sites, sizeof *order, cpu_before);
        for (size_t i = 0; i < sites; i++) {
            size_t site = order[i].site;
            cpu_at(mask, k, (int)(site / width))[site % width] = i < K ? 1 : 0;
        }
    }
    free(scratch);
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
    (void)err;
    return CODE_OK;
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
};
