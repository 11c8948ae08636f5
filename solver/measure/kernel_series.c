#include "solver/measure/kernel_series.h"
#include "kernels/array/profile.h"
#include "models/engine/counts.h"
#include "solver/measure/expert_kernels.h"
#include "solver/measure/gradients.h"
#include "solver/measure/observe.h"
#include "solver/measure/places.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums of products are NaN only where rows are not finite. */
static int refuse_nan(const char *name, const double *value, size_t count, struct err *err) {
    for (size_t k = 0; k < count; k++)
        if (isnan(value[k]))
            return err_overflow(err, "%s is not finite", name);
    return CODE_OK;
}

/* Row t of K[t][mu][s][nu] for s <= t, and its mirror K[s][nu][t][mu]. */
static int fill_full(const struct measuring *m, double *const *out, struct err *err) {
    const struct kernel *kernel = &m->net->kernels.item[m->item];
    struct kernel_history *history = &m->observer->history;
    struct array *past = &history->rows[m->item];
    struct rows now = kernel->rows, added;
    size_t T = (size_t)m->record->T, P = (size_t)now.count, t = (size_t)m->t, n = (t + 1) * P;
    double *K = out[0] - t * P * T * P; /* of time 0 */
    TRY(array_append(past, now.count, &added, err));
    rows_copy(now, added);
    past->backend->dots(array_all(past), added, history->products);
    for (size_t mu = 0; mu < P; mu++)
        for (size_t k = 0; k < n; k++) {
            double value = kernel->scale * history->products[k * P + mu];
            K[(t * P + mu) * T * P + k] = value;
            K[k * T * P + t * P + mu] = value;
        }
    return refuse_nan(kernel->name, history->products, n * P, err);
}

enum { DIAGONAL, EQUAL };

static int fill_one_time(const struct measuring *m, double *const *out, struct err *err) {
    const struct kernel *kernel = &m->net->kernels.item[m->item];
    struct rows now = kernel->rows;
    size_t P = (size_t)now.count;
    char name[SERIES_NAME];
    kernel_series_name(name, m->net, kernel);
    strcat(name, "_diag");
    m->net->setup.backend->averages(now, now, out[DIAGONAL]);
    for (size_t mu = 0; mu < P; mu++)
        out[DIAGONAL][mu] *= kernel->scale;
    TRY(refuse_nan(name, out[DIAGONAL], P, err));
    if (!out[EQUAL])
        return CODE_OK;
    m->net->setup.backend->dots(now, now, out[EQUAL]);
    for (size_t k = 0; k < P * P; k++)
        out[EQUAL][k] *= kernel->scale;
    return CODE_OK;
}

/* Rows are inputs mu, or their tokens, or (for_all_inputs) outputs c, or a single one. */
struct form {
    const char *full, *diagonal, *equal; /* dims */
    int axes[3];
};

static const struct form *form_of(const struct kernel *kernel, int P) {
    static const struct form one = {"t s", "t", "t", {2, 1, 1}},
                             outputs = {"t c s d", "t c", "t c d", {4, 2, 3}},
                             inputs = {"t mu s nu", "t mu", "t mu nu", {4, 2, 3}},
                             tokens = {"t row s column", "t mu token", "t row column", {4, 3, 3}};
    if (kernel->for_all_inputs)
        return kernel->rows.count == 1 ? &one : &outputs;
    return kernel->rows.count > P ? &tokens : &inputs;
}

static const char *term_of(const struct net *net, bool gradient) {
    return gradient ? gradients_own(net) : "";
}

void kernel_series_name(char name[SERIES_NAME], const struct net *net,
                        const struct kernel *kernel) {
    gradients_name(name, kernel->name, term_of(net, kernel->gradient), "");
}

/* about, and of which term it is. */
static int own_about(struct series *series, const char *about, const char *term, struct err *err) {
    const char *of = !strcmp(term, "loss")    ? ", of the loss of the task"
                     : !strcmp(term, "total") ? ", of the loss and its penalties together"
                                              : ", of the penalty ";
    size_t room = strlen(about) + strlen(of) + strlen(term) + 1;
    series->about = about;
    if (!*term)
        return CODE_OK;
    TRY(base_alloc(&series->own, room, 1, err));
    bool penalty = of[strlen(of) - 1] == ' ';
    snprintf(series->own, room, "%s%s%s", about, of, penalty ? term : "");
    series->about = series->own;
    return CODE_OK;
}

int kernel_series_add(struct record *record, const struct net *net, const struct kernel *kernel,
                      const char *term, int slot, const char *ending, struct err *err) {
    const struct form *form = form_of(kernel, net->setup.data.P);
    size_t T = (size_t)record->T, P = (size_t)net->setup.data.P, rows = (size_t)kernel->rows.count;
    const size_t full[] = {T, rows, T, rows}, times[] = {T, T}, equal[] = {T, rows, rows},
                 diagonal[] = {T, rows}, tokens[] = {T, P, rows / P};
    bool one_time = !strcmp(ending, "_diag"), equal_times = !strcmp(ending, "_equal");
    int axes = form->axes[one_time ? 1 : equal_times ? 2 : 0];
    const size_t *shape = one_time      ? axes == 3 ? tokens : diagonal
                          : equal_times ? equal
                          : axes == 2   ? times
                                        : full;
    char name[SERIES_NAME];
    struct series series = {.slot = slot,
                            .dims = one_time      ? form->diagonal
                                    : equal_times ? form->equal
                                                  : form->full,
                            .equation = kernel->equation,
                            .label = kernel->label,
                            .counted = counts_counted(net, kernel->node, kernel->gradient),
                            .left_out = counts_left_out(net, kernel->node, kernel->gradient)};
    gradients_name(name, kernel->name, term, "");
    snprintf(series.name, sizeof series.name, "%.80s%s", name, ending);
    memcpy(series.shape, shape, (size_t)axes * sizeof *shape);
    TRY(own_about(&series, kernel->about, term, err));
    return places_add(record, net, series, err);
}

int kernel_series_declare(struct record *record, const struct config *config, const struct net *net,
                          struct err *err) {
    int kernels = config->output.kernels;
    for (int k = 0; k < net->kernels.count && kernels; k++) {
        const struct kernel *kernel = &net->kernels.item[k];
        const char *term = term_of(net, kernel->gradient);
        if (kernels == KERNELS_FULL) {
            TRY(record_fill_by(record, fill_full, k, 1, err));
            TRY(kernel_series_add(record, net, kernel, term, 0, "", err));
            TRY(expert_kernels_declare(record, config, net, k, err));
        }
        TRY(record_fill_by(record, fill_one_time, k, 2, err));
        TRY(kernel_series_add(record, net, kernel, term, DIAGONAL, "_diag", err));
        if (kernels == KERNELS_EQUAL)
            TRY(kernel_series_add(record, net, kernel, term, EQUAL, "_equal", err));
    }
    return CODE_OK;
}

/* --- what full kernels remember -------------------------------------------------------------- */

int kernel_history_init(struct kernel_history *history, const struct config *config,
                        const struct net *net, int T, struct err *err) {
    const struct backend *backend = profile_backend(config_backend(config, net->setup.N));
    size_t R = (size_t)net->batch.rows, C = (size_t)net->setup.data.C, most = R > C ? R : C;
    *history = (struct kernel_history){0};
    if (config->output.kernels != KERNELS_FULL)
        return CODE_OK;
    TRY(base_alloc(&history->products, (size_t)T * most * most, sizeof *history->products, err));
    TRY(base_alloc(&history->rows, (size_t)net->kernels.count, sizeof *history->rows, err));
    history->kernels = net->kernels.count;
    for (int k = 0; k < net->kernels.count; k++) {
        const struct array *array = net->kernels.item[k].rows.array;
        TRY(array_init(&history->rows[k], backend, array->sites, array->group, 0, err));
    }
    return CODE_OK;
}

int kernel_history_archive(struct kernel_history *history, struct archive *archive,
                           struct err *err) {
    for (int k = 0; k < history->kernels; k++)
        TRY(archive_array(archive, &history->rows[k], history->rows[k].backend, err));
    return CODE_OK;
}

void kernel_history_free(struct kernel_history *history) {
    for (int k = 0; k < history->kernels; k++)
        array_free(&history->rows[k]);
    free(history->rows);
    free(history->products);
    *history = (struct kernel_history){0};
}

/* --- numbers of the network ------------------------------------------------------------------ */

static int fill_numbers(const struct measuring *m, double *const *out, struct err *err) {
    const struct numbers *numbers = &m->net->numbers.item[m->item];
    size_t count = gradients_numbers(numbers);
    (void)err;
    memcpy(out[0], numbers->values, count * sizeof *out[0]);
    return CODE_OK;
}

int kernel_series_add_numbers(struct record *record, const struct net *net,
                              const struct numbers *numbers, const char *term, int slot,
                              struct err *err) {
    struct series series = {.slot = slot,
                            .dims = numbers->dims,
                            .equation = numbers->equation,
                            .label = numbers->label,
                            .counted = numbers->counted ||
                                       counts_counted(net, numbers->node, numbers->gradient),
                            .left_out = counts_left_out(net, numbers->node, numbers->gradient)};
    gradients_name(series.name, numbers->name, term, "");
    for (int k = 0; k < numbers->axes; k++)
        series.shape[1 + k] = (size_t)numbers->shape[k];
    TRY(own_about(&series, numbers->about, term, err));
    return places_add(record, net, series, err);
}

int kernel_series_declare_numbers(struct record *record, const struct config *config,
                                  const struct net *net, struct err *err) {
    (void)config;
    for (int i = 0; i < net->numbers.count; i++) {
        const struct numbers *numbers = &net->numbers.item[i];
        TRY(record_fill_by(record, fill_numbers, i, 1, err));
        TRY(kernel_series_add_numbers(record, net, numbers, term_of(net, numbers->gradient), 0,
                                      err));
    }
    return CODE_OK;
}
