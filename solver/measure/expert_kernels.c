/* Two-time kernels of single experts. The kernel of rows x over the units of experts is the mean
 * over experts e of
 *
 *     K_e(t,s) = <x_t x_s> over the units of expert e,
 *
 * and experts differ: by the few units that they have, by what their gates were. Written are K_e of
 * the first experts of the first run, and the mean over all experts of K_e^2, which limits and
 * networks can be compared by. */
#include "solver/measure/observe.h"

enum { SQUARE, SINGLE };

/* The mean of a b over the units of expert e. */
static double product_of(const double *a, const double *b, size_t e, size_t units) {
    double sum = 0;
    for (size_t j = e * units; j < (e + 1) * units; j++)
        sum += a[j] * b[j];
    return sum / (double)units;
}

/* Writes what rows a (time s) and b (time t) of a kernel give, to their places in square and single
 * and by symmetry to the mirrored ones. In runs behind the first one single is NULL. */
static void fill_pair(const struct array *rows, double scale, const double *a, const double *b,
                      size_t kept, double *const square[2], double *const single[2]) {
    size_t units = (size_t)rows->group, experts = rows->sites / units;
    double sum = 0;
    for (size_t e = 0; e < experts; e++) {
        double K = scale * product_of(a, b, e, units);
        sum += K * K;
        for (int side = 0; side < 2 && single[side] && e < kept; side++)
            single[side][e] = K;
    }
    for (int side = 0; side < 2; side++)
        *square[side] = sum / (double)experts;
}

static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct kernel *kernel = &m->net->kernels.item[m->item];
    const struct array *past = &m->observer->history.rows[m->item];
    size_t T = (size_t)m->record->T, P = (size_t)kernel->rows.count, t = (size_t)m->t, row = T * P,
           kept = (size_t)m->config->output.field_sites, sites = past->sites;
    double *square = out[SQUARE] - t * P * row, /* of time 0 */
        *single = out[SINGLE] ? out[SINGLE] - t * P * row * kept : NULL, *then;
    SCRATCH(double, now, (P + 1) * sites);
    then = now + P * sites;
    past->backend->get(array_rows(past, (int)(t * P), (int)P), now);
    for (size_t a = 0; a < (t + 1) * P; a++) {
        past->backend->get(array_rows(past, (int)a, 1), then);
        for (size_t mu = 0; mu < P; mu++) {
            size_t here = (t * P + mu) * row + a, there = a * row + t * P + mu;
            double *const squares[] = {square + here, square + there},
                          *const singles[] = {single ? single + here * kept : NULL,
                                              single ? single + there * kept : NULL};
            fill_pair(past, kernel->scale, then, now + mu * sites, kept, squares, singles);
        }
    }
    return CODE_OK;
}

static const struct {
    const char *suffix, *inputs, *tokens, *about, *equation;
} part[] = {
    [SQUARE] = {"square", "t mu s nu", "t row s column",
                "mean over experts of the square of the average over the units of one",
                "<K_e K_e>, K_e = <x x> over units of expert e"},
    [SINGLE] = {"expert", "t mu s nu site", "t row s column site",
                "average over the units of each of the first experts of the first run",
                "<x x> over units of expert e"},
};

int expert_kernels_declare(const struct declaring *d, int item, struct err *err) {
    const struct kernel *kernel = &d->net->kernels.item[item];
    size_t T = (size_t)d->record->T, R = (size_t)kernel->rows.count,
           kept = (size_t)d->config->output.field_sites;
    bool tokens = kernel->rows.count > d->net->setup.data.P;
    if (!kernel->as_it_is || kernel->for_all_inputs || kernel->rows.array->group == 1)
        return CODE_OK;
    TRY(record_fill_by(d->record, fill, item, 2, err));
    for (int slot = SQUARE; slot <= SINGLE && (slot == SQUARE || kept); slot++) {
        const struct series series = {.dims = tokens ? part[slot].tokens : part[slot].inputs,
                                      SERIES_TEXT(part[slot]),
                                      .first_run = slot == SINGLE,
                                      .shape = {T, R, T, R, kept}};
        TRY(series_add(d, slot, series, err, "%s_%s", kernel->name, part[slot].suffix));
    }
    return CODE_OK;
}
