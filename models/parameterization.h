/* Parameterizations as the papers tabulate them. */
#ifndef MODELS_PARAMETERIZATION_H
#define MODELS_PARAMETERIZATION_H

#include "models/program/program.h"

/* Tables of the mixtures of experts. */
enum { PARAMETERIZATION_REGIME1, PARAMETERIZATION_REGIME2, PARAMETERIZATION_REGIME3 };

/* Sizes that the tables have powers of. */
struct parameterization_sizes {
    double N, M, N_e;
};

/* W, whose numbers are those of MSSP (of regime 1: muP), times what the parameterization
 * of this network has beside them: the row `matrix` of the table of a regime. */
struct weight parameterization_scale(const struct program *p, int regime, const char *matrix,
                                     struct parameterization_sizes sizes, struct weight W);

/* NULL, or why a regime has no such parameterization. */
const char *parameterization_check(const struct network *network, int regime, const char **key);

#endif
