/* Regime III: width N, number of experts M = kappa N and expert width N_e = iota N grow together
 * (muP and MSSP; docs/theory/regime3.md).
 *
 *     h1 = W1 x/sqrt D                    bottom, N sites              x1 = sigma(h1)
 *     psi = Q x1                          experts, M = kappa N         phi = gate(psi)
 *     h_ij                                pairs, M N_e                 x2_ij = phi_i sigma(h_ij)
 *     h3                                  top, N                       f = <w, h3>/gamma0
 *
 * muP, independent experts:    h = W_in x1                 h3 = W_out x2
 * MSSP, equal at the start:    h_ij = (A_in x1)_j + (P_in x1)_ij
 *                              h3 = A_out E_i[x2_ij] + P_out x2
 * with A_in, A_out over the hidden index j alone (units, N_e), never learning, and P_in, P_out the
 * learned parts, zero at the start. In the limit pairs have expert_sites x unit_sites sites and, in
 * muP, the normals of the units, the same for all experts. Cotangents are kappa (router) and iota
 * (pairs) times the page's. */
#include "models/parts/block.h"
#include "models/engine/net.h"

static const char *regime3_check(const struct network *network, int N, int expert_sites,
                                 const char **key) {
    const char *wrong = parameterization_check(network, PARAMETERIZATION_REGIME3, key);
    if (!wrong)
        wrong = network_check_iota(network, N, key);
    return wrong ? wrong : gate_check_kappa(network, N, expert_sites, key);
}

/* h, x: with and without sigma; means, tied: of the tied matrices, if there are any. */
static void add_kernels(struct program *p, const struct block *block, struct value h,
                        struct value x, struct value x2, struct value means, struct value tied) {
    program_kernel(p, x2, 1, block_name(p, block, "Phibar"), "feature kernel of the expert units",
                   "<phi_i sigma(h_ij) phi_i sigma(h_ij)>");
    program_gradient(p, h, 1, block_name(p, block, "Gbar"), "gradient kernel of the expert units",
                     "<g_ij g_ij>, g_ij = phi_i b_ij sigma'");
    program_kernel(p, x, 1, block_name(p, block, "PhiE"),
                   "feature kernel of the expert units without gates", "<sigma(h_ij) sigma(h_ij)>");
    if (tied.at < 0)
        return;
    program_kernel(p, means, 1, block_name(p, block, "Phitil"),
                   "feature kernel of the expert means", "<E_i[phi_i sigma(h_ij)]^2> over j");
    program_gradient(p, tied, 1, block_name(p, block, "Gtil"),
                     "gradient kernel of the expert means", "<E_i[g_ij]^2> over j");
}

struct value regime3_block(struct program *p, const struct block *block, struct value x1,
                           struct population *top) {
    const struct network *network = program_network(p);
    bool mssp = network->parameterization == PARAMETERIZATION_MSSP;
    double kappa = network->routing.kappa, iota = network->experts.iota;
    const struct net_setup *setup = program_setup(p);
    size_t S_i = (size_t)setup->limit.expert_sites, S_j = (size_t)setup->limit.unit_sites;
    struct population *experts =
        program_population(p, block_name(p, block, "experts"), kappa, S_i, 1);
    struct population *units = program_population(p, block_name(p, block, "units"), iota, S_j, 1);
    struct population *pairs = program_population(
        p, block_name(p, block, "pairs"), iota * experts->size, S_i * S_j, (int)units->sites);
    if (!top)
        top = program_layer(p, block_name(p, block, "top"), 1);
    pairs->of = experts;
    pairs->units = units;
    units->draws.mirrored = !setup->N && !mssp;
    experts->cotangent_scale = block->b * kappa,
    pairs->cotangent_scale = units->cotangent_scale = block->b * iota;
    struct weight Q = {.name = "Q"};
    struct weight in = {.name = "W_in", .rate = 1 / (kappa * iota), .adam_eps = iota};
    struct weight out = {.name = "W_out", .s_f = sqrt(iota / experts->size), .rate = iota / kappa};
    struct weight A_in = {.name = "A_in", .fixed = true},
                  A_out = {.name = "A_out", .s_f = sqrt(iota), .fixed = true};
    parameterization_scale(p, PARAMETERIZATION_REGIME3, (struct weight *[]){&Q, &in, &out, NULL});
    if (mssp) { /* the learned parts, on top of tied matrices */
        in.name = "P_in", out.name = "P_out";
        in.zero = out.zero = true;
    }
    block_weights(p, block, (struct weight *[]){&Q, &in, &out, &A_in, &A_out, NULL});

    struct value psi = {-1}, phi = {-1}, tied = {-1}, means = {-1};
    if (!gate_is_constant(p))
        phi = gate_write(p, block, x1, experts, Q, &psi);
    struct value h = program_map(p, x1, pairs, in);
    if (mssp) {
        tied = program_map(p, x1, units, A_in);
        h = program_add(p, h, program_word(p, "tile", (struct operands){.x = tied, .on = pairs}));
    }
    struct value x = program_sigma_of_experts(p, h), x2 = gate_apply(p, phi, x);
    struct value h3 = program_map(p, x2, top, out);
    if (mssp) {
        means = program_word(p, "tile_mean", (struct operands){.x = x2, .on = units});
        h3 = program_add(p, h3, program_map(p, means, top, A_out));
    }
    gate_show(p, block, (struct gate_mixture){x1, psi, phi, h, x, x2, h3}, 1 / iota,
              experts->sites);
    add_kernels(p, block, h, x, x2, means, tied);
    gate_gradient(p, psi, block_name(p, block, "G1phi"));
    if (!gate_is_constant(p))
        program_kernel(p, phi, 1, block_name(p, block, "phit2"), "second moments of the gates",
                       "<phi phi>");
    return h3;
}

static void regime3_write(struct program *p) {
    block_network(p, PARAMETERIZATION_REGIME3, regime3_block);
}

MODEL(regime3, .doc = "number of experts and width of an expert proportional to the width",
      .source = "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable "
                "Parameterization, appendices N (MSSP) and O (muP), corrected as in "
                "docs/theory/regime3.md",
      .keys = "parameterization read_out activation gate beta kappa iota rho aggregation "
              "expert_activation eta_bias balance_loss z_loss softmax_over",
      .solver_keys = "expert_sites unit_sites", .check = regime3_check, .write = regime3_write);
