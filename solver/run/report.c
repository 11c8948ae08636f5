#include "solver/run/report.h"
#include "solver/run/findings.h"
#include "solver/measure/stats.h"

#include <gsl/gsl_cdf.h>

int report_times(int T, int time[REPORT_TIMES]) {
    static const double share[REPORT_TIMES] = {0, 0.1, 0.25, 0.5, 0.75, 1};
    int count = 0;
    for (int k = 0; k < REPORT_TIMES; k++) {
        int t = (int)lround(share[k] * (T - 1));
        if (!count || t > time[count - 1])
            time[count++] = t;
    }
    return count;
}

void report_number(int width, int digits, double x) {
    if (isfinite(x))
        printf(" %*.*f", width - 1, digits, x);
    else
        printf(" %*s", width - 1, "-");
}

void report_fit(int degrees) {
    printf("chi^2 says how well a + b/N fits the widths, with %d degree%s of freedom: it is above "
           "%.1f for\none good fit in twenty. The rows of a column share their networks, so that "
           "they are no\nindependent tests.\n",
           degrees, degrees > 1 ? "s" : "", gsl_cdf_chisq_Qinv(0.05, degrees));
}

static void print_cell(double mean, double half) {
    char cell[64];
    if (isnan(mean))
        snprintf(cell, sizeof cell, "-");
    else if (isnan(half))
        snprintf(cell, sizeof cell, "%.5g", mean);
    else
        snprintf(cell, sizeof cell, "%.5g +- %.1g", mean, stats_shown(mean, half));
    printf("  %18s", cell);
}

/* Where the limit and each width are at t, `mean` being theirs. */
static void print_row(const struct run *run, int t, double *const *mean, double *const *se,
                      double round_off) {
    const struct int_list *widths = &run->config.reference.widths;
    int n = widths->count;
    struct stats_mean of[INT_LIST_MAX],
        limit = {mean[0] ? mean[0][t] : NAN, mean[0] ? se[0][t] : NAN, run->results.limit.runs};
    printf("%4d", t);
    print_cell(limit.value, stats_interval(limit.se, limit.runs - 1, 0.95));
    for (int i = 0; i < n; i++) {
        int reached = record_reached(&run->results.reference[i], t);
        of[i] = (struct stats_mean){mean[i + 1][t], se[i + 1][t], reached};
        print_cell(of[i].value, stats_interval(of[i].se, reached - 1, 0.95));
    }
    if (n >= 3 && t > 0) {
        struct stats_fit line = stats_extrapolate(widths->value, of, n);
        print_cell(line.a, stats_interval(line.se, line.freedom, 0.95));
        report_number(7, 1, line.se > round_off ? line.chi2 : NAN);
        report_number(7, 1,
                      hypot(line.se, limit.se) > round_off && !at_rest_of_limit(run)
                          ? stats_z(line, limit)
                          : NAN);
    }
    printf("\n");
}

/* Prints the table of a loss. Rows: times; columns: the limit, each width, the extrapolation in
 * 1/N, its chi^2 and its z. */
static int print_table(const struct run *run, const char *name, const char *title, int every,
                       struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    int n = widths->count, time[REPORT_TIMES], code = CODE_OK;
    int T = run->config.training.steps, count = report_times(T, time);
    double *mean[INT_LIST_MAX + 1] = {0}, *se[INT_LIST_MAX + 1];
    DO(record_average(&run->results.limit, name, &mean[0], &se[0], err));
    for (int i = 0; i < n; i++)
        DO(record_average(&run->results.reference[i], name, &mean[i + 1], &se[i + 1], err));
    double round_off = stats_round_off(mean, n + 1, (size_t)T);
    printf("%s, mean with 95 %% interval (Student's t)\n   t  %18s", title, "limit");
    for (int i = 0; i < n; i++)
        printf("  %13s %4d", "N =", widths->value[i]);
    printf(n >= 3 ? "  %18s%7s%7s\n" : "\n", "a + b/N, N -> inf", "chi^2", "z");
    for (int k = 0, last = -1; k < count; k++) {
        int t = time[k] - time[k] % every;
        if (t > last)
            print_row(run, t, mean, se, round_off);
        last = t;
    }
done:
    for (int i = 0; i <= n; i++)
        free(mean[i]);
    return code;
}

int report_tolerance(const struct run *run, struct err *err) {
    const struct record *record = &run->results.limit;
    const struct series *f = record_find(record, "f"), *loss = record_find(record, "loss");
    FREED(base_free) double *mean = NULL;
    double *se;
    if (!record->runs || run->config.solver.method != METHOD_MARCH)
        return CODE_OK;
    TRY(record_average(record, "f", &mean, &se, err));
    if (record_tolerance(record, f, mean)) {
        double f_most = stats_largest(mean, f->size);
        record_tolerance(record, loss, se);
        printf("tolerance: with a third of it the loss changes by up to %.2g and f by up to %.2g "
               "(replicate 0); the intervals contain this\n",
               stats_largest(se, loss->size), f_most);
    }
    return CODE_OK;
}

/* What the table shows of the gates. */
static void print_gates(const struct run *run) {
    struct condense gates;
    if (condense_find(&run->results.limit, run->gates_unbounded, &gates))
        printf("gates: participation ratio down to %.3f of its initial value (t = %d); largest "
               "gate %.3g times the mean\n",
               gates.lowest, gates.at, gates.peak);
}

int report_print(const struct run *run, struct err *err) {
    int n = run->config.reference.widths.count;
    TRY(print_table(run, "loss", "loss", 1, err));
    if (run->data.tests)
        TRY(print_table(run, "test_loss", "loss of the test inputs", run->config.output.test_every,
                        err));
    if (n >= 3)
        report_fit(n - 2);
    else if (n)
        printf("(give three widths or more for their extrapolation a + b/N, its chi^2 and z)\n");
    TRY(report_tolerance(run, err));
    print_gates(run);
    notes_print(&run->notes);
    return CODE_OK;
}
