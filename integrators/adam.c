/* Adam and AdamW, of G = (1/P) sum_mu Delta_mu y_mu x_mu^T, minus the gradient of the loss in units
 * where it is of order one at every width (kernels/maps/change.h), with rate eta0 s and eps times
 * the multipliers of each parameter (docs/theory/parameterizations.md). AdamW decays weights first.
 */
#include "integrators/integrator.h"

static struct entry_rule rule(const struct optimizer_step *step) {
    const struct training *training = step->training;
    double steps = step->t + 1;
    return (struct entry_rule){
        .form = training->adam.eps_place == ADAM_EPS_INSIDE ? ENTRY_ADAM_INSIDE : ENTRY_ADAM,
        .beta1 = training->adam.beta1,
        .beta2 = training->adam.beta2,
        .rate = optimizer_rate(step),
        .eps = optimizer_eps(step),
        .unbias1 = 1 / (1 - pow(training->adam.beta1, steps)),
        .unbias2 = 1 / (1 - pow(training->adam.beta2, steps))};
}

/* The edge is that of momentum beta1 at the rate (1 - beta1) rate, the preconditioner held fixed
 * (Cohen et al. 2022, Adaptive gradient methods at the edge of stability), with the decay as in
 * momentum.c. */
static double edge(const struct training *training, double decay) {
    return (2 - decay) * (1 + training->adam.beta1) / (1 - training->adam.beta1);
}

CHOICE(optimizer, adam,
       "a step of each entry by m/sqrt(v), m and v the running means of its gradient and "
       "of its square",
       "beta1 beta2 eps adam_eps adam_read_in", .rule = rule, .edge = edge, .memories = 2);

CHOICE(optimizer, adamw, "adam with decoupled weight decay",
       "beta1 beta2 eps adam_eps adam_read_in weight_decay", .rule = rule, .edge = edge,
       .memories = 2);
