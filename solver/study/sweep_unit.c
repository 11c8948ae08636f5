/* The units of a sweep: the ini, the check and the name of each. */
#define _POSIX_C_SOURCE 200809L
#include "solver/study/sweep_unit.h"
#include "kernels/base/text.h"
#include "solver/files/provenance.h"
#include "solver/run/sites.h"
#include "solver/settings/row.h"
#include "solver/study/grid_given.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sweep_width(const struct sweep *sweep, int column) {
    return column < sweep->widths.count ? sweep->widths.value[column] : 0;
}

void sweep_unit_describe(const struct sweep *sweep, int unit, char *note) {
    const struct grid *grid = &sweep->grid;
    int point = unit / sweep->columns, N = sweep_width(sweep, unit % sweep->columns);
    for (int k = 0, axis; k < grid->keys; k++) {
        const struct grid_key *key = grid_key(grid, k, &axis);
        text_append(note, "%s = %s, ", key->name, key->text[grid_index(grid, point, axis)]);
    }
    text_append(note, N ? "N = %d" : "limit", N);
}

int sweep_path(char **path, const struct sweep *sweep, int unit, const char *suffix,
               struct err *err) {
    size_t size = strlen(sweep->folder) + strlen(suffix) + 20;
    TRY(base_alloc(path, size, 1, err));
    snprintf(*path, size, "%s/%016llx%s", sweep->folder, (unsigned long long)sweep->unit[unit].hash,
             suffix);
    return CODE_OK;
}

int sweep_result(char **path, const struct sweep *sweep, int unit, struct err *err) {
    enum sweep_status status = sweep->unit[unit].status;
    bool there = true;
    *path = NULL;
    if (status != SWEEP_DONE && status != SWEEP_FAILED)
        return CODE_OK;
    TRY(sweep_path(path, sweep, unit, status == SWEEP_DONE ? ".h5" : ".h5.partial", err));
    int code = status == SWEEP_FAILED ? base_exists(*path, &there, err) : CODE_OK;
    if (code || !there) {
        free(*path);
        *path = NULL;
    }
    return code;
}

/* The values of a point as overrides, behind those that were given. */
static int point_overrides(const struct sweep *sweep, int point, char **override, struct err *err) {
    for (int k = 0, axis; k < sweep->grid.keys; k++) {
        const struct grid_key *key = grid_key(&sweep->grid, k, &axis);
        const char *text = key->text[grid_index(&sweep->grid, point, axis)];
        size_t size = strlen(key->name) + strlen(text) + 4;
        TRY(base_alloc(&override[k], size, 1, err));
        snprintf(override[k], size, "--%s=%s", key->name, text);
    }
    return CODE_OK;
}

int sweep_read_point(const struct sweep *sweep, int point, const char *const *last, struct run *run,
                     struct err *err) {
    const struct grid *grid = &sweep->grid;
    int code, count = 0;
    char **override;
    size_t sections, length = strlen(grid->rest);
    TRY(base_alloc(&override, (size_t)(sweep->overrides + grid->keys) + 2, sizeof *override, err));
    for (int i = 0; i < sweep->overrides; i++)
        if (!grid_given_is(sweep->override[i], NULL))
            override[count++] = sweep->override[i];
    char **const own = override + count;
    DO(point_overrides(sweep, point, own, err));
    count += grid->keys;
    for (; *last; last++)
        override[count++] = (char *)*last;
    DO(config_sections(&run->sections, &sections, err));
    char empty[] = "\n"; /* where all of the sweep is on the command line */
    FILE *stream = fmemopen(length ? grid->rest : empty, length ? length : 1, "r");
    if (!stream)
        code = err_set(err, CODE_SYSTEM, "out of memory: the text of %s", grid->file);
    else
        code = params_read_stream(&run->params, run->sections, sections,
                                  &(struct param_source){grid->file, stream, count, override,
                                                         count - (int)(own - override)},
                                  &run->config, err);
    if (stream)
        fclose(stream);
    if (!code)
        code = config_complete(&run->config, &run->params, err);
done:
    for (int k = 0; k < grid->keys; k++)
        free(own[k]);
    free(override);
    return code;
}

int sweep_unit_read(const struct sweep *sweep, int unit, struct run *run, struct err *err) {
    char widths[48];
    int N = sweep_width(sweep, unit % sweep->columns);
    snprintf(widths, sizeof widths, N ? "--reference.widths=%d" : "--reference.widths=", N);
    run->config.others =
        (struct config_others){.width = !N && sweep->widths.count ? sweep->widths.value[0] : 0,
                               .limit = N && sweep->limit};
    return sweep_read_point(sweep, unit / sweep->columns,
                            (const char *const[]){widths, N ? "--solver.replicates=0" : NULL, NULL},
                            run, err);
}

bool sweep_unit_tell_line(const struct grid *grid, struct err *err) {
    const char *text = err->text;
    for (int k = 0, axis; k < grid->keys; k++) {
        const char *name = grid_key(grid, k, &axis)->name;
        size_t length = strlen(name);
        if (strncmp(text, "--", 2) || strncmp(text + 2, name, length) || text[2 + length] != '=')
            continue;
        int line = grid->axis[axis].line;
        if (line)
            err_set(err, err->code, "%.600s:%d: [sweep] %.1200s", grid->file, line, text + 2);
        else
            err_set(err, err->code, "--sweep.%.1200s", text + 2);
        return true;
    }
    return false;
}

/* Of all that decides the numbers, which states do not. */
static int hash_unit(uint64_t *hash, struct run *run, const struct data *data, struct err *err) {
    char *text = NULL;
    size_t size;
    int code = params_record(&run->params, "output", "checkpoint", "0", err);
    code = code ? code : params_text(&run->params, &text, &size, err);
    if (!code) {
        *hash = base_hash(BASE_HASH, provenance_version, strlen(provenance_version));
        *hash = data_hash(base_hash(*hash, text, size), data);
    }
    free(text);
    return code;
}

/* Of units: their data, and the directions that these have for their optimizer. */
struct inputs {
    struct data data;
    int K;
    bool vary; /* from unit to unit */
};

static int read_inputs(struct run *run, struct inputs *inputs, struct err *err) {
    data_free(&inputs->data);
    TRY(config_data(&run->config, &run->params, &inputs->data, err));
    TRY(config_coordinates(&run->config, &inputs->data, &run->inputs, err));
    inputs->K = run->inputs.K + run->inputs.test_directions;
    return CODE_OK;
}

/* ---- keys that some points do not use ---- */

/* Of each key, in the order of params.values: whether it was left out at a point, kept at one. */
struct uses {
    bool *left, *kept;
};

static size_t rows_of(const struct params *params) {
    size_t count = 0;
    for (size_t s = 0; s < params->count; s++)
        count += params->sections[s].count;
    return count;
}

static void add_uses(struct uses *uses, const struct params *params) {
    for (size_t i = 0; i < rows_of(params); i++) {
        uses->left[i] |= params->values[i].left != 0;
        uses->kept[i] |= params->values[i].line != 0;
    }
}

static bool varies(const struct grid *grid, const char *section, const char *key) {
    char name[256];
    bool found = false;
    snprintf(name, sizeof name, "%s.%s", section, key);
    for (int k = 0; k < grid->keys; k++)
        found = found || !strcmp(grid_key(grid, k, NULL)->name, name);
    return found;
}

/* Whether a key that is varied decides whether this one is used: the network, of its keys and its
 * kinds of sites, or one that the row names. */
static bool waits(const struct grid *grid, const struct param_section *section,
                  const struct param_row *row) {
    const struct param_row *gate;
    const char *cursor = NULL;
    bool found = varies(grid, "network", "model") &&
                 (section->other_keys || !strcmp(section->name, "solver"));
    while (!found && (gate = row_gate(section, row, &cursor)))
        found = varies(grid, section->name, gate->key) || waits(grid, section, gate);
    return found;
}

/* A key that no point uses is refused, for it may be one that is not meant; others are told. */
static int judge_uses(struct sweep *sweep, const struct uses *uses, struct err *err) {
    const struct params *params = &sweep->base.params;
    char list[TEXT_NOTE] = "";
    size_t i = 0;
    for (const struct param_section *s = params->sections; s < params->sections + params->count;
         s++)
        for (size_t r = 0; r < s->count; r++, i++) {
            if (uses->left[i] && !uses->kept[i] && waits(&sweep->grid, s, &s->rows[r]))
                return err_set(err, CODE_INPUT,
                               "%s: [%s] %s: no point of [sweep] uses this key; take it out",
                               sweep->grid.file, s->name, s->rows[r].key);
            if (uses->left[i] && uses->kept[i])
                text_append(list, " %s.%s", s->name, s->rows[r].key);
        }
    if (!*list)
        return CODE_OK;
    struct note *note = notes_add(&sweep->notes, "keys_left_out", "", -1, false, err);
    if (!note)
        return err->code;
    notes_text(note, "some points do not use, and leave out:%s", list);
    note->told = true;
    log_line(&sweep->log, "note: %s", note->text);
    return CODE_OK;
}

/* Checks a unit and gives it its name. */
static int check_unit(struct sweep *sweep, int unit, struct inputs *inputs, struct uses *uses,
                      struct err *err) {
    struct run run = {0};
    int code;
    DO(sweep_unit_read(sweep, unit, &run, err));
    add_uses(uses, &run.params);
    uint64_t *hash = &sweep->unit[unit].hash;
    if (!inputs->data.P || inputs->vary) {
        DO(read_inputs(&run, inputs, err));
        run_free(&run); /* config_data records absolute paths, which are not what was given */
        run = (struct run){0};
        DO(sweep_unit_read(sweep, unit, &run, err));
    }
    run.config.network.parameterization = run.config.network.parameterizations.value[0];
    config_shape(&run.config, &inputs->data);
    sites_begin(&run.config, inputs->K);
    DO(config_check(&run.config, &run.params, inputs->K, err));
    DO(hash_unit(hash, &run, &inputs->data, err));
done:
    run_free(&run);
    if (code == CODE_INPUT && !sweep_unit_tell_line(&sweep->grid, err)) {
        char note[TEXT_NOTE] = "";
        sweep_unit_describe(sweep, unit, note);
        err_set(err, code, "%.1200s (at %.700s)", err->text, note);
    }
    return code;
}

int sweep_unit_check_all(struct sweep *sweep, struct err *err) {
    struct inputs inputs = {0};
    struct uses uses = {0};
    size_t rows = rows_of(&sweep->base.params);
    int code;
    DO(base_alloc(&uses.left, rows, sizeof *uses.left, err));
    DO(base_alloc(&uses.kept, rows, sizeof *uses.kept, err));
    for (int k = 0; k < sweep->grid.keys; k++) {
        const char *name = grid_key(&sweep->grid, k, NULL)->name;
        inputs.vary |= !strncmp(name, "data.", 5) || !strcmp(name, "training.optimizer");
    }
    for (int u = 0; u < sweep->count; u++)
        DO(check_unit(sweep, u, &inputs, &uses, err));
    DO(judge_uses(sweep, &uses, err));
done:
    free(uses.left);
    free(uses.kept);
    data_free(&inputs.data);
    return code;
}
