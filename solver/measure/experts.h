/* Whether experts differ: kernels between different experts at equal time and input, [output]
 * cross.
 *
 * A word that addresses several rows of one population (outputs of a fixed number of experts) gives
 * <x_i x_j> of all of them; one that addresses rows over the units of many experts gives the mean
 * over pairs i != j of <x_i x_j>_units, beside that of i = j. Units of different populations are
 * not numbered alike, and not compared; nor are those of a limit where experts share their normals.
 */
#ifndef SOLVER_EXPERTS_H
#define SOLVER_EXPERTS_H

#include "solver/measure/record.h"
#include "solver/settings/config.h"

/* CODE_INPUT with a sentence where rows cannot be compared. */
int experts_declare(struct record *record, const struct config *config, const struct net *net,
                    struct err *err);
int experts_measure(const struct config *config, const struct net *net, int t, int run,
                    struct record *record, struct series **next, struct err *err);
/* Scratch of one run. */
double experts_bytes(const struct net *net);

#endif
