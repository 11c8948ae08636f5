/* Sections [init], [rates], [eps] and [decays]: which matrices there are to address. */
#pragma once

#include "solver/settings/config.h"

/* The names of the matrices of a network of width N (0: the limit), blank-separated, to be freed:
 * W1 W2_0 W2_1 w. */
int matrices_list(const struct config *config, int N, char **list, struct err *err);
/* CODE_INPUT where a line addresses no matrix, or one that has no such number, or makes one grow
 * without bound in the limit. */
int matrices_check(const struct config *config, const struct params *params, struct err *err);
/* Help on one network, with the given overrides. */
int matrices_help(const char *network, int overrides, char *const *override, FILE *out,
                  struct err *err);
