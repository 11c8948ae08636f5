#include "tests/support/couple.h"

static void settle(const struct couple *p, struct oracle *of) {
    const struct network *network = &p->run.config.network;
    const struct data *data = &p->run.data;
    int units = (int)lround(network->attention.width * of->N);
    bool many = network->attention.head_limit == HEADS_MANY;
    of->network = &oracle_transformer;
    of->n = data->n;
    of->D = p->run.inputs.K;
    of->L = network->block.depth;
    of->V = network->routing.bias_per == BIAS_PER_TOKEN ? data->V : 1;
    of->H = many ? units / network->attention.head_width : network->attention.heads;
    of->N_k = units / of->H;
    of->M = network->experts.count;
    of->N_e = (int)lround(network->experts.iota * of->N);
    of->causal = network->attention.causal;
    of->norm = network->block.norm;
    of->final_norm = network->block.final_norm;
    of->per_token = data->per_token;
    of->gated = network->experts.gated;
    of->branch = pow(of->L, -network->block.branch_power);
    of->beta_A = network->attention.beta;
    of->biased = network->routing.bias == BIAS_TRAINED;
}

static void fill(struct couple *p) {
    const struct network *network = &p->run.config.network;
    struct oracle *o = p->oracle;
    int R = o->P * o->n;
    for (int k = 0; k < o->L * o->V * o->M && network->routing.bias == BIAS_FIXED; k++)
        o->bias[k] = network->routing.biases.value[k % (o->V * o->M)];
    for (int r = 0; r < R && network->routing.bias_per == BIAS_PER_TOKEN; r++)
        o->token[r] = p->run.data.token[r];
    coordinates_take(&p->run.inputs, &p->run.data, 0, (size_t)R, o->X);
}

/* The matrices [each][N] of heads or experts, which the oracle has side by side in one [units][N],
 * or on the way back those [N][each] in one [N][units]; the only one has no number of its own. */
static int unit_parts(const char *name, int l, int N, int units, int count, bool back,
                      struct couple_part *part) {
    int each = units / count;
    for (int i = 0; i < count; i++) {
        part[i] =
            count > 1 ? couple_part(1, "%s_%d_%d", name, l, i) : couple_part(1, "%s_%d", name, l);
        part[i].first = back ? i * each : i * each * N;
        part[i].axis[0] = (struct couple_axis){1, 0, 0};
        part[i].axis[1] = (struct couple_axis){N, back ? units : 1, back ? each : 1};
        part[i].axis[2] = (struct couple_axis){each, back ? 1 : N, back ? 1 : N};
    }
    return count;
}

/* Blocks in the order that oracle_transformer.c says. */
static int parts(const struct couple *p, int block, struct couple_part *part) {
    static const char *const heads[] = {"W_Q", "W_K", "W_V", "W_O"};
    const struct oracle *o = p->oracle;
    int each = (o->blocks - 2) / o->L, l = (block - 2) / each, kind = (block - 2) % each;
    bool fixed = p->run.config.network.attention.head_limit == HEADS_FIXED,
         bias = o->block[block].bias;
    part[0] = couple_part(1, "W0");
    if (block == 0)
        return 1;
    if (kind < 4)
        return unit_parts(heads[kind], l, o->N, o->H * o->N_k, fixed ? o->H : 1, kind == 3, part);
    if (bias || !o->block[block].matrices.copies) {
        part[0] = couple_part(1, "%s_%d", bias ? "b" : "R", l);
        return 1;
    }
    bool out = kind == each - 1;
    const char *name = out ? "W2" : o->gated && kind == each - 2 ? "W3" : "W1";
    return unit_parts(name, l, o->N, o->M * o->N_e, o->M, out, part);
}

static int kernels(const struct couple *p) {
    const struct oracle *o = p->oracle;
    return 2 * (o->L + 1 + (o->M ? o->L : 0));
}

/* Logits and attention weights of each head and of all, and psi, p, gphi were found. */
static void more(const struct couple *p, int t, double tolerance) {
    const struct oracle *o = p->oracle;
    (void)t, (void)tolerance;
    bool fixed = p->run.config.network.attention.head_limit == HEADS_FIXED,
         routed = o->M && o->gate != ORACLE_CONSTANT;
    int shown = !fixed ? 0 : o->H > 1 ? o->H + 1 : 1;
    assert_int_equal(p->numbers, o->L * (2 * shown + (routed ? 3 : 0)));
}

static const char *const settings[] = {"experts = 2\ngate = softmax\nq0 = 1\ndepth = 2", NULL};

const struct couple_oracle couple_transformer =
    LIST(.model = "transformer", .settings = settings, .coordinates = true, .settle = settle,
         .fill = fill, .parts = parts, .kernels = kernels, .more = more);
