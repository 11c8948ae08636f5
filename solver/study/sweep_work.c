/* The work of a sweep, by processes or by ranks. A killed parent takes its children along; whatever
 * happens, a unit is either done or will be run again, from its states where it has left some. */
#define _GNU_SOURCE
#include "kernels/array/dist.h"
#include "kernels/base/text.h"
#include "solver/files/partial.h"
#include "solver/run/states.h"
#include "solver/study/sweep_unit.h"

#include <errno.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- a unit ---- */

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
    run->states.resume = true;
    TRY(run_open(run, path, true, err));
    TRY(sweep_path(&sum, sweep, unit, ".sum", err));
    run->io.sum = sum;
    return CODE_OK;
}

/* A unit has ended with this code and message: done, diverged (kept in a file), or a reason to
 * stop. *done: how many have. */
static int settle(struct sweep *sweep, int number, int code, const char *text, double start,
                  int *done, struct err *err) {
    struct sweep_unit *unit = &sweep->unit[number];
    char note[TEXT_NOTE] = "", *path;
    sweep_unit_describe(sweep, number, note);
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

static int count_done(struct sweep *sweep, int jobs) {
    int done = 0;
    for (int u = 0; u < sweep->count; u++)
        done += sweep->unit[u].status != SWEEP_PENDING;
    log_line(&sweep->log, "%d runs, %d of them done, %d at a time", sweep->count, done, jobs);
    return done;
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

static int solve(const struct sweep *sweep, int unit, const char *path, struct err *err) {
    struct run run = {.stop = sweep->stop, .program = "dmft-sweep"};
    int code;
    DO(sweep_unit_read(sweep, unit, &run, err));
    DO(run_prepare(&run, err));
    DO(open_file(sweep, unit, path, &run, err));
    DO(run_march(&run, err));
    DO(run_failures(&run, true, err));
    DO(run_finish(&run, true, err));
done:
    if (code == CODE_NUMERICAL) /* a point has nothing to change: it would fail again */
        states_done(&run);
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
    *run = (struct run){
        .share.whole = true, .share.rank = k, .stop = sweep->stop, .program = "dmft-sweep"};
    if (!dist_rank())
        TRY(sweep_unit_read(sweep, round->unit[k], run, err));
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
        if (failed == CODE_NUMERICAL && !dist_rank())
            states_done(&round->run[k]);
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
