/* Life of site arrays, and the list of backends. */
#include "kernels/array/backend.h"
#include "kernels/array/dist.h"

#include <assert.h>
#include <cblas.h>
#include <omp.h>
#include <stdlib.h>

#ifndef CUDA
/* Stands in for what is not compiled in; without arrays nothing else can be called. */
static int missing(struct err *err) {
    return err_set(err, CODE_INPUT,
                   "backend = cuda is not compiled into this program; build it with make CUDA=1");
}

static int missing_open(double *bytes, struct err *err) {
    (void)bytes;
    return missing(err);
}

static int missing_alloc(struct array *array, int capacity, struct err *err) {
    (void)array;
    (void)capacity;
    return missing(err);
}

const struct backend backend_cuda = {
    .name = "cuda", .bytes = 8, .open = missing_open, .alloc = missing_alloc};
#endif

const struct backend *const backend_list[] = {&backend_cpu, &backend_shadow, &backend_cuda, NULL};

void backend_start(int threads) {
    openblas_set_num_threads(1);
    if (threads > 0)
        omp_set_num_threads(threads);
}

size_t array_find_width(const struct array *array) {
    size_t groups = array->sites / (size_t)array->group;
    if (groups > BACKEND_BLOCK)
        groups = BACKEND_BLOCK;
    size_t line = 64 / array->backend->bytes;
    return (groups * (size_t)array->group + line - 1) / line * line;
}

size_t array_part(const struct array_split *split, int part) {
    size_t parts = (size_t)split->parts, number = (size_t)part;
    return split->blocks == parts ? number : number * split->blocks / parts;
}

int array_rank(const struct array_split *split, int rank) {
    return rank * split->parts / dist_ranks();
}

static struct array_split split_of(const struct array *array) {
    size_t width = array_width(array), blocks = (array->sites + width - 1) / width;
    int parts = blocks < BACKEND_PARTS ? (int)blocks : BACKEND_PARTS;
    int ranks = dist_ranks(), rank = dist_rank();
    struct array_split split = {.parts = parts, .end_part = parts, .blocks = blocks};
    split.over_ranks = array->backend->split && parts >= ranks;
    if (split.over_ranks) {
        split.first_part = array_rank(&split, rank);
        split.end_part = array_rank(&split, rank + 1);
    }
    split.first = array_part(&split, split.first_part);
    split.end = array_part(&split, split.end_part);
    return split;
}

int array_init(struct array *array, const struct backend *backend, size_t sites, int group,
               int rows, struct err *err) {
    assert(group > 0 && sites % (size_t)group == 0);
    *array = (struct array){.backend = backend, .sites = sites, .group = group};
    array->width = array_find_width(array);
    array->split = split_of(array);
    TRY(backend->alloc(array, rows > 0 ? rows : 1, err));
    array->rows = rows;
    return CODE_OK;
}

void array_free(struct array *array) {
    if (array->memory)
        array->backend->release(array);
    *array = (struct array){0};
}

int array_reserve(struct array *array, int rows, struct err *err) {
    if (rows > array->capacity) {
        int grown = array->capacity + array->capacity / 2;
        TRY(array->backend->resize(array, rows > grown ? rows : grown, err));
    }
    if (rows > array->rows)
        array->rows = rows;
    return CODE_OK;
}

int array_append(struct array *array, int k, struct rows *rows, struct err *err) {
    int first = array->rows;
    TRY(array_reserve(array, first + k, err));
    *rows = array_rows(array, first, k);
    return CODE_OK;
}

int array_keep(struct array *copy, struct rows rows, struct err *err) {
    const struct array *array = rows.array;
    struct rows kept;
    if (!copy->memory)
        TRY(array_init(copy, copy->backend ? copy->backend : array->backend, array->sites,
                       array->group, rows.count, err));
    copy->rows = 0;
    TRY(array_append(copy, rows.count, &kept, err));
    rows_copy(rows, kept);
    return CODE_OK;
}

struct rows array_rows(const struct array *array, int first, int count) {
    assert(first >= 0 && count >= 0 && first + count <= array->rows);
    return (struct rows){array, first, count};
}

struct rows array_all(const struct array *array) {
    return array_rows(array, 0, array->rows);
}

void rows_copy(struct rows x, struct rows y) {
    if (x.count)
        x.array->backend->pointwise(FN_LINEAR, NULL, NULL, x, y, (struct rows){0});
}

int rows_cross(struct rows x, struct rows y, struct err *err) {
    double *row;
    TRY(base_alloc(&row, x.count ? x.array->sites : 0, sizeof *row, err));
    for (int k = 0; k < x.count; k++) {
        x.array->backend->get(rows_part(x, k, 1), row);
        y.array->backend->put(rows_part(y, k, 1), row);
    }
    free(row);
    return CODE_OK;
}

void rows_poison(struct rows x) {
    rows_scale(NAN, x);
}

void rows_scale(double factor, struct rows x) {
    enum { MOST = 64 };
    double factors[MOST];
    for (int k = 0; k < MOST; k++)
        factors[k] = factor;
    for (int k = 0; k < x.count && factor != 1; k += MOST) {
        struct rows some = rows_part(x, k, x.count - k < MOST ? x.count - k : MOST);
        some.array->backend->pointwise(FN_LINEAR, factors, NULL, some, some, (struct rows){0});
    }
}

int backend_cause(const struct backend *backend, int code, struct err *err) {
    return code == CODE_NUMERICAL && backend->sync(err) ? err->code : code;
}

size_t array_bytes(const struct array *array, int rows) {
    struct array_split split = split_of(array);
    return (split.end - split.first) * array_width(array) * (size_t)rows * array->backend->bytes;
}
