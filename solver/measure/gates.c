/* How the gates of a router over many experts share: the series gate_participation, gate_largest
 * and gate_top, by which a limit that condenses is known. */
#include "solver/measure/instrument.h"

enum { PARTICIPATION, LARGEST, TOP, GATE_SERIES };

enum { MEAN, SQUARE, FIRST, NEXT, WHOLE, NUMBERS }; /* of each input */

/* Averages over experts; the largest and the top 1 % through masks. */
static int ask(const struct measuring *m, struct err *err) {
    const struct backend *backend = m->net->setup.backend;
    struct rows phi = m->net->gates.rows;
    size_t experts = phi.array->sites,
           most[NUMBERS] = {[FIRST] = 1, [NEXT] = experts / 100 + 1, [WHOLE] = experts / 100};
    FREED(array_free) struct array scratch = {0};
    TRY(array_init(&scratch, backend, experts, phi.array->group, phi.count, err));
    struct rows mask = array_all(&scratch);
    backend->averages(phi, (struct rows){0}, m->room + MEAN * phi.count);
    backend->averages(phi, phi, m->room + SQUARE * phi.count);
    memset(m->room + WHOLE * phi.count, 0, (size_t)phi.count * sizeof *m->room);
    for (int k = FIRST; k < NUMBERS; k++)
        if (most[k]) {
            backend->top(phi, most[k], mask);
            backend->averages(phi, mask, m->room + k * phi.count);
        }
    return CODE_OK;
}

/* Between whole numbers of experts the share of the top 1 % is that of the smaller number, and of
 * the next expert a part. */
static int fill(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    int P = m->net->gates.rows.count;
    size_t experts = m->net->gates.rows.array->sites;
    double part = (double)(experts % 100) / 100;
    for (int mu = 0; mu < P; mu++) {
        const double *of = m->room + mu;
        double mean = of[MEAN * P], whole = of[WHOLE * P];
        out[PARTICIPATION][mu] = mean * mean / of[SQUARE * P];
        out[LARGEST][mu] = of[FIRST * P] * ((double)experts / mean);
        out[TOP][mu] = (whole + part * (of[NEXT * P] - whole)) / mean;
    }
    return CODE_OK;
}

/* Extremes have no normal errors. */
static const struct series series[GATE_SERIES] = {
    [PARTICIPATION] = {.name = "gate_participation",
                       .about = "participation ratio of the gates; 1: all experts count alike",
                       .equation = "<phi>^2 / <phi^2>"},
    [LARGEST] = {.name = "gate_largest",
                 .about = "share of the largest gate, times the number of experts",
                 .equation = "max phi / <phi>",
                 .no_error_law = true},
    [TOP] = {.name = "gate_top",
             .about =
                 "share of the gates held by the top 1 % of the experts, the last of them in part",
             .equation = "sum over the top 1 % of phi / sum phi",
             .no_error_law = true},
};

int gates_declare(const struct declaring *d, struct err *err) {
    size_t P = (size_t)d->net->setup.data.P, rows = (size_t)d->net->gates.rows.count;
    if (!d->net->gates.present)
        return CODE_OK;
    TRY(record_fill_by(d->record, fill, 0, GATE_SERIES, err));
    record_ask_by(d->record, ask, NUMBERS * rows, true);
    for (int k = 0; k < GATE_SERIES; k++) {
        struct series one = series[k];
        one.dims = rows > P ? "t mu token" : "t mu";
        one.shape[1] = P;
        one.shape[2] = rows / P;
        one.positive = true;
        TRY(series_add(d, k, one, err, "%s", one.name));
    }
    return CODE_OK;
}
