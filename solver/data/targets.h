/* Targets of a data file: which of the shapes that data.h lists they have, and what they become. */
#pragma once

#include "solver/data/data.h"
#include "solver/data/data_file.h"

/* P, tests and n are known; finds per_token and C. */
int targets_shape(struct data *data, const struct data_file *stored,
                  const struct data_wanted *wanted, const char *path, struct err *err);
/* Fills y and finds classes. */
int targets_fill(struct data *data, const struct data_file *stored,
                 const struct data_wanted *wanted, const char *path, struct err *err);
