#include "solver/run/findings.h"
#include "solver/measure/stats.h"

/* A standard deviation below this share of rms f tells nothing. */
static const double least = 1e-6;
enum { FEWEST = 4 };

/* ln V at t of the networks that reached it, V the variance summed over the entries of f: of all of
 * them into value[0], and without run r into value[1 + r], which for a run that did not reach t is
 * the same. NaN where this is round-off. */
static void log_variances(const struct record *record, const struct series *f, int t,
                          double *value) {
    size_t row = f->size / f->shape[0];
    double n = record_reached(record, t), squares = 0, all = 0;
    for (int r = 0; r < record->runs; r++)
        value[1 + r] = 0;
    for (size_t k = 0; k < row; k++) {
        double mean = 0;
        for (int r = 0; r < record->runs; r++)
            if (record->steps[r] > t)
                mean += record_at(record, f, r, t)[k] / n;
        squares += mean * mean;
        for (int r = 0; r < record->runs; r++)
            if (record->steps[r] > t) {
                double d = record_at(record, f, r, t)[k] - mean;
                all += d * d;
                value[1 + r] += d * d * n / (n - 1);
            }
    }
    bool tells = n >= FEWEST && all / n > least * least * squares;
    value[0] = tells ? log(all / (n - 1)) : NAN;
    for (int r = 0; r < record->runs; r++)
        value[1 + r] = record->steps[r] > t ? log((all - value[1 + r]) / (n - 2)) : value[0];
}

/* Mean over `times` of ln V and its jackknife error over the networks that reached the first of
 * these times; sum[1 + runs]: of log_variances. */
static void log_variance(const struct record *record, const double *sum, int times, int first_time,
                         double *mean, double *se) {
    double n = record_reached(record, first_time), first = 0, second = 0;
    for (int r = 0; r < record->runs; r++) {
        if (record->steps[r] <= first_time)
            continue;
        double shift = (sum[1 + r] - sum[0]) / times;
        first += shift / n;
        second += shift * shift / n;
    }
    *mean = sum[0] / times;
    *se = sqrt((n - 1) * fmax(second - first * first, 0));
}

int stability_exponent(const struct run *run, int first, int end, double *exponent, double *se,
                       struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    double mean[INT_LIST_MAX], error[INT_LIST_MAX];
    int n = widths->count, runs = run->config.reference.seeds, times = 0, told = first;
    size_t each = (size_t)runs + 1;
    *exponent = *se = NAN;
    if (n < 2)
        return CODE_OK;
    SCRATCH(double, sum, each *(size_t)n);
    SCRATCH(double, now, each *(size_t)n);
    for (int t = first; t < end; t++) {
        bool tells = true;
        for (int i = 0; i < n; i++) {
            const struct record *record = &run->results.reference[i];
            const struct series *f = record_find(record, "f");
            if (!f)
                return CODE_OK;
            log_variances(record, f, t, now + (size_t)i * each);
            tells = tells && isfinite(now[(size_t)i * each]);
        }
        told = times ? told : t;
        times += tells;
        for (size_t k = 0; k < each * (size_t)n && tells; k++)
            sum[k] += now[k];
    }
    for (int i = 0; i < n && times; i++)
        log_variance(&run->results.reference[i], sum + (size_t)i * each, times, told, &mean[i],
                     &error[i]);
    if (times)
        stats_exponent(widths->value, mean, error, n, exponent, se);
    return CODE_OK;
}

int stability_reached(const struct run *run, bool *reached, struct err *err) {
    int T = run->config.training.steps;
    double exponent, se;
    TRY(stability_exponent(run, T / 2, T, &exponent, &se, err));
    *reached = exponent > -0.5 && exponent + 1 > 3 * se;
    return CODE_OK;
}
