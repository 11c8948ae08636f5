#include "kernels/maps/tape.h"

static struct tape *tape_of(struct rows rows) {
    return (struct tape *)(uintptr_t)rows.array->backend; /* the table is its first member */
}

/* True if out was filled from the log. */
static bool was_replayed(struct tape *tape, double *out, size_t count) {
    if (tape->mode != TAPE_REPLAY)
        return false;
    assert(tape->at + count <= tape->count);
    memcpy(out, tape->log + tape->at, count * sizeof *out);
    tape->at += count;
    return true;
}

static void record_numbers(struct tape *tape, const double *out, size_t count) {
    size_t needed = tape->count + count;
    if (tape->mode != TAPE_RECORD || tape->failed)
        return;
    if (needed > tape->capacity) {
        double *log = realloc(tape->log, 2 * needed * sizeof *log);
        tape->failed = !log;
        if (tape->failed)
            return;
        tape->log = log;
        tape->capacity = 2 * needed;
    }
    memcpy(tape->log + tape->count, out, count * sizeof *out);
    tape->count = needed;
}

static void frozen_averages(struct rows a, struct rows b, double *out) {
    struct tape *tape = tape_of(a);
    if (was_replayed(tape, out, (size_t)a.count))
        return;
    tape->inner->averages(a, b, out);
    record_numbers(tape, out, (size_t)a.count);
}

static void frozen_dots(struct rows a, struct rows b, double *C) {
    struct tape *tape = tape_of(a);
    size_t count = (size_t)a.count * (size_t)b.count;
    if (was_replayed(tape, C, count))
        return;
    tape->inner->dots(a, b, C);
    record_numbers(tape, C, count);
}

void tape_init(struct tape *tape, const struct backend *inner) {
    *tape = (struct tape){.table = *inner, .inner = inner};
    tape->table.averages = frozen_averages;
    tape->table.dots = frozen_dots;
    if (inner->distant) { /* what is recorded must be there */
        tape->distant = *inner->distant;
        tape->distant.hold = tape->distant.later = NULL;
        tape->table.distant = &tape->distant;
    }
}

void tape_free(struct tape *tape) {
    free(tape->log);
    *tape = (struct tape){0};
}

int tape_start(struct tape *tape, enum tape_mode mode, struct err *err) {
    if (tape->failed)
        return err_set(err, CODE_SYSTEM, "out of memory: the averages of a sweep");
    tape->mode = mode;
    tape->at = 0;
    if (mode == TAPE_RECORD)
        tape->count = 0;
    return CODE_OK;
}
