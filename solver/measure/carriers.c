#include "solver/measure/carriers.h"

enum { MOST_ROWS = 16, MOST_NUMBERS = 1 << 19 };

int carriers_rows(const struct array *array) {
    size_t rows = MOST_NUMBERS / array->sites;
    return rows < 1 ? 1 : rows < MOST_ROWS ? (int)rows : MOST_ROWS;
}

/* <x^2> and <x^4> of each row, which come with the end of a hold. A few rows at a time. */
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

static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct net *net = m->net;
    const struct kernel *kernel = net->kernels.item;
    int rows = 0, first = 0, code = CODE_OK;
    *out[0] = INFINITY;
    for (int k = 0; k < net->kernels.count; k++)
        rows += is_carried(&kernel[k]) ? kernel[k].rows.count : 0;
    SCRATCH(double, second, 2 * (size_t)rows);
    double *fourth = second + rows;
    backend_hold(net->setup.backend, true);
    for (int k = 0; k < net->kernels.count; k++)
        if (is_carried(&kernel[k])) {
            DO(find_moments(kernel[k].rows, second + first, fourth + first, err));
            first += kernel[k].rows.count;
        }
    backend_hold(net->setup.backend, false);
    for (int k = 0, n = 0; k < net->kernels.count; k++)
        if (is_carried(&kernel[k])) {
            double S = (double)kernel[k].rows.array->sites;
            *out[0] = S < *out[0] ? S : *out[0];
            for (int end = n + kernel[k].rows.count; n < end; n++)
                keep_fewest(S, second[n], fourth[n], out[0]);
        }
done:
    backend_hold(net->setup.backend, false);
    return code;
}

int carriers_declare(const struct declaring *d, struct err *err) {
    const struct series carriers = {
        .dims = "t",
        .about = "sites that carry a feature kernel x, of the one and the input with fewest",
        .equation = "number of sites times <x^2>^2 / <x^4>",
        .computation = true};
    bool some = false;
    for (int k = 0; k < d->net->kernels.count; k++)
        some = some || is_carried(&d->net->kernels.item[k]);
    if (d->net->setup.N || !d->config->output.kernels || !some)
        return CODE_OK;
    TRY(record_fill_by(d->record, fill, 0, 1, err));
    return series_add(d, 0, carriers, err, "carriers");
}
