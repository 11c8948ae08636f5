/* Deep residual mixture of experts: L blocks with E experts of N_e units each, alpha = N/(N_e E);
 * N, N_e, E to infinity, or N_e fixed (docs/theory/residual.md).
 *
 *     h_0 = W0 x/sqrt D                          stream, N sites, one population for all blocks
 *     p_k = R h_l                                experts of block l; R = 0 at the start (or q0)
 *     c_k = m_k sig(p_k)                         m: the K = rho E largest sig(p_k) + b_k
 *     psi_kj = W1 h_l                            units of block l
 *     h_l+1 = h_l + (1/L) W2 (c_k phi(psi_kj))   f = <w, h_L>/gamma0
 *
 * W0 and w are drawn from the pool of the stream: balanced draws make them orthogonal. For alpha =
 * 0 the units are nominally 2^400 N, as N is 2^400: sqrt(alpha) = 2^-200 vanishes, the ones stay
 * exact. Cotangents of experts and units are 1/L times the page's. */
#include "models/residual.h"
#include "models/block.h"
#include "models/routing/balance.h"
#include "models/routing/gate.h"
#include "models/net/net.h"

#include <math.h>

static const struct param_row residual_rows[] = {
    {"alpha", PARAM_REAL, NETWORK_KEY(alpha), "1", 0, 1e6, NULL, NULL,
     "width over all units of a block, N/(N_e E); 0: networks have N_e = N^2/E"},
    {0},
};

bool residual_shape(const struct network *network, int N, double *E, double *N_e) {
    double units = network->alpha > 0 ? N / network->alpha : (double)N * N;
    int fixed = network->expert_width;
    *E = fixed ? units / fixed : network->experts;
    *N_e = fixed ? fixed : units / network->experts;
    return network_whole(*E) && network_whole(*N_e);
}

static double amplitude(const struct network *network) {
    return fmax(network->q0, 0);
}

static const char *residual_check(const struct network *network, int N, int expert_sites,
                                  const char **key) {
    double E = expert_sites, N_e;
    *key = "alpha";
    if (network->alpha == 0 && network->expert_width)
        return "alpha = N/(N_e E) is 0 for experts of infinite width only: expert_width = 0";
    *key = "q0";
    if (!N && amplitude(network) > 0 && !network->expert_width)
        return "a router that starts at random sends noise back that goes with E/N, which the "
               "limit of experts of infinite width does not know: expert_width > 0, or networks "
               "alone with [solver] replicates = 0";
    *key = network->expert_width ? "expert_width" : "alpha";
    if (N && !residual_shape(network, N, &E, &N_e))
        return network->expert_width
                   ? "the number of experts N/(alpha N_e) must be whole and at least 1"
                   : "the units per expert N_e = N/(alpha E), or N^2/E for alpha = 0, must be a "
                     "whole number of at least 1";
    return gate_check(network, round(E), key);
}

/* The populations of a block; E and N_e are those of the network or, in the limit, of the sites.
 * Experts of infinite width share the normals of their sampled units: the mean over them is then
 * the same function of the expert everywhere, and does not fluctuate as in a network. */
static void populate(struct program *p, int l, struct population **experts,
                     struct population **units) {
    const struct net_setup *setup = program_setup(p);
    const struct network *network = program_network(p);
    int fixed = network->expert_width;
    double E = fixed || network->rho < 1 ? setup->expert_sites : 1;
    double N_e = fixed ? fixed : setup->unit_sites;
    double many = network->alpha > 0 ? 1 / network->alpha : POPULATION_INFINITE;
    double some = fixed ? many / fixed : 1;
    if (setup->N) {
        residual_shape(network, setup->N, &E, &N_e);
        some = round(E) / setup->N;
        many = some * round(N_e);
    }
    size_t sites = (size_t)lround(E), group = (size_t)lround(N_e);
    *experts = program_population(p, program_name(p, "experts_%d", l), some, sites, 1);
    *units = program_population(p, program_name(p, "units_%d", l), many, sites * group, (int)group);
    (*experts)->nodes = network_has_nodes(network) || (sites == 1 && amplitude(network) == 0);
    struct population *drawn = *units;
    if (!setup->N && !fixed && sites > 1)
        (*units)->units = drawn =
            program_population(p, program_name(p, "unit_%d", l), many, group, 1);
    drawn->mirrored = !setup->N && !fixed;
}

/* What block l adds to the stream. */
static struct value block(struct program *p, int l, struct value h, struct population *stream) {
    double L = program_network(p)->depth;
    struct population *experts, *units;
    populate(p, l, &experts, &units);
    experts->page = units->page = 1 / L;
    struct weight R = {.name = program_name(p, "R_%d", l), .rate = L, .adam_eps = 1 / L};
    struct weight W1 = {.name = program_name(p, "W1_%d", l), .rate = L, .adam_eps = 1 / L};
    struct weight W2 = {.name = program_name(p, "W2_%d", l), .rate = 1 / L, .adam_rate = 1 / L};
    W2.s_f = sqrt(stream->size / units->size) / L;
    R.a0 = amplitude(program_network(p));
    R.zero = R.a0 == 0;

    struct value c = balance_write(p, h, experts, R, l), psi = program_map(p, h, units, W1);
    struct value x = program_multiply(p, c, program_sigma(p, psi));
    program_name_rows(p, psi, program_name(p, "psi_%d", l));
    program_name_rows(p, c, program_name(p, "c_%d", l));
    program_name_rows(p, x, program_name(p, "x_%d", l));
    program_kernel(p, x, 1, program_name(p, "Mphi_%d", l), "feature kernel of the expert units",
                   "<c_k phi c_k phi>");
    program_gradient(p, psi, 1, program_name(p, "Mg_%d", l), "gradient kernel of the expert units",
                     "<c_k gk c_k gk>");
    return program_map(p, x, stream, W2);
}

static void residual_write(struct program *p) {
    int L = program_network(p)->depth;
    struct population *stream = program_layer(p, "stream", 1);
    struct value h = program_read_in(p, stream, (struct weight){.name = "W0"});
    for (int l = 0; l <= L; l++) {
        block_stream_kernels(p, l, h);
        if (l < L)
            h = program_add(p, h, block(p, l, h, stream));
    }
    program_read_out(p, h, (struct weight){.name = "w"});
}

const struct model model_residual = {
    .name = "residual",
    .doc = "deep residual mixture of experts, experts of infinite or finite width",
    .source = "Hyperparameter Transfer with Mixture-of-Experts Layers, section 4 and appendix E, "
              "corrected as in docs/theory/residual.md",
    .keys = "read_out activation rho depth alpha expert_width experts q0 eta_bias bias_std "
            "bias_draws",
    .solver_keys = "expert_sites unit_sites",
    .rows = residual_rows,
    .check = residual_check,
    .write = residual_write,
};
