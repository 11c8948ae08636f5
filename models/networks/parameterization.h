/* Parameterizations as the papers tabulate them. */
#pragma once

#include "models/language/program.h"

/* Tables of the mixtures of experts. */
enum { PARAMETERIZATION_REGIME1, PARAMETERIZATION_REGIME2, PARAMETERIZATION_REGIME3 };

/* Multiplies the numbers of these weights (the list ends with NULL), which are those of MSSP (of
 * regime 1: muP), by what the parameterization of this network has beside them in the rows of their
 * names. */
void parameterization_scale(const struct program *p, int regime, struct weight *const *weights);

/* NULL, or why a regime has no such parameterization. */
const char *parameterization_check(const struct network *network, int regime, const char **key);
