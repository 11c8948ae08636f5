/* A change of explicit entries, rows over sites, along which something learns; and the optimizers
 * that remember earlier changes:
 *
 *     plain       entries += C a
 *     momentum    v = mu v + C a,   entries += rate v
 *     Adam        g = C a,   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2,
 *                 entries += s rate m^ / (sqrt(v^) + s eps)   or   ... / sqrt(v^ + (s eps)^2)
 *
 * with m^, v^ free of the bias of their start. An entry changes by s when the learned part of its
 * map, as models count it, changes by 1: rate and eps mean the same for every map and width. */
#ifndef KERNELS_CHANGE_H
#define KERNELS_CHANGE_H

#include "kernels/backend.h"

struct change {
    struct rows entries, a;
    double *C; /* [entries.count][a.count]; used up by the functions below */
    double s;
};

void change_apply(struct change *change);
/* velocity: zeroed at first; gets a row for every entry row, also for those that come later. */
int change_momentum(struct change *change, double mu, double rate, struct array *velocity,
                    struct err *err);
/* moment: m and v, zeroed at first; the entries are always the same. */
int change_adam(struct change *change, struct adam adam, struct array moment[2], struct err *err);

#endif
