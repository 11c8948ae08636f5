/* What cuda does site by site. Kernels read sites, compute in double precision and round. */
#include "kernels/array/cuda.h"

#include <assert.h>

/* A thread draws the normals of two sites. */
template <class real>
static __global__ void k_normals(view<real> y, size_t rows, size_t sites,
                                 struct rng_stream stream) {
    EACH(k, rows, pair, (sites + 1) / 2) {
        double normal[2];
        real *out = y.at + k * y.stride + 2 * pair;
        rng_normal_pair(stream, stream.draw + (uint32_t)k, (uint32_t)pair, normal);
        out[0] = (real)normal[0];
        if (2 * pair + 1 < sites)
            out[1] = (real)normal[1];
    }
}

template <class real> void cuda_sites<real>::normals(struct rows rows, struct rng_stream stream) {
    size_t count = (size_t)rows.count, sites = rows.array->sites;
    launch("normals", count, (sites + 1) / 2, k_normals<real>, view_of<real>(rows), count, sites,
           stream);
}

template <class real>
static __global__ void k_add(struct cuda_affine affine, view<real> x, view<real> y, size_t rows,
                             size_t sites) {
    EACH(k, rows, i, sites) {
        real *out = y.at + k * y.stride + i;
        *out = (real)((double)*out + affine.scale[k] * (double)x.at[k * x.stride + i]);
    }
}

template <class real> void cuda_sites<real>::add(const double *c, struct rows x, struct rows y) {
    for (int first = 0; first < y.count; first += CUDA_AFFINE) {
        int rows = y.count - first < CUDA_AFFINE ? y.count - first : CUDA_AFFINE;
        launch("add", (size_t)rows, y.array->sites, k_add<real>,
               cuda_affine_of(c, NULL, first, rows), view_of<real>(rows_part(x, first, rows)),
               view_of<real>(rows_part(y, first, rows)), (size_t)rows, y.array->sites);
    }
}

/* fn(u) and fn'(u), as in functions.c. */
static __device__ double function(enum fn fn, double u, double *slope) {
    const double inv_sqrt_2 = 0.70710678118654752440, inv_sqrt_2pi = 0.39894228040143267794,
                 two_by_sqrt_pi = 1.12837916709551257390;
    double value, e;
    switch (fn) {
    case FN_TANH:
        value = tanh(u);
        *slope = 1 - value * value;
        return value;
    case FN_ERF:
        *slope = two_by_sqrt_pi * exp(-u * u);
        return erf(u);
    case FN_RELU:
        *slope = isnan(u) ? u : u > 0;
        return u < 0 ? 0 : u; /* keeps NaN */
    case FN_GELU:
        value = 0.5 * erfc(-u * inv_sqrt_2);
        *slope = value + u * inv_sqrt_2pi * exp(-0.5 * u * u);
        return u * value;
    case FN_SOFTPLUS:
        e = exp(-fabs(u));
        *slope = (u < 0 ? e : 1) / (1 + e);
        return log1p(e) + (u < 0 ? 0 : u);
    case FN_SILU:
        e = exp(-fabs(u));
        value = (u < 0 ? e : 1) / (1 + e);
        *slope = value + u * (e / ((1 + e) * (1 + e)));
        return u * value;
    case FN_SIGMOID:
        e = exp(-fabs(u));
        *slope = e / ((1 + e) * (1 + e));
        return (u < 0 ? e : 1) / (1 + e);
    case FN_EXP:
        return *slope = exp(u);
    case FN_SIN:
        *slope = cos(u);
        return sin(u);
    case FN_COS:
        *slope = -sin(u);
        return cos(u);
    case FN_LOG:
        *slope = 1 / u;
        return log(u);
    case FN_INVERSE:
        *slope = -1 / (u * u);
        return 1 / u;
    case FN_LINEAR:
        break;
    }
    *slope = 1;
    return u;
}

template <class real>
static __global__ void k_pointwise(enum fn fn, struct cuda_affine affine, view<real> x,
                                   view<real> value, view<real> slope, size_t rows, size_t sites) {
    EACH(k, rows, i, sites) {
        double u = affine.scale[k % CUDA_AFFINE] * (double)x.at[k * x.stride + i] +
                   affine.shift[k % CUDA_AFFINE];
        double derivative, result = function(fn, u, &derivative);
        if (value.at)
            value.at[k * value.stride + i] = (real)result;
        if (slope.at)
            slope.at[k * slope.stride + i] = (real)derivative;
    }
}

template <class real>
void cuda_sites<real>::pointwise(enum fn fn, const double *scale, const double *shift,
                                 struct rows x, struct rows value, struct rows slope) {
    int most = scale || shift ? CUDA_AFFINE : x.count; /* rows of a launch */
    for (int first = 0; first < x.count; first += most) {
        int rows = x.count - first < most ? x.count - first : most;
        launch("pointwise", (size_t)rows, x.array->sites, k_pointwise<real>, fn,
               cuda_affine_of(scale, shift, first, rows), view_of<real>(rows_part(x, first, rows)),
               view_of<real>(rows_part(value, first, rows)),
               view_of<real>(rows_part(slope, first, rows)), (size_t)rows, x.array->sites);
    }
}

/* The group of a site; sites are fewer than 2^31, and short divisions are fast. */
static __device__ size_t group_of(size_t site, unsigned each) {
    return each == 1 ? site : (unsigned)site / each;
}

/* A site of a factor serves `each` sites of y. */
template <class real>
static __global__ void k_multiply(view<real> a, unsigned each_a, view<real> b, unsigned each_b,
                                  view<real> y, size_t rows, size_t sites) {
    EACH(k, rows, i, sites) {
        y.at[k * y.stride + i] =
            a.at[k * a.stride + group_of(i, each_a)] * b.at[k * b.stride + group_of(i, each_b)];
    }
}

template <class real> void cuda_sites<real>::multiply(struct rows a, struct rows b, struct rows y) {
    int group = y.array->group;
    unsigned each_a = (unsigned)(a.array->group == group ? 1 : group);
    unsigned each_b = (unsigned)(b.array->group == group ? 1 : group);
    size_t rows = (size_t)y.count, sites = y.array->sites;
    launch("multiply", rows, sites, k_multiply<real>, factor_of<real>(a), each_a,
           factor_of<real>(b), each_b, view_of<real>(y), rows, sites);
}

/* The numbers of rows that travel with a launch. */
struct cuda_numbers {
    int number[CUDA_AFFINE];
};

template <class real>
static __global__ void k_take(view<real> x, struct cuda_numbers which, view<real> out, size_t rows,
                              size_t sites) {
    EACH(k, rows, i, sites) {
        out.at[k * out.stride + i] = x.at[(size_t)which.number[k] * x.stride + i];
    }
}

template <class real>
void cuda_sites<real>::take(struct rows x, const int *which, struct rows out) {
    for (int first = 0; first < out.count; first += CUDA_AFFINE) {
        struct rows some = rows_part(
            out, first, out.count - first < CUDA_AFFINE ? out.count - first : CUDA_AFFINE);
        struct cuda_numbers numbers = {};
        for (int k = 0; k < some.count; k++)
            numbers.number[k] = which[first + k];
        launch("take", (size_t)some.count, out.array->sites, k_take<real>, view_of<real>(x),
               numbers, view_of<real>(some), (size_t)some.count, out.array->sites);
    }
}

template <class real>
static __global__ void k_tile(view<real> x, unsigned units, view<real> y, size_t rows,
                              size_t sites) {
    EACH(k, rows, i, sites) {
        y.at[k * y.stride + i] = x.at[k * x.stride + (unsigned)i % units];
    }
}

template <class real> void cuda_sites<real>::tile(struct rows x, struct rows y) {
    size_t units = x.array->sites, rows = (size_t)y.count;
    assert((size_t)y.array->group == units && x.array->group == 1 && x.count == y.count);
    launch("tile", rows, y.array->sites, k_tile<real>, view_of<real>(x), (unsigned)units,
           view_of<real>(y), rows, y.array->sites);
}

template <class real>
static __global__ void k_entries(struct entry_rule rule, view<real> g, view<real> m, view<real> v,
                                 view<real> y, size_t rows, size_t sites) {
    EACH(k, rows, i, sites) {
        real *out = y.at + k * y.stride + i, *first = m.at + k * m.stride + i,
             *second = v.at + k * v.stride + i;
        double mean = (double)*first, square = (double)*second;
        double step = entry_step(&rule, (double)g.at[k * g.stride + i], &mean, &square);
        *out = (real)((double)*out + step);
        *first = (real)mean;
        if (second != first)
            *second = (real)square;
    }
}

template <class real>
void cuda_sites<real>::entries(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                               struct rows y) {
    size_t rows = (size_t)y.count;
    launch("entries", rows, y.array->sites, k_entries<real>, rule, view_of<real>(g),
           view_of<real>(m), view_of<real>(v.array ? v : m), view_of<real>(y), rows,
           y.array->sites);
}

template struct cuda_sites<double>;
template struct cuda_sites<float>;
