/* A declared key (struct param_row in key.h): what it allows, and its value from its text. */
#pragma once

#include "kernels/base/text.h"
#include "solver/settings/param.h"

/* Room for a value of any type. */
union row_value {
    int i;
    uint64_t seed;
    double real;
    const char *text;
    const struct choice *row;
    struct int_list list;
    struct real_list reals;
};

/* Appends what is allowed, for instance "an integer, 1 to 9", or the condition in `when`, for
 * instance "gate = sigmoid or softmax". */
void row_describe(const struct param_row *row, char *note);
void row_describe_when(const struct param_section *section, const struct param_row *row,
                       char *note);
/* The things that a PARAM_ROW chooses from, NULL at the end; NULL of another row. */
const struct choice *const *row_things(const struct param_row *row);

/* Writes the value of the trimmed text to out, of the C type of the row; a PARAM_TEXT or
 * PARAM_PATH is text itself. If it is refused, appends the reason to note and returns false. */
bool row_parse(const struct param_row *row, const char *text, void *out, char *note);
/* Whether the text gives what the row has by default, however that is written (1e3 for 1000). */
bool row_at_default(const struct param_row *row, const char *text);
/* The value 0, or for a PARAM_TEXT and PARAM_PATH text itself. */
void row_zero(const struct param_row *row, const char *text, void *out);

/* Whether every value of the section's first row goes with this one; if not, note (or NULL) gets
 * the list of those that do. */
bool row_users(const struct param_section *section, const struct param_row *row, char *note);
/* The earlier rows whose values decide whether this one is used, which any of them may allow: one
 * after the other, *cursor being NULL at first; NULL: there is none, or no other. */
const struct param_row *row_gate(const struct param_section *section, const struct param_row *row,
                                 const char **cursor);
/* Whether a row is used with the values of its section; those that are not given yet, or all where
 * values is NULL, are at their defaults. */
bool row_used(const struct param_section *section, const struct param_row *row,
              const struct param_value *values);

/* Names that other libraries have for keys and choices of this program. */
/* Appends "; here it is [training] eta0 ..." to a note where the name is one that others have. */
bool synonyms_tell_key(const char *given, char note[TEXT_NOTE]);
/* Appends the command that writes data of a source that is one of Python. */
bool synonyms_tell_source(const char *given, char note[TEXT_NOTE]);
/* The choice of this program that others call so; NULL: none. */
const char *synonyms_choice(const char *given);
