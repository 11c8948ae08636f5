/* A finite network beside its oracle: the same network on a tape (tests/oracles), which starts from
 * the same weights, so that every number of the two can be compared to round-off, step by step.
 *
 * Who adds a network writes one couple_oracle (couple_resnet.c is the shortest) and enters it in
 * couple_list. It says which oracle the configuration of a run asks for, where the matrices of the
 * net lie in its blocks, and what else of the two is compared. The test of the network then needs
 * tables of settings alone, and tests/test_optimizer.c and tests/test_outputs.c judge the network
 * by the settings that stand here. */
#pragma once

#include "tests/oracles/oracle.h"
#include "tests/support/support.h"

struct couple {
    struct run run; /* the caller configures it */
    struct net net;
    const struct couple_oracle *kind;
    struct oracle *oracle;
    double *B;      /* of the inputs: X/sqrt(D) = A B, [K][D] */
    int numbers;    /* series of numbers that were compared at the last time */
    char what[256]; /* for messages */
};

/* Where a matrix (or the host numbers) of the net lies in a block of the oracle: the weight of the
 * oracle is `factor` times the entry. Both are numbered in the same order unless axes say where the
 * entries lie: entry i, j, k at first + the sum of i, j, k times `oracle` in the block, and at the
 * sum of i, j, k times `net` in the matrix. */
struct couple_part {
    char name[32];
    double factor;
    bool acts; /* the weight is factor times s_f times the entry: the matrix as it acts */
    int first;
    struct couple_axis {
        int count, oracle, net;
    } axis[3];
};
enum { COUPLE_PARTS = 64 }; /* of a block, at most */

struct couple_oracle {
    const char *model; /* of the network */
    const char *const
        *settings;    /* lines of [network] for the tests of all networks; NULL ends them */
    bool coordinates; /* its read-in is [K][N] over coordinates of the inputs, not [N][D] */
    /* Adds to `of`, which has what all networks share, what p->run and p->net say of this one. */
    void (*settle)(const struct couple *p, struct oracle *of);
    /* Sets numbers of p->oracle that are neither weights nor data; NULL: there are none. */
    void (*fill)(struct couple *p);
    /* What is to be set in the oracle at step t, e.g. noise that is drawn; NULL: nothing. */
    void (*at)(struct couple *p, int t);
    /* Describes a block, and returns the number of its parts; several parts at one place add up. It
     * is not asked for the read-out, which is w, nor for a read-in [N][D]. */
    int (*parts)(const struct couple *p, int block, struct couple_part *part);
    int (*kernels)(const struct couple *p); /* how many there are; NULL: it is not asked */
    bool absolute; /* kernels above one are compared to the same tolerance, not relative to them */
    /* Compares what else the net measures; NULL: nothing. */
    void (*more)(const struct couple *p, int t, double tolerance);
};

extern const struct couple_oracle couple_dense, couple_regime1, couple_regime2, couple_regime3,
    couple_residual, couple_resnet, couple_stack, couple_transformer;
extern const struct couple_oracle *const couple_list[]; /* NULL at the end */

/* What oracles call an activation of the program. */
enum oracle_activation couple_activation(int function);
/* A part whose entries lie in order. */
struct couple_part couple_part(double factor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Part i of a block of matrices of so many entries, one after the other. */
struct couple_part couple_slice(struct couple_part part, int i, int entries);
/* Gives a part the axes of the oracle's [M][n][m]: matrices of M experts, which the net has below
 * one another, or side by side where they lead out of the experts; or one that all of them share.
 * They are compared as they act. */
void couple_experts(struct couple_part *part, int M, int n, int m, bool out, bool shared);

/* A net of width N with this seed of the run that p->run is, and its oracle with the weights of the
 * net, centred if the run is; `what` is for messages (as by printf). */
void couple_open(struct couple *p, int N, int seed, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
/* The same of an ini (as in support_run) with keys that are changed, first `base`, then `more`, of
 * which the messages are (each ends with NULL). */
void couple_start(struct couple *p, const char *ini, const char *const *base,
                  const char *const *more, int N);
void couple_close(struct couple *p);
/* The weights of the oracle into the net, as far as the net can have them; the oracle then has what
 * the net has. */
void couple_put(struct couple *p);

/* Gradient descent of both: compares loss, outputs, kernels, numbers of the same names, what else
 * there is and, after each step, all weights. A tolerance is relative to numbers above one, but for
 * loss and outputs. */
void couple_train(struct couple *p, int steps, double tolerance);
/* Such a pair over so many steps, to 1e-12: sums of fewer than 300 terms of order one have a
 * round-off below 300 eps = 7e-14, which four steps amplify by no more than the loss falls, 10. */
void couple_compare(const char *ini, const char *const *base, const char *const *more, int N,
                    int steps);
/* One step of both with the optimizer of the run, from an evaluated net: compares loss, outputs and
 * the norm of the gradient, which it returns; and the weights after it unless `weights` is 0. */
double couple_advance(struct couple *p, int t, double tolerance, double weights);
