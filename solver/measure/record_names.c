/* Whether every array of a group of the output has a name of its own. */
#include "kernels/base/text.h"
#include "solver/measure/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = SERIES_NAME + 16,
    MOST_ARRAYS = 4000 /* of a group: HDF5 lets some 4080 arrays share one axis, which time is */
};

/* An array that a group has, and whose it is. */
struct entry {
    char name[MOST];
    const char *what;
    const char *of; /* the name of a series, or NULL */
};

struct taken {
    struct entry *entry;
    int count;
};

static void taken_free(struct taken *names) {
    free(names->entry);
}

static int add_name(struct taken *names, const char *what, const char *of, const char *name,
                    size_t length, const char *ending, struct err *err) {
    struct entry *entry = base_grow(&names->entry, &names->count, sizeof *entry, err);
    if (!entry)
        return err->code;
    *entry = (struct entry){.what = what, .of = of};
    snprintf(entry->name, sizeof entry->name, "%.*s%s", (int)length, name, ending);
    return CODE_OK;
}

/* What solver/files/io.c writes for one series. */
static int add_series(struct taken *names, const struct series *series, struct err *err) {
    static const char *const derived[] = {"_se", "_tolerance", "_runs", "_pseudo"};
    size_t length = strlen(series->name), endings = !record_averages(series) ? 0
                                                    : series->keep_runs      ? 4
                                                                             : 2;
    if (series->inner)
        return CODE_OK;
    TRY(add_name(names, "a result", NULL, series->name, length, "", err));
    for (size_t k = 0; k < endings; k++)
        TRY(add_name(names, "what is written beside result", series->name, series->name, length,
                     derived[k], err));
    return CODE_OK;
}

static bool is_known(const struct taken *names, struct text_word word) {
    for (int k = 0; k < names->count; k++)
        if (text_is(word, names->entry[k].name))
            return true;
    return false;
}

/* The scales of all axes, each once. */
static int add_axes(struct taken *all, const struct record *record, struct err *err) {
    FREED(taken_free) struct taken axes = {0};
    for (int k = 0; k < record->count; k++) {
        const char *dims = record->series[k].dims;
        struct text_word word;
        while (!record->series[k].inner && text_next_word(&dims, " ", &word)) {
            if (is_known(&axes, word))
                continue;
            TRY(add_name(&axes, "", NULL, word.text, word.length, "", err));
            TRY(add_name(all, "an axis", NULL, word.text, word.length, "", err));
        }
    }
    return CODE_OK;
}

static int in_order(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int refuse_pair(const struct entry *a, const struct entry *b, struct err *err) {
    return err_set(err, CODE_INPUT,
                   "the output would have two arrays %s: %s%s%s and %s%s%s; call the result of the "
                   "network by another name",
                   a->name, a->what, a->of ? " " : "", a->of ? a->of : "", b->what,
                   b->of ? " " : "", b->of ? b->of : "");
}

int record_check_names(const struct record *record, bool tolerance, struct err *err) {
    static const char own[] = "what every group has";
    FREED(taken_free) struct taken names = {0};
    char labels[MOST];
    int left_out = 0;
    snprintf(labels, sizeof labels, "%s_name", record->named);
    TRY(add_name(&names, own, NULL, "n", 1, "", err)); /* runs that reached each time */
    TRY(add_name(&names, own, NULL, labels, strlen(labels), "", err));
    TRY(add_name(&names, own, NULL, "sweeps", strlen("sweeps"), "",
                 err)); /* the group of a fixed point */
    TRY(add_name(&names, "an axis", NULL, "run", strlen("run"), "", err));
    for (int k = 0; k < record->count; k++)
        TRY(add_series(&names, &record->series[k], err));
    for (int k = 0; k < record->count && !tolerance; k++)
        left_out += record_averages(&record->series[k]) && !record->series[k].inner;
    if (names.count - left_out > MOST_ARRAYS)
        return err_set(
            err, CODE_INPUT,
            "the output would have %d arrays in one group, and HDF5 takes at most %d: show "
            "fewer results, or several numbers under one name",
            names.count - left_out, MOST_ARRAYS);
    TRY(add_axes(&names, record, err));
    qsort(names.entry, (size_t)names.count, sizeof *names.entry, in_order);
    for (int k = 1; k < names.count; k++)
        if (!strcmp(names.entry[k - 1].name, names.entry[k].name))
            return refuse_pair(&names.entry[k - 1], &names.entry[k], err);
    return CODE_OK;
}
