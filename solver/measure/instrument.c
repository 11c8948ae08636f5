/* What all instruments share: how a series gets its name and those of its axes. */
#include "solver/measure/instrument.h"

/* The name of an axis of this length, as it is to be called. */
static void rename_axis(const struct net *net, struct text_word axis, size_t length, char *note) {
    size_t P = (size_t)net->setup.data.P, n = (size_t)net->setup.data.n;
    bool token = text_is(axis, "token"),
         rows = text_is(axis, "row") || text_is(axis, "column") || text_is(axis, "k_row");
    if (token && length != n)
        text_append(note, "place%zu", length);
    else if (rows && length != P * n)
        text_append(note, "%.*s%zu", (int)axis.length, axis.text, length / P);
    else
        text_append(note, "%.*s", (int)axis.length, axis.text);
}

int series_add(const struct declaring *d, int slot, struct series series, struct err *err,
               const char *name, ...) {
    const char *cursor = series.dims;
    char dims[TEXT_NOTE] = "";
    struct text_word axis;
    PRINT_ARGUMENTS(series.name, sizeof series.name, name);
    series.slot = slot;
    for (int k = 0; text_next_word(&cursor, " ", &axis); k++) {
        text_append(dims, "%s", k ? " " : "");
        rename_axis(d->net, axis, series.shape[k], dims);
    }
    series.dims = text_keep(dims);
    return series.dims && series.about
               ? record_add(d->record, series, err)
               : err_set(err, CODE_SYSTEM, "out of memory: what series are called");
}

bool instrument_word(const char *words, int number, char word[SERIES_NAME]) {
    struct text_word next;
    bool more = words;
    for (int k = 0; k <= number && more; k++)
        more = text_next_word(&words, " \t", &next);
    if (more)
        snprintf(word, SERIES_NAME, "%.*s", (int)next.length, next.text);
    return more;
}
