/* Section [data]: its keys. */
#pragma once

#include "kernels/base/key.h"

extern const struct param_row config_data_rows[];
extern const size_t config_data_rows_count;
