/* Sums of cuda over sites and over the units of a group. Where a thread would have too much to add,
 * many threads add parts of it, and whichever ends last the parts: no thread waits for another. */
#include "kernels/array/cuda.h"

#include <assert.h>

#define MANY ((size_t)1 << 15) /* threads that are enough */
#define EACH_ADDS 16           /* terms that are added up before they meet others */
#define GROUP 64u /* units or groups that one thread adds up, where there are threads */
#define GROUP_PARTS ((size_t)32) /* threads of a larger group, at most */
#define TILE_PARTS ((size_t)256)
#define AVERAGES 1024u /* of a task, at most */

/* sum[k] = the sum over sites i = part, part + parts, ... of a_k,i b_l,i. Equal terms added one by
 * one are all rounded the same way, and a norm was wrong by 25 eps: so few are added at a time. */
static __device__ void sum_part(const struct sum_task &t, size_t first, size_t rows, size_t l,
                                size_t part, double *sum) {
    const struct operand a = t.a, b = t.b; /* the host would read them again for each term */
    for (size_t k = 0; k < rows; k++)
        sum[k] = 0;
    for (size_t i = part; i < t.sites;) {
        double some[QUEUE_FEW];
        for (size_t k = 0; k < QUEUE_FEW; k++)
            some[k] = 0;
        for (int added = 0; added < EACH_ADDS && i < t.sites; added++, i += t.parts) {
            double value = b.at ? number_of(b, l * b.stride + i) : 1;
            for (size_t k = 0; k < QUEUE_FEW; k++)
                if (k < rows)
                    some[k] += value * number_of(a, (first + k) * a.stride + i);
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

/* Part p of a sum: of the terms l = p, p + parts, ... The parts of a site lie side by side where
 * its terms do, and else the sites of a part, so that neighbours read neighbours. */
template <class real>
static __global__ void k_strided_parts(view<real> x, size_t terms, size_t each, size_t step,
                                       unsigned parts, unsigned sites, double *out, size_t rows) {
    unsigned inner = step == 1 ? parts : sites;
    EACH(k, rows, n, (size_t)parts * sites) {
        unsigned outer = (unsigned)n / inner, own = (unsigned)n - outer * inner;
        unsigned i = step == 1 ? outer : own, part = step == 1 ? own : outer;
        const real *in = x.at + k * x.stride + i * each;
        double sum = 0;
        for (size_t l = part; l < terms; l += parts)
            sum += (double)in[l * step];
        out[k * parts * sites + n] = sum;
    }
}

/* y_i = the sum over l < terms of x at i each + l step, over `divide`; step is 1, or each is. */
template <class real>
static void strided_sums(struct rows x, struct rows y, size_t terms, size_t each, size_t step,
                         double divide, const char *where) {
    size_t rows = (size_t)y.count, sites = y.array->sites, parts = terms / EACH_ADDS;
    size_t most = step == 1 ? GROUP_PARTS : TILE_PARTS;
    void *memory = NULL;
    struct task task = {};
    task.kind = TASK_STRIDED;
    task.rows = (unsigned)rows;
    task.sites = sites;
    task.terms = (unsigned)terms;
    task.y = operand_of(y);
    task.a = operand_of(x);
    task.c_row = each;
    task.c_term = step;
    task.alpha = divide;
    if (terms > GROUP && (step == 1 || rows * sites < MANY)) {
        parts = parts < most ? parts : most;
        if (!device_ready() ||
            !device_borrow(rows * parts * sites * sizeof(double), &memory, where))
            return;
        launch(where, rows, parts * sites, k_strided_parts<real>, view_of<real>(x), terms, each,
               step, (unsigned)parts, (unsigned)sites, (double *)memory, rows);
        task.a = {memory, parts * sites, false};
        task.terms = (unsigned)parts;
        task.c_row = step == 1 ? parts : 1;
        task.c_term = step == 1 ? 1 : sites;
    }
    device_queue(&task, where);
    device_give_back(memory);
}

template <class real> void cuda<real>::group_sum(struct rows x, struct rows y) {
    size_t group = (size_t)(x.array->group / y.array->group);
    strided_sums<real>(x, y, group, group, 1, 1, "group_sum");
}

template <class real> void cuda<real>::tile_mean(struct rows x, struct rows y) {
    size_t units = y.array->sites, groups = x.array->sites / units;
    assert((size_t)x.array->group == units && y.array->group == 1 && x.count == y.count);
    strided_sums<real>(x, y, groups, 1, units, (double)groups, "tile_mean");
}

template struct cuda<double>;
template struct cuda<float>;
