/* Sums of cuda over sites and over the units of a group. Where a thread would have too much to add,
 * many threads add parts of it, and whichever ends last the parts: no thread waits for another. */
#include "kernels/array/cuda.h"

#include <assert.h>

#define MANY ((size_t)1 << 15) /* threads that are enough */
#define EACH_ADDS 16           /* terms that are added up before they meet others */
#define GROUP 64u       /* units or groups that one thread adds up, where there are threads */
#define GROUP_PARTS 32u /* threads of a larger group, at most */
#define TILE_PARTS ((size_t)256)
#define AVERAGES 1024u /* of a task, at most */

/* sum[k] = the sum over sites i = part, part + parts, ... of a_k,i b_l,i. Equal terms added one by
 * one are all rounded the same way, and a norm was wrong by 25 eps: so few are added at a time. */
static __device__ void sum_part(const struct sum_task &t, size_t first, size_t rows, size_t l,
                                size_t part, double *sum) {
    for (size_t k = 0; k < rows; k++)
        sum[k] = 0;
    for (size_t i = part; i < t.sites;) {
        double some[QUEUE_FEW];
        for (size_t k = 0; k < QUEUE_FEW; k++)
            some[k] = 0;
        for (int added = 0; added < EACH_ADDS && i < t.sites; added++, i += t.parts) {
            double value = t.b.at ? number_of(t.b, l * t.b.stride + i) : 1;
            for (size_t k = 0; k < QUEUE_FEW; k++)
                if (k < rows)
                    some[k] += value * number_of(t.a, (first + k) * t.a.stride + i);
        }
        for (size_t k = 0; k < QUEUE_FEW; k++)
            if (k < rows)
                sum[k] += some[k];
    }
}

/* Parts of a group are in place; whoever is the last of the group adds them up, and so on among
 * groups. Returns whether this was the last thread of all. */
static __device__ bool sum_of_parts(volatile double *partial, unsigned *counter, size_t part,
                                    size_t parts, size_t rows, size_t width) {
    size_t step = width;
    while (parts > 1) {
        size_t group = part / SUM_GROUP, left = parts - group * SUM_GROUP;
        unsigned members = left < SUM_GROUP ? (unsigned)left : SUM_GROUP;
        __threadfence();
        if (atomicAdd(counter + group, 1u) != members - 1)
            return false;
        counter[group] = 0;
        __threadfence();
        volatile double *from = partial + group * SUM_GROUP * step;
        for (size_t k = 0; k < rows; k++) {
            double sum = 0;
            for (size_t m = 0; m < members; m++)
                sum += from[m * step + k];
            from[k] = sum;
        }
        parts = (parts + SUM_GROUP - 1) / SUM_GROUP;
        counter += parts;
        part = group;
        step *= SUM_GROUP;
    }
    return true;
}

static __device__ void sum_unit(const struct sum_task &t, size_t unit, size_t part,
                                unsigned *counters) {
    size_t l = unit % t.columns, first = t.pairs ? l : unit / t.columns * QUEUE_FEW;
    size_t left = t.pairs ? 1 : t.rows - first, rows = left < QUEUE_FEW ? left : QUEUE_FEW;
    size_t width = t.pairs ? 1 : t.rows < QUEUE_FEW ? t.rows : QUEUE_FEW;
    double sum[QUEUE_FEW];
    volatile double *partial = t.partial + unit * t.parts * width;
    sum_part(t, first, rows, l, part, sum);
    for (size_t k = 0; k < rows; k++)
        partial[part * width + k] = sum[k];
    if (!sum_of_parts(partial, counters + t.first + unit * t.counters, part, t.parts, rows, width))
        return;
    for (size_t k = 0; k < rows; k++)
        t.out[(t.pairs ? 0 : first + k) * t.out_row + l * t.out_column] =
            t.scale * partial[k] / t.divide;
}

static __global__ void k_sums(GRID_CONSTANT(struct sum_batch) batch) {
    for (size_t all = blockIdx.y; all < batch.units; all += gridDim.y) {
        size_t unit = all;
        int n = 0;
        for (; unit >= sum_units(batch.task[n]); n++)
            unit -= sum_units(batch.task[n]);
        const struct sum_task &t = batch.task[n];
        for (size_t part = (size_t)blockIdx.x * blockDim.x + threadIdx.x; part < t.parts;
             part += (size_t)gridDim.x * blockDim.x)
            sum_unit(t, unit, part, batch.counters);
    }
}

void cuda_launch_sums(const struct sum_batch *batch, size_t parts, const char *where) {
    if (batch->counters)
        launch(where, batch->units, parts, k_sums, *batch);
}

template <class real> void cuda<real>::averages(struct rows a, struct rows b, double *out) {
    size_t rows = (size_t)a.count;
    struct sum_task task = {};
    struct slot sums;
    cuda_fill_nan(out, rows);
    if (!rows || !device_ready() || !device_take(rows, &sums, "averages"))
        return;
    task.a = operand_of(a);
    task.b = operand_factor(b);
    task.sites = a.array->sites;
    task.rows = 1;
    task.pairs = true;
    task.scale = 1;
    task.divide = (double)task.sites;
    task.out_column = 1;
    for (size_t first = 0; first < rows; first += AVERAGES) {
        struct sum_task some = task;
        some.columns = (unsigned)(rows - first < AVERAGES ? rows - first : AVERAGES);
        some.a = operand_of(rows_part(a, (int)first, (int)some.columns));
        if (b.count > 1)
            some.b = operand_of(rows_part(b, (int)first, (int)some.columns));
        some.out = sums.device + first;
        device_queue_sum(&some, "averages");
    }
    device_fetch(sums, out, rows, "averages");
}

/* y_i = the sum over l < terms of x at i each + l step, over `divide`. */
static void strided_sums(struct rows x, struct rows y, size_t terms, size_t each, size_t step,
                         double divide, const char *where) {
    struct task task = {};
    task.kind = TASK_STRIDED;
    task.rows = (unsigned)y.count;
    task.sites = y.array->sites;
    task.terms = (unsigned)terms;
    task.y = operand_of(y);
    task.a = operand_of(x);
    task.c_row = each;
    task.c_term = step;
    task.alpha = divide;
    device_queue(&task, where);
}

/* Part p of site i: the sum of x_ij over j = p, p + parts, ... */
template <class real>
static __global__ void k_group_parts(view<real> x, unsigned group, unsigned parts, double *out,
                                     size_t rows, size_t count) {
    EACH(k, rows, n, count) {
        unsigned i = (unsigned)n / parts, part = (unsigned)n - i * parts;
        const real *in = x.at + k * x.stride + (size_t)i * group;
        double sum = 0;
        for (unsigned j = part; j < group; j += parts)
            sum += (double)in[j];
        out[k * count + n] = sum;
    }
}

template <class from, class real>
static __global__ void k_group_sum(view<from> x, size_t group, view<real> y, size_t rows,
                                   size_t sites) {
    EACH(k, rows, i, sites) {
        const from *in = x.at + k * x.stride + i * group;
        double sum = 0;
        for (size_t j = 0; j < group; j++)
            sum += (double)in[j];
        y.at[k * y.stride + i] = (real)sum;
    }
}

template <class real> void cuda<real>::group_sum(struct rows x, struct rows y) {
    unsigned group = (unsigned)(x.array->group / y.array->group);
    unsigned parts = group / EACH_ADDS < GROUP_PARTS ? group / EACH_ADDS : GROUP_PARTS;
    size_t rows = (size_t)y.count, sites = y.array->sites, count = sites * parts;
    void *memory = NULL;
    if (group <= GROUP) {
        strided_sums(x, y, group, group, 1, 1, "group_sum");
        return;
    }
    if (!device_ready() || !device_borrow(rows * count * sizeof(double), &memory, "group_sum"))
        return;
    view<double> sums = {(double *)memory, count};
    launch("group_sum", rows, count, k_group_parts<real>, view_of<real>(x), group, parts, sums.at,
           rows, count);
    launch("group_sum", rows, sites, k_group_sum<double, real>, sums, (size_t)parts,
           view_of<real>(y), rows, sites);
    device_give_back(memory);
}

/* out[k][part units + j] = sum over groups i = part, part + parts, ... of x_ij */
template <class real>
static __global__ void k_tile_parts(view<real> x, size_t groups, size_t parts, unsigned units,
                                    double *out, size_t rows) {
    EACH(k, rows, n, parts * units) {
        unsigned part = (unsigned)n / units, j = (unsigned)n - part * units;
        double sum = 0;
        for (size_t i = part; i < groups; i += parts)
            sum += (double)x.at[k * x.stride + i * units + j];
        out[k * parts * units + n] = sum;
    }
}

template <class from, class real>
static __global__ void k_tile_mean(view<from> x, size_t parts, double groups, view<real> y,
                                   size_t rows, size_t units) {
    EACH(k, rows, j, units) {
        double sum = 0;
        for (size_t i = 0; i < parts; i++)
            sum += (double)x.at[k * x.stride + i * units + j];
        y.at[k * y.stride + j] = (real)(sum / groups);
    }
}

template <class real> void cuda<real>::tile_mean(struct rows x, struct rows y) {
    size_t units = y.array->sites, groups = x.array->sites / units, rows = (size_t)y.count;
    size_t parts = groups / EACH_ADDS < TILE_PARTS ? groups / EACH_ADDS : TILE_PARTS;
    void *memory = NULL;
    assert((size_t)x.array->group == units && y.array->group == 1 && x.count == y.count);
    if (groups <= GROUP || rows * units >= MANY) {
        strided_sums(x, y, groups, 1, units, (double)groups, "tile_mean");
        return;
    }
    if (!device_ready() ||
        !device_borrow(rows * parts * units * sizeof(double), &memory, "tile_mean"))
        return;
    view<double> sums = {(double *)memory, parts * units};
    launch("tile_mean", rows, parts * units, k_tile_parts<real>, view_of<real>(x), groups, parts,
           (unsigned)units, sums.at, rows);
    launch("tile_mean", rows, units, k_tile_mean<double, real>, sums, parts, (double)groups,
           view_of<real>(y), rows, units);
    device_give_back(memory);
}

template struct cuda<double>;
template struct cuda<float>;
