/* What a sweep found. */
#include "solver/study/summary.h"
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

struct cell {
    int runs;
    double *last; /* [runs] final losses; NULL: failed */
    double loss, se, median, median_se, least;
    bool still; /* the loss of every run is at all times what it was at first */
};

struct summary {
    const struct sweep *sweep;
    struct cell *cell; /* [unit] */
    int axis;          /* of the optimum, -1: there is none */
};

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
    double *loss = NULL, squares = 0;
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
done:
    free(loss);
    free(path);
    return code;
}

/* A limit that training does not move, where it moves networks (solver/run/rest.h). */
static bool rests(const struct summary *summary, int unit) {
    const struct sweep *sweep = summary->sweep;
    int first = unit - unit % sweep->columns;
    bool moving = false;
    for (int c = 0; c < sweep->widths.count; c++)
        moving = moving || (summary->cell[first + c].last && !summary->cell[first + c].still);
    return !sweep_width(sweep, unit - first) && summary->cell[unit].still && moving;
}

/* Lists of points have no order along which to seek. */
static int find_axis(const struct grid *grid) {
    for (int a = 0; a < grid->axes; a++)
        if (grid->axis[a].keys == 1 && grid->axis[a].key->value && grid->axis[a].count >= 3)
            return a;
    return -1;
}

/* Units between neighbours along an axis. */
static int stride_of(const struct sweep *sweep, int axis) {
    int stride = sweep->columns;
    for (int a = axis + 1; a < sweep->grid.axes; a++)
        stride *= sweep->grid.axis[a].count;
    return stride;
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
                                 "standard error of the mean of loss over independent runs",
                                 "median of the final losses of the runs",
                                 "standard error of the median",
                                 "smallest mean loss of all times",
                                 "runs",
                                 "1: the run ended in a numerical failure",
                                 "1: the limit rests, training moves networks alone"};
    enum { SERIES = sizeof name / sizeof *name };
    DO(base_alloc(&all, SERIES * series.size, sizeof *all, err));
    for (size_t u = 0; u < series.size; u++) {
        const struct cell *cell = &summary->cell[u];
        const double values[] = {cell->loss,  cell->se,   cell->median, cell->median_se,
                                 cell->least, cell->runs, !cell->last,  rests(summary, (int)u)};
        for (size_t k = 0; k < SERIES; k++)
            all[k * series.size + u] = values[k];
    }
    DO(write_scales(io, "sweep", sweep, -1, err));
    DO(write_names(io, sweep, err));
    for (size_t k = 0; k < SERIES; k++)
        DO(write_one(io, "sweep", series, name[k], about[k], all + k * series.size, err));
done:
    free(all);
    free(dims);
    return code;
}

/* ---- the optimum: file and table ---- */

/* Goes through the columns of the table, the keys of all axes but that of the optimum: *k is the
 * first to look at. Their width, or -1 behind the last. */
static int next_column(const struct summary *summary, int *k, const struct grid_key **key,
                       int *axis) {
    const struct grid *grid = &summary->sweep->grid;
    for (; *k < grid->keys; ++*k) {
        *key = grid_key(grid, *k, axis);
        if (*axis == summary->axis)
            continue;
        size_t width = strlen((*key)->name);
        for (int i = 0; i < grid->axis[*axis].count; i++)
            width = strlen((*key)->text[i]) > width ? strlen((*key)->text[i]) : width;
        return (int)width;
    }
    return -1;
}

/* The names of these columns, or (unit >= 0) their values. */
static void print_keys(const struct summary *summary, int unit) {
    const struct sweep *sweep = summary->sweep;
    const struct grid_key *key;
    for (int k = 0, a, width; (width = next_column(summary, &k, &key, &a)) >= 0; k++)
        printf("%*s  ", width,
               unit < 0 ? key->name
                        : key->text[grid_index(&sweep->grid, unit / sweep->columns, a)]);
}

static void print_width(const struct sweep *sweep, int unit) {
    char number[16];
    int N = sweep_width(sweep, unit % sweep->columns);
    snprintf(number, sizeof number, "%d", N);
    printf("%6s", N ? number : "limit");
}

static void print_number(int width, bool there, const char *digits, double x, double se) {
    char text[64], both[32];
    snprintf(both, sizeof both, "%s +- %%.1g", digits);
    if (there)
        snprintf(text, sizeof text, isnan(se) ? digits : both, x, se);
    else
        snprintf(text, sizeof text, "-");
    printf("  %*s", width, text);
}

/* Without a key to seek an optimum along: every unit. */
static void print_losses(const struct summary *summary) {
    const struct sweep *sweep = summary->sweep;
    printf("final loss (+-: standard errors of sampling)\n");
    print_keys(summary, -1);
    printf("%6s  %20s  %20s\n", "N", "mean", "median");
    for (int u = 0; u < sweep->count; u++) {
        const struct cell *cell = &summary->cell[u];
        print_keys(summary, u);
        print_width(sweep, u);
        print_number(20, cell->last, "%.5g", cell->loss, cell->se);
        print_number(20, cell->last, "%.5g", cell->median, cell->median_se);
        printf("%s\n", !cell->last ? "  failed" : rests(summary, u) ? "  (it rests)" : "");
    }
}

/* Of means or of medians: the optimum, and the smallest loss of the grid. */
struct optimum {
    double at, at_se, loss, loss_se;
    int best;
    enum edge edge;
};

/* One row of the table: a combination of the other keys, and a width. */
static void print_row(const struct summary *summary, int unit, const struct optimum *optimum) {
    static const char *const why[] = {"",
                                      "  (the lowest value)",
                                      "  (the highest value)",
                                      "  (a neighbour failed)",
                                      "  (all failed)",
                                      "  (a loss is not above zero)",
                                      "  (it rests)"};
    print_keys(summary, unit);
    print_width(summary->sweep, unit);
    for (int k = 0; k < OPTIMUM_KINDS; k++) {
        print_number(15, optimum[k].best >= 0, "%.4g", optimum[k].at, optimum[k].at_se);
        print_number(18, optimum[k].best >= 0, "%.5g", optimum[k].loss, optimum[k].loss_se);
    }
    bool same = optimum[OPTIMUM_MEANS].edge == optimum[OPTIMUM_MEDIANS].edge;
    printf("%s%s\n", why[optimum[OPTIMUM_MEANS].edge],
           same ? "" : why[optimum[OPTIMUM_MEDIANS].edge]);
}

static void print_head(const struct summary *summary) {
    printf("optimum of %s, and the final loss there, of means and of medians over the runs\n"
           "(+-: standard errors of sampling; a parabola between the values of the grid may be off "
           "by half a step)\n",
           summary->sweep->grid.axis[summary->axis].name);
    print_keys(summary, -1);
    printf("%6s  %15s  %18s  %15s  %18s\n", "N", "optimum", "mean loss", "optimum", "median loss");
}

/* Whether the limit rests at all values of the key. */
static bool rests_along(const struct summary *summary, int unit) {
    int stride = stride_of(summary->sweep, summary->axis);
    bool all = true;
    for (int i = 0; i < summary->sweep->grid.axis[summary->axis].count; i++)
        all = all && rests(summary, unit + i * stride);
    return all;
}

/* In the units of the key, from those of the axis x of the parabola. */
static int find_optimum(const struct summary *summary, int unit, enum optimum_kind kind,
                        struct optimum *optimum, struct err *err) {
    const struct sweep *sweep = summary->sweep;
    const struct grid_axis *axis = &sweep->grid.axis[summary->axis];
    int stride = stride_of(sweep, summary->axis), runs = 0, code;
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
    print_head(summary);
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
        print_row(summary, u, optimum);
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

/* Where the limit of some points rests: what that is. */
static void print_rests(const struct summary *summary) {
    bool some = false;
    for (int u = 0; u < summary->sweep->count; u++)
        some = some || rests(summary, u);
    if (some)
        printf("note: a limit rests where training changes nothing of it, and networks leave that "
               "point the later the\n  wider: it has no optimum; dmft-solve on one point gives the "
               "times and their slope in ln N\n");
}

static int write_file(struct io *io, const struct summary *summary, struct err *err) {
    const struct sweep *sweep = summary->sweep;
    TRY(io_text(io, "", "program", "dmft-sweep", err));
    TRY(io_text(io, "parameters", "ini", sweep->grid.ini, err));
    TRY(provenance_write(io, backend_list[sweep->base.config.solver.backend]->name,
                         omp_get_max_threads(), err)); /* of all jobs together */
    TRY(write_cells(io, summary, err));
    if (summary->axis >= 0)
        TRY(write_optima(io, summary, err));
    else
        print_losses(summary);
    print_rests(summary);
    return io_finish(io, true, err);
}

int summary_write(const struct sweep *sweep, struct err *err) {
    struct summary summary = {.sweep = sweep, .axis = find_axis(&sweep->grid)};
    struct io io = {0};
    int code;
    TRY(base_alloc(&summary.cell, (size_t)sweep->count, sizeof *summary.cell, err));
    for (int u = 0; u < sweep->count; u++)
        DO(read_cell(sweep, u, &summary.cell[u], err));
    DO(io_create(&io, sweep->output, true, err));
    DO(write_file(&io, &summary, err));
done:
    io_close(&io);
    for (int u = 0; u < sweep->count; u++)
        free(summary.cell[u].last);
    free(summary.cell);
    return code;
}
