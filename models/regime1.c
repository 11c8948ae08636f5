/* Regime I: a fixed number M of deep experts, width N to infinity; and the deep dense network,
 * which is the case of one expert with constant gate and activated output (docs/theory/regime1.md).
 *
 *     h1 = W1 x/sqrt D                          x1 = sigma(h1)                  bottom
 *     psi_i = <Q_i, x1> + b_i (+ noise)         p = gate(beta psi)              numbers, [P][M]
 *     h_1,i = W_1,i x1                          h_l,i = W_l,i sigma(h_l-1,i)    l = 2..E
 *     h_top = sum_i p_i o(h_E,i)                f = <w, h_top>/gamma0           top, shared
 *
 *     gphi_i = <w, o(h_E,i)>                    gpsi = (dp/dpsi)^T gphi
 *     g_E,i = p_i w o'(h_E,i)                   g_l,i = sigma'(h_l,i) (W_l+1,i^T g_l+1,i)
 *     z1 = sum_i W_1,i^T g_1,i + sum_i gpsi_i Q_i
 *
 * E = expert_layers; o is sigma or the identity. All rates are 1, but router_rate for Q and, for b,
 * 1 (trained) or 0. Top-K: the mask of the K = rho M largest logits is a constant in the backward
 * pass. In the limit psi(0) = b: the sampling error of <Q_i, x1> at t = 0 is subtracted.
 *
 * Standard parameterization (networks only): every matrix has std fan_in^{-1/2} and one rate eta0,
 * that is Q and w of amplitude sqrt N and gamma0 sqrt N here, and the rates in regime1_rates. */
#include "models/regime1.h"
#include "models/plain.h"
#include "models/router.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One matrix of an expert and the rows it writes. */
struct layer {
    struct map *W;
    struct rows h, x, slope, z, g;
};

struct rates {
    struct rate W1, W, Q, b, w;
};

struct regime1 {
    int M, E;
    bool activated; /* o is sigma */
    struct rates rates;
    struct router router;
    struct layer layer[NET_MAPS]; /* [E][M] */
    struct thin *W1, *w;
    struct rows h1, x1, slope1, z1, zi, g1, h_top;
    double *c; /* [P] scratch */
};

static struct rates regime1_rates(const struct net_setup *setup) {
    const struct network *network = setup->network;
    double gamma0 = setup->gamma0, gamma2 = gamma0 * gamma0, N = setup->N, in = setup->read_in,
           router = network->router_rate;
    if (network->parameterization == PARAMETERIZATION_SP)
        return (struct rates){.W1 = {1 / (gamma2 * N), {in, in * gamma0 * N}},
                              .W = {1 / gamma2, {N, gamma0 * N}},
                              .Q = {N / gamma2 * router, {N * router, gamma0}},
                              .b = {1 / gamma2, {1, gamma0}},
                              .w = {N, {gamma0 * N, 1}}};
    return (struct rates){.W1 = {1, {in, in * gamma0}},
                          .W = {1, {1, gamma0}},
                          .Q = {router, {router, gamma0}},
                          .b = {1, {1, gamma0}},
                          .w = {1, {1, 1}}};
}

static const char *sizes_check(const struct network *network, const char **key) {
    *key = "experts";
    if (network->experts > INT_LIST_MAX)
        return "at most 32 experts";
    if (network->experts * network->expert_layers > NET_MAPS)
        return "experts times expert_layers must not exceed 128";
    return NULL;
}

static const char *regime1_check(const struct network *network, int N, int expert_sites,
                                 const char **key) {
    (void)expert_sites;
    *key = "parameterization";
    if (!N && network->parameterization == PARAMETERIZATION_SP)
        return "the standard parameterization has no limit: set [solver] replicates = 0";
    const char *reason = sizes_check(network, key);
    return reason || network->gate == GATE_CONSTANT ? reason : router_check(network, key);
}

static const char *dense_check(const struct network *network, int N, int expert_sites,
                               const char **key) {
    (void)N, (void)expert_sites;
    *key = "depth";
    return network->depth < 2 ? "a deep network has at least 2 hidden layers" : NULL;
}

/* Rows and map of matrix l of expert i, from `source` to *target (made unless it is the top). */
static int init_layer(struct net *net, int l, int i, struct population *source,
                      struct population **target, struct err *err) {
    struct regime1 *s = net->state;
    struct layer *layer = &s->layer[l * s->M + i];
    struct map_declaration declared = {.source = source, .a0 = 1, .s_f = 1, .s_b = 1};
    struct rows *rows[] = {&layer->h, &layer->x, &layer->slope, &layer->z, &layer->g};
    int P = net->setup.P;
    snprintf(declared.name, sizeof declared.name, "W%d_%d", l + 2, i);
    if (l < s->E - 1)
        TRY(net_population(net, declared.name, 1, (size_t)net->setup.sites, 1, target, err));
    declared.target = *target;
    TRY(net_all_rows(net, *target, P, rows, sizeof rows / sizeof *rows, err));
    TRY(net_map(net, declared, &layer->W, err));
    net_parameter(
        net, (struct parameter){
                 .map = layer->W, .rate = s->rates.W.gd, .adam = s->rates.W.adam, .y = layer->g});
    return CODE_OK;
}

/* Kernels of layer l + 2; with one expert they carry no expert index. */
static void add_layer_kernels(struct net *net, int l, int i) {
    const struct regime1 *s = net->state;
    const struct layer *layer = &s->layer[l * s->M + i];
    struct kernel Phi = {"", "feature kernel", "<sigma(h) sigma(h)>", layer->x, 1, false};
    struct kernel G = {"", "gradient kernel", "<g g>", layer->g, 1, false};
    snprintf(Phi.name, sizeof Phi.name, s->M > 1 ? "Phi%d_%d" : "Phi%d", l + 2, i);
    snprintf(G.name, sizeof G.name, s->M > 1 ? "G%d_%d" : "G%d", l + 2, i);
    if (l < s->E - 1 || s->activated)
        net_kernel(net, Phi);
    net_kernel(net, G);
}

static int regime1_build(struct net *net, int M, int E, struct err *err) {
    struct regime1 *s = net->state;
    const struct net_setup *setup = &net->setup;
    const struct network *network = setup->network;
    struct population *bottom, *top, *source[INT_LIST_MAX];
    int P = setup->P;
    TRY(net_population(net, "bottom", 1, (size_t)setup->sites, 1, &bottom, err));
    TRY(net_population(net, "top", 1, (size_t)setup->sites, 1, &top, err));
    TRY(net_read_in(net, bottom, &s->W1, err));
    bool sp = net->model == &model_regime1 && network->parameterization == PARAMETERIZATION_SP;
    double root = sp ? sqrt(setup->N) : 1;
    double w0 = net_read_out_amplitude(net) * (sp ? setup->gamma0 * root : 1);
    TRY((s->router.fluctuating && !setup->N ? net_thin_iid : net_thin)(net, top, 1, w0, &s->w,
                                                                       err));
    struct rows *on_bottom[] = {&s->h1, &s->x1, &s->slope1, &s->z1, &s->zi, &s->g1};
    TRY(net_all_rows(net, bottom, P, on_bottom, sizeof on_bottom / sizeof *on_bottom, err));
    TRY(net_rows(net, top, P, &s->h_top, err));
    TRY(net_vector(net, P, &s->c, err));
    net_kernel(net, (struct kernel){"Phi1", "feature kernel of the bottom layer",
                                    "<x1 x1>, x1 = sigma(h1)", s->x1, 1, false});
    net_kernel(net, (struct kernel){"G1", "gradient kernel of the bottom layer",
                                    "<g1 g1>, g1 = sigma'(h1) z1", s->g1, 1, false});
    for (int l = 0; l < E; l++)
        for (int i = 0; i < M; i++) {
            struct population *target = top;
            TRY(init_layer(net, l, i, l ? source[i] : bottom, &target, err));
            source[i] = target;
            add_layer_kernels(net, l, i);
        }
    net_kernel(net, (struct kernel){"PhiL", "feature kernel of the top", "<h_top h_top>", s->h_top,
                                    1, false});
    net_parameter(net, (struct parameter){.thin = s->W1,
                                          .A = net->A,
                                          .rate = s->rates.W1.gd,
                                          .adam = s->rates.W1.adam,
                                          .y = s->g1});
    net_parameter(net, (struct parameter){.thin = s->w,
                                          .A = net->ones,
                                          .rate = s->rates.w.gd,
                                          .adam = s->rates.w.adam,
                                          .y = s->h_top});
    return router_init(&s->router, net, bottom, s->x1, root, s->rates.Q, s->rates.b, err);
}

static int regime1_init(struct net *net, struct err *err) {
    struct regime1 *s = net->state;
    const struct network *network = net->setup.network;
    s->rates = regime1_rates(&net->setup);
    s->M = network->experts;
    s->E = network->expert_layers;
    s->activated = network->expert_output == EXPERT_OUTPUT_ACTIVATED;
    router_plan(&s->router, network, s->M);
    return regime1_build(net, s->M, s->E, err);
}

static int dense_init(struct net *net, struct err *err) {
    struct regime1 *s = net->state;
    s->M = s->router.M = s->router.K = 1;
    s->activated = true;
    s->rates = regime1_rates(&net->setup);
    s->E = net->setup.network->depth - 1;
    return regime1_build(net, 1, s->E, err);
}

/* Column i of an array [P][M]. */
static const double *column(struct net *net, const double *values, int i) {
    struct regime1 *s = net->state;
    for (int mu = 0; mu < net->setup.P; mu++)
        s->c[mu] = values[mu * s->M + i];
    return s->c;
}

static int regime1_forward(struct net *net, double *f, struct err *err) {
    struct regime1 *s = net->state;
    enum fn sigma = net_activation(net);
    double average[net->setup.P];
    net_read(net, s->W1, s->h1);
    rows_fn(sigma, s->h1, s->x1, s->slope1);
    router_forward(&s->router, net, s->x1);
    rows_zero(s->h_top);
    for (int i = 0; i < s->M; i++) {
        struct rows x = s->x1;
        for (int l = 0; l < s->E; l++) {
            struct layer *layer = &s->layer[l * s->M + i];
            TRY(map_forward(layer->W, x, layer->h, err));
            rows_fn(l < s->E - 1 || s->activated ? sigma : FN_LINEAR, layer->h, layer->x,
                    layer->slope);
            x = layer->x;
        }
        rows_add(column(net, s->router.p, i), x, s->h_top);
        x.array->backend->averages(x, array_all(&s->w->W), average);
        for (int mu = 0; mu < x.count; mu++)
            s->router.gphi[mu * s->M + i] = average[mu];
    }
    net_read_out(net, s->w, s->h_top, f);
    return CODE_OK;
}

static int regime1_backward(struct net *net, struct err *err) {
    struct regime1 *s = net->state;
    const struct backend *backend = net->setup.backend;
    for (int i = 0; i < s->M; i++) {
        struct layer *top = &s->layer[(s->E - 1) * s->M + i];
        rows_multiply(top->slope, array_all(&s->w->W), top->g);
        backend->pointwise(FN_LINEAR, column(net, s->router.p, i), NULL, top->g, top->g,
                           (struct rows){0});
        for (int l = s->E - 1; l > 0; l--) {
            struct layer *layer = &s->layer[l * s->M + i], *below = layer - s->M;
            TRY(map_backward(layer->W, layer->g, below->z, err));
            rows_multiply(below->slope, below->z, below->g);
        }
        TRY(map_backward(s->layer[i].W, s->layer[i].g, i ? s->zi : s->z1, err));
        if (i)
            rows_add(NULL, s->zi, s->z1);
    }
    router_backward(&s->router, net, s->z1);
    rows_multiply(s->slope1, s->z1, s->g1);
    return CODE_OK;
}

/* Values [P][N_e] of one expert into [P][M][N_e]. */
static void gather(const struct plain *p, const double *values, int i, double *out) {
    size_t M = (size_t)p->M, N_e = (size_t)p->N_e;
    for (size_t k = 0; k < (size_t)p->P * N_e; k++)
        out[(k / N_e * M + (size_t)i) * N_e + k % N_e] = values[k];
}

/* Q [M][N] and s1. */
static int plain_router(const struct net *net, struct plain *p, struct err *err) {
    const struct regime1 *s = net->state;
    size_t row = (size_t)p->N, count = (size_t)p->M * row;
    if (!s->router.Q)
        return CODE_OK;
    memcpy(p->psi, s->router.psi, (size_t)p->P * (size_t)p->M * sizeof(double));
    if (!p->Q) {
        TRY(base_alloc(&p->Q, count, sizeof(double), err));
        TRY(base_alloc(&p->s1, (size_t)p->P * row, sizeof(double), err));
    }
    plain_rows(array_all(&s->router.Q->W), p->Q);
    for (size_t k = 0; k < count; k++)
        p->Q[k] /= (double)row;
    return CODE_OK;
}

/* Matrices i of the experts, or in the limit their parts. scratch: [N or 2 P][N] */
static int plain_expert(const struct net *net, struct plain *p, int i, double *scratch,
                        struct err *err) {
    const struct regime1 *s = net->state;
    const struct layer *in = &s->layer[i], *out = &s->layer[s->M + i];
    size_t M = (size_t)p->M, N = (size_t)p->N, count = (size_t)p->P * N;
    if (p->W2_init) {
        TRY(plain_parts(in->W, p->P, scratch, scratch + count, err));
        gather(p, scratch, i, p->W2_init);
        gather(p, scratch + count, i, p->W2_eff);
    }
    if (!p->W2)
        return CODE_OK;
    plain_rows(in->x, scratch);
    gather(p, scratch, i, p->s2);
    plain_rows(in->slope, scratch);
    gather(p, scratch, i, p->slope2);
    TRY(plain_map(in->W, 1, p->W2 + (size_t)i * N * N, err));
    TRY(plain_map(out->W, 1, scratch, err));
    for (size_t k = 0; k < N * N; k++)
        p->W3[(k / N * M + (size_t)i) * N + k % N] = scratch[k];
    return CODE_OK;
}

/* Experts of two matrices; N_e = N, agg = 1. The router, a thin matrix, is there in the limit. */
static int regime1_plain(const struct net *net, struct plain *plain, struct err *err) {
    const struct regime1 *s = net->state;
    size_t P = (size_t)net->setup.P, N = s->w->W.sites, most = net->setup.N ? N : 0;
    double *scratch;
    TRY(plain_init(plain, net, s->w, s->M, (int)N, err));
    TRY(plain_router(net, plain, err));
    plain_rows(s->h1, plain->h1);
    plain_rows(s->h_top, plain->h3);
    plain_rows(s->x1, plain->s1);
    if (plain->phi)
        memcpy(plain->phi, s->router.p, P * (size_t)s->M * sizeof(double));
    TRY(base_alloc(&scratch, (2 * P > most ? 2 * P : most) * N, sizeof *scratch, err));
    int code = CODE_OK;
    for (int i = 0; i < s->M && !code; i++)
        code = plain_expert(net, plain, i, scratch, err);
    free(scratch);
    return code;
}

const struct model model_regime1 = {
    .name = "regime1",
    .doc = "fixed number of deep experts, width to infinity",
    .source = "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable "
              "Parameterization, appendix K, corrected as in docs/theory/regime1.md",
    .keys =
        "parameterization read_out activation gate beta rho experts expert_layers expert_output q0 "
        "router_rate bias biases bias_std bias_noise",
    .state_size = sizeof(struct regime1),
    .check = regime1_check,
    .init = regime1_init,
    .forward = regime1_forward,
    .backward = regime1_backward,
    .plain = regime1_plain,
};

const struct model model_dense = {
    .name = "dense",
    .doc = "deep dense network, width to infinity",
    .source = "Bordelon & Pehlevan, Self-consistent dynamical field theory of kernel evolution in "
              "wide neural networks (2022)",
    .keys = "read_out activation depth",
    .state_size = sizeof(struct regime1),
    .check = dense_check,
    .init = dense_init,
    .forward = regime1_forward,
    .backward = regime1_backward,
};
