/* Deep residual mixture of experts: L blocks with E experts of N_e units each, alpha = N/(N_e E);
 * N, N_e, E to infinity, or N_e fixed (docs/theory/residual.md).
 *
 *     h_0 = W0 x/sqrt D                          stream, N sites, one population for all blocks
 *     p_k = R h_l                                experts of block l; R = 0 at the start
 *     c_k = m_k sig(p_k)                         m: the K = rho E largest sig(p_k) + b_k
 *     psi_kj = W1 h_l                            units of block l
 *     h_l+1 = h_l + (1/L) W2 (c_k phi(psi_kj))   f = <w, h_L>/gamma0
 *
 * The mask is a constant in the backward pass; b acts in the selection only. W0 and w are drawn
 * from the pool of the stream: balanced draws make them orthogonal. For alpha = 0 the units are
 * nominally infinitely more than the infinite N, by the same factor 2^400: sqrt(alpha) = 2^-200
 * vanishes, the ones stay exact. Cotangents of experts and units are 1/L times the page's. */
#include "models/residual.h"
#include "models/routing/balance.h"
#include "models/routing/gate.h"
#include "models/net/net.h"

#include <math.h>

static const struct param_row residual_rows[] = {
    {"alpha", PARAM_REAL, NETWORK_KEY(alpha), "0", 0, 1e6, NULL, NULL,
     "width over all units of a block, N/(N_e E); 0: networks have N_e = N^2/E"},
    {NULL},
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
 * Experts of infinite width share the normals of their sampled units: the mean over them is then
 * the same function of the expert everywhere, instead of fluctuating by N_e^{-1/2} as in a network
 * of that width. */
static void populate(struct program *p, int l, struct population **experts,
                     struct population **units) {
    const struct net_setup *setup = program_setup(p);
    const struct network *network = program_network(p);
    bool fixed = network->expert_width > 0, alike = !fixed && network->rho == 1;
    double E = alike ? 1 : setup->expert_sites,
           N_e = fixed ? network->expert_width : setup->unit_sites;
    double many = network->alpha > 0 ? 1 / network->alpha : POPULATION_INFINITE,
           some = fixed ? many / N_e : 1;
    if (setup->N) {
        residual_shape(network, setup->N, &E, &N_e);
        some = round(E) / setup->N;
        many = some * round(N_e);
    }
    size_t sites = (size_t)lround(E), group = (size_t)lround(N_e);
    *experts = program_population(p, program_name(p, "experts_%d", l), some, sites, 1);
    *units = program_population(p, program_name(p, "units_%d", l), many, sites * group, (int)group);
    if (!setup->N && !fixed && sites > 1)
        (*units)->units = program_population(p, program_name(p, "unit_%d", l), many, group, 1);
}

/* Averages over the experts of block l. */
static void add_mean(struct program *p, int l, struct value x, bool gradient, int power,
                     const char *name, const char *about, const char *equation) {
    int L = program_network(p)->depth;
    program_measure(p, x, gradient, power, 1,
                    program_series(p, "t l mu", L, l, name, about, equation));
}

static void add_kernel(struct program *p, const char *name, int l, const char *about,
                       const char *equation, struct value x, bool gradient) {
    (gradient ? program_gradient : program_kernel)(p, x, 1, program_name(p, "%s_%d", name, l),
                                                   about, equation);
}

/* What block l adds to the stream. */
static struct value write_block(struct program *p, int l, struct value h,
                                struct population *stream) {
    const struct network *network = program_network(p);
    int L = network->depth;
    struct population *experts, *units;
    populate(p, l, &experts, &units);
    double alpha = stream->size / units->size;
    experts->page = units->page = 1.0 / L;
    struct weight R = {
        .name = program_name(p, "R_%d", l), .rate = L, .adam_eps = 1.0 / L, .zero = true};
    struct weight W1 = {.name = program_name(p, "W1_%d", l), .rate = L, .adam_eps = 1.0 / L};
    struct weight W2 = {.name = program_name(p, "W2_%d", l),
                        .s_f = sqrt(alpha) / L,
                        .rate = 1.0 / L,
                        .adam_rate = 1.0 / L};

    struct value logits = program_map(p, h, experts, R);
    struct value c = program_fn(p, FN_SIGMOID, 1, logits);
    if (network->rho < 1)
        c = program_multiply(p, balance_select(p, c, experts, l), c);
    struct value psi = program_map(p, h, units, W1);
    struct value x = program_multiply(p, c, program_sigma(p, psi));
    add_mean(p, l, logits, false, 1, "p", "mean router logit", "<p_k>");
    add_mean(p, l, logits, false, 2, "p2", "mean squared router logit", "<p_k^2>");
    add_mean(p, l, c, true, 1, "A", "mean gradient of the gate", "<A_k>");
    add_kernel(p, "Mphi", l, "feature kernel of the expert units", "<c_k phi c_k phi>", x, false);
    add_kernel(p, "Mg", l, "gradient kernel of the expert units", "<c_k gk c_k gk>", psi, true);
    add_kernel(p, "MAA", l, "gradient kernel of the routers", "<sd_k A_k sd_k A_k>", logits, true);
    return program_map(p, x, stream, W2);
}

static void residual_write(struct program *p) {
    int L = program_network(p)->depth;
    struct population *stream =
        program_population(p, "stream", 1, (size_t)program_setup(p)->sites, 1);
    struct value h = program_read_in(p, stream, (struct weight){.name = "W0"});
    for (int l = 0; l <= L; l++) {
        add_kernel(p, "Ch", l, "feature kernel of the stream", "<h_l h_l>", h, false);
        add_kernel(p, "Cg", l, "gradient kernel of the stream", "<g_l g_l>", h, true);
        if (l < L)
            h = program_add(p, h, write_block(p, l, h, stream));
    }
    program_read_out(p, h, (struct weight){.name = "w"});
}

const struct model model_residual = {
    .name = "residual",
    .doc = "deep residual mixture of experts, experts of infinite or finite width",
    .source = "Hyperparameter Transfer with Mixture-of-Experts Layers, section 4 and appendix E, "
              "corrected as in docs/theory/residual.md",
    .keys = "read_out activation rho depth alpha expert_width experts eta_bias bias_std bias_draws",
    .solver_keys = "expert_sites unit_sites",
    .rows = residual_rows,
    .check = residual_check,
    .write = residual_write,
};
