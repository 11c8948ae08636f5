/* Life of site arrays, and the list of backends. */
#include "kernels/array/companions.h"
#include "kernels/array/dist.h"

#include <cblas.h>
#include <omp.h>

#ifndef CUDA
/* Stands in for what is not compiled in; without arrays nothing else can be called. */
static int missing_cuda(struct err *err) {
    return err_set(err, CODE_INPUT,
                   "backend = cuda is not compiled into this program; build it with make CUDA=1");
}

static int missing_open(double *bytes UNUSED, struct err *err) {
    return missing_cuda(err);
}

static int missing_alloc(struct array *array UNUSED, int capacity UNUSED, struct err *err) {
    return missing_cuda(err);
}

const struct backend backend_cuda = {.name = "cuda",
                                     .bytes = 8,
                                     .other = &backend_cuda_single,
                                     .open = missing_open,
                                     .alloc = missing_alloc};
const struct backend backend_cuda_single = {.name = "cuda_single",
                                            .bytes = 4,
                                            .other = &backend_cuda,
                                            .open = missing_open,
                                            .alloc = missing_alloc};
#endif

const struct backend *const backend_list[] = {&backend_cpu, &backend_shadow, &backend_cuda, NULL};

void backend_start(int threads) {
    openblas_set_num_threads(1);
    if (threads > 0)
        omp_set_num_threads(threads);
}

size_t array_find_block(const struct array *array) {
    return array->backend->counted ? array->sites : BACKEND_BLOCK * (size_t)array->group;
}

size_t array_find_width(const struct array *array) {
    if (array->backend->counted)
        return array->sites;
    size_t block = array_block(array), sites = array->sites < block ? array->sites : block;
    size_t line = 64 / array->backend->bytes, page = 4096 / array->backend->bytes;
    size_t width = (sites + line - 1) / line * line;
    return width % page ? width : width + line;
}

size_t array_part(const struct array_split *split, int part) {
    size_t parts = (size_t)split->parts, number = (size_t)part;
    return split->blocks == parts ? number : number * split->blocks / parts;
}

int array_rank(const struct array_split *split, int rank) {
    return rank * split->parts / dist_ranks();
}

static struct array_split split_of(const struct array *array) {
    size_t block = array_block(array), blocks = (array->sites + block - 1) / block;
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
    array->block = array_find_block(array);
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

void rows_take(struct rows x, const int *which, struct rows out) {
    const struct backend *backend = out.array->backend;
    if (backend->distant && !backend->main) {
        backend->distant->take(rows_main(x), which, out);
        return;
    }
    for (int k = 0; k < out.count; k++)
        rows_copy(rows_part(x, which[k], 1), rows_part(out, k, 1));
}

/* Places lie behind the rows that move there, so the last one goes first. */
void rows_spread(struct rows x, const int *which, int count) {
    int behind = x.count;
    for (int k = count - 1; k >= 0; k--) {
        if (which[k] != k)
            rows_copy(rows_part(x, k, 1), rows_part(x, which[k], 1));
        if (which[k] + 1 < behind)
            rows_zero(rows_part(x, which[k] + 1, behind - which[k] - 1));
        behind = which[k];
    }
    if (behind)
        rows_zero(rows_part(x, 0, behind));
}

void rows_add_at(struct rows x, const int *which, struct rows y) {
    for (int k = 0; k < x.count; k++)
        rows_add(NULL, rows_part(x, k, 1), rows_part(y, which[k], 1));
}

void rows_look_live(struct rows x, double *live) {
    bool here = x.count && x.array->backend->is_live && !x.array->split.over_ranks;
    for (int k = 0; k < x.count && here; k++)
        live[k] = x.array->backend->is_live(rows_part(x, k, 1));
    if (x.count && !here)
        x.array->backend->averages(x, x, live);
}

int rows_cross(struct rows x, struct rows y, struct err *err) {
    FREED(base_free) double *row = NULL;
    TRY(base_alloc(&row, x.count ? x.array->sites : 0, sizeof *row, err));
    for (int k = 0; k < x.count; k++) {
        x.array->backend->get(rows_part(x, k, 1), row);
        y.array->backend->put(rows_part(y, k, 1), row);
    }
    return CODE_OK;
}

void rows_poison(struct rows x) {
    rows_scale(NAN, x);
}

/* Rows that get one factor at a time. */
enum { MOST = 64 };

static int fill_factors(double factor, int rows, double factors[MOST]) {
    for (int k = 0; k < MOST; k++)
        factors[k] = factor;
    return rows < MOST ? rows : MOST;
}

void rows_scale(double factor, struct rows x) {
    double factors[MOST];
    for (int k = 0; k < x.count && factor != 1; k += MOST) {
        struct rows some = rows_part(x, k, fill_factors(factor, x.count - k, factors));
        some.array->backend->pointwise(FN_LINEAR, factors, NULL, some, some, (struct rows){0});
    }
}

void rows_add_scaled(double factor, struct rows x, struct rows y) {
    double factors[MOST];
    for (int k = 0; k < y.count; k += MOST) {
        int rows = fill_factors(factor, y.count - k, factors);
        rows_add(factors, rows_part(x, k, rows), rows_part(y, k, rows));
    }
}

/* Rows that are written at once where a matrix is transposed: as many lines of the cache. */
#define TURNED 16

/* R as they lie on the host: C [rows][terms] turned. */
static void turn_coefficients(struct coefficients C, const double *R, int rows, int terms,
                              double *out) {
    size_t sites = C.rows.array->sites;
    for (int first = 0; first < rows; first += TURNED)
        for (int l = 0; l < terms; l++) {
            double factor = C.scale * C.c[l];
            const double *row = R + (C.rows.count == 1 ? 0 : (size_t)l) * sites + C.first;
            for (int k = first; k < rows && k < first + TURNED; k++)
                out[(size_t)k * (size_t)terms + (size_t)l] = factor * row[k];
        }
}

int rows_coefficients(struct coefficients C, int rows, int terms, double **out, struct err *err) {
    FREED(base_free) double *R = NULL;
    double *all = NULL;
    size_t size = (size_t)C.rows.count * C.rows.array->sites;
    *out = NULL;
    TRY(base_alloc_unset(&R, size, sizeof *R, err));
    C.rows.array->backend->get(C.rows, R);
    if (C.turned) {
        TRY(base_alloc_unset(&all, (size_t)rows * (size_t)terms, sizeof *all, err));
        turn_coefficients(C, R, rows, terms, all);
        *out = all;
    } else {
        for (size_t i = 0; i < size; i++)
            R[i] *= C.scale;
        *out = R;
        R = NULL;
    }
    return CODE_OK;
}

/* Whether all numbers that a product reads and writes are at hand here. */
static bool is_here(struct rows x, struct rows y) {
    return !x.array->split.over_ranks && !y.array->split.over_ranks;
}

/* Where coefficients lie across, rows are multiplied by the factors instead, as they are where all
 * numbers are at hand: `scaled`, which *factors is used for. */
static int scale_rows(struct coefficients *C, struct rows *a, struct array *scaled,
                      double **factors, struct err *err) {
    struct rows from = *a;
    TRY(base_alloc_unset(factors, 2 * (size_t)a->count, sizeof **factors, err));
    TRY(array_init(scaled, from.array->backend, from.array->sites, from.array->group, from.count,
                   err));
    for (int l = 0; l < from.count; l++) {
        (*factors)[l] = C->scale * C->c[l];
        (*factors)[from.count + l] = 1;
    }
    *a = array_all(scaled);
    from.array->backend->pointwise(FN_LINEAR, *factors, NULL, from, *a, (struct rows){0});
    C->scale = 1;
    C->c = *factors + from.count;
    return CODE_OK;
}

int rows_combine(struct rows y, double beta, struct coefficients C, struct rows a,
                 struct err *err) {
    const struct backend *backend = y.array->backend;
    FREED(array_free) struct array scaled = {0};
    FREED(base_free) double *host = NULL, *factors = NULL;
    if (is_here(y, C.rows)) {
        backend->combine_rows(y, beta, C, a);
        return CODE_OK;
    }
    if (C.turned && a.count)
        TRY(scale_rows(&C, &a, &scaled, &factors, err));
    TRY(rows_coefficients(C, y.count, a.count, &host, err));
    backend->combine(y, beta, host, a);
    return CODE_OK;
}

int rows_times(double scale, struct rows W, struct rows x, struct rows y, struct err *err) {
    const struct backend *backend = x.array->backend;
    size_t size = (size_t)x.count * (size_t)W.count;
    FREED(base_free) double *host = NULL;
    if (is_here(x, y)) {
        backend->times(scale, W, x, y);
        return CODE_OK;
    }
    TRY(base_alloc_unset(&host, size, sizeof *host, err));
    backend->dots(x, W, host);
    for (size_t k = 0; k < size; k++)
        host[k] *= scale;
    y.array->backend->put(y, host);
    return CODE_OK;
}

void rows_low_rank(struct rows y, double beta, double scale, struct rows x, struct rows b,
                   struct rows a, double *C, bool wanted) {
    const struct backend *backend = y.array->backend;
    if (backend->distant) {
        struct rows to[1 + COMPANIONS] = {rows_main(y)}, from[1 + COMPANIONS] = {rows_main(a)};
        int copies = companions_work(y) ? 1 + COMPANIONS : 1;
        for (int c = 1; c < copies; c++) {
            to[c] = companions_rows(y, c - 1);
            from[c] = companions_rows(a, c - 1);
        }
        backend->distant->low_rank(to, from, copies, beta, scale, rows_main(x), rows_main(b), C,
                                   wanted);
        return;
    }
    x.array->backend->dots(x, b, C);
    for (size_t i = 0; i < (size_t)x.count * (size_t)b.count && scale != 1; i++)
        C[i] *= scale;
    backend->combine(y, beta, C, a);
}

int backend_cause(const struct backend *backend, int code, struct err *err) {
    return code == CODE_NUMERICAL && backend->sync(err) ? err->code : code;
}

size_t array_bytes(const struct array *array, int rows) {
    struct array_split split = split_of(array);
    size_t copies = array->backend->main ? 1 + COMPANIONS : 1;
    return copies * (split.end - split.first) * array_width(array) * (size_t)rows *
           array->backend->bytes;
}

double array_grown_bytes(const struct array *array, double rows) {
    double bytes = (double)array_bytes(array, 1) * rows, large = (double)array->backend->large;
    return large > 0 && bytes >= large ? bytes : 1.5 * bytes;
}
