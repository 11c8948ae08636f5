/* The state of map_adam. */
#pragma once

#include "kernels/maps/map_limit.h"

struct adam_state {
    struct limit_state limit; /* of the random part; first: map_limit works on it */
    struct array D;           /* once it has learnt: the explicit entries */
    struct array work;        /* [P] over the target sites */
};

static inline struct adam_state *adam_of(const struct map *map) {
    assert(map->kind == &map_adam);
    return map->state;
}
