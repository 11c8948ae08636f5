/* Attention at every site of a population of heads, of few units each: the operations of tokens.c
 * with rows over heads in the place of numbers (docs/theory/transformer.md). */
#include "models/language/adjoint.h"
#include "models/language/tokens.h"

/* Scratch of one row for each token of an input, on the units. */
static int units_prepare(struct net *net, struct node *v, struct err *err) {
    return net_rows(net, argument(net, v, 1)->on, net->setup.data.n, &v->work, err);
}

static void attend_heads_forward(struct net *net, struct node *v) {
    struct rows q = argument(net, v, 0)->value, k = argument(net, v, 1)->value;
    for (int i = 0; i < net->batch.rows; i++) {
        rows_multiply(row(q, i), of_input(net, k, i / net->setup.data.n), v->work);
        ops(v->work)->group_sum(v->work, of_token(net, v->value, i));
    }
    rows_scale(v->constant.factor / argument(net, v, 0)->on->group, v->value);
}

static struct value attend_heads_adjoint(struct program *p, int v, int k, struct value g) {
    const int *argument = p->node[v].argument;
    struct value part = tokens_mix(p, g, (struct value){argument[1 - k]}, k == 1, 1, argument[k]);
    return adjoint_times(p, p->node[v].constant.factor, part);
}

OPERATION(attend_by_head, .constants = CONSTANTS(CONSTANT("k", FIELD_REAL, factor)),
          .prepare = units_prepare, .forward = attend_heads_forward,
          .adjoint = attend_heads_adjoint, .traits = OP_OVER_PAIRS | OP_EVERY_ROW);

static int softmax_prepare(struct net *net, struct node *v, struct err *err) {
    return net_rows(net, v->on, 1, &v->work, err);
}

/* out = x minus the largest of its rows, head by head; `largest` is scratch of one row. */
static void below_largest(const struct net *net, struct rows x, struct rows largest,
                          struct rows out) {
    const double minus = -1;
    rows_copy(row(x, 0), largest);
    for (int t = 1; t < x.count; t++) { /* max(a, b) = a + relu(b - a) */
        struct rows more = row(out, t);
        rows_copy(row(x, t), more);
        rows_add(&minus, largest, more);
        rows_fn(FN_RELU, more, more, (struct rows){0});
        rows_add(NULL, more, largest);
    }
    rows_scale(-1, largest);
    add_part(net, largest, true, out);
    rows_add(NULL, x, out);
}

/* The exponentials are those of logits of at most 0, whatever beta is. */
static void softmax_heads_forward(struct net *net, struct node *v) {
    int n = net->setup.data.n;
    for (int i = 0; i < net->batch.rows; i++) {
        int count = seen(net, i, v->constant.causal);
        struct rows all = of_token(net, v->value, i), a = rows_part(all, 0, count);
        below_largest(net, rows_part(of_token(net, argument(net, v, 0)->value, i), 0, count),
                      v->work, a);
        rows_fn(FN_EXP, a, a, (struct rows){0});
        sum_rows(net, a, v->work);
        rows_fn(FN_INVERSE, v->work, v->work, (struct rows){0});
        rows_multiply(v->work, a, a);
        if (count < n)
            rows_zero(rows_part(all, count, n - count));
    }
}

/* a_t (g_t - sum_t' a_t' g_t') */
static void softmax_back_forward(struct net *net, struct node *v) {
    for (int i = 0; i < net->batch.rows; i++) {
        struct rows a = of_token(net, argument(net, v, 0)->value, i),
                    g = of_token(net, argument(net, v, 1)->value, i),
                    out = of_token(net, v->value, i);
        rows_multiply(a, g, out);
        sum_rows(net, out, v->work);
        rows_scale(-1, v->work);
        add_part(net, v->work, true, out);
        rows_add(NULL, g, out);
        rows_multiply(a, out, out);
    }
}

static OPERATION(softmax_back, .traits = OP_AS_ARGUMENT | OP_OF_VALUE,
                 .forward = softmax_back_forward);

OPERATION(softmax_by_head, .constants = CONSTANTS(CONSTANT("causal", FIELD_BOOL, causal)),
          .prepare = softmax_prepare, .forward = softmax_heads_forward,
          .back = &operation_softmax_back, .traits = OP_EVERY_ROW);

/* For each token: sum over the n tokens t of A_t x_t; transposed, for the n tokens of an input
 * together: the sum over tokens s of A_s x_s. */
static void mix_heads_forward(struct net *net, struct node *v) {
    struct rows A = argument(net, v, 0)->value, x = argument(net, v, 1)->value;
    int n = net->setup.data.n;
    bool transposed = v->constant.transposed;
    for (int i = 0; i < net->batch.rows; i++) {
        rows_multiply(of_token(net, A, i), transposed ? row(x, i) : of_input(net, x, i / n),
                      v->work);
        if (transposed)
            add_part(net, v->work, i % n == 0, of_input(net, v->value, i / n));
        else
            sum_rows(net, v->work, row(v->value, i));
    }
}

OPERATION(mix_by_head, .constants = CONSTANTS(CONSTANT("transposed", FIELD_BOOL, transposed)),
          .prepare = units_prepare, .forward = mix_heads_forward, .adjoint = tokens_mix_adjoint,
          .traits = OP_OVER_PAIRS | OP_EVERY_ROW);
