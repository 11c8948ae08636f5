/* What is made of numbers of each input: sums and products, in which one column goes with any
 * number of them, functions of single numbers, and one number made of all. */
#include "kernels/array/functions.h"
#include "models/language/adjoint.h"
#include "models/language/operation.h"

#include <math.h>
#include <string.h>

static const struct value none = {-1};

static ptrdiff_t index_of(const struct node *s, ptrdiff_t row, int k) {
    return row * s->K + (s->K == 1 ? 0 : k);
}

typedef double (*pairing)(double a, double b);

static double plus(double a, double b) {
    return a + b;
}

static double product_of(double a, double b) {
    return a * b;
}

/* x [rows][K], of what the arguments of v have, a and b. */
static void pair_numbers(pairing of, const struct program *p, const struct node *v, int rows,
                         const double *a, const double *b, double *x) {
    for (ptrdiff_t i = 0; i < rows; i++)
        for (int k = 0; k < v->K; k++)
            x[i * v->K + k] = of(a[index_of(&p->node[v->argument[0]], i, k)],
                                 b[index_of(&p->node[v->argument[1]], i, k)]);
}

static void sum_forward(struct net *net, struct node *v) {
    pair_numbers(plus, net->program, v, v->count, argument(net, v, 0)->s, argument(net, v, 1)->s,
                 v->s);
}

static void sum_start(const struct program *p, const struct node *v, int kind, const double *a,
                      const double *b, double *x) {
    (void)kind;
    pair_numbers(plus, p, v, 1, a, b, x);
}

/* Numbers, times another factor if there is one, added to those of an argument that may have one
 * for all columns. */
static void gather_forward(struct net *net, struct node *v) {
    const struct node *g = argument(net, v, 0),
                      *other = v->argument[1] < 0 ? NULL : argument(net, v, 1);
    for (ptrdiff_t i = 0; i < g->count; i++)
        for (int k = 0; k < g->K; k++)
            v->s[index_of(v, i, k)] +=
                g->s[i * g->K + k] * (other ? other->s[index_of(other, i, k)] : 1);
}

static const struct operation operation_gather = {.name = "gather", .forward = gather_forward};

struct value numbers_gather(struct program *p, struct value g, struct value other, int like) {
    return adjoint_into(p, adjoint_like(p, &operation_gather, g, other, like));
}

static struct value sum_adjoint(struct program *p, int v, int k, struct value g) {
    return numbers_gather(p, g, (struct value){-1}, p->node[v].argument[k]);
}

static void product_forward(struct net *net, struct node *v) {
    pair_numbers(product_of, net->program, v, v->count, argument(net, v, 0)->s,
                 argument(net, v, 1)->s, v->s);
}

static void product_start(const struct program *p, const struct node *v, int kind, const double *a,
                          const double *b, double *x) {
    (void)kind;
    pair_numbers(product_of, p, v, 1, a, b, x);
}

static struct value product_adjoint(struct program *p, int v, int k, struct value g) {
    return numbers_gather(p, g, (struct value){p->node[v].argument[1 - k]}, p->node[v].argument[k]);
}

static const struct operation operation_sum = {.name = "add_numbers",
                                               .zeros = ZEROS_OF_BOTH,
                                               .forward = sum_forward,
                                               .adjoint = sum_adjoint,
                                               .start = sum_start,
                                               .bare = true,
                                               .across_inputs = true};
static const struct operation operation_product = {.name = "multiply_numbers",
                                                   .zeros = ZEROS_OF_EITHER,
                                                   .forward = product_forward,
                                                   .adjoint = product_adjoint,
                                                   .start = product_start,
                                                   .bare = true,
                                                   .across_inputs = true};

static struct value append_pair(struct program *p, const struct operation *op, const char *what,
                                struct value a, struct value b) {
    struct value out = {-1};
    if (!node_given_numbers(p, what, a) || !node_given_numbers(p, what, b) ||
        !node_paired(p, what, a, b))
        return out;
    int K = node_of(p, a)->K, L = node_of(p, b)->K;
    if (K != L && K != 1 && L != 1)
        program_fail(p, "%s of %d and of %d numbers of each input", what, K, L);
    node_append_numbers(p, op, a, b, K > L ? K : L, &out);
    return out;
}

struct value program_add_numbers(struct program *p, struct value a, struct value b) {
    return append_pair(p, &operation_sum, "a sum", a, b);
}

struct value program_multiply_numbers(struct program *p, struct value a, struct value b) {
    return append_pair(p, &operation_product, "a product", a, b);
}

/* --- some numbers of many, and many of some ----------------------------------------------------
 */

/* Numbers column, column + 1, ... of a row. */
static void pick_forward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    for (ptrdiff_t i = 0; i < v->count; i++)
        for (int k = 0; k < v->K; k++)
            v->s[i * v->K + k] = x->s[i * x->K + v->constant.column + k];
}

static void pick_start(const struct program *p, const struct node *v, int kind, const double *a,
                       const double *b, double *x) {
    (void)p, (void)kind, (void)b;
    for (int k = 0; k < v->K; k++)
        x[k] = a[v->constant.column + k];
}

/* Added to their places. */
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
    .start = pick_start,
    .bare = true,
    .across_inputs = true};

struct value program_pick(struct program *p, struct value s, int column) {
    struct value out = none;
    if (node_given_numbers(p, "a part of numbers", s))
        node_append_numbers(p, &operation_pick, s, none, 1, &out);
    return p->code ? none : at_column(p, out, column);
}

static void place_side_by_side(const struct node *a, const struct node *b, int rows,
                               const double *x, const double *y, double *out) {
    for (ptrdiff_t i = 0; i < rows; i++, out += a->K + b->K) {
        memcpy(out, x + i * a->K, (size_t)a->K * sizeof *out);
        memcpy(out + a->K, y + i * b->K, (size_t)b->K * sizeof *out);
    }
}

static void join_forward(struct net *net, struct node *v) {
    const struct node *a = argument(net, v, 0), *b = argument(net, v, 1);
    place_side_by_side(a, b, v->count, a->s, b->s, v->s);
}

static void join_start(const struct program *p, const struct node *v, int kind, const double *a,
                       const double *b, double *x) {
    (void)kind;
    place_side_by_side(&p->node[v->argument[0]], &p->node[v->argument[1]], 1, a, b, x);
}

static struct value join_adjoint(struct program *p, int v, int k, struct value g) {
    const int *argument = p->node[v].argument;
    return at_column(p, adjoint_like(p, &operation_pick, g, none, argument[k]),
                     k ? p->node[argument[0]].K : 0);
}

static const struct operation operation_join = {.name = "join",
                                                .forward = join_forward,
                                                .adjoint = join_adjoint,
                                                .start = join_start,
                                                .bare = true,
                                                .across_inputs = true};

struct value program_join(struct program *p, struct value a, struct value b) {
    struct value out = none;
    if (node_given_numbers(p, "a list", a) && node_given_numbers(p, "a list", b) &&
        node_paired(p, "a list", a, b))
        node_append_numbers(p, &operation_join, a, b, node_of(p, a)->K + node_of(p, b)->K, &out);
    return p->code ? none : out;
}

/* --- functions of single numbers ------------------------------------------------------------- */

struct single {
    enum number_rule rule;
    int K;
    enum fn fn;
    double c;
};

static double value_of(const struct single *f, double x) {
    switch (f->rule) {
    case NUMBER_TIMES:
    case NUMBER_TIMES_STOP:
        return f->c * x;
    case NUMBER_PLUS:
        return x + f->c;
    case NUMBER_OVER:
        return f->c / x;
    case NUMBER_POWER:
        return pow(x, f->c);
    case NUMBER_EXP:
        return exp(x);
    case NUMBER_LOG:
        return log(x);
    case NUMBER_TANH:
        return tanh(x);
    default:
        return x;
    }
}

/* The derivative at x, where the value is y, times g. */
static double slope_of(const struct single *f, double x, double y, double g) {
    switch (f->rule) {
    case NUMBER_TIMES:
        return f->c * g;
    case NUMBER_OVER:
        return f->c == 0 ? 0 : -g * y * y / f->c;
    case NUMBER_POWER:
        return f->c == 0 ? 0 : g * f->c * pow(x, f->c - 1);
    case NUMBER_EXP:
        return g * y;
    case NUMBER_LOG:
        return g / x;
    case NUMBER_TANH:
        return g * (1 - y * y);
    default:
        return g;
    }
}

static void each_forward(const void *context, const struct net *net, int rows, const double *x,
                         double *out) {
    const struct single *f = context;
    (void)net;
    for (ptrdiff_t k = 0; k < (ptrdiff_t)rows * f->K; k++)
        out[k] = value_of(f, x[k]);
}

static void each_backward(const void *context, const struct net *net, int rows, const double *x,
                          const double *out, const double *g, double *gx) {
    const struct single *f = context;
    (void)net;
    for (ptrdiff_t k = 0; k < (ptrdiff_t)rows * f->K; k++)
        gx[k] += slope_of(f, x[k], out[k], g[k]);
}

/* A function that rows have as well: fn(c x) and its slope, so many numbers at once. */
enum { AT_ONCE = 256 };

static int part_of(ptrdiff_t first, ptrdiff_t all) {
    return all - first < AT_ONCE ? (int)(all - first) : AT_ONCE;
}

static void fn_forward(const void *context, const struct net *net, int rows, const double *x,
                       double *out) {
    const struct single *f = context;
    ptrdiff_t all = (ptrdiff_t)rows * f->K;
    (void)net;
    for (ptrdiff_t k = 0; k < all; k += AT_ONCE)
        functions_apply(f->fn, f->c, 0, x + k, part_of(k, all), out + k, NULL);
}

static void fn_backward(const void *context, const struct net *net, int rows, const double *x,
                        const double *out, const double *g, double *gx) {
    const struct single *f = context;
    ptrdiff_t all = (ptrdiff_t)rows * f->K;
    double slope[AT_ONCE];
    (void)net, (void)out;
    for (ptrdiff_t k = 0; k < all; k += AT_ONCE) {
        functions_apply(f->fn, f->c, 0, x + k, part_of(k, all), NULL, slope);
        for (int i = 0; i < part_of(k, all); i++)
            gx[k + i] += f->c * slope[i] * g[k + i];
    }
}

/* One number of a row: the sum of its K. */
static void reduce(const void *context, const struct net *net, int rows, const double *x,
                   double *out) {
    const struct single *f = context;
    (void)net;
    for (ptrdiff_t i = 0; i < rows; i++) {
        out[i] = 0;
        for (int k = 0; k < f->K; k++)
            out[i] += x[i * f->K + k];
    }
}

static void spread(const void *context, const struct net *net, int rows, const double *x,
                   const double *out, const double *g, double *gx) {
    const struct single *f = context;
    (void)net, (void)x, (void)out;
    for (ptrdiff_t i = 0; i < rows; i++)
        for (int k = 0; k < f->K; k++)
            gx[i * f->K + k] += g[i];
}

/* ln sum_k exp(x_k), the largest taken out first. */
static void log_sum_exp(const void *context, const struct net *net, int rows, const double *x,
                        double *out) {
    int K = ((const struct single *)context)->K;
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

static void log_sum_exp_backward(const void *context, const struct net *net, int rows,
                                 const double *x, const double *out, const double *g, double *gx) {
    int K = ((const struct single *)context)->K;
    (void)net;
    for (ptrdiff_t i = 0; i < (ptrdiff_t)rows * K; i++)
        gx[i] += exp(x[i] - out[i / K]) * g[i / K];
}

static const struct constant_field factor[] = {CONSTANT_OF(struct single, "c", FIELD_REAL, c), {0}},
                                   function[] = {
                                       CONSTANT_OF(struct single, "function", FIELD_FUNCTION, fn),
                                       CONSTANT_OF(struct single, "k", FIELD_REAL, c),
                                       {0}};

#define EACH(name, constants, zero)                                                                \
    {                                                                                              \
        {name, constants}, .forward = each_forward, .backward = each_backward, .keeps_zero = zero, \
                           .bare = true                                                            \
    }
static const struct number_fn rules[] = {
    [NUMBER_TIMES] = EACH("times", factor, true),
    [NUMBER_TIMES_STOP] = {{"times", factor},
                           .forward = each_forward,
                           .keeps_zero = true,
                           .bare = true},
    [NUMBER_PLUS] = EACH("plus", factor, false),
    [NUMBER_OVER] = EACH("over", factor, false),
    [NUMBER_POWER] = EACH("power", factor, true),
    [NUMBER_EXP] = EACH("exp", NULL, false),
    [NUMBER_LOG] = EACH("log", NULL, false),
    [NUMBER_TANH] = EACH("tanh", NULL, true),
    [NUMBER_FN] = {{"fn", function}, .forward = fn_forward, .backward = fn_backward, .bare = true},
    [NUMBER_STOP] = {{"same", NULL}, .forward = each_forward, .keeps_zero = true, .bare = true},
    [NUMBER_SUM] = {{"sum", NULL}, .forward = reduce, .backward = spread},
    [NUMBER_LOG_SUM_EXP] = {{"log_sum_exp", NULL},
                            .forward = log_sum_exp,
                            .backward = log_sum_exp_backward},
};
/* 0^c where c is 0 or less: 1, or no number. */
static const struct number_fn power_of_zero = EACH("power", factor, false);
#undef EACH
_Static_assert(sizeof rules / sizeof *rules == NUMBER_RULES, "a row for each rule");

static struct value append_single(struct program *p, enum number_rule rule, double c, enum fn fn,
                                  struct value s) {
    bool reduces = rule == NUMBER_SUM || rule == NUMBER_LOG_SUM_EXP;
    struct single *f = program_memory(p, sizeof *f);
    if (!f || !node_given_numbers(p, "a function of numbers", s))
        return (struct value){-1};
    if (!isfinite(c))
        program_fail(p, "numbers are combined with a number that is infinite or none");
    *f = (struct single){rule, node_of(p, s)->K, fn, c};
    const struct number_fn *of = rule == NUMBER_POWER && c <= 0 ? &power_of_zero : &rules[rule];
    return program_numbers(p, of, f, s, reduces ? 1 : f->K);
}

struct value program_number(struct program *p, enum number_rule rule, double c, struct value s) {
    return append_single(p, rule, c, FN_LINEAR, s);
}

struct value program_fn_of_numbers(struct program *p, enum fn fn, double k, struct value s) {
    if (fn == FN_RELU)
        program_bends(p, s);
    return append_single(p, NUMBER_FN, k, fn, s);
}
