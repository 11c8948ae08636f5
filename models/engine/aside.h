/* What passes that leave no trace overwrite, put aside before them and taken back behind them:
 * looks at other inputs (predict.c) and gradients apart (apart.c). */
#ifndef MODELS_ASIDE_H
#define MODELS_ASIDE_H

#include "models/engine/node.h"

/* Copies of the rows and numbers of the net, and room for marks of what the passes add to. From
 * aside_put to aside_free companions of the rows rest. */
struct aside {
    struct array *array;
    double **vector;
    int *index, *token; /* of the inputs, NULL where there are no tokens */
    struct population_aside *population;
    struct map_aside *map;
};

int aside_put(struct aside *aside, struct net *net, struct err *err);
void aside_take_back(const struct aside *aside, struct net *net);
void aside_free(struct aside *aside, struct net *net); /* accepts a zeroed struct */

#endif
