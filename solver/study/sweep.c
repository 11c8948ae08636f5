/* A sweep, as its ini and its folder say: opened, looked up, freed. */
#define _GNU_SOURCE
#include "solver/study/sweep.h"
#include "solver/files/partial.h"
#include "solver/study/sweep_output.h"
#include "solver/study/sweep_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sweep_file(char **path, const struct sweep *sweep, const char *name, struct err *err) {
    size_t size = strlen(sweep->folder) + strlen(name) + 2;
    TRY(base_alloc(path, size, 1, err));
    snprintf(*path, size, "%s/%s", sweep->folder, name);
    return CODE_OK;
}

/* Where files cannot be locked (some network file systems) nobody else is seen, as with results. */
static int lock_folder(struct sweep *sweep, struct err *err) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    size_t size = strlen(sweep->folder) + 8;
    char *path;
    TRY(base_alloc(&path, size, 1, err));
    snprintf(path, size, "%s/lock", sweep->folder);
    sweep->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int code = CODE_OK;
    if (sweep->lock < 0)
        code = err_set(err, CODE_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    else if (fcntl(sweep->lock, F_SETLK, &whole) && (errno == EAGAIN || errno == EACCES))
        code = err_set(err, CODE_INPUT, "another dmft-sweep is at work in %s", sweep->folder);
    free(path);
    return code;
}

/* What is done; with retry, failures are forgotten. */
static int look_up(struct sweep *sweep, int unit, bool retry, struct err *err) {
    char *done, *sum = NULL, *failed = NULL;
    bool is_done = false, has_failed = false;
    TRY(sweep_path(&done, sweep, unit, ".h5", err));
    int code = sweep_path(&sum, sweep, unit, ".sum", err);
    if (!code)
        code = sweep_path(&failed, sweep, unit, ".failed", err);
    if (!code)
        code = base_exists(done, &is_done, err);
    if (!code)
        code = base_exists(failed, &has_failed, err);
    if (!code && is_done) {
        sweep->unit[unit].status = SWEEP_DONE;
        code = partial_verify(done, sum, err);
        if (code == CODE_INPUT)
            err_set(err, code, "%.1600s; delete it, and it will be run again", err->text);
    } else if (!code && !retry && has_failed)
        sweep->unit[unit].status = SWEEP_FAILED;
    else if (!code)
        unlink(failed);
    free(done);
    free(sum);
    free(failed);
    return code;
}

int sweep_name_folder(struct sweep *sweep, struct err *err) {
    size_t length = strlen(sweep->output);
    bool suffix = length > 3 && !strcmp(sweep->output + length - 3, ".h5");
    TRY(base_alloc(&sweep->folder, length + 3, 1, err));
    memcpy(sweep->folder, sweep->output, suffix ? length - 3 : length);
    strcat(sweep->folder, ".d");
    return CODE_OK;
}

static int open_folder(struct sweep *sweep, bool force, bool retry, struct err *err) {
    TRY(sweep_name_folder(sweep, err));
    TRY(partial_check(sweep->output, force || sweep_output_replaceable(sweep), err));
    if (mkdir(sweep->folder, 0777) && errno != EEXIST)
        return err_set(err, CODE_SYSTEM, "cannot make the folder %s: %s", sweep->folder,
                       strerror(errno));
    TRY(lock_folder(sweep, err));
    for (int u = 0; u < sweep->count; u++)
        TRY(look_up(sweep, u, retry, err));
    return CODE_OK;
}

int sweep_open(struct sweep *sweep, const char *file, int overrides, char *const *override,
               const char *output, bool force, bool retry, struct err *err) {
    sweep->overrides = overrides;
    sweep->override = override;
    sweep->lock = -1;
    TRY(base_copy(&sweep->output, output, err));
    TRY(grid_read(&sweep->grid, file, overrides, override, err));
    TRY(sweep_ini_place(sweep, err));
    TRY(sweep_ini_check(sweep, err));
    int code = sweep_read_point(sweep, 0, (const char *const[]){NULL}, &sweep->base, err);
    if (code)
        sweep_unit_tell_line(&sweep->grid, err);
    TRY(code);
    TRY(sweep_ini_base(sweep, err));
    sweep->widths = sweep->base.config.reference.widths;
    sweep->limit = sweep->base.config.solver.replicates > 0;
    sweep->columns = sweep->widths.count + sweep->limit;
    sweep->count = sweep->grid.points * sweep->columns;
    if (!sweep->columns)
        return params_error(&sweep->base.params, "solver", "replicates", err,
                            "without a limit there must be [reference] widths");
    TRY(base_alloc(&sweep->unit, (size_t)sweep->count, sizeof *sweep->unit, err));
    TRY(sweep_unit_check_all(sweep, err));
    return open_folder(sweep, force, retry, err);
}

void sweep_free(struct sweep *sweep) {
    log_close(&sweep->log);
    grid_free(&sweep->grid);
    run_free(&sweep->base);
    notes_free(&sweep->notes);
    free(sweep->unit);
    free(sweep->output);
    if (sweep->folder && sweep->lock >= 0)
        close(sweep->lock); /* and the lock with it */
    free(sweep->folder);
    sweep->unit = NULL;
    sweep->output = sweep->folder = NULL;
}
