/* Section [data]: its keys. */
#ifndef SOLVER_CONFIG_DATA_H
#define SOLVER_CONFIG_DATA_H

#include "kernels/base/key.h"

extern const struct param_row config_data_rows[];
extern const size_t config_data_rows_count;

#endif
