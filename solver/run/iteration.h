/* The limit by fixed-point iteration: what its sweeps record, and one replicate of it. */
#pragma once

#include "integrators/fixed_point.h"
#include "solver/settings/config.h"
#include "solver/measure/record.h"

/* The series of a record over sweeps: change [sweep][kernel] and floored [sweep]. *labels: names
 * along axis "kernel" (one block, freed by the caller). */
int iteration_declare(struct record *iterations, const struct config *config,
                      const struct net_setup *setup, int runs, char ***labels, struct err *err);

/* What the caller does after each sweep and after each time of the last pass. */
struct iteration_calls {
    void *context;
    int (*sweep)(void *context, const struct fixed_point_state *state, struct err *err);
    int (*step)(void *context, const struct net *net, int t, struct err *err);
};

/* Replicate r: its sweeps, then its trajectory into the record. */
int iteration_run(const struct config *config, const struct net_setup *setup, const double *y,
                  int r, struct record *record, struct record *iterations,
                  const struct iteration_calls *calls, struct err *err);
/* The kernel that changed most. */
const struct fixed_point_kernel *iteration_worst(const struct fixed_point_state *state);
