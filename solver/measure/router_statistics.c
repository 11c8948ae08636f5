/* A router over many experts: [output] router. Of each row, the threshold tau of its logits psi
 * (the smallest of the share that is routed to) and ln S, S = <m exp(beta psi)> of a softmax; over
 * experts, quantiles of their loads, mean over rows of m/<m>, or of phi/<phi> where all are routed
 * to: 1 where all experts are alike. */
#include "solver/measure/fields.h"

#include <gsl/gsl_sort_double.h>

enum part { THRESHOLD, SUM, LOAD, PARTS };
static const struct series_text part[PARTS] = {
    {"gate_threshold", "threshold of the logits", "tau: the K-th largest psi"},
    {"gate_log_sum", "logarithm of the sum of a softmax", "ln <m exp(beta psi)>"},
    {"gate_load", "quantiles over experts of their loads, 1 where all are alike",
     "mean over inputs of m/<m>, or phi/<phi>; not over those whose gates are all 0"},
};

static bool selects_some(const struct net *net) {
    return net->gates.rule.share < 1;
}

/* Thresholds and sums need logits, which programs in Lua do not tell. */
static bool statistic_exists(const struct net *net, enum part k) {
    const struct gate_rule *rule = &net->gates.rule;
    if (k != LOAD && !net->gates.logits.array)
        return false;
    return k == THRESHOLD ? selects_some(net) && rule->by_logits : k == SUM ? rule->sum : true;
}

/* The K-th largest of x; sorted [sites]. */
static double threshold_of(const double *x, size_t sites, double share, double *sorted) {
    memcpy(sorted, x, sites * sizeof *x);
    gsl_sort(sorted, 1, sites);
    return sorted[sites - (size_t)lround(share * (double)sites)];
}

/* ln <m exp(beta x)>, m = 1 where phi > 0, or everywhere; without overflow. */
static double log_sum(const double *x, const double *phi, size_t sites,
                      const struct gate_rule *rule) {
    double largest = x[0], sum = 0;
    for (size_t i = 1; i < sites; i++)
        largest = fmax(largest, x[i]);
    for (size_t i = 0; i < sites; i++)
        sum += rule->over_all || phi[i] > 0 ? exp(rule->beta * (x[i] - largest)) : 0;
    return rule->beta * largest + log(sum / (double)sites);
}

/* Adds m/share, or phi/<phi>; false where all gates are 0, of an input that has no expert. */
static bool add_load(const double *phi, size_t sites, const struct net *net, double *load) {
    double mean = 0;
    bool any = false;
    for (size_t i = 0; i < sites; i++) {
        mean += phi[i] / (double)sites;
        any = any || phi[i] != 0;
    }
    for (size_t i = 0; i < sites && any; i++)
        load[i] += selects_some(net) ? (phi[i] > 0) / net->gates.rule.share : phi[i] / mean;
    return any;
}

static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct net *net = m->net;
    int counted = 0;
    const struct backend *backend = net->setup.backend;
    size_t sites = net->gates.rows.array->sites;
    SCRATCH(double, psi, 4 * sites);
    double *phi = psi + sites, *sorted = phi + sites, *load = sorted + sites;
    for (int row = 0; row < net->gates.rows.count; row++) {
        if (net->gates.logits.array)
            backend->get(rows_part(net->gates.logits, row, 1), psi);
        backend->get(rows_part(net->gates.rows, row, 1), phi);
        if (out[THRESHOLD])
            out[THRESHOLD][row] = threshold_of(psi, sites, net->gates.rule.share, sorted);
        if (out[SUM])
            out[SUM][row] = log_sum(psi, phi, sites, &net->gates.rule);
        counted += add_load(phi, sites, net, load);
    }
    for (size_t i = 0; i < sites; i++)
        load[i] /= counted;
    fields_quantiles(load, sites, out[LOAD]);
    return CODE_OK;
}

int router_statistics_declare(const struct declaring *d, struct err *err) {
    const struct net *net = d->net;
    size_t P = (size_t)net->setup.data.P, rows = (size_t)net->gates.rows.count;
    if (!net->setup.measure.router || !net->gates.present)
        return CODE_OK;
    fields_axis(d->record);
    TRY(record_fill_by(d->record, fill, 0, PARTS, err));
    for (enum part k = 0; k < PARTS; k++) {
        struct series series = {.dims = rows > P ? "t mu token" : "t mu",
                                SERIES_TEXT(part[k]),
                                .shape = {0, P, rows / P}};
        if (k == LOAD) {
            series.dims = "t probability";
            series.counted = selects_some(net);
            series.shape[1] = FIELDS_PROBABILITIES;
        }
        if (statistic_exists(net, k))
            TRY(series_add(d, k, series, err, "%s", part[k].name));
    }
    return CODE_OK;
}
