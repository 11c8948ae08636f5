/* A population: the sites of one kind (neurons of a layer, experts, units of experts), their pool
 * of normals, and one orthonormal basis of everything drawn or met on them.
 *
 * In a finite network a population of size n has n sites. In the limit its size is nominally
 * infinite (POPULATION_INFINITE times its size relative to N; a power of two, so that ratios of
 * sizes are exact and what vanishes with the width can be told from what does not) and it is
 * represented by S Monte Carlo sites.
 *
 * Matched normals (docs/method.md, section 2, rule 1): each new normal is made orthonormal, as a
 * site average, to every earlier normal of the population, whichever map drew it, and to every
 * basis vector that lives on it. Moments are then exact and sampling noise falls several fold. Once
 * rank and pool fill POPULATION_ROOM of the sites, a new normal is only made orthogonal to the
 * basis it must be conditioned on (`opposite`): that part is correctness, the rest was variance
 * reduction. Such draws are counted. Matching changes the bias of order 1/sites, which two halves
 * take off the whole only where all three match the same draws. Where groups share the normals of
 * their units, <x tile(e)> = <E_i[x] e>: the mean over groups takes the place of x. */
#pragma once

#include "kernels/archive.h"
#include "kernels/maps/basis.h"
#include "kernels/draws/sobol.h"

#define POPULATION_INFINITE 0x1p400
#define POPULATION_ROOM 0.8       /* fallback beyond this share of the sites */
#define POPULATION_RANK_LIMIT 0.9 /* error beyond it, in populations of more than ... */
#define POPULATION_SMALL 256      /* ... sites; smaller ones simply become finite networks */

/* How the normals of a population are drawn. */
struct population_draws {
    bool matched; /* limit, and thin matrices of networks with balanced draws */
    /* Sites are mirror images two by two: normals of forward maps are equal in a pair, those of
     * backward maps opposite. For units of independent experts: <e_a g_j>, e_a forward and g_j
     * linear in backward normals, is then zero as in the limit, instead of noise that the square in
     * a gradient kernel makes a bias. */
    bool mirrored;
    /* What backward maps draw here is conditioned on `opposite` and matched with nothing else: for
     * limits whose selections begin with fluctuations, which are averages of one row of a forward
     * pass and one of a backward pass (models/language/ties.c). */
    bool loose;
    bool nodes;         /* sites are nodes of a rule of the model's, not drawn */
    bool sobol;         /* matched normals of the pool begin as scrambled Sobol points (sobol.h) */
    int half_number;    /* 0: the whole; 1, 2: the sites are this half of twice as many */
    bool beside_halves; /* the whole has room where its halves have (nodes have no halves) */
    bool drawn;         /* some map or thin matrix draws normals here (set before the first step) */
    struct rng_stream stream;
    struct sobol points[2]; /* made for the first draw; the second of sites beside their halves */
};

/* An orthonormal basis of all that a population has drawn or met: new normals are matched to it. */
struct population_span {
    struct array rows;    /* of all normals and basis vectors, but for those ... */
    double *loss;         /* NULL, or [sites] the account of `rows` for basis_residual */
    struct array waiting; /* ... that enter it with the next normals, in one pass over it */
    int taken;            /* rows of `waiting` that have; 0 outside of a prediction */
    struct array work;    /* for basis_residual */
    int judged;           /* on a device, rows behind these may be zero, and leave with a settle */
    int behind;           /* of them, those that population_put_back leaves */
    bool full;            /* something found no room: from then on nothing enters the span */
    bool exhausted;       /* population_check_rank has refused a basis */
    int unmatched;        /* draws that were not matched for want of room */
};

struct population {
    char name[24];
    const struct backend *backend;
    double size;                 /* n of the network; nominal in the limit */
    size_t sites;                /* S */
    int group;                   /* units per site of the parent population, else 1 */
    const struct population *of; /* NULL, or whose sites have these units: `group` each */
    double cotangent_scale;      /* cotangents here are this times those of the theory page; 0: 1 */
    /* NULL, or the units of a group (as many sites as a group has): normals are theirs, the same
     * for every group. For the pairs (i, j) of independent experts i, where only averages over j at
     * fixed i, and averages of these over i, enter the limit. */
    struct population *units;
    struct population_draws draws;
    struct population_span span; /* population_init begins it */
    uint32_t probes;             /* handed out so far */
    const char *label;           /* NULL, or what its author calls it; it is never freed */
};

int population_init(struct population *population,
                    struct err *err); /* all fields but span and probes are set */
/* An array over its sites, without rows or memory: what its rows would take is known. */
static inline struct array population_array(const struct population *population) {
    return (struct array){population->backend, .sites = population->sites,
                          .group = population->group};
}
/* The bytes of so many rows over its sites, on this rank. */
static inline double population_bytes(const struct population *population, int rows) {
    struct array array = population_array(population);
    return (double)array_bytes(&array, rows);
}
/* Bytes of rows that were appended one by one (array_grown_bytes), and below of rows that have no
 * companions, as those of bases. */
static inline double population_grown_bytes(const struct population *population, double rows) {
    struct array array = population_array(population);
    return array_grown_bytes(&array, rows);
}
static inline double population_main_bytes(const struct population *population, double rows) {
    struct array array = population_array(population);
    array.backend = backend_main(array.backend);
    return array_grown_bytes(&array, rows);
}
void population_free(struct population *population); /* idempotent */

/* k = out.count fresh normals into rows `out`, conditioned on the orthonormal rows `opposite`
 * (count 0: none). Matched: exactly orthonormal, else iid. */
int population_fresh(struct population *population, struct rows opposite, struct rows out,
                     struct err *err);
/* A backward map draws so: its normals are mirrored as the sites are, or loose. */
int population_fresh_back(struct population *population, struct rows opposite, struct rows out,
                          struct err *err);
/* Adds what is new of orthonormal rows to the span, before normals are drawn again. Nothing without
 * matching or out of room. */
int population_absorb(struct population *population, struct rows rows, struct err *err);
/* Adds it now. */
int population_settle(struct population *population, struct err *err);
/* For inputs that must leave no trace: after population_set_aside draws come from a stream of their
 * own, number `draw` onwards, and population_put_back undoes all that has happened since. */
struct population_aside {
    struct rng_stream stream;
    int waiting, taken, unmatched;
    bool full;
};
void population_set_aside(struct population *population, uint32_t draw,
                          struct population_aside *mark);
void population_put_back(struct population *population, const struct population_aside *mark);
/* k more rows of signs [k][sites], +-1: Walsh functions of scrambled sites, orthogonal to all
 * before if the number of sites is a power of two above theirs; nearly so otherwise. */
void population_probes(struct population *population, int k, double *signs);
/* What draws and bases have left here. */
int population_archive(struct population *population, struct archive *archive, struct err *err);
/* Error if a basis of `rank` rows is too long for the sites (limit only). `who` names the basis. */
int population_check_rank(struct population *population, int rank, const char *who,
                          struct err *err);
