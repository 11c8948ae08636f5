/* Lion, with decoupled weight decay: of the gradient G of adam.c and one decaying mean m of it,
 *
 *     u = beta1 m + (1 - beta1) G,    m <- beta2 m + (1 - beta2) G,    W += rate u/(|u| + eps)
 *
 * At eps -> 0 each entry moves by the sign of u, as published. eps, which is of the size of a
 * gradient at any width as Adam's is, makes the step continuous, so that the limit exists and is
 * approached smoothly. beta1 = beta2 = 0 is the descent along signs. */
#include "integrators/integrator.h"

static struct entry_rule rule(const struct optimizer_step *step) {
    return (struct entry_rule){.form = ENTRY_LION,
                               .beta1 = step->training->adam.beta1,
                               .beta2 = step->training->adam.beta2,
                               .rate = optimizer_rate(step),
                               .eps = optimizer_eps(step)};
}

CHOICE(optimizer, lion,
       "a step of each entry by the sign of a running mean of its gradient, smoothed "
       "by eps, with decoupled weight decay",
       "beta1 beta2 eps adam_read_in weight_decay", .rule = rule, .memories = 1);
