/* How the parameters of a network move in time. An integrator acts on parameters (net_learn), so it
 * works for finite matrices and limit maps alike. */
#ifndef INTEGRATORS_INTEGRATOR_H
#define INTEGRATORS_INTEGRATOR_H

#include "models/model.h"

/* Section [training]. */
struct training {
    int steps, loss;
    double eta0, gamma0;
};

struct integrator {
    /* From the evaluated time t to t + 1; the next call is net_evaluate. y [P]: the targets, for
     * schemes that evaluate in between. */
    int (*advance)(struct net *net, const struct training *training, const double *y,
                   struct err *err);
};
extern const struct integrator integrator_gd; /* full-batch gradient descent */
extern const struct param_row training_rows[];
extern const size_t training_rows_count;

#endif
