/* The ini file as a whole: reading, overrides, defaults, messages, writing.
 *
 * Order of a read: lines of the file (next_line shows each to inih, which calls take_value),
 * overrides, then every row in declared order (resolve_row). A value is checked where it is stored,
 * so that the first bad line is the one reported, and once more when it is written into the
 * configuration, which is the check that defaults pass through. */
#define _POSIX_C_SOURCE 200809L
#include "solver/param.h"
#include "solver/factor.h"
#include "solver/row.h"

#include <assert.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What a message is about; unknown parts are NULL. line as in struct param_value. */
struct entry {
    const char *section, *key, *text;
    int line;
};

static int fail_list(const struct params *params, const struct entry *at, struct err *err,
                     const char *format, va_list list) {
    char place[TEXT_NOTE] = "", sentence[TEXT_NOTE] = "", cut[TEXT_CLIP_SIZE];
    if (at->line < 0) {
        text_append(place, "--%s.", text_clip(cut, at->section));
        text_append(place, "%s=", text_clip(cut, at->key));
        text_append(place, "%s", text_clip(cut, at->text));
    } else {
        text_append(place, "%.700s", params->file);
        if (at->line)
            text_append(place, ":%d", at->line);
        if (at->section)
            text_append(place, ": [%s]", text_clip(cut, at->section));
        if (at->key)
            text_append(place, " %s", text_clip(cut, at->key));
        if (at->text)
            text_append(place, " = %s", text_clip(cut, at->text));
        if (at->text && !at->line)
            text_append(place, " (default)");
    }
    text_append_list(sentence, format, list);
    return err_set(err, CODE_INPUT, "%s: %s", place, sentence);
}

__attribute__((format(printf, 4, 5))) static int fail(const struct params *params,
                                                      const struct entry *at, struct err *err,
                                                      const char *format, ...) {
    va_list list;
    va_start(list, format);
    int code = fail_list(params, at, err, format, list);
    va_end(list);
    return code;
}

/* ---- names ---- */

static const struct param_section *find_section(const struct params *params, const char *name) {
    for (size_t s = 0; s < params->count; s++)
        if (!strcmp(params->sections[s].name, name))
            return &params->sections[s];
    return NULL;
}

static const struct param_row *find_row(const struct param_section *section, const char *key) {
    for (size_t r = 0; r < section->count; r++)
        if (!strcmp(section->rows[r].key, key))
            return &section->rows[r];
    return NULL;
}

/* The first value of a section. */
static struct param_value *section_values(const struct params *params,
                                          const struct param_section *section) {
    struct param_value *value = params->values;
    for (const struct param_section *s = params->sections; s < section; s++)
        value += s->count;
    return value;
}

/* The section that has a key of this name; NULL if none has. */
static const struct param_section *find_owner(const struct params *params, const char *key) {
    for (size_t s = 0; s < params->count; s++)
        if (find_row(&params->sections[s], key))
            return &params->sections[s];
    return NULL;
}

static int unknown_section(const struct params *params, const struct entry *at, struct err *err) {
    char note[TEXT_NOTE] = "";
    struct text_nearest nearest = {.given = at->section};
    if (!strcmp(at->section, "sweep"))
        return fail(params, at, err, "a sweep over values of keys is run by dmft-sweep");
    for (size_t s = 0; s < params->count; s++) {
        const char *name = params->sections[s].name;
        text_nearest_try(&nearest, (struct text_word){name, strlen(name)});
    }
    text_nearest_tell(&nearest, note);
    if (!nearest.name.length)
        for (size_t s = 0; s < params->count; s++)
            text_append(note, "%s [%s]", s ? "" : "; there are", params->sections[s].name);
    return fail(params, at, err, "unknown section%s", note);
}

static int unknown_key(const struct params *params, const struct param_section *section,
                       const struct entry *at, struct err *err) {
    char note[TEXT_NOTE] = "";
    const struct param_section *owner = find_owner(params, at->key);
    struct text_nearest nearest = {.given = at->key};
    for (size_t r = 0; r < section->count; r++) {
        const char *key = section->rows[r].key;
        text_nearest_try(&nearest, (struct text_word){key, strlen(key)});
    }
    if (owner)
        text_append(note, "; it belongs to [%s]", owner->name);
    else
        text_nearest_tell(&nearest, note);
    if (!*note)
        for (size_t r = 0; r < section->count; r++)
            text_append(note, "%s %s", r ? "" : "; there are", section->rows[r].key);
    return fail(params, at, err, "unknown key%s", note);
}

/* ---- values ---- */

/* The row of a key, NULL for a free one. */
static int find_key(const struct params *params, const struct param_section *section,
                    const struct entry *at, const struct param_row **row, struct err *err) {
    char note[TEXT_NOTE] = "";
    *row = find_row(section, at->key);
    if (*row)
        return CODE_OK;
    if (section->rows)
        return unknown_key(params, section, at, err);
    return factor_name(at->key, note) ? CODE_OK : fail(params, at, err, "%s", note);
}

/* Checks a given value and keeps its text. row: NULL for a free key. */
static int store(struct params *params, const struct param_section *section,
                 const struct param_row *row, const struct entry *at, struct err *err) {
    struct entry name = {at->section, at->key, NULL, at->line};
    struct param_free *key = row ? NULL : factor_find(params, section, at->key);
    struct param_value *value = row   ? section_values(params, section) + (row - section->rows)
                                : key ? &key->value
                                      : NULL;
    if (value && at->line > 0 && value->line > 0)
        return fail(params, &name, err, "duplicate key, given before in line %d", value->line);
    char note[TEXT_NOTE] = "";
    union row_value scratch;
    struct factor factor;
    if (row ? !row_parse(row, at->text, &scratch, note) : !factor_parse(at->text, &factor, note))
        return fail(params, at, err, "%s", note);
    if (!value) {
        TRY(factor_add(&key, params, section, at->key, err));
        value = &key->value;
    }
    char *text;
    TRY(base_copy(&text, at->text, err));
    free(value->text);
    value->text = text;
    value->line = at->line;
    return CODE_OK;
}

/* A given value of an unused row is refused, a missing one that is needed too. */
static int check_presence(const struct params *params, const struct param_section *section,
                          const struct param_row *row, bool used, struct err *err) {
    const struct param_value *value = section_values(params, section) + (row - section->rows);
    struct entry at = {section->name, row->key, value->text, value->line};
    char note[TEXT_NOTE] = "";
    if (value->text && !used) {
        const char *first = section_values(params, section)->text;
        const char *keys = section->other_keys ? section->other_keys(first, row->key) : NULL;
        if (keys)
            return fail(params, &at, err, "%s = %s does not use it; its keys: %s",
                        section->rows[0].key, first, keys);
        row_describe_when(row, note);
        return fail(params, &at, err, "the key is used only when [%s] %s", section->name, note);
    }
    if (!value->text && used && !row->value) {
        row_describe(row, note);
        return fail(params, &at, err, "the key must be given; %s", note);
    }
    return CODE_OK;
}

/* Completes a row and writes its value into the configuration. */
static int resolve_row(struct params *params, const struct param_section *section,
                       const struct param_row *row, void *config, struct err *err) {
    struct param_value *values = section_values(params, section);
    struct param_value *value = values + (row - section->rows);
    void *out = (char *)config + section->offset + row->offset;
    TRY(check_presence(params, section, row, row_used(section, row, values), err));
    if (!value->text)
        TRY(base_copy(&value->text, row->value ? row->value : "", err));
    if (value->line == 0 && !row->value) {
        row_zero(row, value->text, out);
        return CODE_OK;
    }
    char note[TEXT_NOTE] = "";
    if (row_parse(row, value->text, out, note))
        return CODE_OK;
    assert(false); /* given values were checked before: this default is wrong */
    struct entry at = {section->name, row->key, value->text, value->line};
    return fail(params, &at, err, "%s", note);
}

/* ---- the file ---- */

struct reader {
    struct params *params;
    FILE *stream;
    struct err *err;
    int code; /* of the first failure, which ends the reading */
    int line;
    char *text; /* the current line */
    size_t size;
    const struct param_section *section; /* NULL before the first one */
    const char *value;                   /* in text, from next_line to take_value */
};

/* Whatever its length, without its end; *end at the end of the file. Stops at the first control
 * character, so that a device or a binary file does not fill the memory. */
static int read_line(struct reader *reader, bool *end) {
    struct entry at = {.line = ++reader->line};
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
            return fail(reader->params, &at, reader->err, "not a text file (byte 0x%02x)", c);
        reader->text[length++] = (char)c;
    }
    if (c == EOF && ferror(reader->stream))
        return err_set(reader->err, CODE_SYSTEM, "%s: cannot be read: %s", reader->params->file,
                       strerror(errno));
    *end = c == EOF && length == 0;
    while (length && reader->text[length - 1] == '\r')
        length--;
    reader->text[length] = '\0';
    const char *bad = text_find_bad(reader->text);
    if (bad)
        return fail(reader->params, &at, reader->err,
                    "a control character or not UTF-8 (byte 0x%02x)", (unsigned char)*bad);
    return CODE_OK;
}

/* A line that begins with [. */
static int read_section(struct reader *reader, char *text) {
    struct entry at = {.line = reader->line};
    char cut[TEXT_CLIP_SIZE], *close = strchr(text, ']');
    if (!close || close[1])
        return fail(reader->params, &at, reader->err,
                    "\"%s\" is not a section line, which is [name] and nothing else",
                    text_clip(cut, text));
    *close = '\0';
    at.section = text_trim(text + 1);
    reader->section = find_section(reader->params, at.section);
    if (!reader->section)
        return unknown_section(reader->params, &at, reader->err);
    return CODE_OK;
}

/* A key = value line; splits text into the two, the value into reader->value. */
static int read_key(struct reader *reader, char *text, const char **name) {
    const struct param_row *row;
    struct entry at = {.line = reader->line};
    char cut[TEXT_CLIP_SIZE], *equals = strchr(text, '=');
    if (!equals)
        return fail(reader->params, &at, reader->err,
                    "\"%s\" has no \"=\"; a line is key = value, [section] or a comment",
                    text_clip(cut, text));
    *equals = '\0';
    char *key = text_trim(text);
    if (!*key)
        return fail(reader->params, &at, reader->err, "no key before \"=\"");
    if (!reader->section)
        return fail(reader->params, &at, reader->err, "key \"%s\" before the first [section]",
                    text_clip(cut, key));
    at.section = reader->section->name;
    at.key = *name = key;
    TRY(find_key(reader->params, reader->section, &at, &row, reader->err));
    reader->value = text_trim(equals + 1);
    return CODE_OK;
}

/* The reader of inih, whose line has the given size (200 in the packaged library) and which would
 * cut longer ones, continue a value on an indented line and drop a comment behind a value. So it
 * sees an unindented section or key and an empty value; the full value waits in the reader. */
static char *next_line(char *out, int size, void *stream) {
    struct reader *reader = stream;
    assert(!reader->value);
    bool end = false;
    if (reader->code || (reader->code = read_line(reader, &end)) || end)
        return NULL;
    char *text = reader->text;
    if (reader->line == 1 && !strncmp(text, "\xef\xbb\xbf", 3))
        text += 3;
    text = text_trim(text);
    const char *key = NULL;
    int length;
    if (!*text || *text == '#' || *text == ';') {
        length = snprintf(out, (size_t)size, "\n");
    } else if (*text == '[') {
        reader->code = read_section(reader, text);
        length = snprintf(out, (size_t)size, "[%s]\n", reader->code ? "" : reader->section->name);
    } else {
        reader->code = read_key(reader, text, &key);
        length = snprintf(out, (size_t)size, "%s=\n", reader->code ? "" : key);
    }
    assert(length < size);
    (void)length;
    return reader->code ? NULL : out;
}

/* The handler of inih. */
static int take_value(void *user, const char *section, const char *key, const char *value) {
    struct reader *reader = user;
    struct entry at = {section, key, reader->value, reader->line};
    const struct param_row *row = find_row(reader->section, key);
    assert(reader->value && !*value && !strcmp(section, reader->section->name));
    assert(row || !reader->section->rows);
    (void)value;
    reader->value = NULL;
    reader->code = store(reader->params, reader->section, row, &at, reader->err);
    return reader->code == CODE_OK;
}

static int read_stream(struct params *params, FILE *stream, struct err *err) {
    struct reader reader = {.params = params, .stream = stream, .err = err};
    int failed = ini_parse_stream(next_line, &reader, take_value, &reader);
    if (failed && !reader.code)
        reader.code =
            err_set(err, CODE_SYSTEM, "%s: the ini parser failed (%d)", params->file, failed);
    free(reader.text);
    return reader.code;
}

/* ---- the command line ---- */

/* Stores one override; text is cut into pieces. */
static int take_override(struct params *params, char *text, struct err *err) {
    char cut[TEXT_CLIP_SIZE];
    text_clip(cut, text);
    if (text_find_bad(text))
        return err_set(err, CODE_INPUT, "%s: a control character or not UTF-8", cut);
    char *section = strncmp(text, "--", 2) ? text : text + 2;
    char *equals = strchr(section, '='), *dot = strchr(section, '.');
    if (equals)
        *equals = '\0';
    if (!equals || !dot || dot > equals) {
        const struct param_section *owner = find_owner(params, text_trim(section));
        return err_set(err, CODE_INPUT, "%s: must be --section.key=value%s%s%s%s", cut,
                       owner ? ", here --" : "", owner ? owner->name : "", owner ? "." : "",
                       owner ? text_trim(section) : "");
    }
    *dot = '\0';
    struct entry at = {text_trim(section), text_trim(dot + 1), text_trim(equals + 1), -1};
    const struct param_section *declared = find_section(params, at.section);
    if (!declared)
        return unknown_section(params, &at, err);
    const struct param_row *row;
    TRY(find_key(params, declared, &at, &row, err));
    return store(params, declared, row, &at, err);
}

static int read_overrides(struct params *params, int overrides, char *const *override,
                          struct err *err) {
    for (int i = 0; i < overrides; i++) {
        char *text;
        TRY(base_copy(&text, override[i], err));
        int code = take_override(params, text, err);
        free(text);
        TRY(code);
    }
    return CODE_OK;
}

/* ---- interface ---- */

int params_read_stream(struct params *params, const struct param_section *sections, size_t count,
                       const char *name, FILE *stream, int overrides, char *const *override,
                       void *config, struct err *err) {
    *params = (struct params){.sections = sections, .count = count};
    size_t rows = 0;
    for (size_t s = 0; s < count; s++)
        rows += sections[s].count;
    TRY(base_copy(&params->file, name, err));
    TRY(base_alloc(&params->values, rows, sizeof *params->values, err));
    TRY(read_stream(params, stream, err));
    TRY(read_overrides(params, overrides, override, err));
    for (size_t s = 0; s < count; s++)
        for (size_t r = 0; r < sections[s].count; r++)
            TRY(resolve_row(params, &sections[s], &sections[s].rows[r], config, err));
    return factor_resolve(params, config, err);
}

int params_read(struct params *params, const struct param_section *sections, size_t count,
                const char *file, int overrides, char *const *override, void *config,
                struct err *err) {
    *params = (struct params){0};
    FILE *stream = fopen(file, "r");
    if (!stream) {
        bool system = errno == ENOMEM || errno == EMFILE || errno == ENFILE;
        return err_set(err, system ? CODE_SYSTEM : CODE_INPUT, "%s: cannot be opened: %s", file,
                       strerror(errno));
    }
    struct stat status;
    int code;
    if (!fstat(fileno(stream), &status) && S_ISDIR(status.st_mode))
        code = err_set(err, CODE_INPUT, "%s: is a directory, not an ini file", file);
    else
        code = params_read_stream(params, sections, count, file, stream, overrides, override,
                                  config, err);
    fclose(stream);
    return code;
}

void params_free(struct params *params) {
    size_t rows = 0;
    for (size_t s = 0; s < params->count; s++)
        rows += params->sections[s].count;
    for (size_t i = 0; params->values && i < rows; i++)
        free(params->values[i].text);
    free(params->values);
    factor_free(params);
    free(params->file);
    *params = (struct params){0};
}

const struct param_value *params_find(const struct params *params, const char *section,
                                      const char *key) {
    const struct param_section *declared = find_section(params, section);
    const struct param_row *row = declared ? find_row(declared, key) : NULL;
    const struct param_free *free_key = declared ? factor_find(params, declared, key) : NULL;
    return row        ? section_values(params, declared) + (row - declared->rows)
           : free_key ? &free_key->value
                      : NULL;
}

int params_record(struct params *params, const char *section, const char *key, const char *text,
                  struct err *err) {
    size_t index = (size_t)(params_find(params, section, key) - params->values);
    char *copy;
    TRY(base_copy(&copy, text, err));
    free(params->values[index].text);
    params->values[index].text = copy;
    return CODE_OK;
}

int params_error(const struct params *params, const char *section, const char *key, struct err *err,
                 const char *format, ...) {
    const struct param_value *value = params_find(params, section, key);
    struct entry at = {section, key, value ? value->text : NULL, value ? value->line : 0};
    va_list list;
    va_start(list, format);
    int code = fail_list(params, &at, err, format, list);
    va_end(list);
    return code;
}

/* ---- writing ---- */

static void write_comment(const char *text, FILE *out) {
    struct text_word line;
    while (text && text_next_word(&text, "\n", &line))
        fprintf(out, "# %.*s\n", (int)line.length, line.text);
}

/* values of the section, NULL for the defaults. */
static void write_section(const struct param_section *section, const struct param_value *values,
                          FILE *out) {
    fputc('\n', out);
    write_comment(section->doc, out);
    fprintf(out, "[%s]\n", section->name);
    if (!section->rows) {
        char note[TEXT_NOTE] = "# Lines NAME = ";
        factor_describe(note);
        fprintf(out, "%s.\n", note);
    }
    for (size_t r = 0; r < section->count; r++) {
        const struct param_row *row = &section->rows[r];
        const char *text = values ? values[r].text : row->value;
        bool used = row_used(section, row, values);
        char note[TEXT_NOTE] = "Allowed: ";
        row_describe(row, note);
        if (!row->value)
            text_append(note, "; must be given");
        if (row->when) {
            text_append(note, "; used only when ");
            row_describe_when(row, note);
        }
        row_users(section, row, note);
        fputc('\n', out);
        write_comment(row->doc, out);
        fprintf(out, "# %s.\n", note);
        fprintf(out, "%s%s =%s%s\n", used && text ? "" : "# ", row->key, text && *text ? " " : "",
                text ? text : "");
    }
}

static void write_whole(const struct params *params, const struct param_section *section,
                        FILE *out) {
    write_section(section, section_values(params, section), out);
    for (size_t i = 0; i < params->frees; i++)
        if (params->free[i].section == section)
            fprintf(out, "%s = %s\n", params->free[i].key, params->free[i].value.text);
}

void params_defaults(const struct param_section *sections, size_t count, FILE *out) {
    fputs("# Every key at its default. A line is [section], key = value, or a comment like this\n"
          "# one; a value goes to the end of its line. Keys commented out have no default or are\n"
          "# not used at these values.\n",
          out);
    for (size_t s = 0; s < count; s++)
        write_section(&sections[s], NULL, out);
}

int params_text(const struct params *params, char **text, size_t *size, struct err *err) {
    *text = NULL;
    FILE *out = open_memstream(text, size);
    bool failed = !out;
    if (out) {
        fprintf(out, "# Every key as it was set; keys commented out are not used.\n");
        for (size_t s = 0; s < params->count; s++)
            write_whole(params, &params->sections[s], out);
        failed = ferror(out) != 0;
        failed = fclose(out) || failed;
    }
    return failed ? err_set(err, CODE_SYSTEM, "out of memory: the text of the parameters")
                  : CODE_OK;
}

static void write_help(const struct param_section *section, const struct param_row *row,
                       FILE *out) {
    char name[TEXT_NOTE] = "", note[TEXT_NOTE] = "";
    const char *cursor = row->doc ? row->doc : "";
    struct text_word line;
    text_append(name, "%s.%s", section->name, row->key);
    fprintf(out, "  %-24s ", name);
    while (text_next_word(&cursor, "\n", &line))
        fprintf(out, "%.*s ", (int)line.length, line.text);
    if (!row->value)
        text_append(note, "required; ");
    else
        text_append(note, "default %s; ", *row->value ? row->value : "empty");
    row_describe(row, note);
    if (row->when) {
        text_append(note, "; only when ");
        row_describe_when(row, note);
    }
    row_users(section, row, note);
    fprintf(out, "[%s]\n", note);
}

void params_help(const struct param_section *sections, size_t count, FILE *out) {
    for (size_t s = 0; s < count; s++) {
        char name[TEXT_NOTE] = "", note[TEXT_NOTE] = "";
        for (size_t r = 0; r < sections[s].count; r++)
            write_help(&sections[s], &sections[s].rows[r], out);
        text_append(name, "%s.NAME", sections[s].name);
        factor_describe(note);
        if (!sections[s].rows)
            fprintf(out, "  %-24s %s [%s]\n", name, sections[s].doc, note);
    }
}
