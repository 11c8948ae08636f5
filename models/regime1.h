/* Regime I and the deep dense network; see regime1.c. */
#ifndef MODELS_REGIME1_H
#define MODELS_REGIME1_H

#include "models/model.h"

extern const struct model model_regime1, model_dense;

#endif
