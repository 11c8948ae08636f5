/* The states of map_finite and map_history, and operations on explicit entries W, which map_adam
 * has too: an array of n rows, one for each target site, over the source sites. */
#pragma once

#include "kernels/maps/map.h"

struct finite_state {
    struct array W;
};

static inline struct finite_state *finite_of(const struct map *map) {
    assert(map->kind == &map_finite);
    return map->state;
}

/* out = beta out + scale sum_i y_i W_i */
int map_entries_backward(const struct array *W, double scale, struct rows y, double beta,
                         struct rows out, struct err *err);
/* W_i += s sum_mu c_mu y_mu,i x_mu, by stage k of the map. */
int map_entries_change(const struct map *map, const struct array *W, int k, const double *c,
                       double s, struct change *change, struct err *err);

struct history_state {
    struct array q; /* past x times their c, over the source sites */
    struct array Z; /* past y, over the target sites */
};

static inline struct history_state *history_of(const struct map *map) {
    assert(map->kind == &map_history);
    return map->state;
}

/* It becomes a map_finite, whose entries the caller fills. */
int map_history_end(struct map *map, struct err *err);
