/* The state of map_limit, and of the random part of map_adam (formulae in map.h). */
#pragma once

#include "kernels/maps/map.h"

struct limit_state {
    struct array q, e; /* over the source sites */
    struct array Z, p; /* over the target sites */
    struct array K;    /* over the source sites, one per p, of a map that learns backward */
    /* NULL, or a map that has met the same x whenever this one does; q is its basis. */
    const struct map *leader;
    double largest[2]; /* rms of the largest block that p, q have met */
    double *loss[2];   /* NULL, or [sites] the account of p, q for basis_residual */
    /* These are of the last passes, with the rows of all uses. */
    double *x_q; /* [P][q_count]: <x_mu, q_a> */
    double *x_e; /* [P][e_count]: fr <x_mu, e_b>; rows of p at the last forward */
    double *y_p; /* [y.count][p_count]: fr <y_mu, p_b> */
    int q_count, e_count, p_count;
    bool late; /* x_q of the last pass may not have come (backend_arrive) */
    /* What the next passes, backward and forward, find out first, where it was asked for before
     * (map_ask_ahead): rows, and what is known of them beside the basis of `rank` rows. */
    struct map_asked {
        struct rows x;
        int rank;
        struct basis_known known;
    } asked[2];
    /* These, x_e and y_p are of a map that remembers: */
    struct array normals; /* over the target sites: the normals in Z alone, one per q */
    double *y_normals;    /* [y.count][normal_count]: <y_mu, normals_a> */
    int normal_count;
    struct {
        double *R; /* [P][rank], x over the basis q of that time; or y over p, learning backward */
        int rank;
    } kept[MAP_STAGES];
    /* Tests only: takes the place of fresh normals. `basis` are the new rows of q (forward) or p,
     * out the normals that belong to them. */
    int (*feed)(void *context, struct map *map, bool forward, struct rows basis, struct rows out,
                struct err *err);
    void *context;
};

/* Whether what it learns is kept in K (map.h). */
static inline bool map_learns_backward(const struct map_declaration *declared) {
    return map_each(declared, false) > 0;
}

/* Whether its basis of all y meets those of a pass. */
static inline bool map_meets_backward(const struct map *map) {
    return map->numbers.fr != 0 || map_learns_backward(&map->declared);
}

/* C[P][n] = <x_mu, v_k>, allocated. */
int map_find_products(struct rows x, struct rows v, double **C, struct err *err);
/* Whether a device finds the products with the rows of a basis within the pass, and the host has
 * them later. Not those of a matrix that keeps them of several uses, or for `initial`. */
bool map_delays(const struct map *map, struct rows out);
/* The basis of one side meets x: *C, the products with all its rows; of a pass that is delayed,
 * room for them if there are new rows. Returns through `late` whether it is so; else those with new
 * rows come while normals are drawn. */
int map_meet(struct map *map, bool forward, struct rows x, bool delayed, double **C, bool *late,
             struct err *err);
/* If another map has met x just before, its basis serves both. */
int map_meet_after(struct map *map, struct rows x, struct rows out, double **R, bool *late,
                   struct err *err);

static inline bool map_has_bases(const struct map *map) {
    return map->kind == &map_limit || map->kind == &map_adam;
}

static inline struct limit_state *limit_of(const struct map *map) {
    assert(map_has_bases(map));
    return map->state;
}

struct adam_state {
    struct limit_state limit; /* of the random part; first: map_limit works on it */
    struct array D;           /* once it has learnt: the explicit entries */
    struct array work;        /* [P] over the target sites */
};

static inline struct adam_state *adam_of(const struct map *map) {
    assert(map->kind == &map_adam);
    return map->state;
}
