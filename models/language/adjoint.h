/* The backward pass as nodes of the program's own list, behind those that its author has written.
 *
 * An operation's row says what the part of an argument's cotangent is made of (operation.adjoint):
 * values of ordinary words, which read the cotangent that arrives, values of the forward pass and
 * slopes. Two nodes stand for rows that are there already: the cotangent of a node, and its slope.
 * plan.c appends the nodes of a part when it knows how many rows the cotangent has, and runs them,
 * in their order, at the step of the node in reverse; what is not the part itself is scratch of
 * this step. */
#ifndef MODELS_ADJOINT_H
#define MODELS_ADJOINT_H

#include "models/engine/node.h"

/* These functions append to the list, which may move: whoever calls them keeps indices, and no
 * pointers to nodes, across a call.
 *
 * For operation.adjoint: a node on the population of node `like`, with rows for as many tokens, as
 * many as the argument that has most; -1: one number for each of its rows. */
struct value adjoint_append(struct program *p, const struct operation *op, struct value a,
                            struct value b, int like);
/* The same with as many rows as node `like`, whatever its arguments have; numbers where it has. */
struct value adjoint_like(struct program *p, const struct operation *op, struct value a,
                          struct value b, int like);
/* The part, by a node that can add it to the cotangent itself (node.plan.adds); numbers like those
 * of the argument must be made by such a node. */
struct value adjoint_into(struct program *p, struct value part);
/* The slope that the forward pass of node v has kept. */
struct value adjoint_slope(struct program *p, int v);
/* The column of a read-out. */
struct value adjoint_column(struct program *p, int v);
/* Numbers g, times others if there are any, for an argument that may have one for all columns. */
struct value numbers_gather(struct program *p, struct value g, struct value other, int like);
/* For plan.c: the nodes of the part for argument k of node v, whose cotangent has its rows. */
int adjoint_of(struct program *p, int v, int k, struct err *err);
/* Rows of the part that differ by more than a factor, where so many of the cotangent do. */
int adjoint_differ(const struct program *p, const struct part *part, int differ);
/* Whether the part is the cotangent itself; and whether a node stands for rows of node v. */
bool adjoint_is_cotangent(const struct program *p, const struct part *part);
bool adjoint_stands_for(const struct node *node);
/* Whether the nodes of the part behind node i read rows that node `read` stands for or has. */
bool adjoint_reads_later(const struct program *p, const struct node *v, int i, int read);
/* Finds the parts of node v and adds them to the cotangents. */
void adjoint_run(struct net *net, struct node *v);

#endif
