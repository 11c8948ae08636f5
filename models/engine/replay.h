/* Part of a program once more, on rows of its own: with given values or cotangents, and W(0) in the
 * place of its matrices. Of a finite network that remembers W(0) (net_setup.check); the net itself
 * stays as it was. For diagnostics that take a network to pieces.
 *
 *     replay_begin, replay_give ..., replay_forward      values that follow from what is given
 *     replay_begin, replay_give ..., a cotangent of replay_node ..., replay_backward */
#ifndef MODELS_REPLAY_H
#define MODELS_REPLAY_H

#include "models/engine/node.h"

struct replay {
    struct net view;        /* the net, with the program below */
    struct program program; /* nodes first ... last, and those of their backward pass, have rows
                             and numbers of their own */
    int first, last, arrays, vectors;
    struct array **array;
    double **vector;
    struct thin *start; /* [nodes] thin matrices at the start */
    bool *given, *active, *own;
};

/* Before the first update: thin matrices are remembered here. */
int replay_init(struct replay *replay, const struct net *net, int first, int last, struct err *err);
void replay_free(struct replay *replay); /* accepts a zeroed struct; idempotent */
/* The thin matrices that it remembers; read: into one of replay_init. */
int replay_archive(struct replay *replay, struct archive *archive, struct err *err);
/* After an evaluation: nothing is given, cotangents are zero. */
void replay_begin(struct replay *replay, const struct net *net);
/* The node has the value that it has in the net, and what it follows from is not run. */
void replay_give(struct replay *replay, const struct net *net, int node);
/* The node has a value, or a cotangent, that the caller writes. */
struct node *replay_node(struct replay *replay, int node);
/* The value of node `target`; matrices initial or as they are. */
int replay_forward(struct replay *replay, bool initial, int target, struct err *err);
/* From the nodes that replay_node has told, down to what was given. */
int replay_backward(struct replay *replay, bool initial, struct err *err);

#endif
