/* What the units of a sweep are worth. */
#include "solver/study/marks.h"
#include "kernels/base/text.h"
#include "solver/files/result_marks.h"
#include "solver/run/stability.h"
#include "solver/run/ensemble.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *attribute, *about; /* attribute: NULL, or what the run has it by */
    char letter;                          /* 0: none */
    const char *means;
} mark[MARKS] = {
    [MARK_VALID] = {"valid_until", "valid_until",
                    "the first time from which a warning holds, or the number of times", 0, ""},
    [MARK_AVERAGES] = {"self_averaging", "self_averaging",
                       "0: gates of the limit condense, a handful of experts carries the average",
                       'c',
                       "gates of the limit condense: its mean depends on expert_sites, and its "
                       "error is too small"},
    [MARK_EDGE] = {"edge_of_stability", NULL,
                   "1: over the second half of the times the variance of f over networks does not "
                   "fall with N",
                   'e',
                   "at the edge of stability: networks of one width differ as much as those of any "
                   "other; no limit says what a network does"},
    [MARK_UNMATCHED] =
        {"unmatched", "unmatched",
         "normals of the limit that were not fully matched, over the sites of their population",
         'u',
         "random vectors of the limit could not all be made orthogonal, because it has too few "
         "sites: above 1 for each site, biases may be several standard errors"},
    [MARK_DIVERGED] = {"failed_diverged", "failed_diverged", "runs that diverged", 'D',
                       "runs diverged"},
    [MARK_SITES] = {"failed_sites", "failed_sites", "limits with too few sites for their bases",
                    'S',
                    "the limit needs more sites than it has, which is no divergence; raise "
                    "sites (expert_sites, unit_sites)"},
    [MARK_TOLERANCE] = {"failed_tolerance", "failed_tolerance",
                        "runs whose steps or sweeps did not come to their tolerance", 'T',
                        "steps or sweeps did not come to their tolerance"},
    [MARK_PARAMETERS] = {"parameters", "parameters", "numbers of a network that learn", 0, ""},
    [MARK_ACTIVE] = {"active_parameters", "active_parameters",
                     "those of them that take part in the output of one token", 0, ""},
    [MARK_FLOPS_TOKEN] = {"flops_per_token", "flops_per_token",
                          "multiplications and additions of matrices and attention for one token "
                          "(or input), forward and backward",
                          0, ""},
    [MARK_FLOPS_STEP] = {"flops_per_step", "flops_per_step",
                         "the same for all inputs of one evaluation", 0, ""},
    [MARK_FLOOR] = {"floor", "floor",
                    "loss of the best predictor, where the law of the data is known", 0, ""},
};

static int read_unit(struct marks *marks, int unit, struct err *err) {
    const struct sweep *sweep = marks->sweep;
    const char *groups[MARKS], *names[MARKS];
    char group[ENSEMBLE_GROUP], *path;
    double value[MARKS], *all = marks->unit[unit];
    int count = 0;
    ensemble_group(group, sweep_width(sweep, unit % sweep->columns));
    for (int k = 0; k < MARKS; k++) {
        all[k] = value[k] = NAN;
        groups[count] = k == MARK_FLOOR ? "data" : group;
        names[count] = mark[k].attribute;
        count += mark[k].attribute != NULL;
    }
    TRY(sweep_result(&path, sweep, unit, err));
    int code = path ? result_numbers(path, groups, names, count, value, err) : CODE_OK;
    free(path);
    for (int k = 0, at = 0; k < MARKS; k++)
        if (mark[k].attribute)
            all[k] = value[at++];
    return code;
}

/* ---- the edge of stability ---- */

/* The outputs of networks of one width as a record; runs stays 0 where there are none. */
static int read_networks(const struct sweep *sweep, int unit, struct record *record,
                         struct err *err) {
    struct series f = {.name = "f", .dims = "t mu", .about = "", .equation = "", .axes = 2};
    char group[ENSEMBLE_GROUP], *path;
    double *values = NULL;
    int runs = 0, T = 0, entries = 0, code = CODE_OK;
    ensemble_group(group, sweep_width(sweep, unit % sweep->columns));
    TRY(sweep_result(&path, sweep, unit, err));
    if (path)
        code = result_outputs(path, group, &values, &runs, &T, &entries, err);
    free(path);
    if (code || !values)
        return code;
    f.shape[0] = (size_t)T;
    f.shape[1] = (size_t)entries;
    DO(record_init(record, runs, T, err));
    DO(record_add(record, f, err));
    size_t row = (size_t)entries, each = (size_t)T * row; /* of a time, of a run */
    memcpy(record->series[0].values, values, sizeof(double) * (size_t)runs * each);
    for (int r = 0; r < runs; r++)
        while (record->steps[r] < T &&
               !isnan(values[(size_t)r * each + (size_t)record->steps[r] * row]))
            record->steps[r]++;
done:
    free(values);
    return code;
}

/* Of the point with this first unit, by all its widths; of runs as long as one another. */
static int find_edge(struct marks *marks, int first, struct err *err) {
    const struct sweep *sweep = marks->sweep;
    struct run *run;
    int code = CODE_OK, widths = sweep->widths.count;
    bool reached = false, same = true;
    if (widths < 2)
        return CODE_OK;
    TRY(base_alloc(&run, 1, sizeof *run, err));
    run->config.reference.widths = sweep->widths;
    for (int i = 0; i < widths; i++) {
        DO(read_networks(sweep, first + i, &run->results.reference[i], err));
        same = same && run->results.reference[i].runs &&
               run->results.reference[i].T == run->results.reference[0].T &&
               run->results.reference[i].runs == run->results.reference[0].runs;
    }
    if (!same)
        goto done;
    run->config.reference.seeds = run->results.reference[0].runs;
    run->config.training.steps = run->results.reference[0].T;
    DO(stability_reached(run, &reached, err));
    for (int c = 0; c < sweep->columns; c++) {
        double *unit = marks->unit[first + c];
        unit[MARK_EDGE] = reached;
        if (reached && c >= widths) /* the numbers of networks are what they are */
            unit[MARK_VALID] = fmin(unit[MARK_VALID], run->results.reference[0].T / 2);
    }
done:
    for (int i = 0; i < widths; i++)
        record_free(&run->results.reference[i]);
    free(run);
    return code;
}

int marks_read(struct marks *marks, const struct sweep *sweep, struct err *err) {
    *marks = (struct marks){.sweep = sweep};
    TRY(base_alloc(&marks->unit, (size_t)sweep->count, sizeof *marks->unit, err));
    for (int u = 0; u < sweep->count; u++)
        TRY(read_unit(marks, u, err));
    for (int u = 0; u < sweep->count; u += sweep->columns)
        TRY(find_edge(marks, u, err));
    return CODE_OK;
}

void marks_free(struct marks *marks) {
    free(marks->unit);
    marks->unit = NULL;
}

/* ---- the file and the table ---- */

int marks_write(struct io *io, const struct marks *marks, struct series shape, struct err *err) {
    int code = CODE_OK;
    double *values;
    TRY(base_alloc(&values, shape.size, sizeof *values, err));
    for (int k = 0; k < MARKS; k++) {
        for (size_t u = 0; u < shape.size; u++)
            values[u] = marks->unit[u][k];
        snprintf(shape.name, sizeof shape.name, "%s", mark[k].name);
        shape.about = mark[k].about;
        shape.equation = "";
        shape.values = values;
        DO(io_series(io, "sweep", &shape, err));
    }
done:
    free(values);
    return code;
}

/* The column of this name; MARKS: there is none. */
static int column_of(struct text_word name) {
    int k = 0;
    while (k < MARKS && !text_is(name, mark[k].name))
        k++;
    return k;
}

int marks_check_columns(const char *text, struct err *err) {
    char names[TEXT_NOTE] = "";
    struct text_word word;
    for (int k = 0; k < MARKS; k++)
        text_append(names, " %s", mark[k].name);
    while (text && text_next_word(&text, " \t", &word))
        if (column_of(word) == MARKS)
            return err_set(err, CODE_INPUT, "[sweep] columns: there is no %.*s; there are%s",
                           word.length > 80 ? 80 : (int)word.length, word.text, names);
    return CODE_OK;
}

void marks_print_columns(const struct marks *marks, const char *text, int unit) {
    struct text_word word;
    while (text && text_next_word(&text, " \t", &word)) {
        int k = column_of(word), width = word.length < 10 ? 10 : (int)word.length;
        double value = unit < 0 || !marks->unit ? (double)NAN : marks->unit[unit][k];
        if (unit < 0)
            printf("  %*s", width, mark[k].name);
        else if (isnan(value))
            printf("  %*s", width, "-");
        else
            printf("  %*.6g", width, value);
    }
}

static bool is_marked(const struct marks *marks, int unit, int k) {
    double value = marks->unit[unit][k];
    return mark[k].letter && (k == MARK_AVERAGES ? value == 0 : value > 0);
}

bool marks_edge(const struct marks *marks, int unit, const char **means) {
    *means = mark[MARK_EDGE].means;
    return marks->unit && is_marked(marks, unit, MARK_EDGE);
}

void marks_print(const struct marks *marks, int unit) {
    char letters[MARKS + 1] = "";
    for (int k = 0, used = 0; marks->unit && k < MARKS; k++)
        if (is_marked(marks, unit, k))
            letters[used++] = mark[k].letter;
    if (*letters)
        printf("  [%s]", letters);
}

void marks_explain(const struct marks *marks) {
    for (int k = 0; marks->unit && k < MARKS; k++) {
        bool any = false;
        for (int u = 0; u < marks->sweep->count; u++)
            any = any || is_marked(marks, u, k);
        if (any)
            printf("%c: %s\n", mark[k].letter, mark[k].means);
    }
}
