/* Targets that are wrong on purpose: label noise, of classes and of labels +1 and -1. */
#pragma once

#include "solver/data/data.h"

/* Each target of a training input (or token) that is asked for becomes another class, all being
 * equally likely, or the other sign, with probability `share`, independently. Which ones depends on
 * the seed and their number alone. data->classes or data->numbered; test targets stay. */
void label_noise_apply(struct data *data, double share, uint64_t seed);
