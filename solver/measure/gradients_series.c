/* The series of gradients apart: [output] gradients. */
#include "solver/measure/observe.h"

/* --- kernels --------------------------------------------------------------------------------- */

enum { DIAGONAL, EQUAL, FORMS };

/* item: the kernel; slots: both forms of each term. */
static int fill_kernels(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const struct gradients *g = &m->observer->gradients;
    const struct kernel *kernel = &m->net->kernels.item[m->item];
    size_t rows = m->net->output.loss_in_cotangent ? (size_t)kernel->rows.count
                                                   : (size_t)m->net->setup.data.P;
    for (int term = 0; term < g->terms; term++) {
        const double *K = g->kernel[m->item] + (size_t)term * rows * rows;
        double *diagonal = out[term * FORMS + DIAGONAL], *equal = out[term * FORMS + EQUAL];
        for (size_t i = 0; i < rows && diagonal; i++)
            diagonal[i] = K[i * rows + i];
        if (equal)
            memcpy(equal, K, rows * rows * sizeof *equal);
    }
    return CODE_OK;
}

static int add_kernel(const struct declaring *d, const struct kernel *kernel, int term,
                      struct err *err) {
    struct kernel shape = *kernel;
    const char *name = gradients_term(d->net, term);
    shape.for_all_inputs &= d->net->output.loss_in_cotangent;
    if (!d->net->output.loss_in_cotangent)
        shape.rows.count = d->net->setup.data.P;
    TRY(kernel_series_add(d, &shape, name, term * FORMS + DIAGONAL, "_diag", err));
    return d->config->output.kernels == KERNELS_DIAGONAL
               ? CODE_OK
               : kernel_series_add(d, &shape, name, term * FORMS + EQUAL, "_equal", err);
}

/* Whether training's own gradient is that of this term: its series are there without asking. */
static bool is_own(const struct net *net, int term) {
    return !strcmp(gradients_term(net, term), gradients_own(net));
}

static int declare_kernels(const struct declaring *d, struct err *err) {
    const struct net *net = d->net;
    int terms = gradients_terms(net);
    for (int k = 0; k < net->kernels.count && d->config->output.kernels; k++) {
        if (!net->kernels.item[k].gradient)
            continue;
        TRY(record_fill_by(d->record, fill_kernels, k, terms * FORMS, err));
        for (int term = 0; term < terms; term++)
            if (!is_own(net, term))
                TRY(add_kernel(d, &net->kernels.item[k], term, err));
    }
    return CODE_OK;
}

/* --- cotangents of numbers ------------------------------------------------------------------- */

static int fill_numbers(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const struct gradients *g = &m->observer->gradients;
    const struct numbers *numbers = &m->net->numbers.item[m->item];
    size_t count = gradients_numbers(numbers);
    for (int term = 0; term < g->terms; term++)
        if (out[term])
            memcpy(out[term], g->number[m->item] + (size_t)term * count, count * sizeof *out[term]);
    return CODE_OK;
}

/* Numbers of several outputs have series of the loss and its terms alone: those of the outputs are
 * linear in each, and their mean says nothing. */
static int declare_numbers(const struct declaring *d, struct err *err) {
    const struct net *net = d->net;
    int terms = gradients_terms(net), first = net_outputs(net) > 1 ? TERM_OF_LOSS : TERM_OF_OUTPUTS;
    for (int i = 0; i < net->numbers.count && net->output.loss_in_cotangent; i++) {
        const struct numbers *numbers = &net->numbers.item[i];
        if (!numbers->gradient)
            continue;
        TRY(record_fill_by(d->record, fill_numbers, i, terms, err));
        for (int term = first; term < terms; term++)
            if (!is_own(net, term))
                TRY(kernel_series_add_numbers(d, numbers, gradients_term(net, term), term, err));
    }
    return CODE_OK;
}

/* --- norms and cosines ----------------------------------------------------------------------- */

/* Slots of parameter i (0: all of them, 1 + i): for k, then l < k. */
static int count_pairs(int n) {
    return n * (n + 1) / 2;
}

static int fill_products(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const struct gradients *g = &m->observer->gradients;
    int n = g->terms - 1;
    for (int i = 0; i <= m->net->parameters.count; i++) {
        const double *x = g->product + i * n * n;
        for (int k = 0; k < n; k++)
            for (int l = 0; l <= k; l++) {
                double a = sqrt(fmax(x[k * n + k], 0)), b = sqrt(fmax(x[l * n + l], 0));
                bool some = a > 0 && b > 0;
                *out[i * count_pairs(n) + count_pairs(k) + l] = k == l ? a
                                                                : some ? x[k * n + l] / a / b
                                                                       : 0;
            }
    }
    return CODE_OK;
}

static int add_product(const struct declaring *d, int i, int k, int l, struct err *err) {
    const struct net *net = d->net;
    int n = gradients_terms(net) - 1;
    const struct series series = {
        .dims = "t",
        .about = k == l ? "norm of the gradient of this term"
                        : "cosine between the gradients of two terms; 0 where one of them vanishes",
        .equation = k == l
                        ? "|a|, |a|^2 = rate/P^2 sum_mu,nu <g_mu g_nu><x_mu x_nu>"
                        : "a . b / (|a| |b|), a . b = rate/P^2 sum_mu,nu <g_mu g'_nu><x_mu x_nu>"};
    char both[SERIES_NAME], name[SERIES_NAME];
    gradients_name(both, gradients_term(net, 1 + l), k == l ? "" : gradients_term(net, 1 + k), "");
    gradients_name(name, k == l ? "gradient_norm" : "cosine", both,
                   i ? net->parameters.item[i - 1].name : "");
    return series_add(d, i * count_pairs(n) + count_pairs(k) + l, series, err, "%s", name);
}

static int declare_products(const struct declaring *d, struct err *err) {
    int n = gradients_terms(d->net) - 1, parts = 1 + d->net->parameters.count;
    TRY(record_fill_by(d->record, fill_products, 0, parts * count_pairs(n), err));
    for (int i = 0; i < parts; i++)
        for (int k = 0; k < n; k++)
            for (int l = 0; l <= k; l++)
                TRY(add_product(d, i, k, l, err));
    return CODE_OK;
}

int gradients_declare(const struct declaring *d, struct err *err) {
    if (!d->config->output.gradients)
        return CODE_OK;
    TRY(declare_kernels(d, err));
    TRY(declare_numbers(d, err));
    return declare_products(d, err);
}
