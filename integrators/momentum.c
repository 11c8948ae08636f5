/* Gradient descent with momentum: V = momentum V + K, W += s V, with K the step of plain gradient
 * descent at the rate eta0 and s the factor of the schedule. */
#include "integrators/optimizer.h"

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

const struct optimizer optimizer_momentum = {
    .choice = {.name = "momentum",
               .doc =
                   "a step down a sum of gradients that decays by the factor momentum in each step",
               .keys = "momentum"},
    .memories = 1,
    .move = move,
    .move_host = move_host,
};
