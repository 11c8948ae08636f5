/* How much each expert learns: [output] experts. Of every matrix that belongs to experts, the norm
 * of its gradient and of what it has changed by, expert by expert. */
#pragma once

#include "solver/measure/instrument.h"

/* One matrix, or the family of those that a fixed number of experts have. */
struct expert_matrix {
    const struct net_router *router;
    const struct node *node; /* the first of a family */
    bool target;             /* many experts: its target has their units, else its source */
};

/* What item r nodes + i stands for, r < net->routers, i a node; false: nothing. */
bool expert_norms_find(const struct net *net, int item, struct expert_matrix *matrix);
/* The square of the norm of the gradient, or of the change, of each expert: out [experts]. */
int expert_norms_squares(const struct net *net, const struct expert_matrix *matrix, bool change,
                         double *out, struct err *err);
