#include "tests/support/couple.h"
#include "integrators/integrator.h"
#include "kernels/maps/map_finite.h"

const struct couple_oracle *const couple_list[] =
    LIST(&couple_dense, &couple_regime1, &couple_regime2, &couple_regime3, &couple_residual,
         &couple_resnet, &couple_stack, &couple_transformer, NULL);

enum oracle_activation couple_activation(int function) {
    static const enum oracle_activation activation[] = {
        [FN_LINEAR] = ORACLE_LINEAR, [FN_TANH] = ORACLE_TANH, [FN_ERF] = ORACLE_ERF,
        [FN_RELU] = ORACLE_RELU,     [FN_GELU] = ORACLE_GELU, [FN_SOFTPLUS] = ORACLE_SOFTPLUS};
    assert_true((size_t)function < sizeof activation / sizeof *activation);
    return activation[function];
}

struct couple_part couple_part(double factor, const char *format, ...) {
    struct couple_part part = {.factor = factor};
    va_list list;
    va_start(list, format);
    vsnprintf(part.name, sizeof part.name, format, list);
    va_end(list);
    return part;
}

struct couple_part couple_slice(struct couple_part part, int i, int entries) {
    part.first = i * entries;
    part.axis[0] = part.axis[1] = (struct couple_axis){1, 0, 0};
    part.axis[2] = (struct couple_axis){entries, 1, 1};
    return part;
}

void couple_experts(struct couple_part *part, int M, int n, int m, bool out, bool shared) {
    part->acts = true;
    part->axis[0] = (struct couple_axis){M, n * m, shared ? 0 : out ? m : n * m};
    part->axis[1] = (struct couple_axis){n, m, out && !shared ? M * m : m};
    part->axis[2] = (struct couple_axis){m, 1, 1};
}

/* --- weights --------------------------------------------------------------------------------- */

/* Of this name: a map, whether it learns or not, columns, host numbers, or nothing. */
struct found {
    struct map *map;
    struct thin *thin;
    double *host;
};

static struct found find(const struct net *net, const char *name) {
    for (int i = 0; i < net->maps.count; i++)
        if (!strcmp(net->maps.item[i]->declared.name, name))
            return (struct found){.map = net->maps.item[i]};
    for (int i = 0; i < net->parameters.count; i++)
        if (!strcmp(net->parameters.item[i].name, name))
            return (struct found){.thin = net->parameters.item[i].thin,
                                  .host = net->parameters.item[i].host};
    return (struct found){0};
}

static double scale(const struct couple_part *part, struct found found) {
    return part->factor * (part->acts ? found.map->declared.s_f : 1);
}

/* Entries of a part, and where entry e of them lies. */
static int entries(const struct couple_part *part, int count) {
    const struct couple_axis *axis = part->axis;
    return axis[0].count ? axis[0].count * axis[1].count * axis[2].count : count;
}

static void locate(const struct couple_part *part, int e, int *oracle, int *net) {
    const struct couple_axis *axis = part->axis;
    *oracle = *net = e;
    if (!axis[0].count)
        return;
    *oracle = part->first;
    *net = 0;
    for (int k = 2; k >= 0; e /= axis[k--].count) {
        *oracle += e % axis[k].count * axis[k].oracle;
        *net += e % axis[k].count * axis[k].net;
    }
}

/* out += what the net has of this part of a block. */
static void take_part(const struct couple *p, const struct couple_part *part, int count,
                      double *out) {
    struct found found = find(&p->net, part->name);
    double *values = found.map    ? support_matrix(found.map)
                     : found.thin ? support_get(array_all(&found.thin->W))
                                  : NULL;
    const double *from = values ? values : found.host;
    for (int e = 0, oracle, net; from && e < entries(part, count); e++) {
        locate(part, e, &oracle, &net);
        out[oracle] += scale(part, found) * from[net];
    }
    free(values);
}

/* A history cannot be given weights: it starts at zero. Returns whether there were any to be given.
 */
static bool put_part(const struct couple *p, const struct couple_part *part, int count,
                     const double *w) {
    struct found found = find(&p->net, part->name);
    bool explicit = found.map && found.map->kind == &map_finite;
    struct array *array = explicit     ? support_entries(found.map)
                          : found.thin ? &found.thin->W
                                       : NULL;
    double *values = array ? support_get(array_all(array)) : NULL,
           *to = array ? values : found.host;
    for (int e = entries(part, count) - 1, oracle, net; to && e >= 0; e--) {
        locate(part, e, &oracle, &net); /* the first of many that share an entry stays */
        to[net] = w[oracle] / scale(part, found);
    }
    if (array)
        array->backend->put(array_all(array), values);
    free(values);
    return to;
}

static int parts_of(const struct couple *p, int block, struct couple_part *part) {
    if (block == 1) {
        part[0] = couple_part(1, "w");
        return 1;
    }
    int parts = p->kind->parts(p, block, part);
    assert_in_range(parts, 0, COUPLE_PARTS);
    return parts;
}

/* Of parts at one place, the first takes all. */
static void put_parts(const struct couple *p, int block) {
    const struct oracle_block *weights = &p->oracle->block[block];
    struct couple_part part[COUPLE_PARTS];
    int place = -1;
    for (int i = 0, parts = parts_of(p, block, part); i < parts; i++)
        if (part[i].first != place && put_part(p, &part[i], weights->count, weights->w))
            place = part[i].first;
}

/* W [N][D] from columns over the coordinates of the inputs, or back. */
static void take_read_in(const struct couple *p, double *W) {
    int N = p->net.setup.N, D = p->run.data.D, K = p->net.setup.data.K;
    double *columns = support_get(array_all(&p->net.thins.item[0]->W)); /* [K][N] */
    for (int a = 0; a < N * D; a++)
        for (int k = 0; k < K; k++)
            W[a] += columns[k * N + a / D] * p->B[k * D + a % D];
    free(columns);
}

static void put_read_in(const struct couple *p, const double *W) {
    int N = p->net.setup.N, D = p->run.data.D, K = p->net.setup.data.K;
    const struct array *array = &p->net.thins.item[0]->W;
    FREED(base_free) double *columns = calloc((size_t)(K * N), sizeof *columns);
    for (int a = 0; a < N * D; a++)
        for (int k = 0; k < K; k++)
            columns[k * N + a / D] += W[a] * p->B[k * D + a % D];
    array->backend->put(array_all(array), columns);
}

/* A block of the oracle as the net has it; what the net has not is zero. */
static void take(const struct couple *p, int block, double *out) {
    const struct oracle_block *weights = &p->oracle->block[block];
    struct couple_part part[COUPLE_PARTS];
    memset(out, 0, (size_t)weights->count * sizeof *out);
    if (block == 0 && !p->kind->coordinates) {
        take_read_in(p, out);
        return;
    }
    for (int i = 0, parts = parts_of(p, block, part); i < parts; i++)
        take_part(p, &part[i], weights->count, out);
}

void couple_put(struct couple *p) {
    for (int block = 0; block < p->oracle->blocks; block++) {
        struct oracle_block *weights = &p->oracle->block[block];
        if (block == 0 && !p->kind->coordinates)
            put_read_in(p, weights->w);
        else
            put_parts(p, block);
        take(p, block, weights->w);
    }
}

/* --- the pair -------------------------------------------------------------------------------- */

/* The coordinates that the net has: Adam's are the inputs themselves. */
static void find_coordinates(struct couple *p) {
    const struct data *data = &p->run.data;
    double *A, *X;
    int K;
    ASK(base_alloc(&X, (size_t)(data->P * data->D), sizeof *X, err));
    data_take(data, 0, (size_t)data->P, X);
    ASK(thin_coordinates(X, data->P, data->D, &A, &p->B, &K, err));
    free(A);
    free(X);
    if (!net_by_entry(&p->net.setup))
        return;
    free(p->B);
    p->B = calloc((size_t)(data->D * data->D), sizeof *p->B);
    for (int d = 0; d < data->D; d++)
        p->B[d * data->D + d] = 1;
}

/* What all networks have. */
static struct oracle common(const struct couple *p) {
    const struct config *c = &p->run.config;
    const struct network *network = &c->network;
    const struct data *data = &p->run.data;
    const struct loss *loss = c->training.loss;
    assert_true(loss == &loss_mse || loss == &loss_logistic || loss == &loss_cross_entropy);
    struct oracle of = {.P = data->P, .D = data->D, .C = data->C, .N = p->net.setup.N};
    of.activation = of.expert_activation = couple_activation(network->activation);
    of.loss = loss == &loss_mse        ? ORACLE_MSE
              : loss == &loss_logistic ? ORACLE_LOGISTIC
                                       : ORACLE_CROSS_ENTROPY;
    of.gate = network->routing.gate == GATE_SOFTMAX           ? ORACLE_SOFTMAX
              : network->routing.gate != GATE_SIGMOID         ? ORACLE_CONSTANT
              : network->routing.aggregation == AGGREGATION_K ? ORACLE_SIGMOID_K
                                                              : ORACLE_SIGMOID_M;
    of.eta0 = c->training.eta0;
    of.gamma0 = c->training.gamma0;
    of.beta = network->routing.beta;
    of.rho = network->routing.rho;
    of.router_rate = network->routing.router_rate;
    of.lambda_in = network->routing.lambda_in == LAMBDA_IN_KAPPA ? network->routing.kappa : 1;
    of.carried = p->net.output.loss_in_cotangent;
    return of;
}

static void set_rule(struct oracle_rule *a, const struct training *training) {
    a->adam = optimizer_by_entry(training->optimizer);
    a->lion = training->optimizer == &optimizer_lion;
    a->inside = training->adam.eps_place == ADAM_EPS_INSIDE;
    a->rate = training->eta0;
    a->muon = training->optimizer == &optimizer_muon;
    a->exact = training->muon.way == MUON_EXACT;
    a->nesterov = training->muon.nesterov;
    a->together = training->muon.experts == MUON_TOGETHER;
    a->heads_together = training->muon.heads == MUON_TOGETHER;
    a->rest_adam = training->muon.rest_optimizer == &optimizer_adam;
    a->rest_rate = training->muon.rest_eta0;
    a->momentum = a->muon || training->optimizer == &optimizer_momentum ? training->momentum : 0;
    a->beta1 = training->adam.beta1;
    a->beta2 = training->adam.beta2;
    a->eps = training->adam.eps;
    a->decay = training->weight_decay;
    a->clip = training->clip;
}

void couple_open(struct couple *p, int N, int seed, const char *what, ...) {
    struct run run = p->run;
    const struct data *data = &p->run.data;
    int k = 0;
    va_list list;
    *p = (struct couple){.run = run};
    va_start(list, what);
    vsnprintf(p->what, sizeof p->what, what, list);
    va_end(list);
    support_net(&p->net, &p->run, N, seed);
    while (couple_list[k] && strcmp(couple_list[k]->model, p->net.model->name))
        k++;
    p->kind = couple_list[k];
    assert_non_null(p->kind);
    find_coordinates(p);
    struct oracle of = common(p);
    p->kind->settle(p, &of);
    struct oracle *o = p->oracle = oracle_new(of);
    set_rule(&o->rule, &run.config.training);
    if (!p->kind->coordinates)
        data_take(data, 0, (size_t)data->P, o->X);
    data_ask(data, 0, (size_t)p->net.batch.output_rows, o->y);
    if (p->kind->fill)
        p->kind->fill(p);
    for (int block = 0; block < o->blocks; block++)
        take(p, block, o->block[block].w);
    if (!run.config.reference.centre)
        return;
    if (p->kind->at)
        p->kind->at(p, 0);
    oracle_forward(o);
    memcpy(o->f0, o->f, (size_t)(p->net.batch.output_rows * data->C) * sizeof *o->f0);
}

void couple_start(struct couple *p, const char *ini, const char *const *base,
                  const char *const *more, int N) {
    const char *all[32] = {NULL};
    char what[256] = "";
    int n = 0;
    while (*base)
        all[n++] = *base++;
    for (; *more; more++) {
        size_t length = strlen(what);
        snprintf(what + length, sizeof what - length, "%s ", *more);
        all[n++] = *more;
    }
    support_run(&p->run, ini, all);
    couple_open(p, N, 3, "%s", what);
}

void couple_close(struct couple *p) {
    oracle_free(p->oracle);
    net_free(&p->net);
    run_free(&p->run);
    free(p->B);
}

/* --- comparisons ----------------------------------------------------------------------------- */

static void check_outputs(const struct couple *p, double loss, int t, double tolerance) {
    CHECK_ABS(p->net.output.loss, loss, tolerance, "%s: loss at %d", p->what, t);
    for (int k = 0; k < p->net.batch.output_rows * p->run.data.C; k++)
        CHECK_ABS(p->net.output.f[k], p->oracle->f[k], tolerance, "%s: f[%d] at %d", p->what, k, t);
}

static void check_kernels(const struct couple *p, int t, double tolerance) {
    const struct net *net = &p->net;
    if (p->kind->kernels)
        assert_int_equal(net->kernels.count, p->kind->kernels(p));
    for (int i = 0; i < net->kernels.count; i++) {
        const struct kernel *kernel = &net->kernels.item[i];
        int n = kernel->rows.count;
        FREED(base_free) double *K = calloc((size_t)(n * n), sizeof *K);
        net->setup.backend->dots(kernel->rows, kernel->rows, K);
        for (int a = 0; a < n * n; a++) {
            double want = oracle_kernel(p->oracle, kernel->name, a / n, a % n);
            CHECK_ABS(kernel->scale * K[a], want,
                      tolerance * (p->kind->absolute ? 1 : fmax(1, fabs(want))),
                      "%s: kernel %s[%d] at %d", p->what, kernel->name, a, t);
        }
    }
}

/* Numbers of which the oracle keeps rows of the same name. */
static int check_numbers(const struct couple *p, int t, double tolerance) {
    int compared = 0;
    for (int k = 0; k < p->net.numbers.count; k++) {
        const struct numbers *x = &p->net.numbers.item[k];
        const struct oracle_rows *rows = oracle_find(p->oracle, x->name);
        for (int i = 0; rows && i < rows->rows * rows->width; i++)
            CHECK_ABS(x->values[i], rows->values[i], tolerance * fmax(1, fabs(rows->values[i])),
                      "%s: %s[%d] at %d", p->what, x->name, i, t);
        compared += rows != NULL;
    }
    return compared;
}

static void check_weights(const struct couple *p, int t, double tolerance) {
    for (int block = 0; block < p->oracle->blocks; block++) {
        const struct oracle_block *weights = &p->oracle->block[block];
        FREED(base_free) double *got = calloc((size_t)weights->count + 1, sizeof *got);
        take(p, block, got);
        for (int k = 0; k < weights->count; k++)
            CHECK_ABS(got[k], weights->w[k], tolerance * fmax(1, fabs(weights->w[k])),
                      "%s: block %d, entry %d after step %d", p->what, block, k, t);
    }
}

void couple_train(struct couple *p, int steps, double tolerance) {
    for (int t = 0; t < steps; t++) {
        support_evaluate(&p->net, &p->run);
        if (p->kind->at)
            p->kind->at(p, t);
        check_outputs(p, oracle_forward(p->oracle), t, tolerance);
        check_kernels(p, t, tolerance);
        p->numbers = check_numbers(p, t, tolerance);
        if (p->kind->more)
            p->kind->more(p, t, tolerance);
        support_learn(&p->net, &p->run);
        oracle_step(p->oracle);
        check_weights(p, t, tolerance);
    }
}

void couple_compare(const char *ini, const char *const *base, const char *const *more, int N,
                    int steps) {
    FREED(couple_close) struct couple p;
    couple_start(&p, ini, base, more, N);
    couple_train(&p, steps, 1e-12);
}

double couple_advance(struct couple *p, int t, double tolerance, double weights) {
    const struct training *training = &p->run.config.training;
    double norm;
    ASK(net_gradient_norm(&p->net, &norm, err));
    check_outputs(p, oracle_optimizer_step(p->oracle), t, tolerance);
    CHECK_ABS(norm, p->oracle->rule.norm, tolerance, "%s: norm of the gradient at %d", p->what, t);
    ASK(integrator_of(training)->advance(&p->net, training, p->run.data.y, err));
    if (weights > 0)
        check_weights(p, t, weights);
    return norm;
}
