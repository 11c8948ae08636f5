/* Names of axes of places. */
#include "solver/measure/places.h"
#include "kernels/base/text.h"

#include <stdlib.h>

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

int places_add(struct record *record, const struct net *net, struct series series,
               struct err *err) {
    const char *cursor = series.dims;
    char dims[TEXT_NOTE] = "";
    struct text_word axis;
    for (int k = 0; text_next_word(&cursor, " ", &axis); k++) {
        text_append(dims, "%s", k ? " " : "");
        rename_axis(net, axis, series.shape[k], dims);
    }
    series.dims = text_keep(dims);
    if (series.dims)
        return record_add(record, series, err);
    free(series.own);
    return err_set(err, CODE_SYSTEM, "out of memory: names of axes");
}
