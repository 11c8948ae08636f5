/* Sections with free keys (struct param_section): what a key may be called, and a factor with a
 * power of the width from its text. Behind param.h, which is the way to them. */
#pragma once

#include "solver/settings/param.h"

/* Appends "a factor, at least 0, that may ..." to note[TEXT_NOTE], or what else the section takes.
 */
void factor_describe(const struct param_section *section, char *note);
/* A letter, then letters, digits, _ . and -, at most 64: what an ini can hold, and a message. If it
 * is something else, appends a sentence to note. */
bool factor_name(const char *key, char *note);
/* Whether a free key of this section may have this value; if not, appends a sentence to note. */
bool factor_takes(const struct param_section *section, const char *text, char *note);

/* The quantities besides the width N that a factor may have a power of, by the name that stands in
 * the ini, and where the number comes from: a key of [network], or, where that is empty, the data.
 */
struct factor_quantity {
    const char *name, *key, *doc;
};
extern const struct factor_quantity factor_quantities[FACTOR_QUANTITIES];
/* Whether a text begins with N or the name of a quantity, and so with a power. */
bool factor_is_power(const char *text);

/* The given free key; NULL if it was not given. */
struct param_free *factor_find(const struct params *params, const struct param_section *section,
                               const char *key);
/* The same, made where it is new, with an empty value. */
int factor_add(struct param_free **out, struct params *params, const struct param_section *section,
               const char *key, struct err *err);
/* Parses all and writes the lists of all sections with free keys into config. */
int factor_resolve(struct params *params, void *config, struct err *err);
void factor_free(struct params *params);
