/* Numbers that are counted instead of averaged over: a few of each row, always on the host and in
 * double precision, side by side without padding, so that whoever has the array may read them as
 * [rows][K]. What is an average over the sites of a population is a sum over them: their cotangents
 * are derivatives for each of them. The processor's loops serve where they need no padding. */
#include "kernels/array/cpu.h"
#include "kernels/array/top.h"

#include <gsl/gsl_sort_ulong.h>

static void counted_combine(struct rows y, double beta, const double *C, struct rows a) {
    size_t sites = y.array->sites;
    for (int k = 0; k < y.count; k++) {
        double *out = cpu_at(y, k, 0);
        for (size_t i = 0; i < sites; i++)
            out[i] = beta == 0 ? 0 : beta * out[i];
        for (int l = 0; l < a.count; l++) {
            const double *in = cpu_at(a, l, 0), c = C[(size_t)k * (size_t)a.count + (size_t)l];
            for (size_t i = 0; i < sites; i++)
                out[i] += c * in[i];
        }
    }
}

static void counted_add(const double *c, struct rows x, struct rows y) {
    for (int k = 0; k < y.count; k++) {
        const double *in = cpu_at(x, k, 0), factor = c ? c[k] : 1;
        double *out = cpu_at(y, k, 0);
        for (size_t i = 0; i < y.array->sites; i++)
            out[i] += factor * in[i];
    }
}

static void counted_averages(struct rows a, struct rows b, double *out) {
    for (int k = 0; k < a.count; k++) {
        const double *x = cpu_at(a, k, 0), *y = b.array ? cpu_at(b, b.count == 1 ? 0 : k, 0) : NULL;
        out[k] = 0;
        for (size_t i = 0; i < a.array->sites; i++)
            out[k] += y ? x[i] * y[i] : x[i];
    }
}

static void counted_dots(struct rows a, struct rows b, double *C) {
    for (int k = 0; k < a.count; k++)
        counted_averages(b, rows_part(a, k, 1), C + (size_t)k * (size_t)b.count);
}

/* NaN is among the selected, so that the loss is none either and the run ends. */
static void counted_top(struct rows x, size_t K, struct rows mask) {
    size_t sites = x.array->sites;
    FREED(base_free) unsigned long *sorted = (void *)cpu_scratch(false, sites);
    for (int k = 0; k < x.count && sorted; k++) {
        const double *in = cpu_at(x, k, 0);
        double *out = cpu_at(mask, k, 0);
        ptrdiff_t left = (ptrdiff_t)K; /* of those that are equal to the K-th largest */
        for (size_t i = 0; i < sites; i++)
            sorted[i] = top_key(in[i]);
        gsl_sort_ulong(sorted, 1, sites);
        uint64_t least = K ? sorted[sites - K] : UINT64_MAX;
        for (size_t i = 0; i < sites; i++)
            left -= top_key(in[i]) > least;
        for (size_t i = 0; i < sites; i++)
            out[i] = top_key(in[i]) > least || (top_key(in[i]) == least && left-- > 0);
    }
}

const struct backend backend_counted = {
    .name = "counted",
    .counted = true,
    .bytes = sizeof(double),
    .open = cpu_memory_open,
    .alloc = cpu_memory_alloc,
    .resize = cpu_memory_resize,
    .release = cpu_memory_release,
    .put = cpu_put,
    .get = cpu_get,
    .normals = cpu_normals,
    .dots = counted_dots,
    .averages = counted_averages,
    .combine = counted_combine,
    .add = counted_add,
    .pointwise = cpu_pointwise,
    .multiply = cpu_multiply,
    .top = counted_top,
    .sync = cpu_memory_sync,
};

double *counted_numbers(struct rows rows) {
    return rows.array && rows.array->memory ? cpu_at(rows, 0, 0) : NULL;
}
