/* How the parameters of a network move in time. An integrator acts on parameters (net_keep,
 * net_place), so it works for finite matrices and limit maps alike.
 *
 * Gradient flow is dW/dtau = the right-hand side of which gradient descent takes one step of size
 * eta0: tau counts the steps of gradient descent, eta0 is a rate. Measured times are tau = t dt.
 * With a schedule eta0 is replaced by eta(tau), at the time of each evaluation. */
#pragma once

#include "models/engine/net.h"

enum adam_eps { ADAM_EPS_OUTSIDE, ADAM_EPS_INSIDE };
enum adam_read_in { ADAM_READ_IN_ROOT_D, ADAM_READ_IN_1 };
enum muon { MUON_NEWTON_SCHULZ, MUON_EXACT };
enum muon_parts { MUON_EACH, MUON_TOGETHER };

struct adam_settings {
    int eps_place, read_in; /* enum adam_eps, enum adam_read_in */
    double beta1, beta2, eps;
};

struct muon_settings {
    int way, nesterov, experts, heads;      /* enum muon, bool, enum muon_parts twice */
    const struct optimizer *rest_optimizer; /* of what Muon leaves, and its rate */
    double rest_eta0;
    const char *rest; /* names of matrices that it leaves, too */
};

struct schedule_settings { /* of struct schedule */
    const struct schedule *kind;
    double warmup, steps, end, power, t0;
};

struct flow_settings { /* gradient flow (flow.c): measured times lie dt apart */
    int substeps;
    double dt, rtol, atol;
};

struct batch_settings {
    int size, order; /* size 0: all inputs at each step */
    uint64_t seed;   /* of the order */
};

/* Section [training]. */
struct training {
    const struct loss *loss;
    const struct integrator *integrator;
    const struct optimizer *optimizer;
    int steps;
    double eta0, gamma0, momentum;
    double weight_decay; /* omega; 0: nothing decays */
    double clip;         /* 0: none; integrator_clip */
    struct adam_settings adam;
    struct muon_settings muon;
    struct schedule_settings schedule;
    struct flow_settings flow;
    struct batch_settings batches;
};

struct integrator {
    struct choice choice; /* first: a key chooses among integrators */
    bool flow;            /* of gradient flow: nothing may act once a step */
    bool adaptive;        /* steps depend on what is computed */
    bool estimates;       /* adds the error of its fixed steps to net->place.step_error */
    int stages;           /* kept at once, and evaluations a step */
    /* From the evaluated time t to the evaluated time t + 1. y [P]: the targets. */
    int (*advance)(struct net *net, const struct training *training, const double *y,
                   struct err *err);
};
extern const struct choice *const integrator_list[];             /* NULL at the end */
extern const struct integrator integrator_gd, integrator_euler;  /* gd.c */
extern const struct integrator integrator_heun, integrator_bs32; /* flow.c */
#define FLOW_LEAST 1e-9 /* of dt: a step of bs32 below it ends the run */
extern const struct integrator integrator_optimizer; /* optimizer.c */
/* The one that `integrator` and `optimizer` choose. */
const struct integrator *integrator_of(const struct training *training);
extern const struct param_row training_rows[];
extern const size_t training_rows_count;

/* Clipping by global norm: where the norm of the gradient (net_gradient_norm) exceeds `clip`, the
 * gradient counts clip/norm times, for a step of gradient descent, and for what momentum and Adam
 * take in. *factor = min(1, clip/norm) of the last evaluation; 1 without clipping. */
int integrator_clip(const struct net *net, const struct training *training, double *factor,
                    struct err *err);
/* Evaluations of a run; bs32: if every step reaches the next measured time. */
double integrator_evaluations(const struct training *training);

/* Which inputs a step trains on. Step t takes the places t P, t P + 1, ... of the endless sequence
 * of epochs, each of them a permutation of the n inputs: the identity, or one that is a pure
 * function of order_seed and the epoch. A batch may hold the end of one epoch and the beginning of
 * the next. As long as steps x P <= n every input is used once (single pass). */

enum batch_order { BATCH_CYCLIC, BATCH_SHUFFLED };

struct batch {
    int inputs, size, order; /* n, P */
    uint64_t seed;
    long long epoch;  /* that `permutation` belongs to; -1: none */
    int *permutation; /* [n] */
};

/* P of a training set. */
int batch_size(const struct training *training, int inputs);
int batch_init(struct batch *batch, const struct training *training, int inputs, struct err *err);
void batch_free(struct batch *batch); /* accepts a zeroed struct; idempotent */
/* index [P] <- the inputs of step t. */
void batch_at(struct batch *batch, int t, int *index);

/* How the learning rate changes in the course of training: eta(tau) = eta0 schedule_factor(tau),
 * tau in steps of gradient descent, or the time of gradient flow. With w = warmup, e =
 * schedule_end, s = (tau - w)/schedule_steps, 1 at most:
 *
 *     warmup      tau/w                            before w: the first step has rate 0
 *     constant    1
 *     linear      1 - (1 - e) s
 *     cosine      e + (1 - e) (1 + cos(pi s))/2
 *     polynomial  e + (1 - e) (1 - s)^p            p = schedule_power
 *     power       (1 + (tau - w)/t0)^-p            t0 = schedule_t0
 *
 * schedule_steps = 0 ends with the run: s = 1 at the last measured time, which no step of gradient
 * descent begins at. These are the schedules of linear, cosine and inverse square root decay with
 * warmup (p = 1/2, t0 = w) that users of PyTorch know, step for step. */

/* One row for each schedule. */
struct schedule {
    struct choice choice; /* first: a key chooses among schedules */
    bool ends;            /* the rate falls to its end in a given time, and stays there */
    /* eta/eta0 at a time `past` after warmup; of a schedule that ends, `left` falls from 1 to 0. */
    double (*factor)(const struct training *training, double past, double left);
};
extern const struct choice *const schedule_list[]; /* NULL at the end */
extern const struct schedule schedule_constant, schedule_linear, schedule_cosine,
    schedule_polynomial, schedule_power;

/* tau >= 0. */
double schedule_factor(const struct training *training, double tau);
/* Whether the run ends before its warmup does, with a decay that waits for it. */
bool schedule_is_cut(const struct training *training);

/* Whether the rate at a time depends on how long the run is. */
bool schedule_follows_steps(const struct training *training);

/* What optimizers share: the list of rows (models/engine/optimizer.h), and the rate and eps of
 * those that move every entry by a rule. */

/* The rows there are, in the order of the key; the first is the default. */
#define OPTIMIZERS(OPTIMIZER)                                                                      \
    OPTIMIZER(gd)                                                                                  \
    OPTIMIZER(momentum)                                                                            \
    OPTIMIZER(adam)                                                                                \
    OPTIMIZER(adamw)                                                                               \
    OPTIMIZER(lion)                                                                                \
    OPTIMIZER(muon)
#define OPTIMIZER_ROW(name) extern const struct optimizer optimizer_##name;
OPTIMIZERS(OPTIMIZER_ROW)
#undef OPTIMIZER_ROW
extern const struct choice *const optimizer_rest_list[]; /* of rest_optimizer; NULL last */

/* Row k of the list, for loops over all optimizers; NULL behind the last. */
const struct optimizer *optimizer_row(size_t k);
/* How it moves a matrix: along its gradients ("matrix"), every entry by its own ("entry"), or by a
 * function of the whole gradient ("whole"). */
const char *optimizer_class(const struct optimizer *optimizer);
/* Appends to note [TEXT_NOTE] the names of the optimizers by entry, joined by "or": the remedy in
 * messages about [eps]. */
void optimizer_name_by_entry(char *note);

/* rate and eps of the parameter at this step: eta0 schedule adam_rate and eps adam_eps. */
double optimizer_rate(const struct optimizer_step *step);
double optimizer_eps(const struct optimizer_step *step);
