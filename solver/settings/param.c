/* The ini file as a whole. Order of a read: lines of the file, overrides (param_file.c), then every
 * row in declared order (resolve_row): its default where no value was given, checked once more when
 * it is written into the configuration, which is the check that defaults pass through. */
#define _POSIX_C_SOURCE 200809L
#include "solver/settings/param_keys.h"

/* A given value of an unused row is refused, a missing one that is needed too. */
static int check_presence(const struct params *params, const struct param_section *section,
                          const struct param_row *row, bool used, struct err *err) {
    const struct param_value *value = param_values(params, section) + (row - section->rows);
    struct entry at = {section->name, row->key, value->text, value->line, value->file};
    char note[TEXT_NOTE] = "";
    if (value->text && !used) {
        const char *first = param_values(params, section)->text;
        const char *keys = section->other_keys ? section->other_keys(first, row->key) : NULL;
        if (keys)
            return param_fail(params, &at, err, "%s = %s does not use it; its keys: %s",
                              section->rows[0].key, first, keys);
        row_describe_when(section, row, note);
        return param_fail(params, &at, err, "the key is used only when [%s] %s", section->name,
                          note);
    }
    if (!value->text && used && !row->value) {
        row_describe(row, note);
        return param_fail(params, &at, err, "the key must be given; %s", note);
    }
    return CODE_OK;
}

/* A given key that says by itself what the first row is: "program = FILE" for "model = program". */
static int imply_first(struct params *params, const struct param_section *section,
                       struct err *err) {
    struct param_value *first = param_values(params, section);
    const struct param_row *row =
        section->implied ? param_find_row(section, section->implied) : NULL;
    if (!row || first->text || !first[row - section->rows].text)
        return CODE_OK;
    first->line = first[row - section->rows].line;
    return base_copy(&first->text, section->implied, err);
}

bool params_go_over(int line, int other) {
    return line < 0 && other && (other > 0 || line < other);
}

/* Whether something that decides whether a row is used goes over the value that was given to it. */
static bool is_overridden(const struct param_section *section, const struct param_row *row,
                          const struct param_value *values, int line) {
    const char *cursor = NULL;
    const struct param_row *gate;
    while ((gate = row_gate(section, row, &cursor)))
        if (params_go_over(values[gate - section->rows].line, line) ||
            is_overridden(section, gate, values, line))
            return true;
    return false;
}

/* A key of the file that a key of the command line leaves without effect is left out, as it would
 * be in a file that says what the command line says: --network.bias=none goes over the biases of
 * the ini, --data.source over what another source reads, --network.model over keys of the network
 * of the ini. What a sweep varies goes over both in the same way. An unused key that is given at
 * its default says nothing, and is as one that is not given. */
static void leave_unused(struct params *params, const struct param_section *section) {
    struct param_value *values = param_values(params, section);
    for (size_t r = 0; r < section->count; r++) {
        const struct param_row *row = &section->rows[r];
        struct param_value *value = &values[r];
        bool other =
            section->other_keys && values->text && section->other_keys(values->text, row->key);
        bool idle = !other && row->when && !row_used(section, row, values);
        if (!value->text || (!other && !idle))
            continue;
        bool usual = row_at_default(row, value->text);
        if (usual || (other ? params_go_over(values->line, value->line)
                            : is_overridden(section, row, values, value->line)))
            params_leave(value);
        if (usual)
            value->left = 0;
    }
}

void params_leave(struct param_value *value) {
    free(value->text);
    *value = (struct param_value){.left = value->line, .file = value->file};
}

/* Completes a row and writes its value into the configuration. */
static int resolve_row(struct params *params, const struct param_section *section,
                       const struct param_row *row, void *config, struct err *err) {
    struct param_value *values = param_values(params, section);
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
    struct entry at = {section->name, row->key, value->text, value->line, value->file};
    return param_fail(params, &at, err, "%s", note);
}

int params_read_stream(struct params *params, const struct param_section *sections, size_t count,
                       const struct param_source *source, void *config, struct err *err) {
    *params = (struct params){.sections = sections, .count = count};
    size_t rows = 0;
    for (size_t s = 0; s < count; s++)
        rows += sections[s].count;
    TRY(base_copy(&params->file, source->name, err));
    TRY(base_alloc(&params->values, rows, sizeof *params->values, err));
    TRY(param_read_stream(params, source->stream, err));
    int given = source->overrides - source->of_point;
    TRY(param_read_overrides(params, given, source->override, ON_COMMAND_LINE, err));
    TRY(param_read_overrides(params, source->of_point, source->override + given, OF_POINT, err));
    for (size_t s = 0; s < count; s++)
        TRY(imply_first(params, &sections[s], err));
    for (size_t s = 0; s < count; s++)
        leave_unused(params, &sections[s]);
    for (size_t s = 0; s < count; s++)
        for (size_t r = 0; r < sections[s].count; r++)
            TRY(resolve_row(params, &sections[s], &sections[s].rows[r], config, err));
    return factor_resolve(params, config, err);
}

/* Refuses a file of HDF5, which is often given in place of an ini. */
static int open_ini(FILE **stream, const char *file, struct err *err) {
    static const char begin[] = "\211HDF\r\n\032\n";
    char bytes[sizeof begin - 1];
    TRY(base_open(stream, file, err));
    int first = ungetc(getc(*stream), *stream); /* a pipe cannot be rewound */
    if (first != (unsigned char)begin[0])
        return CODE_OK;
    if (fread(bytes, 1, sizeof bytes, *stream) == sizeof bytes &&
        !memcmp(bytes, begin, sizeof bytes))
        return err_set(err, CODE_INPUT,
                       "%s: is an HDF5 file, not an ini; --continue goes on with a result, and the "
                       "ini that made it is the attribute `ini` of its group /parameters",
                       file);
    rewind(*stream);
    return CODE_OK;
}

int params_read(struct params *params, const struct param_section *sections, size_t count,
                const char *file, int overrides, char *const *override, void *config,
                struct err *err) {
    *params = (struct params){0};
    FREED(base_close) FILE *stream = NULL;
    TRY(open_ini(&stream, file, err));
    struct param_source source = {file, stream, overrides, override, 0};
    return params_read_stream(params, sections, count, &source, config, err);
}

int params_read_text(struct params *params, const struct param_section *sections, size_t count,
                     const char *text, const struct param_source *source, void *config,
                     struct err *err) {
    struct param_source from = *source;
    const char *bytes = *text ? text : "\n"; /* a stream of no bytes is none */
    *params = (struct params){0};
    FREED(base_close) FILE *stream = fmemopen((char *)(uintptr_t)bytes, strlen(bytes), "r");
    if (!stream)
        return err_set(err, CODE_SYSTEM, "out of memory: the text of %s", source->name);
    from.stream = stream;
    return params_read_stream(params, sections, count, &from, config, err);
}

void params_free(struct params *params) {
    size_t rows = 0;
    for (size_t s = 0; s < params->count; s++)
        rows += params->sections[s].count;
    for (size_t i = 0; params->values && i < rows; i++)
        free(params->values[i].text);
    free(params->values);
    factor_free(params);
    for (int i = 0; i < params->includes; i++)
        free(params->include[i]);
    free(params->include);
    free(params->file);
    *params = (struct params){0};
}

const struct param_value *params_find(const struct params *params, const char *section,
                                      const char *key) {
    const struct param_section *declared = param_find_section(params, section);
    const struct param_row *row = declared ? param_find_row(declared, key) : NULL;
    const struct param_free *free_key = declared ? factor_find(params, declared, key) : NULL;
    return row        ? param_values(params, declared) + (row - declared->rows)
           : free_key ? &free_key->value
                      : NULL;
}

bool params_at_default(const struct params *params, const char *section, const char *key) {
    const struct param_section *declared = param_find_section(params, section);
    const struct param_value *value = params_find(params, section, key);
    return !value->line || row_at_default(param_find_row(declared, key), value->text);
}

int params_beside(char **out, const char *file, const char *path, struct err *err) {
    const char *slash = strrchr(file, '/');
    int folder = slash && *path && *path != '/' ? (int)(slash - file) + 1 : 0;
    return base_print(out, err, "%.*s%s", folder, file, path);
}

int params_path(const struct params *params, const char *section, const char *key, char **path,
                struct err *err) {
    const struct param_value *value = params_find(params, section, key);
    bool beside = value->line > 0 && !value->file;
    return params_beside(path, beside ? params->file : "", value->text, err);
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
    struct entry at = {section, key, value ? value->text : NULL, value ? value->line : 0,
                       value ? value->file : NULL};
    char sentence[TEXT_NOTE] = "";
    TEXT_APPEND_ARGUMENTS(sentence, format);
    return param_fail(params, &at, err, "%s", sentence);
}
