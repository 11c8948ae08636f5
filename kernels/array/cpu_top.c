/* The K largest numbers of rows that may lie on several ranks, by the search of top.h. */
#include "kernels/array/cpu.h"
#include "kernels/array/few_rows.h"
#include "kernels/array/top.h"

/* Begins the search in row k, with room for its keys. */
static void begin_search(struct rows x, int k, uint64_t *keys, struct top_search *search) {
    search->keys = keys;
    top_start(search);
    for (int block = 0; block < cpu_blocks(x.array); block++) {
        const real *in = cpu_at(x, k, block);
        for (int i = 0, used = cpu_used(x.array, block); i < used; i++)
            top_add(search, (double)in[i]);
    }
}

/* 1 on the numbers of row k above the K-th largest, and on the first `left` of those equal to it */
static void mark_largest(struct rows x, int k, const struct top_search *search, size_t left,
                         struct rows mask) {
    for (int block = 0; block < cpu_blocks(x.array); block++) {
        const real *in = cpu_at(x, k, block);
        real *out = cpu_at(mask, k, block);
        for (int i = 0, used = cpu_used(x.array, block); i < used; i++) {
            uint64_t key = top_key((double)in[i]);
            bool tie = key == search->low && left > 0;
            left -= tie;
            out[i] = key > search->low || tie;
        }
    }
}

/* How many of the numbers that are equal to the K-th largest of row k this rank marks: lower ranks,
 * which have lower sites, come first. ties: [ranks][rows], then how many numbers are larger. */
static size_t left_of(const size_t *ties, int k, int rows, int rank, int ranks, size_t K) {
    size_t left = K - ties[ranks * rows + k];
    for (int r = 0; r < rank; r++)
        left -= ties[r * rows + k] < left ? ties[r * rows + k] : left;
    return left;
}

/* For each row the search for its K-th largest number, ended: `above` numbers of this rank belong
 * to the K largest, and of the `left` ones, which are equal to low, some. keys: room for all of x
 * that is on this rank. */
static void search_all(struct rows x, size_t K, uint64_t *keys, uint64_t *ends, size_t *counts,
                       struct top_search *search) {
    const struct array *a = x.array;
    uint64_t *largest = ends, *smallest = ends + x.count;
    size_t *here = counts, *all = counts + x.count, sites = 0;
    for (int block = 0; block < cpu_blocks(a); block++)
        sites += (size_t)cpu_used(a, block);
    CPU_EACH(cpu_cells(x), k, x.count, all_blocks, 0, 1,
             begin_search(x, k, keys + (size_t)k * sites, &search[k]));
    for (int k = 0; k < x.count; k++) {
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
        CPU_EACH(cpu_cells(x), k, x.count, all_blocks, 0, 1,
                 all[k] = here[k] =
                     top_open(&search[k]) ? top_count(&search[k], a->split.over_ranks) : 0);
        if (a->split.over_ranks)
            dist_sum(all, x.count);
        for (int k = 0; k < x.count; k++)
            if (top_open(&search[k])) {
                top_halve(&search[k], here[k], all[k], K);
                open = true;
            }
    }
}

void cpu_top(struct rows x, size_t K, struct rows mask) {
    size_t sites = x.array->sites, count = (size_t)x.count;
    bool shared = x.array->split.over_ranks;
    if (x.array->split.blocks == 1 && sites <= FEW_ROWS_TOP && !shared) {
        for (int k = 0; k < x.count; k++)
            few_rows_top(cpu_at(x, k, 0), (int)sites, K < sites ? (int)K : (int)sites,
                         cpu_at(mask, k, 0));
        return;
    }
    int ranks = shared ? dist_ranks() : 1, rank = ranks > 1 ? dist_rank() : 0;
    size_t searches = count * sizeof(struct top_search) / sizeof(double);
    FREED(base_free) struct top_search *search = (void *)cpu_scratch(shared, searches);
    /* [ranks][rows], then how many numbers are larger */
    FREED(base_free) size_t *ties = (void *)cpu_scratch(shared, (size_t)(ranks + 1) * count);
    FREED(base_free) uint64_t *keys = (void *)cpu_scratch(shared, (size_t)cpu_cells(x) + 4 * count);
    if (!search || !ties || !keys)
        return;
    uint64_t *ends = keys + cpu_cells(x);
    search_all(x, K, keys, ends, (size_t *)(ends + 2 * count), search);
    for (int k = 0; k < x.count; k++) {
        ties[ranks * x.count + k] = search[k].above;
        ties[rank * x.count + k] = search[k].left;
    }
    if (ranks > 1)
        dist_sum(ties, (ranks + 1) * x.count);
    CPU_EACH(cpu_cells(x), k, x.count, all_blocks, 0, 1,
             mark_largest(x, k, &search[k], left_of(ties, k, x.count, rank, ranks, K), mask));
}
