/* The reference backend: vector loops (few_rows.h), OpenBLAS and OpenMP. This file has its table
 * and what crosses to the host; memory, products, loops over sites and top-K have files of their
 * own.
 *
 * Layout: [block][row][width], a block being BACKEND_BLOCK groups of sites; the rows of a block are
 * contiguous, so a product with a basis streams through memory and appending rows moves nothing
 * until the capacity is used up. BLAS is called single-threaded, inside one block. */
#include "kernels/array/cpu.h"

/* Host numbers become those of sites, or these host numbers. */
#define CROSS(type, to, count, from)                                                               \
    _Pragma("omp simd") for (int i = 0; i < (count); i++)(to)[i] = (type)(from)[i]

void cpu_put(struct rows rows, const double *host) {
    for (int k = 0; k < rows.count; k++)
        for (int block = 0; block < cpu_blocks(rows.array); block++)
            CROSS(real, cpu_at(rows, k, block), cpu_used(rows.array, block),
                  host + (size_t)k * rows.array->sites + cpu_first(rows.array, block));
}

void cpu_get(struct rows rows, double *host) {
    const struct array *a = rows.array;
    int ranks = dist_ranks();
    size_t first[ranks + 1];
    for (int r = 0; r < ranks; r++)
        first[r] = array_part(&a->split, array_rank(&a->split, r)) * array_block(a);
    first[ranks] = a->sites;
    for (int k = 0; k < rows.count; k++) {
        double *row = host + (size_t)k * a->sites;
        for (int block = 0; block < cpu_blocks(a); block++)
            CROSS(double, row + cpu_first(a, block), cpu_used(a, block), cpu_at(rows, k, block));
        if (a->split.over_ranks)
            dist_collect(row, first);
    }
}

#define ENTER(name, ...) .name = cpu_##name,
const struct backend REAL_BACKEND = {.name = REAL_BYTES == 4 ? "cpu_single" : "cpu",
                                     .other = &REAL_OTHER,
                                     .bytes = sizeof(real),
                                     .large = CPU_LARGE,
                                     .open = cpu_memory_open,
                                     .alloc = cpu_memory_alloc,
                                     .resize = cpu_memory_resize,
                                     .release = cpu_memory_release,
                                     .is_live = cpu_is_live,
                                     .sync = cpu_memory_sync,
                                     .can_split = true,
                                     BACKEND_OPERATIONS(ENTER)};
