/* Writes the operations of a program with a matrix: read-in, maps, looks, biases, read-out. */
#include "models/language/tokens.h"
#include "kernels/base/text.h"

/* Gives node its matrix; false after a failure. */
static bool settle_weight(struct program *p, struct node *node, struct weight W) {
    node->matrix.weight = node->matrix.written = W;
    if (W.tied && node->op->matrix != MATRIX_MAP && node->op->matrix != MATRIX_EMBED)
        program_fail(p, "matrix %s: only maps and embeddings may be tied, not %s",
                     TEXT_SHOWN_OF(&W), node->op->name);
    return weight_settle(p, node);
}

static void add_parameter(struct program *p, int at, struct parameter parameter, double eps) {
    const struct weight *W = &p->node[at].matrix.weight;
    struct parameter *added = W->fixed ? NULL : program_grow(p, NET_END(p->net->parameters));
    if (!added)
        return;
    parameter.name = W->name;
    parameter.label = W->label;
    parameter.node = at;
    parameter.rate = W->rate;
    parameter.muon_rate = W->muon_rate;
    parameter.adam = (struct adam_scale){W->adam_rate, eps * W->adam_eps};
    *added = parameter;
}

/* Gives node number `at` a matrix with one finite side, which learns with the coefficients A (NULL:
 * others, which are found later). false after a failure. */
static bool settle_columns(struct program *p, int at, struct weight W, const double *A,
                           double eps) {
    struct node *node = node_of(p, (struct value){at});
    struct thin **added;
    if (!settle_weight(p, node, W) || !(added = program_grow(p, NET_END(p->net->thins))) ||
        program_failed(p, base_alloc(added, 1, sizeof **added, &p->err)))
        return false;
    node->matrix.weight.a0 = weight_column(p, node);
    node->matrix.thin = *added;
    add_parameter(p, at, (struct parameter){.thin = *added, .A = A}, eps);
    return !p->code;
}

struct value program_read_in(struct program *p, struct population *bottom, struct weight W) {
    struct value out;
    struct node *node = node_append(p, &operation_read_in, none, none, &out);
    double factor = p->net->setup.training.read_in;
    node->on = bottom;
    node->K = p->net->setup.data.K;
    W.adam_rate = factor * weight_or_one(W.adam_rate);
    W.adam_eps = factor * weight_or_one(W.adam_eps);
    settle_columns(p, out.at, W, p->net->batch.A, p->net->setup.gamma0);
    return out;
}

struct value program_embed(struct program *p, struct value s, struct population *on,
                           struct weight E) {
    struct value out;
    node_given_numbers(p, "an embedding", s);
    struct node *node = node_append(p, &operation_embed, s, none, &out);
    if (node->count != node_of(p, s)->count)
        program_fail(p, "an embedding of numbers that all inputs share");
    node->on = on;
    node->K = node_of(p, s)->K;
    if (!weight_tied_thin(p, node, on, E) &&
        settle_columns(p, out.at, E, NULL, p->net->setup.gamma0))
        node->matrix.thin->uses = 1;
    return out;
}

struct value program_vector(struct program *p, struct population *on, struct value like,
                            const double *start, struct weight v) {
    struct value out;
    struct node *node = node_append(p, &operation_vector, none, none, &out);
    if (like.at >= 0)
        node_shape(p, node, node_of(p, like)->per);
    node->on = on;
    node->K = 1;
    if (settle_columns(p, out.at, v, p->net->output.ones, p->net->setup.gamma0) && start &&
        (node->matrix.start = program_memory(p, sizeof *start)))
        *node->matrix.start = node->matrix.weight.a0 * *start;
    return out;
}

/* Whether the optimizer moves this map as a matrix. */
static bool by_matrix(const struct net_setup *setup, const char *name) {
    const struct optimizer *optimizer = net_optimizer(setup, name);
    return optimizer && optimizer->matrices;
}

/* Whether the part of each expert, or of each head, is moved as a matrix. */
static bool each_part(const struct net_setup *setup, const struct weight *W) {
    bool each = W->heads_of ? setup->training.each_head : setup->training.each_expert;
    return each && by_matrix(setup, W->name);
}

struct value program_map(struct program *p, struct value x, struct population *target,
                         struct weight W) {
    struct value out;
    struct node *node = node_append_rows(p, &operation_map, x, &out);
    struct net *net = p->net;
    struct map **added;
    if (weight_tied(p, node, target, W))
        return out;
    if (net->maps.count == RNG_OWNERS)
        program_fail(p, "it has more than %d matrices between populations", RNG_OWNERS);
    if (!settle_weight(p, node, W))
        return none;
    struct population *source = node->on;
    double fg = node->matrix.weight.a0 * node->matrix.weight.s_f, r = target->size / source->size;
    node->matrix.weight.a0 = weight_initial(p, node, fabs(fg) * fmax(1, 1 / sqrt(r)));
    added = program_grow(p, NET_END(net->maps));
    if (!added || program_failed(p, base_alloc(added, 1, sizeof **added, &p->err)))
        return none;
    node->on = target;
    node->matrix.map = *added;
    struct map_declaration declared = {.label = W.label,
                                       .source = source,
                                       .target = target,
                                       .a0 = node->matrix.weight.a0,
                                       .s_f = node->matrix.weight.s_f,
                                       .each = each_part(&net->setup, &W),
                                       .uses = 1};
    snprintf(declared.name, sizeof declared.name, "%s", W.name);
    if (!p->code)
        map_declare(node->matrix.map, declared);
    bool together = by_matrix(&net->setup, W.name) && !net->setup.training.each_head;
    struct parameter parameter = {.map = node->matrix.map, .whole = together ? W.heads_of : NULL};
    add_parameter(p, out.at, parameter, net->setup.gamma0);
    return out;
}

struct value program_look(struct program *p, struct value x, int K, struct weight Q) {
    struct value out;
    struct net *net = p->net;
    node_given_rows(p, "look", x, none);
    struct node *node = node_append_numbers(p, &operation_look, x, none, K, &out);
    if (weight_tied_thin(p, node, node_of(p, x)->on, Q) ||
        !settle_columns(p, out.at, Q, NULL, net->setup.gamma0))
        return out;
    net->gates.tied |= Q.iid;
    node->matrix.weight.iid |= net->setup.N > 0 || net->gates.random;
    if (!node->matrix.weight.iid)
        program_failed(p, net_origin(net, node->per * K, &node->matrix.start, &p->err));
    return out;
}

/* groups sets of K numbers, [groups][K], that are added to s, or (none) by themselves. Those that
 * never learn are no part of the state of a run, and so do not decay. */
static struct value add_bias(struct program *p, struct value s, struct value like, int K,
                             int groups, const double *start, struct weight b) {
    struct value out;
    struct node *node = node_append_numbers(p, &operation_bias, like, none, K, &out);
    int count = groups * K;
    if (!settle_weight(p, node, b))
        return none;
    node->argument[0] = s.at;
    node->matrix.decays = node->matrix.weight.fixed ? 0 : node->matrix.decays;
    node->constant.groups = groups;
    if (groups > 1 &&
        program_failed(
            p, net_allow(p->net, (size_t)groups * node_numbers(node) * sizeof *start, &p->err)))
        return none;
    node->matrix.start = program_memory(p, (size_t)count * sizeof *start);
    if (!node->matrix.start)
        return none;
    node->matrix.weight.a0 = weight_column(p, node);
    for (int k = 0; k < count; k++)
        node->matrix.start[k] = node->matrix.weight.a0 * start[k];
    add_parameter(p, out.at, (struct parameter){.host = node->matrix.start, .K = count},
                  p->net->setup.gamma0);
    return out;
}

struct value program_trained(struct program *p, struct value like, int K, const double *start,
                             struct weight b) {
    return add_bias(p, none, like, K, 1, start, b);
}

/* K of the numbers s; 0 after a failure. */
static int count_biased(struct program *p, struct value s) {
    return node_given_numbers(p, "a bias", s) ? node_of(p, s)->K : 0;
}

struct value program_bias(struct program *p, struct value s, const double *start, struct weight b) {
    int K = count_biased(p, s);
    return K ? add_bias(p, s, s, K, 1, start, b) : none;
}

struct value program_bias_of_tokens(struct program *p, struct value s, const double *start,
                                    struct weight b) {
    if (!p->code && !p->net->setup.data.token)
        program_fail(p, "a bias of each kind of token needs inputs that are tokens");
    of_tokens(p, "a bias of each kind of token", s);
    int K = count_biased(p, s);
    return K ? add_bias(p, s, s, K, p->net->setup.data.V, start, b) : none;
}

struct value program_read_out(struct program *p, struct value h, struct weight w) {
    struct value out;
    struct net *net = p->net;
    if (!node_given_rows(p, "the read-out", h, none))
        return none;
    if (p->read_out >= 0)
        program_fail(p, "it has two read-outs");
    if (!net->setup.data.per_token && node_of(p, h)->per > 1)
        h = program_pool(p, h);
    if (!p->code && node_of(p, h)->per != net->batch.output_rows / net->setup.data.P)
        program_fail(p, "outputs are of tokens, but tokens are pooled");
    if (p->code)
        return none;
    bool zero = net->setup.network->read_out == READ_OUT_ZERO;
    w.zero |= zero && !w.tied;
    w.iid |= net->gates.random && !w.tied;
    struct node *node =
        node_append_numbers(p, &operation_read_out, h, none, net->setup.data.C, &out);
    p->read_out = p->output = out.at;
    if (weight_tied_thin(p, node, node_of(p, h)->on, w)) {
        if (zero)
            program_fail(p,
                         "[network] read_out = zero starts the read-out at zero, and here it is "
                         "the embedding %s",
                         TEXT_SHOWN_OF(&w));
        net->output.loss_in_cotangent = true;
        return out;
    }
    if (settle_columns(p, out.at, w, NULL, 1) && net->setup.limit.centre)
        program_failed(p, net_origin(net, net_outputs(net), &node->matrix.start, &p->err));
    return out;
}

void program_output(struct program *p, struct value s) {
    if (!node_given_numbers(p, "the output", s))
        return;
    const struct node *v = node_of(p, s), *read_out = &p->node[p->read_out < 0 ? 0 : p->read_out];
    if (p->read_out < 0)
        program_fail(p, "an output before anything is read out");
    else if (p->output != p->read_out)
        program_fail(p, "it has two outputs");
    else if (v->count != read_out->count || v->K != read_out->K)
        program_fail(p,
                     "the output has %d numbers of %d rows of an input, and must have %d of %d, "
                     "as many as are read out",
                     v->K, v->per, read_out->K, read_out->per);
    p->output = s.at;
    p->net->output.loss_in_cotangent = true;
}
