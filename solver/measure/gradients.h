/* Gradients of each term apart, at the last evaluation: of the outputs, of the loss of the task,
 * and of each penalty (models/engine/apart.h). Term 0 is the mean over the outputs of an input of
 * what each of them has, term 1 the loss, and the others are the penalties in the order of the
 * network.
 *
 * What several instruments are filled from is found once at each time (gradients_find): products
 * between the gradients of two inputs by each matrix, gradient kernels, and products between terms.
 * Where the net learns with the gradient of its one output no pass is needed, and the gradient of
 * the loss is Delta times that of the output. */
#pragma once

#include "models/engine/apart.h"
#include "solver/measure/instrument.h"

enum { TERM_OF_OUTPUTS, TERM_OF_LOSS, TERM_OF_PENALTIES };

struct gradients {
    bool wanted;       /* setup.measure.apart of the net */
    int terms, blocks; /* blocks: one of each parameter, or one of all */
    size_t size;       /* numbers in the block that begins with tangent */
    double *tangent;   /* [terms][blocks][P][P] */
    double **kernel;   /* [kernels] of the net: NULL, or [terms][rows][rows] */
    double **number;   /* [numbers]: NULL, or [terms][...] */
    double *product; /* [1 + parameters][terms - 1][terms - 1]: of all, then of each; NULL: none */
};

/* CODE_INPUT where what a series of these asks for cannot be found. */
int gradients_check(const struct config *config, const struct net *net, struct err *err);
/* Outputs, loss and penalties: "", "loss", "balance_loss", ... NULL: there are no more. */
const char *gradients_term(const struct net *net, int term);
/* NAME of a term: NAME, NAME_loss, ...; with_block: NAME_loss_MATRIX. */
void gradients_name(char name[SERIES_NAME], const char *first, const char *term, const char *block);
int gradients_terms(const struct net *net); /* how many there are */
/* What training learns with is of: the output (""), the loss ("loss"), or all terms ("total"). */
const char *gradients_own(const struct net *net);
/* How many numbers these are at one time. */
size_t gradients_numbers(const struct numbers *numbers);
int gradients_init(struct gradients *gradients, const struct config *config, const struct net *net,
                   struct err *err);
void gradients_free(struct gradients *gradients); /* accepts a zeroed struct */
/* After net_evaluate; the net stays as it is. */
int gradients_find(struct gradients *gradients, struct net *net, struct err *err);
/* K [P][P] of a term, of the parameter of this name or (empty name) of all. */
void gradients_tangent(const struct gradients *gradients, const struct net *net, int term,
                       const char *name, double *K);

/* How many parameters have gradients of their own: all of them, where any is asked for, or 1. */
int gradients_blocks(const struct config *config, const struct net *net);
