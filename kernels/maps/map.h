/* A map: a random weight matrix, as a network sees it.
 *
 *     forward(x)   ->  W x          x: rows over the source sites, result over the target sites
 *     backward(y)  ->  W^T y
 *     learn(k, c)  :   W += (1/m) sum_mu c_mu y_mu x_mu^T      with the rows of stage k
 *
 * W above is the matrix as the network uses it: n x m, W(0) = s_f a0 x (iid N(0, 1/m)), with a0
 * and s_f as declared (where s_f W is written below, W is without that factor). W^T is the
 * transpose in the site average, <y, W x> = <W^T y, x>: the transposed matrix over r = n/m, sizes
 * being those of the populations.
 *
 * What a caller does, in this order: an evaluation, that is map_forward once on every map and then
 * map_backward once; map_keep, if the evaluation is to be learned from; map_learn, as often as it
 * likes. A stage (x of the forward pass, and the y to learn with) outlives later passes and
 * updates: the map can be moved along it, and back with -c. Rows have shape [count][sites], count =
 * P, one for each input. y may be one row that serves all inputs; the declaration says so
 * (for_all_inputs).
 *
 * A matrix may have several uses in one evaluation (tied weights): an evaluation is then forward
 * for use 0, 1, ... and backward for each of them in any order, `use` saying which. Their rows
 * stand one below the other wherever all rows of an evaluation are meant, x, y and c [uses P]: the
 * matrix meets them and learns from them like any rows. map_stack_uses gives them room.
 *
 * Five kinds of map follow the same declaration:
 *
 * map_finite: the explicit n x m matrix; the populations have as many sites as units.
 *
 * map_history: the same for a0 = 0, where only the learned part exists, as the rows it learned
 * from: s_f W = (1/m) sum_k Z_k q_k^T. After t updates it has K = t P rows on either side (t, where
 * a single row y serves all inputs) and costs O(K P (n + m)); when K reaches min(n, m) it becomes
 * map_finite.
 *
 * map_limit: W conditioned on everything it has been applied to, on Monte Carlo sites, an explicit
 * matrix of growing rank (Gaussian conditioning; Bolthausen 2014, Bordelon & Pehlevan 2022):
 *
 *     W x   = sum_a <q_a, x> Z_a + fr sum_b <e_b, x> p_b        Z_a = fg (normal) + learned part
 *     W^T y = sum_a <Z_a, y> q_a + fr sum_b <p_b, y> e_b
 *
 * q: orthonormal basis of all x so far (source), p: of all y so far (target), e_b: a fresh normal
 * on the source per p_b, and one on the target per q_a. The products with e and with the normals in
 * Z are the response (memory) terms, by Stein's lemma; map_response.h has them in terms of earlier
 * x and y. When all sizes go to infinity two numbers of the declaration are left:
 *
 *     fg = a0 s_f           of the Gaussian part forward, and the memory backward
 *     fr = a0 s_f/sqrt r    of the memory forward, and the Gaussian part backward
 *
 * A direction joins a basis when its rest exceeds tolerance times the rms of the block, or of the
 * largest block that the basis has met (against_largest).
 *
 * What is learned is added to Z. Where a matrix out of the units of experts learns expert by expert
 * (map_each of the source), that is a function of x at each expert, so that it is kept as rows K_b
 * over the source sites, one per p_b, p being the basis of all y even if W(0) = 0:
 *
 *     W x   = ... + sum_b <K_b, x> p_b          W^T y = ... + sum_b <p_b, y> K_b
 *
 * map_adam: the same where entries of the learned part move one by one, which no finite rank
 * expresses: s_f W = (random part as above) + (1/m) D, D an explicit matrix over the sites of both
 * sides, so that <D_i, x> adds to W x and <D_.j, y> to W^T y.
 *
 * map_field: Gaussian fields and response terms from given two-time kernels (field.h). */
#pragma once

#include "kernels/maps/change.h"
#include "kernels/draws/population.h"

struct map_declaration {
    char name[24];
    struct population *source, *target;
    double a0, s_f;
    bool for_all_inputs; /* y is a single row that serves all inputs */
    bool each; /* learns expert by expert (polar.h), where one of its sides are their units */
    int uses;  /* of the matrix in an evaluation */
    const char *label; /* NULL, or what its author calls it; it is never freed */
};

/* The sites of a side that belong to one expert, where the matrix learns expert by expert and this
 * side has the units; else 0. */
static inline int map_each(const struct map_declaration *declared, bool target) {
    const struct population *side = target ? declared->target : declared->source,
                            *other = target ? declared->source : declared->target;
    return declared->each && side->of && !other->of ? side->group : 0;
}

struct map_numbers {
    double r, fg, fr;
};

/* What a run asks of its maps; each kind takes what concerns it. */
struct map_settings {
    const struct stop *stop;  /* NULL, or what ends the draws of a large matrix */
    struct rng_stream stream; /* finite: of W(0) */
    double tolerance;         /* limit: of the bases */
    /* limit: a rest counts against the largest block that the basis has met so far, instead of the
     * present one. For rows that fade, as cotangents do that carry the error of their input. May be
     * set until the first pass. */
    bool against_largest;
    bool remembers; /* limit: keeps the normals in Z apart, for `initial` */
    double
        shift; /* limit over sites with companions: of fields, for responses; 0: there are none */
    const struct field_settings *field; /* field: needed; copied */
};

#define MAP_STAGES 3 /* of the integrator that keeps most */

struct stage {
    int P;               /* rows of x */
    struct array x, y;   /* copies; of x only where entries are explicit */
    struct rows read[2]; /* there, x and y that are learned from: the copies, or what they are of */
    int *live;           /* NULL, or which rows of an evaluation these are: y of all others is 0 */
};

/* Which rows of an evaluation a pass has, in order, where it has some: y of all others is 0. */
struct map_some {
    const int *which;
    int count;
};

/* What a map has learned, as sum_s c_s y_s x_s^T over its evaluations s, and what was left of W(0)
 * at each. A field map knows nothing else of it; one that measures its responses needs it beside
 * what its kind keeps. */
struct map_terms {
    int evaluations, numbers; /* begun so far; numbers of c */
    int now;                  /* the last evaluation that is no prediction */
    double *c, *velocity;     /* c of each row of each; what an optimizer that adds remembers */
    double *decay;            /* [evaluations] */
    int kept[MAP_STAGES];     /* evaluations, by their number */
    int *measured, times;     /* [times] which evaluations were those of measured times */
};

struct map {
    const struct map_kind *kind;
    struct map_declaration declared;
    struct map_numbers numbers;
    struct map_settings settings;
    void *state;                   /* of its kind: map_finite.h, map_limit.h, field.h */
    struct map *start;             /* NULL, or the map that it was at the start (map_remember) */
    struct map_response *response; /* NULL, or what measures its responses (map_response.h) */
    struct map_terms *terms;       /* NULL, or its own, of a field map or of a response */
    int use;                       /* of its uses, that of the next pass */
    double decay;                  /* what map_decay has left of W(0) */
    struct rows of_all_uses[2];    /* x and y of all uses; none: there is one use */
    struct rows x;                 /* of the last forward, of all uses */
    const struct map_some *some; /* NULL: the last passes had all rows; of a matrix with one use */
    bool every_row; /* finite: no rows of y are sought that are 0, because none is expected to be */
    struct stage stage[MAP_STAGES];
    bool holds; /* map_hold is at work */
};

/* How much a run asks of a map: rows that it learns from, and rows of its bases in the limit, of
 * which q may be that of a leader (map_follow). */
struct map_costs {
    double learned, q, p;
    bool follows;
};

struct map_kind {
    size_t state; /* its size; zeroed before init */
    int (*init)(struct map *map, struct err *err);
    void (*free)(struct map *map); /* what the state owns, also after an init that failed */
    int (*forward)(struct map *map, struct rows x, struct rows out, struct err *err);
    int (*backward)(struct map *map, struct rows y, struct rows out, struct err *err);
    /* The same, added to out. NULL: only some kinds can do it. */
    int (*add_backward)(struct map *map, struct rows y, struct rows out, struct err *err);
    int (*keep)(struct map *map, int k, struct rows y, struct err *err); /* NULL: no more */
    /* Gives <x_mu x_nu> [P][P] and <y_mu y_nu> [y.count][y.count] of the last evaluation, as
     * learning from it sees them; y as keep has it. */
    void (*products)(const struct map *map, struct rows y, double *X, double *Y);
    /* What learn does to explicit entries; or, where there are none that stay, learn itself; or
     * neither, of a kind that its terms are enough for. */
    int (*change)(struct map *map, int k, const double *c, struct change *change, struct err *err);
    int (*learn)(struct map *map, int k, const double *c, struct err *err);
    void (*decay)(struct map *map, double factor); /* NULL: only the terms become smaller */
    /* What it keeps from one measured time to the next: not stages, which are kept anew. NULL:
     * cannot be kept. */
    int (*archive)(struct map *map, struct archive *archive, struct err *err);
    /* Memory that it comes to; nothing need be made yet. NULL: map_entries_bytes. */
    double (*bytes)(const struct map *map, const struct map_costs *costs);
    /* Gives s_f W [target sites][source sites] of a finite network, on the host. */
    int (*matrix)(const struct map *map, double *out, struct err *err);
    /* s_f W(0) x (forward) or s_f W(0)^T y/r of the x or y of the last pass of a use, or, of a
     * finite network that remembers its start, of any. NULL: none. */
    int (*initial)(const struct map *map, int use, bool forward, struct rows in, struct rows out,
                   struct err *err);
};

/* map_KIND, by its name: of functions KIND_init, KIND_free, KIND_forward, KIND_backward. */
#define MAP_KIND(kind, type, ...)                                                                  \
    const struct map_kind map_##kind = {.state = sizeof(type),                                     \
                                        .init = kind##_init,                                       \
                                        .free = kind##_free,                                       \
                                        .forward = kind##_forward,                                 \
                                        .backward = kind##_backward,                               \
                                        __VA_ARGS__}
extern const struct map_kind map_finite, map_history, map_limit, map_adam, map_field;

/* The kind for a run: of a finite network or a limit, or (field) of a fixed point; trained along
 * the gradient alone, or entry by entry. */
struct map_choice {
    bool finite, gradient, by_entry;
    const struct field_settings *field;
};
const struct map_kind *map_choose(const struct map_choice *choice,
                                  const struct map_declaration *declared);
double map_entries_bytes(const struct map *map); /* of an explicit matrix over the sites */

/* The declaration and its numbers; everything else zero. */
void map_declare(struct map *map, struct map_declaration declared);
/* A map that has met and learned nothing. */
int map_init(struct map *map, const struct map_kind *kind, struct map_declaration declared,
             struct map_settings settings, struct err *err);
/* A limit map that has met nothing: its forward passes always come after those of `leader`, on the
 * same rows, and use its basis. NULL: it has one of its own, as after map_init. */
int map_follow(struct map *map, const struct map *leader, struct err *err);
/* x, y: [uses P] over the source and the target sites. x is filled by the passes; y, which not all
 * passes meet, by the caller. */
void map_stack_uses(struct map *map, struct rows x, struct rows y);
void map_free(struct map *map); /* accepts a zeroed struct; idempotent */
/* After map_init, of a finite network: for `initial`, keeps W(0). */
int map_remember(struct map *map, struct err *err);
/* out is overwritten and must not overlap x, y. On a device backend_arrive must follow the forward
 * passes of an evaluation. */
int map_forward(struct map *map, struct rows x, struct rows out, struct err *err);
/* On a device: the next pass in this direction will have these rows, as they are. What its basis
 * must know of them is asked for, and comes with whatever is waited for before. */
int map_ask_ahead(struct map *map, bool forward, struct rows x, struct err *err);
int map_backward(struct map *map, struct rows y, struct rows out, struct err *err);
/* out += what map_backward writes: of kinds that have add_backward. */
int map_add_backward(struct map *map, struct rows y, struct rows out, struct err *err);
/* Keeps x of the last forward and y (as many rows, or one) as stage k; both of all uses. */
int map_keep(struct map *map, int k, struct rows y, struct err *err);
/* Holds a pass as stage 0 does, for learning that comes before the next one: explicit entries learn
 * from the rows themselves. */
int map_hold(struct map *map, struct rows y, struct err *err);
/* c [P], one per row of x of stage k */
int map_learn(struct map *map, int k, const double *c, struct err *err);
/* What forward passes, or backward ones, add to a map: set aside before passes that leave no trace
 * (of a network or a limit), and put back after them. */
struct map_aside {
    bool forward;
    struct rows x;
    /* A limit notes the rows of its basis (q or p), of the normals that belong to it, and of the
     * normals in Z alone or of what is learned at p; and what it knew of x or y. */
    int basis, normals, beside, basis_count, other_count;
    int now; /* of the terms of a field map */
    double largest, *on_basis, *on_other;
};
void map_set_aside(struct map *map, bool forward, struct map_aside *aside);
void map_put_back(struct map *map, const struct map_aside *aside);
/* Rows of the basis of all x (forward) or all y so far; 0 of kinds without. */
int map_rank(const struct map *map, bool forward);
/* What map_learn would add to c of its terms: gradient [numbers], freed by the caller. */
int map_terms_gradient(const struct map *map, const double *c, double **gradient, struct err *err);
/* The present evaluation is that of measured time t; times are told in turn, once or more. */
int map_terms_measured(struct map *map, int t, struct err *err);
void map_terms_free(struct map_terms *terms); /* accepts a zeroed struct */
/* W *= factor. */
void map_decay(struct map *map, double factor);
/* Its state after an evaluation. Read: x are the rows of that evaluation. */
int map_archive(struct map *map, struct rows x, struct archive *archive, struct err *err);
/* `initial` of a map that remembers its start. */
int map_start(const struct map *map, int use, bool forward, struct rows in, struct rows out,
              struct err *err);
/* For kinds that learn from the rows themselves: copies of x and y, or what map_hold says. */
int map_keep_rows(struct map *map, int k, struct rows y, struct err *err);
void map_products_rows(const struct map *map, struct rows y, double *X, double *Y);
