#define _DEFAULT_SOURCE
#include "solver/run/parts.h"
#include "kernels/array/dist.h"
#include "solver/run/ensemble.h"

#include <time.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAST_TRIED = 4, FEW_STEPS = 2, MORE_STEPS = 8, GROWTH = 4, MOST_PART = 8 };
#define SHORT 0.1  /* seconds */
#define TIMED 0.03 /* seconds that the clock and other work on the machine change little */
enum { LEAST_REPLICATES = 8 };
enum { FEW_SITES = 512 }; /* below it costs are not those of sites */

/* What a process of its own has found: CPU seconds, memory beyond its start, error of the loss. */
struct trial {
    int code;
    struct err err;
    double error, cpu, bytes;
};

/* Standard error over loss, of root mean squares over time. */
static double error_of_loss(const struct record *record) {
    struct err ignored;
    double *mean = NULL, *se = NULL, error = 0, loss = 0;
    if (record->runs < 2 || record_average(record, "loss", &mean, &se, &ignored) || !mean)
        return NAN;
    for (int t = 0; t < record->T; t++) {
        error += isfinite(se[t]) ? se[t] * se[t] : 0;
        loss += isfinite(mean[t]) ? mean[t] * mean[t] : 0;
    }
    free(mean);
    return sqrt(error / loss);
}

/* What is short is done again: the first time it is new memory that takes the time. */
static void run_trial(struct run *run, int N, int runs, struct trial *trial) {
    double before = memory_most();
    run->threads = 1;
    backend_start(1);
    for (int pass = 0; pass < 2 && (!pass || (!trial->code && trial->cpu < SHORT)); pass++) {
        struct record record = {0};
        double start = base_cpu_seconds();
        trial->code = run_ensemble(run, N, runs, &record, &trial->err);
        if (!trial->code && record_failures(&record, &(int){0}))
            trial->code = err_set(&trial->err, CODE_NUMERICAL, "%s", record.failure.text);
        trial->cpu = base_cpu_seconds() - start;
        trial->bytes = pass ? trial->bytes : memory_most() - before;
        trial->error = trial->code ? NAN : error_of_loss(&record);
        record_free(&record);
    }
}

/* Waits until the child has ended; a signal that asks the run to stop is passed on to it. */
static bool await_child(const struct run *run, pid_t child) {
    const struct timespec turn = {.tv_nsec = 2000000};
    pid_t ended;
    while ((ended = waitpid(child, NULL, WNOHANG)) == 0) {
        if (run->stop && *run->stop)
            kill(child, SIGTERM);
        nanosleep(&turn, NULL);
    }
    return ended == child;
}

/* Runs in a process of its own, which finds its memory as it was before other trials. */
static int measure_trial(struct run *run, int N, int runs, struct trial *trial, struct err *err) {
    struct trial *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return err_set(err, CODE_SYSTEM, "out of memory: an estimate");
    *shared = (struct trial){.code = CODE_SYSTEM};
    snprintf(shared->err.text, sizeof shared->err.text, "a trial run has ended early");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        run_trial(run, N, runs, shared);
        _exit(0);
    }
    bool done = child > 0 && await_child(run, child);
    *trial = *shared;
    munmap(shared, sizeof *shared);
    if (run->stop && *run->stop)
        return err_set(err, CODE_INTERRUPTED, "interrupted");
    return done ? CODE_OK : err_set(err, CODE_SYSTEM, "no process for a trial run");
}

/* What one ensemble will cost, all its runs; error: of its mean, and its own share of error. */
struct cost {
    double cpu, bytes, error, known;
};

/* Replicates with so small a part of the sites, which mostly cost as much as one; no more than the
 * run has, so that the trials cost no more than the run. */
static int runs_tried(const struct run *run, int part) {
    int most = run->config.solver.replicates, tried = part > LEAST_TRIED ? part : LEAST_TRIED;
    return part == 1 || most < 2 ? 2 : tried < most ? tried : most;
}

/* The straight line through two points. */
static double line_through(double x0, double y0, double x1, double y1, double x) {
    return x1 > x0 ? fmax(y1, y1 + (y1 - y0) / (x1 - x0) * (x - x1)) : y1;
}

/* Two trials, with 1/part of the sites and twice as many; if there are no more, one. */
static int try_limit(struct run *run, int part, struct trial trial[2], struct err *err) {
    const struct solver_settings before = run->config.solver;
    int code = CODE_OK;
    for (int k = 0; k < (part > 1 ? 2 : 1) && !code; k++) {
        run->config.solver.halves = run->config.solver.grow = false;
        sites_divide(&run->config, k ? part / 2 : part);
        run_split(run);
        code = measure_trial(run, 0, k ? 1 : runs_tried(run, part), &trial[k], err);
        run->config.solver = before;
        if (!code && trial[k].code)
            break;
    }
    run_split(run);
    return code;
}

/* With the fewest sites that its bases fit in. Halves together cost a run more. */
static int of_limit(struct run *run, struct cost *cost, struct err *err) {
    const struct solver_settings *solver = &run->config.solver;
    int part = MOST_PART, replicates = solver->replicates;
    while (part > 2 && solver->sites / part < FEW_SITES)
        part /= 2;
    struct trial trial[2] = {0};
    double runs = replicates * (solver->halves ? 2 : 1) + (solver->check_tolerance ? 1 : 0);
    TRY(try_limit(run, part, trial, err));
    while ((trial[0].code || trial[1].code) && part > 1) {
        part /= 2;
        memset(trial, 0, sizeof trial);
        TRY(try_limit(run, part, trial, err));
    }
    for (int k = 0; k < 2; k++)
        if (trial[k].code)
            return err_set(err, trial[k].code, "a trial with %d sites has failed: %.1800s",
                           solver->sites / (k ? part / 2 : part), trial[k].err.text);
    int tried = runs_tried(run, part);
    trial[0].cpu /= tried;
    trial[1] = part > 1 ? trial[1] : trial[0];
    double sites = solver->sites, few = sites / part, more = part > 1 ? 2 * few : few;
    cost->cpu = runs * line_through(few, trial[0].cpu, more, trial[1].cpu, sites);
    cost->bytes = line_through(few, trial[0].bytes, more, trial[1].bytes, sites);
    cost->error = trial[0].error * sqrt(tried / (double)(part * replicates));
    cost->known = 1 / sqrt(2.0 * (tried - 1));
    return CODE_OK;
}

/* Tries a run of so many steps. */
static int try_steps(struct run *run, int N, int steps, struct trial *trial, struct err *err) {
    int T = run->config.training.steps;
    run->config.training.steps = steps;
    int code = measure_trial(run, N, 1, trial, err);
    run->config.training.steps = T;
    if (!code && trial->code)
        return err_set(err, trial->code, "a trial with N = %d has failed: %.1800s", N,
                       trial->err.text);
    return code;
}

/* Finds the cost of one width, from few steps and from more, so many that they can be timed. */
static int of_networks(struct run *run, int N, struct cost *cost, struct err *err) {
    int T = run->config.training.steps, few = T < FEW_STEPS ? T : FEW_STEPS, more = MORE_STEPS;
    struct trial first, last;
    TRY(try_steps(run, N, few, &first, err));
    do {
        more = more < T ? more : T;
        TRY(try_steps(run, N, more, &last, err));
    } while (last.cpu < TIMED && more < T && (more *= GROWTH));
    double one = more > few ? line_through(few, first.cpu, more, last.cpu, T) : last.cpu;
    *cost = (struct cost){run->config.reference.seeds * one, last.bytes, NAN, NAN};
    return CODE_OK;
}

/* Runs that work at once each have what one has beyond this process. */
static double peak_bytes(const struct run *run, int N, int runs, double bytes) {
    return memory_most() + bytes * ensemble_concurrent(run, N, runs);
}

static void print_row(FILE *stream, const char *what, struct cost cost) {
    fprintf(stream, "%-44s %9.3g s of CPU time  %6.3f GB\n", what, cost.cpu, 1e-9 * cost.bytes);
}

/* Errors fall as one over the root of sites times replicates; with more than sites/64 replicates
 * what is left is the bias of the sites. */
static void print_errors(const struct run *run, struct cost limit, FILE *stream) {
    const struct solver_settings *solver = &run->config.solver;
    const double wanted[] = {0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4};
    double all = (double)solver->sites * solver->replicates;
    fprintf(stream,
            "\nerror of the loss, relative: %.2g %% as it is (this number is known to %.0f %%)\n",
            100 * limit.error, 100 * limit.known);
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        double numbers = all * pow(limit.error / wanted[k], 2), sites = solver->sites;
        if (wanted[k] > limit.error || wanted[k] < limit.error / 30)
            continue;
        while (numbers > sites * sites / SITES_PER_REPLICATE)
            sites *= 2;
        double replicates = fmax(LEAST_REPLICATES, ceil(numbers / sites));
        fprintf(stream, "%9.2g %%   sites = %-9.0f replicates = %-6.0f %9.3g s of CPU time\n",
                100 * wanted[k], sites, replicates, limit.cpu * sites * replicates / all);
    }
}

/* The rows of all ensembles, and with them the file of the run. */
static int print_all(struct run *run, const char *output, FILE *stream, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    int replicates = run->config.solver.replicates, seeds = run->config.reference.seeds;
    struct cost limit = {0}, cost = {0}, all = {0};
    char text[64];
    TRY(run_open(run, output, true, err));
    if (replicates) {
        TRY(of_limit(run, &limit, err));
        limit.bytes = peak_bytes(run, 0, replicates, limit.bytes);
        snprintf(text, sizeof text, "limit, %d replicates of %d sites", replicates,
                 run->config.solver.sites);
        print_row(stream, text, limit);
        all = limit;
    }
    for (int i = 0; i < widths->count; i++) {
        TRY(of_networks(run, widths->value[i], &cost, err));
        cost.bytes = peak_bytes(run, widths->value[i], seeds, cost.bytes);
        snprintf(text, sizeof text, "networks, N = %d, %d seeds", widths->value[i], seeds);
        print_row(stream, text, cost);
        all.cpu += cost.cpu;
        all.bytes = fmax(all.bytes, cost.bytes);
    }
    all.cpu += base_cpu_seconds(); /* of the data */
    print_row(stream, "all, with the data", all);
    if (replicates && limit.error > 0)
        print_errors(run, limit, stream);
    return CODE_OK;
}

int estimate_print(struct run *run, FILE *stream, struct err *err) {
    const char *folder = getenv("TMPDIR");
    FREED(base_free) char *output = NULL, *partial = NULL;
    double room;
    TRY(backend_list[run->config.solver.backend]->open(&room, err));
    if (isfinite(room) || dist_ranks() > 1)
        return err_set(err, CODE_INPUT, "--estimate is of one process on backend = cpu");
    TRY(base_print(&output, err, "%s/dmft_estimate_%ld.h5", folder ? folder : "/tmp",
                   (long)getpid()));
    TRY(base_print(&partial, err, "%s.partial", output));
    run->log.verbose = false;
    run->config.output.checkpoint = 0;
    int code = print_all(run, output, stream, err);
    if (run->io_open)
        io_close(&run->io);
    run->io_open = false;
    unlink(partial);
    return code;
}
