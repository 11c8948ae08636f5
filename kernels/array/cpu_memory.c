/* Memory of the processor's backends, whatever their precision: arrays, scratch of operations, and
 * sums over the parts of ranks. */
#define _DEFAULT_SOURCE /* madvise */
#include "kernels/array/cpu.h"

#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM 8
#define LINE 64 /* bytes */

/* Numbers that an operation of this thread found no memory for, until sync() tells. */
static _Thread_local size_t not_allocated;

double *cpu_scratch(bool over_ranks, size_t count) {
    double *memory = over_ranks ? dist_buffer(count) : malloc(count * sizeof *memory);
    if (!memory)
        not_allocated = count;
    return memory;
}

int cpu_memory_open(double *bytes, struct err *err UNUSED) {
    *bytes = HUGE_VAL;
    return CODE_OK;
}

/* Memory at a multiple of LINE bytes, in a block that has the address of its beginning in front.
 * aligned_alloc would cut such a block from a larger one and give the rest back, so that the next
 * array of this size did not fit where this one was, unless the memory beside it is free. */
static void *take_aligned(size_t bytes) {
    char *block = malloc(bytes + LINE);
    if (!block)
        return NULL;
    char *memory = block + LINE - (uintptr_t)block % LINE;
    memcpy(memory - sizeof block, &block, sizeof block);
    return memory;
}

static void give_back(void *memory) {
    char *block;
    if (!memory)
        return;
    memcpy(&block, (char *)memory - sizeof block, sizeof block);
    free(block);
}

int cpu_memory_alloc(struct array *array, int capacity, struct err *err) {
    size_t bytes = array_bytes(array, capacity);
    array->capacity = capacity;
    array->memory = take_aligned(bytes);
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
int cpu_memory_resize(struct array *array, int capacity, struct err *err) {
    struct array larger = *array;
    struct err ignored = {0};
    bool large = array_bytes(array, capacity) >= CPU_LARGE && capacity <= INT_MAX / ROOM;
    if (!large || cpu_memory_alloc(&larger, ROOM * capacity, &ignored))
        TRY(cpu_memory_alloc(&larger, capacity, err));
    else
        keep_pages_small(&larger);
    struct rows from = {array, 0, array->rows}, to = {&larger, 0, array->rows};
    size_t number = array->backend->bytes,
           bytes = (size_t)array->rows * array_width(array) * number;
    for (int block = 0; block < cpu_blocks(array) && bytes; block++)
        memcpy((char *)larger.memory + cpu_offset(to, 0, block) * number,
               (char *)array->memory + cpu_offset(from, 0, block) * number, bytes);
    give_back(array->memory);
    *array = larger;
    return CODE_OK;
}

void cpu_memory_release(struct array *array) {
    give_back(array->memory);
    array->memory = NULL;
}

/* Numbers of all parts, `size` for each: those of this rank -> all ranks. */
static void collect_parts(const struct array *a, double *parts, size_t size) {
    int ranks = dist_ranks();
    size_t first[ranks + 1];
    for (int r = 0; r <= ranks; r++)
        first[r] = size * (size_t)array_rank(&a->split, r);
    if (a->split.over_ranks)
        dist_collect(parts, first);
}

void cpu_add_numbers(const double *x, size_t count, double *sum) {
    for (size_t i = 0; i < count; i++)
        sum[i] += x[i];
}

void cpu_total(const struct array *a, double *sums, size_t size) {
    collect_parts(a, sums, size);
    for (int part = 1; part < a->split.parts; part++)
        cpu_add_numbers(sums + (size_t)part * size, size, sums);
}

int cpu_memory_sync(struct err *err) {
    size_t count = not_allocated;
    not_allocated = 0;
    return count ? err_set(err, CODE_SYSTEM, "out of memory: %zu numbers of one operation", count)
                 : CODE_OK;
}
