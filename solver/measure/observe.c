/* Measuring a net at every time. */
#include "kernels/profile.h"
#include "solver/measure/observe.h"
#include "solver/measure/experts.h"
#include "solver/measure/fields.h"
#include "solver/measure/mean_loss.h"
#include "solver/measure/routing.h"
#include "solver/measure/score.h"
#include "solver/measure/spectra.h"
#include "solver/measure/tangent.h"

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
    {"gate_top", "share of the gates held by the top 1 % of the experts, the last of them in part",
     "sum over the top 1 % of phi / sum phi"},
};
enum { PARTICIPATION, LARGEST, TOP, GATE_SERIES };

static int add(struct record *record, const char *name, const char *dims, const char *about,
               const char *equation, int axes, const size_t *shape, struct err *err) {
    struct series series = {.dims = dims, .about = about, .equation = equation, .axes = axes};
    snprintf(series.name, sizeof series.name, "%s", name);
    memcpy(series.shape, shape, (size_t)axes * sizeof *shape);
    series.rough = strstr(name, "accuracy") || strstr(name, "largest") || !strcmp(name, "gate_top");
    series.keep_runs = !strcmp(name, "loss") || !strcmp(name, "f");
    series.computation = !strcmp(name, "rank") || !strcmp(name, "fallback");
    return record_add(record, series, err);
}

/* Rows are inputs mu; or their tokens, in full kernels rows mu n + token; or (one_row) outputs c.
 */
static int add_kernel(struct record *record, const struct kernel *kernel, bool full, size_t T,
                      size_t P, struct err *err) {
    size_t rows = (size_t)kernel->rows.count;
    const size_t shape[] = {T, rows, T, rows}, times[] = {T, T}, tokens[] = {T, P, rows / P};
    bool one = kernel->one_row && rows == 1;
    char name[SERIES_NAME];
    if (full && one)
        return add(record, kernel->name, "t s", kernel->about, kernel->equation, 2, times, err);
    if (full)
        return add(record, kernel->name,
                   kernel->one_row ? "t c s d"
                   : rows > P      ? "t row s column"
                                   : "t mu s nu",
                   kernel->about, kernel->equation, 4, shape, err);
    snprintf(name, sizeof name, "%s_diag", kernel->name);
    if (!kernel->one_row && rows > P)
        return add(record, name, "t mu token", kernel->about, kernel->equation, 3, tokens, err);
    return add(record, name,
               one               ? "t"
               : kernel->one_row ? "t c"
                                 : "t mu",
               kernel->about, kernel->equation, one ? 1 : 2, shape, err);
}

/* Between the rows of one time. */
static int add_equal(struct record *record, const struct kernel *kernel, size_t T, size_t P,
                     struct err *err) {
    size_t rows = (size_t)kernel->rows.count;
    const size_t shape[] = {T, rows, rows};
    bool one = kernel->one_row && rows == 1;
    char name[SERIES_NAME];
    snprintf(name, sizeof name, "%s_equal", kernel->name);
    return add(record, name,
               one               ? "t"
               : kernel->one_row ? "t c d"
               : rows > P        ? "t row column"
                                 : "t mu nu",
               kernel->about, kernel->equation, one ? 1 : 3, shape, err);
}

static int add_kernels(struct record *record, const struct config *config, const struct net *net,
                       size_t T, struct err *err) {
    size_t P = (size_t)net->setup.P;
    int kernels = config->output.kernels;
    for (int k = 0; k < net->kernels && kernels; k++) {
        TRY(add_kernel(record, &net->kernel[k], kernels == KERNELS_FULL, T, P, err));
        if (kernels == KERNELS_EQUAL)
            TRY(add_equal(record, &net->kernel[k], T, P, err));
    }
    return CODE_OK;
}

static int add_numbers(struct record *record, const struct numbers *numbers, size_t T,
                       struct err *err) {
    const size_t shape[] = {T, (size_t)numbers->shape[0], (size_t)numbers->shape[1],
                            (size_t)numbers->shape[2]};
    return add(record, numbers->name, numbers->dims, numbers->about, numbers->equation,
               1 + numbers->axes, shape, err);
}

/* The losses of a limit whose outputs do not fluctuate are those of its mean output, from two
 * replicates on (none: shapes). */
static bool has_mean_loss(const struct record *record, const struct net *net, const double *y) {
    return y && !net->setup.N && !net->random && record->runs != 1;
}

static int add_loss(struct record *record, const struct config *config, const struct net *net,
                    const double *y, size_t T, struct err *err) {
    const struct loss *loss = config->training.loss;
    TRY(add(record, "loss", "t",
            has_mean_loss(record, net, y)
                ? "mean over inputs of the loss l(f, y) of the mean f of all replicates, by "
                  "the jackknife"
                : "mean over inputs of the loss l(f, y)",
            loss->equation, 1, &T, err));
    record->series[record->count - 1].tex = loss->tex;
    return CODE_OK;
}

/* f of the test inputs, and their loss. */
static int add_test_loss(struct record *record, const struct config *config, const struct net *net,
                         const double *y, size_t T, struct err *err) {
    const struct net_setup *setup = &net->setup;
    bool of_mean = has_mean_loss(record, net, y);
    int outputs = net_outputs(net);
    const size_t shape[] = {T, (size_t)(setup->tests * outputs)};
    if (y && !setup->N) { /* of one replicate, too: more may join a run that goes on */
        TRY(add(record, "test_f", "t output", "outputs at the test inputs", "", 2, shape, err));
        record->series[record->count - 1].inner = true;
    }
    TRY(add(record, "test_loss", "t",
            of_mean ? "mean over test inputs of the loss of the mean f of all replicates, by the "
                      "jackknife; NaN where not evaluated"
                    : "mean over test inputs of the loss, NaN where not evaluated",
            "as loss", 1, &T, err));
    if (!of_mean)
        return CODE_OK;
    const struct mean_loss_rows rows = {y + setup->inputs * outputs, setup->tests,
                                        outputs / setup->C, setup->C, false};
    return mean_loss_set(record, "test_loss", "test_f", &config->training, &rows, err);
}

static int add_scores(struct record *record, const struct config *config, const struct net *net,
                      const double *y, size_t T, struct err *err) {
    const struct net_setup *setup = &net->setup;
    bool several = setup->C > 1;
    const char *right = several ? "share of rows of y whose class has the largest f"
                                : "share of the inputs with y f > 0",
               *top = "share of rows of y whose class is among the K = top largest f";
    if (setup->classes)
        TRY(add(record, "accuracy", "t", "accuracy on the inputs trained on", right, 1, &T, err));
    if (setup->classes && config->output.top)
        TRY(add(record, "top_accuracy", "t", "top-K accuracy on the inputs trained on", top, 1, &T,
                err));
    if (!setup->tests)
        return CODE_OK;
    TRY(add_test_loss(record, config, net, y, T, err));
    if (setup->classes)
        TRY(add(record, "test_accuracy", "t", "accuracy on the test inputs", right, 1, &T, err));
    if (setup->classes && config->output.top)
        TRY(add(record, "test_top_accuracy", "t", "top-K accuracy on the test inputs", top, 1, &T,
                err));
    return CODE_OK;
}

static int add_outputs(struct record *record, const struct net *net, size_t T, struct err *err) {
    size_t C = (size_t)net->setup.C;
    const size_t shape[] = {T, (size_t)net->setup.P,
                            net->setup.per_token ? (size_t)net->setup.n : C, C};
    bool tokens = net->setup.per_token, several = C > 1;
    return add(record, "f",
               tokens    ? several ? "t mu token c" : "t mu token"
               : several ? "t mu c"
                         : "t mu",
               "output of the network, minus f(0) where centred", "<w, h_top> / gamma0",
               2 + tokens + several, shape, err);
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
                    const struct net_setup *setup, const double *y, char ***labels,
                    struct err *err) {
    size_t T = (size_t)record->T, P = (size_t)setup->P;
    const size_t shape[] = {T, P};
    struct net_setup declared = *setup;
    struct net net;
    int code;
    *labels = NULL;
    declared.declare_only = true;
    DO(net_init(&net, &declared, err));
    DO(add_loss(record, config, &net, y, T, err));
    DO(add_outputs(record, &net, T, err));
    if (has_mean_loss(record, &net, y)) {
        int C = net.setup.C;
        const struct mean_loss_rows rows = {y, net.setup.inputs, net_outputs(&net) / C, C, true};
        DO(mean_loss_set(record, "loss", "f", &config->training, &rows, err));
    }
    DO(add_kernels(record, config, &net, T, err));
    DO(fields_declare(record, config, &net, err));
    DO(routing_declare(record, &net, err));
    DO(experts_declare(record, config, &net, err));
    DO(tangent_declare(record, config, &net, err));
    DO(spectra_declare(record, config, &net, err));
    for (int k = 0; k < net.numbers; k++)
        DO(add_numbers(record, &net.number[k], T, err));
    for (int k = 0; k < GATE_SERIES && net.has_router; k++) {
        bool tokens = net.gate.count > net.setup.P;
        const size_t rows[] = {T, P, (size_t)net.setup.n};
        DO(add(record, gate_series[k].name, tokens ? "t mu token" : "t mu", gate_series[k].about,
               gate_series[k].equation, 2 + tokens, rows, err));
    }
    if (config->training.clip > 0)
        DO(add(record, "gradient_norm", "t", "norm of the gradient of the loss, before clipping",
               "(sum over matrices of rate/P^2 sum_mu,nu Delta_mu Delta_nu <g_mu g_nu><x_mu "
               "x_nu>)^1/2",
               1, shape, err));
    if (config->reference.coordinate_check)
        DO(coordinate_declare(record, &net, setup->N || config->solver.method == METHOD_MARCH,
                              err));
    if (!setup->N)
        DO(add(record, "fallback", "t",
               "normals drawn so far without full matching, for want of sites", "", 1, shape, err));
    if (!setup->N && config->solver.method == METHOD_MARCH && net.maps)
        DO(add_ranks(record, &net, T, labels, err));
    if (setup->responses)
        DO(response_declare(record, &net, err));
    DO(add_scores(record, config, &net, y, T, err));
done:
    net_free(&net);
    return code;
}

int observer_init(struct observer *observer, const struct config *config, const double *y,
                  struct record *record, int run, const struct net *net, struct err *err) {
    const struct backend *backend = profile_backend(config_backend(config, net->setup.N));
    int T = record->T;
    *observer = (struct observer){.config = config, .y = y, .record = record, .run = run};
    observer->coordinate.backend = backend;
    size_t R = (size_t)net->rows, C = (size_t)net->setup.C, row = R > C ? R : C;
    size_t most = 2 * row,
           full = config->output.kernels == KERNELS_FULL ? (size_t)T * row * row : 0;
    most = full > most ? full : most;
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

int observer_archive(struct observer *observer, const struct net *net, int steps,
                     struct archive *archive, struct err *err) {
    TRY(record_archive(observer->record, observer->run, steps, archive, err));
    for (int k = 0; k < observer->histories; k++)
        TRY(archive_array(archive, &observer->history[k], observer->history[k].backend, err));
    for (int k = 0; k < observer->responses; k++)
        TRY(response_archive(&observer->response[k], archive, err));
    return observer->config->reference.coordinate_check
               ? coordinate_archive(&observer->coordinate, net, archive, err)
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

/* Of kernels: sums of products, NaN only where rows are not finite. */
static int refuse_nan(const struct series *series, const double *value, int count,
                      struct err *err) {
    for (int k = 0; k < count; k++)
        if (isnan(value[k]))
            return err_set(err, CODE_NUMERICAL, "%s is not finite; lower eta0 or gamma0",
                           series->name);
    return CODE_OK;
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
    return refuse_nan(series, observer->scratch, (int)(n * P), err);
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
        TRY(refuse_nan(series, out, now.count, err));
        if (observer->config->output.kernels != KERNELS_EQUAL)
            continue;
        out = record_at(observer->record, observer->next++, observer->run, t);
        backend->dots(now, now, out);
        for (int k2 = 0; k2 < now.count * now.count; k2++)
            out[k2] *= scale;
    }
    return CODE_OK;
}

/* Averages over experts; the largest and the top 1 % through masks. Between whole numbers of
 * experts the share of the latter is that of the smaller number, and of the next expert a part. */
static int measure_gates(struct observer *observer, const struct net *net, int t, struct err *err) {
    const struct backend *backend = net->setup.backend;
    struct rows phi = net->gate;
    int P = phi.count;
    size_t experts = phi.array->sites, whole = experts / 100;
    double part = (double)(experts % 100) / 100;
    struct rows mask = array_rows(&observer->work_array, 0, P);
    double *mean = observer->scratch, *next = mean + P, *out[GATE_SERIES];
    for (int k = 0; k < GATE_SERIES; k++)
        out[k] = record_at(observer->record, observer->next++, observer->run, t);
    backend->averages(phi, (struct rows){0}, mean);
    backend->averages(phi, phi, out[PARTICIPATION]);
    TRY(backend->top(phi, 1, mask, err));
    backend->averages(phi, mask, out[LARGEST]);
    TRY(backend->top(phi, whole + 1, mask, err));
    backend->averages(phi, mask, next);
    memset(out[TOP], 0, (size_t)P * sizeof(double));
    if (whole) {
        TRY(backend->top(phi, whole, mask, err));
        backend->averages(phi, mask, out[TOP]);
    }
    for (int mu = 0; mu < P; mu++) {
        out[PARTICIPATION][mu] = mean[mu] * mean[mu] / out[PARTICIPATION][mu];
        out[LARGEST][mu] *= (double)experts / mean[mu];
        out[TOP][mu] = (out[TOP][mu] + part * (next[mu] - out[TOP][mu])) / mean[mu];
    }
    return CODE_OK;
}

static void measure_limit(struct observer *observer, const struct net *net, int t) {
    double *fallback = record_at(observer->record, observer->next++, observer->run, t);
    *fallback = 0;
    for (int i = 0; i < net->populations; i++)
        *fallback += net->population[i]->fallback;
    if (net->setup.field || !net->maps)
        return;
    double *rank = record_at(observer->record, observer->next++, observer->run, t);
    for (int i = 0; i < net->maps; i++) {
        rank[2 * i] = map_rank(net->map[i], true);
        rank[2 * i + 1] = map_rank(net->map[i], false);
    }
}

static double *at(const struct observer *observer, const char *name, int t) {
    const struct record *record = observer->record;
    return record_at(record, record_find(record, name), observer->run, t);
}

/* Of inputs mu of the last evaluation, or of all those that f belongs to. */
static struct score score_of(const struct observer *observer, const struct net *net, const int *mu,
                             int count, const double *f, const double *y) {
    const struct config *config = observer->config;
    int C = net->setup.C, each = net_outputs(net) / C;
    struct score score = {0};
    for (int i = 0; i < count * each; i++) {
        size_t asked = (size_t)(mu ? mu[i / each] : i / each) * (size_t)each + (size_t)(i % each);
        score_add(&score, config->training.loss, C, config->output.top, f + i * C,
                  y + asked * (size_t)C);
    }
    return score;
}

static void keep_score(const struct observer *observer, const struct net *net, bool test, int t,
                       const struct score *score) {
    if (net->setup.classes)
        *at(observer, test ? "test_accuracy" : "accuracy", t) = (double)score->right / score->asked;
    if (net->setup.classes && observer->config->output.top)
        *at(observer, test ? "test_top_accuracy" : "top_accuracy", t) =
            (double)score->top / score->asked;
    if (test)
        *at(observer, "test_loss", t) = score->loss / score->rows;
}

/* What the settings name. */
static int measure_named(struct observer *observer, const struct net *net, int t, struct err *err) {
    const struct config *config = observer->config;
    struct record *record = observer->record;
    struct series **next = &observer->next;
    int run = observer->run;
    TRY(fields_measure(net, t, run, record, next, err));
    TRY(routing_measure(net, t, run, record, next, err));
    TRY(experts_measure(config, net, t, run, record, next, err));
    TRY(tangent_measure(config, net, t, run, record, next, err));
    return spectra_measure(config, net, observer->y, t, run, record, next, err);
}

static int measure(struct observer *observer, const struct net *net, int t, struct err *err) {
    size_t bytes = (size_t)(net->outs * net->setup.C) * sizeof *net->f;
    observer->next = observer->record->series;
    *record_at(observer->record, observer->next++, observer->run, t) = net->loss;
    memcpy(record_at(observer->record, observer->next++, observer->run, t), net->f, bytes);
    if (observer->config->output.kernels)
        TRY(measure_kernels(observer, net, t, err));
    TRY(measure_named(observer, net, t, err));
    for (int k = 0; k < net->numbers; k++) {
        struct series *series = observer->next++;
        memcpy(record_at(observer->record, series, observer->run, t), net->number[k].values,
               series->size / series->shape[0] * sizeof *net->number[k].values);
    }
    if (net->has_router)
        TRY(measure_gates(observer, net, t, err));
    if (observer->config->training.clip > 0)
        TRY(net_gradient_norm(net, record_at(observer->record, observer->next++, observer->run, t),
                              err));
    if (observer->config->reference.coordinate_check)
        TRY(coordinate_measure(&observer->coordinate, net, t, observer->run, observer->record,
                               &observer->next, err));
    if (!net->setup.N)
        measure_limit(observer, net, t);
    for (int k = 0; k < observer->responses; k++)
        TRY(response_measure(&observer->response[k], t, err));
    if (net->setup.classes) {
        struct score score = score_of(observer, net, net->index, net->setup.P, net->f, observer->y);
        keep_score(observer, net, false, t, &score);
    }
    return net->setup.backend->sync(err);
}

int observer_measure(struct observer *observer, const struct net *net, int t, struct err *err) {
    int before = profile_enter("measuring", "");
    int code = measure(observer, net, t, err);
    profile_leave(before);
    return code;
}

int observer_look(struct observer *observer, struct net *net, int t, struct err *err) {
    int inputs = net->setup.inputs, tests = net->setup.tests, code = CODE_OK;
    const double *y = observer->y + inputs * net_outputs(net);
    double *f;
    if (!tests || t % observer->config->output.test_every)
        return CODE_OK;
    TRY(base_alloc(&f, (size_t)(tests * net_outputs(net)), sizeof *f, err));
    DO(net_look(net, inputs, tests, f, err));
    struct score score = score_of(observer, net, NULL, tests, f, y);
    keep_score(observer, net, true, t, &score);
    if (record_find(observer->record, "test_f"))
        memcpy(at(observer, "test_f", t), f, (size_t)(tests * net_outputs(net)) * sizeof *f);
done:
    free(f);
    return code;
}

double observe_bytes(const struct config *config, const struct net *net) {
    double scratch[] = {fields_bytes(net), experts_bytes(net), routing_bytes(net),
                        config->output.tangent ? tangent_bytes(net) : 0,
                        spectra_bytes(config, net)},
           most = 0;
    for (size_t k = 0; k < sizeof scratch / sizeof *scratch; k++)
        most = scratch[k] > most ? scratch[k] : most;
    return most + (config->reference.coordinate_check ? coordinate_bytes(net) : 0);
}

int observe_rank(const struct net *net) {
    int largest = 0;
    for (int i = 0; i < 2 * net->maps; i++) {
        int rank = map_rank(net->map[i / 2], i % 2 == 0);
        largest = rank > largest ? rank : largest;
    }
    return largest;
}
