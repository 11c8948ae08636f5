/* Regime II: width N and number of experts M grow together, kappa = M/N and the expert width N_e
 * stay fixed (muP and MSSP; docs/theory/regime2.md).
 *
 *     h1 = W1 x/sqrt D                  bottom, N sites                x1 = sigma(h1)
 *     psi = Q x1                        experts, M = kappa N           phi = gate(psi)
 *     h_in = W_in x1                    units, M N_e                   x2_ij = phi_i sigma(h_in_ij)
 *     h3 = W_out x2                     top, N                         f = <w, h3>/gamma0
 *
 * Written in MSSP; parameterization.c has what others have beside it: in muP W_out(0) is smaller by
 * M^{-1/2}, and then nothing of its random part is left in the limit. Cotangents are kappa (router)
 * and kappa N_e (units) times the page's. */
#include "models/parts/block.h"
#include "models/engine/net.h"

static const struct param_row regime2_rows[] = {
    {"lambda_in", PARAM_CHOICE, NETWORK_KEY(routing.lambda_in), "1", 0, 0, "1 kappa", NULL,
     "Factor that multiplies the learning rate of the experts' input weights W_in.\n"
     "  1: no factor\n"
     "  kappa: M/N, the number of experts divided by the width"},
    {0},
};

static const char *regime2_check(const struct network *network, int N, int expert_sites,
                                 const char **key) {
    const char *unknown = parameterization_check(network, PARAMETERIZATION_REGIME2, key);
    if (unknown)
        return unknown;
    *key = "expert_width";
    if (!network->experts.width)
        return "experts need at least one hidden unit";
    return gate_check_kappa(network, N, expert_sites, key);
}

struct value regime2_block(struct program *p, const struct block *block, struct value x1,
                           struct population *top) {
    const struct network *network = program_network(p);
    size_t M = (size_t)program_setup(p)->limit.expert_sites;
    int N_e = network->experts.width;
    double kappa = network->routing.kappa,
           lambda = network->routing.lambda_in == LAMBDA_IN_KAPPA ? kappa : 1;
    struct population *experts =
        program_population(p, block_name(p, block, "experts"), kappa, M, 1);
    struct population *units =
        program_population(p, block_name(p, block, "units"), kappa * N_e, M * (size_t)N_e, N_e);
    if (!top)
        top = program_layer(p, block_name(p, block, "top"), 1);
    units->of = experts;
    experts->cotangent_scale = block->b * kappa;
    units->cotangent_scale = block->b * kappa * N_e;
    struct weight Q = {.name = "Q"}, W_out = {.name = "W_out"};
    struct weight W_in = {.name = "W_in", .rate = lambda / (kappa * N_e), .adam_eps = N_e};
    struct weight *const weights[] = {&Q, &W_in, &W_out, NULL};
    parameterization_scale(p, PARAMETERIZATION_REGIME2, weights);
    block_weights(p, block, weights);

    struct value psi = {-1}, phi = {-1};
    if (!gate_is_constant(p))
        phi = gate_write(p, block, x1, experts, Q, &psi);
    struct value h_in = program_map(p, x1, units, W_in);
    struct value s2 = program_sigma_of_experts(p, h_in), x2 = gate_apply(p, phi, s2);
    struct value h3 = program_map(p, x2, top, W_out);
    gate_show(p, block, (struct gate_mixture){x1, psi, phi, h_in, s2, x2, h3}, 1.0 / N_e,
              experts->sites);
    program_kernel(p, x2, 1, block_name(p, block, "Phib"), "feature kernel of the expert units",
                   "<phi_i sigma(h_in_ij) phi_i sigma(h_in_ij)>");
    program_gradient(p, h_in, kappa * kappa, block_name(p, block, "Gb"),
                     "gradient kernel of the expert units",
                     "kappa^2 <g_in g_in>, g_in_ij = phi_i b_ij sigma'(h_in_ij)");
    gate_gradient(p, psi, block_name(p, block, "Gphi"));
    return h3;
}

static void regime2_write(struct program *p) {
    block_network(p, PARAMETERIZATION_REGIME2, regime2_block);
}

MODEL(regime2, .doc = "number of experts proportional to the width, experts of a fixed width",
      .source = "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable "
                "Parameterization, appendices L (MSSP) and M (muP), corrected as in "
                "docs/theory/regime2.md",
      .keys = "parameterization read_out activation gate beta kappa expert_width rho aggregation "
              "lambda_in expert_activation eta_bias balance_loss z_loss softmax_over",
      .solver_keys = "expert_sites", .rows = regime2_rows, .check = regime2_check,
      .write = regime2_write);
