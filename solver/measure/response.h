/* The responses A and B of the limit's maps (kernels/maps/map_response.h; of a fixed point those
 * that it has converged to, kernels/maps/field.h), one series each: A_MAP exists where fr is not 0,
 * B_MAP where fg is not 0, both where the backward pass goes through the map. */
#pragma once

#include "models/engine/net.h"
#include "solver/measure/instrument.h"

/* Appends to text [TEXT_NOTE] why some or all responses of a limit that were asked for are not
 * measured; nothing where all are. */
int response_tell(const struct config *config, const struct net_setup *setup, char *text,
                  struct err *err);
