/* Terms that a network adds to the loss, and the mean over the inputs, which they are made of. */
#include "models/engine/apart.h"
#include "models/language/adjoint.h"
#include "models/language/operation.h"

/* --- the mean over all rows ------------------------------------------------------------------ */

static void mean_rows_forward(struct net *net, struct node *v) {
    struct rows x = argument(net, v, 0)->value;
    ops(v->value)->combine(v->value, 0, net->output.ones, x);
    rows_scale(1.0 / x.count, v->value);
}

/* A row for all, in equal parts for each. */
static struct value mean_rows_adjoint(struct program *p, int v, int k, struct value g) {
    int x = p->node[v].argument[k];
    return adjoint_times(p, 1.0 / p->node[x].count, adjoint_repeat(p, g, x));
}

static OPERATION(mean_of_rows, .forward = mean_rows_forward, .adjoint = mean_rows_adjoint,
                 .traits = OP_LINEAR | OP_EVERY_ROW | OP_ACROSS_INPUTS);

struct value program_mean_of_rows(struct program *p, struct value x) {
    struct value out;
    program_count_inputs_once(p, "a mean over the inputs");
    struct node *node = node_append_like(p, &operation_mean_of_rows, x, &out);
    node->count = 1;
    node->plan.across_inputs = true;
    return out;
}

/* --- penalties ------------------------------------------------------------------------------- */

/* The gradient of the penalty in argument 0: F counts -gamma0 times the sum of the P losses. */
static void penalty_back_forward(struct net *net, struct node *v) {
    const struct node *penalty = argument(net, v, 0);
    double c = -net->setup.gamma0 * net->setup.data.P;
    if (net->output.term && net->output.term->penalty != penalty->s)
        return;
    for (size_t k = 0; k < node_numbers(v); k++)
        v->s[k] += c * penalty->A[k];
}

static OPERATION(penalty_back, .forward = penalty_back_forward,
                 .traits = OP_ACROSS_INPUTS | OP_ADDS | OP_AS_ARGUMENT | OP_OF_VALUE);

static void mean_forward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    double c = v->constant.factor;
    v->s[0] = 0;
    for (size_t k = 0; k < node_numbers(x); k++) {
        v->s[0] += c * x->s[k] / x->count;
        v->A[k] = c / x->count;
    }
}

static void mean_square_forward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    double c = v->constant.factor / x->count;
    v->s[0] = 0;
    for (size_t k = 0; k < node_numbers(x); k++) {
        v->s[0] += c * x->s[k] * x->s[k];
        v->A[k] = 2 * c * x->s[k];
    }
}

#define PENALTY(called, run)                                                                       \
    {                                                                                              \
        .name = called, .rule_of = "penalty",                                                      \
        .constants = CONSTANTS(CONSTANT("c", FIELD_REAL, factor)), .forward = run,                 \
        .back = &operation_penalty_back, .traits = OP_ACROSS_INPUTS | OP_STARTS_BACKWARD           \
    }

static const struct operation operation_mean = PENALTY("mean", mean_forward),
                              operation_mean_square = PENALTY("mean_square", mean_square_forward);

void program_penalty_mean(struct program *p, struct value s, double c, bool square,
                          const char *name, const char *about, const char *equation) {
    struct value out;
    program_count_inputs_once(p, "a term of the loss");
    if (!node_given_numbers(p, "a penalty", s))
        return;
    p->net->output.loss_in_cotangent = true;
    struct node *node =
        node_append(p, square ? &operation_mean_square : &operation_mean, s, none, &out);
    if (p->code ||
        program_failed(p, net_vector(p->net, node_numbers(node_of(p, s)), 1, &node->A, &p->err)))
        return;
    node->constant.factor = c;
    node->s = program_series(p, "t", 1, 0, name, about, equation);
}

double program_penalties(const struct net *net) {
    double sum = 0;
    for (int i = 0; i < net->program->nodes; i++)
        if (net->program->node[i].op->traits & OP_STARTS_BACKWARD)
            sum += net->program->node[i].s[0];
    return sum;
}
