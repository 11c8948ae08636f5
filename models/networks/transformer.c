/* Transformer of L blocks, width to infinity: attention and, with experts, a mixture of a fixed
 * number of them (docs/theory/transformer.md). The stream h has N sites, a head N_k, an expert N_e;
 * b = L^-branch_power; norm(h) = h/sqrt<h h>, or h.
 *
 *     h = W0 x/sqrt D
 *     y = norm(h)    q, k, v = W_Q y, W_K y, W_V y    a = softmax_t(beta_A <q_s k_t>)
 *                    h += b sum over heads of W_O sum_t a_st v_t
 *     y = norm(h)    p = gate(<r_e y> + b_e)          h += b sum_e W2_e p_e sigma(W1_e y)
 *     f = <w, norm(h)>/gamma0, of the mean over tokens or of each
 *
 * Heads: a fixed number of them, each of infinite width in the limit, where all are the same and
 * one of their total width is marched; or infinitely many of head_width units. Rates are those of
 * the page; derived cotangents inside a block are b r times its own, r the width over N. */
#include "models/parts/block.h"

static const struct param_row transformer_rows[] = {
    {"norm", PARAM_CHOICE, NETWORK_KEY(block.norm), "yes", 0, 0, "no yes", NULL,
     "Whether RMSNorm acts on the input of every attention layer and of every mixture of experts.\n"
     "  no: it does not\n"
     "  yes: it does"},
    {"final_norm", PARAM_CHOICE, NETWORK_KEY(block.final_norm), "yes", 0, 0, "no yes", NULL,
     "Whether RMSNorm acts on the input of the read-out.\n"
     "  no: it does not\n"
     "  yes: it does"},
    {"many_experts", PARAM_CHOICE, NETWORK_KEY(experts.many), "no", 0, 0, "no regime2 regime3",
     NULL,
     "Whether the number of experts grows with the width.\n"
     "  no: it is fixed, as experts says\n"
     "  regime2: it grows, with experts of a fixed width and the keys of regime2\n"
     "  regime3: it grows, and so does their width, with the keys of regime3"},
    {"gated_experts", PARAM_CHOICE, NETWORK_KEY(experts.gated), "no", 0, 0, "no yes", NULL,
     "Form of an expert; not with many_experts (examples/ has such a network in Lua).\n"
     "  no: W2 sigma(W1 y)\n"
     "  yes: W2 (sigma(W1 y) x W3 y), which is SwiGLU with expert_activation = silu"},
    {0},
};

static const char *transformer_check(const struct network *network, int N, int expert_sites,
                                     const char **key) {
    const char *wrong = attention_check(network, N, key);
    if (wrong)
        return wrong;
    *key = "parameterization";
    if (network->parameterization > PARAMETERIZATION_MSSP)
        return "attention is in muP: mup or mssp, which decide how a router and many experts "
               "start; scales and rates of single matrices are those of [init] and [rates]";
    if (network->experts.many)
        return (network->experts.many == 1 ? &model_regime2 : &model_regime3)
            ->check(network, N, expert_sites, key);
    return experts_check(network, N, key);
}

/* Keys of a fixed number of experts. */
#define FIXED_EXPERTS                                                                              \
    "experts gated_experts iota gate beta rho expert_activation shared_experts q0 router_rate "    \
    "bias bias_per biases bias_std bias_noise eta_bias balance_loss z_loss softmax_over"

/* Keys that only other experts than the chosen ones have, a fixed number or many of two kinds.
 * Where experts = 0 switches them off, their keys may stay. */
static const char *transformer_idle(const struct network *network, const char *key) {
    const char *const keys[3] = {"parameterization read_out activation " FIXED_EXPERTS,
                                 model_regime2.keys, model_regime3.keys};
    bool off = !network->experts.many && !network->experts.count;
    return !off && network_only_others(keys, 3, network->experts.many, key) ? "many_experts" : NULL;
}

static struct value normed_rows(struct program *p, bool norm, struct value x) {
    return norm ? program_norm(p, x) : x;
}

static void add_kernels(struct program *p, const char *format, int l, struct value h) {
    program_name_rows(p, h, program_name(p, format + 1, 'h', l));
    program_kernel(p, h, 1, program_name(p, format, 'h', l), "feature kernel of the stream",
                   "<h h>");
    program_gradient(p, h, 1, program_name(p, format, 'g', l),
                     "gradient kernel of the stream, loss inside", "<g g>");
}

static void transformer_write(struct program *p) {
    const struct network *network = program_network(p);
    int L = network->block.depth;
    struct population *stream = program_layer(p, "stream", 1);
    struct value h = program_read_in(p, stream, (struct weight){.name = "W0"});
    add_kernels(p, "C%c_%d", 0, h);
    for (int l = 0; l < L; l++) {
        struct block block = block_of_stream(p, l);
        struct value o = attention_write(p, &block, normed_rows(p, network->block.norm, h), stream);
        h = program_add(p, h, program_times(p, block.b, o));
        if (network->experts.count || network->experts.many) {
            struct value y = normed_rows(p, network->block.norm, h);
            add_kernels(p, "C%c_mid_%d", l, h);
            o = network->experts.many == 1   ? regime2_block(p, &block, y, stream)
                : network->experts.many == 2 ? regime3_block(p, &block, y, stream)
                                             : experts_write(p, &block, y, stream);
            h = program_add(p, h, program_times(p, block.b, o));
        }
        add_kernels(p, "C%c_%d", l + 1, h);
    }
    program_read_out(p, normed_rows(p, network->block.final_norm, h), (struct weight){.name = "w"});
}

MODEL(transformer, .doc = "transformer with a mixture of experts, infinitely wide",
      .source = "Bordelon, Chaudhry & Pehlevan, Infinite limits of multi-head transformer dynamics "
                "(2024), with experts as in docs/theory/transformer.md",
      .keys = "parameterization read_out activation depth many_experts kappa expert_width "
              "aggregation lambda_in heads head_limit head_width attention_width attention_beta "
              "causal branch_power norm final_norm zero_queries " FIXED_EXPERTS,
      .solver_keys = "expert_sites unit_sites", .rows = transformer_rows,
      .check = transformer_check, .write = transformer_write, .idle = transformer_idle);
