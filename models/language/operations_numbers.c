/* Operations between rows and numbers: averages over sites, scaling of rows by numbers, biases, and
 * numbers made of numbers. */
#include "models/language/adjoint.h"
#include "models/language/operation.h"

#include <stdlib.h>
#include <string.h>

static struct rows other(const struct net *net, const struct node *v) {
    return v->argument[1] < 0 ? (struct rows){0} : argument(net, v, 1)->value;
}

static void average_forward(struct net *net, struct node *v) {
    ops(net)->averages(argument(net, v, 0)->value, other(net, v), v->s);
}

/* A number at all sites. */
static void spread_forward(struct net *net, struct node *v) {
    if (!v->plan.adds)
        rows_zero(v->value);
    ops(net)->pointwise(FN_LINEAR, NULL, argument(net, v, 0)->s, v->value, v->value,
                        (struct rows){0});
}

static const struct operation operation_spread = {
    .name = "spread", .linear = true, .forward = spread_forward};

static struct value average_adjoint(struct program *p, int v, int k, struct value g) {
    const int *argument = p->node[v].argument;
    struct value other = {argument[1 - k]};
    return adjoint_into(
        p, argument[1] < 0 ? adjoint_like(p, &operation_spread, g, (struct value){-1}, argument[k])
                           : adjoint_like(p, &operation_scale, g, other, argument[k]));
}

const struct operation operation_average = {.name = "average",
                                            .forward = average_forward,
                                            .adjoint = average_adjoint,
                                            .across_inputs = true};

static void scale_forward(struct net *net, struct node *v) {
    const double *c = column_for(net, v, argument(net, v, 0), v->constant.column);
    struct rows x = argument(net, v, 1)->value;
    if (x.count != v->value.count)
        ops(net)->combine(v->value, v->plan.adds ? 1 : 0, c, x);
    else if (v->plan.adds)
        rows_add(c, x, v->value);
    else
        scale_rows(net, c, x, v->value);
}

static struct value scale_adjoint(struct program *p, int v, int k, struct value g) {
    struct value s = {p->node[v].argument[0]}, x = {p->node[v].argument[1]};
    if (k == 0)
        return node_of(p, x)->count < node_of(p, g)->count
                   ? adjoint_append(p, &operation_average, g, x, -1)
                   : adjoint_append(p, &operation_average, x, g, -1);
    struct value out = adjoint_append(p, &operation_scale, s, g, x.at);
    if (out.at >= 0)
        node_of(p, out)->constant.column = p->node[v].constant.column;
    return out;
}

const struct operation operation_scale = {.name = "scale",
                                          .zeros = ZEROS_OF_EITHER,
                                          .constants =
                                              CONSTANTS(CONSTANT("column", FIELD_INT, column)),
                                          .linear = true,
                                          .by_row = true,
                                          .scales_rows = true,
                                          .forward = scale_forward,
                                          .adjoint = scale_adjoint,
                                          .storage.value_in_place = true};

/* The first of the biases of a row. */
static int set_of(const struct net *net, const struct node *v, ptrdiff_t row) {
    return v->constant.groups > 1 ? net->batch.token[row] * v->K : 0;
}

static void bias_start(const struct program *p, const struct node *v, int kind, const double *a,
                       const double *b, double *x) {
    (void)p, (void)b;
    for (int k = 0; k < v->K; k++)
        x[k] = (a ? a[k] : 0) + v->matrix.start[(v->constant.groups > 1 ? kind * v->K : 0) + k];
}

static void bias_forward(struct net *net, struct node *v) {
    const double *s = v->argument[0] < 0 ? NULL : argument(net, v, 0)->s;
    for (ptrdiff_t mu = 0; mu < v->count; mu++)
        for (int k = 0; k < v->K; k++)
            v->s[mu * v->K + k] =
                (s ? s[mu * v->K + k] : 0) + v->matrix.start[set_of(net, v, mu) + k];
}

static void bias_backward(struct net *net, struct node *v) {
    int K = v->K, all = v->constant.groups * K;
    for (size_t k = 0; k < node_numbers(v) && v->plan.part[0].due; k++)
        argument(net, v, 0)->gs[k] += v->gs[k];
    if (v->constant.groups == 1)
        return;
    memset(v->A, 0, (size_t)v->count * (size_t)all * sizeof *v->A);
    for (ptrdiff_t mu = 0; mu < v->count; mu++)
        memcpy(v->A + mu * all + set_of(net, v, mu), v->gs + mu * K, (size_t)K * sizeof *v->A);
}

const struct operation operation_bias = {.name = "bias",
                                         .forward = bias_forward,
                                         .backward = bias_backward,
                                         .learns = true,
                                         .storage.accumulates_itself = true,
                                         .start = bias_start};

static void numbers_start(const struct program *p, const struct node *v, int kind, const double *a,
                          const double *b, double *x) {
    (void)kind, (void)b;
    v->constant.numbers->forward(v->constant.context, p->net, 1, a, x);
}

static bool numbers_jump(const struct program *p, int i) {
    return p->node[i].constant.numbers->jumps;
}

static void numbers_forward(struct net *net, struct node *v) {
    v->constant.numbers->forward(v->constant.context, net, v->count, argument(net, v, 0)->s, v->s);
}

static void numbers_backward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    if (v->constant.numbers->backward)
        v->constant.numbers->backward(v->constant.context, net, v->count, x->s, v->s, v->gs, x->gs);
}

const struct operation operation_numbers = {.name = "numbers",
                                            .zeros = ZEROS_OF_RULE,
                                            .forward = numbers_forward,
                                            .backward = numbers_backward,
                                            .storage.accumulates_itself = true,
                                            .across_inputs = true,
                                            .start = numbers_start,
                                            .jumps = numbers_jump};
