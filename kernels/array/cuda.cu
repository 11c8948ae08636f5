/* The backends cuda and cuda_single: cuBLAS for products, short kernels for the rest; same table,
 * same meaning and the same random numbers as cpu.c. Here are memory, moves and the two tables.
 *
 * Layout: [row][stride], the sites of a row one after the other, stride = sites rounded up to a
 * multiple of 8. Arrays stay on the device. Every host thread has a stream of its own (device.h),
 * so replicates run side by side; operations are queued and the host waits only where numbers come
 * back to it (get, dots, averages).
 *
 * Sites are numbers of 64 or of 32 bits; functions, sums over sites and all that crosses to the
 * host are of 64 bits in both. Products of rows with a matrix that stay on the device are of the
 * sites' precision.
 *
 * Nothing depends on the order in which threads of the device run: sums are added in a fixed order,
 * and what is added atomically are whole numbers. A kernel loops over rows k and sites i with the
 * stride of its grid; no shared memory, no barriers, so tests/cuda_host can run the same source
 * thread by thread on a machine without a device. Operations that return nothing keep their first
 * failure for sync(); from then on they do nothing, and what they should have given the host is
 * NaN. */
#include "kernels/array/cuda.h"

#include <limits.h>
#include <string.h>

#define CROSSING ((size_t)1 << 22) /* numbers of single precision that cross at a time */

static int cuda_open(double *bytes, struct err *err) {
    size_t available, total;
    TRY(device_start(err));
    TRY(device_check(cudaMemGetInfo(&available, &total), "start", err));
    *bytes = (double)available;
    return CODE_OK;
}

static int cuda_alloc(struct array *array, int capacity, struct err *err) {
    size_t bytes = (size_t)capacity * row_stride(array) * array->backend->bytes;
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
    size_t bytes = (size_t)array->rows * row_stride(array) * array->backend->bytes;
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

/* Numbers of 64 bits, `line` of a row, and rows `pitch` numbers apart. */
static bool copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t line,
                 size_t rows, cudaMemcpyKind kind, const char *where) {
    const size_t bytes = sizeof(double);
    return device_good(cudaMemcpy2DAsync(to, to_pitch * bytes, from, from_pitch * bytes,
                                         line * bytes, rows, kind, device_stream()),
                       where);
}

/* Some rows at a time through memory of the device: converted there. */
static void cross_single(struct rows rows, double *host, bool put) {
    const char *where = put ? "put" : "get";
    size_t sites = rows.array->sites, some = 1 + CROSSING / sites;
    void *memory = NULL;
    bool good = device_ready();
    for (int first = 0; first < rows.count && good; first += (int)some) {
        size_t count = (size_t)(rows.count - first) < some ? (size_t)(rows.count - first) : some;
        view<float> here = view_of<float>(rows_part(rows, first, (int)count));
        double *numbers = host + (size_t)first * sites;
        good = device_borrow(count * sites * sizeof(double), &memory, where);
        view<double> wide = {(double *)memory, sites};
        if (good && put) {
            good = copy(memory, sites, numbers, sites, sites, count, cudaMemcpyHostToDevice, where);
            launch(where, count, sites, cuda_convert<double, float>, wide, here, count, sites);
        } else if (good) {
            launch(where, count, sites, cuda_convert<float, double>, here, wide, count, sites);
            good = copy(numbers, sites, memory, sites, sites, count, cudaMemcpyDeviceToHost, where);
        }
        device_give_back(memory, where);
        good = good && device_wait(where);
    }
    if (!good && !put)
        cuda_fill_nan(host, (size_t)rows.count * sites);
}

static void put_single(struct rows rows, const double *host) {
    cross_single(rows, (double *)(uintptr_t)host, true);
}

static void get_single(struct rows rows, double *host) {
    cross_single(rows, host, false);
}

static void put_double(struct rows rows, const double *host) {
    size_t line = rows.array->sites;
    if (rows.count && device_ready() &&
        copy(row_at<double>(rows), row_stride(rows.array), host, line, line, (size_t)rows.count,
             cudaMemcpyHostToDevice, "put"))
        device_wait("put"); /* the caller may change its numbers now */
}

static void get_double(struct rows rows, double *host) {
    size_t line = rows.array->sites;
    if (!(rows.count && device_ready() &&
          copy(host, line, row_at<double>(rows), row_stride(rows.array), line, (size_t)rows.count,
               cudaMemcpyDeviceToHost, "get") &&
          device_wait("get")))
        cuda_fill_nan(host, (size_t)rows.count * line);
}

static int cuda_sync(struct err *err) {
    if (device_ready())
        device_wait("sync");
    return device_failure(true, err);
}

template <class real>
static constexpr struct backend table(const char *name, const struct backend *other) {
    struct backend backend = {};
    backend.name = name;
    backend.bytes = sizeof(real);
    backend.other = other;
    backend.open = cuda_open;
    backend.alloc = cuda_alloc;
    backend.resize = cuda_resize;
    backend.release = cuda_release;
    backend.put = sizeof(real) == sizeof(double) ? put_double : put_single;
    backend.get = sizeof(real) == sizeof(double) ? get_double : get_single;
    backend.normals = cuda_sites<real>::normals;
    backend.dots = cuda_products<real>::dots;
    backend.averages = cuda_sums<real>::averages;
    backend.combine = cuda_products<real>::combine;
    backend.combine_rows = cuda_products<real>::combine_rows;
    backend.times = cuda_products<real>::times;
    backend.add = cuda_sites<real>::add;
    backend.pointwise = cuda_sites<real>::pointwise;
    backend.multiply = cuda_sites<real>::multiply;
    backend.group_sum = cuda_sums<real>::group_sum;
    backend.tile = cuda_sites<real>::tile;
    backend.tile_mean = cuda_sums<real>::tile_mean;
    backend.top = cuda_top<real>::top;
    backend.entries = cuda_sites<real>::entries;
    backend.sync = cuda_sync;
    backend.distant = true;
    return backend;
}

const struct backend backend_cuda = table<double>("cuda", &backend_cuda_single);
const struct backend backend_cuda_single = table<float>("cuda_single", &backend_cuda);
