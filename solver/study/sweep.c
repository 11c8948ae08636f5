/* A sweep: its units, their processes. A killed parent takes its children along; whatever happens,
 * a unit is either done or will be run again from its beginning. */
#define _GNU_SOURCE
#include "solver/study/sweep.h"
#include "solver/study/sweep_output.h"
#include "kernels/array/dist.h"
#include "solver/files/partial.h"
#include "solver/files/provenance.h"
#include "solver/run/states.h"
#include "kernels/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- units ---- */

int sweep_width(const struct sweep *sweep, int column) {
    return column < sweep->widths.count ? sweep->widths.value[column] : 0;
}

/* Appends "training.eta0 = 0.3, N = 64" to note[TEXT_NOTE]. */
static void describe(const struct sweep *sweep, int unit, char *note) {
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

int sweep_file(char **path, const struct sweep *sweep, const char *name, struct err *err) {
    size_t size = strlen(sweep->folder) + strlen(name) + 2;
    TRY(base_alloc(path, size, 1, err));
    snprintf(*path, size, "%s/%s", sweep->folder, name);
    return CODE_OK;
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
    int code, count = sweep->overrides + grid->keys;
    char **override;
    size_t sections, length = strlen(grid->rest);
    TRY(base_alloc(&override, (size_t)count + 2, sizeof *override, err));
    for (int i = 0; i < sweep->overrides; i++)
        override[i] = sweep->override[i];
    DO(point_overrides(sweep, point, override + sweep->overrides, err));
    for (; *last; last++)
        override[count++] = (char *)*last;
    DO(config_sections(&run->sections, &sections, err));
    FILE *stream = fmemopen(grid->rest, length ? length : 1, "r");
    if (!stream)
        code = err_set(err, CODE_SYSTEM, "out of memory: the text of %s", grid->file);
    else
        code = params_read_stream(&run->params, run->sections, sections, grid->file, stream, count,
                                  override, &run->config, err);
    if (stream)
        fclose(stream);
    if (!code)
        code = config_program(&run->config, &run->params, err);
done:
    for (int k = 0; k < grid->keys; k++)
        free(override[sweep->overrides + k]);
    free(override);
    return code;
}

static int read_unit(const struct sweep *sweep, int unit, struct run *run, struct err *err) {
    char widths[48];
    int N = sweep_width(sweep, unit % sweep->columns);
    snprintf(widths, sizeof widths, N ? "--reference.widths=%d" : "--reference.widths=", N);
    return sweep_read_point(sweep, unit / sweep->columns,
                            (const char *const[]){widths, N ? "--solver.replicates=0" : NULL, NULL},
                            run, err);
}

/* A refused value of a point came as an override "--section.key=value": tells its line instead. */
static bool tell_line(const struct grid *grid, struct err *err) {
    const char *text = err->text;
    for (int k = 0, axis; k < grid->keys; k++) {
        const char *name = grid_key(grid, k, &axis)->name;
        size_t length = strlen(name);
        if (strncmp(text, "--", 2) || strncmp(text + 2, name, length) || text[2 + length] != '=')
            continue;
        err_set(err, err->code, "%.600s:%d: [sweep] %.1200s", grid->file, grid->axis[axis].line,
                text + 2);
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
    int rest;
    data_free(&inputs->data);
    TRY(config_data(&run->config, &run->params, &inputs->data, err));
    TRY(config_coordinates(&run->config, &inputs->data, &run->A, &inputs->K, &rest, err));
    inputs->K += rest;
    return CODE_OK;
}

/* Checks a unit and gives it its name. */
static int check_unit(struct sweep *sweep, int unit, struct inputs *inputs, struct err *err) {
    struct run run = {0};
    int code;
    DO(read_unit(sweep, unit, &run, err));
    uint64_t *hash = &sweep->unit[unit].hash;
    if (!inputs->data.X || inputs->vary) {
        DO(read_inputs(&run, inputs, err));
        run_free(&run); /* config_data records absolute paths, which are not what was given */
        run = (struct run){0};
        DO(read_unit(sweep, unit, &run, err));
    }
    run.config.network.parameterization = run.config.network.parameterizations.value[0];
    config_shape(&run.config, &inputs->data);
    DO(config_check(&run.config, &run.params, inputs->K, err));
    DO(hash_unit(hash, &run, &inputs->data, err));
done:
    run_free(&run);
    if (code == CODE_INPUT && !tell_line(&sweep->grid, err)) {
        char note[TEXT_NOTE] = "";
        describe(sweep, unit, note);
        err_set(err, code, "%.1200s (at %.700s)", err->text, note);
    }
    return code;
}

static int check_units(struct sweep *sweep, struct err *err) {
    struct inputs inputs = {0};
    int code = CODE_OK;
    for (int k = 0; k < sweep->grid.keys; k++) {
        const char *name = grid_key(&sweep->grid, k, NULL)->name;
        inputs.vary |= !strncmp(name, "data.", 5) || !strcmp(name, "training.optimizer");
    }
    for (int u = 0; u < sweep->count; u++)
        DO(check_unit(sweep, u, &inputs, err));
done:
    data_free(&inputs.data);
    return code;
}

/* ---- the folder ---- */

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
    TRY(sweep_path(&done, sweep, unit, ".h5", err));
    int code = sweep_path(&sum, sweep, unit, ".sum", err);
    if (!code)
        code = sweep_path(&failed, sweep, unit, ".failed", err);
    if (!code && !access(done, F_OK)) {
        sweep->unit[unit].status = SWEEP_DONE;
        code = partial_verify(done, sum, err);
        if (code == CODE_INPUT)
            err_set(err, code, "%.1600s; delete it, and it will be run again", err->text);
    } else if (!code && !retry && !access(failed, F_OK))
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
    TRY(grid_read(&sweep->grid, file, err));
    TRY(sweep_ini_place(sweep, err));
    TRY(sweep_ini_check(sweep, err));
    int code = sweep_read_point(sweep, 0, (const char *const[]){NULL}, &sweep->base, err);
    if (code)
        tell_line(&sweep->grid, err);
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
    TRY(check_units(sweep, err));
    return open_folder(sweep, force, retry, err);
}

void sweep_free(struct sweep *sweep) {
    log_close(&sweep->log);
    grid_free(&sweep->grid);
    run_free(&sweep->base);
    free(sweep->unit);
    free(sweep->output);
    if (sweep->folder && sweep->lock >= 0)
        close(sweep->lock); /* and the lock with it */
    free(sweep->folder);
    sweep->unit = NULL;
    sweep->output = sweep->folder = NULL;
}

/* ---- processes ---- */

struct worker {
    pid_t pid; /* 0: idle */
    int unit;
    double start;
};

struct team {
    struct sweep *sweep;
    int jobs, done;        /* done: units, for the log */
    struct worker *worker; /* [jobs] */
    struct err *err;       /* [jobs] shared with the children */
};

static int interrupted(struct err *err) {
    return err_set(err, CODE_INTERRUPTED, "interrupted; the same command goes on from here");
}

/* The file of a unit that starts, without what a run that was cut has left. */
static int fresh_path(char **path, const struct sweep *sweep, int unit, struct err *err) {
    char *partial;
    TRY(sweep_path(&partial, sweep, unit, ".h5.partial", err));
    unlink(partial);
    free(partial);
    return sweep_path(path, sweep, unit, ".h5", err);
}

/* The file of a unit, and beside it, once it is complete, its sum. */
static int open_file(const struct sweep *sweep, int unit, const char *path, struct run *run,
                     struct err *err) {
    char *sum;
    run->go_on = true;
    TRY(run_open(run, path, true, err));
    TRY(sweep_path(&sum, sweep, unit, ".sum", err));
    run->io.sum = sum;
    return CODE_OK;
}

static int solve(const struct sweep *sweep, int unit, const char *path, struct err *err) {
    struct run run = {.stop = sweep->stop, .program = "dmft-sweep"};
    int code;
    DO(read_unit(sweep, unit, &run, err));
    DO(run_prepare(&run, err));
    DO(open_file(sweep, unit, path, &run, err));
    DO(run_march(&run, err));
    DO(run_failures(&run, true, err));
    DO(run_finish(&run, true, err));
done:
    run_free(&run);
    return code;
}

/* The child's whole life. Its parent's cores are shared out among the jobs. */
static void child(const struct team *team, int w, const char *path, pid_t parent) {
    int cores = omp_get_max_threads() / team->jobs;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(CODE_INTERRUPTED);
    omp_set_num_threads(cores > 1 ? cores : 1);
    _exit(solve(team->sweep, team->worker[w].unit, path, &team->err[w]));
}

static int start(struct team *team, int w, int unit, struct err *err) {
    struct worker *worker = &team->worker[w];
    pid_t parent = getpid();
    char *path;
    int code = CODE_OK;
    TRY(fresh_path(&path, team->sweep, unit, err));
    *worker = (struct worker){.unit = unit, .start = base_seconds()};
    memset(&team->err[w], 0, sizeof *team->err);
    worker->pid = fork();
    if (!worker->pid)
        child(team, w, path, parent);
    if (worker->pid < 0) {
        worker->pid = 0;
        code = err_set(err, CODE_SYSTEM, "cannot start a process: %s", strerror(errno));
    }
    team->sweep->unit[unit].status = SWEEP_RUNNING;
    free(path);
    return code;
}

/* A unit has ended with this code and message: done, diverged (kept in a file), or a reason to
 * stop. *done: how many have. */
static int settle(struct sweep *sweep, int number, int code, const char *text, double start,
                  int *done, struct err *err) {
    struct sweep_unit *unit = &sweep->unit[number];
    char note[TEXT_NOTE] = "", *path;
    describe(sweep, number, note);
    unit->status = code == CODE_OK          ? SWEEP_DONE
                   : code == CODE_NUMERICAL ? SWEEP_FAILED
                                            : SWEEP_PENDING;
    if (code == CODE_INTERRUPTED)
        return interrupted(err);
    if (unit->status == SWEEP_PENDING)
        return err_set(err, code, "%.700s: %.1200s", note, text);
    log_line(&sweep->log, "%d/%d  %s  %.1f s%s%s", ++*done, sweep->count, note,
             base_seconds() - start, code ? "  failed: " : "", code ? text : "");
    if (unit->status == SWEEP_DONE)
        return CODE_OK;
    TRY(sweep_path(&path, sweep, number, ".failed", err));
    code = partial_write(path, NULL, text, strlen(text), err);
    free(path);
    return code;
}

static int finish(struct team *team, int w, int status, struct err *err) {
    struct worker *worker = &team->worker[w];
    char text[64];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : CODE_SYSTEM;
    worker->pid = 0;
    snprintf(text, sizeof text, "the process was ended by signal %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return settle(team->sweep, worker->unit, code, WIFSIGNALED(status) ? text : team->err[w].text,
                  worker->start, &team->done, err);
}

/* Ends of children, without waiting. The first failure is kept. */
static int reap(struct team *team, struct err *err) {
    int code = CODE_OK;
    for (int w = 0; w < team->jobs; w++) {
        struct err mine;
        int status;
        pid_t pid = team->worker[w].pid;
        if (pid && waitpid(pid, &status, WNOHANG) == pid) {
            int failed = finish(team, w, status, &mine);
            if (failed && !code) {
                code = failed;
                *err = mine;
            }
        }
    }
    return code;
}

/* The next pending unit into every idle place; *left: whether there are more. */
static int deal(struct team *team, bool *left, struct err *err) {
    struct sweep *sweep = team->sweep;
    int w = 0;
    *left = false;
    for (int u = 0; u < sweep->count && !*left; u++) {
        if (sweep->unit[u].status != SWEEP_PENDING)
            continue;
        while (w < team->jobs && team->worker[w].pid)
            w++;
        *left = w == team->jobs;
        if (!*left)
            TRY(start(team, w, u, err));
    }
    return CODE_OK;
}

/* Until nothing is pending and nobody busy. After a failure or a signal nothing is started, and the
 * children are asked to end. */
static int supervise(struct team *team, struct err *err) {
    const struct timespec pause = {.tv_nsec = 5000000};
    int code = CODE_OK;
    bool left = true, busy;
    do {
        struct err mine;
        int failed = reap(team, &mine);
        if (!code && !failed && team->sweep->stop && *team->sweep->stop)
            failed = interrupted(&mine);
        if (!code && !failed)
            failed = deal(team, &left, &mine);
        if (failed && !code) {
            code = failed;
            *err = mine;
            for (int w = 0; w < team->jobs; w++)
                if (team->worker[w].pid)
                    kill(team->worker[w].pid, SIGTERM);
        }
        busy = false;
        for (int w = 0; w < team->jobs; w++)
            busy = busy || team->worker[w].pid;
        nanosleep(&pause, NULL);
    } while (busy || (!code && left));
    return code;
}

static int count_done(struct sweep *sweep, int jobs) {
    int done = 0;
    for (int u = 0; u < sweep->count; u++)
        done += sweep->unit[u].status != SWEEP_PENDING;
    log_line(&sweep->log, "%d runs, %d of them done, %d at a time", sweep->count, done, jobs);
    return done;
}

int sweep_work(struct sweep *sweep, int jobs, struct err *err) {
    struct team team = {.sweep = sweep, .jobs = jobs, .done = count_done(sweep, jobs)};
    TRY(base_alloc(&team.worker, (size_t)jobs, sizeof *team.worker, err));
    void *shared = mmap(NULL, (size_t)jobs * sizeof *team.err, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code;
    if (shared == MAP_FAILED) {
        code = err_set(err, CODE_SYSTEM, "out of memory: %d processes", jobs);
    } else {
        team.err = shared;
        code = supervise(&team, err);
        munmap(shared, (size_t)jobs * sizeof *team.err);
    }
    free(team.worker);
    return code;
}

/* ---- ranks: a round is one unit for each ---- */

struct round {
    int count;       /* 0: the end */
    int *unit;       /* [count] on rank 0 */
    struct run *run; /* [count] */
    double start;
};

/* The next pending units of one column, which cost about the same, the most expensive column first.
 */
static void choose_units(const struct sweep *sweep, struct round *round) {
    round->count = 0;
    for (int column = sweep->columns - 1; column >= 0 && !round->count; column--)
        for (int u = column; u < sweep->count && round->count < dist_ranks(); u += sweep->columns)
            if (sweep->unit[u].status == SWEEP_PENDING)
                round->unit[round->count++] = u;
}

/* Number k of the round on all ranks; its file on rank 0. */
static int open_unit(struct sweep *sweep, const struct round *round, int k, struct err *err) {
    struct run *run = &round->run[k];
    char *path;
    *run = (struct run){.whole = true, .rank = k, .stop = sweep->stop, .program = "dmft-sweep"};
    if (!dist_rank())
        TRY(read_unit(sweep, round->unit[k], run, err));
    TRY(run_prepare(run, err));
    if (dist_rank())
        return states_share(run, err);
    TRY(fresh_path(&path, sweep, round->unit[k], err));
    int code = open_file(sweep, round->unit[k], path, run, err);
    free(path);
    return code;
}

/* The first failure is kept: all ranks have it. */
static int work_round(struct sweep *sweep, const struct round *round, int *done, struct err *err) {
    int code = CODE_OK;
    for (int k = 0; k < round->count; k++)
        TRY(open_unit(sweep, round, k, err));
    for (int k = 0; k < round->count; k++)
        TRY(run_compute(&round->run[k], err));
    for (int k = 0; k < round->count; k++) {
        struct err mine;
        int failed = run_collect(&round->run[k], &mine);
        failed = failed ? failed : run_failures(&round->run[k], true, &mine);
        failed = failed ? failed : run_finish(&round->run[k], true, &mine);
        if (!dist_rank())
            failed = settle(sweep, round->unit[k], failed, mine.text, round->start, done, &mine);
        if (failed && failed != CODE_NUMERICAL && !code) {
            code = failed;
            *err = mine;
        }
    }
    return code;
}

int sweep_work_by_ranks(struct sweep *sweep, struct err *err) {
    struct round round = {0};
    int code, ranks = dist_ranks(), done = dist_rank() ? 0 : count_done(sweep, ranks);
    DO(base_alloc(&round.unit, (size_t)ranks, sizeof *round.unit, err));
    DO(base_alloc(&round.run, (size_t)ranks, sizeof *round.run, err));
    for (bool more = true; more && !code;) {
        if (!dist_rank() && !*sweep->stop)
            choose_units(sweep, &round);
        dist_broadcast(&round.count, sizeof round.count, 0);
        round.start = base_seconds();
        code = work_round(sweep, &round, &done, err);
        for (int k = 0; k < round.count; k++)
            run_free(&round.run[k]);
        more = round.count > 0;
        round.count = 0;
    }
    if (!code && !dist_rank() && *sweep->stop)
        code = interrupted(err);
done:
    free(round.unit);
    free(round.run);
    return code;
}
