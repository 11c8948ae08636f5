/* Lion, with decoupled weight decay: of the gradient G of adam.c and one decaying mean m of it,
 *
 *     u = beta1 m + (1 - beta1) G,    m <- beta2 m + (1 - beta2) G,    W += rate u/(|u| + eps)
 *
 * At eps -> 0 each entry moves by the sign of u, as published. eps, which is of the size of a
 * gradient at any width as Adam's is, makes the step continuous, so that the limit exists and is
 * approached smoothly. beta1 = beta2 = 0 is the descent along signs. */
#include "integrators/optimizer.h"

static struct entry_rule rule_of(const struct optimizer_step *step) {
    return (struct entry_rule){.form = ENTRY_LION,
                               .beta1 = step->training->beta1,
                               .beta2 = step->training->beta2,
                               .rate = optimizer_rate(step),
                               .eps = optimizer_eps(step)};
}

static int move(const struct optimizer_step *step, struct change *change, struct array memory[2],
                struct err *err) {
    return change_entries(change, rule_of(step), memory, 1, err);
}

static void move_host(const struct optimizer_step *step, int K, const double *gradient,
                      double *memory, double *numbers) {
    struct entry_rule rule = rule_of(step);
    optimizer_move_numbers(&rule, K, gradient, memory, numbers);
}

const struct optimizer optimizer_lion = {
    .choice = {.name = "lion",
               .doc = "each entry by the sign of a decaying mean of its gradient, smoothed by eps, "
                      "with decoupled weight decay",
               .keys = "beta1 beta2 eps adam_read_in weight_decay"},
    .by_entry = true,
    .decays = true,
    .memories = 1,
    .gradient_rate = optimizer_unscaled,
    .move = move,
    .move_host = move_host,
};
