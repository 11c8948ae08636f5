/* Notes of a sweep (sweep_notes.h). */
#include "solver/study/sweep_notes.h"
#include "kernels/base/text.h"
#include "solver/files/result.h"
#include "solver/study/sweep_unit.h"

#include <stdlib.h>
#include <string.h>

/* A list of names ends after so many units. */
enum { NAMED = 4 };

/* A note and the units that have it. */
struct gathered {
    struct note note;
    int count, unit[NAMED];
};
struct gathering {
    int count;
    struct gathered *list;
    bool rests; /* some limit rests beside networks that train: the sweep has a note for them all */
};

/* Counts a unit for the note of a code; the first one gives it text and kind. */
static int gather(struct gathering *all, int unit, const char *code, const char *text, bool warning,
                  struct err *err) {
    int k = 0;
    while (k < all->count && strcmp(all->list[k].note.code, code))
        k++;
    if (k == all->count) {
        struct gathered *grown = realloc(all->list, ((size_t)k + 1) * sizeof *grown);
        if (!grown)
            return err_set(err, CODE_SYSTEM, "out of memory: the notes of a sweep");
        all->list = grown;
        grown[k] = (struct gathered){.note = {.warning = warning}};
        snprintf(grown[k].note.code, sizeof grown[k].note.code, "%s", code);
        notes_text(&grown[k].note, "%.1000s", text);
        all->count++;
    }
    struct gathered *one = &all->list[k];
    if (one->count < NAMED)
        one->unit[one->count] = unit;
    one->count++;
    return CODE_OK;
}

/* The columns of /notes in the file of a unit; a file without has no notes. */
static int gather_file(struct gathering *all, const char *path, int unit, struct err *err) {
    static const char *const set[] = {"notes/code", "notes/kind", "notes/text"};
    enum { COLUMNS = sizeof set / sizeof *set };
    char **column[COLUMNS] = {NULL};
    int count[COLUMNS] = {0}, code = CODE_OK;
    for (int c = 0; c < COLUMNS && code == CODE_OK; c++)
        code = result_texts(path, set[c], &column[c], &count[c], err);
    bool whole = count[0] == count[1] && count[1] == count[2];
    for (int k = 0; whole && k < count[0] && code == CODE_OK; k++)
        if (!all->rests || strcmp(column[0][k], "rests") != 0)
            code = gather(all, unit, column[0][k], column[2][k], !strcmp(column[1][k], "warning"),
                          err);
    for (int c = 0; c < COLUMNS; c++) {
        for (int k = 0; k < count[c]; k++)
            free(column[c][k]);
        free(column[c]);
    }
    return code == CODE_INPUT ? CODE_OK : code;
}

static int gather_unit(struct gathering *all, const struct cells *cells, int unit,
                       struct err *err) {
    const struct sweep *sweep = cells->sweep;
    const char *means;
    char *path;
    if (sweep->unit[unit].status == SWEEP_PENDING)
        return CODE_OK;
    TRY(sweep_result(&path, sweep, unit, err));
    int code = path ? gather_file(all, path, unit, err) : CODE_OK;
    free(path);
    TRY(code);
    if (marks_edge(&cells->marks, unit, &means))
        TRY(gather(all, unit, "edge_of_stability", means, true, err));
    return CODE_OK;
}

static int add(struct notes *notes, const struct sweep *sweep, const struct gathered *one,
               struct err *err) {
    struct note *note = notes_add(notes, one->note.code, "sweep", -1, one->note.warning, err);
    if (!note)
        return err->code;
    notes_text(note, "%s (at ", one->note.text);
    for (int k = 0; k < one->count && k < NAMED; k++) {
        char name[TEXT_NOTE] = "";
        sweep_unit_describe(sweep, one->unit[k], name);
        notes_text(note, "%s%.120s", k ? "; " : "", name);
    }
    if (one->count > NAMED)
        notes_text(note, "; and %d more", one->count - NAMED);
    notes_text(note, ")");
    note->told = true;
    return CODE_OK;
}

static int add_rests(struct notes *notes, struct err *err) {
    struct note *note = notes_add(notes, "rests", "sweep", -1, false, err);
    if (!note)
        return err->code;
    notes_text(note,
               "a limit rests where it does not train at all, although networks do, and wider "
               "networks later: it has\n  no optimum; dmft-solve on one point gives the times "
               "at which networks learn, and their slope in ln N");
    return CODE_OK;
}

int sweep_notes_add(struct notes *notes, const struct cells *cells, struct err *err) {
    struct gathering all = {0};
    int code = CODE_OK;
    for (int u = 0; u < cells->sweep->count; u++)
        all.rests = all.rests || cells_rest(cells, u);
    for (int u = 0; u < cells->sweep->count; u++)
        DO(gather_unit(&all, cells, u, err));
    for (int k = 0; k < all.count; k++)
        DO(add(notes, cells->sweep, &all.list[k], err));
    if (all.rests)
        DO(add_rests(notes, err));
done:
    free(all.list);
    return code;
}
