#include "tests/support/couple.h"

static void settle(const struct couple *p, struct oracle *of) {
    const struct network *network = &p->run.config.network;
    of->network = &oracle_stack;
    of->single = true;
    of->M = network->experts.count;
    of->N_e = of->N;
    of->E = network->experts.layers;
    of->activated = network->experts.output == EXPERT_OUTPUT_ACTIVATED;
    of->biased = network->routing.bias == BIAS_TRAINED;
    of->sp = network->parameterization == PARAMETERIZATION_SP;
    if (of->gate == ORACLE_SIGMOID_K)
        of->gate = ORACLE_SIGMOID_M;
}

static void fill(struct couple *p) {
    const struct network *network = &p->run.config.network;
    for (int i = 0; i < p->oracle->M && network->routing.bias == BIAS_FIXED; i++)
        p->oracle->bias[i] = network->routing.biases.value[i];
}

/* The noise on the logits: the same normals for the limit and all networks of a seed. */
static void at(struct couple *p, int t) {
    struct rng_stream stream = {.seed = 1, .purpose = PURPOSE_BIAS, .owner = 1};
    double pair[2];
    for (int i = 0; i < p->oracle->M; i++) {
        rng_normal_pair(stream, (uint32_t)t, (uint32_t)i / 2, pair);
        p->oracle->noise[i] = p->run.config.network.routing.bias_noise * pair[i % 2];
    }
}

/* After the ends Q, b, and the matrices [M][N][N] of each layer. */
static int parts(const struct couple *p, int block, struct couple_part *part) {
    const struct oracle *o = p->oracle;
    int layer = block - (o->blocks - o->E);
    if (layer < 0) {
        part[0] = couple_part(1, o->block[block].bias ? "b" : "Q");
        return 1;
    }
    for (int i = 0; i < o->M; i++)
        part[i] = couple_slice(couple_part(sqrt(o->N), "W%d_%d", layer + 2, i), i, o->N * o->N);
    return o->M;
}

static int kernels(const struct couple *p) {
    const struct oracle *o = p->oracle;
    return 3 + o->M * (o->activated ? 2 * o->E : 2 * o->E - 1);
}

/* The entropy in another form: ln sum p - sum_i p_i ln p_i / sum p. */
static void check_entropy(const struct couple *p) {
    const struct oracle *o = p->oracle;
    const double *gates = support_measured(&p->net, "p"),
                 *entropy = support_measured(&p->net, "router_entropy");
    for (int mu = 0; mu < o->P; mu++) {
        double sum = 0, part = 0;
        for (const double *q = gates + mu * o->M; q < gates + (mu + 1) * o->M; q++) {
            sum += *q;
            part += *q > 0 ? *q * log(*q) : 0;
        }
        CHECK_ABS(entropy[mu], (log(sum) - part / sum) / log(o->M), 1e-14, "%s: entropy", p->what);
    }
}

/* psi, gphi, p */
static void more(const struct couple *p, int t, double tolerance) {
    (void)t, (void)tolerance;
    bool routed = p->oracle->gate != ORACLE_CONSTANT;
    assert_int_equal(p->numbers, routed ? 3 : 0);
    if (routed && p->oracle->M > 1)
        check_entropy(p);
}

static const char *const settings[] = LIST(
    "experts = 2\nexpert_layers = 2\ngate = softmax\nbias=trained\nbiases=.6 -.6",
    "experts = 3\nexpert_layers = 2\ngate = softmax\nbias = trained\nq0 = 1",
    "experts = 3\ngate = sigmoid\nq0 = 1", "experts = 2\ngate = sigmoid\nexpert_output = activated",
    "experts = 2\nparameterization = sp\nrouter_rate = 1", NULL);

const struct couple_oracle couple_regime1 =
    LIST(.model = "regime1", .settings = settings, .settle = settle, .fill = fill, .at = at,
         .parts = parts, .kernels = kernels, .absolute = true, .more = more);
