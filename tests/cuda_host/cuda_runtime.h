/* A stand-in for the CUDA runtime that lets a C++ compiler build kernels/array/cuda.cu and a
 * machine without a device run it: an emulation on the host, which checks the arithmetic and the
 * queueing of the backend, not the speed or the compiler of a GPU.
 *
 * Device addresses cannot be read or written; queued operations are given the true ones, if their
 * pointers lie on the device. Fresh memory is NaN, and what lies behind an allocation is checked
 * when it is set free. A stream keeps its
 * operations until it is synchronised, so a result that the host reads too early, or coefficients
 * that it overwrites too early, show. The threads of a kernel run one after the other. */
#pragma once

#include <functional>
#include <map>
#include <math.h>
#include <mutex>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tuple>
#include <vector>

#define __global__
#define __device__

enum cudaError_t {
    cudaSuccess,
    cudaErrorMemoryAllocation,
    cudaErrorNoDevice,
    cudaErrorLaunchFailure
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };
enum { cudaMemPoolAttrReleaseThreshold, cudaStreamNonBlocking };
typedef int cudaMemPool_t;

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

struct emulated_stream {
    std::vector<std::function<void()>> queue;
};
typedef emulated_stream *cudaStream_t;

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    cudaStream_t stream;
};

/* What a run asks of the device, all threads together: operations, waits for it, bytes to and from
 * it, allocations in a stream. tests/test_counts.c reads it. */
struct emulated_counts {
    long launches, waits, sent, fetched, allocations;
};
extern "C" __attribute__((used)) inline emulated_counts *emulated_counted(void) {
    static emulated_counts counts;
    return &counts;
}
inline void emulated_count(long emulated_counts::*what, size_t more) {
    __atomic_fetch_add(&(emulated_counted()->*what), (long)more, __ATOMIC_RELAXED);
}

inline thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

[[noreturn]] inline void emulated_fail(const char *what) {
    fprintf(stderr, "emulated device: %s\n", what);
    abort();
}

/* Of a program that lets launches fail, and copies from the device bring NaN (tests/faults). */
extern "C" int emulated_fault(void) __attribute__((weak));
extern "C" int emulated_nan(void) __attribute__((weak));

struct emulated_device {
    static const size_t size = (size_t)1 << 32, guard = 256;
    std::mutex mutex;                /* of the map */
    std::map<size_t, size_t> taken;  /* offset, bytes with the guard */
    char *base = reserve(PROT_NONE); /* addresses as the host sees them */
    char *real = reserve(PROT_READ | PROT_WRITE);

    static char *reserve(int rights) {
        void *memory = mmap(NULL, size, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            emulated_fail("no memory");
        return (char *)memory;
    }
    bool holds(const void *p) const {
        return (const char *)p >= base && (const char *)p < base + size;
    }
};

inline emulated_device &device() {
    static emulated_device *one = new emulated_device; /* outlives the threads' contexts */
    return *one;
}

/* Where the values are: of a device address; of a struct with such an address `at`. */
template <class T> inline T *emulated_real(T *p, int) {
    if (p && !device().holds(p))
        emulated_fail("an operation is given a pointer of the host");
    return p ? (T *)(device().real + ((const char *)p - device().base)) : p;
}
template <class T> inline auto emulated_real(T value, int) -> decltype(value.at, T()) {
    value.at = emulated_real(value.at, 0);
    return value;
}
/* Of a struct that knows its addresses. */
struct emulated_translation {
    template <class T> void operator()(T *&p) const {
        p = emulated_real(p, 0);
    }
};
template <class T>
inline auto emulated_real(T value, int)
    -> decltype(value.each_address(emulated_translation()), T()) {
    value.each_address(emulated_translation());
    return value;
}
template <class T> inline T emulated_real(T value, long) {
    return value;
}

inline void emulated_run(cudaStream_t stream) {
    for (std::function<void()> &operation : stream->queue)
        operation();
    stream->queue.clear();
}

inline cudaError_t cudaGetLastError() {
    return cudaSuccess;
}

inline const char *cudaGetErrorString(cudaError_t status) {
    return status == cudaErrorMemoryAllocation ? "out of memory"
           : status == cudaErrorLaunchFailure  ? "unspecified launch failure"
                                               : "no device";
}

/* CUDA_VISIBLE_DEVICES hides the device, as it does a real one. */
inline cudaError_t cudaGetDeviceCount(int *count) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    *count = !visible || *visible;
    return *count ? cudaSuccess : cudaErrorNoDevice;
}

inline cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int) {
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 8 : 0;
    return cudaSuccess;
}

inline cudaError_t cudaSetDevice(int) {
    return cudaSuccess;
}

inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *, int) {
    return cudaSuccess;
}

inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, int, void *) {
    return cudaSuccess;
}

inline cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    *available = *total = emulated_device::size;
    return cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = new emulated_stream;
    return cudaSuccess;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    emulated_count(&emulated_counts::waits, 1);
    emulated_run(stream);
    return cudaSuccess;
}

inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    emulated_run(stream);
    delete stream;
    return cudaSuccess;
}

inline cudaError_t cudaMalloc(void **memory, size_t bytes) {
    emulated_device &d = device();
    std::lock_guard<std::mutex> hold(d.mutex);
    size_t at = 0, whole = (bytes + 255) / 256 * 256 + d.guard;
    for (const auto &block : d.taken) { /* the first gap that is large enough */
        if (block.first - at >= whole)
            break;
        at = block.first + block.second;
    }
    if (whole > d.size - at)
        return cudaErrorMemoryAllocation;
    d.taken[at] = whole;
    memset(d.real + at, 0xff, whole); /* NaN */
    *memory = d.base + at;
    return cudaSuccess;
}

inline cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t) {
    emulated_count(&emulated_counts::allocations, 1);
    return cudaMalloc(memory, bytes);
}

inline void emulated_free(void *memory) {
    emulated_device &d = device();
    std::lock_guard<std::mutex> hold(d.mutex);
    auto block = d.taken.find((size_t)((char *)memory - d.base));
    if (block == d.taken.end())
        emulated_fail("freed what was not allocated");
    const char *end = d.real + block->first + block->second;
    for (const char *p = end - d.guard; p < end; p++)
        if (*p != (char)0xff)
            emulated_fail("written behind an allocation");
    d.taken.erase(block);
}

inline cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
    stream->queue.push_back([=] { emulated_free(memory); });
    return cudaSuccess;
}

inline cudaError_t cudaFree(void *memory) {
    emulated_stream now;
    if (memory)
        cudaFreeAsync(memory, &now);
    emulated_run(&now);
    return cudaSuccess;
}

inline cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    *memory = malloc(bytes);
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

inline cudaError_t cudaFreeHost(void *memory) {
    free(memory);
    return cudaSuccess;
}

inline cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                     size_t bytes, size_t rows, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
    if (kind != cudaMemcpyDeviceToHost)
        to = emulated_real(to, 0);
    if (kind != cudaMemcpyHostToDevice)
        from = emulated_real(from, 0);
    if (kind == cudaMemcpyDeviceToDevice)
        emulated_count(&emulated_counts::launches, 1);
    else
        emulated_count(kind == cudaMemcpyHostToDevice ? &emulated_counts::sent
                                                      : &emulated_counts::fetched,
                       bytes * rows);
    bool nan = kind == cudaMemcpyDeviceToHost && emulated_nan && emulated_nan();
    stream->queue.push_back([=] {
        for (size_t k = 0; k < rows; k++)
            if (nan)
                memset((char *)to + k * to_pitch, -1, bytes);
            else
                memcpy((char *)to + k * to_pitch, (const char *)from + k * from_pitch, bytes);
    });
    return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    to = emulated_real(to, 0);
    emulated_count(&emulated_counts::launches, 1);
    stream->queue.push_back([=] { memset(to, value, bytes); });
    return cudaSuccess;
}

/* The threads run one after the other. */
inline unsigned atomicAdd(unsigned *to, unsigned more) {
    unsigned old = *to;
    *to = old + more;
    return old;
}

inline void __threadfence() {
}

inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

template <typename... Formal, typename... Actual>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Formal...),
                                      Actual... actual) {
    if (emulated_fault && emulated_fault())
        return cudaErrorLaunchFailure;
    emulated_count(&emulated_counts::launches, 1);
    dim3 grid = config->gridDim, block = config->blockDim;
    std::tuple<std::decay_t<Formal>...> arguments(emulated_real(actual, 0)...);
    config->stream->queue.push_back([=] {
        gridDim = grid;
        blockDim = block;
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
                for (threadIdx.x = 0; threadIdx.x < block.x; threadIdx.x++)
                    std::apply(kernel, arguments);
    });
    return cudaSuccess;
}
