#include "solver/run/findings.h"
#include "solver/measure/stats.h"

/* Rows that do not depend on t, of runs that went to the end; round-off of sums over sites. */
static bool is_constant(const struct record *record, const struct series *series) {
    size_t row = series->size / (size_t)record->T;
    for (int r = 0; r < record->runs; r++) {
        const double *first = record_at(record, series, r, 0);
        for (int t = 1; t < record->T; t++)
            for (size_t k = 0; k < row; k++) {
                double x = record_at(record, series, r, t)[k];
                if (!(fabs(x - first[k]) <= 1e-12 * fmax(1, fabs(first[k]))))
                    return false;
            }
    }
    return true;
}

static bool ends_with(const char *name, const char *with) {
    size_t length = strlen(name), end = strlen(with);
    return length >= end && !strcmp(name + length - end, with);
}

bool at_rest_of_limit(const struct run *run) {
    const struct record *limit = &run->results.limit;
    const struct series *f = limit->runs ? record_find(limit, "f") : NULL;
    if (!f || limit->T < 2 || !is_constant(limit, f))
        return false;
    const struct training *training = &run->config.training;
    bool decays = training->weight_decay > 0; /* and kernels with them */
    for (int k = 0; k < limit->count && !training->batches.size; k++) {
        const struct series *series = &limit->series[k];
        bool judged =
            !strcmp(series->name, "loss") || (ends_with(series->name, "_diag") && !decays);
        if (judged && !is_constant(limit, series))
            return false;
    }
    return true;
}

bool at_rest_of_networks(const struct run *run) {
    const struct record *networks = run->results.reference;
    int widths = run->config.reference.widths.count;
    for (int i = 0; i < widths; i++) {
        const struct series *loss = networks[i].runs ? record_find(&networks[i], "loss") : NULL;
        if (!loss || !is_constant(&networks[i], loss))
            return false;
    }
    return widths > 0;
}

/* Networks but number `out` (-1: all). */
static double half_time(const struct record *networks, const struct series *loss, int out) {
    double start = 0, before = 0;
    for (int t = 0; t < networks->T; t++) {
        double mean = 0;
        int count = 0;
        for (int r = 0; r < networks->runs; r++)
            if (r != out && networks->steps[r] > t) {
                mean += *record_at(networks, loss, r, t);
                count++;
            }
        mean /= count;
        if (!t)
            start = mean;
        else if (mean <= start / 2)
            return t - (start / 2 - mean) / (before - mean);
        before = mean;
    }
    return NAN;
}

void at_rest_escape(const struct record *networks, double *time, double *se) {
    const struct series *loss = record_find(networks, "loss");
    double sum = 0, squares = 0, n = networks->runs;
    *time = half_time(networks, loss, -1);
    *se = NAN;
    if (networks->runs < 2)
        return;
    for (int r = 0; r < networks->runs; r++) {
        double shift = half_time(networks, loss, r) - *time;
        sum += shift;
        squares += shift * shift;
    }
    double spread = squares - sum * sum / n; /* NaN: without one of them it is not reached */
    *se = sqrt((n - 1) / n * (spread < 0 ? 0 : spread));
}

int at_rest_tell(struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    int N[INT_LIST_MAX], count = 0;
    double time[INT_LIST_MAX], se[INT_LIST_MAX], slope, slope_se;
    TRY(notes_add(
        &run->notes, "rests", "limit", -1, 0, err,
        "the limit rests: it does not train at all, at any time, although networks do,\n  %s; the "
        "limit does not describe a network that has begun to learn, so no z is given",
        run->config.training.optimizer->matrices
            ? "because Muon takes full steps along gradients that vanish with the width"
            : "and wider networks later, as ln N"));
    for (int i = 0; i < widths->count; i++) {
        double *at = &time[count], *error = &se[count];
        at_rest_escape(&run->results.reference[i], at, error);
        if (isnan(*at))
            notes_more(&run->notes, "\n  N = %d: the mean loss has not fallen to half in %d steps",
                       widths->value[i], run->config.training.steps - 1);
        else if (isnan(*error))
            notes_more(&run->notes, "\n  N = %d: the mean loss has fallen to half at t = %.1f",
                       widths->value[i], *at);
        else
            notes_more(&run->notes,
                       "\n  N = %d: the mean loss has fallen to half at t = %.1f +- %.1f",
                       widths->value[i], *at, *error);
        if (!isnan(*at) && !isnan(*error))
            N[count++] = widths->value[i];
    }
    if (count < 2)
        return CODE_OK;
    stats_exponent(N, time, se, count, &slope, &slope_se);
    notes_more(&run->notes, "\n  slope in ln N: %.2f +- %.2f steps (standard errors)", slope,
               slope_se);
    return CODE_OK;
}
