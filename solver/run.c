/* The life of a run. Replicates and seeds are independent: each thread takes whole runs; only where
 * there is a single one do the operations inside it share out their blocks of sites. Either way the
 * numbers are the same. */
#include "kernels/profile.h"
#include "solver/run.h"
#include "integrators/batch.h"
#include "solver/observe.h"
#include "solver/provenance.h"
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
    TRY(config_sections(&run->sections, &sections, err));
    TRY(params_read(&run->params, run->sections, sections, file, overrides, override, &run->config,
                    err));
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

int run_prepare(struct run *run, struct err *err) {
    TRY(choose(run, err));
    TRY(config_data(&run->config, &run->params, &run->data, err));
    TRY(config_coordinates(&run->config, &run->data, &run->A, &run->K, &run->rest, err));
    TRY(config_check(&run->config, &run->params, run->K + run->rest, err));
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

/* Runs in flight at once; a single one shares out its blocks of sites instead. */
static int concurrent(const struct run *run, int runs) {
    return runs < run->threads ? runs : run->threads;
}

/* Bytes of the trajectories of one ensemble: every run; means and errors, once for the largest
 * series while they are computed and twice in the image of the file, which is copied to be saved.
 * What is kept run by run is in the file as well. */
static int record_bytes(const struct run *run, int N, int runs, double *bytes, struct err *err) {
    struct net_setup setup = run_setup(run, N, 0);
    struct record record;
    char **labels = NULL;
    double largest = 0, values = 0;
    int code;
    DO(record_init(&record, 0, run->config.training.steps, err));
    DO(observe_declare(&record, &run->config, &setup, &labels, err));
    for (int k = 0; k < record.count; k++) {
        double size = (double)record.series[k].size;
        values += size * (runs + 2 * (2 + (record.series[k].keep_runs ? runs : 0)));
        largest = fmax(largest, size);
    }
    *bytes = sizeof(double) * (values + 2 * largest);
done:
    record_free(&record);
    free(labels);
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
    *bytes *= concurrent(run, runs);
    return CODE_OK;
}

/* Site arrays of so many bytes, where they live in a memory of their own. */
static int check_device(struct run *run, double bytes, struct err *err) {
    double room;
    TRY(backend_list[run->config.solver.backend]->open(&room, err));
    if (bytes > room)
        return err_set(err, CODE_SYSTEM,
                       "the run would need about %.3g GB on the device, which has %.3g GB free; "
                       "try fewer threads, sites or steps, or smaller widths",
                       1e-9 * bytes, 1e-9 * room);
    if (isfinite(room))
        log_line(&run->log, "memory of the device: %.3g GB free", 1e-9 * room);
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
        return check_device(run, fmax(limit, largest), err);
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
    const char *group;
    const char *const *labels, *const *kernels;
    double start, *next; /* times: of the beginning, of the next save */
};

static int ensemble_write(const struct ensemble *e, struct err *err) {
    double start = base_seconds();
    int before = profile_enter("files", ""), code = CODE_OK;
    if (e->run->io_open && e->sweeps)
        code = io_record(&e->run->io, "limit/sweeps", e->sweeps, e->kernels, err);
    if (e->run->io_open && !code)
        code = io_record(&e->run->io, e->group, e->record, e->labels, err);
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
    double done = 0, spent = base_seconds() - e->start;
    for (int r = 0; r < record->runs; r++)
        done += (double)record->steps[r] / record->T / record->runs;
    int left = (int)fmin(spent / done * (1 - done) + 0.5, 1e8);
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

/* After each measured time: publish it, tell, write now and then, heed a signal. */
static int ensemble_step(void *context, const struct net *net, int t, struct err *err) {
    const struct ensemble *e = context;
#pragma omp critical(record)
    {
        e->record->steps[e->r] = t + 1;
        ensemble_progress(e, net, t);
        ensemble_save(e);
    }
    if (e->run->stop && *e->run->stop)
        return err_set(err, CODE_INTERRUPTED, "interrupted");
    return CODE_OK;
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
    if (e->run->stop && *e->run->stop)
        return err_set(err, CODE_INTERRUPTED, "interrupted");
    return CODE_OK;
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

/* Attributes of the group, and the sweeps if there are any. */
static int ensemble_open(struct ensemble *e, const struct net_setup *setup, struct record *sweeps,
                         char ***kernels, struct err *err) {
    struct run *run = e->run;
    const struct config *config = &run->config;
    if (by_sweeps(run, e->N)) {
        TRY(sweeps_declare(sweeps, config, setup, e->record->runs, kernels, err));
        e->sweeps = sweeps;
        e->kernels = (const char *const *)*kernels;
    }
    if (!run->io_open)
        return CODE_OK;
    if (e->N)
        TRY(io_attribute(&run->io, e->group, "N", e->N, err));
    if (setup->responses && e->sweeps)
        TRY(io_attribute(&run->io, e->group, "probe",
                         fixed_point_probe(&config->network, config->solver.fixed_point.probe),
                         err));
    else if (setup->responses)
        TRY(io_attribute(&run->io, e->group, "rcond", setup->tolerance, err));
    return io_attribute(&run->io, e->group, "dt", config->training.dt, err);
}

int run_ensemble(struct run *run, int N, int runs, struct record *record, struct err *err) {
    struct net_setup setup = run_setup(run, N, 0);
    int first = runs, code = CODE_OK, parallel = concurrent(run, runs);
    char **labels = NULL, **kernels = NULL, group[64];
    double start = base_seconds(), next = start + 20;
    struct record sweeps = {0};
    snprintf(group, sizeof group, N ? "reference/N%04d" : "limit", N);
    struct ensemble common = {
        .run = run, .N = N, .record = record, .group = group, .start = start, .next = &next};
    DO(record_init(record, runs, run->config.training.steps, err));
    DO(observe_declare(record, &run->config, &setup, &labels, err));
    common.labels = (const char *const *)labels;
    DO(ensemble_open(&common, &setup, &sweeps, &kernels, err));
#pragma omp parallel for schedule(dynamic, 1) num_threads(parallel) if (parallel > 1)
    for (int r = 0; r < runs; r++) {
        struct ensemble mine = common;
        struct err mine_err = {0};
        mine.r = r;
        bool skip;
#pragma omp critical(record)
        skip = first < runs;
        if (skip)
            continue;
        int mine_code = ensemble_run(&mine, &mine_err);
        if (mine_code == CODE_NUMERICAL) { /* unless the numbers are those of a failed device */
            int failed = setup.backend->sync(&mine_err);
            mine_code = failed ? failed : mine_code;
        }
#pragma omp critical(record)
        if (mine_code && r < first) { /* the lowest failing run reports */
            first = r;
            code = mine_code;
            *err = mine_err;
        }
    }
    struct err ignored;
    int written = ensemble_write(&common, code ? &ignored : err);
    code = code ? code : written;
done:
    record_free(&sweeps);
    free(labels);
    free(kernels);
    return code;
}

int run_march(struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    if (run->config.solver.replicates)
        TRY(run_ensemble(run, 0, run->config.solver.replicates, &run->limit, err));
    for (int i = 0; i < widths->count; i++)
        TRY(run_ensemble(run, widths->value[i], run->config.reference.seeds, &run->reference[i],
                         err));
    log_close(&run->log);
    return CODE_OK;
}

int run_finish(struct run *run, bool force, struct err *err) {
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
    for (int i = 0; i < INT_LIST_MAX; i++)
        record_free(&run->reference[i]);
    params_free(&run->params);
    data_free(&run->data);
    free(run->A);
    free(run->sections);
    run->A = NULL;
    run->sections = NULL;
}
