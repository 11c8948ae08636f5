/* The state of map_history. */
#pragma once

#include "kernels/maps/map.h"

#include <assert.h>

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
