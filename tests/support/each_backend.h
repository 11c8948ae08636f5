/* What tests share that run on every backend of the list. */
#pragma once

#include "kernels/maps/basis.h"
#include "tests/support/wanted.h"

#define LENGTH(list) (sizeof(list) / sizeof *(list))
#define ROUND_OFF 1e-13

static const struct backend *backend; /* under test */
static const struct rows none;
static struct err err;

#define ASK(call)                                                                                  \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s:%d: %s", __FILE__, __LINE__, err.text);                                   \
    } while (0)

/* What 1 and the next number of a site are apart, and x as such a number. */
static inline double eps(void) {
    return backend->bytes == sizeof(float) ? FLT_EPSILON : DBL_EPSILON;
}

static inline double rounded(double x) {
    return backend->bytes == sizeof(float) ? (double)(float)x : x;
}

static inline void assert_near(double got, long double want, long double bound) {
    if (!(fabsl((long double)got - want) <= bound))
        fail_msg("%s: %.17g instead of %.17Lg, bound %.3Lg", backend->name, got, want, bound);
}

static inline void *memory(size_t count, size_t size) {
    void *block = calloc(count ? count : 1, size);
    assert_non_null(block);
    return block;
}

static inline double *values(struct rows rows) {
    double *host = memory((size_t)rows.count * rows.array->sites, sizeof *host);
    backend->get(rows, host);
    return host;
}

/* Standard normals that have nothing to do with those of the populations below. */
static inline void draw(double *x, size_t count, uint32_t number) {
    struct rng_stream stream = {.seed = 4711, .purpose = PURPOSE_DATA};
    for (size_t i = 0; i < count; i++) {
        double pair[2];
        rng_normal_pair(stream, number, (uint32_t)(i / 2), pair);
        x[i] = pair[i % 2];
    }
}

static inline void array_from(struct array *array, size_t sites, int group, const double *x,
                              int count) {
    ASK(array_init(array, backend, sites, group, count, &err));
    backend->put(array_all(array), x);
}
