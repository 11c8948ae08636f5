#include "models/engine/apart.h"

#define APART (3u << 30) /* the first number of a draw; predictions stay below (predict.c) */

/* The number of a penalty is one that the net measures. */
static bool is_penalty(const struct net *net, const double *values) {
    for (int i = 0; i < net->program->nodes; i++)
        if ((net->program->node[i].op->traits & OP_STARTS_BACKWARD) &&
            net->program->node[i].s == values)
            return true;
    return false;
}

const double *apart_penalty(const struct net *net, int k, const char **name) {
    for (int i = 0; i < net->numbers.count; i++)
        if (is_penalty(net, net->numbers.item[i].values) && k-- == 0) {
            *name = net->numbers.item[i].name;
            return net->numbers.item[i].values;
        }
    return NULL;
}

/* Bases stand where the evaluation has left them, and draws come from a stream of their own. */
static void begin_passes(const struct apart *apart) {
    const struct net *net = apart->net;
    uint32_t rows = (uint32_t)net->batch.rows * ((uint32_t)net->maps.count + 1),
             first = (uint32_t)apart->passes * rows;
    for (int i = 0; i < net->populations.count; i++)
        population_set_aside(net->populations.item[i], APART + first % (APART >> 2),
                             &apart->aside.population[i]);
    aside_maps(&apart->aside, net, false);
}

void apart_forget(struct apart *apart) {
    aside_forget(&apart->aside, apart->net);
    begin_passes(apart);
}

static size_t delta_count(const struct net *net) {
    return (size_t)net->batch.output_rows * (size_t)net->setup.data.C;
}

int apart_begin(struct apart *apart, struct net *net, int kept, struct err *err) {
    *apart = (struct apart){.kept = kept};
    TRY(base_alloc(&apart->Delta, delta_count(net), sizeof *apart->Delta, err));
    memcpy(apart->Delta, net->output.Delta, delta_count(net) * sizeof *apart->Delta);
    TRY(base_alloc(&apart->gradient, (size_t)(kept * net->parameters.count),
                   sizeof *apart->gradient, err));
    int code = aside_put(&apart->aside, net, err);
    if (code) {
        aside_free(&apart->aside, net);
        return code;
    }
    apart->net = net;
    begin_passes(apart);
    return CODE_OK;
}

int apart_pass(struct apart *apart, const struct term *term, int keep, struct err *err) {
    struct net *net = apart->net;
    int outputs = net_outputs(net);
    memset(net->output.Delta, 0, delta_count(net) * sizeof *net->output.Delta);
    if (!term || term->kind == TERM_LOSS)
        memcpy(net->output.Delta, apart->Delta, delta_count(net) * sizeof *net->output.Delta);
    for (ptrdiff_t mu = 0; mu < net->setup.data.P && term && term->kind == TERM_OUTPUT; mu++)
        net->output.Delta[mu * outputs + term->output] = 1;
    net->output.term = term;
    apart->passes++;
    int code = program_backward(net, err);
    net->output.term = NULL;
    for (int i = 0; i < net->parameters.count && keep >= 0 && !code; i++)
        code = net_keep_gradient(&net->parameters.item[i],
                                 &apart->gradient[keep * net->parameters.count + i], err);
    return code ? code : net->setup.backend->sync(err);
}

struct gradient apart_gradient(const struct apart *apart, int i, int k) {
    const struct parameter *p = &apart->net->parameters.item[i];
    return k < 0 ? (struct gradient){p->y, p->A}
                 : net_kept(&apart->gradient[k * apart->net->parameters.count + i]);
}

void apart_end(struct apart *apart) {
    struct net *net = apart->net;
    for (int k = 0; net && k < apart->kept * net->parameters.count; k++) {
        array_free(&apart->gradient[k].y);
        free(apart->gradient[k].A);
    }
    if (net) {
        aside_forget(&apart->aside, net);
        aside_take_back(&apart->aside, net);
        aside_free(&apart->aside, net);
    }
    free(apart->gradient);
    free(apart->Delta);
    *apart = (struct apart){0};
}
