#include "solver/measure/kernel_series.h"
#include "kernels/array/profile.h"
#include "models/engine/counts.h"
#include "solver/measure/observe.h"

/* Sums of products are NaN only where rows are not finite. */
static int refuse_nan(const char *name, const double *value, size_t count, struct err *err) {
    for (size_t k = 0; k < count; k++)
        if (isnan(value[k]))
            return err_overflow(err, "%s is not finite", name);
    return CODE_OK;
}

/* Asks for the products of the rows of all times so far with those of now. */
static int ask_full(const struct measuring *m, struct err *err) {
    struct array *past = &m->observer->history.rows[m->item];
    struct rows now = m->net->kernels.item[m->item].rows, added;
    TRY(array_append(past, now.count, &added, err));
    rows_copy(now, added);
    past->backend->dots(array_all(past), added, m->room);
    return CODE_OK;
}

/* Row t of K[t][mu][s][nu] for s <= t, and its mirror K[s][nu][t][mu]. */
static int fill_full(const struct measuring *m, double *const *out, struct err *err) {
    const struct kernel *kernel = &m->net->kernels.item[m->item];
    size_t T = (size_t)m->record->T, P = (size_t)kernel->rows.count, t = (size_t)m->t,
           n = (t + 1) * P;
    double *K = out[0] - t * P * T * P; /* of time 0 */
    for (size_t mu = 0; mu < P; mu++)
        for (size_t k = 0; k < n; k++) {
            double value = kernel->scale * m->room[k * P + mu];
            K[(t * P + mu) * T * P + k] = value;
            K[k * T * P + t * P + mu] = value;
        }
    return refuse_nan(kernel->name, m->room, n * P, err);
}

enum { DIAGONAL, EQUAL };

static int ask_one_time(const struct measuring *m, struct err *err UNUSED) {
    struct rows now = m->net->kernels.item[m->item].rows;
    m->net->setup.backend->averages(now, now, m->room);
    if (m->config->output.kernels == KERNELS_EQUAL)
        m->net->setup.backend->dots(now, now, m->room + now.count);
    return CODE_OK;
}

static int fill_one_time(const struct measuring *m, double *const *out, struct err *err) {
    const struct kernel *kernel = &m->net->kernels.item[m->item];
    size_t P = (size_t)kernel->rows.count;
    char name[SERIES_NAME];
    kernel_series_name(name, m->net, kernel);
    strcat(name, "_diag");
    for (size_t mu = 0; mu < P; mu++)
        out[DIAGONAL][mu] = kernel->scale * m->room[mu];
    TRY(refuse_nan(name, out[DIAGONAL], P, err));
    for (size_t k = 0; k < P * P && out[EQUAL]; k++)
        out[EQUAL][k] = kernel->scale * m->room[P + k];
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

/* What a series is about, and of which term it is. */
static const char *about_term(const char *about, const char *term) {
    char note[TEXT_NOTE] = "";
    if (!*term)
        return about;
    text_append(note, "%s, of ", about);
    if (!strcmp(term, "loss"))
        text_append(note, "the loss of the task");
    else if (!strcmp(term, "total"))
        text_append(note, "the loss and its penalties together");
    else
        text_append(note, "the penalty %s", term);
    return text_keep(note);
}

int kernel_series_add(const struct declaring *d, const struct kernel *kernel, const char *term,
                      int slot, const char *ending, struct err *err) {
    const struct net *net = d->net;
    const struct form *form = form_of(kernel, net->setup.data.P);
    size_t T = (size_t)d->record->T, P = (size_t)net->setup.data.P,
           rows = (size_t)kernel->rows.count;
    const size_t full[] = {T, rows, T, rows}, times[] = {T, T}, equal[] = {T, rows, rows},
                 diagonal[] = {T, rows}, tokens[] = {T, P, rows / P};
    bool one_time = !strcmp(ending, "_diag"), equal_times = !strcmp(ending, "_equal");
    int axes = form->axes[one_time ? 1 : equal_times ? 2 : 0];
    const size_t *shape = one_time      ? axes == 3 ? tokens : diagonal
                          : equal_times ? equal
                          : axes == 2   ? times
                                        : full;
    char name[SERIES_NAME];
    struct series series = {.dims = one_time      ? form->diagonal
                                    : equal_times ? form->equal
                                                  : form->full,
                            .about = about_term(kernel->about, term),
                            .equation = kernel->equation,
                            .label = kernel->label,
                            .counted = counts_counted(net, kernel->node, kernel->gradient),
                            .left_out = counts_left_out(net, kernel->node, kernel->gradient)};
    memcpy(series.shape, shape, (size_t)axes * sizeof *shape);
    gradients_name(name, kernel->name, term, "");
    return series_add(d, slot, series, err, "%.80s%s", name, ending);
}

int kernel_series_declare(const struct declaring *d, struct err *err) {
    int kernels = d->config->output.kernels;
    for (int k = 0; k < d->net->kernels.count && kernels; k++) {
        const struct kernel *kernel = &d->net->kernels.item[k];
        const char *term = term_of(d->net, kernel->gradient);
        size_t rows = (size_t)kernel->rows.count;
        if (kernels == KERNELS_FULL) {
            TRY(record_fill_by(d->record, fill_full, k, 1, err));
            record_ask_by(d->record, ask_full, (size_t)d->record->T * rows * rows, false);
            TRY(kernel_series_add(d, kernel, term, 0, "", err));
            TRY(expert_kernels_declare(d, k, err));
        }
        TRY(record_fill_by(d->record, fill_one_time, k, 2, err));
        record_ask_by(d->record, ask_one_time, rows * (kernels == KERNELS_EQUAL ? 1 + rows : 1),
                      !kernel->gradient);
        TRY(kernel_series_add(d, kernel, term, DIAGONAL, "_diag", err));
        if (kernels == KERNELS_EQUAL)
            TRY(kernel_series_add(d, kernel, term, EQUAL, "_equal", err));
    }
    return CODE_OK;
}

/* --- what full kernels remember -------------------------------------------------------------- */

int kernel_history_init(struct kernel_history *history, const struct config *config,
                        const struct net *net, struct err *err) {
    const struct backend *backend = profile_backend(config_backend(config, net->setup.N));
    *history = (struct kernel_history){0};
    if (config->output.kernels != KERNELS_FULL)
        return CODE_OK;
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
    *history = (struct kernel_history){0};
}

/* --- numbers of the network ------------------------------------------------------------------ */

static int fill_numbers(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const struct numbers *numbers = &m->net->numbers.item[m->item];
    size_t count = gradients_numbers(numbers);
    memcpy(out[0], numbers->values, count * sizeof *out[0]);
    return CODE_OK;
}

int kernel_series_add_numbers(const struct declaring *d, const struct numbers *numbers,
                              const char *term, int slot, struct err *err) {
    bool gradient = numbers->gradient;
    struct series series = {.dims = numbers->dims,
                            .about = about_term(numbers->about, term),
                            .equation = numbers->equation,
                            .label = numbers->label,
                            .counted =
                                numbers->counted || counts_counted(d->net, numbers->node, gradient),
                            .left_out = counts_left_out(d->net, numbers->node, gradient)};
    char name[SERIES_NAME];
    gradients_name(name, numbers->name, term, "");
    for (int k = 0; k < numbers->axes; k++)
        series.shape[1 + k] = (size_t)numbers->shape[k];
    return series_add(d, slot, series, err, "%s", name);
}

int kernel_series_declare_numbers(const struct declaring *d, struct err *err) {
    for (int i = 0; i < d->net->numbers.count; i++) {
        const struct numbers *numbers = &d->net->numbers.item[i];
        TRY(record_fill_by(d->record, fill_numbers, i, 1, err));
        TRY(kernel_series_add_numbers(d, numbers, term_of(d->net, numbers->gradient), 0, err));
    }
    return CODE_OK;
}
