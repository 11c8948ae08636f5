/* The stream, the cuBLAS handle, the staging memory and the first failure of each host thread. */
#include "kernels/array/device.h"
#include "kernels/array/dist.h"

#include <limits.h>

#define STAGING (1 << 20) /* numbers, at first */

/* What a host thread works with. */
struct context {
    bool open;
    cudaStream_t stream;
    cublasHandle_t blas;
    double *host, *device; /* staging: pinned memory, and as much on the device */
    size_t size, used;     /* numbers */
    struct err failure;    /* the first one, until sync() tells; code 0: none */
    ~context() {           /* nobody is left to be told of failures */
        if (!open)
            return;
        cudaStreamSynchronize(stream);
        cudaFreeHost(host);
        cudaFree(device);
        cublasDestroy(blas);
        cudaStreamDestroy(stream);
    }
};

static thread_local struct context self;

static int explain(cudaError_t status, const char *where, struct err *err) {
    cudaGetLastError(); /* else the next call would report it again */
    return err_set(err, CODE_SYSTEM, "the CUDA device failed (%s): %s", where,
                   cudaGetErrorString(status));
}

int device_check(cudaError_t status, const char *where, struct err *err) {
    return status == cudaSuccess ? CODE_OK : explain(status, where, err);
}

bool device_good(cudaError_t status, const char *where) {
    struct err failure;
    if (status == cudaSuccess)
        return true;
    explain(status, where, &failure);
    if (!self.failure.code)
        self.failure = failure;
    return false;
}

bool device_good_blas(cublasStatus_t status, const char *where) {
    if (status != CUBLAS_STATUS_SUCCESS && !self.failure.code)
        err_set(&self.failure, CODE_SYSTEM, "the CUDA device failed (%s): %s", where,
                cublasGetStatusString(status));
    return status == CUBLAS_STATUS_SUCCESS;
}

/* A device for this rank: is there one that the program was compiled for? */
static int find_device(int *device, struct err *err) {
    int count = 0, major = 0, minor = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || !count) {
        cudaGetLastError();
        return err_set(err, CODE_SYSTEM, "backend = cuda finds no device: %s",
                       cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status));
    }
    *device = dist_rank() % count;
    TRY(device_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, *device),
                     "start", err));
    TRY(device_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, *device),
                     "start", err));
    if (major < 8)
        return err_set(err, CODE_SYSTEM,
                       "backend = cuda needs a device of compute capability 8.0 or later; device "
                       "%d here has %d.%d",
                       *device, major, minor);
    TRY(device_check(cudaSetDevice(*device), "start", err));
    return CODE_OK;
}

int device_start(struct err *err) {
    if (self.open)
        return CODE_OK;
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX; /* memory set free stays in the pool, for the next array */
    int device = 0;
    TRY(find_device(&device, err));
    TRY(device_check(cudaDeviceGetDefaultMemPool(&pool, device), "start", err));
    TRY(device_check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), "start",
                     err));
    TRY(device_check(cudaStreamCreateWithFlags(&self.stream, cudaStreamNonBlocking), "start", err));
    cublasStatus_t status = cublasCreate(&self.blas);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasSetStream(self.blas, self.stream);
        if (status != CUBLAS_STATUS_SUCCESS)
            cublasDestroy(self.blas);
    }
    if (status != CUBLAS_STATUS_SUCCESS) {
        cudaStreamDestroy(self.stream);
        return err_set(err, CODE_SYSTEM, "cuBLAS does not start: %s",
                       cublasGetStatusString(status));
    }
    self.open = true;
    return CODE_OK;
}

bool device_ready(void) {
    if (!self.failure.code)
        device_start(&self.failure);
    return !self.failure.code;
}

bool device_wait(const char *where) {
    self.used = 0;
    return device_good(cudaStreamSynchronize(self.stream), where) && !self.failure.code;
}

bool device_take(size_t count, struct slot *slot, const char *where) {
    count = (count + 31) / 32 * 32; /* aligned like an allocation */
    if (self.used + count > self.size && !device_wait(where))
        return false;
    if (count > self.size) {
        size_t size = count > STAGING ? count : STAGING;
        device_good(cudaFreeHost(self.host), where);
        device_good(cudaFree(self.device), where);
        self.host = self.device = NULL;
        self.size = 0;
        if (!device_good(cudaMallocHost((void **)&self.host, size * sizeof(double)), where) ||
            !device_good(cudaMalloc((void **)&self.device, size * sizeof(double)), where))
            return false;
        self.size = size;
    }
    slot->host = self.host + self.used;
    slot->device = self.device + self.used;
    self.used += count;
    return true;
}

bool device_fetch(struct slot slot, size_t count, const char *where) {
    return device_good(cudaMemcpyAsync(slot.host, slot.device, count * sizeof(double),
                                       cudaMemcpyDeviceToHost, self.stream),
                       where) &&
           device_wait(where);
}

bool device_send(struct slot slot, size_t count, const char *where) {
    return device_good(cudaMemcpyAsync(slot.device, slot.host, count * sizeof(double),
                                       cudaMemcpyHostToDevice, self.stream),
                       where);
}

bool device_borrow(size_t bytes, void **memory, const char *where) {
    *memory = NULL;
    return device_good(cudaMallocAsync(memory, bytes ? bytes : 1, self.stream), where);
}

void device_give_back(void *memory, const char *where) {
    if (memory)
        device_good(cudaFreeAsync(memory, self.stream), where);
}

cudaStream_t device_stream(void) {
    return self.stream;
}

cublasHandle_t device_blas(void) {
    return self.blas;
}

int device_failure(bool forget, struct err *err) {
    int code = self.failure.code;
    if (code)
        *err = self.failure;
    if (forget)
        self.failure.code = 0;
    return code;
}
