/* Two-time kernels of single experts. */
#pragma once

#include "solver/measure/instrument.h"

/* Declares those of kernel number `item` of the net, behind its own filler, which keeps the rows of
 * all times. There are none but for rows over units of experts that [output] kernels_of names. */
int expert_kernels_declare(struct record *record, const struct config *config,
                           const struct net *net, int item, struct err *err);
