/* What the files of the backends cuda and cuda_single share: the operations, for sites that are
 * numbers of type real, double or float. Each file instantiates its own for both. */
#pragma once

#include "kernels/array/device_queue.h"
#include "kernels/array/operations.h"

static inline void cuda_fill_nan(double *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = NAN;
}

/* y = x, of the other precision or the same. */
template <class from, class to>
static __global__ void cuda_convert(view<from> x, view<to> y, size_t rows, size_t sites) {
    EACH(k, rows, i, sites) {
        y.at[k * y.stride + i] = (to)x.at[k * x.stride + i];
    }
}

/* numbers of struct distant. */
void cuda_numbers(double *out, const double *a, double power, double factor, const double *b,
                  size_t count);

/* cuda_products.cu: what cuBLAS does; cuda_sums.cu: sums over sites and over the units of a group;
 * cuda_sites.cu: site by site; cuda_top.cu: the K largest. */
template <class real> struct cuda {
#define CUDA_DECLARED(name, parameters, ...) static void name parameters;
    BACKEND_OPERATIONS(CUDA_DECLARED)
    /* These are the operations of struct distant. */
    static void low_rank(const struct rows *y, const struct rows *a, int copies, double beta,
                         double scale, struct rows x, struct rows b, double *C, bool wanted);
    static void straighten(struct rows base, struct rows v, double least, bool nearly);
    static void take(struct rows x, const int *which, struct rows out);
};
