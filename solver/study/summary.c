/* What a sweep found. */
#include "solver/study/summary.h"
#include "solver/study/summary_table.h"
#include "solver/run/ensemble.h"
#include "solver/files/provenance.h"
#include "solver/files/result.h"
#include "solver/measure/stats.h"
#include "kernels/base/text.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- collecting ---- */

static double mean_of(const double *loss, int runs) {
    double sum = 0;
    for (int r = 0; r < runs; r++)
        sum += loss[r];
    return sum / runs;
}

/* Median and its error; the order of the runs stays. */
static int find_medians(struct cell *cell, struct err *err) {
    double *copy;
    TRY(base_alloc(&copy, (size_t)cell->runs, sizeof *copy, err));
    memcpy(copy, cell->last, (size_t)cell->runs * sizeof *copy);
    stats_median(copy, cell->runs, &cell->median, &cell->median_se);
    free(copy);
    return CODE_OK;
}

static int read_cell(const struct sweep *sweep, int unit, struct cell *cell, struct err *err) {
    char group[ENSEMBLE_GROUP], *path;
    double *loss = NULL, squares = 0, tolerance;
    int N = sweep_width(sweep, unit % sweep->columns), T = 0, code;
    *cell =
        (struct cell){.loss = NAN, .se = NAN, .median = NAN, .median_se = NAN, .least = INFINITY};
    if (sweep->unit[unit].status != SWEEP_DONE) {
        cell->least = NAN;
        return CODE_OK;
    }
    ensemble_group(group, N);
    TRY(sweep_path(&path, sweep, unit, ".h5", err));
    DO(result_losses(path, group, &loss, &cell->runs, &T, err));
    DO(base_alloc(&cell->last, (size_t)cell->runs, sizeof *cell->last, err));
    cell->still = T > 1;
    for (int t = 0; t < T; t++) {
        for (int r = 0; r < cell->runs; r++) {
            cell->last[r] = loss[r * T + t];
            double first = loss[r * T], moved = fabs(cell->last[r] - first);
            cell->still = cell->still && moved <= 1e-12 * fabs(first); /* round-off */
        }
        cell->loss = mean_of(cell->last, cell->runs);
        cell->least = fmin(cell->least, cell->loss);
    }
    for (int r = 0; r < cell->runs; r++)
        squares += pow(cell->last[r] - cell->loss, 2);
    if (cell->runs > 1)
        cell->se = sqrt(squares / cell->runs / (cell->runs - 1));
    DO(find_medians(cell, err));
    DO(result_tolerance(path, group, &tolerance, err));
    cell->se = hypot(cell->se, tolerance);
    cell->median_se = hypot(cell->median_se, tolerance);
done:
    free(loss);
    free(path);
    return code;
}

/* Whether a key has an order: numbers have, words and seeds have not, whatever they look like. */
static bool has_order(const struct sweep *sweep, const struct grid_key *key) {
    const struct params *params = &sweep->base.params;
    for (size_t s = 0; s < params->count; s++) {
        const struct param_section *section = &params->sections[s];
        size_t length = strlen(section->name);
        if (strncmp(key->name, section->name, length) || key->name[length] != '.')
            continue;
        for (size_t r = 0; r < section->count; r++)
            if (!strcmp(section->rows[r].key, key->name + length + 1))
                return section->rows[r].type == PARAM_INT || section->rows[r].type == PARAM_REAL;
        return !section->rows; /* factors of matrices */
    }
    return false;
}

/* Lists of points have no order along which to seek. */
static int find_axis(const struct sweep *sweep) {
    for (int a = 0; a < sweep->grid.axes; a++) {
        const struct grid_axis *axis = &sweep->grid.axis[a];
        if (axis->keys == 1 && axis->key->value && axis->count >= 3 && has_order(sweep, axis->key))
            return a;
    }
    return -1;
}

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

/* Scales of the group: every axis but `without`, and N (infinite: the limit). The group's attribute
 * `coordinates` names the keys of lists of points, as netCDF's conventions have it. */
static int write_scales(struct io *io, const char *group, const struct sweep *sweep, int without,
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

/* A series over every axis but `without`, and N; *dims, to be freed, holds their names. */
static int series_over(struct series *series, char **dims, const struct sweep *sweep, int without,
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

static int write_one(struct io *io, const char *group, struct series series, const char *name,
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

static int write_cells(struct io *io, const struct summary *summary, struct err *err) {
    const struct sweep *sweep = summary->sweep;
    struct series series;
    double *all = NULL;
    char *dims;
    int code;
    TRY(series_over(&series, &dims, sweep, -1, err));
    const char *const name[] = {"loss",     "loss_se", "loss_median", "loss_median_se",
                                "loss_min", "n",       "failed",      "rests"};
    const char *const about[] = {"mean final loss; NaN where the run failed",
                                 "standard error of loss, of the runs and of the tolerance",
                                 "median of the final losses of the runs",
                                 "standard error of the median, as loss_se",
                                 "smallest mean loss of all times",
                                 "runs",
                                 "1: the run ended in a numerical failure",
                                 "1: the limit rests, training moves networks alone"};
    enum { SERIES = sizeof name / sizeof *name };
    DO(base_alloc(&all, SERIES * series.size, sizeof *all, err));
    for (size_t u = 0; u < series.size; u++) {
        const struct cell *cell = &summary->cell[u];
        const double values[] = {
            cell->loss,  cell->se,   cell->median, cell->median_se,
            cell->least, cell->runs, !cell->last,  summary_rests(summary, (int)u)};
        for (size_t k = 0; k < SERIES; k++)
            all[k * series.size + u] = values[k];
    }
    DO(write_scales(io, "sweep", sweep, -1, err));
    DO(write_names(io, sweep, err));
    for (size_t k = 0; k < SERIES; k++)
        DO(write_one(io, "sweep", series, name[k], about[k], all + k * series.size, err));
    DO(marks_write(io, &summary->marks, series, err));
done:
    free(all);
    free(dims);
    return code;
}

/* ---- the optimum ---- */

/* Whether the limit rests at all values of the key. */
static bool rests_along(const struct summary *summary, int unit) {
    int stride = summary_stride(summary, summary->axis);
    bool all = true;
    for (int i = 0; i < summary->sweep->grid.axis[summary->axis].count; i++)
        all = all && summary_rests(summary, unit + i * stride);
    return all;
}

/* In the units of the key, from those of the axis x of the parabola. */
static int find_optimum(const struct summary *summary, int unit, enum optimum_kind kind,
                        struct optimum *optimum, struct err *err) {
    const struct sweep *sweep = summary->sweep;
    const struct grid_axis *axis = &sweep->grid.axis[summary->axis];
    int stride = summary_stride(summary, summary->axis), runs = 0, code;
    const double *value = axis->key->value;
    bool logarithmic = value[0] > 0;
    double *x;
    const double **loss = NULL;
    *optimum = (struct optimum){NAN, NAN, NAN, NAN, -1, EDGE_RESTS};
    if (rests_along(summary, unit))
        return CODE_OK;
    TRY(base_alloc(&x, (size_t)axis->count, sizeof *x, err));
    DO(base_alloc(&loss, (size_t)axis->count, sizeof *loss, err));
    for (int i = 0; i < axis->count; i++) {
        const struct cell *cell = &summary->cell[unit + i * stride];
        x[i] = logarithmic ? log(value[i]) : value[i];
        loss[i] = cell->last;
        runs = cell->last && (!runs || cell->runs < runs) ? cell->runs : runs;
    }
    optimum->edge = optimum_find(kind, axis->count, x, loss, runs, &optimum->at, &optimum->at_se,
                                 &optimum->best);
    if (optimum->best < 0)
        goto done;
    if (optimum->edge != EDGE_NONE) {
        optimum->at = value[optimum->best];
    } else if (logarithmic) {
        optimum->at = exp(optimum->at);
        optimum->at_se *= optimum->at;
    }
    const struct cell *cell = &summary->cell[unit + optimum->best * stride];
    bool means = kind == OPTIMUM_MEANS;
    optimum->loss = means ? cell->loss : cell->median;
    optimum->loss_se = means ? cell->se : cell->median_se;
done:
    free(x);
    free(loss);
    return code;
}

/* --quiet */
static bool is_told(const struct summary *summary) {
    return summary->sweep->log.verbose;
}

static int write_optima(struct io *io, const struct summary *summary, struct err *err) {
    static const char *const name[] = {"at",        "at_se",      "loss",         "loss_se",
                                       "edge",      "median_at",  "median_at_se", "median",
                                       "median_se", "median_edge"};
    const char *about[] = {
        "where the mean final loss is smallest, by a parabola",
        "jackknife standard error of at over the runs",
        "smallest mean final loss of the grid",
        "its standard error",
        "0: inside; at is a value of the grid for 1: its lowest, 2: its "
        "highest, 3: beside a failed run, 5: where a loss is not above zero; 4: all "
        "failed; 6: the limit rests",
        "where the median of the final losses is smallest, by a parabola",
        "bootstrap standard error of median_at over the runs",
        "smallest median of the final losses of the grid",
        "its standard error",
        "as edge, of median_at"};
    const struct sweep *sweep = summary->sweep;
    struct series series;
    int code;
    double *all = NULL;
    char *dims;
    enum { SERIES = sizeof name / sizeof *name, EACH = SERIES / OPTIMUM_KINDS };
    TRY(series_over(&series, &dims, sweep, summary->axis, err));
    DO(base_alloc(&all, SERIES * series.size, sizeof *all, err));
    if (is_told(summary))
        summary_head_print(summary);
    for (int u = 0, row = 0; u < sweep->count; u++) {
        struct optimum optimum[OPTIMUM_KINDS];
        if (grid_index(&sweep->grid, u / sweep->columns, summary->axis))
            continue;
        for (int kind = 0; kind < OPTIMUM_KINDS; kind++) {
            const struct optimum *found = &optimum[kind];
            DO(find_optimum(summary, u, (enum optimum_kind)kind, &optimum[kind], err));
            const double values[] = {found->at, found->at_se, found->loss, found->loss_se,
                                     found->edge};
            for (size_t k = 0; k < EACH; k++)
                all[((size_t)kind * EACH + k) * series.size + (size_t)row] = values[k];
        }
        if (is_told(summary))
            summary_optimum_print(summary, u, optimum);
        row++;
    }
    DO(write_scales(io, "optimum", sweep, summary->axis, err));
    DO(io_text(io, "optimum", "key", sweep->grid.axis[summary->axis].name, err));
    for (size_t k = 0; k < SERIES; k++)
        DO(write_one(io, "optimum", series, name[k], about[k], all + k * series.size, err));
done:
    free(all);
    free(dims);
    return code;
}

/* An ini that repeats the sweep: as it is, or with what the command line and included files say. */
static int write_ini(struct io *io, const struct sweep *sweep, struct err *err) {
    const struct grid *grid = &sweep->grid;
    char *text = NULL, *whole = NULL;
    size_t size;
    int code;
    if (!sweep->base.params.includes && !sweep->overrides)
        return io_text(io, "parameters", "ini", grid->ini, err);
    DO(params_text(&sweep->base.params, &text, &size, err));
    DO(base_alloc(&whole, size + strlen(grid->lines) + 16, 1, err));
    strcat(strcat(strcpy(whole, text), "\n[sweep]\n"), grid->lines);
    DO(io_text(io, "parameters", "ini", whole, err));
done:
    free(text);
    free(whole);
    return code;
}

static int write_file(struct io *io, const struct summary *summary, struct err *err) {
    const struct sweep *sweep = summary->sweep;
    TRY(io_text(io, "", "program", "dmft-sweep", err));
    TRY(write_ini(io, sweep, err));
    TRY(provenance_write(io, backend_list[sweep->base.config.solver.backend]->name,
                         omp_get_max_threads(), err)); /* of all jobs together */
    TRY(write_cells(io, summary, err));
    if (is_told(summary))
        summary_losses_print(summary);
    if (summary->axis >= 0)
        TRY(write_optima(io, summary, err));
    if (is_told(summary))
        summary_rests_print(summary);
    return io_finish(io, true, err);
}

int summary_write(const struct sweep *sweep, struct err *err) {
    struct summary summary = {.sweep = sweep, .axis = find_axis(sweep)};
    struct io io = {0};
    int code;
    TRY(base_alloc(&summary.cell, (size_t)sweep->count, sizeof *summary.cell, err));
    for (int u = 0; u < sweep->count; u++)
        DO(read_cell(sweep, u, &summary.cell[u], err));
    DO(marks_read(&summary.marks, sweep, err));
    DO(io_create(&io, sweep->output, true, err));
    DO(write_file(&io, &summary, err));
done:
    io_close(&io);
    marks_free(&summary.marks);
    for (int u = 0; u < sweep->count; u++)
        free(summary.cell[u].last);
    free(summary.cell);
    return code;
}
