/* A net is made as if the new inputs had been test inputs from the start: its first evaluation
 * finds what is subtracted at them (their origins), and the state all else. */
#include "solver/run/parts.h"
#include "solver/files/result.h"
#include "solver/run/ensemble.h"
#include "solver/run/states.h"

#include <unistd.h>

struct prediction {
    const struct run *run; /* that kept its states */
    struct run with;       /* the same with the new inputs in the place of its test inputs */
    struct record record, half[2];
    int N, failed; /* networks that may have no state at the end of the run, since they failed */
};

/* The training inputs of the run, with their weights, and behind them those of a file. */
static int join_inputs(const struct data *old, const struct data *more, const char *path,
                       struct data *new, struct err *err) {
    struct data sizes = *old;
    size_t rows = (size_t)old->P * (size_t)old->n, width = (size_t)old->D,
           places = (size_t)old->P * (old->per_token ? (size_t)old->n : 1),
           targets = places * (old->numbered ? 1 : (size_t)old->C);
    if (more->n != old->n || more->D != old->D || more->V != old->V)
        return err_set(err, CODE_INPUT,
                       "data file %s: an input has %d x %d numbers%s, and those of the run %d x %d",
                       path, more->n, more->D, more->V ? " of tokens" : "", old->n, old->D);
    sizes.tests = more->P;
    TRY(data_init(new, &sizes, err));
    memcpy(new->y, old->y, targets * sizeof *new->y);
    for (int mu = 0; mu < old->P + more->P && old->weighted; mu++)
        new->weight[mu] = mu < old->P ? old->weight[mu] : 1;
    if (old->V) {
        memcpy(new->token, old->token, rows * sizeof *new->token);
        memcpy(new->token + rows, more->token, data_rows(more) * sizeof *new->token);
    } else {
        memcpy(new->X, old->X, rows * width * sizeof *new->X);
        memcpy(new->X + rows *width, more->X, data_rows(more) * width * sizeof *new->X);
    }
    return CODE_OK;
}

static int read_inputs(struct prediction *p, const char *path, struct err *err) {
    const struct config *config = &p->run->config;
    const struct data_wanted wanted = {
        .loss = config->training.loss,
        .outputs = p->run->data.C > 1 ? p->run->data.C : 0,
        .vocabulary = p->run->data.V,
        .positions = p->run->data.D > p->run->data.V,
        .most = (size_t)(config->solver.max_memory * 1e9 / 3 / sizeof(double))};
    FREED(data_free) struct data more = {0};
    TRY(data_read(&more, path, &wanted, err));
    TRY(join_inputs(&p->run->data, &more, path, &p->with.data, err));
    TRY(config_coordinates(config, &p->with.data, &p->with.inputs, err));
    int directions = p->with.inputs.K + p->with.inputs.test_directions;
    const struct int_list *widths = &config->reference.widths;
    if (config->reference.draws == DRAWS_BALANCED && widths->count &&
        widths->value[0] < directions + 1)
        return err_set(err, CODE_INPUT,
                       "data file %s: with its inputs there are %d directions, and balanced draws "
                       "need N > %d; predict them in parts",
                       path, directions, directions);
    int sites = config->solver.sites / (config->solver.halves ? 2 : 1);
    if (config->solver.replicates && directions > sites)
        return err_set(err, CODE_INPUT,
                       "data file %s: with its inputs there are %d directions, more than the %d "
                       "sites of %s; predict them in parts",
                       path, directions, sites,
                       config->solver.halves ? "a half of the limit" : "the limit");
    return CODE_OK;
}

/* Origins of test inputs from one net to another. */
static void take_origins(const struct net *from, struct net *to) {
    size_t inputs = (size_t)to->setup.data.inputs, tests = (size_t)to->setup.data.tests;
    for (int i = 0; i < to->origins.count; i++) {
        size_t K = (size_t)to->origins.item[i].K;
        if (to->origins.item[i].all)
            memcpy(to->origins.item[i].all + inputs * K, from->origins.item[i].all + inputs * K,
                   tests * K * sizeof(double));
    }
}

/* Run number r into the record. */
static int predict_one_run(struct prediction *p, int r, struct err *err) {
    const struct run *run = p->run;
    const struct training *training = &run->config.training;
    struct net_setup setup = run_setup(&p->with, p->N, r), old = run_setup(run, p->N, r);
    FREED(net_free) struct net first = {0}, net = {0};
    FREED(batch_free) struct batch batch = {0};
    struct state state = {.N = p->N, .r = r, .net = &net, .of = &old.data};
    TRY(net_init(&first, &setup, err));
    TRY(batch_init(&batch, training, run->data.P, err));
    batch_at(&batch, 0, first.batch.index);
    TRY(net_evaluate(&first, training->loss, p->with.data.y, err));
    TRY(net_init(&net, &setup, err));
    take_origins(&first, &net);
    TRY(states_find(run, &state, err));
    if (state.steps < training->steps && p->failed) {
        p->failed--;
        p->record.failed[r] = true;
        return CODE_OK;
    }
    if (!state.steps)
        return err_set(err, CODE_INPUT,
                       p->N               ? "network %d of N = %d has kept no state"
                       : run->config.half ? "replicate %d of the limit in halves has kept no state"
                                          : "replicate %d of the limit has kept no state",
                       r, p->N);
    if (state.steps < training->steps)
        return err_set(err, CODE_INPUT,
                       "the run has come to step %d of %d: --continue goes on with it", state.steps,
                       training->steps);
    TRY(net_predict(&net, setup.data.inputs, setup.data.tests,
                    record_at(&p->record, record_find(&p->record, "f"), r, 0), err));
    p->record.steps[r] = 1;
    return CODE_OK;
}

/* All runs of a width (0: of the limit) into p->record. */
static int predict_ensemble(struct prediction *p, int N, int runs, struct err *err) {
    const struct net_setup setup = run_setup(&p->with, N, 0);
    struct series f = outputs_f(&setup.data, setup.data.tests);
    f.about = "output of the network at the inputs, minus f(0) where centred";
    p->N = N;
    TRY(record_init(&p->record, runs, 1, err));
    TRY(record_add(&p->record, f, err));
    for (int r = 0; r < runs; r++)
        TRY(predict_one_run(p, r, err));
    return CODE_OK;
}

static int predict_networks(struct prediction *p, const char *result, int N, struct io *io,
                            struct err *err) {
    char group[ENSEMBLE_GROUP];
    ensemble_group(group, N);
    record_free(&p->record);
    TRY(result_failed(result, group, &p->failed, err));
    TRY(predict_ensemble(p, N, p->run->config.reference.seeds, err));
    TRY(io_attribute(io, group, "N", N, err));
    return io_record(io, group, &p->record, err);
}

/* The replicates, and where the run has halves these, too, which take the bias off. */
static int predict_limit(struct prediction *p, struct io *io, struct err *err) {
    bool split = p->run->config.solver.halves;
    int replicates = p->run->config.solver.replicates;
    TRY(predict_ensemble(p, 0, replicates, err));
    for (int k = 0; k < (split ? 2 : 0); k++) {
        const struct run run = recheck_half(p->run, k + 1);
        struct prediction half = {.run = &run, .with = recheck_half(&p->with, k + 1)};
        int code = predict_ensemble(&half, 0, replicates, err);
        p->half[k] = half.record;
        TRY(code);
    }
    if (split)
        TRY(record_set_half(&p->record, p->half, err));
    return io_record(io, "limit", &p->record, err);
}

int predict_run(struct run *run, const char *result, const char *path, const char *output,
                bool force, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    struct prediction p = {.run = run, .with = *run};
    struct io io = {0};
    int code;
    p.with.data = (struct data){0};
    p.with.inputs = (struct coordinates){0};
    DO(read_inputs(&p, path, err));
    DO(io_create(&io, output, force, err));
    DO(io_parameters(&io, &run->params, &run->config, err));
    if (run->config.solver.replicates)
        DO(predict_limit(&p, &io, err));
    for (int i = 0; i < widths->count; i++)
        DO(predict_networks(&p, result, widths->value[i], &io, err));
    DO(io_finish(&io, force, err));
done:
    if (code && io.partial)
        unlink(io.partial);
    io_close(&io);
    record_free(&p.record);
    record_free(&p.half[0]);
    record_free(&p.half[1]);
    coordinates_free(&p.with.inputs);
    data_free(&p.with.data);
    return code;
}
