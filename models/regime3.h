/* Regime III; see regime3.c. */
#ifndef MODELS_REGIME3_H
#define MODELS_REGIME3_H

#include "models/model.h"

extern const struct model model_regime3;

#endif
