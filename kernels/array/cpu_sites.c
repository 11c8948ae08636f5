/* Loops over sites of the reference backend: normals, functions, products site by site and their
 * averages, groups. */
#include "kernels/array/cpu.h"
#include "kernels/array/functions.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void cpu_sites_normals(struct rows rows, struct rng_stream stream) {
    const struct array *a = rows.array;
    CPU_EACH(20 * cpu_cells(rows), k, rows.count, block, 0, cpu_blocks(a),
             functions_normals(stream, stream.draw + (uint32_t)k,
                               (uint32_t)(cpu_first(a, block) / 2), cpu_used(a, block),
                               cpu_at(rows, k, block))); /* pairs never straddle blocks */
}

void cpu_sites_pointwise(enum fn fn, const double *scale, const double *shift, struct rows x,
                         struct rows value, struct rows slope) {
    CPU_EACH(10 * cpu_cells(x), k, x.count, block, 0, cpu_blocks(x.array),
             functions_apply(fn, scale ? scale[k] : 1, shift ? shift[k] : 0, cpu_at(x, k, block),
                             cpu_used(x.array, block), value.array ? cpu_at(value, k, block) : NULL,
                             slope.array ? cpu_at(slope, k, block) : NULL));
}

/* y = a b of `group` sites, of which b has one number. */
static void multiply_group(const real *a, real b, int group, real *y) {
#pragma omp simd
    for (int j = 0; j < group; j++)
        y[j] = a[j] * b;
}

static void multiply_row(struct rows a, struct rows b, struct rows y, int k, int block) {
    int group = y.array->group;
    bool whole_a = a.array->group == group, whole_b = b.array->group == group;
    const real *pa = cpu_at(a, a.count == 1 ? 0 : k, block);
    const real *pb = cpu_at(b, b.count == 1 ? 0 : k, block);
    real *py = cpu_at(y, k, block);
    int groups = cpu_used(y.array, block) / group;
    if (whole_a && whole_b) {
#pragma omp simd
        for (int i = 0; i < groups * group; i++)
            py[i] = pa[i] * pb[i];
        return;
    }
    for (int i = 0; i < groups; i++, py += group)
        if (whole_a)
            multiply_group(pa + i * group, pb[i], group, py);
        else if (whole_b)
            multiply_group(pb + i * group, pa[i], group, py);
        else
            for (int j = 0; j < group; j++)
                py[j] = pa[i] * pb[i];
}

void cpu_sites_multiply(struct rows a, struct rows b, struct rows y) {
    CPU_EACH(cpu_cells(y), k, y.count, block, 0, cpu_blocks(y.array),
             multiply_row(a, b, y, k, block));
}

/* Sums that are made side by side: one after the other each would wait for its last addition. */
#define SUMS 4

static void sum_groups(struct rows x, struct rows y, int k, int block) {
    int group = x.array->group / y.array->group, used = cpu_used(y.array, block);
    const real *in = cpu_at(x, k, block);
    real *out = cpu_at(y, k, block);
    for (int i = 0; i < used; i += SUMS, in += SUMS * group) {
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

void cpu_sites_group_sum(struct rows x, struct rows y) {
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
void cpu_sites_tile(struct rows x, struct rows y) {
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

void cpu_sites_tile_mean(struct rows x, struct rows y) {
    const struct array_split split = x.array->split;
    size_t units = y.array->sites, size = units * (size_t)y.count;
    assert((size_t)x.array->group == units && y.array->group == 1 && x.count == y.count);
    double *sums = cpu_scratch(split.over_ranks, (size_t)split.parts * size);
    if (!sums) {
        for (int k = 0; k < y.count; k++)
            for (int block = 0; block < cpu_blocks(y.array); block++)
                cpu_fill_nan(cpu_at(y, k, block), (size_t)cpu_used(y.array, block));
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

void cpu_sites_entries(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                       struct rows y) {
    CPU_EACH(10 * cpu_cells(y), k, y.count, block, 0, cpu_blocks(y.array),
             functions_entries(&rule, cpu_at(g, k, block), cpu_used(y.array, block),
                               cpu_at(m, k, block), v.array ? cpu_at(v, k, block) : NULL,
                               cpu_at(y, k, block)));
}

/* The sum over a part of row k. */
static double part_sum(struct rows a, struct rows b, int k, int part) {
    double sum = 0;
    for (int i = cpu_part(a.array, part); i < cpu_part(a.array, part + 1); i++)
        sum += functions_sum(cpu_at(a, k, i), b.array ? cpu_at(b, b.count == 1 ? 0 : k, i) : NULL,
                             cpu_used(a.array, i));
    return sum;
}

/* The sums of row k over each part of this rank go to their places [parts][rows]; where sums is
 * NULL they are added up in out. */
static void row_sums(struct rows a, struct rows b, int k, double *sums, double *out) {
    const struct array_split split = a.array->split;
    for (int part = split.first_part; part < split.end_part; part++) {
        double sum = part_sum(a, b, k, part);
        if (sums)
            sums[(size_t)part * (size_t)a.count + (size_t)k] = sum;
        else
            out[k] = part ? out[k] + sum : sum;
    }
}

void cpu_sites_averages(struct rows a, struct rows b, double *out) {
    const struct array_split split = a.array->split;
    size_t size = (size_t)a.count;
    double *sums = split.over_ranks ? dist_buffer((size_t)split.parts * size) : NULL;
    CPU_EACH(cpu_cells(a), k, a.count, all, 0, 1, row_sums(a, b, k, sums, out));
    if (sums) {
        cpu_total(a.array, sums, size);
        memcpy(out, sums, size * sizeof *out);
        free(sums);
    }
    for (size_t k = 0; k < size; k++)
        out[k] /= (double)a.array->sites;
}
