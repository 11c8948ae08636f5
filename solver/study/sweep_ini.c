/* The ini of a sweep: its paths, its overrides, and the text that repeats it. */
#define _XOPEN_SOURCE 700
#include "solver/study/sweep.h"
#include "kernels/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sweep_ini_place(struct sweep *sweep, struct err *err) {
    struct grid *grid = &sweep->grid;
    struct params params = {0};
    struct param_section *sections;
    int code = CODE_OK;
    TRY(config_sections(&sections, &params.count, err));
    params.sections = sections;
    for (int k = 0, a; k < grid->keys && !code; k++) {
        const struct grid_key *key = grid_key(grid, k, &a);
        for (int i = 0; i < grid->axis[a].count && !code && params_is_path(&params, key->name);
             i++) {
            char *path;
            code = params_beside(&path, grid->axis[a].line ? grid->file : "", key->text[i], err);
            if (code)
                continue;
            free(key->text[i]);
            key->text[i] = path;
        }
    }
    free(sections);
    return code;
}

int sweep_ini_base(struct sweep *sweep, struct err *err) {
    struct run *base = &sweep->base;
    for (int k = 0; k < sweep->grid.keys; k++)
        if (!strcmp(grid_key(&sweep->grid, k, NULL)->name, "network.program"))
            TRY(params_record(&base->params, "network", "program_text", "", err));
    base->config.network.script.text = params_find(&base->params, "network", "program_text")->text;
    return CODE_OK;
}

int sweep_ini_check(const struct sweep *sweep, struct err *err) {
    for (int i = 0; i < sweep->overrides; i++)
        for (int k = 0; k < sweep->grid.keys; k++) {
            const char *text = sweep->override[i], *key = grid_key(&sweep->grid, k, NULL)->name;
            text += strncmp(text, "--", 2) ? 0 : 2;
            if (text_same_key(text, key))
                return err_set(err, CODE_INPUT, "--%.700s: [sweep] varies this key", text);
        }
    return CODE_OK;
}

static const char whole_text[] = "a sweep";

/* A line of [sweep] as one value of an ini; paths are absolute, unless that could not be read back.
 */
static int axis_text(char **text, const struct sweep *sweep, const struct grid_axis *axis,
                     struct err *err) {
    FILE *out;
    size_t size;
    bool commas = false;
    TRY(base_text_begin(&out, text, &size, whole_text, err));
    for (int i = 0; i < axis->count; i++)
        for (int k = 0; k < axis->keys; k++)
            commas = commas || strpbrk(axis->key[k].text[i], " \t");
    for (int i = 0; i < axis->count; i++)
        for (int k = 0; k < axis->keys; k++) {
            const struct grid_key *key = &axis->key[k];
            char *whole = params_is_path(&sweep->base.params, key->name)
                              ? realpath(key->text[i], NULL)
                              : NULL;
            bool plain = whole && !strpbrk(whole, " \t|,");
            const char *between = k ? commas ? ", " : " " : i ? " | " : "";
            fprintf(out, "%s%s", between, plain ? whole : key->text[i]);
            free(whole);
        }
    return base_text_end(out, whole_text, CODE_OK, err);
}

int sweep_ini_text(char **text, const struct sweep *sweep, struct err *err) {
    char *given = NULL, *values = NULL;
    size_t size;
    FILE *out;
    int code;
    TRY(base_text_begin(&out, text, &size, whole_text, err));
    DO(params_given(&sweep->base.params, &given, &size, err));
    fprintf(out, "%s\n[sweep]\n", given);
    const char *const setting[][2] = {{"objective", sweep->grid.objective},
                                      {"along", sweep->grid.along},
                                      {"columns", sweep->grid.columns}};
    for (size_t k = 0; k < sizeof setting / sizeof *setting; k++)
        if (setting[k][1]) {
            fprintf(out, "%s = ", setting[k][0]);
            params_write_value(setting[k][1], out);
        }
    for (int a = 0; a < sweep->grid.axes; a++) {
        const struct grid_axis *axis = &sweep->grid.axis[a];
        DO(axis_text(&values, sweep, axis, err));
        fprintf(out, "%s = ", axis->name);
        params_write_value(values, out);
        free(values);
        values = NULL;
    }
done:
    code = base_text_end(out, whole_text, code, err);
    free(given);
    free(values);
    if (code) {
        free(*text);
        *text = NULL;
    }
    return code;
}
