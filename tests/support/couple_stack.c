#include "tests/support/couple.h"

static void settle(const struct couple *p, struct oracle *of) {
    const struct network *network = &p->run.config.network;
    int regime = network->block.mixture + 1;
    of->network = &oracle_stack;
    of->regime = regime;
    of->L = network->block.depth;
    of->M = regime == 1 ? network->experts.count : (int)lround(network->routing.kappa * of->N);
    of->N_e = regime == 2 ? network->experts.width : (int)lround(network->experts.iota * of->N);
    of->E = regime == 1 ? network->experts.layers : 2;
    if (network->experts.activation > 0) /* 0: that of the network */
        of->expert_activation = couple_activation(network->experts.activation - 1);
    of->stream = network->block.stream;
    of->before = network->block.block_norm & 1;
    of->after = network->block.block_norm & 2;
    of->biased = regime == 1 && network->routing.bias == BIAS_TRAINED;
    of->activated = regime == 1 && network->experts.output == EXPERT_OUTPUT_ACTIVATED;
    of->branch = of->stream ? pow(of->L, -network->block.branch_power) : 1;
}

/* Matrix k of the experts of block l, which acts as s_f W: what the page multiplies is taken off.
 */
static int expert_parts(const struct oracle *o, int l, int k, struct couple_part *part) {
    static const char *const names[2][3] = {{"A_in", "P_in", "W_in"}, {"A_out", "P_out", "W_out"}};
    int m = k ? o->N_e : o->N, n = k == o->E - 1 ? o->N : o->N_e;
    double out = o->regime == 2 ? sqrt(o->M * o->N_e) : o->M * sqrt(o->N);
    for (int i = 0; i < o->M && o->regime == 1; i++)
        part[i] = couple_slice(couple_part(sqrt(m), "W%d_%d_%d", k + 2, l, i), i, n * m);
    for (int i = 0; i < 3 && o->regime > 1; i++) {
        part[i] = couple_part(k && i ? out : sqrt(o->N), "%s_%d", names[k][i], l);
        couple_experts(&part[i], o->M, n, m, k, i == 0);
    }
    return o->regime == 1 ? o->M : 3;
}

static int parts(const struct couple *p, int block, struct couple_part *part) {
    const struct oracle *o = p->oracle;
    int each = (o->blocks - 2) / o->L, l = (block - 2) / each,
        matrix = (block - 2) % each - (each - o->E);
    if (matrix >= 0)
        return expert_parts(o, l, matrix, part);
    bool bias = o->block[block].bias;
    part[0] = couple_part(bias || o->regime == 1 ? 1 : sqrt(o->N), "%s_%d", bias ? "b" : "Q", l);
    return 1;
}

static const char *const settings[] = {
    "mixture = regime2\nkappa = 0.5\nexpert_width = 2\ngate = softmax",
    "mixture = regime3\nkappa = 0.5\niota = 0.25\nbranch_power = 0.5",
    "mixture = regime1\nexperts = 2\nbias = trained\nbiases = .6 -.6\nstream = no", NULL};

const struct couple_oracle couple_stack = {
    .model = "stack", .settings = settings, .settle = settle, .parts = parts};
