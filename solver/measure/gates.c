/* How the gates of a router over many experts share: the series gate_participation, gate_largest
 * and gate_top, by which a limit that condenses is known. */
#include "solver/measure/instrument.h"
#include "solver/measure/places.h"

#include <string.h>

enum { PARTICIPATION, LARGEST, TOP, GATE_SERIES };

/* Averages over experts; the largest and the top 1 % through masks. Between whole numbers of
 * experts the share of the latter is that of the smaller number, and of the next expert a part. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct backend *backend = m->net->setup.backend;
    struct rows phi = m->net->gates.rows;
    int P = phi.count, code = CODE_OK;
    size_t experts = phi.array->sites, whole = experts / 100;
    FREED(base_free) double *mean = NULL;
    double part = (double)(experts % 100) / 100;
    FREED(array_free) struct array scratch = {0};
    DO(base_alloc(&mean, 2 * (size_t)P, sizeof *mean, err));
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

int gates_declare(struct record *record, const struct config *config, const struct net *net,
                  struct err *err) {
    size_t P = (size_t)net->setup.data.P;
    bool tokens = (size_t)net->gates.rows.count > P;
    const struct series row = {.dims = tokens ? "t mu token" : "t mu",
                               .shape = {(size_t)record->T, P, (size_t)net->gates.rows.count / P}};
    struct series series[GATE_SERIES] = {row, row, row};
    (void)config;
    if (!net->gates.present)
        return CODE_OK;
    strcpy(series[PARTICIPATION].name, "gate_participation");
    series[PARTICIPATION].about = "participation ratio of the gates; 1: all experts count alike";
    series[PARTICIPATION].equation = "<phi>^2 / <phi^2>";
    strcpy(series[LARGEST].name, "gate_largest");
    series[LARGEST].about = "share of the largest gate, times the number of experts";
    series[LARGEST].equation = "max phi / <phi>";
    strcpy(series[TOP].name, "gate_top");
    series[TOP].about =
        "share of the gates held by the top 1 % of the experts, the last of them in part";
    series[TOP].equation = "sum over the top 1 % of phi / sum phi";
    TRY(record_fill_by(record, fill, 0, GATE_SERIES, err));
    for (int k = 0; k < GATE_SERIES; k++) {
        series[k].slot = k;
        series[k].positive = true;
        series[k].no_error_law = k != PARTICIPATION; /* extremes have no normal errors */
        TRY(places_add(record, net, series[k], err));
    }
    return CODE_OK;
}
