/* Back to the state before the first evaluation, for programs that run over a window many times. */
#include "models/engine/net.h"

#include <string.h>

int net_carry(struct net *net, struct rows rows, struct err *err) {
    struct carried *added = base_grow(&net->carried.item, &net->carried.count, sizeof *added, err);
    if (!added)
        return err->code;
    added->rows = rows;
    return CODE_OK;
}

int net_remember(struct net *net, struct err *err) {
    for (int i = 0; i < net->thins.count; i++)
        TRY(net_carry(net, array_all(&net->thins.item[i]->W), err));
    for (int i = 0; i < net->parameters.count; i++)
        if (net->parameters.item[i].host) {
            TRY(net_carry(net, (struct rows){0}, err));
            net->carried.item[net->carried.count - 1].host = net->parameters.item[i].host;
            net->carried.item[net->carried.count - 1].K = net->parameters.item[i].K;
        }
    for (int i = 0; i < net->carried.count; i++) {
        struct carried *carried = &net->carried.item[i];
        if (carried->host) {
            TRY(net_vector(net, carried->K, &carried->host_start, err));
            memcpy(carried->host_start, carried->host, (size_t)carried->K * sizeof(double));
            continue;
        }
        struct population like = {.backend = net->setup.backend,
                                  .sites = carried->rows.array->sites,
                                  .group = carried->rows.array->group};
        TRY(net_rows(net, &like, carried->rows.count, &carried->rows_start, err));
        rows_copy(carried->rows, carried->rows_start);
    }
    return CODE_OK;
}

void net_rewind(struct net *net) {
    for (int i = 0; i < net->carried.count; i++) {
        struct carried *carried = &net->carried.item[i];
        if (carried->host)
            memcpy(carried->host, carried->host_start, (size_t)carried->K * sizeof(double));
        else
            rows_copy(carried->rows_start, carried->rows);
    }
    net_commit(net); /* a pass may have ended between two places */
    net->batch.started = false;
    net->place.t = 0;
    net->place.step_error = 0;
}
