/* The table of another backend, with recorded averages. */
#include "kernels/maps/freeze.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct freeze *freeze_of(struct rows rows) {
    return (struct freeze *)(uintptr_t)rows.array->backend; /* the table is its first member */
}

static bool make_room(struct freeze *freeze, size_t count) {
    size_t capacity = freeze->capacity ? freeze->capacity : 4096;
    while (capacity < freeze->count + count)
        capacity *= 2;
    if (capacity == freeze->capacity)
        return true;
    double *log = realloc(freeze->log, capacity * sizeof *log);
    if (!log)
        return false;
    freeze->log = log;
    freeze->capacity = capacity;
    return true;
}

/* True if out was filled from the log. */
static bool replayed(struct freeze *freeze, double *out, size_t count) {
    if (freeze->mode != FREEZE_REPLAY)
        return false;
    assert(freeze->at + count <= freeze->count);
    memcpy(out, freeze->log + freeze->at, count * sizeof *out);
    freeze->at += count;
    return true;
}

static void record(struct freeze *freeze, const double *out, size_t count) {
    if (freeze->mode != FREEZE_RECORD || freeze->failed)
        return;
    if (!make_room(freeze, count)) {
        freeze->failed = true;
        return;
    }
    memcpy(freeze->log + freeze->count, out, count * sizeof *out);
    freeze->count += count;
}

static void frozen_averages(struct rows a, struct rows b, double *out) {
    struct freeze *freeze = freeze_of(a);
    if (replayed(freeze, out, (size_t)a.count))
        return;
    freeze->inner->averages(a, b, out);
    record(freeze, out, (size_t)a.count);
}

static void frozen_dots(struct rows a, struct rows b, double *C) {
    struct freeze *freeze = freeze_of(a);
    size_t count = (size_t)a.count * (size_t)b.count;
    if (replayed(freeze, C, count))
        return;
    freeze->inner->dots(a, b, C);
    record(freeze, C, count);
}

void freeze_init(struct freeze *freeze, const struct backend *inner) {
    *freeze = (struct freeze){.table = *inner, .inner = inner};
    freeze->table.averages = frozen_averages;
    freeze->table.dots = frozen_dots;
}

void freeze_free(struct freeze *freeze) {
    free(freeze->log);
    *freeze = (struct freeze){0};
}

int freeze_start(struct freeze *freeze, enum freeze_mode mode, struct err *err) {
    if (freeze->failed)
        return err_set(err, CODE_SYSTEM, "out of memory: the averages of a sweep");
    freeze->mode = mode;
    freeze->at = 0;
    if (mode == FREEZE_RECORD)
        freeze->count = 0;
    return CODE_OK;
}
