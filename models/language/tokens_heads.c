/* Attention at every site of a population of heads, of few units each: the operations of tokens.c
 * with rows over heads in the place of numbers (docs/theory/transformer.md). */
#include "models/language/tokens.h"

#include <math.h>

static const struct value none = {-1};

/* Scratch of one row for each token of an input, on the units. */
static int units_prepare(struct net *net, struct node *v, struct err *err) {
    return net_rows(net, argument(net, v, 1)->on, net->setup.data.n, &v->work, err);
}

static void attend_heads_forward(struct net *net, struct node *v) {
    struct rows q = argument(net, v, 0)->value, k = argument(net, v, 1)->value;
    for (int i = 0; i < net->batch.rows; i++) {
        rows_multiply(row(q, i), of_input(net, k, i / net->setup.data.n), v->work);
        ops(net)->group_sum(v->work, of_token(net, v->value, i));
    }
    rows_scale(v->constant.factor / argument(net, v, 0)->on->group, v->value);
}

/* For each token of an input, n rows of it together: sum over tokens s of g_s x_s, of rows g. */
static void spread(const struct net *net, struct node *v, int k, struct rows g, struct rows x) {
    int n = net->setup.data.n;
    for (int i = 0; i < net->batch.rows; i++) {
        rows_multiply(of_token(net, g, i), row(x, i), v->work);
        add_part(net, v->work, i % n == 0, of_input(net, v->plan.part[k].rows, i / n));
    }
}

/* For each token: sum over the n tokens t of g_t x_t. */
static void sum_over_tokens(const struct net *net, struct node *v, struct rows g, struct rows x,
                            struct rows out) {
    for (int i = 0; i < net->batch.rows; i++) {
        rows_multiply(of_token(net, g, i), of_input(net, x, i / net->setup.data.n), v->work);
        sum_rows(net, v->work, row(out, i));
    }
}

static void attend_heads_backward(struct net *net, struct node *v) {
    const struct node *q = argument(net, v, 0), *k = argument(net, v, 1);
    if (v->plan.part[0].due)
        sum_over_tokens(net, v, v->g, k->value, v->plan.part[0].rows);
    if (v->plan.part[1].due)
        spread(net, v, 1, v->g, q->value);
    for (int i = 0; i < 2; i++)
        if (v->plan.part[i].due) {
            rows_scale(v->constant.factor, v->plan.part[i].rows);
            add_to_cotangent(net, v, i);
        }
}

static const struct operation operation_attend_heads = {
    .name = "attend_by_head",
    .over_pairs = true,
    .constants = CONSTANTS(CONSTANT("k", FIELD_REAL, factor)),
    .prepare = units_prepare,
    .forward = attend_heads_forward,
    .backward = attend_heads_backward,
    .storage.full_cotangent = true,
    .part_rows = node_part_like_argument,
    .storage.backward_reads_arguments = true};

struct value program_attend_by_head(struct program *p, struct value q, struct value k,
                                    struct population *heads, double beta) {
    struct value out;
    if (!node_given_rows(p, "attention", q, k) || !of_tokens(p, "attention", q) ||
        !of_tokens(p, "attention", k))
        return none;
    const struct population *units = node_of(p, q)->on;
    if (units != node_of(p, k)->on || !node_groups(heads, units))
        program_fail(p, "attention from population %s does not fit %s", units->name, heads->name);
    struct node *node = node_append(p, &operation_attend_heads, q, k, &out);
    if (!node)
        return none;
    node->on = heads;
    node->constant.factor = beta;
    node_shape(p, node, pairs_of_tokens(p));
    return out;
}

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
static void softmax_heads_backward(struct net *net, struct node *v) {
    struct rows part = v->plan.part[0].rows;
    for (int i = 0; i < net->batch.rows; i++) {
        struct rows a = of_token(net, v->value, i), g = of_token(net, v->g, i),
                    out = of_token(net, part, i);
        rows_multiply(a, g, out);
        sum_rows(net, out, v->work);
        rows_scale(-1, v->work);
        add_part(net, v->work, true, out);
        rows_add(NULL, g, out);
        rows_multiply(a, out, out);
    }
    add_to_cotangent(net, v, 0);
}

static const struct operation operation_softmax_heads = {
    .name = "softmax_by_head",
    .constants = CONSTANTS(CONSTANT("causal", FIELD_BOOL, causal)),
    .prepare = softmax_prepare,
    .forward = softmax_heads_forward,
    .backward = softmax_heads_backward,
    .storage.full_cotangent = true,
    .part_rows = node_part_like_argument,
    .storage.backward_reads_value = true};

struct value program_softmax_by_head(struct program *p, struct value logits, bool causal) {
    struct value out;
    struct node *node = node_append_rows(p, &operation_softmax_heads, logits, &out);
    if (node)
        node->constant.causal = causal;
    if (node && node->per != pairs_of_tokens(p))
        program_fail(p, "softmax over tokens takes a row for each pair of them");
    return out;
}

static void mix_heads_forward(struct net *net, struct node *v) {
    sum_over_tokens(net, v, argument(net, v, 0)->value, argument(net, v, 1)->value, v->value);
}

static void mix_heads_backward(struct net *net, struct node *v) {
    const struct node *A = argument(net, v, 0), *x = argument(net, v, 1);
    struct rows part = v->plan.part[0].rows;
    for (int i = 0; i < net->batch.rows && v->plan.part[0].due; i++) {
        rows_multiply(of_input(net, x->value, i / net->setup.data.n), row(v->g, i), v->work);
        ops(net)->group_sum(v->work, of_token(net, part, i));
    }
    if (v->plan.part[0].due) {
        rows_scale(1.0 / v->on->group, part);
        add_to_cotangent(net, v, 0);
    }
    if (v->plan.part[1].due) {
        spread(net, v, 1, A->value, v->g);
        add_to_cotangent(net, v, 1);
    }
}

static const struct operation operation_mix_heads = {.name = "mix_by_head",
                                                     .over_pairs = true,
                                                     .prepare = units_prepare,
                                                     .forward = mix_heads_forward,
                                                     .backward = mix_heads_backward,
                                                     .storage.full_cotangent = true,
                                                     .part_rows = node_part_like_argument,
                                                     .storage.backward_reads_arguments = true};

struct value program_mix_by_head(struct program *p, struct value A, struct value v) {
    struct value out;
    if (!node_given_rows(p, "a mixture of tokens", A, v) || !of_tokens(p, "a mixture of tokens", v))
        return none;
    const struct node *from = node_of(p, A);
    struct population *units = node_of(p, v)->on;
    if (from->per != pairs_of_tokens(p) || !node_groups(from->on, units))
        program_fail(p, "a mixture of tokens needs a row for each pair of them, on the heads of %s",
                     units->name);
    struct node *node = node_append(p, &operation_mix_heads, A, v, &out);
    if (!node)
        return none;
    node->on = units;
    node_shape(p, node, p->net->setup.data.n);
    return out;
}
