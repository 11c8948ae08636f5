/* Parameters move along kept evaluations: places W_n + sum_k weight_k K_k (model.h). */
#include "models/model.h"

#include <stdlib.h>
#include <string.h>

/* Columns of A. */
static size_t width(const struct parameter *p) {
    return (size_t)(p->thin ? p->thin->W.rows : p->K);
}

int net_keep(struct net *net, int k, struct err *err) {
    size_t P = (size_t)net->setup.P;
    memcpy(net->stage_Delta + (size_t)k * P, net->Delta, P * sizeof *net->Delta);
    for (int i = 0; i < net->parameters; i++) {
        struct parameter *p = &net->parameter[i];
        struct kept *kept = &p->kept[k];
        if (p->map) {
            TRY(map_keep(p->map, k, p->y, err));
            continue;
        }
        if (p->thin)
            TRY(array_keep(&kept->y, p->y, err));
        if (!kept->A)
            TRY(base_alloc(&kept->A, P * width(p), sizeof *kept->A, err));
        memcpy(kept->A, p->A, P * width(p) * sizeof *kept->A);
    }
    return CODE_OK;
}

/* Adds step K_k. */
static int move(struct net *net, int k, double step, struct err *err) {
    int P = net->setup.P, code = CODE_OK;
    double *c;
    TRY(base_alloc(&c, (size_t)P, sizeof *c, err));
    for (int i = 0; i < net->parameters; i++) {
        struct parameter *p = &net->parameter[i];
        struct kept *kept = &p->kept[k];
        for (int mu = 0; mu < P; mu++)
            c[mu] = step * net->setup.gamma0 / P * p->rate * net->stage_Delta[k * P + mu];
        if (p->map)
            DO(map_learn(p->map, k, c, err));
        if (p->thin)
            DO(thin_learn(p->thin, kept->A, c, array_all(&kept->y), err));
        for (int j = 0; j < p->K; j++)
            for (int mu = 0; mu < P; mu++)
                p->host[j] += c[mu] * kept->A[mu * p->K + j];
    }
done:
    free(c);
    return code;
}

int net_place(struct net *net, int stages, const double *weight, struct err *err) {
    for (int k = 0; k < MAP_STAGES; k++) {
        double to = k < stages ? weight[k] : 0;
        if (to != net->weight[k])
            TRY(move(net, k, to - net->weight[k], err));
        net->weight[k] = to;
    }
    return CODE_OK;
}

void net_commit(struct net *net) {
    memset(net->weight, 0, sizeof net->weight);
}

int net_learn(struct net *net, double step, struct err *err) {
    TRY(net_keep(net, 0, err));
    TRY(net_place(net, 1, &step, err));
    net_commit(net);
    if (net->model->rule)
        net->model->rule(net);
    net->t++;
    return CODE_OK;
}

void net_drop_stages(struct net *net) {
    for (int i = 0; i < net->parameters; i++)
        for (int k = 0; k < MAP_STAGES; k++) {
            array_free(&net->parameter[i].kept[k].y);
            free(net->parameter[i].kept[k].A);
        }
}
