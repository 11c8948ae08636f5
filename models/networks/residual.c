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
#include "models/parts/block.h"
#include "models/engine/net.h"

static const struct param_row residual_rows[] = {
    {"alpha", PARAM_REAL, NETWORK_KEY(routing.alpha), "1", 0, 1e6, NULL, NULL,
     "Width divided by the number of hidden units of a block, N/(N_e E). With 0 finite "
     "networks have N_e = N^2/E."},
    {0},
};

bool residual_shape(const struct network *network, int N, double *E, double *N_e) {
    double units = network->routing.alpha > 0 ? N / network->routing.alpha : (double)N * N;
    int fixed = network->experts.width;
    *E = fixed ? units / fixed : network->experts.count;
    *N_e = fixed ? fixed : units / network->experts.count;
    return network_whole(*E) && network_whole(*N_e);
}

static const char *residual_check(const struct network *network, int N, int expert_sites,
                                  const char **key) {
    double E = expert_sites, N_e;
    *key = "alpha";
    if (network->routing.alpha == 0 && network->experts.width)
        return "alpha = N/(N_e E) is 0 for experts of infinite width only: expert_width = 0";
    *key = "q0";
    if (!N && network->routing.q0 > 0 && !network->experts.width)
        return "a router that starts at random sends noise back, which no limit of experts of "
               "infinite width knows: expert_width > 0, or [solver] replicates = 0";
    *key = network->experts.width ? "expert_width" : "alpha";
    if (N && !residual_shape(network, N, &E, &N_e))
        return network->experts.width
                   ? "the number of experts N/(alpha N_e) must be whole and at least 1"
                   : "the units per expert N/(alpha E), or N^2/E if alpha = 0, must be whole";
    return gate_check(network, round(E), key);
}

/* What a block adds to the stream. E and N_e are those of the network or, in the limit, of the
 * sites. Experts of infinite width share the normals of their sampled units: the mean over them is
 * then the same function of the expert everywhere, and does not fluctuate as in a network. */
static struct value write_block(struct program *p, const struct block *block, struct value h,
                                struct population *stream) {
    const struct net_setup *setup = program_setup(p);
    const struct network *network = program_network(p);
    int fixed = network->experts.width;
    double E = fixed || network->routing.rho < 1 ? setup->limit.expert_sites : 1;
    double N_e = fixed ? fixed : setup->limit.unit_sites;
    double many = network->routing.alpha > 0 ? 1 / network->routing.alpha : POPULATION_INFINITE;
    double some = fixed ? many / fixed : 1;
    if (setup->N) {
        residual_shape(network, setup->N, &E, &N_e);
        some = round(E) / setup->N;
        many = some * round(N_e);
    }
    size_t S = (size_t)lround(E), group = (size_t)lround(N_e);
    bool sampled = !setup->N && !fixed;
    struct population *experts, *units;
    experts = program_population(p, block_name(p, block, "experts"), some, S, 1);
    units = program_population(p, block_name(p, block, "units"), many, S * group, (int)group);
    units->of = experts;
    experts->draws.nodes = network_has_nodes(network) || (S == 1 && network->routing.q0 <= 0);
    experts->cotangent_scale = units->cotangent_scale = block->b;
    if (sampled && S > 1)
        units->units = program_population(p, block_name(p, block, "unit"), many, group, 1);
    (units->units ? units->units : units)->draws.mirrored = sampled;

    struct weight R = {
        .name = "R", .a0 = fmax(network->routing.q0, 0), .zero = network->routing.q0 <= 0};
    struct weight W1 = {.name = "W1"}, W2 = {.rate = block->b, .adam_rate = block->b};
    block_weights(p, block, (struct weight *[]){&R, &W1, NULL});
    W2.name = block_name(p, block, "W2");
    W2.s_f = sqrt(stream->size / units->size) * block->b;
    struct value c = balance_write(p, h, experts, R, block->l), psi = program_map(p, h, units, W1);
    struct value x = program_multiply(p, c, program_sigma(p, psi));
    program_name_rows(p, psi, block_name(p, block, "psi"));
    program_name_rows(p, c, block_name(p, block, "c"));
    program_name_rows(p, x, block_name(p, block, "x"));
    program_kernel(p, x, 1, block_name(p, block, "Mphi"), "feature kernel of the expert units",
                   "<c_k phi c_k phi>");
    program_gradient(p, psi, 1, block_name(p, block, "Mg"), "gradient kernel of the expert units",
                     "<c_k gk c_k gk>");
    return program_map(p, x, stream, W2);
}

static void residual_write(struct program *p) {
    int L = program_network(p)->block.depth;
    struct population *stream = program_layer(p, "stream", 1);
    struct value h = program_read_in(p, stream, (struct weight){.name = "W0"});
    for (int l = 0; l <= L; l++) {
        block_stream_kernels(p, l, h);
        if (l < L)
            h = program_add(p, h, write_block(p, &(struct block){l, 1.0 / L, L}, h, stream));
    }
    program_read_out(p, h, (struct weight){.name = "w"});
}

MODEL(residual, .doc = "deep residual mixture of experts, which have a fixed or an infinite width",
      .source = "Hyperparameter Transfer with Mixture-of-Experts Layers, section 4, appendix E",
      .keys = "read_out activation rho depth alpha expert_width experts q0 eta_bias bias_std "
              "bias_draws",
      .solver_keys = "expert_sites unit_sites", .rows = residual_rows, .check = residual_check,
      .write = residual_write);
