/* Regime I: a fixed number M of deep experts, width N to infinity (docs/theory/regime1.md).
 *
 *     h1 = W1 x/sqrt D                          x1 = sigma(h1)                  bottom
 *     psi_i = <Q_i, x1> + b_i (+ noise)         p = gate(beta psi)              numbers, [P][M]
 *     h_1,i = W_1,i x1                          h_l,i = W_l,i sigma(h_l-1,i)    l = 2..E
 *     h_top = sum_i p_i o(h_E,i)                f = <w, h_top>/gamma0           top, shared
 *
 * E = expert_layers; o is sigma or the identity. Top-K: the mask of the K = rho M largest logits is
 * a constant in the backward pass. In the limit psi(0) = b. Written in muP; parameterization.c has
 * what the others have beside it. */
#include "models/net/net.h"
#include "models/parameterization.h"
#include "models/routing/router.h"

#include <math.h>

static const struct param_row regime1_rows[] = {
    {"expert_layers", PARAM_INT, NETWORK_KEY(expert_layers), "1", 1, 8, NULL, NULL,
     "matrices per expert"},
    {"expert_output", PARAM_CHOICE, NETWORK_KEY(expert_output), "linear", 0, 0, "linear activated",
     NULL, "whether sigma acts on the output of an expert"},
    {NULL},
};

static const char *regime1_check(const struct network *network, int N, int expert_sites,
                                 const char **key) {
    (void)N, (void)expert_sites;
    *key = "experts";
    if (network->experts < 1 || network->experts > INT_LIST_MAX)
        return "1 to 32 experts";
    return network->gate == GATE_CONSTANT ? NULL : router_check(network, key);
}

static struct weight weigh(const struct program *p, struct weight W) {
    const struct network *network = program_network(p);
    double N = program_setup(p)->N ? program_setup(p)->N : POPULATION_INFINITE;
    struct parameterization_table table = {PARAMETERIZATION_REGIME1, N, network->experts, N};
    parameterization_scale(p, table, (struct weight *[]){&W, NULL});
    return W;
}

/* Kernels of layer l; with one expert they carry no expert index. */
static void add_kernels(struct program *p, int l, int i, struct value h, struct value x) {
    bool several = program_network(p)->experts > 1;
    const char *format = several ? "%s%d_%d" : "%s%d";
    if (x.at >= 0)
        program_kernel(p, x, 1, program_name(p, format, "Phi", l, i), "feature kernel",
                       "<sigma(h) sigma(h)>");
    program_gradient(p, h, 1, program_name(p, format, "G", l, i), "gradient kernel", "<g g>");
}

static bool one_hidden_layer(const struct network *network) {
    return network->expert_layers == 2 && network->expert_output == EXPERT_OUTPUT_LINEAR;
}

/* The output of expert i. */
static struct value write_expert(struct program *p, int i, struct value x, struct population *top) {
    const struct network *network = program_network(p);
    struct weight W = weigh(p, (struct weight){.name = "W"});
    for (int l = 0; l < network->expert_layers; l++) {
        bool last = l == network->expert_layers - 1;
        W.name = program_name(p, "W%d_%d", l + 2, i);
        W.family = program_name(p, "W%d", l + 2);
        struct population *on =
            last ? top : program_population(p, W.name, 1, (size_t)program_setup(p)->sites, 1);
        struct value h = program_map(p, x, on, W);
        bool linear = last && network->expert_output == EXPERT_OUTPUT_LINEAR;
        x = linear ? h : program_sigma(p, h);
        if (one_hidden_layer(network) && !last)
            program_expert(p, x, 1);
        add_kernels(p, l + 2, i, h, linear ? (struct value){-1} : x);
    }
    return x;
}

static void regime1_write(struct program *p) {
    const struct network *network = program_network(p);
    struct weight w = {.name = "w", .iid = router_fluctuates(network)};
    size_t sites = (size_t)program_setup(p)->sites;
    struct population *bottom = program_population(p, "bottom", 1, sites, 1);
    struct population *top = program_population(p, "top", 1, sites, 1);
    bool routed = network->gate != GATE_CONSTANT;

    struct value h1 = program_read_in(p, bottom, weigh(p, (struct weight){.name = "W1"})),
                 x1 = program_sigma(p, h1), gates = {-1}, h_top = {-1};
    program_kernel(p, x1, 1, "Phi1", "feature kernel of the bottom layer",
                   "<x1 x1>, x1 = sigma(h1)");
    program_gradient(p, h1, 1, "G1", "gradient kernel of the bottom layer",
                     "<g1 g1>, g1 = sigma'(h1) z1");
    if (routed)
        gates = router_write(p, x1, weigh(p, (struct weight){.name = "Q"}),
                             weigh(p, (struct weight){.name = "b"}), -1);
    if (one_hidden_layer(network))
        program_aggregation(p, x1, gates, 1);
    for (int i = 0; i < network->experts; i++) {
        struct value x = write_expert(p, i, x1, top);
        x = routed ? program_scale(p, gates, i, x) : x;
        h_top = i ? program_add(p, h_top, x) : x;
    }
    program_kernel(p, h_top, 1, "PhiL", "feature kernel of the top", "<h_top h_top>");
    program_read_out(p, h_top, weigh(p, w));
}

const struct model model_regime1 = {
    .name = "regime1",
    .doc = "fixed number of deep experts, width to infinity",
    .source = "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable "
              "Parameterization, appendix K, corrected as in docs/theory/regime1.md",
    .keys =
        "parameterization read_out activation gate beta rho experts expert_layers expert_output q0 "
        "router_rate bias bias_per biases bias_std bias_noise",
    .rows = regime1_rows,
    .check = regime1_check,
    .write = regime1_write,
};
