/* Gradients apart: backward passes of the last evaluation that begin from one term alone, an output
 * of each input, the loss of the task or one penalty, where the pass that training learns with
 * carries them together (net->output.loss_in_cotangent). They leave no trace: what a limit asks its
 * matrices meanwhile is conditioned on all before, and forgotten.
 *
 *     apart_begin, (apart_pass, (apart_gradient, ...), apart_forget) ..., apart_end
 *
 * Of a net with setup.measure.apart and loss_in_cotangent, whose values then stay until the next
 * evaluation. */
#pragma once

#include "models/engine/node.h"

/* What passes that leave no trace overwrite, put aside before them and taken back behind them:
 * predictions (predict.c) and gradients apart (apart.c). */

/* Copies of the rows and numbers of the net, and room for marks of what the passes add to. From
 * aside_put to aside_free companions of the rows rest. */
struct aside {
    struct array *array;
    double **vector;
    int *index; /* of the inputs */
    struct population_aside *population;
    struct map_aside *map;
};

int aside_put(struct aside *aside, struct net *net, struct err *err);
/* aside_maps marks where matrices stand, behind marks of the populations, before passes that add to
 * them; aside_take_back goes back to the marks of both. */
void aside_maps(const struct aside *aside, const struct net *net, bool predicting);
void aside_forget(const struct aside *aside, const struct net *net);
void aside_take_back(const struct aside *aside, struct net *net);
/* What a parameter would learn with becomes `kept`; of a matrix its rows y alone. */
int net_keep_gradient(const struct parameter *p, struct kept *kept, struct err *err);
/* What is kept, as what a parameter learns with; of a matrix without A. */
struct gradient net_kept(const struct kept *kept);
void aside_free(struct aside *aside, struct net *net); /* accepts a zeroed struct */

enum term_kind { TERM_OUTPUT, TERM_LOSS, TERM_PENALTY };
struct term {
    enum term_kind kind;
    int output;            /* of net_outputs, of each input */
    const double *penalty; /* its number */
};

/* Penalty number k of the program: where its number is, and its name; NULL: there are no more. */
const double *apart_penalty(const struct net *net, int k, const char **name);
struct apart {
    struct net *net;
    struct aside aside;
    double *Delta; /* of the evaluation */
    int kept;      /* passes that can be kept */
    int passes;    /* so far */
    struct kept *gradient;
};

/* kept: how many passes will be kept beside one another. Only apart_end may follow a failure. */
int apart_begin(struct apart *apart, struct net *net, int kept, struct err *err);
/* Cotangents of the net become those of this term (NULL: those of training); with keep >= 0 what
 * parameters would learn with is kept as number keep. */
int apart_pass(struct apart *apart, const struct term *term, int keep, struct err *err);
/* What parameter i would learn with: of the kept pass k, or (k < 0) of the last one. */
struct gradient apart_gradient(const struct apart *apart, int i, int k);
/* A limit forgets what the passes since apart_begin have asked: what follows has its room. Products
 * between passes on both sides of it are not those of the limit. */
void apart_forget(struct apart *apart);
/* The net is as it was; frees all. Accepts a struct that apart_begin has failed with. */
void apart_end(struct apart *apart);
