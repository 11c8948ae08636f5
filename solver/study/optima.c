/* Where the objective of a sweep is smallest along one of its keys (optima.h). */
#include "solver/study/optima.h"
#include "solver/study/summary.h"
#include "solver/study/summary_table.h"
#include "kernels/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the axis ---- */

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
static bool can_seek(const struct sweep *sweep, const struct grid_axis *axis) {
    return axis->keys == 1 && axis->key->value && axis->count >= 3 && has_order(sweep, axis->key);
}

int optima_axis(const struct sweep *sweep, const char *along, int *axis, struct err *err) {
    char names[TEXT_NOTE] = "", cut[TEXT_CLIP_SIZE];
    *axis = -1;
    if (!along)
        along = sweep->grid.along;
    for (int a = sweep->grid.axes - 1; a >= 0; a--) {
        const struct grid_axis *one = &sweep->grid.axis[a];
        bool wanted = !strcmp(one->name, along ? along : "training.eta0");
        if (!can_seek(sweep, one))
            continue;
        text_append(names, " %s", one->name);
        if (wanted ||
            (!along && (*axis < 0 || strcmp(sweep->grid.axis[*axis].name, "training.eta0") != 0)))
            *axis = a;
    }
    if (!along || *axis >= 0)
        return CODE_OK;
    return err_set(err, CODE_INPUT,
                   "along = %s: must be a key of [sweep] with a line of its own and three numbers "
                   "or more; %s%s",
                   text_clip(cut, along), *names ? "such are:" : "there is none", names);
}

/* ---- finding ---- */

const char *optima_reason(enum optimum_reason reason) {
    static const char *const words[OPTIMUM_REASONS] = {
        [OPTIMUM_KNOWN] = "",
        [OPTIMUM_LOWEST] = "not known: it may lie below the lowest value",
        [OPTIMUM_HIGHEST] = "not known: it may lie above the highest value",
        [OPTIMUM_FAILED] = "not known: runs failed beside it",
        [OPTIMUM_NOISE] = "not known: noise",
        [OPTIMUM_FEW] = "not known: fewer than 4 values can be used",
        [OPTIMUM_SINGLE] = "not known: one run has no error",
        [OPTIMUM_NONE] = "none: runs failed everywhere",
        [OPTIMUM_RESTS] = "none: the limit rests"};
    return words[reason];
}

/* Whether the limit rests at all values of the key. */
static bool rests_along(const struct cells *cells, int unit, int axis) {
    int stride = cells_stride(cells->sweep, axis);
    bool all = true;
    for (int i = 0; i < cells->sweep->grid.axis[axis].count; i++)
        all = all && cells_rest(cells, unit + i * stride);
    return all;
}

static struct optimum_point point_of(const struct cell *cell, enum optimum_kind kind, double x) {
    const struct measured *found = &cell->objective;
    bool means = kind == OPTIMUM_MEANS;
    return (struct optimum_point){
        .x = x,
        .value = means ? found->mean : found->median,
        .error = means ? found->error : found->median_error,
        .runs = found->runs,
        .run = found->run,
        .failed = !cell->ended || cell->failed || !isfinite(found->mean),
    };
}

/* In the units of the key. */
static void leave_logarithm(struct optimum *optimum) {
    optimum->at = exp(optimum->at);
    optimum->low = exp(optimum->low);
    optimum->high = exp(optimum->high);
    for (int b = 0; b < OPTIMUM_SAMPLES; b++)
        optimum->sample[b] = exp(optimum->sample[b]);
}

/* Of the column whose first unit this is; best: a value of the key in the order of the grid. */
static int find(const struct cells *cells, int axis, int unit, enum optimum_kind kind,
                struct optimum *optimum, struct err *err) {
    const struct sweep *sweep = cells->sweep;
    const struct grid_axis *along = &sweep->grid.axis[axis];
    const double *value = along->key->value;
    int stride = cells_stride(sweep, axis), count = along->count;
    bool falls = value[0] > value[count - 1], logarithmic = fmin(value[0], value[count - 1]) > 0;
    struct optimum_point *point;
    TRY(base_alloc(&point, (size_t)count, sizeof *point, err));
    bool rests = rests_along(cells, unit, axis);
    for (int i = 0; i < count; i++) {
        int k = falls ? count - 1 - i : i;
        point[i] =
            point_of(&cells->cell[unit + k * stride], kind, logarithmic ? log(value[k]) : value[k]);
        point[i].failed = point[i].failed || rests;
    }
    int N = sweep_width(sweep, unit % sweep->columns);
    int code = optimum_find(optimum, kind, count, point, N, err);
    free(point);
    TRY(code);
    if (logarithmic)
        leave_logarithm(optimum);
    if (rests)
        optimum->reason = OPTIMUM_RESTS;
    if (falls && optimum->best >= 0)
        optimum->best = count - 1 - optimum->best;
    return CODE_OK;
}

/* ---- writing ---- */

enum { AT, LOW, HIGH, VALUE, VALUE_LOW, VALUE_HIGH, REASON, LEAST_AT, LEAST, NUMBERS };

static const struct {
    const char *name, *about;
} numbers[NUMBERS] = {
    {"at", "where the objective is smallest along the key; NaN where that is not known"},
    {"low", "lower end of the interval of 95 % of at; below any value: not known"},
    {"high", "upper end of the interval of 95 % of at"},
    {"objective", "the objective there"},
    {"objective_low", "lower end of the interval of 95 % of objective"},
    {"objective_high", "upper end of the interval of 95 % of objective"},
    {"reason", "why no optimum is known, a number; words: attribute reasons of the group"},
    {"least_at", "value of the grid with the smallest objective that can be used"},
    {"least", "the objective there"},
};

/* All columns: value [NUMBERS][rows], samples [rows][OPTIMUM_SAMPLES]. */
struct table {
    size_t rows;
    double *value, *sample, *sample_value;
};

static void keep(struct table *table, size_t row, const struct optimum *optimum, double least_at,
                 double least) {
    const double value[NUMBERS] = {[AT] = optimum->at,
                                   [LOW] = optimum->low,
                                   [HIGH] = optimum->high,
                                   [VALUE] = optimum->value,
                                   [VALUE_LOW] = optimum->value_low,
                                   [VALUE_HIGH] = optimum->value_high,
                                   [REASON] = optimum->reason,
                                   [LEAST_AT] = least_at,
                                   [LEAST] = least};
    for (size_t k = 0; k < NUMBERS; k++)
        table->value[k * table->rows + row] = value[k];
    size_t bytes = OPTIMUM_SAMPLES * sizeof *table->sample;
    memcpy(table->sample + row * OPTIMUM_SAMPLES, optimum->sample, bytes);
    memcpy(table->sample_value + row * OPTIMUM_SAMPLES, optimum->sample_value, bytes);
}

static int write_table(struct io *io, const struct table *table, enum optimum_kind kind,
                       const struct series *like, struct err *err) {
    const char *before = kind == OPTIMUM_MEDIANS ? "median_" : "";
    char name[SERIES_NAME], dims[4096];
    for (size_t k = 0; k < NUMBERS; k++) {
        snprintf(name, sizeof name, "%s%s", before, numbers[k].name);
        TRY(summary_series(io, "optimum", *like, name, numbers[k].about,
                           table->value + k * table->rows, err));
    }
    struct series samples = *like;
    if ((size_t)snprintf(dims, sizeof dims, "%s sample", like->dims) >= sizeof dims)
        return err_set(err, CODE_INPUT, "the keys of [sweep] have too long names");
    samples.dims = dims;
    samples.shape[samples.axes++] = OPTIMUM_SAMPLES;
    samples.size *= OPTIMUM_SAMPLES;
    snprintf(name, sizeof name, "%sat_samples", before);
    TRY(summary_series(io, "optimum", samples, name,
                       "at, had the runs been others; sample b of all columns of one width has the "
                       "same runs; 0 or infinity: below or above all values that can be used",
                       table->sample, err));
    snprintf(name, sizeof name, "%sobjective_samples", before);
    return summary_series(io, "optimum", samples, name, "objective, in the same samples",
                          table->sample_value, err);
}

static int write_reasons(struct io *io, struct err *err) {
    char text[TEXT_NOTE] = "0: known";
    for (int k = 1; k < OPTIMUM_REASONS; k++)
        text_append(text, "; %d: %s", k, optima_reason((enum optimum_reason)k));
    return io_text(io, "optimum", "reasons", text, err);
}

static int find_all(const struct cells *cells, int axis, bool tell, struct table *table,
                    struct optimum *optimum, struct err *err) {
    const struct sweep *sweep = cells->sweep;
    int stride = cells_stride(sweep, axis);
    const double *value = sweep->grid.axis[axis].key->value;
    size_t row = 0;
    for (int u = 0; u < sweep->count; u++) {
        if (grid_index(&sweep->grid, u / sweep->columns, axis))
            continue;
        for (int kind = 0; kind < OPTIMUM_KINDS; kind++) {
            struct optimum *found = &optimum[kind];
            TRY(find(cells, axis, u, (enum optimum_kind)kind, found, err));
            int best = found->best;
            const struct measured *there =
                best < 0 ? NULL : &cells->cell[u + best * stride].objective;
            keep(&table[kind], row, found, there ? value[best] : NAN,
                 !there                  ? NAN
                 : kind == OPTIMUM_MEANS ? there->mean
                                         : there->median);
        }
        row++;
        if (tell)
            summary_optimum_print(cells, axis, u, optimum);
    }
    return CODE_OK;
}

int optima_write(struct io *io, const struct cells *cells, int axis, bool tell, struct err *err) {
    struct table table[OPTIMUM_KINDS] = {{0}};
    struct optimum *optimum = NULL;
    struct series series;
    char *dims;
    int code;
    TRY(summary_axes(&series, &dims, cells->sweep, axis, err));
    DO(base_alloc(&optimum, OPTIMUM_KINDS, sizeof *optimum, err));
    for (int k = 0; k < OPTIMUM_KINDS; k++) {
        table[k].rows = series.size;
        DO(base_alloc(&table[k].value, NUMBERS * series.size, sizeof(double), err));
        DO(base_alloc(&table[k].sample, OPTIMUM_SAMPLES * series.size, sizeof(double), err));
        DO(base_alloc(&table[k].sample_value, OPTIMUM_SAMPLES * series.size, sizeof(double), err));
    }
    if (tell)
        summary_head_print(cells, axis);
    DO(find_all(cells, axis, tell, table, optimum, err));
    if (!io)
        goto done;
    DO(summary_scales(io, "optimum", cells->sweep, axis, err));
    DO(io_text(io, "optimum", "key", cells->sweep->grid.axis[axis].name, err));
    DO(io_text(io, "optimum", "objective", cells->objective.text, err));
    DO(io_text(io, "optimum", "objective_about", cells->objective.about, err));
    DO(write_reasons(io, err));
    for (int k = 0; k < OPTIMUM_KINDS; k++)
        DO(write_table(io, &table[k], (enum optimum_kind)k, &series, err));
done:
    for (int k = 0; k < OPTIMUM_KINDS; k++) {
        free(table[k].value);
        free(table[k].sample);
        free(table[k].sample_value);
    }
    free(optimum);
    free(dims);
    return code;
}
