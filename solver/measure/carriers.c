#include "solver/measure/carriers.h"

#include <math.h>

enum { MOST_ROWS = 16, MOST_NUMBERS = 1 << 19 };

int carriers_rows(const struct array *array) {
    size_t rows = MOST_NUMBERS / array->sites;
    return rows < 1 ? 1 : rows < MOST_ROWS ? (int)rows : MOST_ROWS;
}

/* The least over rows x of S <x^2>^2 / <x^4>, S the number of their sites: as many equal ones would
 * have the same ratio. Rows of zeros count as equal. A few rows at a time. */
static int fewest_carriers(struct rows x, double *least, struct err *err) {
    double S = (double)x.array->sites, second[MOST_ROWS], fourth[MOST_ROWS];
    struct array squares;
    int rows = carriers_rows(x.array);
    *least = S < *least ? S : *least;
    TRY(array_init(&squares, x.array->backend, x.array->sites, x.array->group, rows, err));
    for (int k = 0; k < x.count; k += rows) {
        int some = x.count - k < rows ? x.count - k : rows;
        struct rows part = {x.array, x.first + k, some}, square = {&squares, 0, some};
        rows_multiply(part, part, square);
        backend_hold(x.array->backend, true);
        x.array->backend->averages(part, part, second);
        x.array->backend->averages(square, square, fourth);
        backend_hold(x.array->backend, false);
        for (int i = 0; i < some; i++) {
            double carried = fourth[i] ? S * (second[i] / fourth[i] * second[i]) : S;
            *least = isnan(carried) || carried < *least ? carried : *least; /* NaN stays */
        }
    }
    array_free(&squares);
    return CODE_OK;
}

/* Not those that a setting asks for: the number is of the network, whatever else is measured. */
static bool is_carried(const struct kernel *kernel) {
    return !kernel->gradient && !kernel->for_all_inputs && !kernel->as_it_is;
}

static int fill(const struct measuring *m, int item, double *const *out, struct err *err) {
    const struct net *net = m->net;
    (void)item;
    *out[0] = INFINITY;
    for (int k = 0; k < net->kernels.count; k++)
        if (is_carried(&net->kernels.item[k]))
            TRY(fewest_carriers(net->kernels.item[k].rows, out[0], err));
    return CODE_OK;
}

static int declare(struct record *record, const struct config *config, const struct net *net,
                   const double *y, struct err *err) {
    const struct series carriers = {
        .name = "carriers",
        .dims = "t",
        .about = "sites that carry a feature kernel x, of the one and the input with fewest",
        .equation = "number of sites times <x^2>^2 / <x^4>",
        .computation = true};
    bool some = false;
    (void)y;
    for (int k = 0; k < net->kernels.count; k++)
        some = some || is_carried(&net->kernels.item[k]);
    if (net->setup.N || !config->output.kernels || !some)
        return CODE_OK;
    TRY(record_fill_by(record, fill, 0, 1, err));
    return record_add(record, carriers, err);
}

const struct instrument carriers_instrument = {.declare = declare};
