/* Stacked mixtures of experts of one of the three regimes, in muP or MSSP, with or without a
 * residual stream (docs/theory/stack.md).
 *
 *     x = sigma(W1 x/sqrt D)
 *     x += b after(mixture_l(before(x)))               l = 0 ... L - 1, b = L^-branch_power
 *     or, without a stream, x = after(mixture_l(before(x)))
 *     f = <w, x>/gamma0
 *
 * before and after: RMSNorm, or nothing. One block without a stream is its regime's network. */
#include "models/parts/block.h"

enum { BEFORE = 1, AFTER = 2 }; /* bits of block_norm */

static const struct param_row stack_rows[] = {
    {"mixture", PARAM_CHOICE, NETWORK_KEY(block.mixture), "regime2", 0, 0,
     "regime1 regime2 regime3", NULL,
     "Mixture of experts in a block, which has the keys of the network of that name.\n"
     "  regime1: a fixed number of wide experts\n"
     "  regime2: many experts of a fixed width\n"
     "  regime3: many wide experts"},
    {"stream", PARAM_CHOICE, NETWORK_KEY(block.stream), "yes", 0, 0, "no yes", NULL,
     "What becomes of the input of a block.\n"
     "  no: the output of the block replaces it\n"
     "  yes: the output of the block is added to it, as on a residual stream"},
    {"block_norm", PARAM_CHOICE, NETWORK_KEY(block.block_norm), "none", 0, 0,
     "none before after both", NULL,
     "Where RMSNorm acts in a block.\n"
     "  none: nowhere\n"
     "  before: on the input of the block\n"
     "  after: on the sum over experts\n"
     "  both: on both"},
    {0},
};

static const struct {
    const struct model *model;
    block_write *write;
    int parameterization;
} mixtures[] = {
    {&model_regime1, regime1_block, PARAMETERIZATION_REGIME1},
    {&model_regime2, regime2_block, PARAMETERIZATION_REGIME2},
    {&model_regime3, regime3_block, PARAMETERIZATION_REGIME3},
};

static const char *stack_check(const struct network *network, int N, int expert_sites,
                               const char **key) {
    bool zero = !N && network->parameterization == PARAMETERIZATION_MUP && network->block.mixture;
    *key = "block_norm";
    if (zero && network->block.block_norm & AFTER)
        return "in the limit of mup the output of a block is 0 at the start, which no norm can "
               "scale to 1: before, or finite networks alone with [solver] replicates = 0";
    if (zero && network->block.block_norm && !network->block.stream && network->block.depth > 1)
        return "in the limit of mup, without a stream, what the second block reads is 0 at the "
               "start, which no norm can scale to 1: none, stream = yes, or finite networks alone "
               "with [solver] replicates = 0";
    return mixtures[network->block.mixture].model->check(network, N, expert_sites, key);
}

/* Keys that only other mixtures have. */
static const char *stack_idle(const struct network *network, const char *key) {
    enum { COUNT = sizeof mixtures / sizeof *mixtures };
    const char *lists[COUNT];
    for (int k = 0; k < COUNT; k++)
        lists[k] = mixtures[k].model->keys;
    return network_only_others(lists, COUNT, network->block.mixture, key) ? "mixture" : NULL;
}

/* At the top the cotangent is w, which is one for all inputs. */
static void add_kernels(struct program *p, int l, bool top, struct value x) {
    program_name_rows(p, x, program_name(p, "x_%d", l));
    program_kernel(p, x, 1, program_name(p, "Ch_%d", l), "feature kernel between blocks",
                   "<x_l x_l>");
    if (top)
        program_read_out_kernel(p, "Cw", "kernel of the read-out", "<w w>");
    else
        program_gradient(p, x, 1, program_name(p, "Cg_%d", l), "gradient kernel between blocks",
                         "<g_l g_l>");
}

static void stack_write(struct program *p) {
    const struct network *network = program_network(p);
    int L = network->block.depth, table = mixtures[network->block.mixture].parameterization;
    struct weight W1 = {.name = "W1"}, w = {.name = "w"};
    parameterization_scale(p, table, (struct weight *[]){&W1, &w, NULL});
    struct population *stream = program_layer(p, network->block.stream ? "stream" : "bottom", 1);
    struct value x = program_sigma(p, program_read_in(p, stream, W1));
    add_kernels(p, 0, false, x);
    for (int l = 0; l < L; l++) {
        struct block block =
            network->block.stream ? block_of_stream(p, l) : (struct block){l, 1, 1};
        struct value y = network->block.block_norm & BEFORE ? program_norm(p, x) : x;
        y = mixtures[network->block.mixture].write(p, &block, y,
                                                   network->block.stream ? stream : NULL);
        if (network->block.block_norm & AFTER)
            y = program_norm(p, y);
        x = network->block.stream ? program_add(p, x, program_times(p, block.b, y)) : y;
        add_kernels(p, l + 1, l + 1 == L, x);
    }
    program_read_out(p, x, w);
}

MODEL(stack, .doc = "stacked blocks, each a mixture of experts as in regime1, regime2 or regime3",
      .source = "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable "
                "Parameterization, section 2, appendix I.10, Table B.2",
      .keys = "parameterization read_out activation expert_activation depth mixture stream "
              "branch_power block_norm shared_experts gate beta kappa iota expert_width rho "
              "aggregation lambda_in experts expert_layers expert_output q0 router_rate bias "
              "bias_per biases bias_std bias_noise eta_bias balance_loss z_loss softmax_over",
      .solver_keys = "expert_sites unit_sites", .rows = stack_rows, .check = stack_check,
      .write = stack_write, .idle = stack_idle);
