/* Operations between rows and numbers: averages over sites, scaling of rows by numbers, biases, and
 * numbers made of numbers. */
#include "models/language/adjoint.h"
#include "models/language/operation.h"

static struct rows other(const struct net *net, const struct node *v) {
    return v->argument[1] < 0 ? (struct rows){0} : argument(net, v, 1)->value;
}

static void average_forward(struct net *net, struct node *v) {
    struct rows x = argument(net, v, 0)->value;
    ops(x)->averages(x, other(net, v),
                     node_asks_value(net->program, v) ? v->s : node_asked(net, v));
}

/* In reverse, added to a column of numbers, which may be those of some rows alone. */
static void average_finish(struct net *net, struct node *v) {
    const double *out = node_asked(net, v);
    int count = node_asks_value(net->program, v) ? 0
                : selected_some(v)               ? v->expert.of->some.count
                                                 : v->count;
    for (int mu = 0; mu < count; mu++)
        v->s[row_of(v, mu) * v->K + v->constant.column] +=
            out[argument(net, v, 0)->value.count == 1 ? 0 : mu];
}

struct value numbers_average(struct program *p, struct value x, struct value y, int column,
                             int like) {
    struct value out = adjoint_like(p, &operation_average, x, y, like);
    node_of(p, out)->constant.column = column;
    return out;
}

/* A number at all sites. */
static void spread_forward(struct net *net, struct node *v) {
    if (v->onto < 0)
        rows_zero(v->value);
    ops(v->value)->pointwise(FN_LINEAR, NULL, argument(net, v, 0)->s, v->value, v->value,
                             (struct rows){0});
}

OPERATION(spread, .forward = spread_forward, .traits = OP_LINEAR | OP_ADDS);

static struct value average_adjoint(struct program *p, int v, int k, struct value g) {
    const int *argument = p->node[v].argument;
    struct value other = {argument[1 - k]};
    if (argument[1] < 0)
        return adjoint_like(p, &operation_spread, g, none, argument[k]);
    struct value out = adjoint_like(p, &operation_scale, g, other, argument[k]);
    node_of(p, out)->plan.adds = true;
    return out;
}

OPERATION(average, .forward = average_forward, .finish = average_finish, .adjoint = average_adjoint,
          .traits = OP_ACROSS_INPUTS | OP_ADDS);

/* The average of numbers, whose sites are counted, is their sum. */
OPERATION(sum, .rule_of = "numbers", .arguments = "s", .gives = "numbers",
          .doc = "one number, the sum of the K numbers", .shape = operation_gives_one,
          .zeros = ZEROS_OF_RULE, .forward = average_forward, .finish = average_finish,
          .adjoint = average_adjoint, .traits = OP_BY_ROW);

static void scale_forward(struct net *net, struct node *v) {
    const double *c = column_for(net, v, argument(net, v, 0), v->constant.column);
    struct rows x = argument(net, v, 1)->value;
    if (x.count != v->value.count)
        ops(v->value)->combine(v->value, v->onto >= 0 ? 1 : 0, c, x);
    else if (v->onto >= 0)
        rows_add(c, x, v->value);
    else
        ops(v->value)->pointwise(FN_LINEAR, c, NULL, x, v->value, (struct rows){0});
}

static struct value scale_adjoint(struct program *p, int v, int k, struct value g) {
    struct value s = {p->node[v].argument[0]}, x = {p->node[v].argument[1]};
    if (k == 0)
        return node_of(p, x)->count < node_of(p, g)->count
                   ? numbers_average(p, g, x, p->node[v].constant.column, s.at)
                   : numbers_average(p, x, g, p->node[v].constant.column, s.at);
    struct value out = adjoint_append(p, &operation_scale, s, g, x.at);
    node_of(p, out)->constant.column = p->node[v].constant.column;
    return out;
}

OPERATION(scale, .zeros = ZEROS_OF_EITHER,
          .constants = CONSTANTS(CONSTANT("column", FIELD_INT, column)), .forward = scale_forward,
          .late = scale_forward, .adjoint = scale_adjoint,
          .traits = OP_LINEAR | OP_BY_ROW | OP_SCALES_ROWS | OP_BARE | OP_IN_PLACE);

/* The first of the biases of a row. */
static int set_of(const struct net *net, const struct node *v, ptrdiff_t row) {
    return v->constant.groups > 1 ? net->batch.token[row] * v->K : 0;
}

static void bias_forward(struct net *net, struct node *v) {
    const double *s = v->argument[0] < 0 ? NULL : argument(net, v, 0)->s;
    for (ptrdiff_t mu = 0; mu < v->count; mu++)
        for (int k = 0; k < v->K; k++)
            v->s[mu * v->K + k] =
                (s ? s[mu * v->K + k] : 0) + v->matrix.start[set_of(net, v, mu) + k];
}

/* Cotangents, each at its set. */
static void at_sets_forward(struct net *net, struct node *v) {
    const struct node *g = argument(net, v, 0), *bias = &net->program->node[v->of];
    memset(v->s, 0, node_numbers(v) * sizeof *v->s);
    for (ptrdiff_t mu = 0; mu < v->count; mu++)
        memcpy(v->s + mu * v->K + set_of(net, bias, mu), g->s + mu * g->K,
               (size_t)g->K * sizeof *v->s);
}

static OPERATION(at_sets, .forward = at_sets_forward);

static struct value bias_learned(struct program *p, int v, struct value g) {
    int sets = p->node[v].constant.groups;
    struct value out = sets > 1 ? adjoint_like(p, &operation_at_sets, g, none, v) : none;
    node_of(p, out)->K *= sets;
    return out;
}

OPERATION(bias, .forward = bias_forward, .learned = bias_learned, .adjoint = adjoint_same,
          .traits = OP_LEARNS | OP_BY_ROW);

/* --- writing them --------------------------------------------------------------------------- */

static struct node *append_scaled(struct program *p, const struct operation *op, struct value s,
                                  struct value x, struct value *out) {
    if (node_given_numbers(p, op->name, s))
        node_paired(p, op->name, s, x);
    if (!node_of(p, x)->on)
        return node_append_numbers(p, op, s, x, node_of(p, x)->K, out);
    struct node *node = node_append(p, op, s, x, out);
    node->on = node_of(p, x)->on;
    return node;
}

struct value program_scale(struct program *p, struct value s, int column, struct value x) {
    struct value out;
    append_scaled(p, &operation_scale, s, x, &out)->constant.column = column;
    return out;
}

struct value program_shift(struct program *p, struct value s, struct value x) {
    struct value out;
    append_scaled(p, &operation_shift, s, x, &out);
    return out;
}
