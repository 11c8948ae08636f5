/* Writing a program: every call appends a node, or remembers what went wrong. */
#include "models/language/operation.h"
#include "kernels/base/text.h"

#include <limits.h>

const struct network *program_network(const struct program *p) {
    return p->net->setup.network;
}

const struct net_setup *program_setup(const struct program *p) {
    return &p->net->setup;
}

const struct net *program_net(const struct program *p) {
    return p->net;
}

void program_fail(struct program *p, const char *format, ...) {
    char text[1024]; /* a sentence with five labels */
    if (p->code)
        return;
    PRINT_ARGUMENTS(text, sizeof text, format);
    p->code = err_set(&p->err, CODE_INPUT, "network %s: %s", p->net->model->name, text);
}

void program_count_inputs_once(struct program *p, const char *what) {
    if (p->net->setup.data.weight)
        program_fail(p, "%s counts each input once: take it or [data] weight out", what);
}

/* Remembers the code of a call that has written p->err itself. */
bool program_failed(struct program *p, int code) {
    if (!p->code)
        p->code = code;
    return p->code != CODE_OK;
}

int program_result(const struct program *p, struct err *err) {
    if (p->code)
        *err = p->err;
    return p->code;
}

void *program_grow(struct program *p, void *list, int *count, size_t size) {
    void *added = NULL;
    if (!p->code)
        program_failed(p, base_grow(&added, list, count, size, &p->err));
    return added;
}

void *program_memory(struct program *p, size_t size) {
    void **added = NULL;
    if (!p->code && !program_failed(p, net_spend(p->net, size, &p->err)))
        added = program_grow(p, &p->memory, &p->memories, sizeof *p->memory);
    return added && !program_failed(p, base_alloc(added, 1, size, &p->err)) ? *added : NULL;
}

const char *program_name(struct program *p, const char *format, ...) {
    char text[64];
    PRINT_ARGUMENTS(text, sizeof text, format);
    char *name = program_memory(p, strlen(text) + 1);
    return name ? strcpy(name, text) : "";
}

struct population *program_population(struct program *p, const char *name, double relative,
                                      size_t sites, int group) {
    struct net *net = p->net;
    int owner = net->populations.count, N = net->setup.N;
    struct population *on, **added;
    if (owner == RNG_OWNERS)
        program_fail(p, "it has more than %d populations", RNG_OWNERS);
    added = program_grow(p, NET_END(net->populations));
    if (!added || program_failed(p, base_alloc(added, 1, sizeof **added, &p->err)))
        return &p->nobody;
    on = *added;
    *on = (struct population){
        .backend = net->setup.backend,
        .size = relative * (N ? N : POPULATION_INFINITE),
        .sites = N ? (size_t)lround(relative * N) : sites,
        .group = group,
        .draws.matched = N == 0 || net->setup.limit.balanced,
        .draws.loose = N == 0 && net->gates.random,
        .draws.stream = net_stream(net, PURPOSE_POOL, owner),
        .draws.sobol = N == 0 && net->setup.limit.sobol && !net->gates.random,
        .draws.half_number = net->setup.limit.half_number,
        .draws.beside_halves = N == 0 && net->setup.limit.beside_halves,
        .cotangent_scale = 1,
    };
    snprintf(on->name, sizeof on->name, "%s", name);
    if (!isfinite(on->size)) /* of the nominal width, N = 2^400 */
        program_fail(p,
                     "population %s has N^3 sites or more, so that there is no limit: N^2 are the "
                     "most (finite networks alone, [solver] replicates = 0, may have them)",
                     name);
    on->draws.stream.first_pair = net_first_pair(&net->setup, on->sites);
    if (!net->setup.declare_only)
        program_failed(p, population_init(on, &p->err));
    return on;
}

struct population *program_layer(struct program *p, const char *name, double relative) {
    return program_population(p, name, relative, program_sites(p, relative), 1);
}

int program_count(const struct program *p, struct value x) {
    return p->code ? 0 : p->node[x.at].count;
}

struct node *node_of(const struct program *p, struct value x) {
    return x.at < 0 ? &p->net->program->nowhere : &p->node[x.at];
}

void node_shape(struct program *p, struct node *node, ptrdiff_t per) {
    const struct data_setup *data = &p->net->setup.data;
    double rows = (double)data->P * (double)per;
    bool fits = rows <= INT_MAX;
    if (!fits)
        program_fail(p,
                     "%d inputs of %d tokens would have %.3g rows of pairs of tokens, of %.3g GB "
                     "for each site, and at most %d are possible: take fewer tokens or inputs",
                     data->P, data->n, rows, 1e-9 * rows * (double)p->net->setup.backend->bytes,
                     INT_MAX);
    node->per = fits ? (int)per : 1;
    node->count = data->P * node->per;
}

struct node node_of_operation(const struct operation *op, struct value a, struct value b) {
    const struct node_plan plan = {.moves = op->traits & OP_LEARNS,
                                   .g = -1,
                                   .slope = -1,
                                   .learned = -1,
                                   .part = {-1, -1},
                                   .last = -1};
    return (struct node){.op = op,
                         .argument = {a.at, b.at},
                         .onto = -1,
                         .of = -1,
                         .constant.factor = 1,
                         .expert = {.x = -1, .g = -1},
                         .plan = plan};
}

struct node *node_append(struct program *p, const struct operation *op, struct value a,
                         struct value b, struct value *out) {
    struct node *node = program_grow(p, &p->node, &p->nodes, sizeof *node);
    *out = none;
    p->nowhere = node_of_operation(op, a, b);
    if (!node)
        return &p->nowhere;
    *node = p->nowhere;
    for (int k = 0; k < 2; k++)
        if (node->argument[k] >= 0) {
            node->plan.moves |= operation_has_adjoint(op) && p->node[node->argument[k]].plan.moves;
            node->plan.across_inputs |= p->node[node->argument[k]].plan.across_inputs;
        }
    if (node->plan.across_inputs && !(op->traits & OP_ACROSS_INPUTS) &&
        !((op->traits & OP_BY_ROW) && !(op->traits & OP_LEARNS)))
        program_fail(p, "%s of a mean over inputs, which may only enter terms of the loss",
                     op->name);
    node_shape(p, node, a.at < 0 ? p->net->setup.data.n : p->node[a.at].per);
    out->at = p->nodes - 1;
    return node;
}

bool node_given_rows(struct program *p, const char *op, struct value a, struct value b) {
    const struct value all[] = {a, b};
    for (int k = 0; k < 2 && !p->code; k++)
        if (all[k].at >= 0 && !node_of(p, all[k])->on)
            program_fail(p, "%s takes rows over a population, not numbers", op);
    if (a.at < 0 && !p->code)
        program_fail(p, "%s of nothing", op);
    return !p->code;
}

/* Whether it is one row for all inputs, also where there is one input with several tokens. */
static bool serves_all(const struct program *p, const struct node *v) {
    return v->count != p->net->setup.data.P * v->per && !v->plan.moves;
}

bool node_paired(struct program *p, const char *op, struct value a, struct value b) {
    if (p->code)
        return false;
    const struct node *u = node_of(p, a), *v = node_of(p, b);
    if (u->plan.across_inputs != v->plan.across_inputs)
        program_fail(p, "%s of what is one for all inputs and of what each has", op);
    if (u->count == v->count || serves_all(p, u) || serves_all(p, v))
        return !p->code;
    program_fail(p, "%s of what there is %d of and what there is %d of for each input", op,
                 node_of(p, a)->per, node_of(p, b)->per);
    return false;
}

static bool are_numbers(const struct program *p, struct value a, struct value b) {
    return !p->code && a.at >= 0 && b.at >= 0 && !node_of(p, a)->on && !node_of(p, b)->on;
}

/* Rows of one population, or as many numbers. */
static bool values_alike(struct program *p, const char *op, struct value a, struct value b) {
    bool numbers = are_numbers(p, a, b);
    if (!numbers && !node_given_rows(p, op, a, b))
        return false;
    if (b.at < 0)
        program_fail(p, "%s of nothing", op);
    else if (numbers && node_of(p, a)->K != node_of(p, b)->K)
        program_fail(p, "%s of %d and of %d numbers of each input", op, node_of(p, a)->K,
                     node_of(p, b)->K);
    else if (node_of(p, a)->on != node_of(p, b)->on)
        program_fail(p, "%s of rows of different populations, %s and %s", op,
                     TEXT_SHOWN_OF(node_of(p, a)->on), TEXT_SHOWN_OF(node_of(p, b)->on));
    return node_paired(p, op, a, b);
}

struct node *node_append_pair(struct program *p, const struct operation *op, const char *what,
                              struct value a, struct value b, struct value *out) {
    if (values_alike(p, what, a, b) && !node_of(p, a)->on)
        return node_append_numbers(p, op, a, b, node_of(p, a)->K, out);
    struct node *node = node_append(p, op, a, b, out);
    node->on = node_of(p, a)->on;
    return node;
}

bool node_given_numbers(struct program *p, const char *op, struct value s) {
    if (!p->code && (s.at < 0 || node_of(p, s)->on))
        program_fail(p, "%s takes numbers of each input, not rows", op);
    return !p->code;
}

struct node *node_append_numbers(struct program *p, const struct operation *op, struct value a,
                                 struct value b, int K, struct value *out) {
    struct node *node = node_append(p, op, a, b, out);
    if (node->plan.across_inputs)
        node->count = node_of(p, a)->count;
    node->K = K;
    if (!p->code)
        program_failed(p, net_allow(p->net, node_numbers(node) * sizeof *node->s, &p->err));
    return node;
}

struct node *node_append_like(struct program *p, const struct operation *op, struct value x,
                              struct value *out) {
    if (x.at < 0)
        program_fail(p, "%s of nothing", op->name);
    if (!node_of(p, x)->on)
        return node_append_numbers(p, op, x, none, node_of(p, x)->K, out);
    struct node *node = node_append(p, op, x, none, out);
    node->on = node_of(p, x)->on;
    node->count = node_of(p, x)->count;
    return node;
}

struct node *node_append_rows(struct program *p, const struct operation *op, struct value x,
                              struct value *out) {
    node_given_rows(p, op->name, x, none);
    return node_append_like(p, op, x, out);
}

/* --- operations without a matrix -------------------------------------------------------------- */

struct value program_fn(struct program *p, enum fn fn, double k, struct value x) {
    struct value out;
    if (fn != FN_RELU && fn != FN_LINEAR && fn != FN_LOG && fn != FN_INVERSE)
        growth_refuse(p, x, program_name(p, "the argument of %s", functions_name[fn]));
    struct node *node = node_append_like(p, &operation_fn, x, &out);
    if (!node->on && fn == FN_RELU)
        program_bends(p, x);
    node->constant.fn = fn;
    node->constant.factor = k;
    return out;
}

/* The choices of activation are the first of enum fn (FN_ACTIVATIONS). */
struct value program_sigma(struct program *p, struct value x) {
    enum fn fn = (enum fn)program_network(p)->activation;
    return fn == FN_LINEAR ? x : program_fn(p, fn, 1, x);
}

/* The choices of expert_activation are the same, behind the word for the one of elsewhere. */
struct value program_sigma_of_experts(struct program *p, struct value x) {
    int given = program_network(p)->experts.activation;
    enum fn fn = (enum fn)(given - 1);
    if (!given)
        return program_sigma(p, x);
    return fn == FN_LINEAR ? x : program_fn(p, fn, 1, x);
}

struct value program_times(struct program *p, double k, struct value x) {
    struct value out;
    node_append_like(p, &operation_times, x, &out)->constant.factor = k;
    return out;
}

struct value program_stop(struct program *p, struct value x) {
    struct value out = program_times(p, 1, x);
    node_of(p, out)->plan.moves = false;
    return out;
}

/* Whether these are numbers, of one and of several, and which side has the one. */
static bool is_one_for_all(const struct program *p, struct value *a, struct value *b) {
    bool first = are_numbers(p, *a, *b) && node_of(p, *a)->K == 1,
         second = are_numbers(p, *a, *b) && node_of(p, *b)->K == 1;
    struct value one = first ? *a : *b, all = first ? *b : *a;
    if (first == second)
        return false;
    *a = one;
    *b = all;
    return true;
}

struct value program_add(struct program *p, struct value a, struct value b) {
    struct value out;
    if (is_one_for_all(p, &a, &b))
        return program_shift(p, a, b);
    struct node *node = node_append_pair(p, &operation_add, "a sum", a, b, &out);
    if (node_of(p, a)->count != node_of(p, b)->count)
        program_fail(p, "a sum of rows of all inputs and of each");
    node->count = node_of(p, a)->count;
    return out;
}

bool node_groups(const struct population *groups, const struct population *units) {
    return groups->group == 1 && units->of == groups &&
           groups->sites * (size_t)units->group == units->sites;
}

struct value program_multiply(struct program *p, struct value a, struct value b) {
    struct value out;
    if (is_one_for_all(p, &a, &b))
        return program_scale(p, a, 0, b);
    if (are_numbers(p, a, b)) {
        node_append_pair(p, &operation_multiply, "a product", a, b, &out);
        return out;
    }
    if (!node_given_rows(p, "a product", a, b))
        return none;
    const struct population *u = node_of(p, a)->on, *v = node_of(p, b)->on;
    if (u != v && !node_groups(u, v))
        program_fail(p, "a product of rows of different populations, %s and %s", TEXT_SHOWN_OF(u),
                     TEXT_SHOWN_OF(v));
    if (!node_paired(p, "a product", a, b))
        return none;
    struct node *node = node_append(p, &operation_multiply, a, b, &out);
    node->on = node_of(p, b)->on;
    if (node_of(p, a)->count == 1) {
        node_shape(p, node, node_of(p, b)->per);
        node->count = node_of(p, b)->count;
    }
    return out;
}

struct value program_expand(struct program *p, struct value x, struct population *units) {
    return program_multiply(p, x, program_ones(p, units));
}

struct value program_top(struct program *p, struct value x, size_t K) {
    struct value out;
    struct node *node = node_append_like(p, &operation_top, x, &out);
    node->constant.top = K;
    if (!node->on)
        program_selects(p, x, (int)K);
    return out;
}

struct value program_ones(struct program *p, struct population *on) {
    struct value out;
    struct node *node = node_append(p, &operation_ones, none, none, &out);
    node->on = on;
    node->count = 1;
    return out;
}

struct value program_rule(struct program *p, const struct operation *op, struct value x,
                          void *context) {
    struct value out;
    struct node *node = node_append_like(p, op, x, &out);
    node->constant.context = context;
    if (!p->code && op->shape)
        op->shape(p, node, NULL);
    return out;
}

struct value program_average(struct program *p, struct value a, struct value b) {
    struct value out;
    if (node_given_rows(p, "an average", a, b))
        values_alike(p, "an average", a, b);
    node_append_numbers(p, &operation_average, a, b, 1, &out);
    return out;
}

struct value program_mean(struct program *p, struct value a) {
    struct value out;
    node_given_rows(p, "a mean", a, none);
    node_append_numbers(p, &operation_average, a, none, 1, &out);
    return out;
}
