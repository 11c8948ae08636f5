/* For the operations of programs: what their bodies share. */
#pragma once

#include "models/engine/describe.h"
#include "models/engine/node.h"

#include <jansson.h>

/* A constant of an operation, by its name in descriptions and member of struct node_constant. */
#define CONSTANT(name, type, member) CONSTANT_OF(struct node_constant, name, type, member)
#define CONSTANT_FROM(label, kind, member, lowest, highest)                                        \
    {                                                                                              \
        .name = label, .type = kind, .offset = offsetof(struct node_constant, member),             \
        .least = lowest, .most = highest                                                           \
    }
#define CONSTANT_LIST(label, function)                                                             \
    { .name = label, .type = FIELD_LIST, .list = function }
/* All constants of an operation, or of a function that an author brings along. */
#define CONSTANTS(...) ((const struct constant_field[]){__VA_ARGS__, {0}})

static const struct value none = {-1}; /* a value that does not exist */

static inline struct node *argument(const struct net *net, const struct node *v, int k) {
    return &net->program->node[v->argument[k]];
}

/* Words by their rows, in the order of the tables of docs/programs.md; each list ends with NULL. */
extern const struct operation *const operation_words_of_rows[],
    *const operation_words_of_numbers[], *const operation_words_of_tokens[];
/* What the next argument of such a word is, of the text that `rest` is moved through. */
enum operation_argument { ARGUMENT_NONE, ARGUMENT_VALUE, ARGUMENT_POPULATION, ARGUMENT_CONSTANT };
enum operation_argument operation_argument(const char **rest);
/* Whether it takes rows and numbers alike. */
static inline bool operation_takes_either(const struct operation *op) {
    return !strcmp(op->gives, "rows or numbers");
}
struct value program_apply(struct program *p, const struct operation *op, struct operands given);
/* An operation whose constants, and what it remembers from step to step, lie in this context; its
 * rows are those of x unless it has a shape. */
struct value program_rule(struct program *p, const struct operation *op, struct value x,
                          void *context);
/* For operation.shape: one number of each row. */
void operation_gives_one(struct program *p, struct node *node, struct population *on);

/* For operations that jump at any value. */
static inline bool operation_always(const struct program *p UNUSED, int node UNUSED) {
    return true;
}

/* For those that leave 0 as it is, whatever they are given. */
static inline bool operation_always_keeps_zero(const struct node *v UNUSED) {
    return true;
}

/* For operation.late: factor a^power b, of the arguments a and, if the node has two, b. */
static inline void numbers_late(struct net *net, struct node *v, double power, double factor) {
    const double *b = v->argument[1] < 0 ? NULL : argument(net, v, 1)->s;
    net->setup.backend->distant->numbers(v->s, argument(net, v, 0)->s, power, factor, b,
                                         node_numbers(v));
}

/* Remembers a failure for node_run, which ends with it. */
static inline void remember_failure(struct net *net, int code) {
    if (!net->program->code)
        net->program->code = code;
}

/* The operations of the backend that has these rows. */
static inline const struct backend *ops(struct rows rows) {
    return rows.array->backend;
}

/* g (+)= part, which may have one row for all. */
static inline void add_part(const struct net *net, struct rows part, bool first, struct rows g) {
    if (part.count != g.count)
        ops(g)->combine(g, first ? 0 : 1, net->output.ones, part);
    else if (first)
        rows_copy(part, g);
    else
        rows_add(NULL, part, g);
}

/* Which row of all the node's row k is. */
static inline ptrdiff_t row_of(const struct node *v, int k) {
    return selected_some(v) ? v->expert.of->some.which[k] : k;
}

/* A column of numbers, of the rows that v has, in the program's scratch; the only one of all rows
 * is where it is. */
static inline const double *column_for(const struct net *net, const struct node *v,
                                       const struct node *numbers, int column) {
    double *out = net->program->c;
    if (numbers->K == 1 && !selected_some(v))
        return numbers->s;
    int count = selected_some(v) ? v->expert.of->some.count : numbers->count;
    for (int k = 0; k < count; k++)
        out[k] = numbers->s[row_of(v, k) * numbers->K + column];
    return out;
}
