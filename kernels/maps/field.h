/* The field map: a random matrix as classical mean-field theory sees it, through two-time kernels.
 *
 * Given kernels Phi, G and responses A, B on a window of T evaluations, W is replaced by Gaussian
 * fields and memory terms (Bordelon & Pehlevan 2022; numbers fg fr of map.h):
 *
 *     W x_t   = u_t + sum_{s<t}  A(t,s) y_s + sum_{s<t} c_s Phi(t,s) y_s       u ~ GP(0, fg^2 Phi)
 *     W^T y_t = v_t + sum_{s<=t} B(t,s) x_s + sum_{s<t} c_s G(t,s) x_s         v ~ GP(0, fr^2 G)
 *     A = fr^2 <dx_t/dv_s>       B = fg^2 <dy_t/du_s>
 *
 * with sums over input indices too, and c_s the coefficients of learn (map_terms), which momentum
 * and decay move. With a part k_t of W(0) left at t the fields are k_t u, k_t v, and A and B, which
 * are measured by shifts of these, have a factor k_t k_s. A first pass of the network
 * program over the window measures new kernels Phi = <x x>, G = <y y>. Two more, with the averages
 * of the first one (tape.h), measure responses: all v shifted by epsilon times probes of +-1,
 * then all u, give <x' - x, probe_s>/epsilon and <y' - y, probe_s>/epsilon. (Not both at once: what
 * x owes to u is noise in A, and larger than what it owes to v.) Probes are Walsh functions of the
 * site, distinct for each row of each field of a population. Half of the sites are shifted up, half
 * down: a central difference, with bias of order epsilon^2, that sees the jump of a mask or of a
 * derivative when epsilon is not too small.
 *
 * An evaluation may end after its forward pass, as predictions do: its y is 0, nothing
 * responds to its fields, and nothing is learned from it, but x has its kernel and its A like any
 * other. Normals are drawn once and serve all sweeps, through the causal factors of the kernels. */
#pragma once

#include "kernels/maps/map.h"
#include "kernels/base/base.h"

/* Two-time matrices K[(t,mu)][(s,nu)] on the flat indices t P + mu and s Q + nu: kernels (P = Q,
 * symmetric) and responses (causal), and the causal factor of a kernel. */

struct twotime {
    int T, P, Q;
    double *value; /* [T P][T Q]; NULL: zero, of any shape */
};

int twotime_init(struct twotime *K, int T, int P, int Q, struct err *err); /* zero */
void twotime_free(struct twotime *K); /* accepts a zeroed struct; idempotent */
/* to <- from, of the same P and Q and no more times; later ones are left. */
void twotime_copy(const struct twotime *from, const struct twotime *to);
size_t twotime_size(const struct twotime *K);
/* Row (t, mu). */
double *twotime_row(const struct twotime *K, int t, int mu);

/* L [T P][T P], lower triangular (zeros above), K = L L^T: row (t, mu) depends on times <= t only.
 * A pivot below jitter * K_aa is raised to it and counted in *floored; a row with a negative one
 * (a mixture of sweeps need not be a kernel) is scaled first so that its norm is K_aa. Where K_aa =
 * 0 row and column of L are 0. K needs only its lower half. */
int twotime_cholesky(const struct twotime *K, double jitter, double *L, int *floored,
                     struct err *err);

/* Index 0: x, its kernel Phi, its response A to v, on the source sites, where v lives.
 * Index 1: y, its kernel G, its response B to u, on the target sites, where u lives. */
enum field_pass { FIELD_PROBE_V = 0, FIELD_PROBE_U = 1, FIELD_MEASURE };

struct field_kernels {
    struct twotime K[2], R[2]; /* Phi, G; A, B (without a value where not needed) */
};

struct field_settings {
    const struct backend *backend; /* of the net, without its tape */
    int T, P; /* forward passes, whether or not a backward one follows; inputs */
    double jitter, epsilon;
    int copies; /* of each kernel and response, for field_bytes */
};

struct field_side {
    struct population *pool;      /* where its normals live: the units of groups that share them */
    bool shared;                  /* whether these are units and no sites */
    int count;                    /* rows of an evaluation: P, or 1 for some y */
    double amplitude;             /* of the field that lives here: fr, fg */
    double response;              /* fr^2, fg^2 */
    struct array window, shifted; /* rows x or y, of the first pass and of a pass with probes */
    struct array normals, probes; /* of the field */
    struct array work;            /* over the pool */
    double *L;                    /* causal factor of the given K of this side */
};

struct field {
    struct field_settings settings;
    struct field_side side[2];
    struct field_kernels given, measured;
    enum field_pass pass;
    struct map_terms terms; /* of this pass; numbers of the whole window */
    int floored;            /* pivots raised in L */
    bool *answers;          /* [T] whether an evaluation has had a backward pass */
};

static inline struct field *field_of(const struct map *map) {
    assert(map->kind == &map_field);
    return map->state;
}

/* Bytes of a declared map on such a window. */
double field_bytes(const struct map *map, const struct field_settings *settings);
/* A[t][.][s][.] (forward) or B of the given ones; NULL: not a field map. */
const struct twotime *field_response(const struct map *map, bool forward);
void field_kernels_free(struct field_kernels *kernels);
/* Normals and probes of one more evaluation: for all maps of a net, then the next evaluation. */
int field_draw(struct map *map, struct err *err);
/* Begins a pass: factors the given kernels before the first, forgets what was learned. */
int field_begin(struct map *map, enum field_pass pass, struct err *err);
/* The largest diagonal entry of a kernel at the present evaluation. */
double field_largest(const struct map *map);
/* Ends it, of which `reached` evaluations count: what is measured of later ones is zero. */
void field_end(struct map *map, int reached);
