#include "solver/run/findings.h"

/* A participation that has fallen by less has not: round-off of averages over sites. */
static const double round_off = 1e-12;

/* What the gates of one run are at t, added to what they have been before. */
static void add_gates_at(const struct record *record, const struct series *participation,
                         const struct series *largest, int r, int t, struct condense *gates) {
    const double *p = record_at(record, participation, r, t), *p0 = p,
                 *l = record_at(record, largest, r, t), *l0 = l;
    int rows = (int)(participation->size / participation->shape[0]);
    p0 -= (size_t)t * (size_t)rows;
    l0 -= (size_t)t * (size_t)rows;
    for (int i = 0; i < rows; i++) {
        if (p[i] / p0[i] < gates->lowest - round_off) {
            gates->lowest = p[i] / p0[i];
            gates->at = t;
        }
        gates->peak = fmax(gates->peak, l[i]);
        gates->growth = fmax(gates->growth, l[i] / l0[i]);
    }
}

static void judge_gates(bool unbounded, int t, struct condense *gates) {
    bool few = gates->lowest<0.75, large = gates->peak> 30 && gates->growth > 2;
    if (unbounded && (few || large))
        gates->condensed = t < gates->condensed ? t : gates->condensed;
    if (unbounded && gates->lowest < 0.9)
        gates->concentrated = t < gates->concentrated ? t : gates->concentrated;
}

bool condense_find(const struct record *record, bool unbounded, struct condense *gates) {
    const struct series *participation = record_find(record, "gate_participation"),
                        *largest = record_find(record, "gate_largest");
    *gates = (struct condense){.lowest = 1, .condensed = record->T, .concentrated = record->T};
    if (!participation || !record->runs)
        return false;
    for (int t = 0; t < record->T; t++) {
        for (int r = 0; r < record->runs; r++)
            if (record->steps[r] > t)
                add_gates_at(record, participation, largest, r, t, gates);
        judge_gates(unbounded, t, gates);
    }
    return true;
}

/* The mean over the replicates that came to t. */
static double mean_carriers(const struct record *record, const struct series *carriers, int t) {
    double sum = 0;
    int count = 0;
    for (int r = 0; r < record->runs; r++)
        if (record->steps[r] > t) {
            sum += *record_at(record, carriers, r, t);
            count++;
        }
    return count ? sum / count : INFINITY;
}

int condense_units(const struct record *record) {
    const struct series *carriers = record_find(record, "carriers");
    double start = carriers ? mean_carriers(record, carriers, 0) : 0;
    for (int t = 0; carriers && t < record->T; t++) {
        double now = mean_carriers(record, carriers, t);
        if (now < 10 && now < start / 4)
            return t;
    }
    return record->T;
}

int condense_ask(struct run *run, struct err *err) {
    struct net_setup setup = run_setup(run, 0, 0);
    FREED(net_free) struct net net = {0};
    TRY(net_declare(&net, &setup, err));
    run->gates_unbounded = net.gates.condenses;
    run->steep = net.gates.steep;
    return CODE_OK;
}
