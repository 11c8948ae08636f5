/* Regime II; see regime2.c. */
#ifndef MODELS_REGIME2_H
#define MODELS_REGIME2_H

#include "models/model.h"

extern const struct model model_regime2;

#endif
