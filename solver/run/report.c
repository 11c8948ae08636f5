/* What the user reads at the end: the loss of the limit beside the networks, and whether a handful
 * of experts carries the average. */
#include "solver/run/report.h"
#include "solver/run/edge.h"
#include "solver/run/rest.h"
#include "solver/measure/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

static void print_cell(double mean, double half) {
    char cell[64];
    if (isnan(mean))
        snprintf(cell, sizeof cell, "-");
    else if (isnan(half))
        snprintf(cell, sizeof cell, "%.5g", mean);
    else
        snprintf(cell, sizeof cell, "%.5g +- %.1g", mean, half);
    printf("  %18s", cell);
}

/* Rows: times; columns: the limit, each width, the extrapolation in 1/N and its z-score. */
static int print_table(const struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    int n = widths->count, time[REPORT_TIMES], code = CODE_OK;
    int T = run->config.training.steps, count = report_times(T, time);
    bool rests = rest_of_limit(run);
    double *mean[INT_LIST_MAX + 1] = {0}, *se[INT_LIST_MAX + 1];
    DO(record_average(&run->limit, "loss", &mean[0], &se[0], err));
    for (int i = 0; i < n; i++)
        DO(record_average(&run->reference[i], "loss", &mean[i + 1], &se[i + 1], err));
    double round_off = stats_round_off(mean, n + 1, (size_t)T);
    printf("loss, mean with 95 %% interval (Student's t)\n   t  %18s", "limit");
    for (int i = 0; i < n; i++)
        printf("  %14s%4d", "N =", widths->value[i]);
    printf(n >= 3 ? "  %18s  %6s\n" : "\n", "a + b/N, N -> inf", "z");
    for (int k = 0; k < count; k++) {
        int t = time[k];
        double values[INT_LIST_MAX], errors[INT_LIST_MAX], a, a_se;
        printf("%4d", t);
        double limit = mean[0] ? mean[0][t] : NAN, limit_se = mean[0] ? se[0][t] : NAN;
        print_cell(limit, stats_interval(limit_se, run->limit.runs, 0.95));
        int least = run->config.reference.seeds;
        for (int i = 0; i < n; i++) {
            values[i] = mean[i + 1][t];
            errors[i] = se[i + 1][t];
            int reached = record_reached(&run->reference[i], t);
            least = reached < least ? reached : least;
            print_cell(values[i], stats_interval(errors[i], reached, 0.95));
        }
        if (n >= 3 && t > 0) {
            stats_extrapolate(widths->value, values, errors, n, &a, &a_se);
            print_cell(a, stats_interval(a_se, least, 0.95));
            double z_se = hypot(a_se, limit_se);
            if (z_se > round_off && !rests)
                printf("  %6.1f", (a - limit) / z_se);
        }
        printf("\n");
    }
    if (n == 1 || n == 2)
        printf("three widths or more would be extrapolated, as a + b/N\n");
done:
    for (int i = 0; i <= n; i++)
        free(mean[i]);
    return code;
}

bool report_gates(const struct record *record, struct report_gates *gates) {
    const struct series *pr = record_find(record, "gate_participation");
    const struct series *largest = record_find(record, "gate_largest");
    *gates = (struct report_gates){.lowest = 1};
    if (!pr)
        return false;
    int size = (int)pr->size, rows = size / (int)pr->shape[0];
    for (int r = 0; r < record->runs; r++) {
        const double *p = record_at(record, pr, r, 0), *l = record_at(record, largest, r, 0);
        for (int i = 0; i < size; i++) {
            if (p[i] / p[i % rows] < gates->lowest) {
                gates->lowest = p[i] / p[i % rows];
                gates->at = i / rows;
            }
            gates->peak = fmax(gates->peak, l[i]);
            gates->growth = fmax(gates->growth, l[i] / l[i % rows]);
        }
    }
    return true;
}

/* docs/method.md section 5; the program knows whether its gates are bounded. */
static int print_gates(const struct run *run, struct err *err) {
    struct report_gates gates;
    struct net_setup setup = run_setup(run, 0, 0);
    struct net net;
    if (!report_gates(&run->limit, &gates))
        return CODE_OK;
    setup.declare_only = true;
    int code = net_init(&net, &setup, err);
    bool unbounded = net.condenses;
    net_free(&net);
    if (code)
        return code;
    printf("gates: participation ratio down to %.3f of its initial value (t = %d); largest gate "
           "%.3g times the mean\n",
           gates.lowest, gates.at, gates.peak);
    if (unbounded && (gates.lowest < 0.75 || (gates.peak > 30 && gates.growth > 2)))
        printf("warning: a handful of experts carries the average: the limit is not self-averaging "
               "here, and the mean over replicates depends on expert_sites\n");
    else if (unbounded && gates.lowest < 0.9)
        printf("warning: gates are concentrating: standard errors may be too small and not fall as "
               "1/sqrt(sites); repeat with 4 times the expert_sites\n");
    return CODE_OK;
}

/* Of all replicates at the last step. */
static double most_of(const struct record *record, const char *name) {
    const struct series *series = record_find(record, name);
    double most = 0;
    for (int r = 0; series && r < record->runs; r++)
        most = fmax(most, *record_at(record, series, r, record->T - 1)); /* passes over NaN */
    return most;
}

/* docs/method.md section 4. */
static void print_room(const struct run *run) {
    double normals = most_of(&run->limit, "fallback"), share = most_of(&run->limit, "unmatched");
    if (share > REPORT_UNMATCHED)
        printf("warning: up to %g normals of a replicate were not fully matched, for want of "
               "sites, on one population %.2g for each of its sites: biases may be several "
               "standard errors; repeat with twice the sites, or with [solver] halves = yes\n",
               normals, share);
    else if (normals > 0)
        printf("note: up to %g normals of a replicate were not fully matched, for want of sites "
               "(more sites give smaller errors and biases)\n",
               normals);
}

/* Of all entries. */
static double largest(const double *values, size_t size) {
    double most = 0;
    for (size_t k = 0; k < size; k++)
        most = fmax(most, fabs(values[k])); /* passes over NaN */
    return most;
}

int report_tolerance(const struct run *run, struct err *err) {
    const struct record *record = &run->limit;
    const struct series *f = record_find(record, "f"), *loss = record_find(record, "loss");
    double *mean = NULL, *se;
    if (!record->runs || run->config.solver.method != METHOD_MARCH)
        return CODE_OK;
    TRY(record_average(record, "f", &mean, &se, err));
    bool noiseless = record->runs > 1 && largest(se, f->size) <= 1e-8 * largest(mean, f->size);
    if (record_tolerance(record, f, mean)) {
        double f_most = largest(mean, f->size);
        record_tolerance(record, loss, se);
        printf("tolerance: a third of it changes the loss by up to %.2g and f by up to %.2g "
               "(replicate 0); the intervals contain it\n",
               largest(se, loss->size), f_most);
    } else if (noiseless && largest(mean, f->size) > 0)
        printf("warning: the limit has no sampling error here, and its intervals leave out what "
               "[solver] tolerance does;\n  check_tolerance = yes adds that\n");
    free(mean);
    return CODE_OK;
}

void report_failures(const struct run *run) {
    const struct int_list *widths = &run->config.reference.widths;
    for (int i = 0; i < widths->count; i++) {
        const struct record *record = &run->reference[i];
        int first, failed = record_failures(record, &first);
        if (failed)
            printf(
                "note: %d of %d networks of N = %d failed and count until then; the first:\n  %s\n",
                failed, record->runs, widths->value[i], record->failure.text);
    }
}

int report_print(const struct run *run, struct err *err) {
    TRY(print_table(run, err));
    rest_print(run);
    TRY(edge_print(run, err));
    report_failures(run);
    TRY(report_tolerance(run, err));
    print_room(run);
    return print_gates(run, err);
}
