/* What a sweep compares its points by (objective.h). */
#include "solver/study/objective.h"
#include "kernels/base/text.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word, *series, *about;
    enum objective_kind kind;
} words[] = {
    {"loss", "loss", "loss at the last time (with batches, of the last batch)", OBJECTIVE_LOSS},
    {"test_loss", "test_loss", "loss of the test inputs, the last that was measured",
     OBJECTIVE_TEST_LOSS},
    {"smooth_loss", "loss",
     "loss, with batches the mean over the last pass through the inputs, at most the last fifth of "
     "the times",
     OBJECTIVE_SMOOTH},
};

static int refuse(const char *text, struct err *err) {
    char cut[TEXT_CLIP_SIZE];
    return err_set(
        err, CODE_INPUT,
        "objective \"%s\": must be test_loss, loss, smooth_loss, time_to=X with X > 0, "
        "or NAME[t][i]..., a series at a time t or \"last\" and an entry i or \"mean\" of "
        "each further axis (%d at most)",
        text_clip(cut, text), RESULT_AXES);
}

/* "[12]" or "[word]", for which *index is -1; *at moves behind it. */
static bool read_index(const char **at, const char *word, int *index) {
    size_t length = strlen(word);
    char *end = (char *)*at + 1;
    *index = -1;
    if (**at != '[')
        return false;
    if (!strncmp(end, word, length))
        end += length;
    else if (isdigit((unsigned char)*end)) {
        long value = strtol(end, &end, 10);
        *index = value <= INT_MAX ? (int)value : INT_MAX;
    } else
        return false;
    *at = end + 1;
    return *end == ']';
}

/* NAME, NAME[t], NAME[t][i]... */
static bool read_name(struct objective *objective, const char *text) {
    struct result_entry *entry = &objective->entry;
    size_t length = strcspn(text, "[");
    const char *at = text + length;
    char when[32] = "its last time";
    memcpy(objective->series, text, length);
    if (!length || strpbrk(objective->series, " \t/.=") ||
        (*at && !read_index(&at, "last", &objective->t)))
        return false;
    const char *further = at;
    while (*at)
        if (entry->count == RESULT_AXES || !read_index(&at, "mean", &entry->index[entry->count++]))
            return false;
    if (objective->t >= 0)
        snprintf(when, sizeof when, "t = %d", objective->t);
    snprintf(objective->about, sizeof objective->about, "%s at %s, %s%s", objective->series, when,
             *further ? "of its further axes " : "the mean over further axes if it has any",
             further);
    return true;
}

int objective_read(struct objective *objective, const char *text, struct err *err) {
    char rest;
    *objective = (struct objective){.kind = OBJECTIVE_SERIES, .t = -1};
    if (strlen(text) >= sizeof objective->series)
        return refuse(text, err);
    strcpy(objective->text, text);
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (!strcmp(text, words[k].word)) {
            objective->kind = words[k].kind;
            strcpy(objective->series, words[k].series);
            strcpy(objective->about, words[k].about);
            return CODE_OK;
        }
    if (!strncmp(text, "time_to", 7)) {
        objective->kind = OBJECTIVE_TIME_TO;
        strcpy(objective->series, "loss");
        if (sscanf(text, "time_to=%lf%c", &objective->level, &rest) != 1 ||
            !(objective->level > 0) || isinf(objective->level))
            return refuse(text, err);
        snprintf(objective->about, sizeof objective->about,
                 "time in steps at which the loss falls to %g", objective->level);
        return CODE_OK;
    }
    return read_name(objective, text) ? CODE_OK : refuse(text, err);
}

int objective_window(int T, int inputs, int batch) {
    int pass = batch > 0 ? (inputs + batch - 1) / batch : 1, most = (T + 4) / 5;
    return pass < most ? pass : most;
}

/* The time at which a loss falls to the level, or NaN. */
static double time_to(const double *loss, int T, double level) {
    if (T > 0 && loss[0] <= level)
        return 0;
    for (int t = 1; t < T; t++)
        if (loss[t] <= level)
            return t - (level - loss[t]) / (loss[t - 1] - loss[t]);
    return NAN;
}

/* The mean curve of the runs with ended[r], without run `left`. */
static double time_of_mean(const struct objective *objective, const struct result_runs *series,
                           const bool *ended, int left) {
    double mean[series->T > 0 ? series->T : 1];
    for (int t = 0; t < series->T; t++) {
        int n = 0;
        mean[t] = 0;
        for (int r = 0; r < series->runs; r++)
            if (ended[r] && r != left) {
                mean[t] += series->run[r * series->T + t];
                n++;
            }
        mean[t] /= n;
    }
    return time_to(mean, series->T, objective->level);
}

/* A time is no linear function of the loss: of pseudo-values, the jackknife of it once more. */
static void find_times(const struct objective *objective, const struct result_runs *series,
                       const bool *ended, double *value) {
    int n = 0;
    for (int r = 0; r < series->runs; r++)
        n += ended[r];
    bool jackknife = series->pseudo && n > 1;
    double all = jackknife ? time_of_mean(objective, series, ended, -1) : NAN;
    for (int r = 0, k = 0; r < series->runs; r++)
        if (ended[r])
            value[k++] = jackknife
                             ? n * all - (n - 1) * time_of_mean(objective, series, ended, r)
                             : time_to(series->run + r * series->T, series->T, objective->level);
}

/* The last time that all of these runs have; -1: none. */
static int last_of(const struct result_runs *series, const bool *ended) {
    for (int t = series->T - 1; t >= 0; t--) {
        bool all = true;
        for (int r = 0; r < series->runs && all; r++)
            all = !ended[r] || isfinite(series->run[r * series->T + t]);
        if (all)
            return t;
    }
    return -1;
}

void objective_runs(const struct objective *objective, const struct result_runs *series,
                    const bool *ended, int window, double *value) {
    if (objective->kind == OBJECTIVE_TIME_TO) {
        find_times(objective, series, ended, value);
        return;
    }
    int last = objective->t >= 0 ? objective->t : last_of(series, ended);
    bool there = last >= 0 && last < series->T;
    int first = objective->kind == OBJECTIVE_SMOOTH && there ? last - window + 1 : last;
    for (int r = 0, k = 0; r < series->runs; r++) {
        double sum = 0;
        if (!ended[r])
            continue;
        for (int t = first; t <= last && there; t++)
            sum += series->run[r * series->T + t];
        value[k++] = there ? sum / (last - first + 1) : NAN;
    }
}

/* The last time at which the mean is known, or that which is named. */
static int time_of(const struct objective *objective, const struct result_runs *series) {
    int t = objective->t >= 0 ? objective->t : series->T - 1;
    while (objective->t < 0 && t > 0 && !isfinite(series->mean[t]))
        t--;
    return t < series->T ? t : -1;
}

double objective_tolerance(const struct objective *objective, const struct result_runs *series) {
    int t = time_of(objective, series);
    bool known = t >= 0 && series->tolerance && objective->kind != OBJECTIVE_TIME_TO &&
                 isfinite(series->tolerance[t]);
    return known ? fabs(series->tolerance[t]) : 0;
}

void objective_mean(const struct objective *objective, const struct result_runs *series,
                    double *value, double *error) {
    int t = time_of(objective, series);
    *value = t >= 0 ? series->mean[t] : NAN;
    *error = t >= 0 && series->error ? series->error[t] : NAN;
}
