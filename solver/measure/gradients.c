#include "solver/measure/gradients.h"

int gradients_check(const struct config *config, const struct net *net, struct err *err) {
    if (!net->setup.measure.apart || !net->output.loss_in_cotangent || net->setup.N ||
        config->solver.method != METHOD_FIXED_POINT)
        return CODE_OK;
    return err_set(err, CODE_INPUT,
                   "[output] tangent, gradients, sharpness, spectra: method = fixed_point has no "
                   "gradients apart with several outputs or tokens or with terms added to the "
                   "loss; take them out, or method = march");
}

const char *gradients_term(const struct net *net, int term) {
    const char *name = NULL;
    if (term < TERM_OF_PENALTIES)
        return term == TERM_OF_OUTPUTS ? "" : "loss";
    apart_penalty(net, term - TERM_OF_PENALTIES, &name);
    return name;
}

int gradients_terms(const struct net *net) {
    int terms = 0;
    while (gradients_term(net, terms))
        terms++;
    return terms;
}

void gradients_name(char name[SERIES_NAME], const char *first, const char *term,
                    const char *block) {
    snprintf(name, SERIES_NAME, "%s%s%s%s%s", first, *term ? "_" : "", term, *block ? "_" : "",
             block);
}

const char *gradients_own(const struct net *net) {
    return !net->output.loss_in_cotangent           ? ""
           : gradients_term(net, TERM_OF_PENALTIES) ? "total"
                                                    : "loss";
}

static size_t count_inputs(const struct net *net) {
    return (size_t)net->setup.data.P;
}

static size_t square_of(size_t n) {
    return n * n;
}

size_t gradients_numbers(const struct numbers *numbers) {
    size_t count = 1;
    for (int k = 0; k < numbers->axes; k++)
        count *= (size_t)numbers->shape[k];
    return count;
}

int gradients_blocks(const struct config *config, const struct net *net) {
    const struct output_settings *output = &config->output;
    bool named = output->spectra && strstr(output->spectra, "tangent_");
    return output->tangent == TANGENT_BLOCKS || named ? net->parameters.count : 1;
}

/* A part of the block, of so many numbers for each term; its place where there is a block. */
static double *take_part(struct gradients *g, size_t numbers) {
    double *part = g->tangent ? g->tangent + g->size : NULL;
    g->size += (size_t)g->terms * numbers;
    return part;
}

/* Finds the size of the block, and once there is one its parts. */
static void share_block(struct gradients *g, const struct net *net, bool all) {
    g->size = 0;
    take_part(g, (size_t)g->blocks * square_of(count_inputs(net)));
    for (int k = 0; k < net->kernels.count && all; k++)
        if (net->kernels.item[k].gradient) {
            /* of one that serves all inputs each input has its own times Delta */
            size_t rows = (size_t)net->kernels.item[k].rows.count;
            rows = net->output.loss_in_cotangent ? rows : count_inputs(net);
            g->kernel[k] = take_part(g, square_of(rows));
        }
    for (int i = 0; i < net->numbers.count && all && net->output.loss_in_cotangent; i++)
        if (net->numbers.item[i].gradient)
            g->number[i] = take_part(g, gradients_numbers(&net->numbers.item[i]));
}

int gradients_init(struct gradients *g, const struct config *config, const struct net *net,
                   struct err *err) {
    bool all = config->output.gradients;
    *g = (struct gradients){.wanted = config_asks_gradients(config)};
    if (!g->wanted)
        return CODE_OK;
    g->terms = gradients_terms(net);
    g->blocks = gradients_blocks(config, net);
    if (all) {
        TRY(base_alloc(&g->product,
                       (1 + (size_t)net->parameters.count) * square_of((size_t)g->terms - 1),
                       sizeof *g->product, err));
        TRY(base_alloc(&g->kernel, (size_t)net->kernels.count, sizeof *g->kernel, err));
        TRY(base_alloc(&g->number, (size_t)net->numbers.count, sizeof *g->number, err));
    }
    share_block(g, net, all);
    TRY(base_alloc(&g->tangent, g->size, sizeof *g->tangent, err));
    share_block(g, net, all);
    return CODE_OK;
}

void gradients_free(struct gradients *g) {
    free(g->kernel);
    free(g->number);
    free(g->tangent);
    free(g->product);
    *g = (struct gradients){0};
}

static double *tangent_at(const struct gradients *g, const struct net *net, int term, int block) {
    return g->tangent +
           ((size_t)term * (size_t)g->blocks + (size_t)block) * square_of(count_inputs(net));
}

static void add_scaled(double factor, const double *x, size_t count, double *sum) {
    for (size_t k = 0; k < count; k++)
        sum[k] += factor * x[k];
}

static int add_tangent(struct gradients *g, const struct net *net, int term, double factor,
                       struct err *err) {
    SCRATCH(double, block, square_of(count_inputs(net)));
    for (int i = 0; i < net->parameters.count; i++) {
        TRY(net_tangent(net, &net->parameters.item[i], block, err));
        add_scaled(factor, block, square_of(count_inputs(net)),
                   tangent_at(g, net, term, g->blocks > 1 ? i : 0));
    }
    return CODE_OK;
}

static int add_kernels(struct gradients *g, const struct net *net, int term, double factor,
                       struct err *err) {
    for (int k = 0; g->kernel && k < net->kernels.count; k++) {
        const struct kernel *kernel = &net->kernels.item[k];
        size_t count = square_of((size_t)kernel->rows.count);
        if (!g->kernel[k])
            continue;
        SCRATCH(double, products, count);
        kernel->rows.array->backend->dots(kernel->rows, kernel->rows, products);
        add_scaled(factor * kernel->scale, products, count, g->kernel[k] + (size_t)term * count);
    }
    for (int i = 0; g->number && i < net->numbers.count; i++)
        if (g->number[i]) {
            size_t count = gradients_numbers(&net->numbers.item[i]);
            add_scaled(factor, net->numbers.item[i].values, count,
                       g->number[i] + (size_t)term * count);
        }
    return CODE_OK;
}

/* What the cotangents of the net are now of, times a factor. */
static int add_term(struct gradients *g, const struct net *net, int term, double factor,
                    struct err *err) {
    TRY(add_tangent(g, net, term, factor, err));
    return net->output.loss_in_cotangent ? add_kernels(g, net, term, factor, err) : CODE_OK;
}

/* --- products between terms ------------------------------------------------------------------ */

static double sum_of(const double *K, size_t count) {
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += K[k];
    return sum;
}

static void put_product(struct gradients *g, const struct net *net, int parameter, int k, int l,
                        double value) {
    size_t n = (size_t)g->terms - 1, block = n * n;
    size_t at[] = {(size_t)k * n + (size_t)l, (size_t)l * n + (size_t)k};
    value /= (double)square_of(count_inputs(net));
    for (int i = 0; i < (k == l ? 1 : 2); i++) {
        g->product[at[i]] += value;
        g->product[(1 + (size_t)parameter) * block + at[i]] = value;
    }
}

/* Products of the gradients of the kept passes, of which number k is that of term 1 + k. */
static int find_products(struct gradients *g, const struct apart *apart, struct err *err) {
    const struct net *net = apart->net;
    SCRATCH(double, K, square_of(count_inputs(net)));
    for (int i = 0; i < net->parameters.count; i++)
        for (int k = 0; k < g->terms - 1; k++)
            for (int l = 0; l <= k; l++) {
                struct gradient a = apart_gradient(apart, i, k), b = apart_gradient(apart, i, l);
                TRY(net_products(net, &net->parameters.item[i], &a, &b, K, err));
                put_product(g, net, i, k, l, sum_of(K, square_of(count_inputs(net))));
            }
    return CODE_OK;
}

static int find_apart(struct gradients *g, struct apart *apart, struct err *err) {
    struct net *net = apart->net;
    int outputs = net_outputs(net);
    for (int o = 0; o < outputs; o++) {
        struct term output = {.kind = TERM_OUTPUT, .output = o};
        TRY(apart_pass(apart, &output, -1, err));
        TRY(add_term(g, net, TERM_OF_OUTPUTS, 1.0 / outputs, err));
        apart_forget(apart);
    }
    for (int k = TERM_OF_LOSS; k < g->terms; k++) {
        const char *name;
        struct term term = {.kind = k == TERM_OF_LOSS ? TERM_LOSS : TERM_PENALTY};
        if (k >= TERM_OF_PENALTIES)
            term.penalty = apart_penalty(net, k - TERM_OF_PENALTIES, &name);
        TRY(apart_pass(apart, &term, g->product ? k - 1 : -1, err));
        TRY(add_term(g, net, k, 1, err));
    }
    return g->product ? find_products(g, apart, err) : CODE_OK;
}

/* K_loss = Delta_mu Delta_nu K, of which one number may serve all inputs. */
static void weigh_by_errors(const struct net *net, const double *K, bool one, double *out) {
    size_t P = count_inputs(net);
    for (size_t mu = 0; mu < P; mu++)
        for (size_t nu = 0; nu < P; nu++)
            out[mu * P + nu] =
                net->output.Delta[mu] * net->output.Delta[nu] * K[one ? 0 : mu * P + nu];
}

static int find_own(struct gradients *g, const struct net *net, struct err *err) {
    size_t count = square_of(count_inputs(net));
    TRY(add_term(g, net, TERM_OF_OUTPUTS, 1, err));
    for (int b = 0; b < g->blocks; b++)
        weigh_by_errors(net, tangent_at(g, net, TERM_OF_OUTPUTS, b), false,
                        tangent_at(g, net, TERM_OF_LOSS, b));
    for (int k = 0; g->kernel && k < net->kernels.count; k++) {
        const struct kernel *kernel = &net->kernels.item[k];
        if (!g->kernel[k])
            continue;
        kernel->rows.array->backend->dots(kernel->rows, kernel->rows, g->kernel[k]);
        for (size_t i = 0; i < square_of((size_t)kernel->rows.count); i++)
            g->kernel[k][i] *= kernel->scale;
        weigh_by_errors(net, g->kernel[k], kernel->rows.count == 1, g->kernel[k] + count);
    }
    SCRATCH(double, K, count);
    for (int i = 0; g->product && i < net->parameters.count; i++) {
        TRY(net_tangent(net, &net->parameters.item[i], K, err));
        weigh_by_errors(net, K, false, K);
        put_product(g, net, i, 0, 0, sum_of(K, count));
    }
    return CODE_OK;
}

int gradients_find(struct gradients *g, struct net *net, struct err *err) {
    struct apart apart;
    if (!g->wanted)
        return CODE_OK;
    memset(g->tangent, 0, g->size * sizeof *g->tangent);
    if (g->product)
        memset(g->product, 0, square_of((size_t)g->terms - 1) * sizeof *g->product);
    if (!net->output.loss_in_cotangent)
        return find_own(g, net, err);
    int code = apart_begin(&apart, net, g->product ? g->terms - 1 : 0, err);
    if (!code)
        code = find_apart(g, &apart, err);
    apart_end(&apart);
    return code;
}

void gradients_tangent(const struct gradients *g, const struct net *net, int term, const char *name,
                       double *K) {
    size_t count = square_of(count_inputs(net));
    memset(K, 0, count * sizeof *K);
    for (int b = 0; b < g->blocks; b++)
        if (!*name || !strcmp(name, net->parameters.item[b].name))
            add_scaled(1, tangent_at(g, net, term, b), count, K);
}
