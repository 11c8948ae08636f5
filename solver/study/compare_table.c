/* What dmft-compare says on standard output. */
#include "solver/study/compare.h"
#include "solver/run/report.h"
#include "solver/measure/stats.h"

#include <gsl/gsl_sort_double.h>

/* "0.42338 +- 7e-05", digits down to the error's; after a blank at least. */
static void print_value(int width, double mean, double se) {
    se = stats_shown(mean, se);
    int digits = se > 0 ? (int)fmin(fmax(ceil(-log10(se)), 0), 6) : 4;
    char cell[64];
    if (isnan(mean))
        snprintf(cell, sizeof cell, "-");
    else if (isnan(se))
        snprintf(cell, sizeof cell, "%.5g", mean);
    else
        snprintf(cell, sizeof cell, "%.*f +- %.1g", digits, mean, se);
    printf(" %*s", width - 1, cell);
}

/* " -0.98 +- 0.03". */
static void print_exponent(double exponent, double se) {
    char cell[64];
    if (isnan(exponent))
        snprintf(cell, sizeof cell, "-");
    else if (isnan(se))
        snprintf(cell, sizeof cell, "%+.2f", exponent);
    else
        snprintf(cell, sizeof cell, "%+.2f +- %.2f", exponent, se);
    printf(" %13s", cell);
}

/* The value of the first entry at t. */
static double value_of(const struct record *record, const char *name, const char *suffix, int t) {
    char full[2 * SERIES_NAME];
    snprintf(full, sizeof full, "%s_%s", name, suffix);
    const struct series *series = record_find(record, full);
    return series ? *record_at(record, series, 0, t) : NAN;
}

/* A loss of the limit, the narrowest and the widest networks, and where they all tend; every: 0, or
 * of test inputs, from which time to which these are measured. */
static int print_loss(const struct run *run, const struct comparison *side, const char *name,
                      int every, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    const struct record *fits = &side->record;
    int time[REPORT_TIMES], count = report_times(fits->T, time), last = widths->count - 1;
    const struct record *const shown[] = {&run->results.limit, &run->results.reference[0],
                                          &run->results.reference[last]};
    double *mean[3] = {0}, *se[3];
    int code = CODE_OK;
    int columns = last ? 3 : 2;
    for (int i = 0; i < columns; i++)
        DO(record_average(shown[i], name, &mean[i], &se[i], err));
    printf("\n%s: %s, mean +- standard error; exponent of |network - limit| in N\n   t%17s",
           side->name, every ? "loss of the test inputs" : "loss", "limit");
    for (int i = 1; i < columns; i++)
        printf(" %12s %4d", "N =", widths->value[i == 1 ? 0 : last]);
    printf("%18s%6s%5s%14s\n", "a + b/N, N -> inf", "chi^2", "z", "exponent");
    for (int k = 0, before = -1; k < count; k++) {
        int t = every ? time[k] - time[k] % every : time[k];
        if (t == before)
            continue;
        before = t;
        printf("%4d", t);
        for (int i = 0; i < columns; i++)
            print_value(i ? 18 : 17, mean[i] ? mean[i][t] : NAN, mean[i] ? se[i][t] : NAN);
        print_value(18, value_of(fits, name, "inf", t), value_of(fits, name, "inf_se", t));
        report_number(6, 1, value_of(fits, name, "chi2", t));
        report_number(5, 1, value_of(fits, name, "z", t));
        print_exponent(value_of(fits, name, "approach", t), value_of(fits, name, "approach_se", t));
        printf("\n");
    }
done:
    for (int i = 0; i < 3; i++)
        free(mean[i]);
    return code;
}

static int print_side(const struct run *run, const struct comparison *side, struct err *err) {
    int widths = run->config.reference.widths.count;
    TRY(print_loss(run, side, "loss", 0, err));
    if (run->data.tests)
        TRY(print_loss(run, side, "test_loss", run->config.output.test_every, err));
    if (widths >= 3)
        report_fit(widths - 2);
    TRY(report_tolerance(run, err));
    notes_print(&run->notes);
    return CODE_OK;
}

/* Numbers of z and approach over all entries of a quantity. */
struct summary {
    double rms, largest, exponent; /* of z; median exponent */
    int at, fitted, entries;       /* time of the largest z; entries with an exponent, and all */
};

static int summarise_fits(const struct record *fits, const char *name, struct summary *summary,
                          struct err *err) {
    char full[2][2 * SERIES_NAME];
    snprintf(full[0], sizeof full[0], "%s_z", name);
    snprintf(full[1], sizeof full[1], "%s_approach", name);
    const struct series *z = record_find(fits, full[0]), *approach = record_find(fits, full[1]);
    double squares = 0;
    int judged = 0;
    *summary = (struct summary){NAN, NAN, NAN, 0, 0, (int)z->size};
    SCRATCH(double, finite, z->size);
    for (size_t k = 0; k < z->size; k++) {
        if (isfinite(approach->values[k]))
            finite[summary->fitted++] = approach->values[k];
        if (!isfinite(z->values[k]))
            continue;
        squares += z->values[k] * z->values[k];
        if (!judged++ || fabs(z->values[k]) > summary->largest) {
            summary->largest = fabs(z->values[k]);
            summary->at = record_time(fits, z, k / (z->size / z->shape[0]));
        }
    }
    if (judged)
        summary->rms = sqrt(squares / judged);
    gsl_sort(finite, 1, (size_t)summary->fitted);
    if (summary->fitted)
        summary->exponent = 0.5 * (finite[(summary->fitted - 1) / 2] + finite[summary->fitted / 2]);
    return CODE_OK;
}

static void print_summary(const struct summary *s) {
    char at[16] = "", of[24];
    if (isfinite(s->largest))
        snprintf(at, sizeof at, "(%d)", s->at);
    snprintf(of, sizeof of, "(%d/%d)", s->fitted, s->entries);
    report_number(8, 1, s->rms);
    report_number(7, 1, s->largest);
    printf(" %4s", at);
    report_number(10, 2, s->exponent);
    printf(" %9s", of);
}

/* Whether a side has fits of this quantity: NAME_z, or of a term NAME_exponent. */
static bool has_fits(const struct comparison *side, const char *name, const char *suffix) {
    char full[2 * SERIES_NAME];
    snprintf(full, sizeof full, "%s_%s", name, suffix);
    return record_find(&side->record, full) != NULL;
}

typedef int print_fits(const struct compare *compare, const char *name, struct err *err);
/* A line of each quantity that some side has such fits of, of all sides. */
static int print_lines(const struct compare *compare, const char *suffix, print_fits *print,
                       struct err *err) {
    for (int k = 0; k < compare->count; k++) {
        const struct record *networks = &compare->run[k].results.reference[0];
        for (int q = 0; q < networks->count; q++) {
            const char *name = networks->series[q].name;
            int first = 0;
            while (!has_fits(&compare->side[first], name, suffix) && first < k)
                first++;
            if (first == k && has_fits(&compare->side[k], name, suffix))
                TRY(print(compare, name, err));
        }
    }
    return CODE_OK;
}

static int print_quantity(const struct compare *compare, const char *name, struct err *err) {
    struct summary summary;
    printf("%-19s ", name);
    for (int k = 0; k < compare->count; k++)
        if (has_fits(&compare->side[k], name, "z")) {
            TRY(summarise_fits(&compare->side[k].record, name, &summary, err));
            print_summary(&summary);
        } else {
            printf("%40s", "-");
        }
    printf("\n");
    return CODE_OK;
}

/* Quantities of all sides down, parameterizations across. */
static int print_quantities(const struct compare *compare, struct err *err) {
    printf("\nover all entries: z of the extrapolated networks against the limit, rms and largest "
           "(at t);\nmedian exponent of |network - limit| (entries that gave one)\n%-20s",
           "");
    for (int k = 0; k < compare->count; k++)
        printf("%8s%*s", compare->side[k].name, k < compare->count - 1 ? 32 : 0, "");
    printf("\n%-20s", "");
    for (int k = 0; k < compare->count; k++)
        printf("%8s%12s%20s", "rms z", "max z (t)", "exponent (entries)");
    printf("\n");
    return print_lines(compare, "z", print_quantity, err);
}

/* The first time at which the term is there, or the last one. */
static int early_time(const struct record *fits, const char *name) {
    int t = fits->T > 1 ? 1 : 0;
    while (t < fits->T - 1 && isnan(value_of(fits, name, "exponent", t)))
        t++;
    return t;
}

static int print_term(const struct compare *compare, const char *name, struct err *err) {
    if (!compare_is_term(name))
        return CODE_OK;
    printf("%-13s ", name + strlen("rms_"));
    for (int k = 0; k < compare->count; k++) {
        const struct record *fits = &compare->side[k].record;
        int T = fits->T, t = early_time(fits, name);
        double *limit = NULL, *se;
        for (int i = 0; i < 2; i++, t = T - 1)
            print_exponent(value_of(fits, name, "exponent", t),
                           value_of(fits, name, "exponent_se", t));
        TRY(record_average(&compare->run[k].results.limit, name, &limit, &se, err));
        report_number(9, 4, limit ? limit[T - 1] : NAN);
        free(limit);
    }
    printf("\n");
    return CODE_OK;
}

static int print_terms(const struct compare *compare, struct err *err) {
    const struct record *networks = &compare->run[0].results.reference[0];
    printf("\ncoordinate check: exponents of the rms in N, early (when the term first exists) and "
           "late (t = %d),\nand its late limit; -: exactly zero, or unknown\n%-14s",
           networks->T - 1, "");
    for (int k = 0; k < compare->count; k++)
        printf("%14s%*s", compare->side[k].name, k < compare->count - 1 ? 23 : 0, "");
    printf("\n%-14s", "");
    for (int k = 0; k < compare->count; k++)
        printf("%14s%14s%9s", "early", "late", "limit");
    printf("\n");
    return print_lines(compare, "exponent", print_term, err);
}

int compare_table_print(const struct compare *compare, struct err *err) {
    const struct config *config = &compare->run[0].config;
    bool z = config->reference.widths.count >= 3 && config->solver.replicates >= 2;
    if (!z)
        printf("\nno z and no exponent of |network - limit|: they need at least three widths and "
               "two replicates\n");
    for (int k = 0; k < compare->count; k++)
        TRY(print_side(&compare->run[k], &compare->side[k], err));
    if (z)
        TRY(print_quantities(compare, err));
    if (config->reference.coordinate_check && config->reference.widths.count > 1)
        TRY(print_terms(compare, err));
    return CODE_OK;
}
