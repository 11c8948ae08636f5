#include "solver/study/units.h"
#include "solver/files/provenance.h"
#include "solver/run/parts.h"
#include "solver/settings/row.h"

const char *units_text(const json_t *text) {
    const char *value = json_string_value(text);
    return value ? value : "";
}

int units_put(json_t *reply, const char *name, json_t *value, struct err *err) {
    return json_object_set_new(reply, name, value)
               ? err_set(err, CODE_SYSTEM, "out of memory: an answer")
               : CODE_OK;
}

int units_append(json_t *list, json_t *value, struct err *err) {
    return json_array_append_new(list, value)
               ? err_set(err, CODE_SYSTEM, "out of memory: a list of an answer")
               : CODE_OK;
}

int units_of(struct units *units, json_t *sweep, struct err *err) {
    json_t *widths, *width;
    size_t k;
    int limit;
    if (json_unpack(sweep, "{s:s,s:s,s:o,s:o,s:o,s:b}", "file", &units->file, "text", &units->text,
                    "words", &units->words, "points", &units->points, "widths", &widths, "limit",
                    &limit) ||
        json_array_size(widths) > INT_LIST_MAX)
        return err_set(err, CODE_INPUT, "a sweep needs file, text, words, points, widths, limit");
    units->limit = limit;
    json_array_foreach (widths, k, width)
        units->widths.value[units->widths.count++] = (int)json_integer_value(width);
    return CODE_OK;
}

/* ---- reading ---- */

/* A width alone, or the limit alone, behind what was given and the values of the point. */
static int read_stream(const struct units *units, json_t *values, const char *const *last,
                       struct run *run, struct err *err) {
    size_t given = json_array_size(units->words), own = json_array_size(values), sections, k;
    FREED(base_free) char **override = NULL;
    int behind = 0;
    TRY(base_alloc(&override, given + own + 2, sizeof *override, err));
    for (k = 0; k < given; k++)
        override[k] = (char *)(uintptr_t)units_text(json_array_get(units->words, k));
    for (k = 0; k < own; k++)
        override[given + k] = (char *)(uintptr_t)units_text(json_array_get(values, k));
    for (; last[behind]; behind++)
        override[given + own + (size_t)behind] = (char *)(uintptr_t)last[behind];
    TRY(config_sections(&run->sections, &sections, err));
    TRY(params_read_text(&run->params, run->sections, sections, units->text,
                         &(struct param_source){units->file, NULL, (int)(given + own) + behind,
                                                override, (int)own + behind},
                         &run->config, err));
    return config_complete(&run->config, &run->params, err);
}

int units_read(const struct units *units, size_t point, int column, struct run *run,
               struct err *err) {
    json_t *values = json_array_get(units->points, point);
    char widths[48];
    int N = column < units->widths.count && column >= 0 ? units->widths.value[column] : 0;
    if (column < 0)
        return read_stream(units, values, (const char *const[]){NULL}, run, err);
    snprintf(widths, sizeof widths, N ? "--reference.widths=%d" : "--reference.widths=", N);
    run->config.others =
        (struct config_others){.width = !N && units->widths.count ? units->widths.value[0] : 0,
                               .limit = N && units->limit};
    return read_stream(units, values,
                       (const char *const[]){widths, N ? "--solver.replicates=0" : NULL, NULL}, run,
                       err);
}

/* Whether the points give this key, "section.key". */
static bool is_varied(const struct units *units, const char *section, const char *key) {
    char name[256];
    size_t k;
    json_t *word;
    int length = snprintf(name, sizeof name, "--%s.%s=", section, key);
    json_array_foreach (json_array_get(units->points, 0), k, word) {
        if (!strncmp(units_text(word), name, (size_t)length))
            return true;
    }
    return false;
}

/* ---- the sweep as a whole ---- */

/* The ini, those that it includes, and every path in it. */
static int list_inputs(const struct params *params, json_t *list, struct err *err) {
    TRY(units_append(list, json_string(params->file), err));
    for (int k = 0; k < params->includes; k++)
        TRY(units_append(list, json_string(params->include[k]), err));
    for (size_t s = 0; s < params->count; s++)
        for (size_t r = 0; r < params->sections[s].count; r++) {
            const struct param_row *row = &params->sections[s].rows[r];
            FREED(base_free) char *path = NULL;
            if (row->type != PARAM_PATH)
                continue;
            TRY(params_path(params, params->sections[s].name, row->key, &path, err));
            TRY(units_append(list, json_string(path), err));
        }
    return CODE_OK;
}

static int put_provenance(void *list, const char *name, const char *value, struct err *err) {
    return units_put(list, name, json_string(value), err);
}

/* What is not the same at all points, the text of a program that is varied, is left out. */
int units_open(const struct units *units, json_t *reply, int cores, struct err *err) {
    FREED(run_free) struct run run = {0};
    FREED(base_free) char *given = NULL;
    size_t size;
    json_t *widths = json_array(), *inputs = json_array(), *rows = json_object();
    TRY(units_put(reply, "widths", widths, err));
    TRY(units_put(reply, "inputs", inputs, err));
    TRY(units_put(reply, "provenance", rows, err));
    TRY(units_read(units, 0, -1, &run, err));
    const struct int_list *found = &run.config.reference.widths;
    for (int k = 0; k < found->count; k++)
        TRY(units_append(widths, json_integer(found->value[k]), err));
    bool limit = run.config.solver.replicates > 0;
    if (!found->count && !limit)
        return params_error(&run.params, "solver", "replicates", err,
                            "without a limit there must be [reference] widths");
    if (is_varied(units, "network", "program"))
        TRY(params_record(&run.params, "network", "program_text", "", err));
    TRY(params_given(&run.params, &given, &size, err));
    TRY(list_inputs(&run.params, inputs, err));
    TRY(provenance_tell(put_provenance, rows, backend_list[run.config.solver.backend]->name, cores,
                        err));
    TRY(units_put(reply, "limit", json_boolean(limit), err));
    return units_put(reply, "given", json_string(given), err);
}

/* ---- keys that some points do not use ---- */

/* Tells of each key, in the order of params.values, whether a point left it out, or kept it. */
struct uses {
    bool *left, *kept;
};

static void uses_free(struct uses *uses) {
    free(uses->left);
    free(uses->kept);
}

static size_t rows_of(const struct params *params) {
    size_t count = 0;
    for (size_t s = 0; s < params->count; s++)
        count += params->sections[s].count;
    return count;
}

static int add_uses(struct uses *uses, const struct params *params, struct err *err) {
    size_t rows = rows_of(params);
    if (!uses->left) {
        TRY(base_alloc(&uses->left, rows, sizeof *uses->left, err));
        TRY(base_alloc(&uses->kept, rows, sizeof *uses->kept, err));
    }
    for (size_t i = 0; i < rows; i++) {
        uses->left[i] |= params->values[i].left != 0;
        uses->kept[i] |= params->values[i].line != 0;
    }
    return CODE_OK;
}

/* Whether a key that is varied decides whether this one is used: the network, of its keys and its
 * kinds of sites, or one that the row names. */
static bool waits_for_key(const struct units *units, const struct param_section *section,
                          const struct param_row *row) {
    const struct param_row *gate;
    const char *cursor = NULL;
    bool found = is_varied(units, "network", "model") &&
                 (section->other_keys || !strcmp(section->name, "solver"));
    while (!found && (gate = row_gate(section, row, &cursor)))
        found = is_varied(units, section->name, gate->key) || waits_for_key(units, section, gate);
    return found;
}

/* A key that no point uses, and would if the sweep did not vary others, is a mistake; one that some
 * do not use, and that is left out of them, is told. */
static int judge_uses(const struct units *units, const struct params *params,
                      const struct uses *uses, char note[TEXT_NOTE], struct err *err) {
    size_t i = 0;
    FOR_EACH_OF (const struct param_section, s, params->sections, params->count)
        for (size_t r = 0; r < s->count; r++, i++) {
            if (uses->left[i] && !uses->kept[i] && waits_for_key(units, s, &s->rows[r]))
                return err_set(err, CODE_INPUT,
                               "%s: [%s] %s: no point of [sweep] uses this key; take it out",
                               units->file, s->name, s->rows[r].key);
            if (uses->left[i] && uses->kept[i])
                text_append(note, " %s.%s", s->name, s->rows[r].key);
        }
    return CODE_OK;
}

/* ---- checks and names ---- */

/* The data of units, and the directions that these have for their optimizer. */
struct inputs {
    struct data *data;
    int K;
    bool vary; /* from unit to unit */
};

static int read_inputs(struct run *run, struct inputs *inputs, struct err *err) {
    data_free(inputs->data);
    TRY(config_data(&run->config, &run->params, inputs->data, err));
    TRY(config_coordinates(&run->config, inputs->data, &run->inputs, err));
    inputs->K = run->inputs.K + run->inputs.test_directions;
    return CODE_OK;
}

/* The name is made of all that decides the numbers, which states do not. */
static int name_unit(json_t *names, struct run *run, const struct data *data, struct err *err) {
    FREED(base_free) char *text = NULL;
    char name[24];
    size_t size;
    TRY(params_record(&run->params, "output", "checkpoint", "0", err));
    TRY(params_text(&run->params, &text, &size, err));
    uint64_t hash = base_hash(BASE_HASH, provenance_version, strlen(provenance_version));
    hash = data_hash(base_hash(hash, text, size), data);
    snprintf(name, sizeof name, "%016llx", (unsigned long long)hash);
    return units_append(names, json_string(name), err);
}

static int check_unit(const struct units *units, size_t point, int column, struct inputs *inputs,
                      struct run *run, json_t *names, struct uses *uses, struct err *err) {
    TRY(units_read(units, point, column, run, err));
    TRY(add_uses(uses, &run->params, err));
    if (!inputs->data->P || inputs->vary) {
        TRY(read_inputs(run, inputs, err));
        run_free(run); /* config_data records absolute paths, which are not what was given */
        *run = (struct run){0};
        TRY(units_read(units, point, column, run, err));
    }
    run->config.network.parameterization = run->config.network.parameterizations.value[0];
    config_shape(&run->config, inputs->data);
    sites_begin(&run->config, inputs->K);
    TRY(config_check(&run->config, &run->params, inputs->K, err));
    return name_unit(names, run, inputs->data, err);
}

/* Whether the points vary the optimizer, or a key of the data. */
static bool inputs_vary(const struct units *units) {
    size_t k;
    json_t *word;
    bool vary = is_varied(units, "training", "optimizer");
    json_array_foreach (json_array_get(units->points, 0), k, word)
        vary |= !strncmp(units_text(word), "--data.", strlen("--data."));
    return vary;
}

int units_check(const struct units *units, json_t *reply, struct err *err) {
    FREED(data_free) struct data data = {0};
    struct inputs inputs = {.data = &data, .vary = inputs_vary(units)};
    FREED(uses_free) struct uses uses = {0};
    FREED(run_free) struct run run = {0};
    char note[TEXT_NOTE] = "";
    size_t points = json_array_size(units->points);
    int columns = units->widths.count + units->limit;
    json_t *names = json_array();
    TRY(units_put(reply, "hash", names, err));
    for (size_t unit = 0; unit < points * (size_t)columns; unit++) {
        run_free(&run);
        run = (struct run){0};
        int code = check_unit(units, unit / (size_t)columns, (int)(unit % (size_t)columns), &inputs,
                              &run, names, &uses, err);
        if (code)
            json_object_set_new(reply, "unit", json_integer((json_int_t)unit));
        TRY(code);
    }
    TRY(judge_uses(units, &run.params, &uses, note, err));
    return units_put(reply, "note", json_string(note), err);
}
