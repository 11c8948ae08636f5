#include "kernels/maps/change.h"

/* Rows of the gradient that are there at once; and in single precision, where BLAS multiplies and
 * copies the rows of `a` once for each such product, so many numbers of it, which the second cache
 * holds; and on a device, which has enough to do with so many. */
#define CHUNK 64
#define CHUNK_NUMBERS 65536
#define CHUNK_DISTANT (1 << 22)

int change_add(const struct change *change, int first, double beta, struct rows rows,
               struct err *err) {
    struct coefficients C = change->by_rows;
    if (change->C) {
        const double *part = change->C + (size_t)first * (size_t)change->a.count;
        rows.array->backend->combine(rows, beta, part, change->a);
        return CODE_OK;
    }
    C.first = first;
    return rows_combine(rows, beta, C, change->a, err);
}

int change_fetch(struct change *change, struct err *err) {
    if (change->C)
        return CODE_OK;
    return rows_coefficients(change->by_rows, change->entries.count, change->a.count, &change->C,
                             err);
}

void change_free(struct change *change) {
    free(change->C);
    free(change->by_rows.c);
    change->C = change->by_rows.c = NULL;
}

int change_apply(struct change *change, struct err *err) {
    int code = change_add(change, 0, 1, change->entries, err);
    change_free(change);
    return code;
}

int change_remember(struct array *memory, struct rows entries, struct rows *rows, struct err *err) {
    const struct array *like = entries.array;
    struct rows added;
    if (!memory->memory)
        TRY(array_init(memory, like->backend, like->sites, like->group, 0, err));
    if (memory->rows < entries.count) {
        TRY(array_append(memory, entries.count - memory->rows, &added, err));
        rows_zero(added);
    }
    *rows = array_rows(memory, 0, entries.count);
    return CODE_OK;
}

int change_momentum(struct change *change, double mu, double rate, struct array *velocity,
                    struct err *err) {
    struct rows v;
    int code = CODE_OK;
    DO(change_remember(velocity, change->entries, &v, err));
    DO(change_add(change, 0, mu, v, err));
    rows_add_scaled(rate, v, change->entries);
done:
    change_free(change);
    return code;
}

static int chunk_of(struct rows entries) {
    const struct backend *backend = entries.array->backend;
    size_t numbers = backend->distant ? CHUNK_DISTANT : backend->bytes == 4 ? CHUNK_NUMBERS : 0;
    size_t fit = numbers / entries.array->sites;
    int rows = fit > CHUNK ? (int)fit : CHUNK;
    return entries.count < rows ? entries.count : rows;
}

int change_entries(struct change *change, struct entry_rule rule, struct array memory[2],
                   int memories, struct err *err) {
    struct rows entries = change->entries, m, v = {0};
    const struct backend *backend = entries.array->backend;
    FREED(array_free) struct array gradient = {0};
    int chunk = chunk_of(entries), code = CODE_OK;
    rule.rate *= fabs(change->s); /* a negative s is in the gradient already */
    rule.eps *= fabs(change->s);
    DO(change_remember(&memory[0], entries, &m, err));
    if (memories == 2)
        DO(change_remember(&memory[1], entries, &v, err));
    DO(array_init(&gradient, backend, entries.array->sites, entries.array->group, chunk, err));
    for (int first = 0; first < entries.count; first += chunk) {
        int count = entries.count - first < chunk ? entries.count - first : chunk;
        struct rows g = array_rows(&gradient, 0, count);
        DO(change_add(change, first, 0, g, err));
        backend->entries(rule, g, rows_part(m, first, count),
                         v.array ? rows_part(v, first, count) : v,
                         rows_part(entries, first, count));
    }
done:
    change_free(change);
    return code;
}
