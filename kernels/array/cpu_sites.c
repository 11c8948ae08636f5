/* Loops over sites of the reference backend: normals, functions, products and averages, groups. */
#include "kernels/array/cpu.h"
#include "kernels/array/few_rows.h"
#include "kernels/array/functions.h"

void cpu_normals(struct rows rows, struct rng_stream stream) {
    const struct array *a = rows.array;
    CPU_EACH(20 * cpu_cells(rows), k, rows.count, block, 0, cpu_blocks(a),
             functions_normals(stream, stream.draw + (uint32_t)k,
                               (uint32_t)(cpu_first(a, block) / 2), cpu_used(a, block),
                               cpu_at(rows, k, block))); /* pairs never straddle blocks */
}

static void apply_run(enum fn fn, const double *scale, const double *shift, struct rows x,
                      struct rows value, struct rows slope, int k, int run, bool whole, int block) {
    int used = cpu_used(x.array, block), rows = cpu_rest(x, k, run), n = whole ? rows * used : used;
    const double one = 1, none = 0, *a = scale ? scale + k : &one, *b = shift ? shift + k : &none;
    if (fn == FN_LINEAR && !slope.array)
        functions_affine(1, scale ? a : NULL, shift ? b : NULL, cpu_at(x, k, block),
                         array_width(x.array), whole ? 1 : rows, n, cpu_at(value, k, block),
                         array_width(value.array));
    else
        functions_apply(fn, *a, *b, cpu_at(x, k, block), n,
                        value.array ? cpu_at(value, k, block) : NULL,
                        slope.array ? cpu_at(slope, k, block) : NULL);
}

void cpu_pointwise(enum fn fn, const double *scale, const double *shift, struct rows x,
                   struct rows value, struct rows slope) {
    bool whole =
        cpu_long_run(x.array) > 1 && cpu_all_equal(scale, x.count) && cpu_all_equal(shift, x.count);
    int run = whole || (fn == FN_LINEAR && !slope.array) ? cpu_run(x.array) : 1;
    CPU_EACH_RUN(10 * cpu_cells(x), k, x.count, run, block, 0, cpu_blocks(x.array),
                 apply_run(fn, scale, shift, x, value, slope, k, run, whole, block));
}

void cpu_multiply(struct rows a, struct rows b, struct rows y) {
    int group = y.array->group, one_a = a.count == 1 ? 0 : 1, one_b = b.count == 1 ? 0 : 1;
    bool whole_a = a.array->group == group, whole_b = b.array->group == group;
    int run = one_a && one_b ? cpu_long_run(y.array) : 1;
    if (whole_a && whole_b)
        CPU_EACH_RUN(cpu_cells(y), k, y.count, run, block, 0, cpu_blocks(y.array),
                     functions_multiply(cpu_at(a, k * one_a, block), cpu_at(b, k * one_b, block),
                                        cpu_rest(y, k, run) * cpu_used(y.array, block),
                                        cpu_at(y, k, block)));
    else
        CPU_EACH(cpu_cells(y), k, y.count, block, 0, cpu_blocks(y.array),
                 functions_multiply_groups(cpu_at(a, k * one_a, block), cpu_at(b, k * one_b, block),
                                           whole_a, whole_b, cpu_used(y.array, block) / group,
                                           group, cpu_at(y, k, block)));
}

/* Rows of one block whose averages are found by one call. */
#define SUMS_AT_ONCE 32
/* Sums that are made side by side: one after the other each would wait for its last addition. */
#define SUMS 4
/* Groups of at most so many numbers, which begin at multiples of 64 bytes, lie across for that. */
#define LARGEST_ACROSS 256

static void sum_groups(struct rows x, struct rows y, int k, int block) {
    int group = x.array->group / y.array->group, used = cpu_used(y.array, block), i = 0;
    const real *in = cpu_at(x, k, block);
    real *out = cpu_at(y, k, block);
    real across[LARGEST_ACROSS * FUNCTIONS_SUMS] __attribute__((aligned(64)));
    bool turn = group <= LARGEST_ACROSS && group * REAL_BYTES % 64 == 0;
    for (; turn && i + FUNCTIONS_SUMS <= used; i += FUNCTIONS_SUMS, in += FUNCTIONS_SUMS * group) {
        few_rows_turned(in, (size_t)group, FUNCTIONS_SUMS, group, across, FUNCTIONS_SUMS);
        functions_sums_across(across, group, out + i);
    }
    for (; i < used; i += SUMS, in += SUMS * group) {
        double sums[SUMS] = {0};
        int count = used - i < SUMS ? used - i : SUMS;
        if (count == SUMS)
            for (int j = 0; j < group; j++)
                for (int l = 0; l < SUMS; l++)
                    sums[l] += (double)in[l * group + j];
        else
            for (int l = 0; l < count; l++)
                for (int j = 0; j < group; j++)
                    sums[l] += (double)in[l * group + j];
        for (int l = 0; l < count; l++)
            out[i + l] = (real)sums[l];
    }
}

void cpu_group_sum(struct rows x, struct rows y) {
    CPU_EACH(cpu_cells(x), k, y.count, block, 0, cpu_blocks(y.array), sum_groups(x, y, k, block));
}

/* Every group of a block is a copy of `units`; NULL: there was no memory for them. */
static void copy_units(const double *units, size_t count, struct rows y, int k, int block) {
    real *out = cpu_at(y, k, block);
    size_t groups = (size_t)cpu_used(y.array, block) / count;
    if (!units)
        cpu_fill_nan(out, groups * count);
    for (size_t i = 0; i < groups && units; i++)
#pragma omp simd
        for (size_t j = 0; j < count; j++)
            out[i * count + j] = (real)units[(size_t)k * count + j];
}

/* Every group of y is a copy of x. */
void cpu_tile(struct rows x, struct rows y) {
    size_t units = x.array->sites;
    assert((size_t)y.array->group == units && x.array->group == 1 && x.count == y.count);
    double *whole = cpu_scratch(x.array->split.over_ranks, (size_t)x.count * units);
    if (whole)
        cpu_get(x, whole);
    CPU_EACH(cpu_cells(y), k, y.count, block, 0, cpu_blocks(y.array),
             copy_units(whole, units, y, k, block));
    free(whole);
}

/* sum[j] over the groups of x of a part, added up in their order. */
static void sum_part(struct rows x, int k, int part, size_t units, double *sum) {
    memset(sum, 0, units * sizeof *sum);
    for (int block = cpu_part(x.array, part); block < cpu_part(x.array, part + 1); block++) {
        const real *in = cpu_at(x, k, block);
        for (size_t i = 0, used = (size_t)cpu_used(x.array, block); i < used; i += units)
            for (size_t j = 0; j < units; j++)
                sum[j] += (double)in[i + j];
    }
}

void cpu_tile_mean(struct rows x, struct rows y) {
    const struct array_split split = x.array->split;
    size_t units = y.array->sites, size = units * (size_t)y.count;
    assert((size_t)x.array->group == units && y.array->group == 1 && x.count == y.count);
    double *sums = cpu_scratch(split.over_ranks, (size_t)split.parts * size);
    if (!sums) {
        cpu_fill_rows_nan(y);
        return;
    }
    CPU_EACH(cpu_cells(x), k, y.count, part, split.first_part, split.end_part,
             sum_part(x, k, part, units, sums + (size_t)part * size + (size_t)k * units));
    cpu_total(x.array, sums, size);
    for (size_t j = 0; j < size; j++)
        sums[j] /= (double)x.array->sites / (double)units;
    cpu_put(y, sums);
    free(sums);
}

void cpu_entries(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                 struct rows y) {
    CPU_EACH(10 * cpu_cells(y), k, y.count, block, 0, cpu_blocks(y.array),
             functions_entries(&rule, cpu_at(g, k, block), cpu_used(y.array, block),
                               cpu_at(m, k, block), v.array ? cpu_at(v, k, block) : NULL,
                               cpu_at(y, k, block)));
}

/* The sums of rows from k on, at most `run` of them, over each part of this rank go to their places
 * [parts][rows]; where sums is NULL they are added up in out. */
static void row_sums(struct rows a, struct rows b, int k, int run, double *sums, double *out) {
    const struct array_split split = a.array->split;
    int rows = cpu_rest(a, k, run);
    double part_sums[SUMS_AT_ONCE];
    for (int part = split.first_part; part < split.end_part; part++) {
        double *to = sums ? sums + (size_t)part * (size_t)a.count + k : part ? part_sums : out + k;
        memset(to, 0, (size_t)rows * sizeof *to);
        for (int i = cpu_part(a.array, part); i < cpu_part(a.array, part + 1); i++)
            functions_sums(cpu_at(a, k, i), array_width(a.array),
                           b.array ? cpu_at(b, b.count == 1 ? 0 : k, i) : NULL,
                           b.count == 1 ? 0 : array_width(a.array), rows, cpu_used(a.array, i), to);
        if (to == part_sums)
            cpu_add_numbers(part_sums, (size_t)rows, out + k);
    }
}

void cpu_averages(struct rows a, struct rows b, double *out) {
    const struct array_split split = a.array->split;
    size_t size = (size_t)a.count;
    double *sums = split.over_ranks ? dist_buffer((size_t)split.parts * size) : NULL;
    int run = split.blocks == 1 ? SUMS_AT_ONCE : 1;
    CPU_EACH_RUN(cpu_cells(a), k, a.count, run, all, 0, 1, row_sums(a, b, k, run, sums, out));
    if (sums) {
        cpu_total(a.array, sums, size);
        memcpy(out, sums, size * sizeof *out);
        free(sums);
    }
    for (size_t k = 0; k < size; k++)
        out[k] /= (double)a.array->sites;
}

/* Numbers that are looked at together. */
#define LIVE_AT_ONCE 32

bool cpu_is_live(struct rows row) {
    for (int block = 0; block < cpu_blocks(row.array); block++) {
        const real *x = cpu_at(row, 0, block);
        if (x[0] != 0) /* as in most rows that are live */
            return true;
        for (int i = 0, used = cpu_used(row.array, block); i < used; i += LIVE_AT_ONCE) {
            int end = used - i < LIVE_AT_ONCE ? used : i + LIVE_AT_ONCE, found = 0;
#pragma omp simd reduction(+ : found)
            for (int j = i; j < end; j++)
                found += x[j] != 0;
            if (found)
                return true;
        }
    }
    return false;
}
