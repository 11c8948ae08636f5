/* Back to the state before the first evaluation, for programs that run over a window many times. */
#include "models/engine/net.h"

#include <string.h>

int net_carry(struct net *net, struct rows rows, struct err *err) {
    struct kept_state *added = base_grow(&net->kept.item, &net->kept.count, sizeof *added, err);
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
            net->kept.item[net->kept.count - 1].host = net->parameters.item[i].host;
            net->kept.item[net->kept.count - 1].K = net->parameters.item[i].K;
        }
    for (int i = 0; i < net->kept.count; i++) {
        struct kept_state *kept = &net->kept.item[i];
        if (kept->host) {
            TRY(net_vector(net, kept->K, &kept->host_start, err));
            memcpy(kept->host_start, kept->host, (size_t)kept->K * sizeof(double));
            continue;
        }
        struct population like = {.backend = net->setup.backend,
                                  .sites = kept->rows.array->sites,
                                  .group = kept->rows.array->group};
        TRY(net_rows(net, &like, kept->rows.count, &kept->rows_start, err));
        rows_copy(kept->rows, kept->rows_start);
    }
    return CODE_OK;
}

void net_rewind(struct net *net) {
    for (int i = 0; i < net->kept.count; i++) {
        struct kept_state *kept = &net->kept.item[i];
        if (kept->host)
            memcpy(kept->host, kept->host_start, (size_t)kept->K * sizeof(double));
        else
            rows_copy(kept->rows_start, kept->rows);
    }
    net_commit(net); /* a pass may have ended between two places */
    net->batch.started = false;
    net->place.t = 0;
    net->place.decay = 1;
    net->place.step_error = 0;
}
