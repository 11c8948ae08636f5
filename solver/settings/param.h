/* The ini file: every key is one declared row (struct param_row in key.h).
 *
 * File: [section] lines, `key = value` lines, comments with # or ;, alone or behind a blank. A
 * value is trimmed, or stands between double quotes (text_value). Lines `include = FILE` before the
 * first section read other files first: what stands in this one goes over them, what is included
 * later over what is included before. Their paths, and those of values (PARAM_PATH), count from the
 * folder of the file that they stand in. Unknown, duplicate, ill-typed, out-of-range, missing and
 * unused keys are errors (CODE_INPUT) of one sentence that names file and line, the value, what is
 * allowed, and for an unknown name the nearest known one. Text is UTF-8 without control characters.
 *
 * A list may be given empty or as the word none. The key in the `when` of a row must be declared
 * before the row; where it is itself unused, the row is unused too. An unused row holds its
 * default, or, if it has none, the text "" and the value 0.
 *
 * A section without rows has free keys: names that are known only later (of the matrices of the
 * network), each with a factor that may go with a power of the width, as in
 *
 *     [rates]
 *     Q = 3
 *     W_out = 0.5 N^-0.5
 *
 * (N for N^1, N^0.5 for 1 N^0.5). Whoever knows the names calls params_check_names. Or the free
 * keys of a section are words: any text. */
#pragma once

#include "kernels/base/base.h"
#include "kernels/base/key.h"

struct param_section {
    const char *name, *doc;
    /* NULL: free keys, into a struct factor_list at offset or, if they are words, a struct
     * word_list. */
    const struct param_row *rows;
    size_t count;
    size_t offset; /* of the section's struct in the configuration */
    /* NULL, or which keys go with a value of the section's first row: NULL if this one does, else
     * the list of those that do. */
    const char *(*other_keys)(const char *first, const char *key);
    bool words;
    const char *implied; /* NULL, or a key that stands for "first row = this key" where given */
};

/* Where a value was given that is on no line of a file; the later goes over the earlier. IN_BASE:
 * --base.section.key=value, on the command line for the settings that all others there go over as
 * over an ini, such as those of a dict of the Python package. */
enum { IN_BASE = -1, ON_COMMAND_LINE = -2, OF_POINT = -3 };

struct param_value {
    char *text;       /* as given or default, numbers as the user wrote them; owned */
    int line;         /* > 0 in the file, 0 default, IN_BASE, ON_COMMAND_LINE, OF_POINT */
    int left;         /* where it was given, where it was left out: something else needs it */
    const char *file; /* which one: NULL, or one that the given file includes */
};

/* A free key that was given. */
struct param_free {
    const struct param_section *section;
    char *key;
    struct param_value value;
};

/* A configuration as read; one value per row, sections and rows in declared order. */
struct params {
    const struct param_section *sections;
    size_t count;
    char *file;
    int includes;
    char **include; /* [includes] the files that it includes */
    struct param_value *values;
    size_t frees;
    struct param_free *free; /* [frees] by section, then by key */
    struct factor *factors;  /* [frees] what they give, in the same order; or as words */
    struct word *words;
};

/* Reads file, then overrides ("--section.key=value" or "section.key=value"; the last one of a key
 * wins, and may replace a value of the file), fills defaults, checks every row and writes the
 * typed values into config at section.offset + row.offset. params is initialised here; call
 * params_free in any case. */
int params_read(struct params *params, const struct param_section *sections, size_t count,
                const char *file, int overrides, char *const *override, void *config,
                struct err *err);
/* An open stream, its name in messages, which its owner closes, and the overrides behind it. */
struct param_source {
    const char *name;
    FILE *stream;
    int overrides;
    char *const *override;
    int of_point; /* so many of them, the last ones, are the values of a point of a sweep, which go
                   * over the others as these go over the file */
};
/* Reads the same from a source that is no file. */
int params_read_stream(struct params *params, const struct param_section *sections, size_t count,
                       const struct param_source *source, void *config, struct err *err);
/* And from a text, whatever the stream of the source. */
int params_read_text(struct params *params, const struct param_section *sections, size_t count,
                     const char *text, const struct param_source *source, void *config,
                     struct err *err);
/* Whether what was given at one place (param_value.line) goes over what was given at another. */
bool params_go_over(int line, int other);
void params_free(struct params *params); /* accepts a zeroed struct; idempotent */

/* The value of a row, or of a free key that was given; else NULL. */
const struct param_value *params_find(const struct params *params, const char *section,
                                      const char *key);
/* Whether a row has its default, given or not: behind a read. */
bool params_at_default(const struct params *params, const char *section, const char *key);
/* The path that a PARAM_PATH gives, to be freed: a relative one of an ini begins at the folder of
 * that ini, of the command line (or of text that is no file) at the current one. */
int params_path(const struct params *params, const char *section, const char *key, char **path,
                struct err *err);
/* The path from the folder of a file; an empty one stays empty. To be freed. */
int params_beside(char **out, const char *file, const char *path, struct err *err);
/* Leaves a value of the file out, as if it had not been given: params_read does so where a key of
 * the command line leaves it without effect. */
void params_leave(struct param_value *value);
/* Replaces the text of a row, for the record (the typed value stays). */
int params_record(struct params *params, const char *section, const char *key, const char *text,
                  struct err *err);
/* CODE_INPUT with "FILE:LINE: [section] key = value: SENTENCE" (or "--section.key=value: ...", or
 * "FILE: [section] key = value (default): ..."). For checks across keys. */
int params_error(const struct params *params, const char *section, const char *key, struct err *err,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* CODE_INPUT if a section with free keys has one that is not among these `count` names; the
 * sentence has the nearest of them, and all. */
int params_check_names(const struct params *params, const char *section, const char *const *names,
                       int count, struct err *err);

/* A complete ini file with every key at its default and its documentation as comments; required
 * keys, and keys that are unused at these defaults, appear commented out. */
void params_defaults(const struct param_section *sections, size_t count, FILE *out);
/* The values as read: an ini file that gives this configuration again, to be freed in any case;
 * its length without the final 0. */
int params_text(const struct params *params, char **text, size_t *size, struct err *err);
/* What was given or recorded alone, which also goes with other values of keys that are varied; its
 * paths are absolute. */
int params_given(const struct params *params, char **text, size_t *size, struct err *err);
/* For --help: every key by section, and one for the keys of a section with free ones; and the first
 * sentences of some ("section.key", NULL at the end). */
void params_help(const struct param_section *sections, size_t count, FILE *out);
void params_help_first(const struct param_section *sections, size_t count, const char *const *keys,
                       FILE *out);
/* The words of a text in lines of at most PARAMS_COLUMNS: `first` stands before the first line,
 * `next` before all others. The text begins a new line at \n; if it is indented, what goes on below
 * is by two more. */
enum { PARAMS_COLUMNS = 100 };
void params_write_text(const char *first, const char *next, const char *text, FILE *out);
