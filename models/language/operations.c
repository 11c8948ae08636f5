/* Operations from rows to rows. Adjoints are in the site average (adjoint.h). */
#include "kernels/array/functions.h"
#include "models/language/adjoint.h"
#include "models/language/operation.h"
#include "kernels/base/text.h"

static bool fn_jumps(const struct program *p, int i) {
    return p->node[i].on && p->node[i].constant.fn == FN_RELU;
}

static void fn_forward(struct net *net, struct node *v) {
    double *k = net->program->c;
    struct rows slope =
        v->plan.slope < 0 ? (struct rows){0} : net->program->node[v->plan.slope].value;
    for (int mu = 0; mu < v->count; mu++)
        k[mu] = v->constant.factor;
    ops(v->value)->pointwise(v->constant.fn, v->constant.factor == 1 ? NULL : k, NULL,
                             argument(net, v, 0)->value, v->value, slope);
}

static struct value fn_adjoint(struct program *p, int v, int k UNUSED, struct value g) {
    return adjoint_times(p, p->node[v].constant.factor,
                         adjoint_append(p, &operation_multiply, adjoint_slope(p, v), g, v));
}

static bool fn_keeps_zero(const struct node *v) {
    real zero = 0, value;
    functions_apply(v->constant.fn, 1, 0, &zero, 1, &value, NULL);
    return value == 0;
}

OPERATION(fn, .zeros = ZEROS_OF_FIRST, .keeps_zero = fn_keeps_zero,
          .constants = CONSTANTS(CONSTANT("function", FIELD_FUNCTION, fn),
                                 CONSTANT("k", FIELD_REAL, factor)),
          .forward = fn_forward, .adjoint = fn_adjoint, .jumps = fn_jumps,
          .traits = OP_IN_PLACE | OP_BY_ROW | OP_FUNCTION | OP_BARE);

static void add_forward(struct net *net, struct node *v) {
    const struct node *second = argument(net, v, 1);
    struct rows a = argument(net, v, 0)->value, b = second->value;
    if (same_rows(b, v->value)) {
        rows_add(NULL, a, v->value);
        return;
    }
    if (!same_rows(a, v->value))
        rows_copy(a, v->value);
    if (second->expert.added && selected_some(second))
        rows_add_at(b, second->expert.of->some.which, v->value);
    else
        rows_add(NULL, b, v->value);
}

OPERATION(add, .zeros = ZEROS_OF_BOTH, .forward = add_forward, .adjoint = adjoint_same,
          .traits = OP_LINEAR | OP_IN_PLACE | OP_BY_ROW | OP_ADDS_AT | OP_BARE);

static void times_forward(struct net *net, struct node *v) {
    struct rows x = argument(net, v, 0)->value;
    if (!same_rows(x, v->value))
        rows_copy(x, v->value);
    rows_scale(v->constant.factor, v->value);
}

/* The factor of a product is 1. */
static void times_late(struct net *net, struct node *v) {
    numbers_late(net, v, 1, v->constant.factor);
}

static struct value times_adjoint(struct program *p, int v, int k UNUSED, struct value g) {
    return adjoint_times(p, p->node[v].constant.factor, g);
}

OPERATION(times, .zeros = ZEROS_OF_FIRST, .constants = CONSTANTS(CONSTANT("k", FIELD_REAL, factor)),
          .forward = times_forward, .late = times_late, .adjoint = times_adjoint,
          .traits = OP_LINEAR | OP_IN_PLACE | OP_BY_ROW | OP_BARE);

static void multiply_forward(struct net *net, struct node *v) {
    rows_multiply(argument(net, v, 0)->value, argument(net, v, 1)->value, v->value);
}

static const struct operation operation_group_mean, operation_tile, operation_tile_mean;

/* A factor over groups gets the mean over each group. */
static struct value multiply_adjoint(struct program *p, int v, int k, struct value g) {
    int mine = p->node[v].argument[k];
    struct value other = {p->node[v].argument[1 - k]},
                 part = adjoint_append(p, &operation_multiply, other, g, v);
    return p->code || p->node[mine].on == p->node[v].on
               ? part
               : adjoint_append(p, &operation_group_mean, part, none, mine);
}

OPERATION(multiply, .zeros = ZEROS_OF_EITHER, .forward = multiply_forward, .late = times_late,
          .adjoint = multiply_adjoint,
          .traits = OP_IN_PLACE | OP_BY_ROW | OP_GROUPED_FACTOR | OP_BARE);

static void group_mean_forward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    ops(x->value)->group_sum(x->value, v->value);
    rows_scale(1.0 / x->on->group, v->value);
}

/* To another population, if the sites of the two go together. */
static void move_to(struct program *p, struct node *node, struct population *on, bool fits) {
    if (!fits)
        program_fail(p, "%s from population %s does not fit %s", node->op->name,
                     TEXT_SHOWN_OF(node->on), TEXT_SHOWN_OF(on));
    node->on = on;
}

static void group_mean_shape(struct program *p, struct node *node, struct population *groups) {
    move_to(p, node, groups, node_groups(groups, node->on));
}

static void expand_forward(struct net *net, struct node *v) {
    rows_zero(v->value);
    ops(v->value)->pointwise(FN_LINEAR, NULL, net->output.ones, v->value, v->value,
                             (struct rows){0});
    rows_multiply(argument(net, v, 0)->value, v->value, v->value);
}

/* Rows of groups at each of their sites. */
static OPERATION(expand, .forward = expand_forward, .traits = OP_LINEAR);

static OPERATION(group_mean, .arguments = "x, p", .gives = "rows",
                 .doc = "the mean over the units of each expert: from the units to the experts p",
                 .shape = group_mean_shape, .zeros = ZEROS_OF_FIRST, .forward = group_mean_forward,
                 .back = &operation_expand, .traits = OP_LINEAR);

static void tile_forward(struct net *net, struct node *v) {
    ops(v->value)->tile(argument(net, v, 0)->value, v->value);
}

static void tile_mean_forward(struct net *net, struct node *v) {
    ops(v->value)->tile_mean(argument(net, v, 0)->value, v->value);
}

/* Whether each group of `pairs` is a copy of `units`. */
static bool is_tiled(const struct population *units, const struct population *pairs) {
    return units->group == 1 && units->sites == (size_t)pairs->group &&
           (!pairs->units || pairs->units == units);
}

static void tile_shape(struct program *p, struct node *node, struct population *pairs) {
    move_to(p, node, pairs, is_tiled(node->on, pairs));
}

static void tile_mean_shape(struct program *p, struct node *node, struct population *units) {
    move_to(p, node, units, is_tiled(units, node->on));
}

static OPERATION(
    tile, .arguments = "x, p", .gives = "rows",
    .doc = "rows of units that all experts share, copied to every expert: from the units to the "
           "pairs p",
    .shape = tile_shape, .forward = tile_forward, .back = &operation_tile_mean,
    .traits = OP_LINEAR);
static OPERATION(tile_mean, .arguments = "x, p", .gives = "rows",
                 .doc = "the mean over experts: from the pairs to the units p",
                 .shape = tile_mean_shape, .forward = tile_mean_forward, .back = &operation_tile,
                 .traits = OP_LINEAR | OP_MEAN_OF_COPIES);

static void shift_forward(struct net *net, struct node *v) {
    ops(v->value)->pointwise(FN_LINEAR, NULL, column_for(net, v, argument(net, v, 0), 0),
                             argument(net, v, 1)->value, v->value, (struct rows){0});
}

static struct value shift_adjoint(struct program *p, int v, int k, struct value g) {
    return k == 1 ? g : numbers_average(p, g, none, 0, p->node[v].argument[0]);
}

OPERATION(shift, .forward = shift_forward, .adjoint = shift_adjoint,
          .traits = OP_LINEAR | OP_BY_ROW | OP_BARE | OP_IN_PLACE);

/* Whether a mask of rows is read by more than averages without a cotangent: the mean of rows over
 * the mask of their largest site is the origin of a softmax, and no row jumps with it. */
static bool mask_acts(const struct program *p, int mask) {
    if (!p->node[mask].on)
        return true;
    for (int i = mask + 1; i < p->nodes; i++)
        for (int k = 0; k < 2; k++)
            if (p->node[i].argument[k] == mask && (p->node[i].on || p->node[i].plan.g >= 0))
                return true;
    return false;
}

static void top_forward(struct net *net, struct node *v) {
    ops(v->value)->top(argument(net, v, 0)->value, v->constant.top, v->value);
}

static int ones_prepare(struct net *net, struct node *v, struct err *err) {
    return net_rows(net, v->on, 1, &v->value, err);
}

static void ones_forward(struct net *net UNUSED, struct node *v) {
    const double one = 1;
    rows_zero(v->value);
    ops(v->value)->pointwise(FN_LINEAR, NULL, &one, v->value, v->value, (struct rows){0});
}

/* Counted numbers average over nothing: the limit and all networks of a seed have the same noise,
 * from owners behind those of biases. */
static struct rng_stream noise_stream(const struct net *net, const struct node *v) {
    int owner = (int)(v - net->program->node) % RNG_OWNERS;
    struct rng_stream stream = net_stream(net, PURPOSE_NOISE, owner);
    if (v->on)
        stream.first_pair = net_first_pair(&net->setup, v->on->sites);
    else
        stream = (struct rng_stream){.seed = net->setup.seed,
                                     .purpose = PURPOSE_BIAS,
                                     .owner = (uint32_t)(RNG_OWNERS - 1 - v->constant.first)};
    stream.draw = (uint32_t)net->place.t * (uint32_t)v->count;
    return stream;
}

/* A prediction draws no noise; noise belongs to training. */
static void noise_forward(struct net *net, struct node *v) {
    if (net->batch.predicting)
        rows_zero(v->value);
    else
        ops(v->value)->normals(v->value, noise_stream(net, v));
}

/* Its number among the noises of numbers, which networks of all widths have in one order. */
static void noise_shape(struct program *p, struct node *node, struct population *on UNUSED) {
    for (int i = 0; i < p->nodes - 1; i++)
        node->constant.first += p->node[i].op == node->op && !p->node[i].on;
}

static bool noise_jumps(const struct program *p, int i) {
    return p->node[i].on;
}

static OPERATION(
    noise, .arguments = "x", .gives = "rows or numbers",
    .doc =
        "standard normals like x, new at every site or number, input, token and step, constant in "
        "the backward pass; 0 for test inputs. Those of numbers are the same for the limit and all "
        "networks of a seed",
    .shape = noise_shape, .forward = noise_forward, .jumps = noise_jumps);

/* How many numbers a constant has for a token: those of one group, or of all sites. */
static size_t constant_period(const struct population *on) {
    return on->group > 1 ? (size_t)on->group : on->sites;
}

/* Rows of every token of every input, from the numbers of one group and one input. */
static int constant_prepare(struct net *net, struct node *v, struct err *err) {
    size_t n = (size_t)v->per, sites = v->on->sites, each = constant_period(v->on);
    TRY(net_rows(net, v->on, v->count, &v->value, err));
    if (net->setup.declare_only)
        return CODE_OK;
    SCRATCH(double, rows, (size_t)v->count *sites);
    for (size_t r = 0; r < (size_t)v->count; r++)
        for (size_t i = 0; i < sites; i++)
            rows[r * sites + i] = v->constant.given[r % n * each + i % each];
    ops(v->value)->put(v->value, rows);
    return CODE_OK;
}

static json_t *constant_values(const struct node *v) {
    json_t *rows = json_array();
    size_t each = constant_period(v->on);
    for (size_t s = 0; s < (size_t)v->per && rows; s++)
        rows = describe_append(rows, describe_list(v->constant.given + s * each, each));
    return rows;
}

OPERATION(constant, .constants = CONSTANTS(CONSTANT_LIST("values", constant_values)),
          .prepare = constant_prepare, .traits = OP_CONSTANT);

struct value program_constant(struct program *p, struct population *on, const double *values) {
    struct value out;
    struct node *node = node_append(p, &operation_constant, none, none, &out);
    node->on = on;
    node->constant.given = values;
    return out;
}

OPERATION(top, .zeros = ZEROS_OF_RULE, .constants = CONSTANTS(CONSTANT("top", FIELD_SIZE, top)),
          .forward = top_forward, .jumps = mask_acts, .traits = OP_BY_ROW);
OPERATION(ones, .prepare = ones_prepare, .forward = ones_forward,
          .traits = OP_LINEAR | OP_CONSTANT);

const struct operation *const operation_words_of_rows[] = {
    &operation_group_mean, &operation_tile, &operation_tile_mean, &operation_noise, NULL};
