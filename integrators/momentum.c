/* Gradient descent with momentum: V = momentum V + K, W += s V, with K the step of plain gradient
 * descent at the rate eta0 and s the factor of the schedule. Decay of weights is decoupled: it is
 * no part of V. */
#include "integrators/integrator.h"

static int move(const struct optimizer_step *step, struct change *change, struct array memory[2],
                struct err *err) {
    return change_momentum(change, step->training->momentum, step->schedule, memory, err);
}

static void move_host(const struct optimizer_step *step, int K, const double *gradient,
                      double *memory, double *numbers) {
    for (int k = 0; k < K; k++) {
        memory[k] = step->training->momentum * memory[k] + gradient[k];
        numbers[k] += step->schedule * memory[k];
    }
}

/* The largest curvature times rate at which x(t+1) = (k + mu - rate curvature) x(t) - mu k x(t-1),
 * with k = 1 - decay, has both roots within the unit circle. */
static double edge(const struct training *training, double decay) {
    return (2 - decay) * (1 + training->momentum);
}

CHOICE(optimizer, momentum,
       "a step down a sum of gradients that decays by the factor momentum in each step",
       "momentum weight_decay", .edge = edge, .memories = 1, .move = move, .move_host = move_host);
