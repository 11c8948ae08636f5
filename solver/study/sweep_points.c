/* A sweep as data: what its ini says without [sweep], and the axes of its grid. */
#include "solver/study/sweep.h"
#include "models/engine/describe.h"

#include <stdlib.h>

static bool add_values(json_t *values, const struct grid_axis *axis) {
    bool whole = true;
    for (int i = 0; i < axis->count; i++) {
        json_t *point = json_array();
        for (int k = 0; k < axis->keys; k++)
            whole &= !json_array_append_new(point, json_string(axis->key[k].text[i]));
        whole &= !json_array_append_new(values, point);
    }
    return whole;
}

static bool add_axis(json_t *axes, const struct grid_axis *axis) {
    json_t *keys = json_array(), *values = json_array();
    bool whole = add_values(values, axis);
    for (int k = 0; k < axis->keys; k++)
        whole &= !json_array_append_new(keys, json_string(axis->key[k].name));
    whole &= !json_array_append_new(axes, json_pack("{s:o, s:o}", "keys", keys, "values", values));
    return whole;
}

static int write_points(const struct grid *grid, const char *ini, char **text, struct err *err) {
    json_t *axes = json_array(), *all;
    bool whole = true;
    for (int a = 0; a < grid->axes; a++)
        whole &= add_axis(axes, &grid->axis[a]);
    all = json_pack("{s:s, s:o}", "ini", ini, "axes", axes);
    int code = describe_text(whole ? all : NULL, "the points of a sweep", text, err);
    json_decref(all);
    return code;
}

int sweep_points(struct sweep *sweep, const char *file, int overrides, char *const *override,
                 char **text, struct err *err) {
    char *given = NULL;
    size_t size;
    sweep->overrides = overrides;
    sweep->override = override;
    TRY(grid_read(&sweep->grid, file, overrides, override, err));
    TRY(sweep_ini_place(sweep, err));
    TRY(sweep_ini_check(sweep, err));
    TRY(sweep_read_point(sweep, 0, (const char *const[]){NULL}, &sweep->base, err));
    TRY(sweep_ini_base(sweep, err));
    int code = params_given(&sweep->base.params, &given, &size, err);
    if (!code)
        code = write_points(&sweep->grid, given, text, err);
    free(given);
    return code;
}
