/* The cpu backend on memory that the host must not touch: a device without a GPU.
 *
 * Each array is one mapping of two halves. Handles point into the first half, which can be neither
 * read nor written, so a look through array.memory outside the backend ends in a segmentation
 * fault; the values live in the second half and start as NaN, so a row read before it is written
 * shows; programs poison rows once more behind their last use (models/engine/node.h). The
 * operations move the handles over and call those of cpu: same arithmetic, same bits. */
#define _DEFAULT_SOURCE
#include "kernels/array/backend.h"
#include "kernels/array/real.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes of one half: whole pages. */
static size_t shadow_half(const struct array *a, int capacity) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (array_bytes(a, capacity) + page - 1) / page * page;
}

static struct array shadow_real(const struct array *a) {
    struct array readable = *a;
    readable.memory = (char *)a->memory + shadow_half(a, a->capacity);
    return readable;
}

#define REAL(r)                                                                                    \
    struct array r##_array = (r).array ? shadow_real((r).array) : (struct array){0};               \
    struct rows r##_real = {(r).array ? &r##_array : NULL, (r).first, (r).count}

static int shadow_open(double *bytes, struct err *err) {
    return REAL_BACKEND.open(bytes, err);
}

static int shadow_alloc(struct array *array, int capacity, struct err *err) {
    size_t half = shadow_half(array, capacity);
    char *memory = mmap(NULL, 2 * half, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED && mprotect(memory + half, half, PROT_READ | PROT_WRITE)) {
        munmap(memory, 2 * half);
        memory = MAP_FAILED;
    }
    if (memory == MAP_FAILED)
        return err_set(err, CODE_SYSTEM, "out of memory: %d rows over %zu sites (shadow backend)",
                       capacity, array->sites);
    real *values = (real *)(void *)(memory + half);
    for (size_t i = 0; i < half / sizeof *values; i++)
        values[i] = NAN;
    array->memory = memory;
    array->capacity = capacity;
    return CODE_OK;
}

static void shadow_release(struct array *array) {
    munmap(array->memory, 2 * shadow_half(array, array->capacity));
    array->memory = NULL;
}

static int shadow_resize(struct array *array, int capacity, struct err *err) {
    struct array larger = *array;
    TRY(shadow_alloc(&larger, capacity, err));
    struct rows from = {array, 0, array->rows}, to = {&larger, 0, array->rows};
    rows_copy(from, to);
    shadow_release(array);
    *array = larger;
    return CODE_OK;
}

static void shadow_put(struct rows rows, const double *host) {
    REAL(rows);
    REAL_BACKEND.put(rows_real, host);
}

static void shadow_get(struct rows rows, double *host) {
    REAL(rows);
    REAL_BACKEND.get(rows_real, host);
}

static void shadow_normals(struct rows rows, struct rng_stream stream) {
    REAL(rows);
    REAL_BACKEND.normals(rows_real, stream);
}

static void shadow_dots(struct rows a, struct rows b, double *C) {
    REAL(a);
    REAL(b);
    REAL_BACKEND.dots(a_real, b_real, C);
}

static void shadow_averages(struct rows a, struct rows b, double *out) {
    REAL(a);
    REAL(b);
    REAL_BACKEND.averages(a_real, b_real, out);
}

static void shadow_combine(struct rows y, double beta, const double *C, struct rows a) {
    REAL(y);
    REAL(a);
    REAL_BACKEND.combine(y_real, beta, C, a_real);
}

static void shadow_combine_rows(struct rows y, double beta, struct coefficients C, struct rows a) {
    struct array R = shadow_real(C.rows.array);
    C.rows.array = &R;
    REAL(y);
    REAL(a);
    REAL_BACKEND.combine_rows(y_real, beta, C, a_real);
}

static void shadow_times(double scale, struct rows W, struct rows x, struct rows y) {
    REAL(W);
    REAL(x);
    REAL(y);
    REAL_BACKEND.times(scale, W_real, x_real, y_real);
}

static void shadow_add(const double *c, struct rows x, struct rows y) {
    REAL(x);
    REAL(y);
    REAL_BACKEND.add(c, x_real, y_real);
}

static void shadow_pointwise(enum fn fn, const double *scale, const double *shift, struct rows x,
                             struct rows value, struct rows slope) {
    REAL(x);
    REAL(value);
    REAL(slope);
    REAL_BACKEND.pointwise(fn, scale, shift, x_real, value_real, slope_real);
}

static void shadow_multiply(struct rows a, struct rows b, struct rows y) {
    REAL(a);
    REAL(b);
    REAL(y);
    REAL_BACKEND.multiply(a_real, b_real, y_real);
}

static void shadow_group_sum(struct rows x, struct rows y) {
    REAL(x);
    REAL(y);
    REAL_BACKEND.group_sum(x_real, y_real);
}

static void shadow_tile(struct rows x, struct rows y) {
    REAL(x);
    REAL(y);
    REAL_BACKEND.tile(x_real, y_real);
}

static void shadow_tile_mean(struct rows x, struct rows y) {
    REAL(x);
    REAL(y);
    REAL_BACKEND.tile_mean(x_real, y_real);
}

static int shadow_top(struct rows x, size_t K, struct rows mask, struct err *err) {
    REAL(x);
    REAL(mask);
    return REAL_BACKEND.top(x_real, K, mask_real, err);
}

static void shadow_entries(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                           struct rows y) {
    REAL(g);
    REAL(m);
    REAL(v);
    REAL(y);
    REAL_BACKEND.entries(rule, g_real, m_real, v_real, y_real);
}

static int shadow_sync(struct err *err) {
    return REAL_BACKEND.sync(err);
}

const struct backend REAL_SHADOW = {
    .name = REAL_BYTES == 4 ? "shadow_single" : "shadow",
    .bytes = sizeof(real),
    .other = &REAL_OTHER_SHADOW,
    .open = shadow_open,
    .alloc = shadow_alloc,
    .resize = shadow_resize,
    .release = shadow_release,
    .put = shadow_put,
    .get = shadow_get,
    .normals = shadow_normals,
    .dots = shadow_dots,
    .averages = shadow_averages,
    .combine = shadow_combine,
    .combine_rows = shadow_combine_rows,
    .times = shadow_times,
    .add = shadow_add,
    .pointwise = shadow_pointwise,
    .multiply = shadow_multiply,
    .group_sum = shadow_group_sum,
    .tile = shadow_tile,
    .tile_mean = shadow_tile_mean,
    .top = shadow_top,
    .entries = shadow_entries,
    .sync = shadow_sync,
    .can_split = true,
    .poisons = true,
};
