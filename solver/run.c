/* The life of a run. Replicates and seeds are independent: each rank, and in it each thread, takes
 * whole runs; only where there is a single one for all threads, or fewer than ranks, do the
 * operations inside it share out their blocks of sites. Either way the numbers are the same.
 *
 * Every rank works on its own runs of all ensembles and keeps quiet about how that ends; then all
 * ranks exchange what they have, and the failure of the lowest run, if any, is that of all. Rank 0,
 * the only one with an open file, writes. */
#include "kernels/profile.h"
#include "solver/run.h"
#include "integrators/batch.h"
#include "kernels/dist.h"
#include "solver/observe.h"
#include "solver/provenance.h"
#include "solver/share.h"
#include "solver/sweeps.h"
#include "solver/text.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int run_configure(struct run *run, const char *file, int overrides, char *const *override,
                  struct err *err) {
    size_t sections;
    if (!dist_rank()) {
        TRY(config_sections(&run->sections, &sections, err));
        TRY(params_read(&run->params, run->sections, sections, file, overrides, override,
                        &run->config, err));
    }
    return run_prepare(run, err);
}

/* The parameterization of this run; the record has it alone. */
static int choose(struct run *run, struct err *err) {
    struct network *network = &run->config.network;
    const struct int_list *given = &network->parameterizations;
    const char *text = params_find(&run->params, "network", "parameterization")->text;
    struct text_word word = {0};
    char name[TEXT_CLIP];
    int side = run->side ? run->side : 1;
    if (!run->side && given->count > 1)
        return params_error(&run->params, "network", "parameterization", err,
                            "dmft-compare sets several side by side; here it must be one");
    for (int k = 0; k < side; k++)
        text_next_word(&text, " \t", &word);
    snprintf(name, sizeof name, "%.*s", (int)word.length, word.text);
    network->parameterization = given->value[side - 1];
    return params_record(&run->params, "network", "parameterization", name, err);
}

/* The sites of the limit are shared out where there are fewer replicates than ranks and blocks
 * enough. */
static void share_sites(struct run *run) {
    const struct solver_settings *solver = &run->config.solver;
    int ranks = run->whole ? 1 : dist_ranks();
    const struct backend *backend = backend_list[solver->backend];
    run->config.shared = (struct backend){0};
    if (!backend->can_share || solver->replicates >= ranks || solver->sites < ranks * BACKEND_BLOCK)
        return;
    run->config.shared = *backend;
    run->config.shared.shared = true;
}

int run_prepare(struct run *run, struct err *err) {
    size_t sections = run->params.count;
    if (dist_rank())
        TRY(config_sections(&run->sections, &sections, err));
    TRY(share_params(&run->params, run->sections, sections, &run->config, err));
    TRY(choose(run, err));
    if (!dist_rank())
        TRY(config_data(&run->config, &run->params, &run->data, err));
    TRY(share_data(&run->data, err));
    TRY(config_coordinates(&run->config, &run->data, &run->A, &run->K, &run->rest, err));
    TRY(config_check(&run->config, &run->params, run->K + run->rest, err));
    share_sites(run);
    int threads = run->config.solver.threads;
    run->threads = threads ? threads : omp_get_max_threads();
    backend_start(run->threads);
    return CODE_OK;
}

struct net_setup run_setup(const struct run *run, int N, int r) {
    int P = batch_size(&run->config.training, run->data.P);
    struct net_setup setup = config_setup(&run->config, N, r, P, run->K, run->A);
    setup.inputs = run->data.P;
    setup.tests = run->data.tests;
    setup.rest = run->rest;
    return setup;
}

enum { EVERY = -1 };

/* The rank that makes a run; or every rank makes its share of the sites. Networks are dealt out
 * from the last width on, which costs most. */
static int maker(const struct run *run, int N, int r) {
    const struct int_list *widths = &run->config.reference.widths;
    int before = 0;
    if (run->whole)
        return run->rank;
    if (!N && run->config.shared.name)
        return EVERY;
    for (int i = widths->count - 1; N && i >= 0 && widths->value[i] != N; i--)
        before += run->config.reference.seeds;
    return (before + r) % dist_ranks();
}

static bool mine(const struct run *run, int N, int r) {
    int rank = maker(run, N, r);
    return rank == EVERY || rank == dist_rank();
}

/* Runs in flight at once on this rank; a single one shares out its blocks of sites instead. */
static int concurrent(const struct run *run, int N, int runs) {
    int count = 0;
    for (int r = 0; r < runs; r++)
        count += mine(run, N, r);
    if (count < 1 || maker(run, N, 0) == EVERY)
        return 1;
    return count < run->threads ? count : run->threads;
}

/* Bytes of the trajectories of one ensemble: every run; means and errors, once for the largest
 * series while they are computed and twice in the image of the file, which is copied to be saved.
 * What is kept run by run is in the file as well. */
static int record_bytes(const struct run *run, int N, int runs, double *bytes, struct err *err) {
    struct net_setup setup = run_setup(run, N, 0);
    struct record record;
    double largest = 0, values = 0;
    int code;
    DO(record_init(&record, 0, run->config.training.steps, err));
    DO(observe_declare(&record, &run->config, &setup, &record.labels, err));
    for (int k = 0; k < record.count; k++) {
        double size = (double)record.series[k].size;
        values += size * (runs + 2 * (2 + (record.series[k].keep_runs ? runs : 0)));
        largest = fmax(largest, size);
    }
    *bytes = sizeof(double) * (values + 2 * largest);
done:
    record_free(&record);
    return code;
}

static bool by_sweeps(const struct run *run, int N) {
    return !N && run->config.solver.method == METHOD_FIXED_POINT;
}

static int estimate(const struct run *run, int N, int runs, double *bytes, struct err *err) {
    struct net_setup setup = run_setup(run, N, 0);
    bool full = run->config.output.kernels == KERNELS_FULL;
    int T = full ? run->config.training.steps : 0; /* of rows kept for two-time kernels */
    if (by_sweeps(run, N))
        TRY(fixed_point_bytes(&setup, &run->config.training, &run->config.solver.fixed_point, T,
                              bytes, err));
    else
        TRY(net_bytes(&setup, integrator_evaluations(&run->config.training), T, bytes, err));
    if (run->config.reference.coordinate_check) /* two plain copies of matrices and rows */
        *bytes *= 3;
    if (full) /* the observer's coefficients */
        *bytes += 8.0 * run->config.training.steps * setup.P * setup.P;
    *bytes *= concurrent(run, N, runs);
    return CODE_OK;
}

static int check_memory(struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    double limit = 0, largest = 0, kept = 0, most = run->config.solver.max_memory;
    int wide = 0, replicates = run->config.solver.replicates, seeds = run->config.reference.seeds;
    if (replicates) {
        TRY(estimate(run, 0, replicates, &limit, err));
        TRY(record_bytes(run, 0, replicates, &kept, err));
    }
    for (int i = 0; i < widths->count; i++) {
        double bytes, results;
        TRY(estimate(run, widths->value[i], seeds, &bytes, err));
        TRY(record_bytes(run, widths->value[i], seeds, &results, err));
        kept += results;
        if (bytes > largest) {
            largest = bytes;
            wide = widths->value[i];
        }
    }
    log_line(&run->log,
             "memory: about %.3g GB for the limit, %.3g GB for networks, %.3g GB of results",
             1e-9 * limit, 1e-9 * largest, 1e-9 * kept);
    double total = 1e-9 * ((limit > largest ? limit : largest) + kept);
    if (total <= most)
        return CODE_OK;
    bool full = run->config.output.kernels == KERNELS_FULL;
    const char *remedy = full ? "kernels = diagonal, or fewer steps, replicates or seeds"
                         : kept > limit && kept > largest ? "fewer steps, replicates or seeds"
                         : limit > largest ? "fewer sites, expert_sites, inputs or steps"
                                           : "smaller widths";
    if (limit <= largest && kept <= largest)
        return params_error(&run->params, "solver", "max_memory", err,
                            "the run would need about %.3g GB, mostly for width %d; try %s, fewer "
                            "threads, or raise max_memory",
                            total, wide, remedy);
    return params_error(
        &run->params, "solver", "max_memory", err,
        "the run would need about %.3g GB; try %s, fewer threads, or raise max_memory", total,
        remedy);
}

/* Bases that do not compress grow by P an evaluation; and so does any basis while every step brings
 * inputs of its own. A population between two maps holds a basis and normals for each of them. */
static void warn_rank(struct run *run) {
    const struct solver_settings *solver = &run->config.solver;
    const char *keys = model_list[run->config.network.model]->solver_keys;
    int P = batch_size(&run->config.training, run->data.P), least = solver->sites;
    double rows = P * integrator_evaluations(&run->config.training);
    bool compresses = net_compresses(&run->config.network);
    char end[64] = "";
    if (keys && strstr(keys, "expert_sites") && solver->expert_sites < least)
        least = solver->expert_sites;
    if (compresses)
        rows = fmin(rows, run->data.P);
    if (!solver->replicates || by_sweeps(run, 0) || (compresses && P == run->data.P) ||
        4 * rows <= POPULATION_ROOM * least)
        return;
    if (rows > POPULATION_RANK_LIMIT * least && least > POPULATION_SMALL)
        snprintf(end, sizeof end, "; the run will probably end at step %d",
                 (int)(POPULATION_RANK_LIMIT * least / P));
    log_line(&run->log,
             "warning: with %s bases grow by %d every evaluation, up to %.0f of %d sites%s; more "
             "than %.0f sites keep all normals matched",
             compresses ? "new inputs at every step" : "relu or rho < 1", P, fmin(rows, least),
             least, end, 4 * rows / POPULATION_ROOM);
}

static int write_batches(struct run *run, struct err *err) {
    const struct training *training = &run->config.training;
    int T = training->steps, P = training->batch, *index = NULL, code = CODE_OK;
    struct batch batch = {0};
    if (!P)
        return CODE_OK;
    DO(batch_init(&batch, training, run->data.P, run->config.solver.seed, err));
    DO(base_alloc(&index, (size_t)T * (size_t)P, sizeof *index, err));
    for (int t = 0; t < T; t++)
        batch_at(&batch, t, index + (size_t)t * (size_t)P);
    DO(io_batches(&run->io, index, T, P, err));
    log_line(&run->log, "batches: %d of %d inputs a step, %.3g epochs", P, run->data.P,
             (double)T * P / run->data.P);
done:
    batch_free(&batch);
    free(index);
    return code;
}

int run_open(struct run *run, const char *output, bool force, struct err *err) {
    TRY(check_memory(run, err));
    warn_rank(run);
    if (dist_rank())
        return CODE_OK;
    if (!run->io_open)
        TRY(io_create(&run->io, output, force, err));
    run->io_open = true;
    memcpy(run->io.prefix, run->prefix, sizeof run->prefix);
    TRY(io_parameters(&run->io, &run->params, &run->config, err));
    TRY(provenance_write(&run->io, backend_list[run->config.solver.backend]->name, run->threads,
                         err));
    TRY(io_provenance(&run->io, "source", model_list[run->config.network.model]->source, err));
    TRY(io_data(&run->io, &run->data, err));
    TRY(write_batches(run, err));
    return io_flush(&run->io, err);
}

/* One trajectory into run number r of the record; step is called after each measured time. */
static int one_run(const struct run *run, int N, int r, struct record *record,
                   int (*step)(void *context, const struct net *net, int t, struct err *err),
                   void *context, struct err *err) {
    struct net_setup setup = run_setup(run, N, r);
    const struct training *training = &run->config.training;
    const struct integrator *integrator = integrator_of(training);
    struct net net;
    struct observer observer = {0};
    struct batch batch = {0};
    int code, t = 0;
    DO(net_init(&net, &setup, err));
    DO(batch_init(&batch, training, run->data.P, run->config.solver.seed, err));
    DO(observer_init(&observer, &run->config, record, r, &net, err));
    for (; t < record->T; t++) {
        batch_at(&batch, t, net.index);
        if (t)
            DO(integrator->advance(&net, training, run->data.y, err));
        else
            DO(net_evaluate(&net, (enum loss)training->loss, run->data.y, err));
        DO(observer_measure(&observer, &net, t, err));
        DO(observer_look(&observer, &net, run->data.y, t, err));
        DO(step(context, &net, t, err));
    }
done:
    if (code == CODE_NUMERICAL) {
        char text[sizeof err->text];
        memcpy(text, err->text, sizeof text);
        if (N)
            err_set(err, code, "N = %d, network %d, step %d: %.1800s", N, r, t, text);
        else
            err_set(err, code, "limit, replicate %d, step %d: %.1800s", r, t, text);
    }
    observer_free(&observer);
    batch_free(&batch);
    net_free(&net);
    return code;
}

/* An ensemble under way. */
struct ensemble {
    struct run *run;
    int N, r;
    struct record *record, *sweeps; /* sweeps: NULL, or those of a fixed-point iteration */
    char group[24];
    double start, *next; /* times: of the beginning, of the next save */
};

static struct ensemble ensemble_of(struct run *run, int N, struct record *record) {
    struct ensemble e = {.run = run, .N = N, .record = record};
    snprintf(e.group, sizeof e.group, N ? "reference/N%04d" : "limit", N);
    if (by_sweeps(run, N))
        e.sweeps = &run->sweeps;
    return e;
}

static const char *const *labels_of(const struct record *record) {
    return (const char *const *)record->labels;
}

static int ensemble_write(const struct ensemble *e, struct err *err) {
    double start = base_seconds();
    int before = profile_enter("files", ""), code = CODE_OK;
    struct io *io = &e->run->io;
    if (e->run->io_open && e->sweeps)
        code = io_record(io, "limit/sweeps", e->sweeps, labels_of(e->sweeps), err);
    if (e->run->io_open && !code)
        code = io_record(io, e->group, e->record, labels_of(e->record), err);
    profile_other(base_seconds() - start);
    profile_leave(before);
    return code;
}

/* Saves now and then: every 20 seconds, and in no more than a tenth of the time. A save that fails
 * is reported and tried again; the one at the end must succeed. */
static void ensemble_save(const struct ensemble *e) {
    double start = base_seconds();
    struct err err;
    if (start < *e->next)
        return;
    if (ensemble_write(e, &err))
        log_line(&e->run->log, "warning: %s; will be tried again", err.text);
    *e->next = base_seconds() + fmax(20, 10 * (base_seconds() - start));
}

static void ensemble_progress(const struct ensemble *e, const struct net *net, int t) {
    const struct record *record = e->record;
    double done = 0, all = 0, spent = base_seconds() - e->start;
    for (int r = 0; r < record->runs; r++) {
        done += record->steps[r];
        all += mine(e->run, e->N, r) ? record->T : 0;
    }
    int left = (int)fmin(spent / done * (all - done) + 0.5, 1e8);
    if (e->N)
        log_progress(&e->run->log, "N = %d  network %d/%d  step %d/%d  loss %.5g  %d:%02d left",
                     e->N, e->r + 1, record->runs, t + 1, record->T, net->loss, left / 60,
                     left % 60);
    else
        log_progress(&e->run->log,
                     "limit  replicate %d/%d  step %d/%d  loss %.5g  rank %d  %d:%02d left",
                     e->r + 1, record->runs, t + 1, record->T, net->loss, observe_rank(net),
                     left / 60, left % 60);
}

/* A signal. Ranks that share sites stop together. */
static int ensemble_heed(const struct ensemble *e, struct err *err) {
    bool stop = e->run->stop && *e->run->stop;
    if (maker(e->run, e->N, e->r) == EVERY)
        stop = dist_any(stop);
    return stop ? err_set(err, CODE_INTERRUPTED, "interrupted") : CODE_OK;
}

/* After each measured time: publish it, tell, write now and then, heed a signal. */
static int ensemble_step(void *context, const struct net *net, int t, struct err *err) {
    const struct ensemble *e = context;
#pragma omp critical(record)
    {
        e->record->steps[e->r] = t + 1;
        ensemble_progress(e, net, t);
        ensemble_save(e);
    }
    return ensemble_heed(e, err);
}

static int ensemble_sweep(void *context, const struct fixed_point_state *state, struct err *err) {
    const struct ensemble *e = context;
    const struct fixed_point_kernel *worst = sweeps_worst(state);
#pragma omp critical(record)
    {
        e->sweeps->steps[e->r] = state->sweep + 1;
        log_progress(&e->run->log,
                     "limit  replicate %d/%d  sweep %d  times %d/%d  largest change %.2g (%s)",
                     e->r + 1, e->record->runs, state->sweep + 1, state->reached, e->record->T,
                     worst->change, worst->name);
        ensemble_save(e);
    }
    return ensemble_heed(e, err);
}

/* Run number e->r, whatever its method. */
static int ensemble_run(struct ensemble *e, struct err *err) {
    const struct run *run = e->run;
    if (!e->sweeps)
        return one_run(run, e->N, e->r, e->record, ensemble_step, e, err);
    struct net_setup setup = run_setup(run, 0, e->r);
    const struct sweeps_calls calls = {e, ensemble_sweep, ensemble_step};
    int code =
        sweeps_run(&run->config, &setup, run->data.y, e->r, e->record, e->sweeps, &calls, err);
    if (code == CODE_NUMERICAL) {
        char text[sizeof err->text];
        memcpy(text, err->text, sizeof text);
        err_set(err, code, "limit, replicate %d: %.1800s", e->r, text);
    }
    return code;
}

/* Its record, and that of the sweeps if there are any. */
static int ensemble_declare(const struct ensemble *e, int runs, struct err *err) {
    const struct config *config = &e->run->config;
    struct net_setup setup = run_setup(e->run, e->N, 0);
    char **kernels = NULL;
    TRY(record_init(e->record, runs, config->training.steps, err));
    TRY(observe_declare(e->record, config, &setup, &e->record->labels, err));
    if (!e->sweeps)
        return CODE_OK;
    record_free(e->sweeps);
    int code = sweeps_declare(e->sweeps, config, &setup, runs, &kernels, err);
    e->sweeps->labels = kernels;
    return code;
}

/* Attributes of the group. */
static int ensemble_open(const struct ensemble *e, struct err *err) {
    const struct config *config = &e->run->config;
    struct net_setup setup = run_setup(e->run, e->N, 0);
    struct io *io = &e->run->io;
    if (!e->run->io_open)
        return CODE_OK;
    if (e->N)
        TRY(io_attribute(io, e->group, "N", e->N, err));
    if (setup.responses && e->sweeps)
        TRY(io_attribute(io, e->group, "probe",
                         fixed_point_probe(&config->network, config->solver.fixed_point.probe),
                         err));
    else if (setup.responses)
        TRY(io_attribute(io, e->group, "rcond", setup.tolerance, err));
    return io_attribute(io, e->group, "dt", config->training.dt, err);
}

/* The runs that this rank makes; *first: the lowest that failed, if one did. */
static int ensemble_compute(const struct ensemble *e, int *first, struct err *err) {
    int runs = e->record->runs, parallel = concurrent(e->run, e->N, runs), code = CODE_OK;
    double start = base_seconds(), next = start + 20;
    struct err ignored;
    *first = 0;
    TRY(ensemble_open(e, err));
    *first = runs;
#pragma omp parallel for schedule(dynamic, 1) num_threads(parallel) if (parallel > 1)
    for (int r = 0; r < runs; r++) {
        struct ensemble one = *e;
        struct err one_err = {0};
        bool skip = !mine(e->run, e->N, r);
        one.r = r;
        one.start = start;
        one.next = &next;
#pragma omp critical(record)
        skip = skip || *first < runs;
        if (skip)
            continue;
        int one_code = ensemble_run(&one, &one_err);
#pragma omp critical(record)
        if (one_code && r < *first) { /* the lowest failing run reports */
            *first = r;
            code = one_code;
            *err = one_err;
        }
    }
    int written = ensemble_write(e, code ? &ignored : err);
    return code ? code : written;
}

/* What each rank has made -> all ranks, and the file. */
static int ensemble_collect(const struct ensemble *e, struct err *err) {
    for (int r = 0; r < e->record->runs; r++) {
        int rank = maker(e->run, e->N, r);
        if (rank == EVERY)
            continue;
        share_run(e->record, r, rank);
        if (e->sweeps)
            share_run(e->sweeps, r, rank);
    }
    return ensemble_write(e, err);
}

int run_ensemble(struct run *run, int N, int runs, struct record *record, struct err *err) {
    struct ensemble e = ensemble_of(run, N, record);
    int first;
    TRY(ensemble_declare(&e, runs, err));
    return ensemble_compute(&e, &first, err);
}

/* The limit (k = 0), then each width. Returns how many runs it has, maybe none. */
static int ensemble_number(struct run *run, int k, struct ensemble *e) {
    const struct int_list *widths = &run->config.reference.widths;
    *e = ensemble_of(run, k ? widths->value[k - 1] : 0, k ? &run->reference[k - 1] : &run->limit);
    return k ? run->config.reference.seeds : run->config.solver.replicates;
}

int run_compute(struct run *run, struct err *err) {
    int count = 1 + run->config.reference.widths.count, first, before = 0, code = CODE_OK;
    struct ensemble e;
    for (int k = 0; k < count; k++) {
        int runs = ensemble_number(run, k, &e);
        if (runs)
            TRY(ensemble_declare(&e, runs, err));
    }
    run->failed = (struct err){0};
    for (int k = 0; k < count && !code; k++) {
        int runs = ensemble_number(run, k, &e);
        if (runs)
            code = ensemble_compute(&e, &first, &run->failed);
        run->place = before + first;
        before += runs;
    }
    log_close(&run->log);
    return CODE_OK;
}

int run_collect(struct run *run, struct err *err) {
    int count = 1 + run->config.reference.widths.count;
    struct ensemble e;
    *err = run->failed;
    bool together = run->config.shared.name && run->place < run->config.solver.replicates;
    if (dist_ranks() == 1 || (err->code && together)) /* then all ranks have failed alike */
        return err->code;
    int code = share_failure(err->code, run->place, err);
    for (int k = 0; k < count; k++) {
        struct err ignored;
        if (ensemble_number(run, k, &e)) {
            int written = ensemble_collect(&e, code ? &ignored : err);
            code = code ? code : written;
        }
    }
    return code;
}

int run_march(struct run *run, struct err *err) {
    TRY(run_compute(run, err));
    return run_collect(run, err);
}

int run_finish(struct run *run, bool force, struct err *err) {
    if (!run->io_open) /* ranks but 0 */
        return CODE_OK;
    TRY(io_finish(&run->io, force, err));
    run->io_open = false;
    return CODE_OK;
}

void run_free(struct run *run) {
    log_close(&run->log);
    if (run->io_open)
        io_close(&run->io);
    run->io_open = false;
    record_free(&run->limit);
    record_free(&run->sweeps);
    for (int i = 0; i < INT_LIST_MAX; i++)
        record_free(&run->reference[i]);
    params_free(&run->params);
    data_free(&run->data);
    free(run->A);
    free(run->sections);
    run->A = NULL;
    run->sections = NULL;
}
