/* The cpu backend on memory that the host must not touch: a device without a GPU.
 *
 * Each array is one mapping of two halves. Handles point into the first half, which can be neither
 * read nor written, so a look through array.memory outside the backend ends in a segmentation
 * fault; the values live in the second half and start as NaN, so a row read before it is written
 * shows; programs poison rows once more behind their last use (models/engine/node.h). The
 * operations move the handles over and call those of cpu: same arithmetic, same bits. */
#define _DEFAULT_SOURCE
#include "kernels/array/cpu.h"

#include <sys/mman.h>
#include <unistd.h>

/* Bytes of one half: whole pages. */
static size_t shadow_half(const struct array *a, int capacity) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (array_bytes(a, capacity) + page - 1) / page * page;
}

/* The rows as the backend cpu is to have them; space: room for their array. */
static struct rows shadow_rows(struct rows rows, struct array *space) {
    if (!rows.array)
        return rows;
    *space = *rows.array;
    space->memory = (char *)space->memory + shadow_half(space, space->capacity);
    rows.array = space;
    return rows;
}

static struct coefficients shadow_coefficients(struct coefficients C, struct array *space) {
    C.rows = shadow_rows(C.rows, space);
    return C;
}

#define IN(rows) shadow_rows(rows, &(struct array){0})
#define OF(C) shadow_coefficients(C, &(struct array){0})

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

#define HAND_ON(name, parameters, handed, ...)                                                     \
    static void shadow_##name parameters {                                                         \
        REAL_BACKEND.name handed;                                                                  \
    }
BACKEND_OPERATIONS(HAND_ON)

#define ENTER(name, ...) .name = shadow_##name,
const struct backend REAL_SHADOW = {.name = REAL_BYTES == 4 ? "shadow_single" : "shadow",
                                    .bytes = sizeof(real),
                                    .other = &REAL_OTHER_SHADOW,
                                    .open = cpu_memory_open,
                                    .alloc = shadow_alloc,
                                    .resize = shadow_resize,
                                    .release = shadow_release,
                                    .sync = cpu_memory_sync,
                                    .can_split = true,
                                    .poisons = true,
                                    BACKEND_OPERATIONS(ENTER)};
