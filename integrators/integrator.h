/* How the parameters of a network move in time. An integrator acts on parameters (net_learn), so it
 * works for finite matrices and limit maps alike. */
#ifndef INTEGRATORS_INTEGRATOR_H
#define INTEGRATORS_INTEGRATOR_H

#include "models/model.h"

struct integrator {
    const char *name, *doc;
    /* From the evaluated time t to t + 1; the next call is net_evaluate. */
    int (*advance)(struct net *net, double eta0, struct err *err);
};

extern const struct integrator integrator_gd;

/* Section [training]. */
struct training {
    int steps, loss;
    double eta0, gamma0;
};
extern const struct param_row training_rows[];
extern const size_t training_rows_count;

#endif
