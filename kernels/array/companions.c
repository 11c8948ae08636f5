/* The table of another backend, three times. */
#include "kernels/array/companions.h"

#include <stdlib.h>

struct copies {
    struct array copy[1 + COMPANIONS];
};

static bool has_companions(const struct array *array) {
    return array && array->backend->main;
}

static bool companions_rest(const struct array *array) {
    return ((const struct companions *)array->backend)->rest;
}

/* Number c of the rows, 0 being the main ones; rows without companions stand for all of them. */
static struct rows copy_of(struct rows rows, int c) {
    if (!has_companions(rows.array))
        return rows;
    const struct copies *copies = rows.array->memory;
    return (struct rows){&copies->copy[c], rows.first, rows.count};
}

/* How many of them an operation writes. */
static int copies_of(struct rows out) {
    return has_companions(out.array) && !companions_rest(out.array) ? 1 + COMPANIONS : 1;
}

static const struct backend *inner_of(struct rows rows) {
    return backend_main(rows.array->backend);
}

struct rows companions_rows(struct rows rows, int c) {
    return copy_of(rows, 1 + c);
}

bool companions_work(struct rows rows) {
    return has_companions(rows.array) && !companions_rest(rows.array);
}

struct rows rows_main(struct rows rows) {
    return copy_of(rows, 0);
}

void rows_follow(struct rows rows) {
    for (int c = 1; c < copies_of(rows); c++)
        rows_copy(copy_of(rows, 0), copy_of(rows, c));
}

/* --- memory ---------------------------------------------------------------------------------- */

static void release(struct array *array) {
    struct copies *copies = array->memory;
    for (int c = 0; c <= COMPANIONS; c++)
        array_free(&copies->copy[c]);
    free(copies);
    array->memory = NULL;
}

static int alloc(struct array *array, int capacity, struct err *err) {
    struct copies *copies;
    int code = CODE_OK;
    TRY(base_alloc(&copies, 1, sizeof *copies, err));
    array->memory = copies;
    array->capacity = capacity;
    for (int c = 0; c <= COMPANIONS && !code; c++)
        code = array_init(&copies->copy[c], array->backend->main, array->sites, array->group,
                          capacity, err);
    if (code)
        release(array);
    return code;
}

static int resize(struct array *array, int capacity, struct err *err) {
    struct copies *copies = array->memory;
    for (int c = 0; c <= COMPANIONS; c++) {
        copies->copy[c].rows = array->rows;
        TRY(array->backend->main->resize(&copies->copy[c], capacity, err));
    }
    array->capacity = capacity;
    return CODE_OK;
}

static void put(struct rows rows, const double *host) {
    for (int c = 0; c < copies_of(rows); c++)
        inner_of(rows)->put(copy_of(rows, c), host);
}

static void get(struct rows rows, double *host) {
    inner_of(rows)->get(copy_of(rows, 0), host);
}

static void normals(struct rows rows, struct rng_stream stream) {
    for (int c = 0; c < copies_of(rows); c++)
        inner_of(rows)->normals(copy_of(rows, c), stream);
}

/* --- averages over sites: of the main rows --------------------------------------------------- */

static void dots(struct rows a, struct rows b, double *C) {
    inner_of(a)->dots(copy_of(a, 0), copy_of(b, 0), C);
}

static void averages(struct rows a, struct rows b, double *out) {
    inner_of(a)->averages(copy_of(a, 0), copy_of(b, 0), out);
}

static void multiply_matrix(double scale, struct rows W, struct rows x, struct rows y) {
    inner_of(x)->times(scale, copy_of(W, 0), copy_of(x, 0), copy_of(y, 0));
    rows_follow(y);
}

/* --- site by site ---------------------------------------------------------------------------- */

static void combine(struct rows y, double beta, const double *C, struct rows a) {
    for (int c = 0; c < copies_of(y); c++)
        inner_of(y)->combine(copy_of(y, c), beta, C, copy_of(a, c));
}

static void combine_rows(struct rows y, double beta, struct coefficients C, struct rows a) {
    C.rows = copy_of(C.rows, 0);
    for (int c = 0; c < copies_of(y); c++)
        inner_of(y)->combine_rows(copy_of(y, c), beta, C, copy_of(a, c));
}

static void add(const double *k, struct rows x, struct rows y) {
    for (int c = 0; c < copies_of(y); c++)
        inner_of(y)->add(k, copy_of(x, c), copy_of(y, c));
}

static void pointwise(enum fn fn, const double *scale, const double *shift, struct rows x,
                      struct rows value, struct rows slope) {
    int copies = copies_of(value.array ? value : slope);
    for (int c = 0; c < copies; c++)
        inner_of(x)->pointwise(fn, scale, shift, copy_of(x, c), copy_of(value, c),
                               copy_of(slope, c));
}

static void multiply(struct rows a, struct rows b, struct rows y) {
    for (int c = 0; c < copies_of(y); c++)
        inner_of(y)->multiply(copy_of(a, c), copy_of(b, c), copy_of(y, c));
}

static void group_sum(struct rows x, struct rows y) {
    for (int c = 0; c < copies_of(y); c++)
        inner_of(y)->group_sum(copy_of(x, c), copy_of(y, c));
}

static void tile(struct rows x, struct rows y) {
    for (int c = 0; c < copies_of(y); c++)
        inner_of(y)->tile(copy_of(x, c), copy_of(y, c));
}

static void tile_mean(struct rows x, struct rows y) {
    for (int c = 0; c < copies_of(y); c++)
        inner_of(y)->tile_mean(copy_of(x, c), copy_of(y, c));
}

static int top(struct rows x, size_t K, struct rows mask, struct err *err) {
    for (int c = 0; c < copies_of(mask); c++)
        TRY(inner_of(mask)->top(copy_of(x, c), K, copy_of(mask, c), err));
    return CODE_OK;
}

static void entries(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                    struct rows y) {
    for (int c = 0; c < copies_of(y); c++)
        inner_of(y)->entries(rule, copy_of(g, c), copy_of(m, c), copy_of(v, c), copy_of(y, c));
}

void companions_init(struct companions *companions, const struct backend *inner) {
    struct backend *table = &companions->table;
    *companions = (struct companions){.table = *inner};
    table->main = inner;
    table->alloc = alloc;
    table->resize = resize;
    table->release = release;
    table->put = put;
    table->get = get;
    table->normals = normals;
    table->dots = dots;
    table->averages = averages;
    table->is_live = NULL;
    table->times = multiply_matrix;
    table->combine = combine;
    table->combine_rows = combine_rows;
    table->add = add;
    table->pointwise = pointwise;
    table->multiply = multiply;
    table->group_sum = group_sum;
    table->tile = tile;
    table->tile_mean = tile_mean;
    table->top = top;
    table->entries = entries;
}
