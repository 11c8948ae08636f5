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

struct schedule_settings { /* schedule.h */
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
