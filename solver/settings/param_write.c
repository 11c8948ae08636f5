/* What is written of the keys: an ini with the defaults or the values as read, and the help. */
#define _XOPEN_SOURCE 700
#include "solver/settings/param_keys.h"

/* ---- text in lines ---- */

static void write_line(const char *first, const char *next, struct text_word line, FILE *out) {
    const char *end = line.text + line.length, *word = line.text + strspn(line.text, " ");
    int indent = (int)(word - line.text), at = fprintf(out, "%s%*s", first, indent, "");
    for (const char *joint = ""; word < end; word += strspn(word, " "), joint = " ") {
        int length = 0;
        while (word + length < end && word[length] != ' ')
            length++;
        if (*joint && at + 1 + length > PARAMS_COLUMNS) {
            at = fprintf(out, "\n%s%*s", next, indent ? indent + 2 : 0, "") - 1;
            joint = "";
        }
        fputs(joint, out); /* not printf: a run writes some 10^4 words */
        fwrite(word, 1, (size_t)length, out);
        at += (*joint != 0) + length;
        word += length;
    }
    fputc('\n', out);
}

void params_write_text(const char *first, const char *next, const char *text, FILE *out) {
    struct text_word line;
    for (; text && text_next_word(&text, "\n", &line); first = next)
        write_line(first, next, line, out);
}

/* What the words mean that a key chooses from: the further lines of its text, or what things say of
 * themselves. */
static void write_words(const struct param_row *row, const char *indent, FILE *out) {
    const char *more = row->doc ? strchr(row->doc, '\n') : NULL;
    params_write_text(indent, indent, more, out);
    for (const struct choice *const *thing = row_things(row); thing && *thing; thing++) {
        char line[TEXT_NOTE] = "";
        text_append(line, "  %s: %s", (*thing)->name, (*thing)->doc);
        params_write_text(indent, indent, line, out);
    }
}

/* The first line of its text, which is the whole of most. */
static struct text_word what_of(const struct param_row *row) {
    const char *doc = row->doc ? row->doc : "";
    return (struct text_word){doc, strcspn(doc, "\n")};
}

/* ---- an ini ---- */

/* A value with quotes if it needs them, and the end of its line. */
static void write_value(const char *text, FILE *out) {
    bool quotes = text_wants_quotes(text);
    fputs(quotes ? "\"" : "", out);
    for (; *text; text++) {
        fputs(quotes && *text == '"' ? "\"" : "", out);
        fputc(*text, out);
    }
    fputs(quotes ? "\"\n" : "\n", out);
}

/* values of the section, NULL for the defaults. */
static void write_section(const struct param_section *section, const struct param_value *values,
                          FILE *out) {
    fputc('\n', out);
    params_write_text("# ", "# ", section->doc, out);
    fprintf(out, "[%s]\n", section->name);
    if (!section->rows) {
        char note[TEXT_NOTE] = "Lines NAME = ";
        factor_describe(section, note);
        text_append(note, ".");
        params_write_text("# ", "#   ", note, out);
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
            row_describe_when(section, row, note);
        }
        row_users(section, row, note);
        fputc('\n', out);
        text_append(note, ".");
        if (what_of(row).length)
            write_line("# ", "# ", what_of(row), out);
        write_words(row, "# ", out);
        params_write_text("# ", "#   ", note, out);
        fprintf(out, "%s%s =%s", used && text ? "" : "# ", row->key, text && *text ? " " : "");
        write_value(text ? text : "", out);
    }
}

void params_defaults(const struct param_section *sections, size_t count, FILE *out) {
    fputs("# Every key at its default. A line is [section], key = value, or a comment like this\n"
          "# one, which may also stand behind a value and a blank; a value with # or ; behind a\n"
          "# blank stands in double quotes. Lines include = OTHER.ini at the top read other files\n"
          "# first. Keys commented out have no default or are not used at these values.\n",
          out);
    for (size_t s = 0; s < count; s++)
        write_section(&sections[s], NULL, out);
}

/* Lines of free keys that were given. */
static void write_free(const struct params *params, const struct param_section *section,
                       FILE *out) {
    for (size_t i = 0; i < params->frees; i++)
        if (params->free[i].section == section) {
            fprintf(out, "%s = ", params->free[i].key);
            write_value(params->free[i].value.text, out);
        }
}

static const char whole_text[] = "the parameters";

int params_text(const struct params *params, char **text, size_t *size, struct err *err) {
    FILE *out;
    TRY(base_text_begin(&out, text, size, whole_text, err));
    fprintf(out, "# Every key as it was set; keys commented out are not used.\n");
    FOR_EACH_OF (const struct param_section, s, params->sections, params->count) {
        write_section(s, param_values(params, s), out);
        write_free(params, s, out);
    }
    return base_text_end(out, whole_text, CODE_OK, err);
}

/* A value that is not its default, or was given as this. */
static int write_given(const struct params *params, const struct param_section *section,
                       const struct param_row *row, FILE *out, struct err *err) {
    const struct param_value *value = param_values(params, section) + (row - section->rows);
    FREED(base_free) char *path = NULL, *whole = NULL;
    if (!value->line && !strcmp(value->text, row->value ? row->value : ""))
        return CODE_OK;
    if (row->type == PARAM_PATH && *value->text) {
        TRY(params_path(params, section->name, row->key, &path, err));
        whole = realpath(path, NULL);
    }
    fprintf(out, "%s = ", row->key);
    write_value(whole ? whole : path ? path : value->text, out);
    return CODE_OK;
}

int params_given(const struct params *params, char **text, size_t *size, struct err *err) {
    FILE *out;
    int code = CODE_OK;
    TRY(base_text_begin(&out, text, size, whole_text, err));
    FOR_EACH_OF (const struct param_section, s, params->sections, params->count) {
        fprintf(out, "%s[%s]\n", s == params->sections ? "" : "\n", s->name);
        for (size_t r = 0; r < s->count && !code; r++)
            code = write_given(params, s, &s->rows[r], out, err);
        write_free(params, s, out);
    }
    return base_text_end(out, whole_text, code, err);
}

/* ---- the help ---- */

static const char help_next[] = "                             ";

static void name_of(const struct param_section *section, const char *key, char *name) {
    char whole[TEXT_NOTE] = "";
    text_append(whole, "%s.%s", section->name, key);
    text_append(name, "  %-26s ", whole);
}

static void write_help(const struct param_section *section, const struct param_row *row,
                       FILE *out) {
    char name[TEXT_NOTE] = "", note[TEXT_NOTE] = "";
    name_of(section, row->key, name);
    text_append(note, "%.*s [", (int)what_of(row).length, what_of(row).text);
    if (!row->value)
        text_append(note, "required; ");
    else
        text_append(note, "default %s; ", *row->value ? row->value : "empty");
    row_describe(row, note);
    if (row->when) {
        text_append(note, "; only when ");
        row_describe_when(section, row, note);
    }
    row_users(section, row, note);
    text_append(note, "]");
    params_write_text(name, help_next, note, out);
    write_words(row, help_next, out);
}

void params_help(const struct param_section *sections, size_t count, FILE *out) {
    for (const struct param_section *s = sections; s < sections + count; s++) {
        char name[TEXT_NOTE] = "", note[TEXT_NOTE] = "";
        fprintf(out, "\n[%s]%s%s\n", s->name, s->rows ? " " : "", s->rows ? s->doc : "");
        for (size_t r = 0; r < s->count; r++)
            write_help(s, &s->rows[r], out);
        if (s->rows)
            continue;
        name_of(s, "NAME", name);
        text_append(note, "%s [", s->doc);
        factor_describe(s, note);
        text_append(note, "]");
        params_write_text(name, help_next, note, out);
    }
}

/* The first sentence of a text. */
static int sentence_length(const char *text) {
    const char *end = text;
    while (*end && !(*end == '.' && (!end[1] || strchr(" \n", end[1]))))
        end++;
    return (int)(end - text);
}

void params_help_first(const struct param_section *sections, size_t count, const char *const *keys,
                       FILE *out) {
    for (; *keys; keys++)
        for (const struct param_section *s = sections; s < sections + count; s++)
            for (size_t r = 0; r < s->count; r++) {
                char name[TEXT_NOTE] = "", whole[TEXT_NOTE] = "";
                const char *doc = s->rows[r].doc;
                text_append(whole, "%s.%s", s->name, s->rows[r].key);
                name_of(s, s->rows[r].key, name);
                if (!strcmp(whole, *keys))
                    fprintf(out, "%s%.*s\n", name, sentence_length(doc), doc);
            }
}
