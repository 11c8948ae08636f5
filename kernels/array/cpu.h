/* What the files of the reference backend share, in either precision (real.h): where the numbers of
 * a block lie, and how a loop over rows and blocks is shared out among threads. */
#pragma once

#include "kernels/array/backend.h"
#include "kernels/array/dist.h"
#include "kernels/array/operations.h"
#include "kernels/array/real.h"

#include <omp.h>

#define CPU_LONG 4096 /* numbers of a long row */

/* Whether this many elementary operations pay for waking other threads, if there are any. Small
 * regions on a loaded machine cost more than they save. */
static inline bool cpu_worth(size_t operations) {
    return operations > 200000 && omp_get_max_threads() > 1 && !omp_in_parallel();
}

/* Makes the call, which may name k and block, for each of `rows` rows (of every `run`-th one) and
 * each block (or part) from `first` to before `end`. Threads share it out where `operations` are
 * worth it. The branch stands before the region, because OpenMP makes a team even where its `if` is
 * false, which took half of the time of small networks. */
/* clang-format off */
#define CPU_EACH_RUN(operations, k, rows, run, block, first, end, call)                            \
    do {                                                                                           \
        if (cpu_worth(operations)) {                                                               \
            _Pragma("omp parallel for schedule(static) collapse(2)")                               \
            for (int k = 0; k < (rows); k += run)                                                  \
                for (int block = (first); block < (end); block++)                                  \
                    call;                                                                          \
        } else                                                                                     \
            for (int k = 0; k < (rows); k += run)                                                  \
                for (int block = (first); block < (end); block++)                                  \
                    call;                                                                          \
    } while (0)
#define CPU_EACH(operations, k, rows, block, first, end, call)                                     \
    CPU_EACH_RUN(operations, k, rows, 1, block, first, end, call)
/* clang-format on */

static inline size_t cpu_cells(struct rows rows) {
    return (size_t)rows.count * rows.array->sites;
}

/* Blocks are those on this rank. */
static inline int cpu_blocks(const struct array *a) {
    return (int)(a->split.end - a->split.first);
}

/* The number of the first site of a block. */
static inline size_t cpu_first(const struct array *a, int block) {
    return (a->split.first + (size_t)block) * array_block(a);
}

/* Sites in use of a block. */
static inline int cpu_used(const struct array *a, int block) {
    size_t most = array_block(a), left = a->sites - cpu_first(a, block);
    return (int)(left < most ? left : most);
}

/* How many rows of few sites are met at once, since they lie one behind the other; else 1. */
static inline int cpu_run(const struct array *a) {
    size_t width = array_width(a);
    return a->split.blocks == 1 && width < CPU_LONG ? (int)(CPU_LONG / width) : 1;
}

/* How many such rows are met as one long row, because there is no padding. */
static inline int cpu_long_run(const struct array *a) {
    return a->sites == array_width(a) ? cpu_run(a) : 1;
}

/* How many rows there are from k on, at most `run`. */
static inline int cpu_rest(struct rows r, int k, int run) {
    return r.count - k < run ? r.count - k : run;
}

/* Whether all rows have the same number; c is NULL where they have none. */
static inline bool cpu_all_equal(const double *c, int count) {
    for (int k = 1; c && k < count; k++)
        if (c[k] != c[0])
            return false;
    return true;
}

/* The block at which a part of this rank begins. */
static inline int cpu_part(const struct array *a, int part) {
    return (int)(array_part(&a->split, part) - a->split.first);
}

/* Numbers of the array before those of a row in a block. */
static inline size_t cpu_offset(struct rows r, int row, int block) {
    size_t line = (size_t)block * (size_t)r.array->capacity + (size_t)(r.first + row);
    return line * array_width(r.array);
}

static inline real *cpu_at(struct rows r, int row, int block) {
    return (real *)r.array->memory + cpu_offset(r, row, block);
}

static inline void cpu_fill_nan(real *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = NAN;
}

/* What operations leave that had no memory. */
static inline void cpu_fill_rows_nan(struct rows y) {
    for (int k = 0; k < y.count; k++)
        for (int block = 0; block < cpu_blocks(y.array); block++)
            cpu_fill_nan(cpu_at(y, k, block), (size_t)cpu_used(y.array, block));
}

/* --- cpu_memory.c: whatever the precision --- */

#define CPU_LARGE ((size_t)16 << 20) /* bytes of an array that reserves addresses */

int cpu_memory_open(double *bytes, struct err *err);
int cpu_memory_alloc(struct array *array, int capacity, struct err *err);
int cpu_memory_resize(struct array *array, int capacity, struct err *err);
void cpu_memory_release(struct array *array);
int cpu_memory_sync(struct err *err);
/* Memory of an operation, to be freed. NULL: the operation leaves NaN. Ranks that work on one
 * array must have it, or the job ends. */
double *cpu_scratch(bool over_ranks, size_t count);
/* The sums of all parts, [parts][size], complete; the first is the total of all, in order. */
void cpu_total(const struct array *a, double *sums, size_t size);
void cpu_add_numbers(const double *x, size_t count, double *sum); /* sum += x */

/* --- the operations of struct backend: cpu.c, cpu_products.c, cpu_sites.c, cpu_top.c --- */

#define CPU_DECLARED(name, parameters, ...) void cpu_##name parameters;
BACKEND_OPERATIONS(CPU_DECLARED)
bool cpu_is_live(struct rows row);
