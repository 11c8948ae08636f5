/* The reference backend: vector loops (few_rows.h), OpenBLAS and OpenMP. This file has its memory;
 * products, loops over sites and top-K have files of their own.
 *
 * Layout: [block][row][width], a block being BACKEND_BLOCK groups of sites; the rows of a block are
 * contiguous, so a product with a basis streams through memory and appending rows moves nothing
 * until the capacity is used up. BLAS is called single-threaded, inside one block. */
#define _DEFAULT_SOURCE /* madvise */
#include "kernels/array/cpu.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM 8
#define LARGE ((size_t)16 << 20) /* bytes */

/* Numbers that an operation of this thread found no memory for, until sync() tells. */
static _Thread_local size_t not_allocated;

/* Memory of an operation, to be freed. NULL: the operation leaves NaN. Ranks that work on one
 * array must have it, or the job ends. */
double *cpu_scratch(bool over_ranks, size_t count) {
    double *memory = over_ranks ? dist_buffer(count) : malloc(count * sizeof *memory);
    if (!memory)
        not_allocated = count;
    return memory;
}

void cpu_fill_nan(double *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = NAN;
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

void cpu_put(struct rows rows, const double *host) {
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

void cpu_get(struct rows rows, double *host) {
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

void cpu_add(const double *x, size_t count, double *sum) {
    for (size_t i = 0; i < count; i++)
        sum[i] += x[i];
}

/* The sums of all parts, [parts][size], complete; the first is the total of all, in order. */
void cpu_total(const struct array *a, double *sums, size_t size) {
    cpu_collect(a, sums, size);
    for (int part = 1; part < a->split.parts; part++)
        cpu_add(sums + (size_t)part * size, size, sums);
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
    .normals = cpu_sites_normals,
    .dots = cpu_products_dots,
    .averages = cpu_products_averages,
    .combine = cpu_products_combine,
    .pointwise = cpu_sites_pointwise,
    .multiply = cpu_sites_multiply,
    .group_sum = cpu_sites_group_sum,
    .tile = cpu_sites_tile,
    .tile_mean = cpu_sites_tile_mean,
    .top = cpu_top,
    .entries = cpu_sites_entries,
    .sync = cpu_sync,
    .can_split = true,
};
