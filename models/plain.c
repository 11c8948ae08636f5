/* Networks as plain matrices. */
#include "models/plain.h"

#include <stdlib.h>

int plain_init(struct plain *plain, const struct net *net, const struct thin *w, int M, int N_e,
               struct err *err) {
    const struct network *network = net->setup.network;
    size_t P = (size_t)net->setup.P, N = w->W.sites, experts = (size_t)M;
    size_t units = experts * (size_t)N_e;
    bool finite = net->setup.N > 0, router = network->gate != GATE_CONSTANT;
    *plain = (struct plain){.P = net->setup.P,
                            .N = (int)N,
                            .M = M,
                            .N_e = N_e,
                            .agg = 1,
                            .b_scale = (double)N,
                            .gate = (enum gate_kind)network->gate,
                            .beta = network->beta,
                            .share = 1};
    TRY(base_alloc(&plain->h1, P * N, sizeof(double), err));
    TRY(base_alloc(&plain->h3, P * N, sizeof(double), err));
    TRY(base_alloc(&plain->W4, N, sizeof(double), err));
    if (router)
        TRY(base_alloc(&plain->psi, P * experts, sizeof(double), err));
    plain_rows(array_all(&w->W), plain->W4);
    for (size_t n = 0; n < N; n++)
        plain->W4[n] /= net->setup.gamma0 * (double)N;
    if (!finite)
        return CODE_OK;
    TRY(base_alloc(&plain->s1, P * N, sizeof(double), err));
    TRY(base_alloc(&plain->phi, P * experts, sizeof(double), err));
    TRY(base_alloc(&plain->s2, P * units, sizeof(double), err));
    TRY(base_alloc(&plain->slope2, P * units, sizeof(double), err));
    TRY(base_alloc(&plain->W2, units * N, sizeof(double), err));
    TRY(base_alloc(&plain->W3, units * N, sizeof(double), err));
    return router ? base_alloc(&plain->Q, experts * N, sizeof(double), err) : CODE_OK;
}

void plain_free(struct plain *plain) {
    double *const all[] = {plain->h1, plain->s1,     plain->h3, plain->psi, plain->phi, plain->s2,
                           plain->Q,  plain->slope2, plain->W2, plain->W3,  plain->W4};
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
