/* Weights of the inputs of a data file: how often each counts in the loss. */
#pragma once

#include "solver/data/data.h"
#include "solver/data/data_file.h"

/* Whether there are weights, one for each input and each positive; after the sizes of the inputs.
 */
int weights_shape(struct data *data, const struct data_file *stored, const char *path,
                  struct err *err);
/* Weights over their mean, so that the loss is sum w l/sum w; of test inputs likewise, and 1 where
 * the file has none of these. */
void weights_fill(struct data *data, const struct data_file *stored);
