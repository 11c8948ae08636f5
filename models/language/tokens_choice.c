/* Choices among the tokens of an input, at every site by itself: what experts that choose their
 * tokens, and experts of limited capacity, are made of. Both are masks, constants in the backward
 * pass. */
#include "models/language/tokens.h"

#include <stdlib.h>
#include <string.h>

static const struct value none = {-1};

/* One of the rows of an input at a site. */
struct candidate {
    double value;
    int token;
};

/* The largest first; of equals the first token. */
static int by_value(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    return x->value == y->value ? x->token - y->token : x->value < y->value ? 1 : -1;
}

/* mask [n], at 0, of one site: 1 on those of C tokens that are chosen. */
typedef void choosing(int n, size_t C, struct candidate *candidate, double *mask, size_t stride);

static void choose_largest(int n, size_t C, struct candidate *candidate, double *mask,
                           size_t stride) {
    qsort(candidate, (size_t)n, sizeof *candidate, by_value);
    for (size_t k = 0; k < C; k++)
        mask[(size_t)candidate[k].token * stride] = 1;
}

static void choose_first(int n, size_t C, struct candidate *candidate, double *mask,
                         size_t stride) {
    size_t chosen = 0;
    for (int s = 0; s < n && chosen < C; s++)
        if (candidate[s].value > 0) {
            mask[(size_t)s * stride] = 1;
            chosen++;
        }
}

/* Input by input, on the host. */
static int choose(struct net *net, struct node *v, choosing *rule, struct err *err) {
    int n = net->setup.data.n, code;
    size_t sites = v->on->sites;
    struct rows x = argument(net, v, 0)->value;
    struct candidate *candidate = NULL;
    double *value = NULL, *mask = NULL;
    DO(base_alloc(&candidate, (size_t)n, sizeof *candidate, err));
    DO(base_alloc(&value, (size_t)n * sites, sizeof *value, err));
    DO(base_alloc(&mask, (size_t)n * sites, sizeof *mask, err));
    for (int mu = 0; mu < net->setup.data.P; mu++) {
        ops(net)->get(of_input(net, x, mu), value);
        memset(mask, 0, (size_t)n * sites * sizeof *mask);
        for (size_t i = 0; i < sites; i++) {
            for (int s = 0; s < n; s++)
                candidate[s] = (struct candidate){value[(size_t)s * sites + i], s};
            rule(n, v->constant.top, candidate, mask + i, sites);
        }
        ops(net)->put(of_input(net, v->value, mu), mask);
    }
done:
    free(candidate), free(value), free(mask);
    return code;
}

static void top_rows_forward(struct net *net, struct node *v) {
    remember_failure(net, choose(net, v, choose_largest, &net->program->err));
}

static void first_rows_forward(struct net *net, struct node *v) {
    remember_failure(net, choose(net, v, choose_first, &net->program->err));
}

static json_t *choice_describe(const struct node *v) {
    return json_pack("{s:I}", "top", (json_int_t)v->constant.top);
}

static bool always(const struct program *p, int node) {
    (void)p, (void)node;
    return true;
}

static const struct operation operation_top_rows = {.name = "top_rows",
                                                    .describe = choice_describe,
                                                    .forward = top_rows_forward,
                                                    .jumps = always},
                              operation_first_rows = {.name = "first_rows",
                                                      .describe = choice_describe,
                                                      .forward = first_rows_forward,
                                                      .jumps = always};

static struct value add_choice(struct program *p, const struct operation *op, struct value x,
                               int C) {
    struct value out;
    if (!node_given_rows(p, op->name, x, none) || !of_tokens(p, op->name, x))
        return none;
    if (C > p->net->setup.data.n)
        program_fail(p,
                     "%s of %d tokens, where an input has %d: it must be a whole number from 1 to "
                     "this",
                     op->name, C, p->net->setup.data.n);
    struct node *node = node_append_rows(p, op, x, &out);
    if (node) {
        node->constant.top = (size_t)C;
        node->plan.moves = false;
    }
    return out;
}

struct value program_top_rows(struct program *p, struct value x, int C) {
    return add_choice(p, &operation_top_rows, x, C);
}

struct value program_first_rows(struct program *p, struct value x, int C) {
    return add_choice(p, &operation_first_rows, x, C);
}
