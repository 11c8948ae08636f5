/* Regime I: a fixed number M of deep experts, width N to infinity (docs/theory/regime1.md).
 *
 *     h1 = W1 x/sqrt D                          x1 = sigma(h1)                  bottom
 *     psi_i = <Q_i, x1> + b_i (+ noise)         p = gate(beta psi)              numbers, [P][M]
 *     h_1,i = W_1,i x1                          h_l,i = W_l,i sigma(h_l-1,i)    l = 2..E
 *     h_top = sum_i p_i o(h_E,i)                f = <w, h_top>/gamma0           top, shared
 *
 * E = expert_layers; o is sigma or the identity; block.h has the router. Written in muP;
 * parameterization.c has what the others have beside it. */
#include "models/parts/block.h"

static const struct param_row regime1_rows[] = {
    {"expert_layers", PARAM_INT, NETWORK_KEY(experts.layers), "1", 1, 8, NULL, NULL,
     "Number of weight matrices of an expert."},
    {"expert_output", PARAM_CHOICE, NETWORK_KEY(experts.output), "linear", 0, 0, "linear activated",
     NULL,
     "Whether the activation function acts on the output of an expert.\n"
     "  linear: it does not\n"
     "  activated: it does"},
    {0},
};

static const char *regime1_check(const struct network *network, int N, int expert_sites UNUSED,
                                 const char **key) {
    *key = "experts";
    if (network->experts.count < 1 ||
        network->experts.count + network->experts.shared > EXPERTS_MOST)
        return "1 to 1000 experts, with the shared ones: each is a population of its own";
    const char *wrong = network_check_iota(network, N, key);
    return wrong ? wrong : router_check(network, key);
}

/* Kernels of layer k; with one expert they carry no expert index. What the last layer writes to may
 * be a stream, which has no part in the scale of the page. */
static void add_kernels(struct program *p, const struct block *block, int k, int i, struct value h,
                        struct value x) {
    bool last = k == program_network(p)->experts.layers + 1;
    double scale = last ? 1 / (block->b * block->b) : 1;
    bool several = program_network(p)->experts.count + program_network(p)->experts.shared > 1;
    const char *end = several ? program_name(p, "_%d", i) : "";
    const char *Phi = block_name(p, block, program_name(p, "Phi%d", k)),
               *G = block_name(p, block, program_name(p, "G%d", k));
    if (x.at >= 0)
        program_kernel(p, x, 1, program_name(p, "%s%s", Phi, end), "feature kernel",
                       "<sigma(h) sigma(h)>");
    program_gradient(p, h, scale, program_name(p, "%s%s", G, end), "gradient kernel", "<g g>");
}

static bool one_hidden_layer(const struct network *network) {
    return network->experts.layers == 2 && network->experts.output == EXPERT_OUTPUT_LINEAR &&
           network->experts.shared == 0;
}

/* The output of expert i. */
static struct value write_expert(struct program *p, const struct block *block, int i,
                                 struct value x, struct population *top) {
    const struct network *network = program_network(p);
    for (int k = 0; k < network->experts.layers; k++) {
        bool last = k == network->experts.layers - 1;
        double size = last ? 1 : network->experts.iota; /* of what it writes to */
        struct weight W = block_weight(p, block, PARAMETERIZATION_REGIME1, k ? "W_e" : "W");
        W.family = block_name(p, block, program_name(p, "W%d", k + 2));
        W.name = program_name(p, "%s_%d", W.family, i);
        W.rate /= size;
        W.adam_eps *= size;
        struct population *on = last ? top : program_layer(p, W.name, size);
        on->cotangent_scale = last ? on->cotangent_scale : block->b * size;
        struct value h = program_map(p, x, on, W);
        bool linear = last && network->experts.output == EXPERT_OUTPUT_LINEAR;
        x = linear ? h : program_sigma_of_experts(p, h);
        if (one_hidden_layer(network) && !last && block->l < 0)
            program_expert(p, x, 1);
        program_name_rows(
            p, h, program_name(p, "%s_%d", block_name(p, block, program_name(p, "h%d", k + 2)), i));
        add_kernels(p, block, k + 2, i, h, linear ? (struct value){-1} : x);
    }
    return x;
}

struct value regime1_block(struct program *p, const struct block *block, struct value x1,
                           struct population *top) {
    const struct network *network = program_network(p);
    bool routed = network->routing.gate != GATE_CONSTANT;
    struct value gates = {-1}, h_top = {-1};
    if (!top)
        top = program_layer(p, block_name(p, block, "top"), 1);
    if (routed)
        gates = router_write(p, block, x1, block_weight(p, block, PARAMETERIZATION_REGIME1, "Q"),
                             block_weight(p, block, PARAMETERIZATION_REGIME1, "b"));
    if (one_hidden_layer(network) && block->l < 0)
        program_aggregation(
            p, x1, gates, 1,
            (struct gate_rule){.beta = network->routing.beta,
                               .share = network->routing.rho,
                               .sum = network->routing.gate == GATE_SOFTMAX,
                               .over_all = network->routing.softmax_over == SOFTMAX_OVER_ALL,
                               .most = 1});
    for (int i = 0; i < network->experts.count + network->experts.shared; i++) {
        struct value x = write_expert(p, block, i, x1, top);
        x = routed && i < network->experts.count ? program_scale(p, gates, i, x) : x;
        h_top = i ? program_add(p, h_top, x) : x;
    }
    program_name_rows(p, h_top, block_name(p, block, "h_top"));
    if (block->l < 0)
        program_kernel(p, h_top, 1, "PhiL", "feature kernel of the top", "<h_top h_top>");
    return h_top;
}

static void regime1_write(struct program *p) {
    block_network(p, PARAMETERIZATION_REGIME1, regime1_block);
}

MODEL(regime1, .doc = "fixed number of deep experts, infinitely wide",
      .source = "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable "
                "Parameterization, appendix K, corrected as in docs/theory/regime1.md",
      .keys = "parameterization read_out activation gate beta rho experts expert_layers "
              "expert_output q0 iota expert_activation shared_experts router_rate bias bias_per "
              "biases bias_std bias_noise eta_bias balance_loss z_loss softmax_over",
      .rows = regime1_rows, .check = regime1_check, .write = regime1_write);
