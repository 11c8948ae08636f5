/* Classical dynamical mean-field theory: a fixed-point iteration over two-time kernels and
 * responses, on the same network programs as the march, through field maps (kernels/maps/field.h).
 *
 * A sweep runs the program over the whole window with fields drawn from the kernels of the sweep
 * before, measures new kernels, runs it twice more with probes for the responses, and mixes:
 *
 *     K <- K + damping (K_new - K)           anderson = m: of the last m + 1 sweeps, the affine
 *                                            combination whose changes cancel best
 *
 * until no kernel changes by more than fp_tolerance (Frobenius norm, relative to the new kernel).
 * The equations are causal, and a sweep carries correct kernels through one map one way: undamped
 * sweeps with common random numbers end exactly after 2 x (wide maps in series) x T sweeps.
 * Cost of a sweep: about 12 S (P T)^2 flops per map; memory 8 S P T + 8 (P T)^2 numbers. */
#pragma once

#include "integrators/integrator.h"

enum fixed_point_draws { FIXED_POINT_COMMON, FIXED_POINT_FRESH };

/* The keys of [solver] with method = fixed_point. */
struct fixed_point_settings {
    double damping, tolerance, jitter, probe;
    int anderson, max_sweeps, draws;
    double bytes_left; /* for windows that become longer than at first; 0: any number */
};

/* A kernel or response of the iteration; change is that of the last sweep. */
#define FIXED_POINT_NAME 32
struct fixed_point_kernel {
    char name[FIXED_POINT_NAME]; /* Phi_W2, A_W2, ... */
    struct twotime *given, *measured;
    double change;
};

struct fixed_point_state {
    int sweep, count, floored, reached;
    const struct fixed_point_kernel *kernel;
};

/* What the caller does meanwhile; an error ends the iteration. */
struct fixed_point_calls {
    void *context;
    int (*sweep)(void *context, const struct fixed_point_state *state, struct err *err);
    /* of the last pass, after convergence or max_sweeps, at each measured time, where it looks at
     * the test inputs that are due as sweeps have done (setup.measure.test_every); the kernels the
     * pass is made with are field_of(map)->given */
    int (*measure)(void *context, struct net *net, int t, struct err *err);
    /* NULL, or once, whatever came before: behind it the net and the backend of its arrays are no
     * more, so that what measure has kept of them must go */
    void (*end)(void *context);
};

/* setup: of a limit. Without convergence CODE_NUMERICAL, after all calls. */
int fixed_point_run(const struct net_setup *setup, const struct training *training, const double *y,
                    const struct fixed_point_settings *settings,
                    const struct fixed_point_calls *calls, struct err *err);
/* The names of the kernels of such an iteration, in their order; *names is freed by the caller. */
int fixed_point_names(const struct net_setup *setup, char (**names)[FIXED_POINT_NAME], int *count,
                      struct err *err);
/* Bytes that it needs, and an observer that keeps the rows of T times of each kernel. */
int fixed_point_bytes(const struct net_setup *setup, const struct training *training,
                      const struct fixed_point_settings *settings, int T, double *bytes,
                      struct err *err);
/* The shift of the probes: settings->probe, or one that suits the network. */
double fixed_point_probe(const struct network *network, double probe);

/* Mixing of fixed-point iterates (Anderson 1965; type II, in the form of Walker & Ni 2011).
 *
 * With x_k the kernels, F_k = G(x_k) - x_k their changes in sweep k, and d the damping:
 *
 *     x_k+1 = x_k + d F_k - sum_j gamma_j (dx_j + d dF_j)
 *     gamma = argmin |F_k - sum_j gamma_j dF_j|
 *
 * once all changes are below 0.1, over the last `depth` differences dx_j = x_j+1 - x_j, dF_j =
 * F_j+1 - F_j; depth 0: damping alone. Each kernel counts with the inverse of its norm. */

#define ANDERSON_DEPTH 16

struct anderson {
    int depth, met, pushed; /* differences wanted; iterates met, differences pushed */
    double damping;
    size_t size;            /* numbers of an iterate */
    double *x, *F, *weight; /* [size], of the sweep before; weight of now */
    double *dx[ANDERSON_DEPTH], *dF[ANDERSON_DEPTH]; /* a ring: the newest is pushed - 1 */
};

/* given <- the next iterate. */
int anderson_mix(struct anderson *anderson, const struct fixed_point_kernel *kernel, int count,
                 struct err *err);
void anderson_free(struct anderson *anderson);
