/* The optimizers that a network can be trained with: one row for each.
 *
 * An optimizer turns the gradient of a step into the change of every parameter. Whoever adds one
 * writes its row, with the rule by which it moves single entries, or the functions that move all of
 * them, in a file in integrators/ and enters it in OPTIMIZERS (integrators/integrator.h): the
 * key [training] optimizer, the keys that it reads, the help, the estimate of memory, the kind of a
 * limit's maps, checkpoints and the tests follow from the row.
 *
 * A network asks an optimizer for its properties alone, never which one it is. */
#pragma once

#include "kernels/base/key.h"
#include "kernels/maps/change.h"

struct parameter;
struct polar_part;
struct training; /* integrators/integrator.h */

/* One step of one parameter: its settings, the factor of the schedule at this step, and the number
 * of steps before it. */
struct optimizer_step {
    const struct training *training;
    const struct parameter *parameter;
    const struct stop *stop; /* ends a step that takes long */
    double schedule;
    int t;
};

struct optimizer {
    struct choice choice; /* first: a key chooses among optimizers */
    /* The change is the gradient times a rate, and nothing is kept between steps: limit maps keep
     * the terms of the sum, and gradient flow exists. Such a row has none of these functions. */
    bool plain;
    /* It moves matrices between populations alone, each as a whole; all else is moved by another
     * optimizer, the rest of the settings (net_optimizer). */
    bool matrices;
    /* NULL (not known), or: rate times the curvature along a direction below which steps along it
     * do not grow, the curvature being that in units where this optimizer has one rate for all
     * entries (solver/measure/sharpness.h). decay: what this step takes off the weights, schedule
     * weight_decay. */
    double (*edge)(const struct training *training, double decay);
    int memories; /* numbers that it keeps for each entry from step to step: 0, 1 or 2 */
    /* Every entry moves by this nonlinear function of its own gradients, those of
     * (1/P) sum_mu Delta_mu y_mu x_mu^T: limit maps then hold the learned part entry by entry, the
     * rate is adam_rate and not rate (struct weight), and [eps] multiplies eps. The functions below
     * are not asked. NULL: a limit keeps rows, of linear combinations of which a step consists, and
     * the classical fixed point exists, whose maps move as K numbers on the host do. */
    struct entry_rule (*rule)(const struct optimizer_step *step);
    /* Moves entries along a change, of the gradient times eta0 gamma0 rate (matrices: 1), and uses
     * it up (kernels/maps/change.h). memory [2]: zeroed before the first step. */
    int (*move)(const struct optimizer_step *step, struct change *change, struct array memory[2],
                struct err *err);
    /* Moves a matrix that consists of several maps (kernels/maps/polar.h); step->parameter is one
     * of them. NULL where it does not move matrices. */
    int (*move_parts)(const struct optimizer_step *step, struct polar_part *part, int parts,
                      bool stacked, struct err *err);
    /* Moves K numbers on the host: numbers += ... of gradient [K] and memory [2][K]. NULL
     * where it moves matrices alone. */
    void (*move_host)(const struct optimizer_step *step, int K, const double *gradient,
                      double *memory, double *numbers);
};

/* The optimizers there are; NULL at the end. The first is the default. */
extern const struct choice *const optimizer_list[];

/* A net without an optimizer learns by plain gradient descent. */
static inline bool optimizer_is_plain(const struct optimizer *optimizer) {
    return !optimizer || optimizer->plain;
}
static inline bool optimizer_by_entry(const struct optimizer *optimizer) {
    return optimizer && optimizer->rule;
}
/* Whether the size of its steps does not depend on that of the gradient. */
static inline bool optimizer_normalises(const struct optimizer *optimizer) {
    return optimizer && (optimizer->rule || optimizer->matrices);
}
static inline int optimizer_memories(const struct optimizer *optimizer) {
    return optimizer ? optimizer->memories : 0;
}
