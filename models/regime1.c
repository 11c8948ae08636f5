/* Regime I: a fixed number M of deep experts, width N to infinity; and the deep dense network,
 * which is the case of one expert with constant gate and activated output (docs/theory/regime1.md).
 *
 *     h1 = W1 x/sqrt D                          x1 = sigma(h1)                  bottom
 *     psi_i = <Q_i, x1> + b_i (+ noise)         p = gate(beta psi)              numbers, [P][M]
 *     h_1,i = W_1,i x1                          h_l,i = W_l,i sigma(h_l-1,i)    l < E =
 * expert_layers h_E,i on the top, shared by all experts   h_top = sum_i p_i o(h_E,i)      f = <w,
 * h_top>/gamma0
 *
 *     gphi_i = <w, o(h_E,i)>                    gpsi = (dp/dpsi)^T gphi
 *     g_E,i = p_i w o'(h_E,i)                   g_l,i = sigma'(h_l,i) (W_l+1,i^T g_l+1,i)
 *     z1 = sum_i W_1,i^T g_1,i + sum_i gpsi_i Q_i
 *
 * o is sigma or the identity. All rates are 1, but router_rate for Q and, for b, 1 (trained) or 0.
 * Top-K: the mask of the K = rho M largest logits is a constant in the backward pass. In the limit
 * psi(0) = b: the sampling error of <Q_i, x1> at t = 0 is subtracted.
 *
 * Standard parameterization (networks only): every matrix has std fan_in^{-1/2} and one rate eta0,
 * that is Q and w of amplitude sqrt N and gamma0 sqrt N here, and the rates in regime1_rates. */
#include "models/regime1.h"
#include "kernels/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One matrix of an expert and the rows it writes. */
struct layer {
    struct map *W;
    struct rows h, x, slope, z, g;
};

/* Multipliers of eta0 gamma0^2 N for each block. */
struct rates {
    double W1, W, Q, b, w;
};

struct regime1 {
    int M, E, K;
    struct rates rate;
    bool router, fluctuating; /* see regime1_init */
    double beta;
    struct layer layer[NET_MAPS]; /* [E][M] */
    struct thin *W1, *Q, *w;
    struct rows h1, x1, slope1, z1, zi, g1, h_top;
    double *psi, *start, *p, *gphi, *gpsi; /* [P][M] */
    double *b, *c;                         /* [M]; [P] scratch */
};

static struct rates regime1_rates(const struct net_setup *setup) {
    const struct network *network = setup->network;
    double gamma2 = setup->gamma0 * setup->gamma0, N = setup->N;
    if (network->parameterization == PARAMETERIZATION_SP)
        return (struct rates){1 / (gamma2 * N), 1 / gamma2, N / gamma2 * network->router_rate,
                              1 / gamma2, N};
    return (struct rates){1, 1, network->router_rate, 1, 1};
}

static double router_amplitude(const struct network *network) {
    if (network->q0 >= 0)
        return network->q0;
    return network->parameterization == PARAMETERIZATION_MSSP ? 0 : 1;
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
    int M = network->experts, K = (int)lround(network->rho * M);
    const char *reason;
    (void)expert_sites;
    *key = "parameterization";
    if (!N && network->parameterization == PARAMETERIZATION_SP)
        return "the standard parameterization has no limit: set [solver] replicates = 0";
    reason = sizes_check(network, key);
    if (reason || network->gate == GATE_CONSTANT)
        return reason;
    *key = "rho";
    if (K < 1 || fabs(network->rho * M - K) > 1e-9)
        return "rho times experts must be a whole number of at least 1";
    *key = "biases";
    if (network->bias && network->biases.count && network->biases.count != M)
        return "biases must be one number per expert, or empty";
    *key = "bias";
    if (K < M && !network->bias && network->bias_noise == 0 && router_amplitude(network) == 0)
        return "top-K with a zero initial router needs a bias or noise: its logits are exactly "
               "equal";
    return NULL;
}

static const char *dense_check(const struct network *network, int N, int expert_sites,
                               const char **key) {
    (void)N, (void)expert_sites;
    *key = "depth";
    return network->depth < 2 ? "a deep network has at least 2 hidden layers" : NULL;
}

/* Normals shared by the limit and all networks of a seed. */
static double shared_normal(const struct net *net, uint32_t owner, int draw, int i) {
    struct rng_stream stream = {.seed = net->setup.seed, .purpose = PURPOSE_BIAS, .owner = owner};
    double pair[2];
    rng_normal_pair(stream, (uint32_t)draw, (uint32_t)i / 2, pair);
    return pair[i % 2];
}

static int init_router(struct net *net, struct population *bottom, struct err *err) {
    struct regime1 *s = net->state;
    const struct network *network = net->setup.network;
    int P = net->setup.P, M = s->M;
    bool sp = network->parameterization == PARAMETERIZATION_SP;
    double q0 = router_amplitude(network) * (sp ? sqrt(net->setup.N) : 1);
    TRY((net->setup.N || s->fluctuating ? net_thin_iid : net_thin)(net, bottom, M, q0, &s->Q, err));
    TRY(net_vector(net, P * M, &s->psi, err));
    TRY(net_vector(net, P * M, &s->start, err));
    TRY(net_vector(net, P * M, &s->gpsi, err));
    TRY(net_vector(net, M, &s->b, err));
    for (int i = 0; i < M && network->bias; i++)
        s->b[i] = network->biases.count ? network->biases.value[i]
                                        : network->bias_std * shared_normal(net, 0, 0, i);
    net_parameter(net,
                  (struct parameter){.thin = s->Q, .A = s->gpsi, .rate = s->rate.Q, .y = s->x1});
    if (network->bias == BIAS_TRAINED)
        net_parameter(net,
                      (struct parameter){.host = s->b, .A = s->gpsi, .K = M, .rate = s->rate.b});
    const struct numbers numbers[] = {
        {"psi", "t mu i", "router logits, bias included", "<Q_i x1> + b_i", s->psi, 2, {P, M}},
        {"p", "t mu i", "gates", "softmax or sigmoid of beta psi, top-K", s->p, 2, {P, M}},
        {"gphi", "t mu i", "gradient of the gates", "<w o(h_i)>", s->gphi, 2, {P, M}},
    };
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        net_numbers(net, numbers[k]);
    return CODE_OK;
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
    net_parameter(net, (struct parameter){.map = layer->W, .rate = s->rate.W, .y = layer->g});
    return CODE_OK;
}

/* Kernels of layer l + 2; with one expert they carry no expert index. */
static void add_layer_kernels(struct net *net, int l, int i, bool activated) {
    const struct regime1 *s = net->state;
    const struct layer *layer = &s->layer[l * s->M + i];
    struct kernel Phi = {"", "feature kernel", "<sigma(h) sigma(h)>", layer->x, 1, false};
    struct kernel G = {"", "gradient kernel", "<g g>", layer->g, 1, false};
    snprintf(Phi.name, sizeof Phi.name, s->M > 1 ? "Phi%d_%d" : "Phi%d", l + 2, i);
    snprintf(G.name, sizeof G.name, s->M > 1 ? "G%d_%d" : "G%d", l + 2, i);
    if (l < s->E - 1 || activated)
        net_kernel(net, Phi);
    net_kernel(net, G);
}

static int regime1_build(struct net *net, int M, int E, struct err *err) {
    struct regime1 *s = net->state;
    const struct net_setup *setup = &net->setup;
    const struct network *network = setup->network;
    struct population *bottom, *top, *source[INT_LIST_MAX];
    int P = setup->P;
    bool activated =
        network->expert_output == EXPERT_OUTPUT_ACTIVATED || net->model == &model_dense;
    TRY(net_population(net, "bottom", 1, (size_t)setup->sites, 1, &bottom, err));
    TRY(net_population(net, "top", 1, (size_t)setup->sites, 1, &top, err));
    TRY(net_thin(net, bottom, setup->K, 1, &s->W1, err));
    bool sp = net->model == &model_regime1 && network->parameterization == PARAMETERIZATION_SP;
    double w0 = sp ? setup->gamma0 * sqrt(setup->N) : 1;
    TRY((s->fluctuating && !setup->N ? net_thin_iid : net_thin)(net, top, 1, w0, &s->w, err));
    struct rows *on_bottom[] = {&s->h1, &s->x1, &s->slope1, &s->z1, &s->zi, &s->g1};
    TRY(net_all_rows(net, bottom, P, on_bottom, sizeof on_bottom / sizeof *on_bottom, err));
    TRY(net_rows(net, top, P, &s->h_top, err));
    TRY(net_vector(net, P * M, &s->p, err));
    TRY(net_vector(net, P, &s->c, err));
    TRY(net_vector(net, P * M, &s->gphi, err));
    net_kernel(net, (struct kernel){"Phi1", "feature kernel of the bottom layer",
                                    "<x1 x1>, x1 = sigma(h1)", s->x1, 1, false});
    net_kernel(net, (struct kernel){"G1", "gradient kernel of the bottom layer",
                                    "<g1 g1>, g1 = sigma'(h1) z1", s->g1, 1, false});
    for (int l = 0; l < E; l++)
        for (int i = 0; i < M; i++) {
            struct population *target = top;
            TRY(init_layer(net, l, i, l ? source[i] : bottom, &target, err));
            source[i] = target;
            add_layer_kernels(net, l, i, activated);
        }
    net_kernel(net, (struct kernel){"PhiL", "feature kernel of the top", "<h_top h_top>", s->h_top,
                                    1, false});
    net_parameter(net,
                  (struct parameter){.thin = s->W1, .A = setup->A, .rate = s->rate.W1, .y = s->g1});
    net_parameter(
        net, (struct parameter){.thin = s->w, .A = net->ones, .rate = s->rate.w, .y = s->h_top});
    return s->router ? init_router(net, bottom, err) : CODE_OK;
}

/* Top-K without bias or noise: psi(0) = psi(1) = 0 in the limit, so fluctuations of order 1/sqrt N
 * decide the first selections, and the limit is a random one. Only their signs and order matter,
 * not their size: with iid Q and w, unmatched and not subtracted, the fluctuations of order 1/sqrt
 * S of a replicate have the law of those of a network, and each replicate is one draw. */
static int regime1_init(struct net *net, struct err *err) {
    struct regime1 *s = net->state;
    const struct network *network = net->setup.network;
    s->router = network->gate != GATE_CONSTANT;
    s->rate = regime1_rates(&net->setup);
    s->fluctuating = s->router && network->rho < 1 && !network->bias && network->bias_noise == 0;
    s->beta = network->beta;
    s->M = network->experts;
    s->E = network->expert_layers;
    s->K = s->router ? (int)lround(network->rho * s->M) : s->M;
    return regime1_build(net, s->M, s->E, err);
}

static int dense_init(struct net *net, struct err *err) {
    struct regime1 *s = net->state;
    s->M = s->K = 1;
    s->rate = (struct rates){1, 1, 1, 1, 1};
    s->E = net->setup.network->depth - 1;
    return regime1_build(net, 1, s->E, err);
}

/* p of one input; experts outside of the K largest logits (ties to the lower index) have p = 0. */
static void gate_of(const struct regime1 *s, enum gate_kind kind, const double *psi, double *p) {
    double largest = psi[0], sum = 0;
    for (int i = 1; i < s->M; i++)
        largest = fmax(largest, psi[i]);
    for (int i = 0; i < s->M; i++) {
        int before = 0;
        for (int k = 0; k < s->M; k++)
            before += psi[k] > psi[i] || (psi[k] == psi[i] && k < i);
        double value = kind == GATE_SOFTMAX ? exp(s->beta * (psi[i] - largest))
                                            : 1 / (1 + exp(-s->beta * psi[i]));
        p[i] = before < s->K ? value : 0;
        sum += p[i];
    }
    for (int i = 0; i < s->M && kind == GATE_SOFTMAX; i++)
        p[i] /= sum;
}

static void route(struct net *net) {
    struct regime1 *s = net->state;
    const struct network *network = net->setup.network;
    int P = net->setup.P, M = s->M;
    if (!s->router) {
        for (int k = 0; k < P * M; k++)
            s->p[k] = 1;
        return;
    }
    if (s->fluctuating)
        s->x1.array->backend->dots(s->x1, array_all(&s->Q->W), s->psi);
    else
        net_thin_averages(net, s->Q, s->x1, s->start, s->psi);
    for (int mu = 0; mu < P; mu++) {
        for (int i = 0; i < M; i++)
            s->psi[mu * M + i] += s->b[i] + network->bias_noise * shared_normal(net, 1, net->t, i);
        gate_of(s, network->gate, s->psi + mu * M, s->p + mu * M);
    }
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
    bool activated = net->model == &model_dense || net->setup.network->expert_output;
    double average[net->setup.P];
    thin_read(s->W1, net->setup.A, s->h1);
    rows_fn(sigma, s->h1, s->x1, s->slope1);
    route(net);
    rows_zero(s->h_top);
    for (int i = 0; i < s->M; i++) {
        struct rows x = s->x1;
        for (int l = 0; l < s->E; l++) {
            struct layer *layer = &s->layer[l * s->M + i];
            TRY(map_forward(layer->W, x, layer->h, err));
            rows_fn(l < s->E - 1 || activated ? sigma : FN_LINEAR, layer->h, layer->x,
                    layer->slope);
            x = layer->x;
        }
        rows_add(column(net, s->p, i), x, s->h_top);
        x.array->backend->averages(x, array_all(&s->w->W), average);
        for (int mu = 0; mu < x.count; mu++)
            s->gphi[mu * s->M + i] = average[mu];
    }
    net_read_out(net, s->w, s->h_top, f);
    return CODE_OK;
}

/* gpsi = (dp/dpsi)^T gphi, the mask held. */
static void router_gradient(struct net *net) {
    struct regime1 *s = net->state;
    bool softmax = net->setup.network->gate == GATE_SOFTMAX;
    for (int mu = 0; mu < net->setup.P; mu++) {
        const double *p = s->p + mu * s->M, *gphi = s->gphi + mu * s->M;
        double mean = 0;
        for (int i = 0; i < s->M; i++)
            mean += p[i] * gphi[i];
        for (int i = 0; i < s->M; i++)
            s->gpsi[mu * s->M + i] =
                s->beta * p[i] * (softmax ? gphi[i] - mean : (1 - p[i]) * gphi[i]);
    }
}

static int regime1_backward(struct net *net, struct err *err) {
    struct regime1 *s = net->state;
    const struct backend *backend = net->setup.backend;
    for (int i = 0; i < s->M; i++) {
        struct layer *top = &s->layer[(s->E - 1) * s->M + i];
        rows_multiply(top->slope, array_all(&s->w->W), top->g);
        backend->pointwise(FN_LINEAR, column(net, s->p, i), NULL, top->g, top->g, (struct rows){0});
        for (int l = s->E - 1; l > 0; l--) {
            struct layer *layer = &s->layer[l * s->M + i], *below = layer - s->M;
            TRY(map_backward(layer->W, layer->g, below->z, err));
            rows_multiply(below->slope, below->z, below->g);
        }
        TRY(map_backward(s->layer[i].W, s->layer[i].g, i ? s->zi : s->z1, err));
        if (i)
            rows_add(NULL, s->zi, s->z1);
    }
    if (s->router) {
        router_gradient(net);
        backend->combine(s->z1, 1, s->gpsi, array_all(&s->Q->W));
    }
    rows_multiply(s->slope1, s->z1, s->g1);
    return CODE_OK;
}

const struct model model_regime1 = {
    .name = "regime1",
    .doc = "fixed number of deep experts, width to infinity",
    .source = "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable "
              "Parameterization, appendix K, corrected as in docs/theory/regime1.md",
    .keys = "parameterization activation gate beta rho experts expert_layers expert_output q0 "
            "router_rate bias biases bias_std bias_noise",
    .state_size = sizeof(struct regime1),
    .check = regime1_check,
    .init = regime1_init,
    .forward = regime1_forward,
    .backward = regime1_backward,
};

const struct model model_dense = {
    .name = "dense",
    .doc = "deep dense network, width to infinity",
    .source = "Bordelon & Pehlevan, Self-consistent dynamical field theory of kernel evolution in "
              "wide neural networks (2022)",
    .keys = "activation depth",
    .state_size = sizeof(struct regime1),
    .check = dense_check,
    .init = dense_init,
    .forward = regime1_forward,
    .backward = regime1_backward,
};
