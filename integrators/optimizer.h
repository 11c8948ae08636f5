/* What optimizers share: the list of rows (models/engine/optimizer.h), and the rate and eps of
 * those that move every entry by a rule. */
#ifndef INTEGRATORS_OPTIMIZER_H
#define INTEGRATORS_OPTIMIZER_H

#include "integrators/integrator.h"

extern const struct optimizer optimizer_gd, optimizer_momentum; /* gd.c, momentum.c */
extern const struct optimizer optimizer_adam, optimizer_adamw;  /* adam.c */
extern const struct optimizer optimizer_lion;                   /* lion.c */
extern const struct optimizer optimizer_muon;                   /* muon.c */
extern const struct choice *const optimizer_rest_list[];        /* of rest_optimizer; NULL last */

/* Row k of the list, for loops over all optimizers; NULL behind the last. */
const struct optimizer *optimizer_row(size_t k);
/* Appends to note [TEXT_NOTE] the names of the optimizers by entry, joined by "or": the remedy in
 * messages about [eps]. */
void optimizer_name_by_entry(char *note);

/* rate and eps of the parameter at this step: eta0 schedule adam_rate and eps adam_eps. */
double optimizer_rate(const struct optimizer_step *step);
double optimizer_eps(const struct optimizer_step *step);

#endif
