/* How many sites of a limit carry its feature kernels. Where units multiply rows by each other, or
 * learn fast, a few of them come to hold a whole average, which then depends on the draw: the limit
 * is not self-averaging (solver/run/condense.c judges). The series `carriers` [t] is of limits
 * whose kernels are measured. */
#include "solver/measure/instrument.h"

enum { MOST_ROWS = 16, MOST_NUMBERS = 1 << 19 };

int carriers_rows(const struct array *array) {
    size_t rows = MOST_NUMBERS / array->sites;
    return rows < 1 ? 1 : rows < MOST_ROWS ? (int)rows : MOST_ROWS;
}

/* <x^2> and <x^4> of each row, a few rows at a time. */
static int find_moments(struct rows x, double *second, double *fourth, struct err *err) {
    const struct backend *backend = x.array->backend;
    FREED(array_free) struct array squares = {0};
    int rows = carriers_rows(x.array);
    TRY(array_init(&squares, backend, x.array->sites, x.array->group, rows, err));
    for (int k = 0; k < x.count; k += rows) {
        int some = x.count - k < rows ? x.count - k : rows;
        struct rows part = rows_part(x, k, some), square = {&squares, 0, some};
        rows_multiply(part, part, square);
        backend->averages(part, part, second + k);
        backend->averages(square, square, fourth + k);
    }
    return CODE_OK;
}

/* S <x^2>^2 / <x^4>, S the number of sites: as many equal ones would have the same ratio. A row of
 * zeros counts as equal; NaN stays. */
static void keep_fewest(double S, double second, double fourth, double *least) {
    double carried = fourth ? S * (second / fourth * second) : S;
    *least = isnan(carried) || carried < *least ? carried : *least;
}

/* Not those that a setting asks for: the number is of the network, whatever else is measured. */
static bool is_carried(const struct kernel *kernel) {
    return !kernel->gradient && !kernel->for_all_inputs && !kernel->as_it_is;
}

/* Second moments, and behind them the fourth, kernel by kernel. */
static int ask(const struct measuring *m, struct err *err) {
    double *room = m->room;
    for (int k = 0; k < m->net->kernels.count; k++) {
        struct rows x = m->net->kernels.item[k].rows;
        if (!is_carried(&m->net->kernels.item[k]))
            continue;
        TRY(find_moments(x, room, room + x.count, err));
        room += 2 * x.count;
    }
    return CODE_OK;
}

static int fill(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const double *room = m->room;
    *out[0] = INFINITY;
    for (int k = 0; k < m->net->kernels.count; k++) {
        struct rows x = m->net->kernels.item[k].rows;
        double S = (double)x.array->sites;
        if (!is_carried(&m->net->kernels.item[k]))
            continue;
        *out[0] = S < *out[0] ? S : *out[0];
        for (int n = 0; n < x.count; n++)
            keep_fewest(S, room[n], room[x.count + n], out[0]);
        room += 2 * x.count;
    }
    return CODE_OK;
}

int carriers_declare(const struct declaring *d, struct err *err) {
    size_t rows = 0;
    for (int k = 0; k < d->net->kernels.count; k++)
        rows +=
            is_carried(&d->net->kernels.item[k]) ? (size_t)d->net->kernels.item[k].rows.count : 0;
    if (d->net->setup.N || !d->config->output.kernels || !rows)
        return CODE_OK;
    TRY(record_fill_by(d->record, fill, 0, 1, err));
    record_ask_by(d->record, ask, 2 * rows, true);
    return SERIES_ADD(
        d, 0, "carriers", .dims = "t", .computation = true,
        .about = "sites that carry a feature kernel x, of the one and the input with fewest",
        .equation = "number of sites times <x^2>^2 / <x^4>");
}
