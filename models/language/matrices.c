/* Writing the operations of a program that have a matrix: read-in, maps, looks, biases, read-out.
 */
#include "models/engine/node.h"

#include <math.h>
#include <stdio.h>

static const struct value none = {-1};

static bool weigh(struct program *p, struct node *node, struct weight W) {
    node->weight = node->written = W;
    if (W.tied && node->op->matrix != MATRIX_MAP)
        program_fail(p, "matrix %s: only maps may be tied, not %s", W.name, node->op->name);
    return weight_settle(p, node);
}

static void add_parameter(struct program *p, int at, struct parameter parameter, double eps) {
    const struct weight *W = &p->node[at].weight;
    struct parameter *added;
    if (p->code || W->fixed)
        return;
    if (!(added = program_grow(p, &p->net->parameter, &p->net->parameters, sizeof *added)))
        return;
    parameter.name = W->name;
    parameter.node = at;
    parameter.rate = W->rate;
    parameter.adam = (struct adam_scale){W->adam_rate, eps * W->adam_eps};
    *added = parameter;
}

static struct thin *new_thin(struct program *p) {
    struct thin **added = program_grow(p, &p->net->thin, &p->net->thins, sizeof *added);
    if (!added || program_failed(p, base_alloc(added, 1, sizeof **added, &p->err)))
        return NULL;
    return *added;
}

struct value program_read_in(struct program *p, struct population *bottom, struct weight W) {
    struct value out;
    struct node *node = node_append(p, &operation_read_in, none, none, &out);
    double factor = p->net->setup.read_in;
    if (!node)
        return none;
    node->on = bottom;
    node->K = p->net->setup.K;
    W.adam_rate = factor * weight_or_one(W.adam_rate);
    W.adam_eps = factor * weight_or_one(W.adam_eps);
    if (!weigh(p, node, W))
        return none;
    node->weight.a0 = weight_column(p, node);
    node->thin = new_thin(p);
    add_parameter(p, out.at, (struct parameter){.thin = node->thin, .A = p->net->A},
                  p->net->setup.gamma0);
    return out;
}

struct value program_map(struct program *p, struct value x, struct population *target,
                         struct weight W) {
    struct value out;
    struct node *node = node_append_rows(p, &operation_map, x, &out);
    struct net *net = p->net;
    struct map **added;
    if (node && weight_tied(p, node, target, W))
        return out;
    if (net->maps == RNG_OWNERS)
        program_fail(p, "it has more than %d matrices between populations", RNG_OWNERS);
    if (!node || !weigh(p, node, W))
        return none;
    struct population *source = node->on;
    double fg = node->weight.a0 * node->weight.s_f, r = target->size / source->size;
    node->weight.a0 = weight_initial(p, node, fabs(fg) * fmax(1, 1 / sqrt(r)));
    added = program_grow(p, &net->map, &net->maps, sizeof *added);
    if (!added || program_failed(p, base_alloc(added, 1, sizeof **added, &p->err)))
        return none;
    node->on = target;
    node->map = *added;
    struct map_declaration declared = {.source = source,
                                       .target = target,
                                       .a0 = node->weight.a0,
                                       .s_f = node->weight.s_f,
                                       .uses = 1};
    snprintf(declared.name, sizeof declared.name, "%s", W.name);
    if (!p->code)
        map_declare(node->map, declared);
    add_parameter(p, out.at, (struct parameter){.map = node->map}, net->setup.gamma0);
    return out;
}

struct value program_look(struct program *p, struct value x, int K, struct weight Q) {
    struct value out;
    struct net *net = p->net;
    if (!node_given_rows(p, "look", x, none))
        return none;
    struct node *node = node_append_numbers(p, &operation_look, x, none, K, &out);
    if (!node || !weigh(p, node, Q))
        return none;
    node->weight.a0 = weight_column(p, node);
    net->tied |= Q.iid;
    node->weight.iid |= net->setup.N > 0 || net->random;
    node->thin = new_thin(p);
    if (!node->weight.iid)
        program_failed(p, net_origin(net, node->per * K, &node->start, &p->err));
    add_parameter(p, out.at, (struct parameter){.thin = node->thin, .A = node->gs},
                  net->setup.gamma0);
    return out;
}

/* groups sets of K numbers, [groups][K]. */
static struct value add_bias(struct program *p, struct value s, int groups, const double *start,
                             struct weight b) {
    struct value out;
    if (!node_given_numbers(p, "a bias", s))
        return none;
    int K = node_of(p, s)->K, count = groups * K;
    struct node *node = node_append_numbers(p, &operation_bias, s, none, K, &out);
    if (!node || !weigh(p, node, b))
        return none;
    node->groups = groups;
    node->A = node->gs;
    if (groups > 1 && program_failed(p, net_vector(p->net, node->count * count, &node->A, &p->err)))
        return none;
    node->start = program_memory(p, (size_t)count * sizeof *start);
    if (!node->start)
        return none;
    node->weight.a0 = weight_column(p, node);
    for (int k = 0; k < count; k++)
        node->start[k] = node->weight.a0 * start[k];
    add_parameter(p, out.at, (struct parameter){.host = node->start, .A = node->A, .K = count},
                  p->net->setup.gamma0);
    return out;
}

struct value program_bias(struct program *p, struct value s, const double *start, struct weight b) {
    return add_bias(p, s, 1, start, b);
}

struct value program_bias_of_tokens(struct program *p, struct value s, const double *start,
                                    struct weight b) {
    if (!p->code && (!p->net->setup.token || node_of(p, s)->per != p->net->setup.n))
        program_fail(p, "a bias of each kind of token needs inputs that are tokens");
    return add_bias(p, s, p->net->setup.V, start, b);
}

void program_read_out(struct program *p, struct value h, struct weight w) {
    struct value out;
    struct net *net = p->net;
    if (!node_given_rows(p, "the read-out", h, none))
        return;
    if (p->read_out >= 0)
        program_fail(p, "it has two read-outs");
    if (!net->setup.per_token && node_of(p, h)->per > 1)
        h = program_pool(p, h);
    if (!p->code && node_of(p, h)->per != net->outs / net->setup.P)
        program_fail(p, "outputs are of tokens, but tokens are pooled");
    if (p->code)
        return;
    bool zero = net->setup.network->read_out == READ_OUT_ZERO;
    w.zero |= zero;
    w.iid |= net->random;
    struct node *node = node_append(p, &operation_read_out, h, none, &out);
    if (!node || !weigh(p, node, w))
        return;
    node->weight.a0 = weight_column(p, node);
    node->K = net->setup.C;
    node->thin = new_thin(p);
    p->read_out = out.at;
    add_parameter(p, out.at, (struct parameter){.thin = node->thin}, 1);
}
