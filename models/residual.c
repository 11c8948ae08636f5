/* Deep residual mixture of experts: L blocks with E experts of N_e units each, alpha = N/(N_e E);
 * N, N_e, E to infinity, or N_e fixed (docs/theory/residual.md).
 *
 *     h_0 = W0 x/sqrt D                          stream, N sites, one population for all blocks
 *     p_k = R h_l                                experts of block l; R = 0 at the start
 *     c_k = m_k sig(p_k), sd_k = m_k sig'(p_k)   m: the K = rho E largest sig(p_k) + b_k
 *     psi_kj = W1 h_l                            units of block l
 *     h_l+1 = h_l + (1/L) W2 (c_k phi(psi_kj))   f = <w, h_L>/gamma0
 *
 *     g_L = w                 z_kj = W2^T g_l+1               A_k = <z phi>_j
 *     gk_kj = phi'(psi) z     g_l = g_l+1 + (1/L) (W1^T (c_k gk_kj) + R^T (sd_k A_k))
 *     b_k -= eta_bias (mean_mu m_k - rho) after each step: no gradient, no gamma0
 *
 * The mask is a constant in the backward pass; b acts in the selection only. All rates are 1, with
 * y = c_k gk (W1), g_l+1 (W2), sd_k A_k (R), g_0 (W0), h_L (w). W0 and w are drawn from the pool of
 * the stream: balanced draws make them orthogonal.
 *
 * Maps: W1 s_f = 1, s_b = alpha; W2 s_f = sqrt alpha, s_b = 1/sqrt alpha; R s_b = N/E, nothing
 * random. With r = 1/alpha (W1) and alpha (W2) their five numbers fg fr bg br lr are
 * 1 sqrt(alpha) sqrt(alpha) 1 1 and sqrt(alpha) 1 1 sqrt(alpha) 1. For alpha = 0 the units are
 * nominally infinitely more than the infinite N, by the same factor 2^400: sqrt(alpha) = 2^-200
 * vanishes, the ones stay exact. */
#include "models/residual.h"
#include "models/balance.h"
#include "models/gate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* One of the L residual blocks. */
struct block {
    struct map *W1, *W2, *R;
    struct rows phi, x, gk; /* units [P]; x = c phi; gk: phi'(psi), after backward c gk */
    struct rows c, sd;      /* experts [P]; sd: after backward sd A */
    struct balance balance;
};

struct residual {
    int L;
    bool selects; /* rho < 1 */
    struct thin *W0, *w;
    struct rows h[RESIDUAL_DEPTH + 1], g[RESIDUAL_DEPTH + 1], work; /* stream [P] */
    struct block block[RESIDUAL_DEPTH];
    struct rows z;                             /* units [P], of any block: psi, then z */
    struct rows p, A;                          /* experts [P], of any block */
    double *share;                             /* [P], 1/L */
    double *mean_p, *mean_p2, *mean_A, *qstar; /* [L][P] */
    double *load2, *b2;                        /* [L] */
};

void residual_shape(const struct network *network, int N, double *E, double *N_e) {
    double alpha = network->alpha, units = alpha > 0 ? N / alpha : (double)N * N;
    int fixed = network->expert_width;
    *N_e = fixed ? fixed : units / network->experts;
    *E = fixed ? units / fixed : network->experts;
}

static bool whole(double x) {
    return x > 0.5 && x < 1e9 && fabs(x - round(x)) <= 1e-9 * x;
}

static const char *residual_check(const struct network *network, int N, int expert_sites,
                                  const char **key) {
    double E = expert_sites, N_e = network->expert_width;
    *key = "alpha";
    if (network->alpha == 0 && network->expert_width)
        return "alpha = N/(N_e E) is 0 for experts of infinite width only: expert_width = 0";
    if (!N && network->rho == 1)
        return NULL;
    if (N)
        residual_shape(network, N, &E, &N_e);
    *key = network->expert_width ? "expert_width" : "alpha";
    if (N && !whole(E))
        return "the number of experts N/(alpha N_e) must be whole and at least 1";
    if (N && !whole(N_e))
        return "the units per expert N_e = N/(alpha E), or N^2/E for alpha = 0, must be a whole "
               "number of at least 1";
    return gate_check(network, round(E), key);
}

/* The populations of a block; E and N_e are those of the network or, in the limit, of the sites.
 * Experts of infinite width share the normals of their sampled units: A_k is then the same function
 * of the expert everywhere, instead of fluctuating by N_e^{-1/2} as in a network of that width. */
static int init_populations(struct net *net, int l, struct population **experts,
                            struct population **units, struct err *err) {
    const struct net_setup *setup = &net->setup;
    const struct network *network = setup->network;
    int fixed = network->expert_width, E = setup->expert_sites,
        N_e = fixed ? fixed : setup->unit_sites;
    double many = network->alpha > 0 ? 1 / network->alpha : POPULATION_INFINITE, some = 1;
    char name[24];
    if (setup->N) {
        double e, n;
        residual_shape(network, setup->N, &e, &n);
        E = (int)lround(e);
        N_e = (int)lround(n);
        some = (double)E / setup->N;
        many = some * N_e;
    } else if (fixed) {
        some = many / fixed;
    } else if (network->rho == 1) {
        E = 1; /* all experts are alike */
    }
    snprintf(name, sizeof name, "experts_%d", l);
    TRY(net_population(net, name, some, (size_t)E, 1, experts, err));
    snprintf(name, sizeof name, "units_%d", l);
    TRY(net_population(net, name, many, (size_t)E * (size_t)N_e, N_e, units, err));
    if (setup->N || fixed || E == 1)
        return CODE_OK;
    snprintf(name, sizeof name, "unit_%d", l);
    return net_population(net, name, many, (size_t)N_e, 1, &(*units)->units, err);
}

static int init_maps(struct net *net, int l, struct population *stream, struct population *experts,
                     struct population *units, struct err *err) {
    struct block *k = &((struct residual *)net->state)->block[l];
    double alpha = stream->size / units->size;
    struct map_declaration W1 = {"", stream, units, 1, 1, alpha, false},
                           W2 = {"", units, stream, 1, sqrt(alpha), 1 / sqrt(alpha), false},
                           R = {"", stream, experts, 0, 1, stream->size / experts->size, false};
    snprintf(W1.name, sizeof W1.name, "W1_%d", l);
    snprintf(W2.name, sizeof W2.name, "W2_%d", l);
    snprintf(R.name, sizeof R.name, "R_%d", l);
    TRY(net_map(net, W1, &k->W1, err));
    TRY(net_map(net, W2, &k->W2, err));
    return net_map(net, R, &k->R, err);
}

static int init_block(struct net *net, int l, struct population *stream, struct err *err) {
    struct residual *s = net->state;
    struct block *k = &s->block[l];
    struct population *experts, *units;
    int P = net->setup.P;
    TRY(init_populations(net, l, &experts, &units, err));
    TRY(init_maps(net, l, stream, experts, units, err));
    struct rows *on_units[] = {&k->phi, &k->x, &k->gk}, *on_experts[] = {&k->c, &k->sd};
    struct rows *shared[] = {&s->p, &s->A};
    TRY(net_all_rows(net, units, P, on_units, 3, err));
    TRY(net_all_rows(net, experts, P, on_experts, 2, err));
    if (l == 0) {
        TRY(net_rows(net, units, P, &s->z, err));
        TRY(net_all_rows(net, experts, P, shared, 2, err));
    }
    TRY(balance_init(&k->balance, net, experts, l, err));
    struct adam_scale adam = {1, net->setup.gamma0};
    net_parameter(net, (struct parameter){.map = k->W1, .rate = 1, .adam = adam, .y = k->gk});
    net_parameter(net, (struct parameter){.map = k->W2, .rate = 1, .adam = adam, .y = s->g[l + 1]});
    net_parameter(net, (struct parameter){.map = k->R, .rate = 1, .adam = adam, .y = k->sd});
    return CODE_OK;
}

static void add_kernel(struct net *net, const char *name, int l, const char *about,
                       const char *equation, struct rows rows) {
    struct kernel kernel = {"", about, equation, rows, 1, false};
    snprintf(kernel.name, sizeof kernel.name, "%s_%d", name, l);
    net_kernel(net, kernel);
}

static void add_kernels(struct net *net) {
    const struct residual *s = net->state;
    for (int l = 0; l <= s->L; l++) {
        add_kernel(net, "Ch", l, "feature kernel of the stream", "<h_l h_l>", s->h[l]);
        add_kernel(net, "Cg", l, "gradient kernel of the stream", "<g_l g_l>", s->g[l]);
    }
    for (int l = 0; l < s->L; l++) {
        const struct block *k = &s->block[l];
        add_kernel(net, "Mphi", l, "feature kernel of the expert units", "<c_k phi c_k phi>", k->x);
        add_kernel(net, "Mg", l, "gradient kernel of the expert units", "<c_k gk c_k gk>", k->gk);
        add_kernel(net, "MAA", l, "gradient kernel of the routers", "<sd_k A_k sd_k A_k>", k->sd);
    }
}

static int add_numbers(struct net *net, struct err *err) {
    struct residual *s = net->state;
    const struct {
        double **values;
        struct numbers numbers;
    } rows[] = {
        {&s->mean_p, {"p", "t l mu", "mean router logit", "<p_k>", NULL, 2, {0}}},
        {&s->mean_p2, {"p2", "t l mu", "mean squared router logit", "<p_k^2>", NULL, 2, {0}}},
        {&s->mean_A, {"A", "t l mu", "mean gradient of the gate", "<A_k>", NULL, 2, {0}}},
        {&s->qstar,
         {"qstar", "t l mu", "selection threshold: the K-th largest sig(p) + b", "", NULL, 2, {0}}},
        {&s->load2,
         {"load2",
          "t l",
          "spread of the loads of the experts about rho",
          "<(mean_mu m_k - rho)^2>",
          NULL,
          1,
          {0}}},
        {&s->b2, {"b2", "t l", "variance of the biases", "<b_k^2> - <b_k>^2", NULL, 1, {0}}},
    };
    for (size_t i = 0; i < (s->selects ? 6 : 3); i++) {
        struct numbers numbers = rows[i].numbers;
        numbers.shape[0] = s->L;
        numbers.shape[1] = net->setup.P;
        TRY(net_vector(net, s->L * (numbers.axes == 2 ? net->setup.P : 1), rows[i].values, err));
        numbers.values = *rows[i].values;
        net_numbers(net, numbers);
    }
    return CODE_OK;
}

static int residual_init(struct net *net, struct err *err) {
    struct residual *s = net->state;
    const struct net_setup *setup = &net->setup;
    struct population *stream;
    int P = setup->P, L = s->L = setup->network->depth;
    TRY(net_population(net, "stream", 1, (size_t)setup->sites, 1, &stream, err));
    TRY(net_read_in(net, stream, &s->W0, err));
    TRY(net_thin(net, stream, 1, net_read_out_amplitude(net), &s->w, err));
    TRY(net_rows(net, stream, P, &s->work, err));
    for (int l = 0; l <= L; l++) {
        TRY(net_rows(net, stream, P, &s->h[l], err));
        TRY(net_rows(net, stream, P, &s->g[l], err));
    }
    for (int l = 0; l < L; l++)
        TRY(init_block(net, l, stream, err));
    TRY(net_vector(net, P, &s->share, err));
    for (int mu = 0; mu < P; mu++)
        s->share[mu] = 1.0 / L;
    s->selects = setup->network->rho < 1;
    net_ends(net, s->W0, s->g[0], s->w, s->h[L]);
    add_kernels(net);
    return add_numbers(net, err);
}

static int residual_forward(struct net *net, double *f, struct err *err) {
    struct residual *s = net->state;
    const struct backend *backend = net->setup.backend;
    int P = net->setup.P;
    net_read(net, s->W0, s->h[0]);
    for (int l = 0; l < s->L; l++) {
        struct block *k = &s->block[l];
        TRY(map_forward(k->R, s->h[l], s->p, err));
        backend->averages(s->p, (struct rows){0}, s->mean_p + l * P);
        backend->averages(s->p, s->p, s->mean_p2 + l * P);
        rows_fn(FN_SIGMOID, s->p, k->c, k->sd);
        if (s->selects)
            TRY(balance_select(&k->balance, net, k->c, k->sd, s->qstar + l * P, s->load2 + l,
                               s->b2 + l, err));
        TRY(map_forward(k->W1, s->h[l], s->z, err));
        rows_fn(net_activation(net), s->z, k->phi, k->gk);
        rows_multiply(k->c, k->phi, k->x);
        TRY(map_forward(k->W2, k->x, s->work, err));
        rows_copy(s->h[l], s->h[l + 1]);
        rows_add(s->share, s->work, s->h[l + 1]);
    }
    net_read_out(net, s->w, s->h[s->L], f);
    return CODE_OK;
}

static int residual_backward(struct net *net, struct err *err) {
    struct residual *s = net->state;
    const struct backend *backend = net->setup.backend;
    backend->combine(s->g[s->L], 0, net->ones, array_all(&s->w->W));
    for (int l = s->L - 1; l >= 0; l--) {
        struct block *k = &s->block[l];
        TRY(map_backward(k->W2, s->g[l + 1], s->z, err));
        rows_multiply(s->z, k->gk, k->gk);
        rows_multiply(k->c, k->gk, k->gk);
        rows_multiply(s->z, k->phi, s->z); /* z is free now */
        backend->group_sum(s->z, s->A);
        rows_scale(1.0 / s->z.array->group, s->A);
        backend->averages(s->A, (struct rows){0}, s->mean_A + l * net->setup.P);
        rows_multiply(s->A, k->sd, k->sd);
        rows_copy(s->g[l + 1], s->g[l]);
        TRY(map_backward(k->W1, k->gk, s->work, err));
        rows_add(s->share, s->work, s->g[l]);
        TRY(map_backward(k->R, k->sd, s->work, err));
        rows_add(s->share, s->work, s->g[l]);
    }
    return CODE_OK;
}

/* Loads settle at rho: b_k -= eta_bias (mean_mu m_k - rho). */
static void residual_rule(struct net *net) {
    struct residual *s = net->state;
    for (int l = 0; l < s->L; l++)
        balance_update(&s->block[l].balance, net->setup.network->eta_bias);
}

const struct model model_residual = {
    .name = "residual",
    .doc = "deep residual mixture of experts, experts of infinite or finite width",
    .source = "Hyperparameter Transfer with Mixture-of-Experts Layers, section 4 and appendix E, "
              "corrected as in docs/theory/residual.md",
    .keys = "read_out activation rho depth alpha expert_width experts eta_bias bias_std bias_draws",
    .solver_keys = "expert_sites unit_sites",
    .state_size = sizeof(struct residual),
    .check = residual_check,
    .init = residual_init,
    .forward = residual_forward,
    .backward = residual_backward,
    .rule = residual_rule,
};
