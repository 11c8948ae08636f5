/* For operations between the tokens of an input, whose rows are consecutive. */
#pragma once

#include "models/language/operation.h"

/* The rows of input mu, as many as it has; and those of token s of it, of pairs. */
static inline struct rows of_input(const struct net *net, struct rows x, ptrdiff_t mu) {
    int n = x.count / net->setup.data.P;
    return rows_part(x, (int)mu * n, n);
}

static inline struct rows of_token(const struct net *net, struct rows x, int token) {
    int n = net->setup.data.n;
    return rows_part(x, token * n, n);
}

static inline bool of_tokens(struct program *p, const char *op, struct value x) {
    if (!p->code && node_of(p, x)->per != p->net->setup.data.n)
        program_fail(p, "%s takes one row for each token", op);
    return !p->code;
}

/* Tokens, or the places that a mixture of places has left; no pairs, nothing one for all inputs. */
static inline bool of_places(struct program *p, const char *op, struct value x) {
    if (!p->code && (node_of(p, x)->per > p->net->setup.data.n ||
                     node_of(p, x)->count != p->net->setup.data.P * node_of(p, x)->per))
        program_fail(p, "%s takes a row for each token or place of an input", op);
    return !p->code;
}

/* Rows of an input that has one for each pair of its tokens. */
static inline ptrdiff_t pairs_of_tokens(const struct program *p) {
    return (ptrdiff_t)p->net->setup.data.n * p->net->setup.data.n;
}

static inline struct rows row(struct rows x, int k) {
    return rows_part(x, k, 1);
}

/* out = the sum of rows. */
static inline void sum_rows(const struct net *net, struct rows rows, struct rows out) {
    ops(out)->combine(out, 0, net->output.ones, rows);
}

/* Tokens that token s of a row attends to: those before it and itself, or all. */
static inline int seen(const struct net *net, ptrdiff_t row, bool causal) {
    int n = net->setup.data.n;
    return causal ? (int)row % n + 1 : n;
}

/* A mixture with weights A, of heads or numbers, or with its matrix transposed, shaped as node
 * `like`; and the adjoint of one. */
struct value tokens_mix(struct program *p, struct value A, struct value x, bool transposed,
                        double factor, int like);
struct value tokens_mix_adjoint(struct program *p, int v, int k, struct value g);

extern const struct operation operation_top_rows, operation_first_rows, operation_attend_by_head,
    operation_softmax_by_head, operation_mix_by_head;
