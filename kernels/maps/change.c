/* Changes of explicit entries, and what optimizers make of them. */
#include "kernels/maps/change.h"

#include <math.h>
#include <stdlib.h>

/* Rows of the gradient that are there at once. */
#define CHUNK 64

void change_apply(struct change *change) {
    struct rows y = change->entries;
    y.array->backend->combine(y, 1, change->C, change->a);
    free(change->C);
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
    v.array->backend->combine(v, mu, change->C, change->a);
    for (int k = 0; k < v.count; k++)
        rows_add(&rate, rows_part(v, k, 1), rows_part(change->entries, k, 1));
done:
    free(change->C);
    return code;
}

int change_entries(struct change *change, struct entry_rule rule, struct array memory[2],
                   int memories, struct err *err) {
    struct rows entries = change->entries, a = change->a, m, v = {0};
    const struct backend *backend = entries.array->backend;
    struct array gradient = {0};
    int code = CODE_OK;
    rule.rate *= fabs(change->s); /* a negative s is in the gradient already */
    rule.eps *= fabs(change->s);
    DO(change_remember(&memory[0], entries, &m, err));
    if (memories == 2)
        DO(change_remember(&memory[1], entries, &v, err));
    DO(array_init(&gradient, backend, entries.array->sites, entries.array->group,
                  entries.count < CHUNK ? entries.count : CHUNK, err));
    for (int first = 0; first < entries.count; first += CHUNK) {
        int count = entries.count - first < CHUNK ? entries.count - first : CHUNK;
        struct rows g = array_rows(&gradient, 0, count);
        backend->combine(g, 0, change->C + (size_t)first * (size_t)a.count, a);
        backend->entries(rule, g, rows_part(m, first, count),
                         v.array ? rows_part(v, first, count) : v,
                         rows_part(entries, first, count));
    }
done:
    array_free(&gradient);
    free(change->C);
    return code;
}
