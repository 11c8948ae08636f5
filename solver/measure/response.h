/* The responses A and B of the limit's maps (kernels/maps/map_response.h; of a fixed point those
 * that it has converged to, kernels/maps/field.h), one series each: A_MAP exists where fr is not 0,
 * B_MAP where fg is not 0. */
#ifndef SOLVER_RESPONSE_H
#define SOLVER_RESPONSE_H

#include "models/engine/net.h"
#include "solver/measure/instrument.h"

extern const struct instrument response_instrument;
/* CODE_INPUT with a sentence where responses are asked for and cannot be measured. */
int response_check(const struct config *config, const struct net *net, struct err *err);

#endif
