/* Choices among the tokens of an input, at every site, or of every number, by itself: what experts
 * that choose their tokens, and experts of limited capacity, are made of. Both are masks, constants
 * in the backward pass. */
#include "models/language/tokens.h"

/* A token of an input, and what a site or number has there. */
struct candidate {
    double value;
    int token;
};

/* The largest first; of equals the first token. */
static int by_value(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    return x->value == y->value ? x->token - y->token : x->value < y->value ? 1 : -1;
}

/* mask [n], at 0, of one site or number: 1 on C tokens at most, those with the largest values or
 * the first above 0. */
static void choose_some(const struct node *v, struct candidate *candidate, double *mask,
                        size_t stride) {
    bool first = v->op == &operation_first_rows;
    size_t chosen = 0;
    if (!first)
        qsort(candidate, (size_t)v->per, sizeof *candidate, by_value);
    for (int k = 0; k < v->per && chosen < v->constant.top; k++)
        if (!first || candidate[k].value > 0) {
            mask[(size_t)candidate[k].token * stride] = 1;
            chosen++;
        }
}

/* Candidates of an input; and, of rows, its values and mask. All of it is of one forward pass. */
static int choice_prepare(struct net *net, struct node *v, struct err *err) {
    size_t n = (size_t)v->per, candidates = n * sizeof(struct candidate),
           rows = v->on ? 2 * n * v->on->sites * sizeof *v->A : 0;
    if (net->setup.declare_only)
        return CODE_OK;
    v->A = program_memory(net->program, candidates + rows);
    if (!v->A)
        *err = net->program->err;
    return net->program->code;
}

/* mask of x, [n][count] each. What is no number is chosen first, so that the loss is none either
 * and the run ends. */
static void choose_tokens(const struct node *v, size_t count, const double *x, double *mask) {
    struct candidate *candidate = (struct candidate *)v->A;
    memset(mask, 0, (size_t)v->per * count * sizeof *mask);
    for (size_t i = 0; i < count; i++) {
        for (int s = 0; s < v->per; s++) {
            double value = x[(size_t)s * count + i];
            candidate[s] = (struct candidate){isnan(value) ? INFINITY : value, s};
        }
        choose_some(v, candidate, mask + i, count);
    }
}

/* Input by input, on the host. */
static void choice_forward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    size_t n = (size_t)v->per, K = (size_t)v->K;
    for (size_t mu = 0; mu < (size_t)net->setup.data.P; mu++) {
        if (!v->on) {
            choose_tokens(v, K, x->s + mu * n * K, v->s + mu * n * K);
            continue;
        }
        double *value = v->A + n * sizeof(struct candidate) / sizeof *v->A,
               *mask = value + n * v->on->sites;
        ops(x->value)->get(of_input(net, x->value, (int)mu), value);
        choose_tokens(v, v->on->sites, value, mask);
        ops(v->value)->put(of_input(net, v->value, (int)mu), mask);
    }
}

static void choice_shape(struct program *p, struct node *node, struct population *on UNUSED) {
    struct value x = {node->argument[0]};
    int C = (int)node->constant.top;
    if (!of_places(p, node->op->name, x))
        return;
    if (C < 1 || C > node_of(p, x)->per)
        program_fail(p,
                     "%s of %d tokens, where an input has %d: it must be a whole number from 1 to "
                     "this",
                     node->op->name, C, node_of(p, x)->per);
    if (!node->on)
        program_selects_rows(p, x, C, node->op == &operation_first_rows);
}

/* What both words have but for their names and what is said of them. */
#define BOTH_WORDS                                                                                 \
    .arguments = "x, C", .gives = "rows or numbers", .shape = choice_shape,                        \
    .zeros = ZEROS_OF_TOKENS, .prepare = choice_prepare, .forward = choice_forward,                \
    .constants = CONSTANTS(CONSTANT_FROM("top", FIELD_SIZE, top, 1, 100000)),                      \
    .jumps = operation_always

OPERATION(top_rows, BOTH_WORDS,
          .doc = "a mask, at each site or of each number: 1 on the C tokens of an input with the "
                 "largest x; ties go to the first token; constant in the backward pass");
OPERATION(first_rows, BOTH_WORDS,
          .doc = "a mask, at each site or of each number: 1 on the first C tokens of an input "
                 "whose x is above 0; constant in the backward pass");
