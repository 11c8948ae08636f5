/* What is made of numbers of each input: sums and products, in which one column goes with any
 * number of them, functions of single numbers, and one number made of all. */
#include "models/language/adjoint.h"
#include "models/language/operation.h"

#include <math.h>
#include <string.h>

static const struct value none = {-1};

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

static const struct operation operation_pick_back = {
    .name = "pick_back",
    .constants = CONSTANTS(CONSTANT("column", FIELD_INT, column)),
    .forward = pick_back_forward};

static struct value at_column(struct program *p, struct value part, int column) {
    if (part.at >= 0)
        node_of(p, part)->constant.column = column;
    return part;
}

static struct value pick_adjoint(struct program *p, int v, int k, struct value g) {
    struct value part = adjoint_like(p, &operation_pick_back, g, none, p->node[v].argument[k]);
    return at_column(p, adjoint_into(p, part), p->node[v].constant.column);
}

static const struct operation operation_pick = {
    .name = "pick",
    .zeros = ZEROS_OF_FIRST,
    .constants = CONSTANTS(CONSTANT("column", FIELD_INT, column)),
    .forward = pick_forward,
    .adjoint = pick_adjoint,
    .by_row = true,
    .bare = true,
    .across_inputs = true};

struct value program_pick(struct program *p, struct value s, int column) {
    struct value out = none;
    if (node_given_numbers(p, "a part of numbers", s))
        node_append_numbers(p, &operation_pick, s, none, 1, &out);
    return p->code ? none : at_column(p, out, column);
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

static const struct operation operation_join = {.name = "join",
                                                .forward = join_forward,
                                                .adjoint = join_adjoint,
                                                .by_row = true,
                                                .bare = true,
                                                .across_inputs = true};

struct value program_join(struct program *p, struct value a, struct value b) {
    struct value out = none;
    if (node_given_numbers(p, "a list", a) && node_given_numbers(p, "a list", b) &&
        node_paired(p, "a list", a, b))
        node_append_numbers(p, &operation_join, a, b, node_of(p, a)->K + node_of(p, b)->K, &out);
    return p->code ? none : out;
}

/* --- functions of numbers -------------------------------------------------------------------- */

struct number_rule_data {
    int K;
    double c;
};

static void plus_forward(const void *context, const struct net *net, int rows, const double *x,
                         double *out) {
    const struct number_rule_data *of = context;
    (void)net;
    for (ptrdiff_t k = 0; k < (ptrdiff_t)rows * of->K; k++)
        out[k] = x[k] + of->c;
}

static struct value same_adjoint(struct program *p, int v, struct value g) {
    (void)p, (void)v;
    return g;
}

static void power_forward(const void *context, const struct net *net, int rows, const double *x,
                          double *out) {
    const struct number_rule_data *of = context;
    (void)net;
    for (ptrdiff_t k = 0; k < (ptrdiff_t)rows * of->K; k++)
        out[k] = pow(x[k], of->c);
}

/* c s^(c - 1) g, 0 where c is 0, whatever s is. */
struct value numbers_power_adjoint(struct program *p, int v, double c, struct value g) {
    static const struct number_fn power = {.forward = power_forward};
    int x = p->node[v].argument[0];
    struct number_rule_data *of = program_memory(p, sizeof *of);
    struct value slope = adjoint_like(p, &operation_numbers, (struct value){x}, none, x);
    if (slope.at < 0 || !of)
        return none;
    *of = (struct number_rule_data){node_of(p, slope)->K, c - 1};
    node_of(p, slope)->constant.numbers = &power;
    node_of(p, slope)->constant.context = of;
    return c == 0 ? adjoint_times(p, 0, g)
                  : adjoint_times(p, c, adjoint_like(p, &operation_multiply, slope, g, x));
}

static struct value power_adjoint(struct program *p, int v, struct value g) {
    const struct number_rule_data *of = p->node[v].constant.context;
    return numbers_power_adjoint(p, v, of->c, g);
}

/* One number of a row: the sum of its K. */
static void sum_forward(const void *context, const struct net *net, int rows, const double *x,
                        double *out) {
    int K = ((const struct number_rule_data *)context)->K;
    (void)net;
    for (ptrdiff_t i = 0; i < rows; i++) {
        out[i] = 0;
        for (int k = 0; k < K; k++)
            out[i] += x[i * K + k];
    }
}

static struct value sum_adjoint(struct program *p, int v, struct value g) {
    return adjoint_into(p, adjoint_like(p, &operation_spread, g, none, p->node[v].argument[0]));
}

/* ln sum_k exp(x_k), the largest taken out first. */
static void log_sum_exp(const void *context, const struct net *net, int rows, const double *x,
                        double *out) {
    int K = ((const struct number_rule_data *)context)->K;
    (void)net;
    for (ptrdiff_t i = 0; i < rows; i++, x += K) {
        double largest = x[0], sum = 0;
        for (int k = 1; k < K; k++)
            largest = !(x[k] <= largest) ? x[k] : largest;
        for (int k = 0; k < K; k++)
            sum += exp(x[k] - largest);
        out[i] = largest + log(sum);
    }
}

/* g exp(x - ln sum exp x) */
static struct value log_sum_exp_adjoint(struct program *p, int v, struct value g) {
    struct value x = {p->node[v].argument[0]}, minus = adjoint_times(p, -1, (struct value){v}),
                 below = adjoint_like(p, &operation_shift, minus, x, x.at),
                 share = adjoint_like(p, &operation_fn, below, none, x.at);
    if (share.at >= 0)
        node_of(p, share)->constant.fn = FN_EXP;
    return adjoint_like(p, &operation_scale, g, share, x.at);
}

static const struct constant_field factor[] = {
    CONSTANT_OF(struct number_rule_data, "c", FIELD_REAL, c), {0}};
static const struct number_fn rules[] = {
    [NUMBER_PLUS] = {{"plus", factor},
                     .forward = plus_forward,
                     .adjoint = same_adjoint,
                     .bare = true},
    [NUMBER_POWER] = {{"power", factor},
                      .forward = power_forward,
                      .adjoint = power_adjoint,
                      .keeps_zero = true,
                      .bare = true},
    /* 0^c where c is 0 or less: 1, or no number. */
    [NUMBER_POWER_OF_ZERO] = {{"power", factor},
                              .forward = power_forward,
                              .adjoint = power_adjoint,
                              .bare = true},
    [NUMBER_SUM] = {{"sum", NULL}, .forward = sum_forward, .adjoint = sum_adjoint},
    [NUMBER_LOG_SUM_EXP] = {{"log_sum_exp", NULL},
                            .forward = log_sum_exp,
                            .adjoint = log_sum_exp_adjoint},
};

struct value program_number(struct program *p, enum number_rule rule, double c, struct value s) {
    struct number_rule_data *of = program_memory(p, sizeof *of);
    if (!of || !node_given_numbers(p, "a function of numbers", s))
        return none;
    if (!isfinite(c))
        program_fail(p, "numbers are combined with a number that is infinite or none");
    *of = (struct number_rule_data){node_of(p, s)->K, c};
    if (rule == NUMBER_POWER && c <= 0)
        rule = NUMBER_POWER_OF_ZERO;
    return program_numbers(p, &rules[rule], of, s, rule < NUMBER_SUM ? of->K : 1);
}
