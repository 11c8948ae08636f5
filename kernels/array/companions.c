#include "kernels/array/companions.h"
#include "kernels/array/operations.h"

struct copies {
    struct array copy[1 + COMPANIONS];
};

static bool has_companions(const struct array *array) {
    return array && array->backend->main;
}

bool companions_work(struct rows rows) {
    return has_companions(rows.array) && !((const struct companions *)rows.array->backend)->rest;
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
    return companions_work(out) ? 1 + COMPANIONS : 1;
}

static const struct backend *inner_of(struct rows rows) {
    return backend_main(rows.array->backend);
}

struct rows companions_rows(struct rows rows, int c) {
    return copy_of(rows, 1 + c);
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

/* --- operations: on the main rows, and on companions where rows are written ------------------- */

static struct coefficients main_coefficients(struct coefficients C) {
    C.rows = rows_main(C.rows);
    return C;
}

#define IN(rows) copy_of(rows, copy)
#define OF(C) main_coefficients(C)
#define HAND_ON(name, parameters, handed, rows, to, ...)                                           \
    static void companions_##name parameters {                                                     \
        for (int copy = 0; copy < copies_of(to); copy++)                                           \
            inner_of(rows)->name handed;                                                           \
    }
BACKEND_OPERATIONS(HAND_ON)

static void multiply_matrix(double scale, struct rows W, struct rows x, struct rows y) {
    inner_of(x)->times(scale, rows_main(W), rows_main(x), rows_main(y));
    rows_follow(y);
}

#define ENTER(name, ...) table->name = companions_##name;
void companions_init(struct companions *companions, const struct backend *inner) {
    struct backend *table = &companions->table;
    *companions = (struct companions){.table = *inner};
    table->main = inner;
    table->alloc = alloc;
    table->resize = resize;
    table->release = release;
    BACKEND_OPERATIONS(ENTER)
    table->is_live = NULL;
    table->times = multiply_matrix;
}
