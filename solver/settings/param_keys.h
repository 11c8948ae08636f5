/* What the files behind param.h tell each other: declared keys, messages about them. */
#pragma once

#include "solver/settings/row.h"

/* What a message is about; unknown parts are NULL. line as in struct param_value. */
struct entry {
    const char *section, *key, *text;
    int line;
    const char *file; /* NULL: the one that was given */
};
/* CODE_INPUT with "PLACE: SENTENCE", the place as in params_error. */
int param_fail(const struct params *params, const struct entry *at, struct err *err,
               const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Refuses a name, with the nearest known one. */
int param_unknown_section(const struct params *params, const struct entry *at, struct err *err);

/* NULL if there is none of this name. */
const struct param_section *param_find_section(const struct params *params, const char *name);
const struct param_row *param_find_row(const struct param_section *section, const char *key);
/* The row of a key that is given, NULL for a free one. */
int param_find_key(const struct params *params, const struct param_section *section,
                   const struct entry *at, const struct param_row **row, struct err *err);
/* The section that has a key of this name. */
const struct param_section *param_find_owner(const struct params *params, const char *key);
/* The first value of a section. */
struct param_value *param_values(const struct params *params, const struct param_section *section);

/* Stores the values of a file (params->file: its name in messages), then those of the command line
 * (line: where they were given, ON_COMMAND_LINE or OF_POINT); every value is checked. */
int param_read_stream(struct params *params, FILE *stream, struct err *err);
int param_read_overrides(struct params *params, int overrides, char *const *override, int line,
                         struct err *err);

/* Sections with free keys (struct param_section): what a key may be called, and a factor with a
 * power of the width from its text. */

/* Appends "a factor, at least 0, that may ..." to note[TEXT_NOTE], or what the section takes. */
void factor_describe(const struct param_section *section, char *note);
/* A letter, then letters, digits, _ . and -, at most 64: what an ini can hold, and a message. If it
 * is something else, appends a sentence to note. */
bool factor_name(const char *key, char *note);
/* Whether a free key of this section may have this value; if not, appends a sentence to note. */
bool factor_takes(const struct param_section *section, const char *text, char *note);

/* The quantities besides the width N that a factor may have a power of, by the name that stands in
 * the ini, and where the number comes from: a key of [network], or, where that is "", the data. */
struct factor_quantity {
    const char *name, *key, *doc;
};
extern const struct factor_quantity factor_quantities[FACTOR_QUANTITIES];

/* The given free key; NULL if it was not given. */
struct param_free *factor_find(const struct params *params, const struct param_section *section,
                               const char *key);
/* Finds it as well, and makes it where it is new, with an empty value. */
int factor_add(struct param_free **out, struct params *params, const struct param_section *section,
               const char *key, struct err *err);
/* Parses all and writes the lists of all sections with free keys into config. */
int factor_resolve(struct params *params, void *config, struct err *err);
void factor_free(struct params *params);
