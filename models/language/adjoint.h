/* The backward pass as nodes of the program's own list, behind those that its author has written.
 *
 * The cotangent of a node is the value of another one (node.plan.g). Node by node in reverse,
 * adjoint_write appends what the operation's row says (operation.adjoint): values of ordinary words
 * that make the part of an argument's cotangent from the cotangent that arrives, values of the
 * forward pass and slopes. A second part is added to the first: its node is `onto` that of the sum
 * so far, whose value it takes over. So the list is run from its beginning to its end, and plan.c
 * stores all values in one way. */
#pragma once

#include "models/engine/node.h"

/* These functions append to the list, which may move: whoever calls them keeps indices, and no
 * pointers to nodes, across a call.
 *
 * For operation.adjoint: a node on the population of node `like`, with rows for as many tokens, as
 * many as the argument that has most. */
struct value adjoint_append(struct program *p, const struct operation *op, struct value a,
                            struct value b, int like);
/* Appends a node with as many rows, or numbers, as node `like`, whatever its arguments have. */
struct value adjoint_like(struct program *p, const struct operation *op, struct value a,
                          struct value b, int like);
/* g itself, as an operation's adjoint. */
struct value adjoint_same(struct program *p, int v, int k, struct value g);
/* factor x; and one row x for all inputs, as the rows of node `like`. */
struct value adjoint_times(struct program *p, double factor, struct value x);
struct value adjoint_repeat(struct program *p, struct value x, int like);
/* The slope of node v, which its forward pass writes (node.plan.slope). */
struct value adjoint_slope(struct program *p, int v);
/* The column of a read-out. */
struct value adjoint_column(struct program *p, int v);
/* Averages of x, or of x y, for column `column` of the numbers of node `like`. */
struct value numbers_average(struct program *p, struct value x, struct value y, int column,
                             int like);
/* c s^(c - 1) g, of the argument s of node v, whose factor is c. */
struct value numbers_power_adjoint(struct program *p, int v, int k, struct value g);
void numbers_power_late(struct net *net, struct node *v); /* s^c, as operation.late */
extern const struct operation operation_spread, operation_sum;

/* For plan.c: appends the backward pass. */
int adjoint_write(struct program *p, struct err *err);
/* Once all nodes are prepared: the nodes of the backward pass get matrices and scratch of those
 * whose cotangents they make parts of. */
int adjoint_prepare(struct program *p, struct err *err);
/* For selected.c: a node of the rows that node v takes out of x for its expert; whether one is. */
int adjoint_take(struct program *p, int v, int x, bool forward);
bool adjoint_is_taken(const struct node *node);
