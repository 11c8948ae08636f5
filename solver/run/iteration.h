/* The limit by fixed-point iteration: what its sweeps record. */
#pragma once

#include "integrators/fixed_point.h"
#include "solver/settings/config.h"
#include "solver/measure/record.h"

/* The series of a record over sweeps: change [sweep][kernel] and floored [sweep]. */
int iteration_declare(struct record *iterations, const struct config *config,
                      const struct net_setup *setup, int runs, struct err *err);

/* Records what a sweep of replicate r has come to. */
void iteration_keep(struct record *iterations, int r, const struct fixed_point_state *state);
/* The kernel that changed most. */
const struct fixed_point_kernel *iteration_worst(const struct fixed_point_state *state);
