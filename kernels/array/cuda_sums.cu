/* Sums of cuda over sites and over the units of a group. Where a thread would have too much to add,
 * many threads add parts of it, and others the parts: no thread waits for another one. */
#include "kernels/array/cuda.h"

#include <assert.h>

#define MANY ((size_t)1 << 15) /* threads of an average, at most */
#define ENOUGH ((size_t)1024)  /* at least, of so many sites */
#define EACH_ADDS 16           /* sites of a thread where there are more */
#define CROSS ((size_t)8192)   /* numbers that the host adds up at once, without a second launch */
#define ADDED ((size_t)64)     /* numbers that a thread adds up for it where there are more */
#define LEFT ((size_t)8)       /* of a row, at least */
#define GROUP 64u       /* units or groups that one thread adds up, where there are threads */
#define GROUP_PARTS 32u /* threads of a larger group, at most */
#define TILE_PARTS ((size_t)256)

/* out[k][part] = sum over i = part, part + parts, ... of a_ki b_ki */
template <class real>
static __global__ void k_averages(view<real> a, view<real> b, size_t rows, size_t sites,
                                  size_t parts, double *out) {
    EACH(k, rows, part, parts) {
        double sum = 0;
        for (size_t i = part; i < sites; i += parts) {
            double term = (double)a.at[k * a.stride + i];
            sum += b.at ? term * (double)b.at[k * b.stride + i] : term;
        }
        out[k * parts + part] = sum;
    }
}

/* out[k][part] = sum over i = part, part + parts, ... of in[k][i]
 *
 * Equal terms added one by one are all rounded the same way: a norm was wrong by 25 eps. So here
 * sums are of EACH_ADDS terms and then of such sums, and on the host of two halves. */
static __global__ void k_parts(const double *in, size_t rows, size_t count, size_t parts,
                               double *out) {
    EACH(k, rows, part, parts) {
        double sum = 0, some = 0;
        int added = 0;
        for (size_t i = part; i < count; i += parts) {
            some += in[k * count + i];
            if (++added == EACH_ADDS) {
                sum += some;
                some = added = 0;
            }
        }
        out[k * parts + part] = sum + some;
    }
}

/* Threads of a row. */
static size_t parts_of(size_t sites) {
    size_t parts = sites / EACH_ADDS;
    parts = parts > ENOUGH ? parts : ENOUGH;
    parts = parts < MANY ? parts : MANY;
    return parts < sites ? parts : sites;
}

/* sums.device [rows][left] = the sums, in `left` parts, of what is there in `parts` parts. */
template <class real>
static bool sum(struct rows a, struct rows b, size_t parts, size_t left, struct slot sums) {
    size_t rows = (size_t)a.count, sites = a.array->sites;
    void *memory = NULL;
    if (left < parts && !device_borrow(rows * parts * sizeof(double), &memory, "averages"))
        return false;
    double *out = left < parts ? (double *)memory : sums.device;
    launch("averages", rows, parts, k_averages<real>, view_of<real>(a), factor_of<real>(b), rows,
           sites, parts, out);
    if (left < parts)
        launch("averages", rows, left, k_parts, (const double *)out, rows, parts, left,
               sums.device);
    device_give_back(memory, "averages");
    return true;
}

/* The last sums are those of the host, where the result is wanted anyway. */
template <class real> void cuda_sums<real>::averages(struct rows a, struct rows b, double *out) {
    size_t rows = (size_t)a.count, sites = a.array->sites, parts = parts_of(sites);
    struct slot sums;
    if (!rows)
        return;
    size_t left = rows * parts <= CROSS ? parts : parts / ADDED;
    left = left < LEFT ? (LEFT < parts ? LEFT : parts) : left;
    cuda_fill_nan(out, rows);
    if (device_ready() && device_take(rows * left, &sums, "averages") &&
        sum<real>(a, b, parts, left, sums))
        device_fetch(sums, {out, rows, left, (double)sites}, "averages");
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

template <class real> void cuda_sums<real>::group_sum(struct rows x, struct rows y) {
    unsigned group = (unsigned)(x.array->group / y.array->group);
    unsigned parts = group / EACH_ADDS < GROUP_PARTS ? group / EACH_ADDS : GROUP_PARTS;
    size_t rows = (size_t)y.count, sites = y.array->sites, count = sites * parts;
    void *memory = NULL;
    if (group <= GROUP) {
        launch("group_sum", rows, sites, k_group_sum<real, real>, view_of<real>(x), (size_t)group,
               view_of<real>(y), rows, sites);
        return;
    }
    if (!device_ready() || !device_borrow(rows * count * sizeof(double), &memory, "group_sum"))
        return;
    view<double> sums = {(double *)memory, count};
    launch("group_sum", rows, count, k_group_parts<real>, view_of<real>(x), group, parts, sums.at,
           rows, count);
    launch("group_sum", rows, sites, k_group_sum<double, real>, sums, (size_t)parts,
           view_of<real>(y), rows, sites);
    device_give_back(memory, "group_sum");
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

template <class real> void cuda_sums<real>::tile_mean(struct rows x, struct rows y) {
    size_t units = y.array->sites, groups = x.array->sites / units, rows = (size_t)y.count;
    size_t parts = groups / EACH_ADDS < TILE_PARTS ? groups / EACH_ADDS : TILE_PARTS;
    void *memory = NULL;
    assert((size_t)x.array->group == units && y.array->group == 1 && x.count == y.count);
    if (groups <= GROUP || rows * units >= MANY) {
        launch("tile_mean", rows, units, k_tile_mean<real, real>, view_of<real>(x), groups,
               (double)groups, view_of<real>(y), rows, units);
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
    device_give_back(memory, "tile_mean");
}

template struct cuda_sums<double>;
template struct cuda_sums<float>;
