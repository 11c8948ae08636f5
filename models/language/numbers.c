/* Sums and products of numbers of each input; one column goes with any number of them. */
#include "models/language/operation.h"

static int index_of(const struct node *s, int row, int k) {
    return row * s->K + (s->K == 1 ? 0 : k);
}

typedef double (*pairing)(double a, double b);

static double plus(double a, double b) {
    return a + b;
}

static double times(double a, double b) {
    return a * b;
}

/* x [rows][K], of what the arguments of v have, a and b. */
static void pair(pairing of, const struct program *p, const struct node *v, int rows,
                 const double *a, const double *b, double *x) {
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < v->K; k++)
            x[i * v->K + k] = of(a[index_of(&p->node[v->argument[0]], i, k)],
                                 b[index_of(&p->node[v->argument[1]], i, k)]);
}

static void sum_forward(struct net *net, struct node *v) {
    pair(plus, net->program, v, v->count, argument(net, v, 0)->s, argument(net, v, 1)->s, v->s);
}

static void sum_start(const struct program *p, const struct node *v, int kind, const double *a,
                      const double *b, double *x) {
    (void)kind;
    pair(plus, p, v, 1, a, b, x);
}

static void sum_backward(struct net *net, struct node *v) {
    for (int n = 0; n < 2; n++) {
        const struct node *s = argument(net, v, n);
        for (int i = 0; i < v->count && v->plan.part[n].due; i++)
            for (int k = 0; k < v->K; k++)
                s->gs[index_of(s, i, k)] += v->gs[i * v->K + k];
    }
}

static void product_forward(struct net *net, struct node *v) {
    pair(times, net->program, v, v->count, argument(net, v, 0)->s, argument(net, v, 1)->s, v->s);
}

static void product_start(const struct program *p, const struct node *v, int kind, const double *a,
                          const double *b, double *x) {
    (void)kind;
    pair(times, p, v, 1, a, b, x);
}

static void product_backward(struct net *net, struct node *v) {
    for (int n = 0; n < 2; n++) {
        const struct node *s = argument(net, v, n), *other = argument(net, v, 1 - n);
        for (int i = 0; i < v->count && v->plan.part[n].due; i++)
            for (int k = 0; k < v->K; k++)
                s->gs[index_of(s, i, k)] += v->gs[i * v->K + k] * other->s[index_of(other, i, k)];
    }
}

static const struct operation operation_sum = {.name = "add_numbers",
                                               .forward = sum_forward,
                                               .backward = sum_backward,
                                               .start = sum_start,
                                               .storage.accumulates_itself = true,
                                               .across_inputs = true};
static const struct operation operation_product = {.name = "multiply_numbers",
                                                   .forward = product_forward,
                                                   .backward = product_backward,
                                                   .start = product_start,
                                                   .storage.accumulates_itself = true,
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
