/* Networks as plain matrices. */
#include "models/plain.h"

#include <stdlib.h>

int plain_init(struct plain *plain, const struct net *net, const struct thin *w, int M, int N_e,
               struct err *err) {
    const struct network *network = net->setup.network;
    size_t P = (size_t)net->setup.P, N = w->W.sites, experts = (size_t)M;
    size_t units = experts * (size_t)N_e;
    bool finite = net->setup.N > 0, router = network->gate != GATE_CONSTANT;
    bool parts = net->setup.parts;
    *plain = (struct plain){.P = net->setup.P,
                            .N = (int)N,
                            .M = M,
                            .N_e = N_e,
                            .agg = 1,
                            .b_scale = (double)N,
                            .gate = (enum gate_kind)network->gate,
                            .beta = network->beta,
                            .share = 1};
    const struct {
        double **values;
        size_t count;
        bool wanted;
    } all[] = {
        {&plain->h1, P * N, true},
        {&plain->h3, P * N, true},
        {&plain->W4, N, true},
        {&plain->psi, P * experts, router},
        {&plain->s1, P * N, finite},
        {&plain->phi, P * experts, finite},
        {&plain->s2, P * units, finite},
        {&plain->slope2, P * units, finite},
        {&plain->W2, units * N, finite},
        {&plain->W3, units * N, finite},
        {&plain->Q, experts * N, finite && router},
        {&plain->W2_init, P * units, parts},
        {&plain->W2_eff, P * units, parts},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k].wanted)
            TRY(base_alloc(all[k].values, all[k].count, sizeof(double), err));
    plain_rows(array_all(&w->W), plain->W4);
    for (size_t n = 0; n < N; n++)
        plain->W4[n] /= net->setup.gamma0 * (double)N;
    return CODE_OK;
}

void plain_free(struct plain *plain) {
    double *const all[] = {plain->h1,     plain->s1,    plain->h3,      plain->psi,    plain->phi,
                           plain->s2,     plain->Q,     plain->slope2,  plain->W2,     plain->W3,
                           plain->Q_init, plain->Q_eff, plain->W2_init, plain->W2_eff, plain->W4};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        free(all[k]);
    *plain = (struct plain){0};
}

void plain_rows(struct rows rows, double *out) {
    if (out)
        rows.array->backend->get(rows, out);
}

int plain_map(const struct map *map, double factor, double *out, struct err *err) {
    if (!out)
        return CODE_OK;
    TRY(map->kind->matrix(map, out, err));
    size_t count = map->declared.target->sites * map->declared.source->sites;
    for (size_t k = 0; k < count; k++)
        out[k] *= factor;
    return CODE_OK;
}

int plain_parts(const struct map *map, int P, double *initial, double *effective, struct err *err) {
    const struct population *target = map->declared.target;
    struct array array = {0};
    int code;
    if (!initial)
        return CODE_OK;
    DO(array_init(&array, target->backend, target->sites, target->group, 2 * P, err));
    struct rows first = array_rows(&array, 0, P), second = array_rows(&array, P, P);
    DO(map->kind->parts(map, first, second, err));
    plain_rows(first, initial);
    plain_rows(second, effective);
    DO(target->backend->sync(err));
done:
    array_free(&array);
    return code;
}
