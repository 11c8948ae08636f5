/* What ranks tell each other about a run. With one rank nothing happens. */
#ifndef SOLVER_SHARE_H
#define SOLVER_SHARE_H

#include "solver/config.h"

/* Parameters that rank 0 has read -> all ranks. */
int share_params(struct params *params, const struct param_section *sections, size_t count,
                 struct config *config, struct err *err);
/* Data that rank 0 has read -> all ranks. */
int share_data(struct data *data, struct err *err);
/* Run r of a record, of rank `root` -> all ranks. */
void share_run(struct record *record, int r, int root);
/* The failure that comes first: code of this rank is 0, or what failed at `place`. */
int share_failure(int code, int place, struct err *err);
#endif
