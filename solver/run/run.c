/* The life of a run. Every rank works on its own runs of all ensembles and keeps quiet about how
 * that ends; then all ranks exchange what they have, and the failure of the lowest run, if any, is
 * that of all. Rank 0, the only one with an open file, writes. */
#include "solver/run/ensemble.h"
#include "solver/run/parts.h"
#include "kernels/array/dist.h"
#include "solver/files/provenance.h"
#include "solver/run/states.h"
#include "solver/settings/names.h"

#include <omp.h>

int run_configure(struct run *run, const char *file, int overrides, char *const *override,
                  struct err *err) {
    size_t sections;
    if (!dist_rank()) {
        TRY(config_sections(&run->sections, &sections, err));
        TRY(params_read(&run->params, run->sections, sections, file, overrides, override,
                        &run->config, err));
        TRY(config_complete(&run->config, &run->params, err));
    }
    return run_prepare(run, err);
}

/* The parameterization of this run; the record has it alone. */
static int choose_parameterization(struct run *run, struct err *err) {
    struct network *network = &run->config.network;
    const struct int_list *given = &network->parameterizations;
    const char *text = params_find(&run->params, "network", "parameterization")->text;
    struct text_word word = {0};
    char name[TEXT_CLIP];
    int side = run->share.side ? run->share.side : 1;
    if (!run->share.side && given->count > 1)
        return params_error(&run->params, "network", "parameterization", err,
                            "dmft-compare sets several side by side; here it must be one");
    for (int k = 0; k < side; k++)
        text_next_word(&text, " \t", &word);
    snprintf(name, sizeof name, "%.*s", (int)word.length, word.text);
    network->parameterization = given->value[side - 1];
    return params_record(&run->params, "network", "parameterization", name, err);
}

void run_split(struct run *run) {
    const struct solver_settings *solver = &run->config.solver;
    int ranks = dist_ranks();
    const struct backend *backend = backend_list[solver->backend];
    run->config.split = (struct backend){0};
    if (!backend->can_split || solver->replicates >= ranks || solver->sites < ranks * BACKEND_BLOCK)
        return;
    if (run->config.output.sharpness) /* it asks for entries of matrices, which are shared out */
        return;
    run->config.split = *backend;
    run->config.split.split = true;
}

int run_prepare(struct run *run, struct err *err) {
    size_t sections = run->params.count;
    if (dist_rank())
        TRY(config_sections(&run->sections, &sections, err));
    size_t size;
    TRY(exchange_params(&run->params, run->sections, sections, &run->config, err));
    if (!dist_rank())
        TRY(config_data(&run->config, &run->params, &run->data, err));
    if (!dist_rank())
        TRY(params_text(&run->params, &run->states.ini, &size, err));
    TRY(choose_parameterization(run, err));
    TRY(exchange_data(&run->data, err));
    config_shape(&run->config, &run->data);
    int threads = run->config.solver.threads;
    run->threads = threads ? threads : omp_get_max_threads();
    backend_start(run->threads);
    TRY(config_coordinates(&run->config, &run->data, &run->inputs, err));
    sites_begin(&run->config, run->inputs.K + run->inputs.test_directions);
    TRY(sites_record(run, err));
    TRY(config_factors(&run->config, &run->params, run->data.P, run->data.D, err));
    TRY(config_check(&run->config, &run->params, run->inputs.K + run->inputs.test_directions, err));
    run_split(run);
    return CODE_OK;
}

struct net_setup run_setup(const struct run *run, int N, int r) {
    int P = batch_size(&run->config.training, run->data.P);
    struct net_setup setup = config_setup(&run->config, N, r, P, &run->inputs);
    setup.data.shape = run->data.shape;
    setup.data.inputs = run->data.P;
    setup.data.test_directions = run->inputs.test_directions;
    setup.data.token = run->data.token;
    setup.data.weight = run->data.weight;
    if (N || !run->config.split.name) /* ranks that share sites stop together, between two times */
        setup.stop.flag = run->stop;
    return setup;
}

static int write_batches(struct run *run, struct err *err) {
    const struct training *training = &run->config.training;
    int T = training->steps, P = training->batches.size;
    FREED(batch_free) struct batch batch = {0};
    if (!P)
        return CODE_OK;
    TRY(batch_init(&batch, training, run->data.P, err));
    SCRATCH(int, index, (size_t)T *(size_t)P);
    for (int t = 0; t < T; t++)
        batch_at(&batch, t, index + (size_t)t * (size_t)P);
    TRY(io_batches(&run->io, index, T, P, err));
    log_line(&run->log, "batches: %d of %d inputs a step, %.3g epochs", P, run->data.P,
             (double)T * P / run->data.P);
    return CODE_OK;
}

/* The names that sections [init], [rates], [eps] and [decays] may use. */
static int write_matrices(struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    FREED(base_free) char *list = NULL;
    TRY(matrices_list(&run->config, widths->count ? widths->value[0] : 0, &list, err));
    return io_provenance(&run->io, "matrices", list, err);
}

/* For readers; what repeats the run is in /parameters. */
static int write_program(struct run *run, struct err *err) {
    size_t size;
    if (!run->config.network.script.text[0])
        return CODE_OK;
    FREED(base_free) char *text = script_unfold(run->config.network.script.text, &size);
    return text ? io_provenance(&run->io, "network", text, err)
                : err_set(err, CODE_SYSTEM, "out of memory: the text of the program");
}

static int write_description(struct run *run, struct err *err) {
    FREED(base_free) char *text = NULL;
    TRY(description_text(run, true, &text, err));
    return io_document(&run->io, "description", "the networks of this file, docs/program_format.md",
                       text, err);
}

/* An instrument that refuses a key says "[output] KEY: SENTENCE", and not where it was given. */
static int tell_key(const struct run *run, int code, struct err *err) {
    const struct err why = *err;
    char key[32];
    int end = 0;
    return code == CODE_INPUT && sscanf(why.text, "[output] %31[a-z_]: %n", key, &end) == 1 && end
               ? params_error(&run->params, "output", key, err, "%s", why.text + end)
               : code;
}

int run_open(struct run *run, const char *output, bool force, struct err *err) {
    TRY(recheck_check(run, err));
    TRY(tell_key(run, memory_check(run, err), err));
    TRY(forecast_notes(run, err));
    if (!dist_rank() && output)
        TRY(states_open(run, output, force, err));
    TRY(states_share(run, err));
    if (dist_rank() || (!output && !run->io_open))
        return CODE_OK;
    if (!run->io_open)
        TRY(run->states.resume ? io_again(&run->io, output, err)
                               : io_create(&run->io, output, force, err));
    bool fresh = !run->io_open;
    run->io_open = true;
    if (fresh && run->program)
        TRY(io_text(&run->io, "", "program", run->program, err));
    memcpy(run->io.prefix, run->share.prefix, sizeof run->share.prefix);
    TRY(io_parameters(&run->io, &run->params, &run->config, err));
    TRY(provenance_write(&run->io, backend_list[run->config.solver.backend]->name, run->threads,
                         err));
    TRY(io_provenance(&run->io, "source", run->config.network.model->source, err));
    TRY(write_matrices(run, err));
    TRY(write_program(run, err));
    TRY(write_description(run, err));
    const struct output_settings *keys = &run->config.output;
    bool all = keys->inputs == INPUTS_ALL || keys->weights; /* weights act on them */
    TRY(io_data(&run->io, &run->data, all, err));
    if (keys->weights && run->inputs.K)
        TRY(io_coordinates(&run->io, &run->data, &run->inputs, err));
    TRY(write_batches(run, err));
    return io_flush(&run->io, err);
}

int run_ensemble(struct run *run, int N, int runs, struct record *record, struct err *err) {
    struct ensemble e = ensemble_of(run, N, record);
    int first;
    TRY(ensemble_declare(&e, runs, err));
    return ensemble_compute(&e, &first, err);
}

/* The limit (k = 0), then each width. Returns how many runs it has, maybe none. */
static int number_of(struct run *run, int k, struct ensemble *e) {
    const struct int_list *widths = &run->config.reference.widths;
    *e = ensemble_of(run, k ? widths->value[k - 1] : 0,
                     k ? &run->results.reference[k - 1] : &run->results.limit);
    return k ? run->config.reference.seeds : run->config.solver.replicates;
}

/* What this rank makes, with run->failed if a run fails. */
static int compute_all(struct run *run, struct err *err) {
    int count = 1 + run->config.reference.widths.count, first = 0, before = 0, code = CODE_OK;
    struct ensemble e;
    for (int k = 0; k < count; k++) {
        int runs = number_of(run, k, &e);
        if (runs)
            TRY(ensemble_declare(&e, runs, err));
    }
    run->failed = (struct err){0};
    run->place = 0;
    code = recheck_compute(run, &run->failed);
    if (run->config.split.name) /* its sites are shared: all ranks begin the limit, or none does */
        code = exchange_failure(code, run->place, &run->failed);
    for (int k = 0; k < count && !code; k++) {
        int runs = number_of(run, k, &e);
        if (runs)
            code = ensemble_compute(&e, &first, &run->failed);
        run->place = before + first;
        before += runs;
    }
    log_close(&run->log);
    return CODE_OK;
}

int run_failures(const struct run *run, bool any, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    FOR_EACH_OF (const struct record, record, run->results.reference, widths->count) {
        int first, failed = record_failures(record, &first);
        if (failed && (any || failed == record->runs))
            return err_set(err, CODE_NUMERICAL, "%d of %d networks failed: %.1800s", failed,
                           record->runs, record->failure.text);
    }
    return CODE_OK;
}

/* What all ranks made, to all ranks. */
static int collect_ranks(struct run *run, struct err *err) {
    int count = 1 + run->config.reference.widths.count;
    struct ensemble e;
    *err = run->failed;
    bool together = run->config.split.name && run->place < run->config.solver.replicates;
    if (dist_ranks() == 1 && !err->code)
        return run_failures(run, false, err);
    if (dist_ranks() == 1 || (err->code && together)) /* then all ranks have failed alike */
        return err->code;
    int code = exchange_failure(err->code, run->place, err);
    code = code ? code : recheck_collect(run, err);
    for (int k = 0; k < count; k++) {
        struct err ignored;
        if (number_of(run, k, &e)) {
            int written = ensemble_collect(&e, code ? &ignored : err);
            code = code ? code : written;
        }
    }
    return code ? code : run_failures(run, false, err);
}

/* Whatever has become of the runs, the file says what they are worth. */
int run_march(struct run *run, struct err *err) {
    struct err mine;
    TRY(compute_all(run, err));
    int code = collect_ranks(run, err);
    for (bool again = true; again;) {
        code = sites_raise(run, code, &again, err);
        if (again && !code)
            code = compute_all(run, err);
        if (again && !code)
            code = collect_ranks(run, err);
    }
    if (code)
        run->failed = *err;
    int noted = notes_collect(run, &mine);
    noted = noted ? noted : notes_write(run, &mine);
    if (noted && !code)
        *err = mine;
    return code ? code : noted;
}

int run_finish(struct run *run, bool force, struct err *err) {
    if (!run->io_open) /* ranks but 0 */
        return CODE_OK;
    TRY(io_finish(&run->io, force, err));
    run->io_open = false;
    states_done(run);
    return CODE_OK;
}

void run_free(struct run *run) {
    log_close(&run->log);
    if (run->io_open)
        io_close(&run->io);
    run->io_open = false;
    record_free(&run->results.limit);
    recheck_free(run);
    record_free(&run->results.iterations);
    for (int i = 0; i < INT_LIST_MAX; i++)
        record_free(&run->results.reference[i]);
    states_close(run);
    notes_free(&run->notes);
    params_free(&run->params);
    data_free(&run->data);
    coordinates_free(&run->inputs);
    free(run->sections);
    run->sections = NULL;
}
