/* Measuring a net at every time. */
#include "kernels/profile.h"
#include "solver/measure/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Series of gates, in the order they are declared and measured. */
static const struct {
    const char *name, *about, *equation;
} gate_series[] = {
    {"gate_participation", "participation ratio of the gates; 1: all experts count alike",
     "<phi>^2 / <phi^2>"},
    {"gate_largest", "share of the largest gate, times the number of experts", "max phi / <phi>"},
    {"gate_top", "share of the gates held by the top 1 % of the experts",
     "sum over the top 1 % of phi / sum phi"},
};
enum { PARTICIPATION, LARGEST, TOP, GATE_SERIES };

static int add(struct record *record, const char *name, const char *dims, const char *about,
               const char *equation, int axes, const size_t *shape, struct err *err) {
    struct series series = {.dims = dims, .about = about, .equation = equation, .axes = axes};
    snprintf(series.name, sizeof series.name, "%s", name);
    memcpy(series.shape, shape, (size_t)axes * sizeof *shape);
    series.keep_runs = !strcmp(name, "loss") || !strcmp(name, "f");
    return record_add(record, series, err);
}

static int add_kernel(struct record *record, const struct kernel *kernel, bool full, size_t T,
                      size_t P, struct err *err) {
    const size_t shape[] = {T, P, T, P}, times[] = {T, T};
    char name[SERIES_NAME];
    if (full)
        return kernel->one_row ? add(record, kernel->name, "t s", kernel->about, kernel->equation,
                                     2, times, err)
                               : add(record, kernel->name, "t mu s nu", kernel->about,
                                     kernel->equation, 4, shape, err);
    snprintf(name, sizeof name, "%s_diag", kernel->name);
    return add(record, name, kernel->one_row ? "t" : "t mu", kernel->about, kernel->equation,
               kernel->one_row ? 1 : 2, shape, err);
}

static int add_numbers(struct record *record, const struct numbers *numbers, size_t T,
                       struct err *err) {
    const size_t shape[] = {T, (size_t)numbers->shape[0], (size_t)numbers->shape[1]};
    return add(record, numbers->name, numbers->dims, numbers->about, numbers->equation,
               1 + numbers->axes, shape, err);
}

static int add_tests(struct record *record, size_t T, struct err *err) {
    const char *accuracy = "share of the inputs with y f > 0";
    TRY(add(record, "accuracy", "t", "accuracy on the inputs trained on", accuracy, 1, &T, err));
    TRY(add(record, "test_loss", "t", "mean over test inputs of the loss, NaN where not evaluated",
            "as loss", 1, &T, err));
    return add(record, "test_accuracy", "t", "accuracy on the test inputs", accuracy, 1, &T, err);
}

static const char *const basis_side[] = {"forward", "backward"};

static int add_ranks(struct record *record, const struct net *net, size_t T, char ***labels,
                     struct err *err) {
    size_t bases = 2 * (size_t)net->maps;
    const size_t rank[] = {T, bases};
    /* one block: the pointers, then the strings */
    TRY(base_alloc(labels, bases, sizeof **labels + SERIES_NAME, err));
    for (size_t i = 0; i < bases; i++) {
        (*labels)[i] = (char *)(*labels + bases) + i * SERIES_NAME;
        snprintf((*labels)[i], SERIES_NAME, "%s %s", net->map[i / 2]->declared.name,
                 basis_side[i % 2]);
    }
    return add(record, "rank", "t basis", "rank of the basis of each map and direction",
               "rows of q, p", 2, rank, err);
}

int observe_declare(struct record *record, const struct config *config,
                    const struct net_setup *setup, char ***labels, struct err *err) {
    size_t T = (size_t)record->T, P = (size_t)setup->P;
    const size_t shape[] = {T, P};
    struct net_setup declared = *setup;
    struct net net;
    int code;
    *labels = NULL;
    declared.declare_only = true;
    DO(net_init(&net, &declared, err));
    DO(add(record, "loss", "t", "mean over inputs of the loss l(f, y)",
           config->training.loss == LOSS_MSE ? "(y - f)^2 / 2" : "log(1 + exp(-y f))", 1, shape,
           err));
    DO(add(record, "f", "t mu", "output of the network, minus f(0) where centred",
           "<w, h_top> / gamma0", 2, shape, err));
    for (int k = 0; k < net.kernels && config->output.kernels; k++)
        DO(add_kernel(record, &net.kernel[k], config->output.kernels == KERNELS_FULL, T, P, err));
    for (int k = 0; k < net.numbers; k++)
        DO(add_numbers(record, &net.number[k], T, err));
    for (int k = 0; k < GATE_SERIES && net.has_router; k++)
        DO(add(record, gate_series[k].name, "t mu", gate_series[k].about, gate_series[k].equation,
               2, shape, err));
    if (config->reference.coordinate_check)
        DO(coordinate_declare(record, &net, setup->N || config->solver.method == METHOD_MARCH,
                              err));
    if (!setup->N)
        DO(add(record, "fallback", "t",
               "normals drawn so far without full matching, for want of sites", "", 1, shape, err));
    if (!setup->N && config->solver.method == METHOD_MARCH)
        DO(add_ranks(record, &net, T, labels, err));
    if (setup->responses)
        DO(response_declare(record, &net, err));
    if (setup->tests)
        DO(add_tests(record, T, err));
done:
    net_free(&net);
    return code;
}

int observer_init(struct observer *observer, const struct config *config, struct record *record,
                  int run, const struct net *net, struct err *err) {
    const struct backend *backend = profile_backend(config_backend(config, net->setup.N));
    int T = record->T;
    *observer = (struct observer){.config = config, .record = record, .run = run};
    observer->coordinate.backend = backend;
    size_t P = (size_t)net->setup.P;
    size_t most = config->output.kernels == KERNELS_FULL ? (size_t)T * P * P : P;
    TRY(base_alloc(&observer->scratch, most, sizeof *observer->scratch, err));
    if (net->has_router) {
        const struct array *gate = net->gate.array;
        TRY(array_init(&observer->work_array, backend, gate->sites, gate->group,
                       2 * net->gate.count, err));
    }
    if (config->output.kernels == KERNELS_FULL) {
        TRY(base_alloc(&observer->history, (size_t)net->kernels, sizeof *observer->history, err));
        observer->histories = net->kernels;
    }
    for (int k = 0; k < observer->histories; k++) {
        const struct array *array = net->kernel[k].rows.array;
        TRY(array_init(&observer->history[k], backend, array->sites, array->group, 0, err));
    }
    return net->setup.responses
               ? response_init(&observer->response, &observer->responses, record, run, net, err)
               : CODE_OK;
}

void observer_free(struct observer *observer) {
    for (int k = 0; k < observer->histories; k++)
        array_free(&observer->history[k]);
    free(observer->history);
    for (int k = 0; k < observer->responses; k++)
        response_free(&observer->response[k]);
    free(observer->response);
    coordinate_free(&observer->coordinate);
    array_free(&observer->work_array);
    free(observer->scratch);
    *observer = (struct observer){0};
}

/* Row t of K[t][mu][s][nu] for s <= t, and its mirror K[s][nu][t][mu]. */
static int measure_full(struct observer *observer, int k, struct rows now, double scale, int t,
                        struct series *series, struct err *err) {
    size_t T = (size_t)observer->record->T, P = (size_t)now.count, n = (size_t)(t + 1) * P;
    struct array *history = &observer->history[k];
    double *K = series->values + (size_t)observer->run * series->size;
    struct rows added;
    TRY(array_append(history, now.count, &added, err));
    rows_copy(now, added);
    history->backend->dots(array_all(history), now, observer->scratch);
    for (size_t mu = 0; mu < P; mu++)
        for (size_t past = 0; past < n; past++) {
            double value = scale * observer->scratch[past * P + mu];
            K[((size_t)t * P + mu) * T * P + past] = value;
            K[past * T * P + (size_t)t * P + mu] = value;
        }
    return CODE_OK;
}

static int measure_kernels(struct observer *observer, const struct net *net, int t,
                           struct err *err) {
    const struct backend *backend = net->setup.backend;
    for (int k = 0; k < net->kernels; k++) {
        struct rows now = net->kernel[k].rows;
        double scale = net->kernel[k].scale;
        struct series *series = observer->next++;
        if (observer->config->output.kernels == KERNELS_FULL) {
            TRY(measure_full(observer, k, now, scale, t, series, err));
            continue;
        }
        double *out = record_at(observer->record, series, observer->run, t);
        backend->averages(now, now, out);
        for (int mu = 0; mu < now.count; mu++)
            out[mu] *= scale;
    }
    return CODE_OK;
}

/* Averages over experts; the largest and the top 1 % through masks. */
static int measure_gates(struct observer *observer, const struct net *net, int t, struct err *err) {
    const struct backend *backend = net->setup.backend;
    struct rows phi = net->gate;
    int P = phi.count;
    size_t experts = phi.array->sites, hundredth = (experts + 99) / 100;
    struct rows mask = array_rows(&observer->work_array, 0, P);
    double *mean = observer->scratch, *out[GATE_SERIES];
    for (int k = 0; k < GATE_SERIES; k++)
        out[k] = record_at(observer->record, observer->next++, observer->run, t);
    backend->averages(phi, (struct rows){0}, mean);
    backend->averages(phi, phi, out[PARTICIPATION]);
    TRY(backend->top(phi, 1, mask, err));
    backend->averages(phi, mask, out[LARGEST]);
    TRY(backend->top(phi, hundredth, mask, err));
    backend->averages(phi, mask, out[TOP]);
    for (int mu = 0; mu < P; mu++) {
        out[PARTICIPATION][mu] = mean[mu] * mean[mu] / out[PARTICIPATION][mu];
        out[LARGEST][mu] *= (double)experts / mean[mu];
        out[TOP][mu] /= mean[mu];
    }
    return CODE_OK;
}

static void measure_limit(struct observer *observer, const struct net *net, int t) {
    double *fallback = record_at(observer->record, observer->next++, observer->run, t);
    *fallback = 0;
    for (int i = 0; i < net->populations; i++)
        *fallback += net->population[i]->fallback;
    if (net->setup.field)
        return;
    double *rank = record_at(observer->record, observer->next++, observer->run, t);
    for (int i = 0; i < net->maps; i++) {
        rank[2 * i] = map_rank(net->map[i], true);
        rank[2 * i + 1] = map_rank(net->map[i], false);
    }
}

static int measure(struct observer *observer, const struct net *net, int t, struct err *err) {
    size_t bytes = (size_t)net->setup.P * sizeof *net->f;
    observer->next = observer->record->series;
    *record_at(observer->record, observer->next++, observer->run, t) = net->loss;
    memcpy(record_at(observer->record, observer->next++, observer->run, t), net->f, bytes);
    if (observer->config->output.kernels)
        TRY(measure_kernels(observer, net, t, err));
    for (int k = 0; k < net->numbers; k++) {
        struct series *series = observer->next++;
        memcpy(record_at(observer->record, series, observer->run, t), net->number[k].values,
               series->size / series->shape[0] * sizeof *net->number[k].values);
    }
    if (net->has_router)
        TRY(measure_gates(observer, net, t, err));
    if (observer->config->reference.coordinate_check)
        TRY(coordinate_measure(&observer->coordinate, net, t, observer->run, observer->record,
                               &observer->next, err));
    if (!net->setup.N)
        measure_limit(observer, net, t);
    for (int k = 0; k < observer->responses; k++)
        TRY(response_measure(&observer->response[k], t, err));
    return net->setup.backend->sync(err);
}

int observer_measure(struct observer *observer, const struct net *net, int t, struct err *err) {
    int before = profile_enter("measuring", "");
    int code = measure(observer, net, t, err);
    profile_leave(before);
    return code;
}

static double *at(const struct observer *observer, const char *name, int t) {
    const struct record *record = observer->record;
    return record_at(record, record_find(record, name), observer->run, t);
}

int observer_look(struct observer *observer, struct net *net, const double *y, int t,
                  struct err *err) {
    int P = net->setup.P, tests = net->setup.tests, right = 0, code = CODE_OK;
    double *f, Delta, loss = 0;
    if (!tests)
        return CODE_OK;
    for (int mu = 0; mu < P; mu++)
        right += net->f[mu] * y[net->index[mu]] > 0;
    *at(observer, "accuracy", t) = (double)right / P;
    if (t % observer->config->output.test_every)
        return CODE_OK;
    TRY(base_alloc(&f, (size_t)tests, sizeof *f, err));
    DO(net_look(net, net->setup.inputs, tests, f, err));
    y += net->setup.inputs;
    right = 0;
    for (int mu = 0; mu < tests; mu++) {
        loss += net_loss((enum loss)observer->config->training.loss, f[mu], y[mu], &Delta) / tests;
        right += f[mu] * y[mu] > 0;
    }
    *at(observer, "test_loss", t) = loss;
    *at(observer, "test_accuracy", t) = (double)right / tests;
done:
    free(f);
    return code;
}

int observe_rank(const struct net *net) {
    int largest = 0;
    for (int i = 0; i < 2 * net->maps; i++) {
        int rank = map_rank(net->map[i / 2], i % 2 == 0);
        largest = rank > largest ? rank : largest;
    }
    return largest;
}
