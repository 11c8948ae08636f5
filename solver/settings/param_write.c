/* What is written of the keys: an ini with the defaults or with the values as read, and the help.
 */
#define _XOPEN_SOURCE 700
#include "solver/settings/factor.h"
#include "solver/settings/param_keys.h"

#include <stdlib.h>
#include <string.h>

static void write_comment(const char *text, FILE *out) {
    struct text_word line;
    while (text && text_next_word(&text, "\n", &line))
        fprintf(out, "# %.*s\n", (int)line.length, line.text);
}

void params_write_value(const char *text, FILE *out) {
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
    write_comment(section->doc, out);
    fprintf(out, "[%s]\n", section->name);
    if (!section->rows) {
        char note[TEXT_NOTE] = "# Lines NAME = ";
        factor_describe(section, note);
        fprintf(out, "%s.\n", note);
    }
    for (size_t r = 0; r < section->count; r++) {
        const struct param_row *row = &section->rows[r];
        const char *text = values ? values[r].text : row->value;
        bool used = row_used(section, row, values);
        char note[TEXT_NOTE] = "Allowed: ", doc[TEXT_NOTE] = "";
        row_describe(row, note);
        if (!row->value)
            text_append(note, "; must be given");
        if (row->when) {
            text_append(note, "; used only when ");
            row_describe_when(section, row, note);
        }
        row_users(section, row, note);
        fputc('\n', out);
        row_document(row, doc);
        write_comment(doc, out);
        fprintf(out, "# %s.\n", note);
        fprintf(out, "%s%s =%s", used && text ? "" : "# ", row->key, text && *text ? " " : "");
        params_write_value(text ? text : "", out);
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
            params_write_value(params->free[i].value.text, out);
        }
}

static void write_whole(const struct params *params, const struct param_section *section,
                        FILE *out) {
    write_section(section, param_values(params, section), out);
    write_free(params, section, out);
}

static const char whole_text[] = "the parameters";

int params_text(const struct params *params, char **text, size_t *size, struct err *err) {
    FILE *out;
    TRY(base_text_begin(&out, text, size, whole_text, err));
    fprintf(out, "# Every key as it was set; keys commented out are not used.\n");
    for (size_t s = 0; s < params->count; s++)
        write_whole(params, &params->sections[s], out);
    return base_text_end(out, whole_text, CODE_OK, err);
}

/* A value that is not its default, or was given as this. */
static int write_given(const struct params *params, const struct param_section *section,
                       const struct param_row *row, FILE *out, struct err *err) {
    const struct param_value *value = param_values(params, section) + (row - section->rows);
    char *path = NULL, *whole = NULL;
    if (!value->line && !strcmp(value->text, row->value ? row->value : ""))
        return CODE_OK;
    if (row->type == PARAM_PATH && *value->text) {
        TRY(params_path(params, section->name, row->key, &path, err));
        whole = realpath(path, NULL);
    }
    fprintf(out, "%s = ", row->key);
    params_write_value(whole ? whole : path ? path : value->text, out);
    free(path);
    free(whole);
    return CODE_OK;
}

int params_given(const struct params *params, char **text, size_t *size, struct err *err) {
    FILE *out;
    int code = CODE_OK;
    TRY(base_text_begin(&out, text, size, whole_text, err));
    for (const struct param_section *s = params->sections; s < params->sections + params->count;
         s++) {
        fprintf(out, "%s[%s]\n", s == params->sections ? "" : "\n", s->name);
        for (size_t r = 0; r < s->count && !code; r++)
            code = write_given(params, s, &s->rows[r], out, err);
        write_free(params, s, out);
    }
    return base_text_end(out, whole_text, code, err);
}

static void write_help(const struct param_section *section, const struct param_row *row,
                       FILE *out) {
    char name[TEXT_NOTE] = "", note[TEXT_NOTE] = "", doc[TEXT_NOTE] = "";
    const char *cursor = doc;
    struct text_word line;
    row_document(row, doc);
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
        row_describe_when(section, row, note);
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
        factor_describe(&sections[s], note);
        if (!sections[s].rows)
            fprintf(out, "  %-24s %s [%s]\n", name, sections[s].doc, note);
    }
}
