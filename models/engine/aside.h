/* What passes that leave no trace overwrite, put aside before them and taken back behind them:
 * predictions (predict.c) and gradients apart (apart.c). */
#pragma once

#include "models/engine/node.h"

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
void aside_free(struct aside *aside, struct net *net); /* accepts a zeroed struct */

/* What a parameter would learn with is kept, of a matrix its rows y alone, for a stage (stage.c) or
 * a pass apart; and given as it was kept. */
int net_keep_gradient(const struct parameter *p, struct kept *kept, struct err *err);
struct gradient net_kept(const struct kept *kept);
