#include "solver/settings/param_keys.h"

int param_fail(const struct params *params, const struct entry *at, struct err *err,
               const char *format, ...) {
    char place[TEXT_NOTE] = "", sentence[TEXT_NOTE] = "", cut[TEXT_CLIP_SIZE];
    if (at->line < 0) {
        text_append(place, "--%s.", text_clip(cut, at->section));
        text_append(place, "%s=", text_clip(cut, at->key));
        text_append(place, "%s", text_clip(cut, at->text));
    } else {
        text_append(place, "%.700s", at->file ? at->file : params->file);
        if (at->line)
            text_append(place, ":%d", at->line);
        if (at->section)
            text_append(place, ": [%s]", text_clip(cut, at->section));
        if (at->key)
            text_append(place, at->section ? " %s" : ": %s", text_clip(cut, at->key));
        if (at->text)
            text_append(place, " = %s", text_clip(cut, at->text));
        if (at->text && !at->line)
            text_append(place, " (default)");
    }
    TEXT_APPEND_ARGUMENTS(sentence, format);
    return err_set(err, CODE_INPUT, "%s: %s", place, sentence);
}

/* ---- names ---- */

const struct param_section *param_find_section(const struct params *params, const char *name) {
    for (size_t s = 0; s < params->count; s++)
        if (!strcmp(params->sections[s].name, name))
            return &params->sections[s];
    return NULL;
}

const struct param_row *param_find_row(const struct param_section *section, const char *key) {
    for (size_t r = 0; r < section->count; r++)
        if (!strcmp(section->rows[r].key, key))
            return &section->rows[r];
    return NULL;
}

struct param_value *param_values(const struct params *params, const struct param_section *section) {
    struct param_value *value = params->values;
    for (const struct param_section *s = params->sections; s < section; s++)
        value += s->count;
    return value;
}

const struct param_section *param_find_owner(const struct params *params, const char *key) {
    for (size_t s = 0; s < params->count; s++)
        if (param_find_row(&params->sections[s], key))
            return &params->sections[s];
    return NULL;
}

int param_unknown_section(const struct params *params, const struct entry *at, struct err *err) {
    char note[TEXT_NOTE] = "";
    struct text_nearest nearest = {.given = at->section};
    if (!strcmp(at->section, "sweep") && at->file)
        return param_fail(params, at, err,
                          "it must stand in the ini that is given, not in one that it includes");
    if (!strcmp(at->section, "sweep"))
        return param_fail(params, at, err, "a sweep over values of keys is run by dmft-sweep");
    for (size_t s = 0; s < params->count; s++) {
        const char *name = params->sections[s].name;
        text_nearest_try(&nearest, (struct text_word){name, strlen(name)});
    }
    text_nearest_tell(&nearest, note);
    if (!nearest.name.length)
        for (size_t s = 0; s < params->count; s++)
            text_append(note, "%s [%s]", s ? "" : "; there are", params->sections[s].name);
    return param_fail(params, at, err, "unknown section%s", note);
}

static void try_keys(const struct param_section *section, struct text_nearest *nearest) {
    for (size_t r = 0; r < section->count; r++) {
        const char *key = section->rows[r].key;
        text_nearest_try(nearest, (struct text_word){key, strlen(key)});
    }
}

static int unknown_key(const struct params *params, const struct param_section *section,
                       const struct entry *at, struct err *err) {
    char note[TEXT_NOTE] = "";
    const struct param_section *owner = param_find_owner(params, at->key);
    struct text_nearest nearest = {.given = at->key};
    try_keys(section, &nearest);
    if (!strcmp(section->name, "output") && text_lists("path file name out output", at->key))
        text_append(note, "; the file of the result is named by -o OUT.h5");
    else if (owner)
        text_append(note, "; it belongs to [%s]", owner->name);
    else if (!synonyms_tell_key(at->key, note))
        text_nearest_tell(&nearest, note);
    for (size_t s = 0; !*note && s < params->count; s++) {
        try_keys(&params->sections[s], &nearest);
        text_nearest_tell(&nearest, note);
        if (*note)
            text_append(note, " it belongs to [%s]", params->sections[s].name);
    }
    if (!*note)
        for (size_t r = 0; r < section->count; r++)
            text_append(note, "%s %s", r ? "" : "; there are", section->rows[r].key);
    return param_fail(params, at, err, "unknown key%s", note);
}

int param_find_key(const struct params *params, const struct param_section *section,
                   const struct entry *at, const struct param_row **row, struct err *err) {
    char note[TEXT_NOTE] = "";
    *row = param_find_row(section, at->key);
    if (*row)
        return CODE_OK;
    if (section->rows)
        return unknown_key(params, section, at, err);
    return factor_name(at->key, note) ? CODE_OK : param_fail(params, at, err, "%s", note);
}
