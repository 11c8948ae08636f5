/* How the gates of a router over many experts share: the series gate_participation, gate_largest
 * and gate_top, by which a limit that condenses is known. */
#include "solver/measure/instrument.h"

enum { PARTICIPATION, LARGEST, TOP, GATE_SERIES };

/* Averages over experts; the largest and the top 1 % through masks. Between whole numbers of
 * experts the share of the latter is that of the smaller number, and of the next expert a part. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct backend *backend = m->net->setup.backend;
    struct rows phi = m->net->gates.rows;
    int P = phi.count, code = CODE_OK;
    size_t experts = phi.array->sites, whole = experts / 100;
    double part = (double)(experts % 100) / 100;
    FREED(array_free) struct array scratch = {0};
    SCRATCH(double, mean, 2 * (size_t)P);
    DO(array_init(&scratch, backend, experts, phi.array->group, P, err));
    struct rows mask = array_all(&scratch);
    double *next = mean + P;
    backend_hold(backend, true);
    backend->averages(phi, (struct rows){0}, mean);
    backend->averages(phi, phi, out[PARTICIPATION]);
    DO(backend->top(phi, 1, mask, err));
    backend->averages(phi, mask, out[LARGEST]);
    DO(backend->top(phi, whole + 1, mask, err));
    backend->averages(phi, mask, next);
    memset(out[TOP], 0, (size_t)P * sizeof *out[TOP]);
    if (whole) {
        DO(backend->top(phi, whole, mask, err));
        backend->averages(phi, mask, out[TOP]);
    }
    backend_hold(backend, false);
    for (int mu = 0; mu < P; mu++) {
        out[PARTICIPATION][mu] = mean[mu] * mean[mu] / out[PARTICIPATION][mu];
        out[LARGEST][mu] *= (double)experts / mean[mu];
        out[TOP][mu] = (out[TOP][mu] + part * (next[mu] - out[TOP][mu])) / mean[mu];
    }
done:
    backend_hold(backend, false);
    return code;
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
