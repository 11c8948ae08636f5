/* Replicates and seeds are independent: each rank, and in it each thread, takes whole runs; only
 * where there is a single one for all threads, or fewer than ranks, do the operations inside it
 * share out their blocks of sites. Either way the numbers are the same. */
#include "solver/run/ensemble.h"
#include "models/engine/counts.h"
#include "kernels/array/dist.h"
#include "kernels/array/profile.h"
#include "solver/run/parts.h"
#include "solver/run/states.h"

enum { ALL_RANKS = -1 };

/* The rank that makes a run; or every rank makes its share of the sites. Networks are dealt out
 * from the last width on, which costs most. */
static int owner_rank(const struct run *run, int N, int r) {
    const struct int_list *widths = &run->config.reference.widths;
    int before = 0;
    if (!N && run->config.split.name)
        return ALL_RANKS;
    for (int i = widths->count - 1; N && i >= 0 && widths->value[i] != N; i--)
        before += run->config.reference.seeds;
    return (before + r) % dist_ranks();
}

static bool is_mine(const struct run *run, int N, int r) {
    int rank = owner_rank(run, N, r);
    return rank == ALL_RANKS || rank == dist_rank();
}

int ensemble_concurrent(const struct run *run, int N, int runs) {
    int count = 0;
    for (int r = 0; r < runs; r++)
        count += is_mine(run, N, r);
    if (count < 1 || owner_rank(run, N, 0) == ALL_RANKS)
        return 1;
    return count < run->threads ? count : run->threads;
}

bool ensemble_iterates(const struct run *run, int N) {
    return !N && run->config.solver.method == METHOD_FIXED_POINT;
}

void ensemble_group(char group[ENSEMBLE_GROUP], int N) {
    snprintf(group, ENSEMBLE_GROUP, N ? "reference/N%04d" : "limit", N);
}

struct ensemble ensemble_of(struct run *run, int N, struct record *record) {
    struct ensemble e = {.run = run, .N = N, .record = record};
    ensemble_group(e.group, N);
    if (ensemble_iterates(run, N))
        e.iterations = &run->results.iterations;
    return e;
}

/* With networks that failed goes how the first of them did; notes.c writes how many. */
static int write_records(const struct ensemble *e, struct err *err) {
    double start = base_cpu_seconds();
    int before = profile_enter("files", ""), code = CODE_OK;
    struct io *io = &e->run->io;
    if (e->run->io_open && e->N && record_failures(e->record, &(int){0}))
        code = io_text(io, e->group, "failure", e->record->failure.text, err);
    if (e->run->io_open && e->iterations && !code)
        code = io_record(io, "limit/sweeps", e->iterations, err);
    if (e->run->io_open && !code)
        code = io_record(io, e->group, e->record, err);
    profile_other(start);
    profile_leave(before);
    return code;
}

/* Saves now and then: every 20 seconds, and in no more than a tenth of the time. A save that fails
 * is reported and tried again; the one at the end must succeed. */
static void save_partial(const struct ensemble *e) {
    double start = base_seconds();
    struct err err;
    if (start < *e->next)
        return;
    if (write_records(e, &err))
        log_line(&e->run->log, "warning: %s; will be tried again", err.text);
    *e->next = base_seconds() + fmax(20, 10 * (base_seconds() - start));
}

static void tell_progress(const struct ensemble *e, const struct net *net, int t) {
    const struct record *record = e->record;
    double done = 0, all = 0, spent = base_seconds() - e->start;
    for (int r = 0; r < record->runs; r++) {
        done += record->steps[r];
        all += is_mine(e->run, e->N, r) ? record->T : 0;
    }
    int left = (int)fmin(spent / done * (all - done) + 0.5, 1e8);
    if (e->N)
        log_progress(&e->run->log, "N = %d  network %d/%d  step %d/%d  loss %.5g  %d:%02d left",
                     e->N, e->r + 1, record->runs, t + 1, record->T, net->output.loss, left / 60,
                     left % 60);
    else
        log_progress(&e->run->log,
                     "limit  replicate %d/%d  step %d/%d  loss %.5g  rank %d  %d:%02d left",
                     e->r + 1, record->runs, t + 1, record->T, net->output.loss, observe_rank(net),
                     left / 60, left % 60);
}

/* Ends the run if a signal asked for it. Ranks that share sites stop together. */
static int stop_if_asked(const struct ensemble *e, struct err *err) {
    bool stop = e->run->stop && *e->run->stop;
    if (owner_rank(e->run, e->N, e->r) == ALL_RANKS)
        stop = dist_any(stop);
    return stop ? err_set(err, CODE_INTERRUPTED, "interrupted") : CODE_OK;
}

/* Results that explode are none, even where they are numbers. */
static int judge_results(const struct ensemble *e, const struct net *net, int t, struct err *err) {
    const char *name = record_overflow(e->record, e->r, t);
    if (net_runs_away(net))
        return err_overflow(err, "the loss, %.3g, exceeds %g times that of the start",
                            net->output.loss, NET_RUNAWAY);
    if (name && net->setup.measure.shift > 0 && (name[0] == 'A' || name[0] == 'B') &&
        name[1] == '_')
        return err_set(err, CODE_NUMERICAL,
                       "the response %s exceeds %g: with few sites the noise of responses, which "
                       "later ones are measured with, grows from step to step; try more [solver] "
                       "sites than %d, a smaller eta0, or fewer steps",
                       name, RECORD_MOST, net->setup.limit.sites);
    if (name)
        return err_overflow(err, "%s exceeds %g", name, RECORD_MOST);
    return CODE_OK;
}

/* After each measured time: judge it, publish it, tell, write now and then. */
static int publish_time(const struct ensemble *e, const struct net *net, int t, struct err *err) {
    TRY(judge_results(e, net, t, err));
#pragma omp critical(record)
    {
        e->record->steps[e->r] = t + 1;
        tell_progress(e, net, t);
        save_partial(e);
    }
    return CODE_OK;
}

/* Whether the disk has room for a state that only the clock asks for; if not, it is asked again as
 * late as if it had been kept. */
static bool has_room(const struct ensemble *e, double bytes, double *kept) {
    bool room = states_fit(e->run, bytes);
    if (!room) {
        *kept = base_seconds();
#pragma omp critical(record)
        log_line(&e->run->log,
                 "warning: no state is kept, because less than a tenth of the disk is free");
    }
    return room;
}

/* A signal asks for a state that is kept quickly; so must be one that only the clock asks for, for
 * which the disk needs room as well. Of a state that ranks share the clock of rank 0 decides. */
static bool is_due(const struct ensemble *e, const struct state *state, double *kept, bool last) {
    const struct run *run = e->run;
    double bytes;
    bool stop = run->stop && *run->stop && states_minutes(run) > 0;
    bool due = states_due(run, *kept, last) && !(state->shared && dist_rank());
    if (due && run->config.output.checkpoint > 0)
        return true;
    return (due || stop) && states_quick(state, &bytes) && (stop || has_room(e, bytes, kept));
}

/* Once all of one time is done: keeps its state, where it is due, and ends at a signal. */
static int pause_at(const struct ensemble *e, const struct state *state, double *kept,
                    struct err *err) {
    const struct run *run = e->run;
    if (run->states.folder) {
        bool due = is_due(e, state, kept, state->steps == e->record->T);
        if (state->shared)
            due = dist_any(due);
        int code = due ? states_keep(run, state, err) : CODE_OK;
#pragma omp critical(record)
        if (code)
            log_line(&e->run->log, "warning: %s; will be tried again", err->text);
        if (due)
            *kept = base_seconds();
    }
    return stop_if_asked(e, err);
}

/* Where states are kept, a signal lets a step finish that takes no longer, in seconds, so that its
 * state can be kept. */
static const double patience = 0.8;

/* Why a run has failed, from what it has left. */
static enum record_cause cause_of(const struct integrator *integrator,
                                  const struct training *training, const struct net *net) {
    for (int i = 0; i < net->populations.count; i++)
        if (net->populations.item[i]->span.exhausted)
            return CAUSE_SITES;
    bool tiny = integrator->adaptive && net->place.step < FLOW_LEAST * training->flow.dt;
    return tiny ? CAUSE_TOLERANCE : CAUSE_DIVERGED;
}

/* One trajectory into run number e->r of the record, from its beginning or from its state. */
static int one_run(const struct ensemble *e, struct err *err) {
    const struct run *run = e->run;
    const struct training *training = &run->config.training;
    const struct integrator *integrator = integrator_of(training);
    struct net_setup setup = run_setup(run, e->N, e->r);
    struct net net;
    struct observer observer = {0};
    struct batch batch = {0};
    struct state state = {.N = e->N,
                          .r = e->r,
                          .shared = owner_rank(run, e->N, e->r) == ALL_RANKS,
                          .net = &net,
                          .observer = &observer};
    double kept = base_seconds();
    int code, t = 0;
    DO(net_init(&net, &setup, err));
    DO(batch_init(&batch, training, run->data.P, err));
    DO(observer_init(&observer, &run->config, run->data.y, e->record, e->r, &net, err));
    net.ask = observer_ask;
    net.asks_for = &observer;
    DO(states_find(run, &state, err));
#pragma omp critical(record)
    e->record->steps[e->r] = state.steps;
    for (t = state.steps; t < e->record->T; t++) {
        if (run->states.folder)
            net.setup.stop.from = base_seconds() + patience;
        batch_at(&batch, t, net.batch.index);
        if (t)
            DO(integrator->advance(&net, training, run->data.y, err));
        else
            DO(net_evaluate(&net, training->loss, run->data.y, err));
        DO(observer_measure(&observer, &net, t, err));
        DO(observer_predict(&observer, &net, t, err));
        DO(publish_time(e, &net, t, err));
        state.steps = t + 1;
        DO(pause_at(e, &state, &kept, err));
    }
done:
    if (code == CODE_NUMERICAL) {
        e->record->cause[e->r] = cause_of(integrator, training, &net);
        net_remedy(&net, t, err);
    }
    if (code == CODE_NUMERICAL && e->N)
        err_set(err, code, "N = %d, network %d, step %d: %.1800s", e->N, e->r, t, err->text);
    else if (code == CODE_NUMERICAL)
        err_set(err, code, "limit, replicate %d, step %d: %.1800s", e->r, t, err->text);
    backend_arrive(setup.backend, NULL, 0); /* in memory that goes now */
    observer_free(&observer);
    batch_free(&batch);
    net_free(&net);
    return code;
}

/* A replicate of the limit by fixed-point iteration. */
struct replicate {
    const struct ensemble *e;
    struct observer observer;
};

static int on_sweep(void *context, const struct fixed_point_state *state, struct err *err) {
    const struct ensemble *e = ((const struct replicate *)context)->e;
    const struct fixed_point_kernel *worst = iteration_worst(state);
    iteration_keep(e->iterations, e->r, state);
#pragma omp critical(record)
    {
        e->iterations->steps[e->r] = state->sweep + 1;
        log_progress(&e->run->log,
                     "limit  replicate %d/%d  sweep %d  times %d/%d  largest change %.2g (%s)",
                     e->r + 1, e->record->runs, state->sweep + 1, state->reached, e->record->T,
                     worst->change, worst->name);
        save_partial(e);
    }
    return stop_if_asked(e, err);
}

/* Times of the last pass. */
static int on_measure(void *context, struct net *net, int t, struct err *err) {
    struct replicate *replicate = context;
    const struct ensemble *e = replicate->e;
    if (t == 0)
        TRY(observer_init(&replicate->observer, &e->run->config, e->run->data.y, e->record, e->r,
                          net, err));
    TRY(observer_measure(&replicate->observer, net, t, err));
    TRY(observer_predict(&replicate->observer, net, t, err));
    TRY(publish_time(e, net, t, err));
    return stop_if_asked(e, err);
}

static void on_end(void *context) {
    observer_free(&((struct replicate *)context)->observer);
}

/* Run number e->r, whatever its method. */
static int run_any(struct ensemble *e, struct err *err) {
    const struct run *run = e->run;
    const struct fixed_point_settings *settings = &run->config.solver.fixed_point;
    struct replicate replicate = {.e = e};
    const struct fixed_point_calls calls = {&replicate, on_sweep, on_measure, on_end};
    if (!e->iterations)
        return one_run(e, err);
    struct net_setup setup = run_setup(run, 0, e->r);
    int code = fixed_point_run(&setup, &run->config.training, run->data.y, settings, &calls, err);
    if (code == CODE_NUMERICAL) {
        bool late = e->iterations->steps[e->r] >= settings->max_sweeps;
        e->record->cause[e->r] = late ? CAUSE_TOLERANCE : CAUSE_DIVERGED;
        err_set(err, code, "limit, replicate %d: %.1800s", e->r, err->text);
    }
    return code;
}

int ensemble_declare(const struct ensemble *e, int runs, struct err *err) {
    const struct config *config = &e->run->config;
    struct net_setup setup = run_setup(e->run, e->N, 0);
    TRY(record_init(e->record, runs, config->training.steps, err));
    TRY(observe_declare(e->record, config, &setup, e->run->data.y, err));
    if (!e->iterations)
        return CODE_OK;
    record_free(e->iterations);
    return iteration_declare(e->iterations, config, &setup, runs, err);
}

/* How large networks of this width are, and what they cost. */
static int write_counts(const struct ensemble *e, struct err *err) {
    struct net_setup setup = run_setup(e->run, e->N, 0);
    struct net_counts counts;
    TRY(net_counts_of(&setup, &counts, err));
    const struct {
        const char *name;
        double value;
    } attribute[] = {{"parameters", counts.parameters},
                     {"active_parameters", counts.active},
                     {"flops_per_token", counts.flops_per_token},
                     {"flops_per_step", counts.flops_per_step}};
    for (size_t k = 0; k < sizeof attribute / sizeof *attribute; k++)
        TRY(io_attribute(&e->run->io, e->group, attribute[k].name, attribute[k].value, err));
    return CODE_OK;
}

/* Attributes of the group. */
static int open_group(const struct ensemble *e, struct err *err) {
    const struct config *config = &e->run->config;
    struct net_setup setup = run_setup(e->run, e->N, 0);
    struct io *io = &e->run->io;
    double probe = 0;
    if (!e->run->io_open)
        return CODE_OK;
    if (e->N) {
        TRY(io_attribute(io, e->group, "N", e->N, err));
        TRY(write_counts(e, err));
    }
    if (e->iterations)
        probe = fixed_point_probe(&config->network, config->solver.fixed_point.probe);
    else if (setup.measure.shift > 0)
        TRY(net_shift(&setup, &probe, err));
    if (probe > 0)
        TRY(io_attribute(io, e->group, "probe", probe, err));
    return io_attribute(io, e->group, "dt", config->training.flow.dt, err);
}

/* A network that diverges ends alone; what it was until then counts. */
static void count_as_failed(const struct ensemble *e, const struct err *err) {
    int first;
    record_failures(e->record, &first);
    if (e->r < first)
        e->record->failure = *err;
    e->record->failed[e->r] = true;
    log_line(&e->run->log, "warning: %s; this network counts as failed", err->text);
}

/* Run number one.r, unless it is another rank's or all must end; the lowest failure is kept. */
static void try_run(struct ensemble one, int *first, struct err *err) {
    struct err mine_err = {0};
    bool skip = !is_mine(one.run, one.N, one.r);
#pragma omp critical(record)
    skip = skip || *first < one.record->runs;
    if (skip)
        return;
    int code =
        backend_cause(config_backend(&one.run->config, one.N), run_any(&one, &mine_err), &mine_err);
#pragma omp critical(record)
    if (code == CODE_NUMERICAL && one.N) {
        count_as_failed(&one, &mine_err);
    } else if (code) {
        one.record->failed[one.r] = code == CODE_NUMERICAL;
        if (one.r < *first) {
            *first = one.r;
            *err = mine_err;
        }
    }
}

/* libgomp keeps its threads for regions that are inside of no other, not even of one of a single
 * thread: hence two loops. */
int ensemble_compute(const struct ensemble *e, int *first, struct err *err) {
    int runs = e->record->runs, parallel = ensemble_concurrent(e->run, e->N, runs);
    struct ensemble one = *e;
    struct err ignored;
    double next = base_seconds() + 20;
    *first = 0;
    TRY(open_group(e, err));
    *first = runs;
    *err = (struct err){0};
    one.start = base_seconds();
    one.next = &next;
    if (parallel == 1)
        for (one.r = 0; one.r < runs; one.r++)
            try_run(one, first, err);
    else
#pragma omp parallel for schedule(dynamic, 1) num_threads(parallel) firstprivate(one)
        for (int r = 0; r < runs; r++) {
            void *before = base_locale_begin();
            one.r = r;
            try_run(one, first, err);
            base_locale_end(before);
        }
    int code = err->code, written = write_records(e, code ? &ignored : err);
    return code ? code : written;
}

int ensemble_collect(const struct ensemble *e, struct err *err) {
    for (int r = 0; r < e->record->runs; r++) {
        int rank = owner_rank(e->run, e->N, r);
        if (rank == ALL_RANKS)
            continue;
        exchange_run(e->record, r, rank);
        if (e->iterations)
            exchange_run(e->iterations, r, rank);
    }
    int first;
    if (record_failures(e->record, &first))
        dist_broadcast(&e->record->failure, sizeof e->record->failure,
                       owner_rank(e->run, e->N, first));
    return write_records(e, err);
}
