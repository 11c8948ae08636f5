/* A finite network beside its oracle: the same network in plain loops (tests/oracles), which starts
 * from the same weights, so that every number of the two can be compared to round-off, step by
 * step.
 *
 * Who adds a network writes one COUPLE_ORACLE (couple_resnet.c is the shortest) and enters
 * it in couple_list. It says how the oracle is made from the configuration of a run, where the
 * matrices of the net lie in the blocks of the oracle, and what else of the two is compared. The
 * test of the network then needs tables of settings alone, and tests/test_optimizer.c and
 * tests/test_outputs.c judge the network by the settings that stand here. */
#ifndef TESTS_SUPPORT_COUPLE_H
#define TESTS_SUPPORT_COUPLE_H

#include "tests/support/oracles.h"

struct couple {
    struct run run; /* the caller configures it */
    struct net net;
    const struct couple_oracle *kind;
    void *oracle;
    struct oracle_optimizer *optimizer; /* the blocks of the oracle and its step */
    double *X, *y, *f0;                 /* of the oracle; X NULL: it took the inputs itself */
    bool *centre, *hold_mask;           /* of the oracle, or NULL */
    double *B;                          /* of the inputs: X/sqrt(D) = A B, [K][D] */
    char what[256];                     /* for messages */
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
enum { COUPLE_PARTS = 16 }; /* of a block, at most */

struct couple_oracle {
    const char *model; /* of the network */
    const char *const
        *settings;    /* lines of [network] for the tests of all networks; NULL ends them */
    bool coordinates; /* its read-in is [K][N] over coordinates of the inputs, not [N][D] */
    /* Sets oracle, optimizer, f0, y and X, and centre and hold_mask where the oracle has them, from
     * p->run and p->net; the weights and the data follow by themselves. */
    void (*make)(struct couple *p);
    void (*free)(void *oracle);
    double (*forward)(void *oracle); /* returns the loss */
    void (*backward)(void *oracle);
    /* What is to be set in the oracle at step t, e.g. noise that is drawn; NULL: nothing. */
    void (*at)(struct couple *p, int t);
    /* Describes a block, which is told by where its weights begin, and returns the number of its
     * parts; several parts at one place add up. It is not asked for the read-out, which is w, nor
     * for a read-in [N][D]. */
    int (*parts)(const struct couple *p, const double *w, struct couple_part *part);
    int (*kernels)(const struct couple *p); /* how many there are; NULL: it is not asked */
    /* Entry a, b of the kernel of this name. */
    double (*kernel)(const struct couple *p, const char *name, int a, int b);
    bool absolute; /* kernels above one are compared to the same tolerance, not relative to them */
    /* Compares what else the net measures; NULL: nothing. */
    void (*more)(const struct couple *p, int t, double tolerance);
};

extern const struct couple_oracle couple_dense, couple_regime1, couple_regime2, couple_regime3,
    couple_residual, couple_resnet, couple_stack, couple_transformer;
extern const struct couple_oracle *const couple_list[]; /* NULL at the end */

/* The functions forward, backward and release of an oracle whose functions begin with NAME. */
#define COUPLE_FUNCTIONS(NAME)                                                                     \
    static double forward(void *oracle) {                                                          \
        return NAME##_forward(oracle);                                                             \
    }                                                                                              \
    static void backward(void *oracle) {                                                           \
        NAME##_backward(oracle);                                                                   \
    }                                                                                              \
    static void release(void *oracle) {                                                            \
        NAME##_free(oracle);                                                                       \
    }
/* The oracle of a network, couple_MODEL: its file has settings and the functions make, parts and
 * kernel, and those of COUPLE_FUNCTIONS; the further members that it has follow here. */
#define COUPLE_ORACLE(MODEL, ...)                                                                  \
    const struct couple_oracle couple_##MODEL = {.model = #MODEL,                                  \
                                                 .settings = settings,                             \
                                                 .make = make,                                     \
                                                 .free = release,                                  \
                                                 .forward = forward,                               \
                                                 .backward = backward,                             \
                                                 .parts = parts,                                   \
                                                 .kernel = kernel,                                 \
                                                 __VA_ARGS__}
/* Settings of the run in the words of the oracles. */
enum oracle_gate couple_gate(const struct couple *p);
enum oracle_loss couple_loss(const struct couple *p);
/* A part whose entries lie in order. */
struct couple_part couple_part(double factor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Gives a part the axes of the oracle's [M][n][m]: matrices of M experts, which the net has below
 * one another, or side by side where they lead out of the experts; or one that all of them share.
 * They are compared as they act. */
void couple_experts(struct couple_part *part, int M, int n, int m, bool out, bool shared);

/* A net of width N with this seed of the run that p->run is, and its oracle with the weights of the
 * net, centred if the run is; `what` is for messages (as by printf). */
void couple_open(struct couple *p, int N, int seed, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
void couple_close(struct couple *p);
/* The weights of the oracle into the net, as far as the net can have them; the oracle then has what
 * the net has. */
void couple_put(struct couple *p);

/* Gradient descent of both: compares loss, outputs, kernels, what else there is and, after each
 * step, all weights. A tolerance is relative to numbers above one, but for loss and outputs. */
void couple_train(struct couple *p, int steps, double tolerance);
/* One step of both with the optimizer of the run, from an evaluated net: compares loss, outputs and
 * the norm of the gradient, which it returns; and the weights after it unless `weights` is 0. */
double couple_advance(struct couple *p, int t, double tolerance, double weights);
/* Judges the oracle itself by differences of its loss (oracles_judge), the masks of its experts
 * held where they are. */
void couple_judge(struct couple *p, int stride);

#endif
