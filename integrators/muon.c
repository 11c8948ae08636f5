/* Muon for matrices between two populations (kernels/maps/polar.h), at the rate eta0 s times the
 * multiplier muon_rate of each; read-in, read-out, looks, biases and the matrices that the key
 * `rest` names are moved by rest_optimizer at rest_eta0 (optimizer.c). */
#include "integrators/integrator.h"
#include "kernels/maps/polar.h"

static struct polar_rule rule_of(const struct optimizer_step *step) {
    const struct training *training = step->training;
    return (struct polar_rule){.stop = step->stop,
                               .momentum = training->momentum,
                               .rate = training->eta0 * step->schedule * step->parameter->muon_rate,
                               .nesterov = training->muon.nesterov,
                               .exact = training->muon.way == MUON_EXACT};
}

static int move(const struct optimizer_step *step, struct change *change, struct array memory[2],
                struct err *err) {
    struct polar_rule rule = rule_of(step);
    return polar_change(change, &rule, memory, err);
}

static int move_parts(const struct optimizer_step *step, struct polar_part *part, int parts,
                      bool stacked, struct err *err) {
    struct polar_rule rule = rule_of(step);
    return polar_change_parts(part, parts, stacked, &rule, err);
}

CHOICE(optimizer, muon,
       "a step along the nearest orthogonal matrix to a sum of gradients, for each "
       "matrix with two infinite sides; the rest by rest_optimizer",
       "momentum muon nesterov muon_experts muon_heads rest_optimizer rest_eta0 rest weight_decay",
       .matrices = true, .memories = 1, .move = move, .move_parts = move_parts);
