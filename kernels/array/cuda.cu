/* The cuda backend: cuBLAS for products, short kernels for the rest; same table, same meaning and
 * the same random numbers as cpu.c.
 *
 * Layout: [row][stride], the sites of a row one after the other, stride = sites rounded up to a
 * multiple of 8. Arrays stay on the device. Every host thread has a stream of its own (device.h),
 * so replicates run side by side; operations are queued and the host waits only where numbers come
 * back to it (get, dots, averages, top).
 *
 * Nothing depends on the order in which threads of the device run: no atomics, sums in a fixed
 * order. A kernel loops over rows k and sites i with the stride of its grid; no shared memory, no
 * barriers, so tests/cuda_host can run the same source thread by thread on a machine without a
 * device. Operations that return nothing keep their first failure for sync(); from then on they do
 * nothing, and what they should have given the host is NaN. */
#include "kernels/array/device.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PARTS ((size_t)1024) /* partial sums of an average */
#define AFFINE 32            /* rows whose scale and shift travel with a launch */

static void fill_nan(double *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = NAN;
}

static int cuda_open(double *bytes, struct err *err) {
    size_t available, total;
    TRY(device_start(err));
    TRY(device_check(cudaMemGetInfo(&available, &total), "start", err));
    *bytes = (double)available;
    return CODE_OK;
}

static int cuda_alloc(struct array *array, int capacity, struct err *err) {
    size_t bytes = (size_t)capacity * row_stride(array) * sizeof(double);
    void *memory = NULL;
    if (!device_ready())
        return device_failure(false, err);
    if (row_stride(array) > INT_MAX)
        return err_set(err, CODE_SYSTEM, "backend = cuda handles fewer than 2^31 sites, not %zu",
                       array->sites);
    cudaError_t status = cudaMallocAsync(&memory, bytes, device_stream());
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return err_set(err, CODE_SYSTEM,
                       "out of memory: %d rows over %zu sites (%.3g GB) on the CUDA device",
                       capacity, array->sites, 1e-9 * (double)bytes);
    }
    TRY(device_check(status, "alloc", err));
    array->memory = memory;
    array->capacity = capacity;
    return CODE_OK;
}

static void cuda_release(struct array *array) {
    device_ready();
    device_good(cudaFreeAsync(array->memory, device_stream()), "release");
    array->memory = NULL;
}

static int cuda_resize(struct array *array, int capacity, struct err *err) {
    struct array larger = *array;
    size_t bytes = (size_t)array->rows * row_stride(array) * sizeof(double);
    TRY(cuda_alloc(&larger, capacity, err));
    cudaError_t status = cudaMemcpyAsync(larger.memory, array->memory, bytes,
                                         cudaMemcpyDeviceToDevice, device_stream());
    if (status != cudaSuccess)
        cuda_release(&larger);
    TRY(device_check(status, "resize", err));
    cuda_release(array);
    *array = larger;
    return CODE_OK;
}

static void cuda_put(struct rows rows, const double *host) {
    size_t line = rows.array->sites * sizeof(double);
    size_t pitch = row_stride(rows.array) * sizeof(double);
    if (rows.count && device_ready() &&
        device_good(cudaMemcpy2DAsync(row_at(rows), pitch, host, line, line, (size_t)rows.count,
                                      cudaMemcpyHostToDevice, device_stream()),
                    "put"))
        device_wait("put"); /* the caller may change its numbers now */
}

static void cuda_get(struct rows rows, double *host) {
    size_t line = rows.array->sites * sizeof(double);
    size_t pitch = row_stride(rows.array) * sizeof(double);
    if (!(rows.count && device_ready() &&
          device_good(cudaMemcpy2DAsync(host, line, row_at(rows), pitch, line, (size_t)rows.count,
                                        cudaMemcpyDeviceToHost, device_stream()),
                      "get") &&
          device_wait("get")))
        fill_nan(host, (size_t)rows.count * rows.array->sites);
}

/* A thread draws the normals of two sites. */
static __global__ void k_normals(struct view y, size_t rows, size_t sites,
                                 struct rng_stream stream) {
    EACH(k, rows, pair, (sites + 1) / 2) {
        double normal[2], *out = y.at + k * y.stride + 2 * pair;
        rng_normal_pair(stream, stream.draw + (uint32_t)k, (uint32_t)pair, normal);
        out[0] = normal[0];
        if (2 * pair + 1 < sites)
            out[1] = normal[1];
    }
}

static void cuda_normals(struct rows rows, struct rng_stream stream) {
    size_t count = (size_t)rows.count, sites = rows.array->sites;
    launch("normals", count, (sites + 1) / 2, k_normals, view_of(rows), count, sites, stream);
}

/* Row-major C = a b^T is column-major C^T = b^T a, as cuBLAS has it. */
static void cuda_dots(struct rows a, struct rows b, double *C) {
    size_t count = (size_t)a.count * (size_t)b.count;
    double scale = 1.0, zero = 0;
    struct slot out;
    if (!count)
        return;
    assert(a.array->sites == b.array->sites && a.array->group == b.array->group);
    scale /= (double)a.array->sites;
    if (device_ready() && device_take(count, &out, "dots") &&
        device_good_blas(cublasDgemm(device_blas(), CUBLAS_OP_T, CUBLAS_OP_N, b.count, a.count,
                                     (int)a.array->sites, &scale, row_at(b),
                                     (int)row_stride(b.array), row_at(a), (int)row_stride(a.array),
                                     &zero, out.device, b.count),
                         "dots") &&
        device_fetch(out, count, "dots"))
        memcpy(C, out.host, count * sizeof *C);
    else
        fill_nan(C, count);
}

/* out[k][part] = sum over i = part, part + parts, ... of a_ki b_ki */
static __global__ void k_averages(struct view a, struct view b, size_t rows, size_t sites,
                                  size_t parts, double *out) {
    EACH(k, rows, part, parts) {
        double sum = 0;
        for (size_t i = part; i < sites; i += parts)
            sum += b.at ? a.at[k * a.stride + i] * b.at[k * b.stride + i] : a.at[k * a.stride + i];
        out[k * parts + part] = sum;
    }
}

/* Equal terms added one by one are all rounded the same way: a norm was wrong by 25 eps. */
static double sum_by_halves(const double *x, size_t n) {
    return n < 2 ? (n ? *x : 0) : sum_by_halves(x, n / 2) + sum_by_halves(x + n / 2, n - n / 2);
}

/* The partial sums are added up on the host, where the result is wanted anyway. */
static void cuda_averages(struct rows a, struct rows b, double *out) {
    size_t rows = (size_t)a.count, sites = a.array->sites, parts = sites < PARTS ? sites : PARTS;
    struct slot sums;
    if (!rows)
        return;
    if (!device_ready() || !device_take(rows * parts, &sums, "averages")) {
        fill_nan(out, rows);
        return;
    }
    launch("averages", rows, parts, k_averages, view_of(a), factor_of(b), rows, sites, parts,
           sums.device);
    if (!device_fetch(sums, rows * parts, "averages")) {
        fill_nan(out, rows);
        return;
    }
    for (size_t k = 0; k < rows; k++)
        out[k] = sum_by_halves(sums.host + k * parts, parts) / (double)sites;
}

/* y = beta y + c a; without a: y = beta y */
static __global__ void k_combine(struct view y, double beta, double c, struct view a, size_t rows,
                                 size_t sites) {
    EACH(k, rows, i, sites) {
        double *out = y.at + k * y.stride + i, old = beta == 0 ? 0 : beta * *out;
        *out = a.at ? old + c * a.at[k * a.stride + i] : old;
    }
}

/* Row-major y = C a is column-major y^T = a^T C^T. */
static void cuda_combine(struct rows y, double beta, const double *C, struct rows a) {
    size_t count = (size_t)y.count * (size_t)a.count, sites = y.array->sites;
    double one = 1;
    struct rows none = {NULL, 0, 0};
    struct slot in;
    if (!y.count || !device_ready())
        return;
    if (count <= 1) {
        launch("combine", (size_t)y.count, sites, k_combine, view_of(y), beta, count ? *C : 0.0,
               view_of(count ? a : none), (size_t)y.count, sites);
        return;
    }
    if (!device_take(count, &in, "combine"))
        return;
    memcpy(in.host, C, count * sizeof *C);
    if (device_good(cudaMemcpyAsync(in.device, in.host, count * sizeof *C, cudaMemcpyHostToDevice,
                                    device_stream()),
                    "combine"))
        device_good_blas(cublasDgemm(device_blas(), CUBLAS_OP_N, CUBLAS_OP_N, (int)sites, y.count,
                                     a.count, &one, row_at(a), (int)row_stride(a.array), in.device,
                                     a.count, &beta, row_at(y), (int)row_stride(y.array)),
                         "combine");
}

/* Numbers of each row that are handed to a kernel. */
struct affine {
    double scale[AFFINE], shift[AFFINE];
};

static __global__ void k_add(struct affine affine, struct view x, struct view y, size_t rows,
                             size_t sites) {
    EACH(k, rows, i, sites) {
        y.at[k * y.stride + i] += affine.scale[k] * x.at[k * x.stride + i];
    }
}

static void cuda_add(const double *c, struct rows x, struct rows y) {
    for (int first = 0; first < y.count; first += AFFINE) {
        int rows = y.count - first < AFFINE ? y.count - first : AFFINE;
        struct affine affine;
        for (int k = 0; k < AFFINE; k++) {
            affine.scale[k] = c && k < rows ? c[first + k] : 1;
            affine.shift[k] = 0;
        }
        launch("add", (size_t)rows, y.array->sites, k_add, affine,
               view_of(rows_part(x, first, rows)), view_of(rows_part(y, first, rows)), (size_t)rows,
               y.array->sites);
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
    case FN_INVERSE:
        *slope = -1 / (u * u);
        return 1 / u;
    case FN_LINEAR:
        break;
    }
    *slope = 1;
    return u;
}

static __global__ void k_pointwise(enum fn fn, struct affine affine, struct view x,
                                   struct view value, struct view slope, size_t rows,
                                   size_t sites) {
    EACH(k, rows, i, sites) {
        double u = affine.scale[k % AFFINE] * x.at[k * x.stride + i] + affine.shift[k % AFFINE];
        double derivative, result = function(fn, u, &derivative);
        if (value.at)
            value.at[k * value.stride + i] = result;
        if (slope.at)
            slope.at[k * slope.stride + i] = derivative;
    }
}

static void cuda_pointwise(enum fn fn, const double *scale, const double *shift, struct rows x,
                           struct rows value, struct rows slope) {
    int most = scale || shift ? AFFINE : x.count; /* rows of a launch */
    for (int first = 0; first < x.count; first += most) {
        int rows = x.count - first < most ? x.count - first : most;
        struct affine affine;
        for (int k = 0; k < AFFINE; k++) {
            affine.scale[k] = scale && k < rows ? scale[first + k] : 1;
            affine.shift[k] = shift && k < rows ? shift[first + k] : 0;
        }
        launch("pointwise", (size_t)rows, x.array->sites, k_pointwise, fn, affine,
               view_of(rows_part(x, first, rows)), view_of(rows_part(value, first, rows)),
               view_of(rows_part(slope, first, rows)), (size_t)rows, x.array->sites);
    }
}

/* A site of a factor serves `each` sites of y. */
static __global__ void k_multiply(struct view a, size_t each_a, struct view b, size_t each_b,
                                  struct view y, size_t rows, size_t sites) {
    EACH(k, rows, i, sites) {
        y.at[k * y.stride + i] = a.at[k * a.stride + i / each_a] * b.at[k * b.stride + i / each_b];
    }
}

static void cuda_multiply(struct rows a, struct rows b, struct rows y) {
    int group = y.array->group;
    size_t each_a = (size_t)(a.array->group == group ? 1 : group);
    size_t each_b = (size_t)(b.array->group == group ? 1 : group);
    size_t rows = (size_t)y.count, sites = y.array->sites;
    launch("multiply", rows, sites, k_multiply, factor_of(a), each_a, factor_of(b), each_b,
           view_of(y), rows, sites);
}

static __global__ void k_group_sum(struct view x, size_t group, struct view y, size_t rows,
                                   size_t sites) {
    EACH(k, rows, i, sites) {
        const double *in = x.at + k * x.stride + i * group;
        double sum = 0;
        for (size_t j = 0; j < group; j++)
            sum += in[j];
        y.at[k * y.stride + i] = sum;
    }
}

static void cuda_group_sum(struct rows x, struct rows y) {
    size_t group = (size_t)(x.array->group / y.array->group), rows = (size_t)y.count;
    launch("group_sum", rows, y.array->sites, k_group_sum, view_of(x), group, view_of(y), rows,
           y.array->sites);
}

static __global__ void k_tile(struct view x, size_t units, struct view y, size_t rows,
                              size_t sites) {
    EACH(k, rows, i, sites) {
        y.at[k * y.stride + i] = x.at[k * x.stride + i % units];
    }
}

static void cuda_tile(struct rows x, struct rows y) {
    size_t units = x.array->sites, rows = (size_t)y.count;
    assert((size_t)y.array->group == units && x.array->group == 1 && x.count == y.count);
    launch("tile", rows, y.array->sites, k_tile, view_of(x), units, view_of(y), rows,
           y.array->sites);
}

static __global__ void k_tile_mean(struct view x, size_t groups, struct view y, size_t rows,
                                   size_t units) {
    EACH(k, rows, j, units) {
        double sum = 0;
        for (size_t i = 0; i < groups; i++)
            sum += x.at[k * x.stride + i * units + j];
        y.at[k * y.stride + j] = sum / (double)groups;
    }
}

static void cuda_tile_mean(struct rows x, struct rows y) {
    size_t units = y.array->sites, groups = x.array->sites / units, rows = (size_t)y.count;
    assert((size_t)x.array->group == units && y.array->group == 1 && x.count == y.count);
    launch("tile_mean", rows, units, k_tile_mean, view_of(x), groups, view_of(y), rows, units);
}

/* On the host, by the cpu's own: its order of ties is the definition. */
static int cuda_top(struct rows x, size_t K, struct rows mask, struct err *err) {
    size_t sites = x.array->sites;
    struct array copy = {};
    double *values = NULL;
    int code = CODE_OK;
    DO(base_alloc(&values, (size_t)x.count * sites, sizeof *values, err));
    DO(array_init(&copy, &backend_cpu, sites, x.array->group, x.count, err));
    cuda_get(x, values);
    backend_cpu.put(array_all(&copy), values);
    DO(backend_cpu.top(array_all(&copy), K, array_all(&copy), err));
    backend_cpu.get(array_all(&copy), values);
    cuda_put(mask, values);
done:
    free(values);
    array_free(&copy);
    return code;
}

static __global__ void k_entries(struct entry_rule rule, struct view g, struct view m,
                                 struct view v, struct view y, size_t rows, size_t sites) {
    EACH(k, rows, i, sites) {
        y.at[k * y.stride + i] += entry_step(&rule, g.at[k * g.stride + i], m.at + k * m.stride + i,
                                             v.at + k * v.stride + i);
    }
}

static void cuda_entries(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                         struct rows y) {
    size_t rows = (size_t)y.count;
    launch("entries", rows, y.array->sites, k_entries, rule, view_of(g), view_of(m),
           view_of(v.array ? v : m), view_of(y), rows, y.array->sites);
}

static int cuda_sync(struct err *err) {
    if (device_ready())
        device_wait("sync");
    return device_failure(true, err);
}

const struct backend backend_cuda = {
    "cuda",        sizeof(double), 0,         NULL,           cuda_open,    cuda_alloc,
    cuda_resize,   cuda_release,   cuda_put,  cuda_get,       cuda_normals, cuda_dots,
    cuda_averages, cuda_combine,   NULL,      NULL,           cuda_add,     cuda_pointwise,
    cuda_multiply, cuda_group_sum, cuda_tile, cuda_tile_mean, cuda_top,     cuda_entries,
    cuda_sync,     false,          false,     false,
};
