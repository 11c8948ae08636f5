/* Values from the ini file and from the command line, checked where they are stored, so that the
 * first bad line is the one reported. */
#define _POSIX_C_SOURCE 200809L
#include "solver/settings/param_keys.h"

#include <errno.h>
#include <sys/stat.h>

/* Checks a given value and keeps its text. row: NULL for a free key. */
static int store_value(struct params *params, const struct param_section *section,
                       const struct param_row *row, const struct entry *at, struct err *err) {
    struct entry name = {at->section, at->key, NULL, at->line, at->file};
    struct param_free *key = row ? NULL : factor_find(params, section, at->key);
    struct param_value *value = row   ? param_values(params, section) + (row - section->rows)
                                : key ? &key->value
                                      : NULL;
    if (value && at->line > 0 && value->line > 0 && value->file == at->file)
        return param_fail(params, &name, err, "duplicate key, given before in line %d",
                          value->line);
    char note[TEXT_NOTE] = "";
    union row_value scratch;
    if (row ? !row_parse(row, at->text, &scratch, note) : !factor_takes(section, at->text, note))
        return param_fail(params, at, err, "%s", note);
    if (!value) {
        TRY(factor_add(&key, params, section, at->key, err));
        value = &key->value;
    }
    char *text;
    if (row && row->type == PARAM_PATH && at->file)
        TRY(params_beside(&text, at->file, at->text, err));
    else
        TRY(base_copy(&text, at->text, err));
    free(value->text);
    value->text = text;
    value->line = at->line;
    value->file = at->file;
    return CODE_OK;
}

/* ---- the file ---- */

enum {
    DEEPEST = 16, /* files that include each other */
    FILES = 1000  /* that are included in all */
};

struct reader {
    struct params *params;
    FILE *stream;
    struct err *err;
    int line;
    char *text; /* the current line */
    size_t size;
    const struct param_section *section; /* NULL before the first one */
    const char *file;                    /* NULL, or the included one that is read */
    const struct reader *from;           /* that includes this one */
};

static int read_stream(struct reader *reader);

static const char *name_of(const struct reader *reader) {
    return reader->file ? reader->file : reader->params->file;
}

/* Whatever its length, without its end; *end at the end of the file. Stops at the first control
 * character, so that a device or a binary file does not fill the memory. */
static int read_line(struct reader *reader, bool *end) {
    struct entry at = {.line = ++reader->line, .file = reader->file};
    size_t length = 0;
    int c;
    for (;;) {
        if (length + 1 >= reader->size) {
            size_t size = reader->size ? 2 * reader->size : 256;
            char *text = realloc(reader->text, size);
            if (!text)
                return err_set(reader->err, CODE_SYSTEM, "out of memory: a line of %zu bytes",
                               size);
            reader->text = text;
            reader->size = size;
        }
        c = fgetc(reader->stream);
        if (c == EOF || c == '\n')
            break;
        if (c < ' ' && c != '\t' && c != '\r')
            return param_fail(reader->params, &at, reader->err, "not a text file (byte 0x%02x)", c);
        reader->text[length++] = (char)c;
    }
    TRY(base_poll(reader->err, "reading %s", name_of(reader)));
    if (c == EOF && ferror(reader->stream))
        return err_set(reader->err, CODE_SYSTEM, "%s: cannot be read: %s", name_of(reader),
                       strerror(errno));
    *end = c == EOF && length == 0;
    while (length && reader->text[length - 1] == '\r')
        length--;
    reader->text[length] = '\0';
    const char *bad = text_find_bad(reader->text);
    if (bad)
        return param_fail(reader->params, &at, reader->err,
                          "a control character or not UTF-8 (byte 0x%02x)", (unsigned char)*bad);
    return CODE_OK;
}

/* A line that begins with [. */
static int read_section(struct reader *reader, char *text) {
    struct entry at = {.line = reader->line, .file = reader->file};
    char cut[TEXT_CLIP_SIZE], *close = strchr(text, ']');
    if (!close || !text_ends(close + 1))
        return param_fail(reader->params, &at, reader->err,
                          "\"%s\" is not a section line, which is [name] and nothing else",
                          text_clip(cut, text));
    *close = '\0';
    at.section = text_trim(text + 1);
    reader->section = param_find_section(reader->params, at.section);
    if (!reader->section)
        return param_unknown_section(reader->params, &at, reader->err);
    return CODE_OK;
}

/* Opens a file that is included here: a regular one, and none of those that include it. */
static int open_included(const struct reader *reader, const struct entry *at, const char *path,
                         FILE **stream, struct err *err) {
    struct stat status, other;
    int depth = 1, code = base_open(stream, path, err);
    if (code == CODE_INPUT)
        param_fail(reader->params, at, err, "%s", err->text);
    TRY(code);
    fstat(fileno(*stream), &status);
    for (const struct reader *outer = reader; outer && !code; outer = outer->from, depth++)
        if (depth > DEEPEST || (!stat(name_of(outer), &other) && other.st_dev == status.st_dev &&
                                other.st_ino == status.st_ino))
            code = param_fail(reader->params, at, err, "%s %s", path,
                              depth > DEEPEST ? "is included through too many others"
                                              : "would include itself");
    return code;
}

/* include = FILE */
static int read_included(const struct reader *reader, const struct entry *at) {
    struct params *params = reader->params;
    struct err *err = reader->err;
    FREED(base_close) FILE *stream = NULL;
    if (!*at->text)
        return param_fail(params, at, err, "which file?");
    if (params->includes == FILES)
        return param_fail(params, at, err, "more than %d files are included", FILES);
    char **path;
    TRY(base_grow(&path, &params->include, &params->includes, sizeof *path, err));
    TRY(params_beside(path, name_of(reader), at->text, err));
    TRY(open_included(reader, at, *path, &stream, err));
    struct reader inner = {
        .params = params, .stream = stream, .err = err, .file = *path, .from = reader};
    return read_stream(&inner);
}

/* A key = value line. */
static int read_key(struct reader *reader, char *text) {
    const struct param_row *row;
    struct entry at = {.line = reader->line, .file = reader->file};
    char cut[TEXT_CLIP_SIZE], *equals = strchr(text, '=');
    if (!equals)
        return param_fail(reader->params, &at, reader->err,
                          "\"%s\" has no \"=\"; a line is key = value, [section] or a comment",
                          text_clip(cut, text));
    *equals = '\0';
    char *key = text_trim(text);
    if (!*key)
        return param_fail(reader->params, &at, reader->err, "no key before \"=\"");
    char *value = text_value(equals + 1);
    at.key = key;
    at.section = reader->section ? reader->section->name : NULL;
    if (!value)
        return param_fail(reader->params, &at, reader->err,
                          "a value in double quotes ends with one, and \"\" in it is a quote");
    at.text = value;
    if (!reader->section && !strcmp(key, "include"))
        return read_included(reader, &at);
    at.key = at.text = NULL;
    if (!reader->section)
        return param_fail(reader->params, &at, reader->err, "key \"%s\" before the first [section]",
                          text_clip(cut, key));
    at.section = reader->section->name;
    at.key = key;
    TRY(param_find_key(reader->params, reader->section, &at, &row, reader->err));
    at.text = value;
    return store_value(reader->params, reader->section, row, &at, reader->err);
}

/* A line of any kind, without the mark of UTF-8 that the first may begin with. */
static int read_text(struct reader *reader) {
    bool marked = reader->line == 1 && !strncmp(reader->text, "\xef\xbb\xbf", 3);
    char *text = text_trim(reader->text + (marked ? 3 : 0));
    if (!*text || *text == '#' || *text == ';')
        return CODE_OK;
    return *text == '[' ? read_section(reader, text) : read_key(reader, text);
}

static int read_stream(struct reader *reader) {
    bool end = false;
    int code = read_line(reader, &end);
    while (!code && !end)
        if (!(code = read_text(reader)))
            code = read_line(reader, &end);
    free(reader->text);
    return code;
}

int param_read_stream(struct params *params, FILE *stream, struct err *err) {
    struct reader reader = {.params = params, .stream = stream, .err = err};
    return read_stream(&reader);
}

/* ---- the command line ---- */

/* An override without the "--" in front of it. */
static char *without_dashes(char *text) {
    return strncmp(text, "--", 2) ? text : text + 2;
}

/* Whether an override is one that all others go over. */
static bool is_base(char *text) {
    return !strncmp(without_dashes(text), "base.", strlen("base."));
}

/* Stores one override; text is cut into pieces. */
static int take_override(struct params *params, char *text, int line, struct err *err) {
    char cut[TEXT_CLIP_SIZE];
    text_clip(cut, text);
    if (text_find_bad(text))
        return err_set(err, CODE_INPUT, "%s: a control character or not UTF-8", cut);
    char *section = without_dashes(text);
    if (is_base(text)) {
        section += strlen("base.");
        line = IN_BASE;
    }
    char *equals = strchr(section, '='), *dot = strchr(section, '.');
    if (equals)
        *equals = '\0';
    if (!equals || !dot || dot > equals) {
        const struct param_section *owner = param_find_owner(params, text_trim(section));
        if (!strcmp(text_trim(section), "output"))
            return err_set(err, CODE_INPUT, "%s: the file of the result is named by -o OUT.h5",
                           cut);
        return err_set(err, CODE_INPUT, "%s: must be --section.key=value%s%s%s%s", cut,
                       owner ? ", here --" : "", owner ? owner->name : "", owner ? "." : "",
                       owner ? text_trim(section) : "");
    }
    *dot = '\0';
    struct entry at = {text_trim(section), text_trim(dot + 1), text_trim(equals + 1), line, NULL};
    const struct param_section *declared = param_find_section(params, at.section);
    if (!declared)
        return param_unknown_section(params, &at, err);
    const struct param_row *row;
    TRY(param_find_key(params, declared, &at, &row, err));
    return store_value(params, declared, row, &at, err);
}

int param_read_overrides(struct params *params, int overrides, char *const *override, int line,
                         struct err *err) {
    for (int base = 1; base >= 0; base--) /* those of the base first */
        for (int i = 0; i < overrides; i++) {
            FREED(base_free) char *text = NULL;
            if (is_base(override[i]) != base)
                continue;
            TRY(base_copy(&text, override[i], err));
            TRY(take_override(params, text, line, err));
        }
    return CODE_OK;
}
