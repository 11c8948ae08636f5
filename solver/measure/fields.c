#include "solver/measure/fields.h"
#include "models/engine/counts.h"

#include <gsl/gsl_sort_double.h>

const double fields_probability[FIELDS_PROBABILITIES] = {
    .001, .005, .01, .025, .05, .1, .15, .2, .25, .3,   .35, .4,   .45, .5,
    .55,  .6,   .65, .7,   .75, .8, .85, .9, .95, .975, .99, .995, .999};

enum part { QUANTILE, MEAN, SQUARE, SITE, PARTS };
static const struct {
    const char *suffix, *about, *equation, *dims[FIELDS_FORMS];
} part[PARTS] = {
    {"quantile", "quantiles over sites", "x_(1 + p (S - 1)) of S ordered sites",
     FIELDS_DIMS("at", " probability")},
    {"mean", "mean over sites", "<x>", FIELDS_DIMS("at", "")},
    {"square", "mean square over sites", "<x x>", FIELDS_DIMS("at", "")},
    {"site", "the first sites of the first run", "x_i", FIELDS_DIMS("at", " site")},
};

enum fields_form fields_form(const struct net *net, const struct named_rows *named) {
    if (named->for_all_inputs)
        return named->rows.count > 1 ? FIELDS_COLUMN : FIELDS_ONE;
    return named->rows.count > net->setup.data.P ? FIELDS_TOKEN : FIELDS_MU;
}

size_t *fields_shape(const struct net *net, const struct named_rows *named, size_t *shape) {
    enum fields_form form = fields_form(net, named);
    if (form == FIELDS_COLUMN)
        *shape++ = (size_t)named->rows.count;
    if (form == FIELDS_MU || form == FIELDS_TOKEN)
        *shape++ = (size_t)net->setup.data.P;
    if (form == FIELDS_TOKEN)
        *shape++ = (size_t)(named->rows.count / net->setup.data.P);
    return shape;
}

static int add_field(const struct declaring *d, const struct named_rows *named, enum part k,
                     struct err *err) {
    bool average = k == MEAN || k == SQUARE;
    struct series series = {
        SERIES_TEXT(part[k]),
        .dims = part[k].dims[fields_form(d->net, named)],
        .times = TIMES_FIELDS,
        .counted = average && counts_counted(d->net, named->node, named->gradient),
        .left_out = average && counts_left_out(d->net, named->node, named->gradient),
        .first_run = k == SITE};
    size_t *last = fields_shape(d->net, named, series.shape + 1);
    if (!average)
        *last = k == SITE ? (size_t)d->config->output.field_sites : FIELDS_PROBABILITIES;
    return series_add(d, k, series, err, "%s_%s", named->name, part[k].suffix);
}

void fields_axis(struct record *record) {
    record->probability = fields_probability;
    record->probabilities = FIELDS_PROBABILITIES;
}

void fields_quantiles(double *x, size_t sites, double *out) {
    gsl_sort(x, 1, sites);
    for (int k = 0; k < FIELDS_PROBABILITIES; k++) {
        double place = fields_probability[k] * (double)(sites - 1);
        size_t i = (size_t)place, next = i + 1 < sites ? i + 1 : i;
        out[k] = x[i] + (place - (double)i) * (x[next] - x[i]);
    }
}

/* Row `row` into the places out of all parts; some are NULL. x [sites]. */
static void measure_row(const struct named_rows *named, int row, size_t sites, double *x,
                        size_t kept, double *const *out) {
    double sum = 0, squares = 0;
    named->rows.array->backend->get(rows_part(named->rows, row, 1), x);
    for (size_t i = 0; i < sites; i++) {
        x[i] *= named->scale;
        sum += x[i];
        squares += x[i] * x[i];
    }
    out[MEAN][row] = sum / (double)sites;
    out[SQUARE][row] = squares / (double)sites;
    if (out[SITE])
        memcpy(out[SITE] + (size_t)row * kept, x, (kept < sites ? kept : sites) * sizeof *x);
    fields_quantiles(x, sites, out[QUANTILE] + row * FIELDS_PROBABILITIES);
}

/* The sites of one run are the first of the last axis. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct named_rows *named = &m->net->field_rows.item[m->item];
    size_t sites = named->rows.array->sites, kept = (size_t)m->config->output.field_sites;
    if (!out[QUANTILE]) /* not a time of [output] fields_at */
        return CODE_OK;
    SCRATCH(double, x, sites);
    for (int row = 0; row < named->rows.count; row++)
        measure_row(named, row, sites, x, kept, out);
    return CODE_OK;
}

int fields_declare(const struct declaring *d, struct err *err) {
    const struct output_settings *output = &d->config->output;
    struct record *record = d->record;
    struct int_list *at = &record->times[TIMES_FIELDS].list;
    if (!d->net->field_rows.count)
        return CODE_OK;
    *at = output->fields_at;
    if (!at->count)
        *at = (struct int_list){record->T > 1 ? 2 : 1, {0, record->T - 1}};
    fields_axis(record);
    for (int i = 0; i < d->net->field_rows.count; i++) {
        TRY(record_fill_by(record, fill, i, PARTS, err));
        for (enum part k = 0; k < PARTS; k++)
            if (k != SITE || output->field_sites)
                TRY(add_field(d, &d->net->field_rows.item[i], k, err));
    }
    return CODE_OK;
}
