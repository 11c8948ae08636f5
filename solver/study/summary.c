/* What a sweep found. */
#include "solver/study/summary.h"
#include "solver/study/optima.h"
#include "solver/study/sweep_notes.h"
#include "solver/study/summary_table.h"
#include "solver/files/provenance.h"
#include "kernels/base/text.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---- */

_Static_assert(GRID_LINES < SERIES_AXES, "a series has an axis for each line, and N");

/* The scale of an axis; of several keys it is the text of the points, and the values of each key
 * stand beside it. */
static int write_axis(struct io *io, const char *group, const struct grid_axis *axis,
                      struct err *err) {
    char **point;
    int code = CODE_OK;
    TRY(base_alloc(&point, (size_t)axis->count, sizeof *point, err));
    for (int i = 0; i < axis->count && axis->keys > 1; i++)
        DO(grid_point(&point[i], axis, i, err));
    if (axis->keys > 1)
        DO(io_scale(io, group, axis->name, axis->name, NULL, (const char *const *)point,
                    axis->count, err));
    for (int k = 0; k < axis->keys; k++) {
        const struct grid_key *key = &axis->key[k];
        DO(io_scale(io, group, key->name, axis->name, key->value,
                    key->value ? NULL : (const char *const *)key->text, axis->count, err));
    }
done:
    for (int i = 0; i < axis->count; i++)
        free(point[i]);
    free(point);
    return code;
}

int summary_scales(struct io *io, const char *group, const struct sweep *sweep, int without,
                   struct err *err) {
    double N[INT_LIST_MAX + 1];
    const struct grid *grid = &sweep->grid;
    size_t size = 1;
    char *names;
    int code = CODE_OK;
    for (int a = 0; a < grid->axes; a++)
        size += strlen(grid->axis[a].name) + 1;
    TRY(base_alloc(&names, size, 1, err));
    for (int k = 0, a; k < grid->keys; k++) {
        const struct grid_key *key = grid_key(grid, k, &a);
        if (grid->axis[a].keys > 1)
            strcat(strcat(names, *names ? " " : ""), key->name);
    }
    for (int a = 0; a < grid->axes; a++)
        if (a != without)
            DO(write_axis(io, group, &grid->axis[a], err));
    for (int c = 0; c < sweep->columns; c++)
        N[c] = c < sweep->widths.count ? sweep_width(sweep, c) : (double)INFINITY;
    DO(io_scale(io, group, "N", "N", N, NULL, sweep->columns, err));
    if (*names)
        DO(io_text(io, group, "coordinates", names, err));
done:
    free(names);
    return code;
}

int summary_axes(struct series *series, char **dims, const struct sweep *sweep, int without,
                 struct err *err) {
    const struct grid *grid = &sweep->grid;
    size_t size = sizeof "N";
    for (int a = 0; a < grid->axes; a++)
        size += strlen(grid->axis[a].name) + 1;
    TRY(base_alloc(dims, size, 1, err));
    *series = (struct series){.dims = *dims, .size = (size_t)sweep->columns};
    for (int a = 0; a < grid->axes; a++) {
        if (a == without)
            continue;
        strcat(strcat(*dims, grid->axis[a].name), " ");
        series->shape[series->axes++] = (size_t)grid->axis[a].count;
        series->size *= (size_t)grid->axis[a].count;
    }
    strcat(*dims, "N");
    series->shape[series->axes++] = (size_t)sweep->columns;
    return CODE_OK;
}

int summary_series(struct io *io, const char *group, struct series series, const char *name,
                   const char *about, double *values, struct err *err) {
    snprintf(series.name, sizeof series.name, "%s", name);
    series.about = about;
    series.values = values;
    return io_series(io, group, &series, err);
}

/* The files of the units, in OUT.d, in the order of the arrays. */
static int write_names(struct io *io, const struct sweep *sweep, struct err *err) {
    char **name;
    int code;
    TRY(base_alloc(&name, (size_t)sweep->count, sizeof *name, err));
    for (int u = 0; u < sweep->count; u++)
        DO(sweep_path(&name[u], sweep, u, ".h5", err));
    for (int u = 0; u < sweep->count; u++)
        memmove(name[u], strrchr(name[u], '/') + 1, strlen(strrchr(name[u], '/')));
    DO(io_scale(io, "sweep", "file", "file", NULL, (const char *const *)name, sweep->count, err));
done:
    for (int u = 0; u < sweep->count; u++)
        free(name[u]);
    free(name);
    return code;
}

/* The numbers of a unit, in the order of `written`. */
enum { WRITTEN = 15 };
static const struct {
    const char *name, *about;
} written[WRITTEN] = {
    {"objective", "what points are compared by (attribute objective of the group), mean over runs"},
    {"objective_se", "standard error of objective, of the runs and of the tolerance"},
    {"objective_median", "median over runs of the objective"},
    {"objective_median_se", "standard error of the median"},
    {"loss", "mean final loss of the runs that ended (with batches, of the last batch)"},
    {"loss_se", "standard error of loss, of the runs and of the tolerance"},
    {"loss_median", "median of the final losses of the runs"},
    {"loss_median_se", "standard error of the median"},
    {"loss_min", "smallest mean loss of all times"},
    {"n", "runs that came to their end, over which the means are; 0: there is none"},
    {"failed",
     "runs that ended in a numerical failure; where it is above 0, means are of the others"},
    {"rests", "1: the limit rests: training moves finite networks, and not the limit"},
    {"test_loss", "mean over runs of the last test loss"},
    {"test_loss_se", "standard error of the mean of test_loss"},
    {"test_loss_median", "median over runs of the last test loss"},
};

static int write_cells(struct io *io, const struct cells *cells, struct err *err) {
    const struct sweep *sweep = cells->sweep;
    struct series series;
    double *all = NULL;
    char *dims;
    int code;
    TRY(summary_axes(&series, &dims, sweep, -1, err));
    size_t count = cells->has_tests ? WRITTEN : WRITTEN - 3;
    DO(base_alloc(&all, WRITTEN * series.size, sizeof *all, err));
    for (size_t u = 0; u < series.size; u++) {
        const struct cell *cell = &cells->cell[u];
        const struct measured *objective = &cell->objective, *loss = &cell->loss,
                              *test = &cell->test_loss;
        const double values[WRITTEN] = {
            objective->mean, objective->error, objective->median, objective->median_error,
            loss->mean,      loss->error,      loss->median,      loss->median_error,
            cell->least,     cell->ended,      cell->failed,      cells_rest(cells, (int)u),
            test->mean,      test->error,      test->median};
        for (size_t k = 0; k < count; k++)
            all[k * series.size + u] = values[k];
    }
    DO(summary_scales(io, "sweep", sweep, -1, err));
    DO(write_names(io, sweep, err));
    DO(io_text(io, "sweep", "objective", cells->objective.text, err));
    DO(io_text(io, "sweep", "objective_about", cells->objective.about, err));
    for (size_t k = 0; k < count; k++)
        DO(summary_series(io, "sweep", series, written[k].name, written[k].about,
                          all + k * series.size, err));
    DO(marks_write(io, &cells->marks, series, err));
done:
    free(all);
    free(dims);
    return code;
}

static int write_file(struct io *io, const struct cells *cells, struct err *err) {
    const struct sweep *sweep = cells->sweep;
    TRY(io_text(io, "", "program", "dmft-sweep", err));
    char *ini;
    TRY(sweep_ini_text(&ini, sweep, err));
    int code = io_text(io, "parameters", "ini", ini, err);
    free(ini);
    TRY(code);
    TRY(provenance_write(io, backend_list[sweep->base.config.solver.backend]->name,
                         omp_get_max_threads(), err)); /* of all jobs together */
    return write_cells(io, cells, err);
}

int summary_check(const struct sweep *sweep, const struct summary_choice *choice, struct err *err) {
    struct objective objective;
    int axis;
    const char *text = choice->objective ? choice->objective : sweep->grid.objective;
    if (text)
        TRY(objective_read(&objective, text, err));
    TRY(marks_check_columns(sweep->grid.columns, err));
    return optima_axis(sweep, choice->along, &axis, err);
}

int summary_write(struct sweep *sweep, const struct summary_choice *choice, const char *output,
                  struct err *err) {
    struct cells cells = {0};
    struct io file = {0}, *io = output ? &file : NULL;
    int axis, code;
    bool tell = sweep->log.verbose;
    DO(optima_axis(sweep, choice->along, &axis, err));
    DO(cells_read(&cells, sweep, choice->objective, err));
    if (io)
        DO(io_create(io, output, true, err));
    if (io)
        DO(write_file(io, &cells, err));
    if (tell)
        summary_losses_print(&cells);
    if (axis >= 0)
        DO(optima_write(io, &cells, axis, tell, err));
    DO(sweep_notes_add(&sweep->notes, &cells, err));
    if (tell)
        notes_print(&sweep->notes);
    if (io)
        DO(notes_write_list(io, &sweep->notes, err));
    if (io)
        DO(io_finish(io, true, err));
done:
    io_close(&file);
    cells_free(&cells);
    return code;
}

int summary_grid(const struct sweep *sweep, const char *path, struct err *err) {
    struct series series;
    struct io io = {0};
    char *dims;
    int code;
    TRY(summary_axes(&series, &dims, sweep, -1, err));
    DO(io_create(&io, path, true, err));
    DO(io_text(&io, "", "program", "dmft-sweep", err));
    DO(summary_scales(&io, "sweep", sweep, -1, err));
    DO(write_names(&io, sweep, err));
    DO(io_text(&io, "sweep", "dims", dims, err));
    DO(io_finish(&io, true, err));
done:
    io_close(&io);
    free(dims);
    return code;
}
