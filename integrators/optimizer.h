/* What optimizers share: the list of rows (models/engine/optimizer.h), and the rate and eps of
 * those that move every entry by a rule. */
#pragma once

#include "integrators/integrator.h"

/* The rows there are, in the order of the key; the first is the default. */
#define OPTIMIZERS(OPTIMIZER)                                                                      \
    OPTIMIZER(gd)                                                                                  \
    OPTIMIZER(momentum)                                                                            \
    OPTIMIZER(adam)                                                                                \
    OPTIMIZER(adamw)                                                                               \
    OPTIMIZER(lion)                                                                                \
    OPTIMIZER(muon)
#define OPTIMIZER_ROW(name) extern const struct optimizer optimizer_##name;
OPTIMIZERS(OPTIMIZER_ROW)
#undef OPTIMIZER_ROW
extern const struct choice *const optimizer_rest_list[]; /* of rest_optimizer; NULL last */

/* Row k of the list, for loops over all optimizers; NULL behind the last. */
const struct optimizer *optimizer_row(size_t k);
/* How it moves a matrix: along its gradients ("matrix"), every entry by its own ("entry"), or by a
 * function of the whole gradient ("whole"). */
const char *optimizer_class(const struct optimizer *optimizer);
/* Appends to note [TEXT_NOTE] the names of the optimizers by entry, joined by "or": the remedy in
 * messages about [eps]. */
void optimizer_name_by_entry(char *note);

/* rate and eps of the parameter at this step: eta0 schedule adam_rate and eps adam_eps. */
double optimizer_rate(const struct optimizer_step *step);
double optimizer_eps(const struct optimizer_step *step);
