/* Eigenvalues of equal-time kernels between inputs, and how well they match the targets: [output]
 * spectra.
 *
 * A kernel K [R][R] = sum_k l_k v_k v_k^T, l_k descending, and targets Y [R][C]: the share of the
 * targets along v_k is sum_c (v_k . Y_c)^2/|Y|^2, the alignment sum K (Y Y^T)/(|K| |Y Y^T|), 1
 * where K is a multiple of Y Y^T. Y as it is, not centred. Where rows are tokens and targets are
 * not, and where the error is inside (tangent_loss), there are eigenvalues alone. Declaring it ends
 * with CODE_INPUT and a sentence where a word is no kernel between inputs. */
#include "solver/measure/observe.h"

#include <lapacke.h>

/* A kernel by its word: one of the model, or a tangent kernel (block: of a matrix, or ""). */
struct chosen {
    char name[SERIES_NAME];
    const struct kernel *kernel;
    const char *block;
    int term;
    int rows, columns; /* of the targets that belong to them; 0: none */
};

static bool is_tangent(const char *word) {
    size_t n = strlen("tangent");
    return !strncmp(word, "tangent", n) && (!word[n] || word[n] == '_');
}

/* "tangent", and "_" with a matrix, or "_loss", "_" with a penalty, and these with a matrix. */
static bool is_block(const struct net *net, const char *word, int term, struct chosen *chosen) {
    char name[SERIES_NAME];
    for (int i = -1; i < net->parameters.count && !chosen->block; i++) {
        const char *block = i < 0 ? "" : net->parameters.item[i].name;
        gradients_name(name, "tangent", gradients_term(net, term), block);
        if (!strcmp(name, word))
            chosen->block = block;
    }
    return chosen->block;
}

static int find_tangent(const struct net *net, const char *word, struct chosen *chosen,
                        struct err *err) {
    while (gradients_term(net, chosen->term) && !is_block(net, word, chosen->term, chosen))
        chosen->term++;
    if (!chosen->block)
        return err_set(err, CODE_INPUT, "[output] spectra: there is no matrix %s that learns",
                       word + strlen("tangent_"));
    snprintf(chosen->name, sizeof chosen->name, "%s", word);
    chosen->rows = net->setup.data.P;
    chosen->columns = chosen->term == TERM_OF_OUTPUTS ? net_outputs(net) : 0;
    return CODE_OK;
}

static int find_kernel(const struct net *net, const char *word, struct chosen *chosen,
                       struct err *err) {
    char names[TEXT_NOTE] = "";
    for (int k = 0; k < net->kernels.count; k++) {
        char name[SERIES_NAME];
        kernel_series_name(name, net, &net->kernels.item[k]);
        if (!strcmp(name, word))
            chosen->kernel = &net->kernels.item[k];
        if (!net->kernels.item[k].for_all_inputs)
            text_append(names, " %s", name);
    }
    if (!chosen->kernel || chosen->kernel->for_all_inputs)
        return err_set(err, CODE_INPUT,
                       "[output] spectra: %s is no kernel between inputs; these are tangent%s",
                       word, names);
    snprintf(chosen->name, sizeof chosen->name, "%s", word);
    chosen->rows = chosen->kernel->rows.count;
    if (chosen->rows == net->batch.output_rows)
        chosen->columns = net->setup.data.C;
    else if (chosen->rows == net->setup.data.P)
        chosen->columns = net_outputs(net);
    return CODE_OK;
}

enum finding { SPECTRUM, SHARE, ALIGNMENT, PARTS };
static const struct series_text finding[PARTS] = {
    {"spectrum", "eigenvalues of the kernel at equal time, descending", "K v_k = l_k v_k"},
    {"share", "share of the targets along each eigenvector", "sum_c (v_k . Y_c)^2 / |Y|^2"},
    {"alignment", "alignment of the kernel with the targets", "sum K (Y Y^T) / (|K| |Y Y^T|)"},
};

/* What word number `word` chooses; *more: there is one. */
static int choose_kernel(const struct config *config, const struct net *net, int word,
                         struct chosen *chosen, bool *more, struct err *err) {
    char text[SERIES_NAME];
    *chosen = (struct chosen){0};
    *more = instrument_word(config->output.spectra, word, text);
    return *more ? (is_tangent(text) ? find_tangent : find_kernel)(net, text, chosen, err)
                 : CODE_OK;
}

static int add_spectrum(const struct declaring *d, const struct chosen *chosen, struct err *err) {
    bool tokens = chosen->rows > d->net->setup.data.P;
    for (enum finding k = 0; k < PARTS; k++) {
        const struct series series = {.dims = k == ALIGNMENT ? "t"
                                              : tokens       ? "t k_row"
                                                             : "t k",
                                      SERIES_TEXT(finding[k]),
                                      .shape = {0, (size_t)chosen->rows}};
        if (k == SPECTRUM || chosen->columns)
            TRY(series_add(d, k, series, err, "%.80s_%s", chosen->name, finding[k].name));
    }
    return CODE_OK;
}

static void kernel_of(const struct measuring *m, const struct chosen *chosen, double *K) {
    if (!chosen->kernel) {
        gradients_tangent(&m->observer->gradients, m->net, chosen->term, chosen->block, K);
        return;
    }
    struct rows x = chosen->kernel->rows;
    x.array->backend->dots(x, x, K);
    for (ptrdiff_t k = 0; k < (ptrdiff_t)chosen->rows * chosen->rows; k++)
        K[k] *= chosen->kernel->scale;
}

/* The targets of this evaluation, Y [rows][columns]: of each row a token's, or all of an input. */
static void find_targets(const struct net *net, const struct chosen *chosen, const double *y,
                         double *Y) {
    int each = chosen->rows / net->setup.data.P, C = net->setup.data.C,
        places = chosen->columns / C;
    double space[C];
    for (int i = 0; i < chosen->rows; i++) {
        size_t row = (size_t)(net->batch.index[i / each] * each + i % each);
        for (int k = 0; k < places; k++, Y += C)
            memcpy(Y, net_targets(&net->setup.data, y, row * (size_t)places + (size_t)k, space),
                   sizeof space);
    }
}

static double scalar_product(const double *a, const double *b, int count) {
    double sum = 0;
    for (int k = 0; k < count; k++)
        sum += a[k] * b[k];
    return sum;
}

static double alignment_of(const struct chosen *chosen, const double *K, const double *Y) {
    int R = chosen->rows, columns = chosen->columns;
    double both = 0, kernel = 0, targets = 0;
    for (ptrdiff_t i = 0; i < R; i++)
        for (int j = 0; j < R; j++) {
            double k = K[i * R + j], g = scalar_product(Y + (size_t)i * (size_t)columns,
                                                        Y + (size_t)j * (size_t)columns, columns);
            both += k * g;
            kernel += k * k;
            targets += g * g;
        }
    return both / sqrt(kernel * targets);
}

/* V [R][R]: eigenvectors in columns, ascending; shares descending. */
static void share_targets(const struct chosen *chosen, const double *V, const double *Y,
                          double *out) {
    int R = chosen->rows;
    double total = 0;
    memset(out, 0, (size_t)R * sizeof *out);
    for (int c = 0; c < chosen->columns; c++)
        for (int k = 0; k < R; k++) {
            double along = 0;
            for (ptrdiff_t i = 0; i < R; i++)
                along += V[i * R + R - 1 - k] * Y[(size_t)i * (size_t)chosen->columns + (size_t)c];
            out[k] += along * along;
            total += along * along;
        }
    for (int k = 0; k < R; k++)
        out[k] /= total;
}

/* K is overwritten by its eigenvectors; values descending. */
static int solve_eigen(double *K, int R, const char *name, double *values, struct err *err) {
    for (ptrdiff_t i = 0; i < (ptrdiff_t)R * R; i++)
        if (!isfinite(K[i]))
            return err_overflow(err, "kernel %s is not finite", name);
    int info = LAPACKE_dsyev(LAPACK_ROW_MAJOR, 'V', 'U', R, K, R, values);
    TRY(err_lapack_memory(err, info, "the eigenvalues of kernel %s", name));
    if (info)
        return err_set(err, CODE_NUMERICAL, "the eigenvalues of kernel %s do not converge", name);
    for (int i = 0; i < R / 2; i++) {
        double swap = values[i];
        values[i] = values[R - 1 - i];
        values[R - 1 - i] = swap;
    }
    return CODE_OK;
}

/* item: the number of a word of [output] spectra. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    struct chosen chosen;
    bool more;
    TRY(choose_kernel(m->config, m->net, m->item, &chosen, &more, err));
    SCRATCH(double, K, (size_t)chosen.rows *(size_t)chosen.rows);
    SCRATCH(double, Y, (size_t)chosen.rows *(size_t)chosen.columns);
    kernel_of(m, &chosen, K);
    if (chosen.columns)
        find_targets(m->net, &chosen, m->y, Y);
    if (out[ALIGNMENT])
        *out[ALIGNMENT] = alignment_of(&chosen, K, Y);
    TRY(solve_eigen(K, chosen.rows, chosen.name, out[SPECTRUM], err));
    if (out[SHARE])
        share_targets(&chosen, K, Y, out[SHARE]);
    return CODE_OK;
}

int spectra_declare(const struct declaring *d, struct err *err) {
    struct chosen chosen;
    bool more = true;
    for (int word = 0; more; word++) {
        TRY(choose_kernel(d->config, d->net, word, &chosen, &more, err));
        if (!more)
            break;
        TRY(record_fill_by(d->record, fill, word, PARTS, err));
        TRY(add_spectrum(d, &chosen, err));
    }
    return CODE_OK;
}
