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

#define CROSSING ((size_t)1 << 18) /* numbers of a row or more that cross at a time */

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
    device_give_back(array->memory, "release");
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

/* Rows that cross at a time. */
static struct rows some_rows(struct rows rows, int first) {
    int most = 1 + (int)(CROSSING / rows.array->sites), left = rows.count - first;
    return rows_part(rows, first, left < most ? left : most);
}

/* The caller may change its numbers at once: they are in staging memory. */
template <class real> static void cuda_put(struct rows rows, const double *host) {
    size_t sites = rows.array->sites;
    struct slot slot;
    for (struct rows to = some_rows(rows, 0); to.count && device_ready();
         to = some_rows(rows, to.first + to.count - rows.first)) {
        size_t count = (size_t)to.count;
        if (!device_take(count * sites, &slot, "put"))
            return;
        memcpy(slot.host, host, count * sites * sizeof *host);
        if (!device_send(slot, count * sites, "put"))
            return;
        view<double> from = {slot.device, sites};
        launch("put", count, sites, cuda_convert<double, real>, from, view_of<real>(to), count,
               sites);
        host += count * sites;
    }
}

template <class real> static void cuda_get(struct rows rows, double *host) {
    size_t sites = rows.array->sites;
    struct slot slot;
    cuda_fill_nan(host, (size_t)rows.count * sites);
    if (!rows.count || !device_ready())
        return;
    device_hold(true);
    for (struct rows from = some_rows(rows, 0);
         from.count && device_take((size_t)from.count * sites, &slot, "get");
         from = some_rows(rows, from.first + from.count - rows.first)) {
        size_t count = (size_t)from.count;
        view<double> to = {slot.device, sites};
        launch("get", count, sites, cuda_convert<real, double>, view_of<real>(from), to, count,
               sites);
        device_fetch(slot, {host, count * sites, 1, 1}, "get");
        host += count * sites;
    }
    device_hold(false);
}

static int cuda_sync(struct err *err) {
    if (device_ready())
        device_sync("sync");
    return device_failure(true, err);
}

template <class real>
static constexpr struct distant far_away = {device_hold, cuda_products<real>::low_rank,
                                            cuda_products<real>::straighten,
                                            cuda_sites<real>::take};

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
    backend.put = cuda_put<real>;
    backend.get = cuda_get<real>;
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
    backend.distant = &far_away<real>;
    return backend;
}

const struct backend backend_cuda = table<double>("cuda", &backend_cuda_single);
const struct backend backend_cuda_single = table<float>("cuda_single", &backend_cuda);
