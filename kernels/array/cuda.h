/* What the files of the backends cuda and cuda_single share: the operations, for sites that are
 * numbers of type real, double or float. Each file instantiates its own for both. */
#pragma once

#include "kernels/array/device_queue.h"

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

/* cuda_products.cu: what cuBLAS does. */
template <class real> struct cuda_products {
    static void dots(struct rows a, struct rows b, double *C);
    static void combine(struct rows y, double beta, const double *C, struct rows a);
    static void combine_rows(struct rows y, double beta, struct coefficients C, struct rows a);
    static void low_rank(struct rows y, double beta, double scale, struct rows x, struct rows b,
                         struct rows a, double *C, bool wanted);
    static void straighten(struct rows base, struct rows v, double least, bool nearly);
    static void times(double scale, struct rows W, struct rows x, struct rows y);
};

/* cuda_sums.cu: sums over sites and over the units of a group. */
template <class real> struct cuda_sums {
    static void averages(struct rows a, struct rows b, double *out);
    static void group_sum(struct rows x, struct rows y);
    static void tile_mean(struct rows x, struct rows y);
};

/* cuda_sites.cu: site by site. */
template <class real> struct cuda_sites {
    static void normals(struct rows rows, struct rng_stream stream);
    static void add(const double *c, struct rows x, struct rows y);
    static void pointwise(enum fn fn, const double *scale, const double *shift, struct rows x,
                          struct rows value, struct rows slope);
    static void multiply(struct rows a, struct rows b, struct rows y);
    static void tile(struct rows x, struct rows y);
    static void take(struct rows x, const int *which, struct rows out);
    static void entries(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                        struct rows y);
};

/* cuda_top.cu: the K largest. */
template <class real> struct cuda_top {
    static int top(struct rows x, size_t K, struct rows mask, struct err *err);
};
