/* A CUDA device as one thread of the host sees it: for cuda.cu.
 *
 * Every host thread has a stream and a cuBLAS handle of its own, made when it first needs them.
 * Operations are queued on the stream; a call that fails is remembered by device_good until
 * device_failure tells, and until then device_ready is false: whoever queues asks it first. Numbers
 * cross through slots of staging memory, pinned memory of the host with as much on the device.
 *
 *     if (device_ready() && device_take(count, &slot, "dots") && ... queue what fills the slot ...)
 *         device_fetch(slot, (struct arrival){...}, "dots");
 *
 * brings numbers to the host: at once, or, while the thread holds (device_hold), with all others in
 * one wait. Small operations wait in the queue of device_queue.h until something else needs the
 * device.
 *
 * What an operation needs on the device alone it borrows and gives back: the memory is that of the
 * stream, so nothing is waited for. */
#pragma once

#include "kernels/array/backend.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#define DEVICE_THREADS 256     /* of a block of the device */
#define DEVICE_BLOCKS 1024     /* at most, along the sites */
#define ALIGNED ((size_t)32)   /* numbers; as an allocation is */
#define DEVICE_GRID_ROWS 65535 /* at most, along the rows: a limit of the device */

/* Staging memory, valid until the next device_wait, device_take or device_put. */
struct slot {
    double *host, *device;
};

extern "C" {
/* Finds a device, and makes what this thread lacks. */
int device_start(struct err *err);
/* Whether operations of this thread still make sense; starts it. */
bool device_ready(void);
/* The stream and the cuBLAS of this thread, once it is ready; device_blas flushes. */
cudaStream_t device_stream(void);
cublasHandle_t device_blas(void);
/* Whether a call succeeded; keeps the first failure, with the name of the operation. */
bool device_good(cudaError_t status, const char *where);
bool device_good_blas(cublasStatus_t status, const char *where);
/* A function with an err asks this one, which keeps no failure: CODE_OK, or CODE_SYSTEM. */
int device_check(cudaError_t status, const char *where, struct err *err);
/* The failure that was kept, if there is one (else CODE_OK); forget: the thread is ready again. */
int device_failure(bool forget, struct err *err);
/* Whether all that was queued is done, and well; what was fetched has arrived, and the staging
 * memory is free again. */
bool device_wait(const char *where);
/* Calls device_wait only if something was queued since the last wait. */
bool device_sync(const char *where);
/* Room for `count` numbers. Waits where there is none left. */
bool device_take(size_t count, struct slot *slot, const char *where);
/* Brings the first `count` numbers of a slot, which the queue is about to write, to the host. */
void device_fetch(struct slot slot, double *to, size_t count, const char *where);
/* From begin on fetched numbers come when a hold ends, or with an earlier wait; or with any later
 * wait, or with device_arrive, for one of these numbers, or for any (NULL). */
void device_hold(bool begin);
void device_later(bool begin);
void device_arrive(const double *numbers, size_t count);
/* Whether there is room for `count` numbers, of all that is taken and put until the next wait. */
bool device_room(size_t count, const char *where);
/* NULL, or where on the device these numbers of the host lie, which are still to come. */
const double *device_coming(const double *host, size_t count);
/* Numbers of the host, which may be still to come, or may change at once, as the device reads them
 * until the next device_wait, device_take or device_put; NULL after a failure. */
const double *device_put(const double *host, size_t count, const char *where);
/* Copies to the device what has been put since the last time. */
void device_send_all(void);
/* Launches what waits in the queue, in order. */
void device_flush(void);
/* QUEUE_COUNTERS numbers of the device, all zero before each launch. */
unsigned *device_counters(void);
/* cudaMallocAsync; where there is no memory, it tries again after what waits is launched. */
cudaError_t device_allocate(size_t bytes, void **memory);
void device_free(void *memory);
/* Memory of the device for `bytes` bytes, in *memory, until it is given back (NULL: nothing is). */
bool device_borrow(size_t bytes, void **memory, const char *where);
void device_give_back(void *memory);
}

/* Rows on the device: site i of row k is at[k * stride + i]; stride 0: one row for all. */
template <class real> struct view {
    real *at;
    size_t stride;
};

static inline size_t row_stride(const struct array *array) {
    return (array->sites + 7) / 8 * 8;
}

template <class real> static inline real *row_at(struct rows rows) {
    return (real *)rows.array->memory + (size_t)rows.first * row_stride(rows.array);
}

template <class real> static inline view<real> view_of(struct rows rows) {
    view<real> all = {NULL, 0};
    if (rows.array) {
        all.at = row_at<real>(rows);
        all.stride = row_stride(rows.array);
    }
    return all;
}

/* A large parameter of a kernel: no thread makes a copy of it. */
#ifdef __CUDACC__
#define GRID_CONSTANT(type) const __grid_constant__ type
#else
#define GRID_CONSTANT(type) const type &
#endif

#define EACH(k, rows, i, sites)                                                                    \
    for (size_t k = blockIdx.y; k < (rows); k += gridDim.y)                                        \
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (sites);                \
             i += (size_t)gridDim.x * blockDim.x)

/* A thread for each of `sites` in each of `rows`, as far as the grid goes. */
template <typename... Formal, typename... Actual>
static void launch(const char *where, size_t rows, size_t sites, void (*kernel)(Formal...),
                   Actual... actual) {
    if (!rows || !sites || !device_ready())
        return;
    device_flush();
    size_t blocks = (sites + DEVICE_THREADS - 1) / DEVICE_THREADS;
    cudaLaunchConfig_t config = {};
    config.gridDim.x = (unsigned)(blocks < DEVICE_BLOCKS ? blocks : DEVICE_BLOCKS);
    config.gridDim.y = (unsigned)(rows < DEVICE_GRID_ROWS ? rows : DEVICE_GRID_ROWS);
    config.blockDim.x = sites < DEVICE_THREADS ? ((unsigned)sites + 31) / 32 * 32 : DEVICE_THREADS;
    config.stream = device_stream();
    device_good(cudaLaunchKernelEx(&config, kernel, actual...), where);
}
