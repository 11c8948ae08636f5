/* The stream, the cuBLAS handle, the staging memory and the first failure of each host thread. */
#include "kernels/array/device.h"
#include "kernels/array/dist.h"

#include <limits.h>
#include <string.h>

#define STAGING (1 << 20) /* numbers, at first */
#define NEAR 4096         /* numbers between two that arrive in one copy, at most */
#define ARRIVALS 256      /* numbers of one wait go to so many places */

/* What a host thread works with. */
struct context {
    bool open;
    cudaStream_t stream;
    cublasHandle_t blas;
    double *host, *device; /* staging: pinned memory, and as much on the device */
    size_t size, used;     /* numbers */
    struct arrival arrival[ARRIVALS];
    double *from[ARRIVALS]; /* on the host */
    int arrivals;
    bool holds, busy;   /* busy: something was queued since the last wait */
    struct err failure; /* the first one, until sync() tells; code 0: none */
    ~context() {        /* nobody is left to be told of failures */
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
    self.busy = true;
    if (status == cudaSuccess)
        return true;
    explain(status, where, &failure);
    if (!self.failure.code)
        self.failure = failure;
    return false;
}

bool device_good_blas(cublasStatus_t status, const char *where) {
    self.busy = true;
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

static double sum_by_halves(const double *x, size_t n) {
    return n < 2 ? (n ? *x : 0) : sum_by_halves(x, n / 2) + sum_by_halves(x + n / 2, n - n / 2);
}

static void deliver_arrivals(void) {
    for (int n = 0; n < self.arrivals; n++) {
        const struct arrival *a = &self.arrival[n];
        if (a->parts == 1 && a->divide == 1)
            memcpy(a->to, self.from[n], a->count * sizeof *a->to);
        for (size_t k = 0; k < a->count && (a->parts != 1 || a->divide != 1); k++)
            a->to[k] = sum_by_halves(self.from[n] + k * a->parts, a->parts) / a->divide;
    }
}

/* Numbers of the staging memory, from the device. */
static bool bring(double *from, const double *end, const char *where) {
    return device_good(cudaMemcpyAsync(from, self.device + (from - self.host),
                                       (size_t)(end - from) * sizeof(double),
                                       cudaMemcpyDeviceToHost, self.stream),
                       where);
}

/* What is to arrive, with the little that lies between: in few copies. */
bool device_wait(const char *where) {
    bool good = true;
    for (int n = 0, next; n < self.arrivals && good; n = next) {
        const double *end = self.from[n];
        for (next = n; next < self.arrivals && self.from[next] - end <= NEAR; next++)
            end = self.from[next] + self.arrival[next].count * self.arrival[next].parts;
        good = bring(self.from[n], end, where);
    }
    good = device_good(cudaStreamSynchronize(self.stream), where) && good && !self.failure.code;
    if (good)
        deliver_arrivals();
    self.used = 0;
    self.arrivals = 0;
    self.busy = false;
    return good;
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

void device_fetch(struct slot slot, struct arrival arrival, const char *where) {
    self.arrival[self.arrivals] = arrival;
    self.from[self.arrivals++] = slot.host;
    if (!self.holds || self.arrivals == ARRIVALS)
        device_wait(where);
}

void device_hold(bool begin) {
    self.holds = begin;
    if (!begin && self.arrivals)
        device_wait("hold");
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

/* Nobody waits for it. */
void device_give_back(void *memory, const char *where) {
    bool busy = self.busy;
    if (memory)
        device_good(cudaFreeAsync(memory, self.stream), where);
    self.busy = busy;
}

bool device_sync(const char *where) {
    return self.busy ? device_wait(where) : !self.failure.code;
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
