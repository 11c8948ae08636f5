/* Terms that a network adds to the loss, and the mean over the inputs, which they are made of. */
#include "models/engine/apart.h"
#include "models/language/adjoint.h"
#include "models/language/operation.h"

#include <string.h>

static const struct value none = {-1};

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

static const struct operation operation_mean_rows = {.name = "mean_of_rows",
                                                     .linear = true,
                                                     .forward = mean_rows_forward,
                                                     .adjoint = mean_rows_adjoint,
                                                     .every_row = true,
                                                     .across_inputs = true};

struct value program_mean_of_rows(struct program *p, struct value x) {
    struct value out = none;
    program_count_inputs_once(p, "a mean over the inputs");
    struct node *node = node_append_like(p, &operation_mean_rows, x, &out);
    if (!node)
        return out;
    node->count = 1;
    node->plan.across_inputs = true;
    return out;
}

/* --- penalties ------------------------------------------------------------------------------- */

static void penalty_forward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    v->s[0] = v->constant.penalty->value(v->constant.context, net, x->count, x->s, v->A);
}

/* The gradient of the penalty in argument 0: F counts -gamma0 times the sum of the losses of the P
 * inputs. */
static void penalty_back_forward(struct net *net, struct node *v) {
    const struct node *penalty = argument(net, v, 0);
    double c = -net->setup.gamma0 * net->setup.data.P;
    if (net->output.term && net->output.term->penalty != penalty->s)
        return;
    for (size_t k = 0; k < node_numbers(v); k++)
        v->s[k] += c * penalty->A[k];
}

static const struct operation operation_penalty_back = {
    .name = "penalty_back", .forward = penalty_back_forward, .across_inputs = true};

static struct value penalty_adjoint(struct program *p, int v, int k, struct value g) {
    (void)g;
    return adjoint_into(p, adjoint_like(p, &operation_penalty_back, (struct value){v}, none,
                                        p->node[v].argument[k]));
}

static const struct operation operation_penalty = {.name = "penalty",
                                                   .forward = penalty_forward,
                                                   .adjoint = penalty_adjoint,
                                                   .across_inputs = true,
                                                   .starts_backward = true};

void program_penalty(struct program *p, struct value s, const struct penalty_fn *fn,
                     const void *context, const char *name, const char *about,
                     const char *equation) {
    struct value out;
    node_check_rule(p, "a penalty", fn->rule_name);
    program_count_inputs_once(p, "a term of the loss");
    if (!node_given_numbers(p, "a penalty", s))
        return;
    p->net->output.loss_in_cotangent = true;
    struct node *node = node_append(p, &operation_penalty, s, none, &out);
    if (!node ||
        program_failed(p, net_vector(p->net, node_numbers(node_of(p, s)), 1, &node->A, &p->err)))
        return;
    node->constant.penalty = fn;
    node->constant.context = (void *)(uintptr_t)context;
    node->s = program_series(p, "t", 1, 0, name, about, equation);
}

struct mean {
    double c;
    int K;
};

static double mean_value(const void *context, const struct net *net, int rows, const double *x,
                         double *g) {
    const struct mean *of = context;
    double sum = 0;
    (void)net;
    for (ptrdiff_t k = 0; k < (ptrdiff_t)rows * of->K; k++) {
        sum += of->c * x[k] / rows;
        g[k] = of->c / rows;
    }
    return sum;
}

static double mean_square_value(const void *context, const struct net *net, int rows,
                                const double *x, double *g) {
    const struct mean *of = context;
    double sum = 0, c = of->c / rows;
    (void)net;
    for (ptrdiff_t k = 0; k < (ptrdiff_t)rows * of->K; k++) {
        sum += c * x[k] * x[k];
        g[k] = 2 * c * x[k];
    }
    return sum;
}

void program_penalty_mean(struct program *p, struct value s, double c, bool square,
                          const char *name, const char *about, const char *equation) {
    static const struct constant_field constants[] = {CONSTANT_OF(struct mean, "c", FIELD_REAL, c),
                                                      {0}};
    static const struct penalty_fn mean = {{"mean", constants}, mean_value},
                                   mean_square = {{"mean_square", constants}, mean_square_value};
    struct mean *of = program_memory(p, sizeof *of);
    if (!of || !node_given_numbers(p, "a penalty", s))
        return;
    *of = (struct mean){c, node_of(p, s)->K};
    program_penalty(p, s, square ? &mean_square : &mean, of, name, about, equation);
}

double program_penalties(const struct net *net) {
    double sum = 0;
    for (int i = 0; i < net->program->nodes; i++)
        if (net->program->node[i].op->starts_backward)
            sum += net->program->node[i].s[0];
    return sum;
}
