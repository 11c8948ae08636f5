/* Parameters move along kept evaluations: places W_n + sum_k weight_k K_k (net.h). */
#include "models/engine/aside.h"

/* Cotangents that are the columns of the read-out change with it, before others have learned. */
static bool may_hold(const struct net *net, const struct parameter *p) {
    const struct program *program = net->program;
    return p->y.array != &program->node[program->read_out].matrix.thin->W;
}

int net_keep_gradient(const struct parameter *p, struct kept *kept, struct err *err) {
    size_t count = (size_t)p->rows * (size_t)(p->thin ? p->thin->W.rows : p->K);
    if (p->map || p->thin)
        TRY(array_keep(&kept->y, p->y, err));
    if (!p->map && !kept->A)
        TRY(base_alloc(&kept->A, count, sizeof *kept->A, err));
    if (!p->map)
        memcpy(kept->A, p->A, count * sizeof *kept->A);
    return CODE_OK;
}

int net_keep(struct net *net, int k, bool holds, struct err *err) {
    size_t P = (size_t)net->setup.data.P;
    memcpy(net->place.stage_Delta + (size_t)k * P, net_deltas(net), P * sizeof(double));
    net->place.holds = holds;
    FOR_EACH (struct parameter, p, net->parameters) {
        bool held = holds && may_hold(net, p);
        if (p->map)
            TRY(held ? map_hold(p->map, p->y, err) : map_keep(p->map, k, p->y, err));
        else if (!held)
            TRY(net_keep_gradient(p, &p->kept[k], err));
    }
    return CODE_OK;
}

struct gradient net_kept(const struct kept *kept) {
    return (struct gradient){kept->y.memory ? array_all(&kept->y) : (struct rows){0}, kept->A};
}

/* What a parameter without a map learns with. */
static struct gradient gradient_of(const struct net *net, const struct parameter *p, int k) {
    bool held = net->place.holds && may_hold(net, p);
    return held ? (struct gradient){p->y, p->A} : net_kept(&p->kept[k]);
}

void net_coefficients(const struct net *net, const struct parameter *p, int k, double rate,
                      double *c) {
    int P = net->setup.data.P, each = net_input_rows(net, p);
    for (int i = 0, mu = 0; i < p->rows; mu = mu + 1 < P ? mu + 1 : 0) {
        double of_input = rate / P * net->place.stage_Delta[k * P + mu];
        for (int end = i + each; i < end; i++)
            c[i] = of_input;
    }
}

/* change [K] += sum_mu c_mu A_mu */
static void add_host(const struct parameter *p, const double *A, const double *c, double *change) {
    for (int j = 0; j < p->K; j++)
        for (ptrdiff_t mu = 0; mu < p->rows; mu++)
            change[j] += c[mu] * A[mu * p->K + j];
}

int net_change(const struct net *net, const struct parameter *p, double rate, struct change *change,
               double *host, struct err *err) {
    struct gradient gradient = gradient_of(net, p, 0);
    SCRATCH(double, c, (size_t)p->rows);
    net_coefficients(net, p, 0, rate, c);
    if (p->map && p->map->kind->change)
        TRY(p->map->kind->change(p->map, 0, c, change, err));
    if (p->thin)
        TRY(thin_change(p->thin, gradient.A, c, gradient.y, change, err));
    add_host(p, gradient.A, c, host);
    return CODE_OK;
}

/* Adds step K_k. */
static int move_stage(struct net *net, int k, double step, struct err *err) {
    SCRATCH(double, c, (size_t)net_most_rows(net));
    FOR_EACH (struct parameter, p, net->parameters) {
        struct gradient gradient = gradient_of(net, p, k);
        TRY(base_go_on(&net->setup.stop, err));
        net_coefficients(net, p, k, step * net->setup.gamma0 * p->rate, c);
        if (p->map)
            TRY(map_learn(p->map, k, c, err));
        if (p->thin)
            TRY(thin_learn(p->thin, gradient.A, c, gradient.y, err));
        add_host(p, gradient.A, c, p->host);
    }
    return CODE_OK;
}

int net_place(struct net *net, int stages, const double *weight, struct err *err) {
    for (int k = 0; k < MAP_STAGES; k++) {
        double to = k < stages ? weight[k] : 0;
        if (to != net->place.weight[k])
            TRY(move_stage(net, k, to - net->place.weight[k], err));
        net->place.weight[k] = to;
    }
    return CODE_OK;
}

void net_commit(struct net *net) {
    memset(net->place.weight, 0, sizeof net->place.weight);
}

int net_learn(struct net *net, double share, double step, struct err *err) {
    TRY(net_keep(net, 0, true, err));
    net_decay(net, share);
    TRY(net_place(net, 1, &step, err));
    net_commit(net);
    net_next(net);
    return CODE_OK;
}

void net_next(struct net *net) {
    program_rules(net);
    net->place.t++;
}

void net_decay(struct net *net, double share) {
    FOR_EACH_OF (const struct node, v, net->program->node, net->program->nodes) {
        double factor = 1 - share * v->matrix.decays;
        if (factor == 1 || v->matrix.use)
            continue;
        for (int k = 0; v->op->matrix == MATRIX_NONE && k < v->constant.groups * v->K; k++)
            v->matrix.start[k] *= factor;
        if (v->matrix.map)
            map_decay(v->matrix.map, factor);
        if (v->matrix.thin) {
            rows_scale(factor, array_all(&v->matrix.thin->W));
            v->matrix.thin->decay *= factor;
        }
        if (v->matrix.unseen)
            rows_scale(factor, array_all(&v->matrix.unseen->W));
    }
}

void net_drop_stages(struct net *net) {
    for (int i = 0; i < net->parameters.count; i++)
        for (int k = 0; k < MAP_STAGES; k++) {
            array_free(&net->parameters.item[i].kept[k].y);
            free(net->parameters.item[i].kept[k].A);
        }
}

void net_drop_moments(struct net *net) {
    for (int i = 0; i < net->parameters.count; i++) {
        array_free(&net->parameters.item[i].moment[0]);
        array_free(&net->parameters.item[i].moment[1]);
        free(net->parameters.item[i].host_moment);
        net->parameters.item[i].host_moment = NULL;
    }
}
