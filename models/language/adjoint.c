#include "models/language/adjoint.h"
#include "models/language/operation.h"

/* Written by others: by the forward pass; and columns, which are those of a matrix. */
static const struct operation operation_slope = {.name = "slope"},
                              operation_column = {.name = "column", .traits = OP_CONSTANT};

/* --- sums of parts --------------------------------------------------------------------------- */

static void pass_forward(struct net *net, struct node *v) {
    struct rows x = argument(net, v, 0)->value;
    if (v->onto >= 0)
        rows_add(NULL, x, v->value);
    else
        rows_copy(x, v->value);
}

/* One row for all inputs, as a row of each. */
static void repeat_forward(struct net *net, struct node *v) {
    ops(v->value)->combine(v->value, v->onto >= 0 ? 1 : 0, net->output.ones,
                           argument(net, v, 0)->value);
}

/* The rows of an expert, out of all; where it has all of them, its rows are those (selected.c). */
static void take_forward(struct net *net, struct node *v) {
    if (selected_some(v))
        rows_take(argument(net, v, 0)->value, v->expert.of->some.which, v->value);
}

/* And to their places among all. */
static void put_forward(struct net *net, struct node *v) {
    struct rows x = argument(net, v, 0)->value;
    const int *which = v->expert.of->some.which;
    if (v->onto >= 0 && selected_some(v))
        rows_add_at(x, which, v->value);
    else if (v->onto >= 0)
        rows_add(NULL, x, v->value);
    else {
        if (x.array != v->value.array)
            rows_copy(x, rows_part(v->value, 0, x.count));
        if (selected_some(v))
            rows_spread(v->value, which, x.count);
    }
}

static void seed_forward(struct net *net, struct node *v) {
    for (size_t k = 0; k < node_numbers(v); k++)
        v->s[k] = net->setup.gamma0 * net->output.Delta[k];
}

static OPERATION(pass, .forward = pass_forward, .traits = OP_LINEAR);
static OPERATION(repeat, .forward = repeat_forward, .traits = OP_LINEAR);
static OPERATION(take, .forward = take_forward, .traits = OP_LINEAR);
static OPERATION(put, .forward = put_forward, .traits = OP_LINEAR | OP_IN_PLACE);
static OPERATION(seed, .forward = seed_forward);

bool adjoint_is_taken(const struct node *node) {
    return node->op == &operation_take;
}

/* --- nodes ----------------------------------------------------------------------------------- */

/* Rows of a node that differ by more than a factor. */
static int differ_of(const struct program *p, int i) {
    return i < 0 ? 0 : i < p->nodes ? p->node[i].count : p->node[i].plan.differ;
}

static int larger_of(int a, int b) {
    return a > b ? a : b;
}

static struct value append_node(struct program *p, struct node node) {
    struct node *added = program_grow(p, &p->node, &p->all, sizeof *added);
    if (!added)
        return none;
    *added = node;
    added->of = p->reverse;
    if (!node.plan.differ)
        added->plan.differ =
            larger_of(node.op->traits & OP_SCALES_ROWS ? 0 : differ_of(p, node.argument[0]),
                      differ_of(p, node.argument[1]));
    return (struct value){p->all - 1};
}

/* A node that is shaped as node `like`. */
static struct node node_like(const struct program *p, const struct operation *op, struct value a,
                             struct value b, int like) {
    const struct node *shape = node_of(p, (struct value){like});
    struct node node = node_of_operation(op, a, b);
    node.on = shape->on;
    node.per = shape->per;
    node.count = shape->count;
    node.K = shape->K;
    return node;
}

/* Rows are those of an expert where the node in reverse has no others. */
static struct value append_part(struct program *p, struct node node) {
    const struct node *v = &p->node[p->reverse];
    node.plan.adds = node.op->traits & OP_ADDS;
    node.expert.of = v->expert.of;
    node.expert.apart = v->expert.of && node.on && node.count == v->count;
    return append_node(p, node);
}

struct value adjoint_slope(struct program *p, int v) {
    struct node node = node_like(p, &operation_slope, none, none, v);
    node.plan.differ = node.count;
    node.plan.forward = true;
    struct value out = append_part(p, node);
    p->node[v].plan.slope = out.at;
    return out;
}

struct value adjoint_column(struct program *p, int v) {
    struct node node = node_like(p, &operation_column, none, none, p->node[v].argument[0]);
    node.count = node.plan.differ = 1;
    return append_node(p, node);
}

struct value adjoint_append(struct program *p, const struct operation *op, struct value a,
                            struct value b, int like) {
    struct node node = node_like(p, op, a, b, like);
    node.count = larger_of(node_of(p, a)->count, node_of(p, b)->count);
    return append_part(p, node);
}

struct value adjoint_like(struct program *p, const struct operation *op, struct value a,
                          struct value b, int like) {
    struct node node = node_like(p, op, a, b, like);
    node.plan.differ = node.count;
    return append_part(p, node);
}

struct value adjoint_same(struct program *p UNUSED, int v UNUSED, int k UNUSED, struct value g) {
    return g;
}

struct value adjoint_repeat(struct program *p, struct value x, int like) {
    return adjoint_like(p, &operation_repeat, x, none, like);
}

struct value adjoint_times(struct program *p, double factor, struct value x) {
    if (factor == 1)
        return x;
    struct value out = adjoint_append(p, &operation_times, x, none, x.at);
    node_of(p, out)->constant.factor = factor;
    return out;
}

int adjoint_take(struct program *p, int v, int x, bool forward) {
    struct node node = node_like(p, &operation_take, (struct value){x}, none, x);
    node.plan.forward = forward;
    p->reverse = v;
    return append_part(p, node).at;
}

/* --- cotangents ------------------------------------------------------------------------------ */

/* A node of the sum of node a, with `count` rows: x, as it is or added to others. */
static int append_sum(struct program *p, int a, const struct operation *op, int x, int onto,
                      int count) {
    const struct node *to = &p->node[a], *v = op == &operation_put ? &p->node[p->reverse] : to;
    struct node node = node_like(p, op, (struct value){x}, none, a);
    node.count = count;
    node.onto = onto;
    node.expert.of = v->expert.of;
    node.expert.apart = to->expert.apart && count == to->count;
    node.plan.differ = larger_of(differ_of(p, onto), differ_of(p, x));
    return append_node(p, node).at;
}

/* Whether a part is added to a sum by the node that makes it; rows of an expert are put to their
 * places first. Matrices do so neither where gates are nor where a row may serve all inputs, so
 * that the order of sums does not depend on what is measured. */
static bool adds_itself(const struct program *p, const struct node *v, const struct node *part) {
    const struct net *net = p->net;
    return part->plan.adds && !(v->expert.of && part->on) &&
           (!v->matrix.map || (!v->expert.gated && net->output.loss_in_cotangent &&
                               net_map_kind(net, &v->matrix.map->declared)->add_backward));
}

/* One more part of the cotangent of argument k of node i, whose own is g. A node that adds by
 * itself comes behind the sum so far, which may need more rows; the coordinate check, which looks
 * at what matrices hand back, has them hand it back once more. */
static void add_part_of(struct program *p, int i, int k, int g) {
    const struct node *v = &p->node[i];
    int a = v->argument[k], sum = p->node[a].plan.g, part = v->plan.part[k];
    int count = p->node[part].count, has = sum < 0 ? 0 : p->node[sum].count;
    struct node last = p->node[part];
    bool check = p->net->setup.measure.check, full = !p->node[a].expert.apart && count == v->count,
         into = sum >= 0 && part != g && has <= count && adds_itself(p, v, &last),
         moves = into && !(check && v->matrix.map);
    const struct operation *op = has > count                        ? &operation_repeat
                                 : v->expert.of && full && last.on  ? &operation_put
                                 : sum >= 0 || (check && part == g) ? &operation_pass
                                                                    : NULL;
    p->all -= moves;
    if (sum >= 0 && has < count)
        sum = append_sum(p, a, &operation_repeat, sum, -1, count);
    last.onto = sum;
    last.plan.differ = larger_of(last.plan.differ, differ_of(p, sum));
    sum = into ? append_node(p, last).at
          : op ? append_sum(p, a, op, part, sum, larger_of(has, count))
               : part;
    p->node[i].plan.part[k] = moves ? sum : part;
    p->node[a].plan.g = sum;
}

/* What node i hands back to argument k by its row, g being its cotangent. */
static struct value part_of(struct program *p, int i, int k, struct value g) {
    const struct operation *op = p->node[i].op, *back = op->back;
    bool of_value = back && back->traits & OP_OF_VALUE;
    return !back ? op->adjoint(p, i, k, g)
                 : (back->traits & OP_AS_ARGUMENT ? adjoint_like : adjoint_append)(
                       p, back, of_value ? (struct value){i} : g, of_value ? g : none,
                       p->node[i].argument[k]);
}

/* The part of argument k, where g is the cotangent of node i. */
static void write_part(struct program *p, int i, int k, struct value g) {
    struct value part = part_of(p, i, k, g);
    if (p->code)
        return;
    p->node[i].plan.part[k] = part.at;
    add_part_of(p, i, k, g.at);
}

/* The cotangent of node i is complete: it gets a row for each of its own where one for all will not
 * do, and its parts follow. */
static void write_node(struct program *p, int i) {
    const struct node *v = &p->node[i];
    bool wide = !v->on || v->plan.measured_g || (v->op->traits & OP_EVERY_ROW) ||
                (v->matrix.map && v->matrix.map->declared.uses > 1);
    int g = v->plan.g, count = v->count;
    p->reverse = i;
    if (g >= 0 && wide && p->node[g].count < count)
        g = append_sum(p, i, &operation_repeat, g, -1, count);
    p->node[i].plan.g = g;
    if (g >= 0 && p->node[i].op->learned && !p->code)
        p->node[i].plan.learned = p->node[i].op->learned(p, i, (struct value){g}).at;
    p->node[i].plan.begin = p->all;
    if (p->code || (g < 0 && i != p->output && !(p->node[i].op->traits & OP_STARTS_BACKWARD)))
        return;
    v = &p->node[i];
    if (v->expert.of && !v->expert.apart && g >= 0 && p->node[g].count == count) {
        g = adjoint_take(p, i, g, false);
        p->node[i].expert.g = g;
    }
    for (int k = 0; k < 2 && !p->code; k++) {
        int argument = p->node[i].argument[k];
        if (argument >= 0 && p->node[argument].plan.moves && operation_has_adjoint(p->node[i].op))
            write_part(p, i, k, (struct value){g});
    }
}

/* How many passes of matrices, one after the other, a node's part in reverse waits for. Others
 * share a wait of a device: of a node come first those that are no matrices. */
struct turn {
    int level, others; /* least level of a node; of a matrix that reads what others read */
};

/* Nodes from the last one on, each behind all that read it. On a device, what needs no matrix comes
 * before matrices that do not need it, so that these can ask about their rows together
 * (map_ask_ahead). The order of matrices, and of all that read the same, is always one: so are
 * draws, and sums. */
static void find_order(struct program *p) {
    bool late = backend_has_later(p->net->setup.backend);
    struct turn *turn = program_memory(p, (size_t)p->nodes * sizeof *turn);
    int highest = 0, last = 0, count = 0;
    p->order = program_memory(p, (size_t)p->nodes * sizeof *p->order);
    for (int i = p->nodes - 1; i >= 0 && !p->code && late; i--) {
        const struct node *v = &p->node[i];
        bool matrix = v->op->traits & OP_MEETS;
        int level = matrix && last > turn[i].level ? last : turn[i].level;
        for (int k = 0; k < 2; k++)
            if (v->argument[k] >= 0) {
                const struct turn *of = &turn[v->argument[k]];
                level = larger_of(level, matrix ? of->others : of->level);
            }
        for (int k = 0; k < 2; k++)
            if (v->argument[k] >= 0) {
                struct turn *of = &turn[v->argument[k]];
                of->level = larger_of(of->level, level + matrix);
                of->others = larger_of(of->others, level);
            }
        turn[i].level = level;
        last = matrix ? level : last;
        highest = larger_of(highest, level);
    }
    for (int pass = 0; pass < (late ? 2 * highest + 2 : 1) && !p->code; pass++)
        for (int i = p->nodes - 1; i >= 0; i--) {
            bool meets = p->node[i].op->traits & OP_MEETS;
            if (!late || (turn[i].level == pass / 2 && meets == pass % 2))
                p->order[count++] = i;
        }
}

int adjoint_write(struct program *p, struct err *err) {
    p->reverse = p->output;
    if (p->net->output.loss_in_cotangent)
        p->node[p->output].plan.g = adjoint_like(p, &operation_seed, none, none, p->output).at;
    find_order(p);
    for (int k = 0; k < p->nodes && !p->code; k++) {
        int i = p->order[k];
        write_node(p, i);
        const struct node *v = &p->node[i];
        if (!p->code && (v->plan.measured_g || v->plan.kept_g) && v->plan.g < 0)
            program_fail(p, "it measures a gradient that the output does not have");
    }
    return program_result(p, err);
}

int adjoint_prepare(struct program *p, struct err *err) {
    bool late = backend_has_later(p->net->setup.backend) && !p->net->setup.declare_only;
    for (int i = p->nodes; i < p->all; i++) {
        struct node *v = &p->node[i];
        const struct node *of = &p->node[v->of];
        v->matrix = of->matrix;
        v->A = of->A;
        if (v->op == &operation_column)
            v->value = array_all(&of->matrix.thin->W);
        v->work = v->op == &operation_take ? v->value : of->work;
        if (late && v->op->finish && v->plan.adds &&
            !(v->op == &operation_average && node_asks_value(p, v)))
            TRY(net_vector(p->net, (size_t)v->count, (size_t)v->K, &v->asked, err));
    }
    return CODE_OK;
}
