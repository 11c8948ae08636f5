/* Networks against the limit. Everything is fitted entry by entry. */
#include "solver/study/compare.h"
#include "solver/run/findings.h"
#include "solver/measure/stats.h"

/* --- fits ------------------------------------------------------------------------------------ */

enum { INF, INF_SE, CHI2, Z, APPROACH, APPROACH_SE, APPROACH_N, FITS };
static const struct series_text fit[FITS] = {
    {"inf", "extrapolated to infinite width by least squares, widths weighted by N",
     "a of a + b/N"},
    {"inf_se", "standard error of the extrapolated value", ""},
    {"chi2",
     "how badly a + b/N fits: chi^2, with two degrees of freedom fewer than there are widths; NaN "
     "with fewer than 3 widths",
     "chi^2 as rare as F, the weighted sum of (network - a - b/N)^2 over what their errors let "
     "expect"},
    {"z",
     "extrapolated networks against the limit; NaN with fewer than 3 widths or 2 replicates, and "
     "where the limit rests",
     "normal number as rare as Student's t = (a - limit) / sqrt(se_a^2 + se_limit^2)"},
    {"approach", "exponent of the approach to the limit, by weighted least squares",
     "slope of ln |network - limit| in ln N"},
    {"approach_se", "standard error of the exponent", ""},
    {"approach_n", "widths that the exponent is from: difference beyond twice its error", ""},
};

bool compare_is_term(const char *name) {
    return !strncmp(name, "rms_", 4);
}

/* Whether it may go as a power of N although it is no part of a signal: the norm of a gradient,
 * which where it is right is of order one at every width. */
static bool is_norm(const char *name) {
    return !strncmp(name, "gradient_norm_", strlen("gradient_norm_"));
}

/* A series like another one, with values of one run. */
static int add_series(struct record *record, const struct series *like, const char *suffix,
                      const char *about, const char *equation, double **values, struct err *err) {
    struct series series = *like;
    snprintf(series.name, sizeof series.name, "%.80s_%s", like->name, suffix);
    series.about = about;
    series.equation = equation;
    series.keep_runs = false;
    TRY(record_add(record, series, err));
    *values = record->series[record->count - 1].values;
    return CODE_OK;
}

/* Entry k of all fits; mean: of the networks of each width and, behind them, of the limit, NaN
 * where nothing is to be compared with it; least: of round-off. */
static void fit_entry(const struct int_list *widths, const struct stats_mean *mean, size_t k,
                      double least, double *const out[FITS]) {
    int n = widths->count;
    double gap[INT_LIST_MAX], known[INT_LIST_MAX];
    double limit = mean[n].value, limit_se = mean[n].se;
    for (int i = 0; i < n; i++) {
        gap[i] = mean[i].value - limit;
        known[i] = hypot(mean[i].se, limit_se) > least ? mean[i].se : NAN;
    }
    struct stats_fit line = {NAN, NAN, NAN, NAN};
    if (n >= 2)
        line = stats_extrapolate(widths->value, mean, n);
    out[INF][k] = line.a;
    out[INF_SE][k] = line.se;
    out[CHI2][k] = line.se > least ? line.chi2 : NAN;
    out[Z][k] = n >= 3 && hypot(line.se, limit_se) > least ? stats_z(line, mean[n]) : NAN;
    out[APPROACH_N][k] = stats_approach(widths->value, gap, known, limit_se, n, &out[APPROACH][k],
                                        &out[APPROACH_SE][k]);
}

static int fit_series(const struct run *run, const struct series *series, struct record *record,
                      struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    int n = widths->count, code = CODE_OK;
    FREED(base_free) double *spare = NULL;
    double *mean[INT_LIST_MAX + 1] = {0}, *se[INT_LIST_MAX + 1] = {0}, *out[FITS];
    for (int i = 0; i < n; i++)
        DO(record_average(&run->results.reference[i], series->name, &mean[i], &se[i], err));
    if (!at_rest_of_limit(run))
        DO(record_average(&run->results.limit, series->name, &mean[n], &se[n], err));
    DO(base_alloc(&spare, series->size, sizeof *spare, err));
    for (int f = 0; f < FITS; f++)
        if (series->no_error_law && f != INF && f != INF_SE)
            out[f] = spare;
        else
            DO(add_series(record, series, fit[f].name, fit[f].about, fit[f].equation, &out[f],
                          err));
    double least = stats_round_off(mean, n + 1, series->size);
    for (size_t k = 0; k < series->size; k++) {
        struct stats_mean of[INT_LIST_MAX + 1];
        int t = record_time(record, series, k / (series->size / series->shape[0]));
        for (int i = 0; i <= n; i++) {
            const struct record *runs = i < n ? &run->results.reference[i] : &run->results.limit;
            of[i] = mean[i] ? (struct stats_mean){mean[i][k], se[i][k], record_reached(runs, t)}
                            : (struct stats_mean){NAN, NAN, 0};
        }
        fit_entry(widths, of, k, least, out);
    }
done:
    for (int i = 0; i <= n; i++)
        free(mean[i]);
    return code;
}

/* Mean over the runs that reached t of the logarithm, and its standard error, NaN for one run. */
static void log_average(const struct record *record, const char *name, int t, double *mean,
                        double *se) {
    const struct series *series = record_find(record, name);
    double sum = 0, squares = 0, runs = record_reached(record, t);
    for (int r = 0; r < record->runs; r++)
        if (record->steps[r] > t)
            sum += log(*record_at(record, series, r, t)) / runs;
    for (int r = 0; r < record->runs; r++)
        if (record->steps[r] > t)
            squares += pow(log(*record_at(record, series, r, t)) - sum, 2);
    *mean = runs > 0 ? sum : NAN;
    *se = runs > 1 ? sqrt(squares / (runs * (runs - 1))) : NAN;
}

/* Parts of signals and norms of gradients may go as any power of N. */
static int fit_power(const struct run *run, const struct series *series, struct record *record,
                     struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    double value[INT_LIST_MAX], error[INT_LIST_MAX], *exponent, *se;
    if (widths->count < 2)
        return CODE_OK;
    TRY(add_series(
        record, series, "exponent", "width exponent; NaN where it is exactly zero",
        "slope of the mean over networks of its logarithm in ln N, all widths of one weight",
        &exponent, err));
    TRY(add_series(
        record, series, "exponent_se",
        "standard error of the exponent: of the residuals or of the networks, the larger", "", &se,
        err));
    for (int t = 0; t < record->T; t++) {
        for (int i = 0; i < widths->count; i++)
            log_average(&run->results.reference[i], series->name, t, &value[i], &error[i]);
        stats_exponent(widths->value, value, error, widths->count, &exponent[t], &se[t]);
    }
    return CODE_OK;
}

/* How the variance of f goes with N, at each time. */
static int fit_variance(const struct run *run, struct record *record, struct err *err) {
    const struct series like = {.name = "f", .dims = "t", .axes = 1, .shape = {(size_t)record->T}};
    double *exponent, *se;
    if (!record_find(&run->results.reference[0], "f"))
        return CODE_OK;
    TRY(add_series(record, &like, "variance_exponent",
                   "width exponent of the variance of f over networks, summed over its entries; "
                   "1/N, but for the edge of stability",
                   "slope of ln V in ln N, all widths of one weight", &exponent, err));
    TRY(add_series(
        record, &like, "variance_exponent_se",
        "standard error of the exponent: of the residuals or of the networks, the larger", "", &se,
        err));
    for (int t = 0; t < record->T; t++)
        TRY(stability_exponent(run, t, t + 1, &exponent[t], &se[t], err));
    return CODE_OK;
}

int compare_fit(const struct run *run, struct comparison *comparison, struct err *err) {
    const struct record *networks = &run->results.reference[0];
    struct record *record = &comparison->record;
    TRY(record_init(record, 1, networks->T, err));
    record->steps[0] = networks->T;
    record->times[TIMES_FIELDS] = networks->times[TIMES_FIELDS];
    record->probability = networks->probability;
    record->probabilities = networks->probabilities;
    for (int k = 0; k < networks->count; k++) {
        const struct series *series = &networks->series[k];
        if (!record_averages(series))
            continue;
        bool term = compare_is_term(series->name);
        if (!term)
            TRY(fit_series(run, series, record, err));
        if (term || is_norm(series->name))
            TRY(fit_power(run, series, record, err));
    }
    return fit_variance(run, record, err);
}

/* --- runs ------------------------------------------------------------------------------------ */

static int configure_side(struct compare *compare, int k, const char *file, int overrides,
                          char *const *override, struct err *err) {
    struct run *run = &compare->run[k];
    const char *name;
    run->share.side = k + 1;
    TRY(run_configure(run, file, overrides, override, err));
    const char *model = run->config.network.model->name;
    if (!run->config.reference.widths.count)
        return params_error(&run->params, "reference", "widths", err,
                            "dmft-compare needs networks to compare with");
    name = network_other_keys(model, "parameterization")
               ? model
               : params_find(&run->params, "network", "parameterization")->text;
    snprintf(compare->side[k].name, sizeof compare->side[k].name, "%s", name);
    snprintf(run->share.prefix, sizeof run->share.prefix, "%s/", name);
    return CODE_OK;
}

int compare_configure(struct compare *compare, const char *file, int overrides,
                      char *const *override, struct err *err) {
    compare->count = 1;
    for (int k = 0; k < compare->count; k++) {
        TRY(configure_side(compare, k, file, overrides, override, err));
        compare->count = compare->run[0].config.network.parameterizations.count;
    }
    return CODE_OK;
}

static int write_fits(struct run *run, struct comparison *side, struct err *err) {
    TRY(compare_fit(run, side, err));
    if (!run->io_open) /* ranks but 0 */
        return CODE_OK;
    TRY(io_axes(&run->io, "compare", &side->record, err));
    bool edge;
    TRY(stability_reached(run, &edge, err));
    TRY(io_attribute(&run->io, "compare", "edge_of_stability", edge, err));
    for (int s = 0; s < side->record.count; s++)
        TRY(io_series(&run->io, "compare", &side->record.series[s], err));
    return io_flush(&run->io, err);
}

static int run_side(struct compare *compare, int k, const char *output, bool force,
                    struct err *err) {
    struct run *run = &compare->run[k];
    struct comparison *side = &compare->side[k];
    if (k) { /* the file goes from side to side */
        run->io = compare->run[k - 1].io;
        run->io_open = compare->run[k - 1].io_open;
        compare->run[k - 1].io_open = false;
    }
    log_line(&run->log, "%s", side->name);
    TRY(run_open(run, output, force, err));
    int code = run_march(run, err);
    if (code && code != CODE_NUMERICAL)
        return code;
    struct err other;
    int written = write_fits(run, side, code ? &other : err);
    return code ? code : written;
}

/* After a numerical failure of one side the others are run all the same. */
int compare_run(struct compare *compare, const char *output, bool force, struct err *err) {
    int code = CODE_OK;
    for (int k = 0; k < compare->count; k++) {
        struct err mine;
        int failed = run_side(compare, k, output, force, &mine);
        if (failed && (!code || failed != CODE_NUMERICAL)) {
            bool name = failed == CODE_NUMERICAL;
            code = err_set(err, failed, "%s%s%.1900s", name ? compare->side[k].name : "",
                           name ? ": " : "", mine.text);
        }
        if (code && code != CODE_NUMERICAL)
            return code;
    }
    return code ? code : run_finish(&compare->run[compare->count - 1], force, err);
}

void compare_free(struct compare *compare) {
    for (int k = 0; k < COMPARE_MOST; k++) {
        run_free(&compare->run[k]);
        record_free(&compare->side[k].record);
    }
}
