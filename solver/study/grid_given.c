#include "solver/study/grid_given.h"
#include "kernels/base/text.h"

#include <stdlib.h>
#include <string.h>

bool grid_given_is(const char *override, const char **name) {
    static const char *const parts[] = {"sweep", "."};
    override += strncmp(override, "--", 2) ? 0 : 2;
    for (int k = 0; k < 2; k++) {
        override += strspn(override, " \t");
        if (strncmp(override, parts[k], strlen(parts[k])) != 0)
            return false;
        override += strlen(parts[k]);
    }
    if (name)
        *name = override + strspn(override, " \t");
    return true;
}

struct grid_given *grid_given_find(const struct grid *grid, const char *name) {
    for (int i = 0; i < grid->givens; i++)
        if (text_same_key(grid->given[i].name, name))
            return &grid->given[i];
    return NULL;
}

int grid_given_read(struct grid *grid, int overrides, char *const *override, struct err *err) {
    const char *name;
    TRY(base_alloc(&grid->given, (size_t)overrides + 1, sizeof *grid->given, err));
    for (int i = 0; i < overrides; i++) {
        if (!grid_given_is(override[i], &name))
            continue;
        if (text_find_bad(name))
            return err_set(err, CODE_INPUT, "--sweep: a control character or not UTF-8");
        struct grid_given given = {0}, *before;
        TRY(base_copy(&given.name, name, err));
        char *equals = strchr(given.name, '=');
        *equals = '\0';
        given.values = text_trim(equals + 1);
        text_trim(given.name);
        before = grid_given_find(grid, given.name);
        if (before)
            free(before->name);
        *(before ? before : &grid->given[grid->givens++]) = given;
    }
    return CODE_OK;
}

void grid_given_free(struct grid *grid) {
    for (int i = 0; i < grid->givens; i++)
        free(grid->given[i].name);
    free(grid->given);
    grid->given = NULL;
    grid->givens = 0;
}
