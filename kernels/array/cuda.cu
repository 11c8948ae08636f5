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
 * failure for sync(); from then on they do nothing, and the host is given NaN. */
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
    cudaError_t status = device_allocate(bytes, &memory);
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
    device_give_back(array->memory);
    array->memory = NULL;
}

static int cuda_resize(struct array *array, int capacity, struct err *err) {
    struct array larger = *array;
    TRY(cuda_alloc(&larger, capacity, err));
    struct task task = {};
    task.rows = (unsigned)array->rows;
    task.sites = array->sites;
    task.y = operand_of(array_all(&larger));
    task.a = operand_of(array_all(array));
    task.alpha = 1;
    device_queue(&task, "resize");
    cuda_release(array);
    *array = larger;
    return CODE_OK;
}

/* Rows that cross at a time. */
static struct rows some_rows(struct rows rows, int first) {
    int most = 1 + (int)(CROSSING / rows.array->sites), left = rows.count - first;
    return rows_part(rows, first, left < most ? left : most);
}

/* Numbers of the staging memory and rows become each other. */
static void cross(struct rows rows, const double *numbers, bool put, const char *where) {
    size_t sites = rows.array->sites;
    struct operand staging = {(void *)(uintptr_t)numbers, sites, false};
    struct task task = {};
    task.rows = (unsigned)rows.count;
    task.sites = sites;
    task.y = put ? operand_of(rows) : staging;
    task.a = put ? staging : operand_of(rows);
    task.alpha = 1;
    device_queue(&task, where);
}

/* The caller may change its numbers at once: they are in staging memory. */
template <class real> void cuda<real>::put(struct rows rows, const double *host) {
    size_t sites = rows.array->sites;
    const double *numbers;
    for (struct rows to = some_rows(rows, 0);
         to.count && (numbers = device_put(host, (size_t)to.count * sites, "put"));
         to = some_rows(rows, to.first + to.count - rows.first)) {
        cross(to, numbers, true, "put");
        host += (size_t)to.count * sites;
    }
}

template <class real> void cuda<real>::get(struct rows rows, double *host) {
    size_t sites = rows.array->sites;
    struct slot slot;
    cuda_fill_nan(host, (size_t)rows.count * sites);
    if (!rows.count || !device_ready())
        return;
    device_hold(true);
    for (struct rows from = some_rows(rows, 0);
         from.count && device_take((size_t)from.count * sites, &slot, "get");
         from = some_rows(rows, from.first + from.count - rows.first)) {
        cross(from, slot.device, false, "get");
        device_fetch(slot, host, (size_t)from.count * sites, "get");
        host += (size_t)from.count * sites;
    }
    device_hold(false);
}

static int cuda_tell(struct err *err) {
    return device_failure(true, err);
}

static int cuda_sync(struct err *err) {
    if (device_ready())
        device_sync("sync");
    return cuda_tell(err);
}

template <class real>
static constexpr struct distant far_away = {
    device_hold,          device_later,           device_arrive,    cuda_tell,
    cuda<real>::low_rank, cuda<real>::straighten, cuda<real>::take, cuda_numbers};

#define ENTER(name, ...) backend.name = cuda<real>::name;
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
    BACKEND_OPERATIONS(ENTER)
    backend.sync = cuda_sync;
    backend.distant = &far_away<real>;
    return backend;
}

const struct backend backend_cuda = table<double>("cuda", &backend_cuda_single);
const struct backend backend_cuda_single = table<float>("cuda_single", &backend_cuda);
