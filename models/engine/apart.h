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

#include "models/engine/aside.h"

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
