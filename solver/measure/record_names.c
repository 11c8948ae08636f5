/* Whether every array of a group of the output has a name of its own. */
#include "kernels/base/text.h"
#include "solver/measure/record.h"

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

static const char an_axis[] = "an axis";

struct taken {
    struct entry *entry;
    int count;
};

static void taken_free(struct taken *names) {
    free(names->entry);
}

__attribute__((format(printf, 5, 6))) static int add_name(struct taken *names, const char *what,
                                                          const char *of, struct err *err,
                                                          const char *format, ...) {
    struct entry *entry;
    TRY(base_grow(&entry, &names->entry, &names->count, sizeof *entry, err));
    *entry = (struct entry){.what = what, .of = of};
    PRINT_ARGUMENTS(entry->name, sizeof entry->name, format);
    return CODE_OK;
}

/* What solver/files/io.c writes for one series. */
static int add_series(struct taken *names, const struct series *series, struct err *err) {
    static const char *const derived[] = {"_se", "_tolerance", "_runs", "_pseudo"};
    int endings = !record_averages(series) ? 0 : series->keep_runs ? 4 : 2;
    if (series->inner)
        return CODE_OK;
    TRY(add_name(names, "a result", NULL, err, "%s", series->name));
    for (int k = 0; k < endings; k++)
        TRY(add_name(names, "what is written beside result", series->name, err, "%s%s",
                     series->name, derived[k]));
    return CODE_OK;
}

/* The scales of the axes of all series. */
static int add_axes(struct taken *names, const struct record *record, struct err *err) {
    for (int k = 0; k < record->count; k++) {
        const char *dims = record->series[k].dims;
        struct text_word word;
        while (!record->series[k].inner && text_next_word(&dims, " ", &word))
            TRY(add_name(names, an_axis, NULL, err, "%.*s", (int)word.length, word.text));
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
    int left_out = 0;
    TRY(add_name(&names, own, NULL, err, "n")); /* runs that reached each time */
    TRY(add_name(&names, own, NULL, err, "%s_name", record->named));
    TRY(add_name(&names, own, NULL, err, "sweeps")); /* the group of a fixed point */
    TRY(add_name(&names, an_axis, NULL, err, "run"));
    for (int k = 0; k < record->count; k++)
        TRY(add_series(&names, &record->series[k], err));
    for (int k = 0; k < record->count && !tolerance; k++)
        left_out += record_averages(&record->series[k]) && !record->series[k].inner;
    if (names.count - left_out > MOST_ARRAYS)
        return err_set(err, CODE_INPUT,
                       "the output would have %d arrays in one group, and HDF5 takes at most %d: "
                       "show fewer results, or several numbers under one name",
                       names.count - left_out, MOST_ARRAYS);
    TRY(add_axes(&names, record, err));
    qsort(names.entry, (size_t)names.count, sizeof *names.entry, in_order);
    for (int k = 1; k < names.count; k++)
        if (!strcmp(names.entry[k - 1].name, names.entry[k].name) &&
            (names.entry[k - 1].what != an_axis || names.entry[k].what != an_axis))
            return refuse_pair(&names.entry[k - 1], &names.entry[k], err);
    return CODE_OK;
}
