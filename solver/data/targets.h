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

/* Weights of the inputs of a data file: how often each counts in the loss. */
/* Whether there are weights, one for each input, all positive; after the sizes of the inputs. */
int targets_weigh_inputs(struct data *data, const struct data_file *stored, const char *path,
                         struct err *err);
/* Weights over their mean, so that the loss is sum w l/sum w; of test inputs likewise, and 1 where
 * the file has none of these. */
void targets_fill_weights(struct data *data, const struct data_file *stored);
