/* What a program keeps from step to step, and back to it as it was before the first evaluation, for
 * those that run over a window many times. */
#include "models/engine/node.h"

/* Rows that a step changes. */
static int carry_rows(struct net *net, struct rows rows, struct err *err) {
    struct kept_state *added;
    TRY(base_grow(&added, NET_END(net->kept), err));
    added->rows = rows;
    return CODE_OK;
}

int net_remember(struct net *net, struct err *err) {
    for (int i = 0; i < net->thins.count; i++)
        TRY(carry_rows(net, array_all(&net->thins.item[i]->W), err));
    for (int i = 0; i < net->parameters.count; i++)
        if (net->parameters.item[i].host) {
            TRY(carry_rows(net, (struct rows){0}, err));
            net->kept.item[net->kept.count - 1].host = net->parameters.item[i].host;
            net->kept.item[net->kept.count - 1].K = (size_t)net->parameters.item[i].K;
        }
    FOR_EACH (struct kept_state, kept, net->kept) {
        if (kept->host) {
            TRY(net_vector(net, kept->K, 1, &kept->host_start, err));
            memcpy(kept->host_start, kept->host, kept->K * sizeof(double));
            continue;
        }
        const struct array *rows = kept->rows.array;
        struct array like = {rows->backend, .sites = rows->sites, .group = rows->group};
        TRY(net_array(net, like, kept->rows.count, &kept->rows_start, err));
        rows_copy(kept->rows, kept->rows_start);
    }
    return CODE_OK;
}

void net_rewind(struct net *net) {
    FOR_EACH (struct kept_state, kept, net->kept) {
        if (kept->host)
            memcpy(kept->host, kept->host_start, kept->K * sizeof(double));
        else
            rows_copy(kept->rows_start, kept->rows);
    }
    net_drop_moments(net);
    net_commit(net); /* a pass may have ended between two places */
    net->batch.started = false;
    net->place.t = 0;
    for (int i = 0; i < net->thins.count; i++)
        net->thins.item[i]->decay = 1;
    net->place.step = 0;
    net->place.step_error = 0;
}

struct rows program_keep(struct program *p, struct value x, int count, const double *start) {
    struct rows rows = {0};
    struct array like = p->code ? (struct array){0} : node_array(node_of(p, x));
    if (program_failed(p, p->code ? p->code : net_array(p->net, like, count, &rows, &p->err)) ||
        p->net->setup.declare_only || !start)
        return rows;
    like.backend->put(rows_part(rows, 0, 1), start);
    program_failed(p, carry_rows(p->net, rows_part(rows, 0, 1), &p->err));
    return rows;
}
