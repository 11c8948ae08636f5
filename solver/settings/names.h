/* Names that settings address: of matrices ([init], [rates]), and of rows (keys of [output]). */
#pragma once

#include "solver/settings/config.h"

struct names {
    char **name;
    int count;
    void *tree; /* of tsearch, of the same texts */
};
/* Unless it is among them. */
int names_add(struct names *names, const char *text, struct err *err);
/* Common names of those that are numbered, as W1 of W1_0 and W1_0_2. */
int names_add_stems(struct names *names, struct err *err);
void names_free(struct names *names);
/* One text of the title and the names, of which those from `single` on are common ones. */
int names_print(const char *title, const struct names *names, int single, FILE *out,
                struct err *err);

/* CODE_INPUT where [output] names rows or matrices that neither the limit nor networks have, a word
 * comes twice, or times do not fit the run. */
int names_check(const struct config *config, const struct params *params, struct err *err);
/* The names of rows and matrices, for --help NETWORK. */
int names_help(const struct config *config, FILE *out, struct err *err);

/* Sections [init], [rates], [eps] and [decays]: which matrices there are to address. */
/* The names of the matrices of a network of width N (0: the limit), blanks between, to be freed. */
int matrices_list(const struct config *config, int N, char **list, struct err *err);
/* CODE_INPUT where a line addresses no matrix, or one that has no such number, or makes one grow
 * without bound in the limit. */
int matrices_check(const struct config *config, const struct params *params, struct err *err);
/* Help on one network, with the given overrides. */
int matrices_help(const char *network, int overrides, char *const *override, FILE *out,
                  struct err *err);
