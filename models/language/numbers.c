/* What is made of numbers of each input: sums and products, in which one column goes with any
 * number of them, functions of single numbers, and one number made of all. */
#include "models/language/adjoint.h"
#include "models/language/operation.h"

/* --- some numbers of many, and many of some -------------------------------------------------- */

/* Numbers column, column + 1, ... of a row. */
static void pick_forward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    for (ptrdiff_t i = 0; i < v->count; i++)
        for (int k = 0; k < v->K; k++)
            v->s[i * v->K + k] = x->s[i * x->K + v->constant.column + k];
}

/* Adds them to their places. */
static void pick_back_forward(struct net *net, struct node *v) {
    const struct node *g = argument(net, v, 0);
    for (ptrdiff_t i = 0; i < v->count; i++)
        for (int k = 0; k < g->K; k++)
            v->s[i * v->K + v->constant.column + k] += g->s[i * g->K + k];
}

static OPERATION(pick_back, .traits = OP_ADDS,
                 .constants = CONSTANTS(CONSTANT("column", FIELD_INT, column)),
                 .forward = pick_back_forward);

static struct value at_column(struct program *p, struct value part, int column) {
    node_of(p, part)->constant.column = column;
    return part;
}

static struct value pick_adjoint(struct program *p, int v, int k, struct value g) {
    struct value part = adjoint_like(p, &operation_pick_back, g, none, p->node[v].argument[k]);
    return at_column(p, part, p->node[v].constant.column);
}

static OPERATION(pick, .zeros = ZEROS_OF_FIRST,
                 .constants = CONSTANTS(CONSTANT("column", FIELD_INT, column)),
                 .forward = pick_forward, .adjoint = pick_adjoint, .traits = OP_BY_ROW | OP_BARE);

struct value program_pick(struct program *p, struct value s, int column) {
    struct value out;
    node_given_numbers(p, "a part of numbers", s);
    node_append_numbers(p, &operation_pick, s, none, 1, &out);
    return at_column(p, out, column);
}

static void join_forward(struct net *net, struct node *v) {
    const struct node *a = argument(net, v, 0), *b = argument(net, v, 1);
    double *out = v->s;
    for (ptrdiff_t i = 0; i < v->count; i++, out += v->K) {
        memcpy(out, a->s + i * a->K, (size_t)a->K * sizeof *out);
        memcpy(out + a->K, b->s + i * b->K, (size_t)b->K * sizeof *out);
    }
}

static struct value join_adjoint(struct program *p, int v, int k, struct value g) {
    const int *argument = p->node[v].argument;
    return at_column(p, adjoint_like(p, &operation_pick, g, none, argument[k]),
                     k ? p->node[argument[0]].K : 0);
}

static OPERATION(join, .forward = join_forward, .adjoint = join_adjoint,
                 .traits = OP_BY_ROW | OP_BARE);

struct value program_join(struct program *p, struct value a, struct value b) {
    struct value out;
    if (node_given_numbers(p, "a list", a) && node_given_numbers(p, "a list", b))
        node_paired(p, "a list", a, b);
    node_append_numbers(p, &operation_join, a, b, node_of(p, a)->K + node_of(p, b)->K, &out);
    return out;
}

/* --- functions of numbers -------------------------------------------------------------------- */

static void plus_forward(struct net *net, struct node *v) {
    const double *x = argument(net, v, 0)->s;
    for (size_t k = 0; k < node_numbers(v); k++)
        v->s[k] = x[k] + v->constant.factor;
}

/* What a norm hands back has the power -3/2. */
static void power_forward(struct net *net, struct node *v) {
    const double *x = argument(net, v, 0)->s, c = v->constant.factor;
    for (size_t k = 0; k < node_numbers(v); k++)
        v->s[k] = c == -1.5 ? 1 / (x[k] * sqrt(x[k])) : pow(x[k], c);
}

void numbers_power_late(struct net *net, struct node *v) {
    numbers_late(net, v, v->constant.factor, 1);
}

/* 0^c is 1, or no number, where c is 0 or less. */
static bool power_keeps_zero(const struct node *v) {
    return v->constant.factor > 0;
}

static OPERATION(plus, .rule_of = "numbers",
                 .constants = CONSTANTS(CONSTANT("c", FIELD_REAL, factor)), .zeros = ZEROS_OF_RULE,
                 .forward = plus_forward, .adjoint = adjoint_same, .traits = OP_BY_ROW | OP_BARE);
static OPERATION(power, .rule_of = "numbers",
                 .constants = CONSTANTS(CONSTANT("c", FIELD_REAL, factor)), .zeros = ZEROS_OF_RULE,
                 .keeps_zero = power_keeps_zero, .forward = power_forward,
                 .late = numbers_power_late, .adjoint = numbers_power_adjoint,
                 .traits = OP_BY_ROW | OP_BARE);

/* c s^(c - 1) g, 0 where c is 0, whatever s is. */
struct value numbers_power_adjoint(struct program *p, int v, int k, struct value g) {
    int x = p->node[v].argument[k];
    double c = p->node[v].constant.factor;
    struct value slope = adjoint_like(p, &operation_power, (struct value){x}, none, x);
    node_of(p, slope)->constant.factor = c - 1;
    return c == 0 ? adjoint_times(p, 0, g)
                  : adjoint_times(p, c, adjoint_like(p, &operation_multiply, slope, g, x));
}

/* op of each of the numbers s by itself, with the constant c. */
static struct value append_with(struct program *p, const struct operation *op, struct value s,
                                double c) {
    struct value out;
    if (!isfinite(c))
        program_fail(p, "numbers are combined with a number that is infinite or none");
    node_given_numbers(p, "a function of numbers", s);
    node_append_like(p, op, s, &out)->constant.factor = c;
    return out;
}

struct value program_plus(struct program *p, struct value s, double c) {
    return append_with(p, &operation_plus, s, c);
}

struct value program_power(struct program *p, struct value s, double c) {
    return append_with(p, &operation_power, s, c);
}

/* ln sum_k exp(x_k), the largest taken out first. */
static void log_sum_exp_forward(struct net *net, struct node *v) {
    const struct node *argument_node = argument(net, v, 0);
    const double *x = argument_node->s;
    int K = argument_node->K;
    for (ptrdiff_t i = 0; i < v->count; i++, x += K) {
        double largest = x[0], sum = 0;
        for (int k = 1; k < K; k++)
            largest = !(x[k] <= largest) ? x[k] : largest;
        for (int k = 0; k < K; k++)
            sum += exp(x[k] - largest);
        v->s[i] = largest + log(sum);
    }
}

/* g exp(x - ln sum exp x) */
static struct value log_sum_exp_adjoint(struct program *p, int v, int k, struct value g) {
    struct value x = {p->node[v].argument[k]}, minus = adjoint_times(p, -1, (struct value){v}),
                 below = adjoint_like(p, &operation_shift, minus, x, x.at),
                 share = adjoint_like(p, &operation_fn, below, none, x.at);
    node_of(p, share)->constant.fn = FN_EXP;
    return adjoint_like(p, &operation_scale, g, share, x.at);
}

void operation_gives_one(struct program *p UNUSED, struct node *node,
                         struct population *on UNUSED) {
    node->K = 1;
}

static OPERATION(
    log_sum_exp, .rule_of = "numbers", .arguments = "s", .gives = "numbers",
    .doc = "one number, the logarithm of the sum of their exponentials, which overflows for no "
           "numbers",
    .shape = operation_gives_one, .zeros = ZEROS_OF_RULE, .forward = log_sum_exp_forward,
    .adjoint = log_sum_exp_adjoint, .traits = OP_BY_ROW);

const struct operation *const operation_words_of_numbers[] = {&operation_sum,
                                                              &operation_log_sum_exp, NULL};
