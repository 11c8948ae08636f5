/* What the units of a sweep have come to (cells.h). */
#include "solver/study/cells.h"
#include "solver/files/result_marks.h"
#include "solver/run/ensemble.h"
#include "solver/measure/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int cells_stride(const struct sweep *sweep, int axis) {
    int stride = sweep->columns;
    for (int a = axis + 1; a < sweep->grid.axes; a++)
        stride *= sweep->grid.axis[a].count;
    return stride;
}

bool cells_rest(const struct cells *cells, int unit) {
    const struct sweep *sweep = cells->sweep;
    int first = unit - unit % sweep->columns;
    bool moving = false;
    for (int c = 0; c < sweep->widths.count; c++)
        moving = moving || (cells->cell[first + c].ended && !cells->cell[first + c].still);
    return !sweep_width(sweep, unit - first) && cells->cell[unit].still && moving;
}

/* ---- one unit ---- */

static const struct measured nothing = {
    .mean = NAN, .error = NAN, .median = NAN, .median_error = NAN};

/* Statistics of what stands in measured->run. */
static int describe(struct measured *measured, struct err *err) {
    double *copy, sum = 0, squares = 0;
    int n = measured->runs;
    for (int r = 0; r < n; r++)
        sum += measured->run[r];
    measured->mean = sum / n;
    for (int r = 0; r < n; r++)
        squares += pow(measured->run[r] - measured->mean, 2);
    measured->error = n > 1 ? sqrt(squares / n / (n - 1)) : NAN;
    if (!isfinite(measured->mean)) /* a run has none: nor has the point */
        return CODE_OK;
    TRY(base_alloc(&copy, (size_t)n, sizeof *copy, err));
    memcpy(copy, measured->run, (size_t)n * sizeof *copy);
    stats_median(copy, n, &measured->median, &measured->median_error);
    free(copy);
    return CODE_OK;
}

static int measure(struct measured *measured, const struct objective *objective,
                   const struct result_runs *series, const bool *ended, int count, int window,
                   struct err *err) {
    *measured = nothing;
    measured->runs = count;
    if (!series->run) {
        objective_mean(objective, series, &measured->mean, &measured->error);
        return CODE_OK;
    }
    TRY(base_alloc(&measured->run, (size_t)count, sizeof *measured->run, err));
    objective_runs(objective, series, ended, window, measured->run);
    TRY(describe(measured, err));
    double tolerance = objective_tolerance(objective, series);
    measured->error = hypot(measured->error, tolerance);
    measured->median_error = hypot(measured->median_error, tolerance);
    return CODE_OK;
}

/* What the loss was at all times, of the runs that ended. */
static void look_back(struct cell *cell, const struct result_runs *loss, const bool *ended) {
    cell->still = loss->T > 1;
    for (int t = 0; t < loss->T; t++) {
        double sum = 0;
        for (int r = 0; r < loss->runs; r++) {
            const double *value = loss->run + r * loss->T;
            sum += ended[r] ? value[t] : 0;
            bool same = fabs(value[t] - value[0]) <= 1e-12 * fabs(value[0]); /* round-off */
            cell->still = cell->still && (same || !ended[r]);
        }
        cell->least = fmin(cell->least, sum / cell->ended);
    }
}

/* Where the runs of a unit lie, and which of them, `count`, reached the end. */
struct unit_runs {
    const char *path, *group;
    const bool *ended;
    int count;
};

/* A series of a unit by which it is measured; a unit without it is told from the others. */
static int read_measured(struct measured *measured, const struct objective *objective,
                         const struct unit_runs *runs, int window, bool *there, struct err *err) {
    struct result_runs series;
    *measured = nothing;
    TRY(result_runs_read(&series, runs->path, runs->group, objective->series, &objective->entry,
                         there, err));
    int code = *there ? measure(measured, objective, &series, runs->ended, runs->count, window, err)
                      : CODE_OK;
    result_runs_free(&series);
    return code;
}

static int read_numbers(struct cells *cells, struct cell *cell, const char *path, const char *group,
                        const bool *ended, int T, struct err *err) {
    struct unit_runs runs = {path, group, ended, cell->ended};
    struct objective loss, test;
    int inputs, batch, window;
    bool there;
    TRY(objective_read(&loss, "loss", err));
    TRY(objective_read(&test, "test_loss", err));
    TRY(result_runs_batch(path, &inputs, &batch, err));
    window = objective_window(T, inputs, batch);
    if (cells->objective.kind == OBJECTIVE_SMOOTH && window > cells->window)
        cells->window = window;
    TRY(read_measured(&cell->loss, &loss, &runs, 1, &there, err));
    TRY(read_measured(&cell->test_loss, &test, &runs, 1, &there, err));
    cells->has_tests = cells->has_tests || there;
    TRY(read_measured(&cell->objective, &cells->objective, &runs, window, &there, err));
    return there ? CODE_OK
                 : err_set(err, CODE_INPUT, "objective %s: %.600s has no series %s",
                           cells->objective.text, path, cells->objective.series);
}

/* Which runs reached the end: *ended [loss->runs], to be freed. */
static int find_ended(struct cell *cell, const struct result_runs *loss, bool **ended,
                      struct err *err) {
    TRY(base_alloc(ended, (size_t)loss->runs, sizeof **ended, err));
    for (int r = 0; r < loss->runs; r++) {
        (*ended)[r] = loss->T > 0 && isfinite(loss->run[r * loss->T + loss->T - 1]);
        cell->ended += (*ended)[r];
        cell->failed += !(*ended)[r];
    }
    return CODE_OK;
}

static int read_cell(struct cells *cells, int unit, struct cell *cell, struct err *err) {
    const struct sweep *sweep = cells->sweep;
    bool failed = sweep->unit[unit].status == SWEEP_FAILED, there = false, *ended = NULL;
    int N = sweep_width(sweep, unit % sweep->columns), code = CODE_OK;
    char group[ENSEMBLE_GROUP], *path;
    struct result_runs loss = {0};
    *cell = (struct cell){.loss = nothing, .test_loss = nothing, .objective = nothing};
    cell->failed = failed;
    cell->least = NAN;
    TRY(sweep_result(&path, sweep, unit, err));
    if (!path || (failed && !N)) /* of the limit all replicates together make the numbers */
        goto done;
    ensemble_group(group, N);
    DO(result_runs_read(&loss, path, group, "loss", NULL, &there, err));
    if (!there || !loss.run) {
        if (!failed)
            DO(err_set(err, CODE_SYSTEM, "%s: is not a complete file with %s/loss", path, group));
        goto done;
    }
    cell->failed = 0;
    DO(find_ended(cell, &loss, &ended, err));
    if (!cell->ended)
        goto done;
    cell->least = INFINITY;
    look_back(cell, &loss, ended);
    double rests = NAN;
    if (!N)
        DO(result_numbers(path, (const char *[]){group}, (const char *[]){"rests"}, 1, &rests,
                          err));
    if (!isnan(rests)) /* its loss alone does not tell: with batches that of other inputs follows */
        cell->still = rests > 0;
    DO(read_numbers(cells, cell, path, group, ended, loss.T, err));
done:
    result_runs_free(&loss);
    free(ended);
    free(path);
    return code;
}

/* ---- all ---- */

/* Whether every unit with a file has a test loss; a file that cannot be read is told later. */
static int all_have_tests(const struct sweep *sweep, bool *all, struct err *err) {
    int known = 0;
    *all = true;
    for (int u = 0; u < sweep->count && *all; u++) {
        char group[ENSEMBLE_GROUP], *path;
        struct result_runs series;
        bool loss, there;
        TRY(sweep_result(&path, sweep, u, err));
        if (!path)
            continue;
        ensemble_group(group, sweep_width(sweep, u % sweep->columns));
        int code = result_runs_read(&series, path, group, "loss", NULL, &loss, err);
        result_runs_free(&series);
        if (!code)
            code = result_runs_read(&series, path, group, "test_loss", NULL, &there, err);
        free(path);
        TRY(code);
        result_runs_free(&series);
        known += loss;
        *all = there || !loss; /* a limit that failed at once has neither */
    }
    *all = *all && known > 0;
    return CODE_OK;
}

static int choose(struct cells *cells, const char *objective, struct err *err) {
    const struct sweep *sweep = cells->sweep;
    bool tests;
    if (!objective)
        objective = sweep->grid.objective;
    if (objective)
        return objective_read(&cells->objective, objective, err);
    TRY(all_have_tests(sweep, &tests, err));
    return objective_read(&cells->objective, tests ? "test_loss" : "smooth_loss", err);
}

int cells_read(struct cells *cells, const struct sweep *sweep, const char *objective,
               struct err *err) {
    *cells = (struct cells){.sweep = sweep};
    TRY(choose(cells, objective, err));
    TRY(base_alloc(&cells->cell, (size_t)sweep->count, sizeof *cells->cell, err));
    for (int u = 0; u < sweep->count; u++)
        TRY(read_cell(cells, u, &cells->cell[u], err));
    TRY(marks_read(&cells->marks, sweep, err));
    if (cells->objective.kind == OBJECTIVE_SMOOTH && cells->window <= 1) /* without batches */
        TRY(objective_read(&cells->objective, "loss", err));
    return CODE_OK;
}

void cells_free(struct cells *cells) {
    for (int u = 0; cells->cell && u < cells->sweep->count; u++) {
        free(cells->cell[u].loss.run);
        free(cells->cell[u].test_loss.run);
        free(cells->cell[u].objective.run);
    }
    marks_free(&cells->marks);
    free(cells->cell);
    cells->cell = NULL;
}
