/* A sweep that is done, to be looked at again. */
#define _POSIX_C_SOURCE 200809L
#include "solver/study/sweep.h"
#include "solver/files/result.h"
#include "solver/files/result_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The name of a unit, HASH.h5, and what became of it. */
static int recall_unit(struct sweep *sweep, int unit, const char *file, struct err *err) {
    char *done, *failed = NULL, rest;
    unsigned long long hash;
    if (sscanf(file, "%16llx.h%c", &hash, &rest) != 2)
        return err_set(err, CODE_INPUT, "%.1200s: %.200s is no name of a run", sweep->output, file);
    sweep->unit[unit].hash = hash;
    TRY(sweep_path(&done, sweep, unit, ".h5", err));
    int code = sweep_path(&failed, sweep, unit, ".failed", err);
    if (!code && !access(done, R_OK))
        sweep->unit[unit].status = SWEEP_DONE;
    else if (!code && !access(failed, F_OK))
        sweep->unit[unit].status = SWEEP_FAILED;
    else if (!code)
        code = err_set(err, CODE_INPUT,
                       "%.1600s: this run is missing; the same dmft-sweep that "
                       "made it makes it again",
                       done);
    free(done);
    free(failed);
    return code;
}

static int recall_units(struct sweep *sweep, char *const *file, int count, const double *N,
                        int widths, struct err *err) {
    sweep->limit = widths > 0 && isinf(N[widths - 1]);
    sweep->columns = widths;
    sweep->count = sweep->grid.points * widths;
    sweep->widths.count = widths - sweep->limit;
    if (count != sweep->count || sweep->widths.count > INT_LIST_MAX)
        return err_set(err, CODE_INPUT, "%.1200s: its runs are not those of its ini",
                       sweep->output);
    for (int c = 0; c < sweep->widths.count; c++)
        sweep->widths.value[c] = (int)N[c];
    TRY(base_alloc(&sweep->unit, (size_t)count, sizeof *sweep->unit, err));
    for (int u = 0; u < count; u++)
        TRY(recall_unit(sweep, u, file[u], err));
    return CODE_OK;
}

int sweep_reopen(struct sweep *sweep, const char *output, struct err *err) {
    char *ini = NULL, **file = NULL;
    double *N = NULL;
    int count = 0, widths, code;
    sweep->lock = -1;
    TRY(base_copy(&sweep->output, output, err));
    DO(sweep_name_folder(sweep, err));
    DO(result_runs_ini(output, &ini, err));
    DO(result_texts(output, "sweep/file", &file, &count, err));
    DO(result_runs_numbers(output, "sweep/N", &N, &widths, err));
    DO(grid_read_text(&sweep->grid, output, ini, err));
    DO(sweep_read_point(sweep, 0, (const char *const[]){NULL}, &sweep->base, err));
    DO(recall_units(sweep, file, count, N, widths, err));
done:
    for (int k = 0; k < count; k++)
        free(file[k]);
    free(file);
    free(N);
    free(ini);
    return code;
}
