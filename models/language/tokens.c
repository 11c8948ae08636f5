/* Operations between the tokens of an input: attention over numbers (heads of infinite width) or at
 * every site of a population of heads (of few units each), pooling, RMSNorm
 * (docs/theory/transformer.md). Rows of an input are consecutive. */
#include "models/language/adjoint.h"
#include "models/language/tokens.h"
#include "kernels/array/functions.h"
#include "kernels/base/text.h"

#include <limits.h>

/* --- numbers --------------------------------------------------------------------------------- */

/* Numbers are set, or added to those that are there. */
static double *attended_numbers(const struct net *net, const struct node *v) {
    return v->asked || v->onto >= 0 ? node_asked(net, v) : v->s;
}

static void attend_forward(struct net *net, struct node *v) {
    struct rows q = argument(net, v, 0)->value, k = argument(net, v, 1)->value;
    ptrdiff_t pairs = pairs_of_tokens(net->program);
    for (ptrdiff_t mu = 0; mu < net->setup.data.P; mu++)
        ops(q)->dots(of_input(net, q, mu), of_input(net, k, mu),
                     attended_numbers(net, v) + mu * pairs);
}

static void attend_finish(struct net *net, struct node *v) {
    const double *out = attended_numbers(net, v), factor = v->constant.factor;
    for (size_t i = 0; i < node_numbers(v); i++)
        v->s[i] = (v->onto >= 0 ? v->s[i] : 0) + factor * out[i];
}

static const struct operation operation_mix;

struct value tokens_mix(struct program *p, struct value A, struct value x, bool transposed,
                        double factor, int like) {
    const struct operation *op = node_of(p, A)->on ? &operation_mix_by_head : &operation_mix;
    struct value out = adjoint_like(p, op, A, x, like);
    node_of(p, out)->constant.transposed = transposed;
    node_of(p, out)->constant.factor = factor;
    return out;
}

static struct value attend_adjoint(struct program *p, int v, int k, struct value g) {
    const int *argument = p->node[v].argument;
    return tokens_mix(p, g, (struct value){argument[1 - k]}, k == 1, p->node[v].constant.factor,
                      argument[k]);
}

static OPERATION(attend, .constants = CONSTANTS(CONSTANT("k", FIELD_REAL, factor)),
                 .forward = attend_forward, .finish = attend_finish, .adjoint = attend_adjoint,
                 .traits = OP_OVER_PAIRS | OP_EVERY_ROW | OP_ADDS);

/* Refuses what numbers, or heads, cannot be made of. */
static bool may_attend(struct program *p, struct value q, struct value k,
                       const struct population *heads) {
    if (!node_given_rows(p, "attention", q, k) || !of_tokens(p, "attention", q) ||
        !of_tokens(p, "attention", k))
        return false;
    const struct population *units = node_of(p, q)->on;
    bool alike = units == node_of(p, k)->on;
    if (heads && (!alike || !node_groups(heads, units)))
        program_fail(p, "attention from population %s does not fit %s", TEXT_SHOWN_OF(units),
                     TEXT_SHOWN_OF(heads));
    else if (!alike)
        program_fail(p, "attention between rows of different populations");
    return !p->code;
}

struct value program_attend(struct program *p, struct value q, struct value k, double beta,
                            struct population *heads) {
    struct value out;
    may_attend(p, q, k, heads);
    struct node *node =
        heads ? node_append(p, &operation_attend_by_head, q, k, &out)
              : node_append_numbers(p, &operation_attend, q, k, p->net->setup.data.n, &out);
    node->constant.factor = beta;
    node->on = heads;
    if (heads)
        node_shape(p, node, pairs_of_tokens(p));
    else
        program_steep(p, beta);
    return out;
}

static void softmax_forward(struct net *net, struct node *v) {
    const double *x = argument(net, v, 0)->s;
    double *out = v->s;
    int n = net->setup.data.n;
    for (ptrdiff_t i = 0; i < v->count; i++, x += n, out += n) {
        int count = seen(net, i, v->constant.causal);
        double largest = x[0];
        for (int t = 1; t < count; t++)
            largest = x[t] > largest ? x[t] : largest;
        for (int t = 0; t < n; t++)
            out[t] = t < count ? x[t] - largest : 0;
    }
    out = v->s;
    for (ptrdiff_t i = 0, most = INT_MAX / n; i < v->count; i += most) /* numbers beyond an int */
        functions_apply(FN_EXP, 1, 0, out + i * n,
                        (int)(v->count - i < most ? v->count - i : most) * n, out + i * n, NULL);
    for (ptrdiff_t i = 0; i < v->count; i++, out += n) {
        int count = seen(net, i, v->constant.causal);
        double sum = 0;
        for (int t = 0; t < n; t++)
            sum += out[t] = t < count ? out[t] : 0;
        for (int t = 0; t < count; t++)
            out[t] /= sum;
    }
}

/* a (g - sum a g) is added, of the weights a. */
static void softmax_back_forward(struct net *net, struct node *v) {
    const double *a = argument(net, v, 0)->s, *g = argument(net, v, 1)->s;
    for (ptrdiff_t i = 0; i < v->count; i++, a += v->K, g += v->K) {
        double mean = 0;
        for (int t = 0; t < v->K; t++)
            mean += a[t] * g[t];
        for (int t = 0; t < v->K; t++)
            v->s[i * v->K + t] += a[t] * (g[t] - mean);
    }
}

static OPERATION(softmax_back, .traits = OP_ADDS | OP_AS_ARGUMENT | OP_OF_VALUE,
                 .forward = softmax_back_forward);

static OPERATION(softmax, .rule_of = "numbers",
                 .constants = CONSTANTS(CONSTANT("causal", FIELD_BOOL, causal)),
                 .zeros = ZEROS_OF_RULE, .forward = softmax_forward,
                 .back = &operation_softmax_back, .traits = OP_BY_ROW);

struct value program_softmax(struct program *p, struct value logits, bool causal) {
    struct value out;
    growth_refuse(p, logits, "the argument of softmax");
    bool heads = node_of(p, logits)->on;
    struct node *node =
        node_append_like(p, heads ? &operation_softmax_by_head : &operation_softmax, logits, &out);
    node->constant.causal = causal;
    if (heads && node->per != pairs_of_tokens(p))
        program_fail(p, "softmax over tokens takes a row for each pair of them");
    return out;
}

/* The n x n matrix of an input as it is, or transposed, times a factor. */
static const double *matrix_of(const struct net *net, const struct node *v, const double *A) {
    int n = net->setup.data.n;
    double *out = net->program->c, factor = v->constant.factor;
    ptrdiff_t row = v->constant.transposed ? 1 : n, column = v->constant.transposed ? n : 1;
    if (factor == 1 && row == n)
        return A;
    for (ptrdiff_t s = 0; s < n; s++)
        for (ptrdiff_t t = 0; t < n; t++)
            out[s * n + t] = factor * A[s * row + t * column];
    return out;
}

static void mix_forward(struct net *net, struct node *v) {
    const double *A = argument(net, v, 0)->s;
    for (ptrdiff_t mu = 0; mu < net->setup.data.P; mu++)
        ops(v->value)->combine(of_input(net, v->value, mu), v->onto >= 0 ? 1 : 0,
                               matrix_of(net, v, A + mu * pairs_of_tokens(net->program)),
                               of_input(net, argument(net, v, 1)->value, mu));
}

struct value tokens_mix_adjoint(struct program *p, int v, int k, struct value g) {
    struct value A = {p->node[v].argument[0]}, x = {p->node[v].argument[1]};
    bool heads = node_of(p, A)->on;
    return k == 1
               ? tokens_mix(p, A, g, true, 1, x.at)
               : adjoint_like(p, heads ? &operation_attend_by_head : &operation_attend, g, x, A.at);
}

static OPERATION(mix, .constants = CONSTANTS(CONSTANT("transposed", FIELD_BOOL, transposed)),
                 .forward = mix_forward, .adjoint = tokens_mix_adjoint,
                 .traits = OP_OVER_PAIRS | OP_LINEAR | OP_EVERY_ROW | OP_ADDS);

/* Whether the weights A, of heads or numbers, fit the tokens v. */
static bool may_mix(struct program *p, const struct node *A, const struct node *v) {
    int n = p->net->setup.data.n;
    if (A->on && (A->per != pairs_of_tokens(p) || !v->on || !node_groups(A->on, v->on)))
        program_fail(p, "a mixture of tokens needs a row for each pair of them, on the heads of %s",
                     v->on ? TEXT_SHOWN_OF(v->on) : "rows");
    else if (!A->on && A->per != n)
        program_fail(p, "a mixture of tokens takes one row for each token");
    else if (!A->on && A->K != n)
        program_fail(p, "a mixture of tokens needs a number for each pair of them");
    return !p->code;
}

struct value program_mix(struct program *p, struct value A, struct value v) {
    struct value out;
    if (p->code || A.at < 0 || !of_tokens(p, "a mixture of tokens", v) ||
        !may_mix(p, node_of(p, A), node_of(p, v)))
        return none;
    struct population *on = node_of(p, v)->on;
    const struct operation *op = node_of(p, A)->on ? &operation_mix_by_head : &operation_mix;
    struct node *node = on ? node_append(p, op, A, v, &out)
                           : node_append_numbers(p, op, A, v, node_of(p, v)->K, &out);
    node->on = on;
    node_shape(p, node, p->net->setup.data.n);
    return out;
}

/* --- the token before ------------------------------------------------------------------------ */

/* Rows of each input, moved by `by` tokens; those without a source are 0. */
static void move_rows(const struct net *net, struct rows x, int by, struct rows out) {
    int n = x.count / net->setup.data.P, left = abs(by) < n ? n - abs(by) : 0;
    for (int mu = 0; mu < net->setup.data.P; mu++) {
        struct rows from = of_input(net, x, mu), to = of_input(net, out, mu);
        rows_zero(to);
        if (left)
            rows_copy(rows_part(from, by < 0 ? -by : 0, left),
                      rows_part(to, by > 0 ? by : 0, left));
    }
}

static void lag_forward(struct net *net, struct node *v) {
    move_rows(net, argument(net, v, 0)->value, v->constant.by, v->value);
}

static struct value lag_adjoint(struct program *p, int v, int k, struct value g) {
    struct value out = adjoint_like(p, p->node[v].op, g, none, p->node[v].argument[k]);
    node_of(p, out)->constant.by = -p->node[v].constant.by;
    return out;
}

static void lag_shape(struct program *p, struct node *node, struct population *on UNUSED) {
    of_places(p, "a lag", (struct value){node->argument[0]});
}

static OPERATION(
    lag, .arguments = "x, k", .gives = "rows or numbers",
    .doc = "the rows or numbers of the token k places before, 0 where there is none; with k below "
           "0, of a token behind",
    .shape = lag_shape, .zeros = ZEROS_OF_FIRST,
    .constants = CONSTANTS(CONSTANT_FROM("tokens", FIELD_INT, by, -100000, 100000)),
    .forward = lag_forward, .adjoint = lag_adjoint,
    .traits = OP_LINEAR | OP_SAME_AT_START | OP_EVERY_ROW);

/* --- pooling and norm ------------------------------------------------------------------------ */

static void pool_forward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    for (int mu = 0; mu < net->setup.data.P; mu++)
        sum_rows(net, of_input(net, x->value, mu), row(v->value, mu));
    rows_scale(1.0 / x->per, v->value);
}

static void unpool_forward(struct net *net, struct node *v) {
    for (int mu = 0; mu < net->setup.data.P; mu++)
        add_part(net, row(argument(net, v, 0)->value, mu), true, of_input(net, v->value, mu));
    rows_scale(1.0 / v->per, v->value);
}

static OPERATION(unpool, .forward = unpool_forward, .traits = OP_LINEAR | OP_AS_ARGUMENT);

static OPERATION(pool, .forward = pool_forward, .back = &operation_unpool,
                 .traits = OP_LINEAR | OP_SAME_AT_START | OP_EVERY_ROW);

struct value program_pool(struct program *p, struct value x) {
    struct value out;
    if (!p->code && p->net->setup.data.n == 1)
        return x;
    struct node *node = node_append_like(p, &operation_pool, x, &out);
    if (of_places(p, "pooling", x))
        node_shape(p, node, 1);
    return out;
}

/* <x x>^-1/2 */
static void root_forward(struct net *net, struct node *v) {
    for (int i = 0; i < v->count; i++)
        v->s[i] = 1 / sqrt(argument(net, v, 0)->s[i]);
}

/* A row that is zero ends the run with a sentence. */
static void root_finish(struct net *net, struct node *v) {
    struct program *p = net->program;
    const struct node *square = argument(net, v, 0);
    int rows = v->count / net->setup.data.P; /* of an input */
    for (int i = 0; i < v->count; i++)
        if (square->s[i] == 0 && !p->code)
            p->code = err_set(&p->err, CODE_NUMERICAL,
                              "norm of rows on population %s: row %d of input %d is zero, which no "
                              "factor scales to 1; what makes it must not start at 0 (a0, [init]), "
                              "or the norm must come before it",
                              TEXT_SHOWN_OF(argument(net, square, 0)->on), i % rows,
                              net->batch.index[i / rows]);
}

static const struct operation operation_root = {.name = "power",
                                                .rule_of = "numbers",
                                                .constants =
                                                    CONSTANTS(CONSTANT("c", FIELD_REAL, factor)),
                                                .zeros = ZEROS_OF_RULE,
                                                .forward = root_forward,
                                                .late = numbers_power_late,
                                                .finish = root_finish,
                                                .adjoint = numbers_power_adjoint,
                                                .traits = OP_BY_ROW};

struct value program_norm(struct program *p, struct value x) {
    struct value out, square = program_average(p, x, x);
    node_append_like(p, &operation_root, square, &out)->constant.factor = -0.5;
    return program_scale(p, out, 0, x);
}

const struct operation *const operation_words_of_tokens[] = {&operation_lag, &operation_top_rows,
                                                             &operation_first_rows, NULL};
