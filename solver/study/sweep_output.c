/* Whether a sweep may replace its output (sweep_output.h). */
#define _POSIX_C_SOURCE 200809L
#include "solver/study/sweep_output.h"
#include "solver/files/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_unit(const struct sweep *sweep, const char *file) {
    char name[24];
    for (int u = 0; u < sweep->count; u++) {
        snprintf(name, sizeof name, "%016llx.h5", (unsigned long long)sweep->unit[u].hash);
        if (!strcmp(name, file))
            return true;
    }
    return false;
}

/* HASH.h5 lies in the folder, or HASH.failed. */
static bool is_kept(const struct sweep *sweep, const char *file) {
    size_t size = strlen(sweep->folder) + strlen(file) + sizeof "/.failed";
    int stem = (int)strcspn(file, ".");
    char path[size];
    snprintf(path, size, "%s/%s", sweep->folder, file);
    if (!access(path, F_OK))
        return true;
    snprintf(path, size, "%s/%.*s.failed", sweep->folder, stem, file);
    return !access(path, F_OK);
}

bool sweep_output_replaceable(const struct sweep *sweep) {
    struct err ignored;
    char *program, **file = NULL;
    int count = 0;
    bool mine = !result_program(sweep->output, &program, &ignored) &&
                !strcmp(program, "dmft-sweep") &&
                !result_texts(sweep->output, "sweep/file", &file, &count, &ignored);
    for (int k = 0; k < count; k++) {
        mine = mine && (is_unit(sweep, file[k]) || is_kept(sweep, file[k]));
        free(file[k]);
    }
    free(file);
    free(program);
    return mine;
}
