/* The stream, the cuBLAS handle, the staging memory and the first failure of each host thread. */
#include "kernels/array/device_queue.h"
#include "kernels/array/dist.h"

#include <limits.h>
#include <string.h>

#define STAGING (1 << 20) /* numbers, at first */
#define NEAR 4096         /* numbers between two that arrive in one copy, at most */
#define ARRIVALS 1024     /* numbers of one wait go to so many places */

struct arrival {
    double *from, *to; /* on the host: staging memory, and where they are wanted */
    size_t count;
};

/* What a host thread works with. */
struct context {
    bool open;
    cudaStream_t stream;
    cublasHandle_t blas;
    double *host, *device; /* staging: pinned memory, and as much on the device */
    size_t size;           /* numbers */
    size_t put, sent;      /* used from its beginning on by what goes to the device, and is there */
    size_t taken;          /* and from its end back by what the device writes */
    unsigned *counters;
    struct arrival arrival[ARRIVALS];
    int arrivals;
    bool holds, later,
        wanted;         /* wanted: some of them are, before the next wait for other reasons */
    bool busy;          /* something was queued since the last wait */
    struct err failure; /* the first one, until sync() tells; code 0: none */
    ~context() {        /* nobody is left to be told of failures */
        if (!open)
            return;
        device_flush();
        cudaStreamSynchronize(stream);
        device_queue_end();
        cudaFree(counters);
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
    device_flush();
    for (int n = self.arrivals - 1, next; n >= 0 && good; n = next) {
        double *begin = self.arrival[n].from, *end = begin;
        for (next = n; next >= 0 && self.arrival[next].from - end <= NEAR; next--)
            end = self.arrival[next].from + self.arrival[next].count;
        good = bring(begin, end, where);
    }
    good = device_good(cudaStreamSynchronize(self.stream), where) && good && !self.failure.code;
    for (int n = 0; n < self.arrivals && good; n++)
        memcpy(self.arrival[n].to, self.arrival[n].from, self.arrival[n].count * sizeof(double));
    self.put = self.sent = self.taken = 0;
    self.arrivals = 0;
    self.wanted = self.busy = false;
    return good;
}

/* All of it may move. */
bool device_room(size_t count, const char *where) {
    if (self.put + self.taken + count <= self.size)
        return true;
    if (self.put + self.taken && !device_wait(where))
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
    return true;
}

static size_t whole_lines(size_t count) {
    return (count + ALIGNED - 1) / ALIGNED * ALIGNED;
}

bool device_take(size_t count, struct slot *slot, const char *where) {
    if (!device_room(whole_lines(count), where))
        return false;
    self.taken += whole_lines(count);
    slot->host = self.host + self.size - self.taken;
    slot->device = self.device + self.size - self.taken;
    return true;
}

void device_fetch(struct slot slot, double *to, size_t count, const char *where) {
    self.arrival[self.arrivals++] = {slot.host, to, count};
    self.wanted = self.wanted || !self.later;
    if ((!self.holds && !self.later) || self.arrivals == ARRIVALS)
        device_wait(where);
}

void device_hold(bool begin) {
    self.holds = begin;
    if (!begin && self.wanted)
        device_wait("hold");
}

void device_later(bool begin) {
    self.later = begin;
}

void device_arrive(const double *numbers, size_t count) {
    bool awaited = !numbers && self.arrivals;
    for (int n = 0; n < self.arrivals; n++)
        awaited =
            awaited || (self.arrival[n].to >= numbers && self.arrival[n].to < numbers + count);
    if (awaited)
        device_wait("arrive");
}

/* What comes last is what they will be. */
const double *device_coming(const double *host, size_t count) {
    for (int n = self.arrivals - 1; n >= 0; n--)
        if (self.arrival[n].to == host && self.arrival[n].count >= count)
            return self.device + (self.arrival[n].from - self.host);
    return NULL;
}

const double *device_put(const double *host, size_t count, const char *where) {
    const double *coming = device_coming(host, count);
    if (coming)
        return coming;
    if (!device_ready() || !device_room(whole_lines(count), where))
        return NULL;
    const double *there = self.device + self.put;
    memcpy(self.host + self.put, host, count * sizeof *host);
    self.put += whole_lines(count);
    return there;
}

void device_send_all(void) {
    size_t first = self.sent, count = self.put - first;
    self.sent = self.put;
    if (count)
        device_good(cudaMemcpyAsync(self.device + first, self.host + first, count * sizeof(double),
                                    cudaMemcpyHostToDevice, self.stream),
                    "put");
}

cudaError_t device_allocate(size_t bytes, void **memory) {
    *memory = NULL;
    cudaError_t status = cudaMallocAsync(memory, bytes ? bytes : 1, self.stream);
    if (status != cudaErrorMemoryAllocation)
        return status;
    cudaGetLastError();
    device_flush();
    return cudaMallocAsync(memory, bytes ? bytes : 1, self.stream);
}

bool device_borrow(size_t bytes, void **memory, const char *where) {
    return device_good(device_allocate(bytes, memory), where);
}

/* Nobody waits for it. */
void device_free(void *memory) {
    bool busy = self.busy;
    device_good(cudaFreeAsync(memory, self.stream), "release");
    self.busy = busy;
}

unsigned *device_counters(void) {
    size_t bytes = QUEUE_COUNTERS * sizeof(unsigned);
    if (!self.counters && device_good(cudaMalloc((void **)&self.counters, bytes), "start"))
        device_good(cudaMemsetAsync(self.counters, 0, bytes, self.stream), "start");
    return self.counters;
}

bool device_sync(const char *where) {
    return self.busy ? device_wait(where) : !self.failure.code;
}

cudaStream_t device_stream(void) {
    return self.stream;
}

cublasHandle_t device_blas(void) {
    device_flush();
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
