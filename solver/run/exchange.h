/* What ranks tell each other about a run. With one rank nothing happens. */
#pragma once

#include "solver/measure/record.h"
#include "solver/settings/config.h"

/* Parameters that rank 0 has read -> all ranks. */
int exchange_params(struct params *params, const struct param_section *sections, size_t count,
                    struct config *config, struct err *err);
/* Data that rank 0 has read -> all ranks. */
int exchange_data(struct data *data, struct err *err);
/* Run r of a record, of rank `root` -> all ranks. */
void exchange_run(struct record *record, int r, int root);
/* The failure that comes first: code of this rank is 0, or what failed at `place`. */
int exchange_failure(int code, int place, struct err *err);
