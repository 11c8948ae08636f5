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
#include "models/net/net.h"
#include "models/routing/router.h"

#include <math.h>

static const struct param_row transformer_rows[] = {
    {"head_limit", PARAM_CHOICE, NETWORK_KEY(head_limit), "fixed", 0, 0, "fixed many", NULL,
     "a fixed number of heads of infinite width, or infinitely many of head_width units"},
    {"heads", PARAM_INT, NETWORK_KEY(heads), "1", 1, 1024, NULL, "head_limit=fixed",
     "attention heads, fixed while the width grows; the limit is the same for any number"},
    {"head_width", PARAM_INT, NETWORK_KEY(head_width), "4", 1, 4096, NULL, "head_limit=many",
     "units N_k of a head"},
    {"attention_width", PARAM_REAL, NETWORK_KEY(attention_width), "1", 1e-3, 1e3, NULL, NULL,
     "units of all heads per width, nu"},
    {"attention_beta", PARAM_REAL, NETWORK_KEY(attention_beta), "1", 0, 1e6, NULL, NULL,
     "beta of the logits beta <q k>, the average over the units of a head"},
    {"causal", PARAM_CHOICE, NETWORK_KEY(causal), "no", 0, 0, "no yes", NULL,
     "whether a token attends only to itself and those before it"},
    {"branch_power", PARAM_REAL, NETWORK_KEY(branch_power), "1", 0, 2, NULL, NULL,
     "branches are added with depth^-branch_power"},
    {"norm", PARAM_CHOICE, NETWORK_KEY(norm), "yes", 0, 0, "no yes", NULL,
     "RMSNorm before attention and experts"},
    {"final_norm", PARAM_CHOICE, NETWORK_KEY(final_norm), "yes", 0, 0, "no yes", NULL,
     "RMSNorm before the read-out"},
    {"zero_queries", PARAM_CHOICE, NETWORK_KEY(zero_queries), "no", 0, 0, "no yes", NULL,
     "W_Q starts at zero: logits of finite networks do too"},
    {"gated_experts", PARAM_CHOICE, NETWORK_KEY(gated_experts), "no", 0, 0, "no yes", NULL,
     "experts W2 (sigma(W1 y) x W3 y): with silu for sigma, SwiGLU"},
    {NULL},
};

static const char *transformer_check(const struct network *network, int N, int expert_sites,
                                     const char **key) {
    double units = network->attention_width * N, N_e = network->iota * N;
    double parts = network->head_limit == HEADS_MANY ? network->head_width : network->heads;
    (void)expert_sites;
    *key = "attention_width";
    if (N && (fabs(units / parts - round(units / parts)) > 1e-9 * units || units < parts))
        return "attention_width times the width must be a whole number of units for each head";
    *key = "iota";
    if (N && network->experts && (fabs(N_e - round(N_e)) > 1e-9 * N_e || N_e < 0.5))
        return "iota times the width must be a whole number of hidden units, at least 1";
    *key = "experts";
    if (network->experts > INT_LIST_MAX)
        return "at most 32 experts";
    return network->experts && network->gate != GATE_CONSTANT ? router_check(network, key) : NULL;
}

/* What all matrices of a block share, and what a matrix reads. */
struct block {
    struct program *p;
    int l;
    double b, rate; /* rate 1/(L b^2): used branches move as much as with one block */
    bool one;       /* head, or expert */
};

static struct value apply(const struct block *block, const char *name, int i, struct value x,
                          struct population *to, struct weight W) {
    W.family = program_name(block->p, "%s_%d", name, block->l);
    W.name = block->one ? W.family : program_name(block->p, "%s_%d_%d", name, block->l, i);
    W.rate *= block->rate;
    W.adam_rate = block->b * block->rate;
    W.adam_eps = block->b;
    return program_map(block->p, x, to, W);
}

static struct value normed(struct program *p, bool norm, struct value x) {
    return norm ? program_norm(p, x) : x;
}

/* Weights, and logits (where they are numbers), of head i. */
static void show(const struct block *block, int i, struct value logits, struct value a) {
    struct program *p = block->p;
    const char *format = block->one ? "%s_%d" : "%s_%d_%d";
    program_show(p, logits, "t mu source", program_name(p, format, "logits", block->l, i),
                 "attention logits of a token for each other", "beta_A <q_s k_t>");
    program_show(p, a, "t mu source", program_name(p, format, "attention", block->l, i),
                 "attention weights of a token for each other", "softmax over t of the logits");
}

/* The output of head i of H, nu/H times the width. */
static struct value write_head(const struct block *block, int i, int H, struct value y,
                               struct population *stream) {
    struct program *p = block->p;
    const struct network *network = program_network(p);
    bool many = network->head_limit == HEADS_MANY;
    double r = network->attention_width / H, beta = network->attention_beta;
    size_t sites = (size_t)program_setup(p)->sites, N_k = many ? (size_t)network->head_width : 1;
    struct population *units, *heads = NULL;
    if (many)
        heads = program_population(p, program_name(p, "heads_%d", block->l), r / (double)N_k,
                                   (sites + N_k - 1) / N_k, 1);
    units = program_population(p, program_name(p, "head_%d_%d", block->l, i), r,
                               (sites + N_k - 1) / N_k * N_k, (int)N_k);
    units->page = block->b * r;
    struct weight in = {.rate = 1 / r}, queries = {.rate = 1 / r, .zero = network->zero_queries},
                  out = {.rate = 1.0 / H, .a0 = 1 / sqrt(H)};
    struct value q = apply(block, "W_Q", i, y, units, queries),
                 k = apply(block, "W_K", i, y, units, in), v = apply(block, "W_V", i, y, units, in);
    if (many) {
        struct value A = program_attend_by_head(p, q, k, heads, beta);
        A = program_softmax_by_head(p, A, network->causal);
        return apply(block, "W_O", i, program_mix_by_head(p, A, v), stream, out);
    }
    struct value logits = program_attend(p, q, k, beta);
    struct value a = program_softmax(p, logits, network->causal);
    show(block, i, logits, a);
    return apply(block, "W_O", i, program_mix(p, a, v), stream, out);
}

static struct value write_attention(struct block block, struct value y, struct population *stream) {
    struct program *p = block.p;
    const struct network *network = program_network(p);
    bool fixed = network->head_limit == HEADS_FIXED && program_setup(p)->N;
    int H = fixed ? network->heads : 1;
    struct value sum = {-1};
    block.one = H == 1;
    for (int i = 0; i < H; i++) {
        struct value o = write_head(&block, i, H, y, stream);
        sum = i ? program_add(p, sum, o) : o;
    }
    return sum;
}

static struct value write_experts(struct block block, struct value y, struct population *stream) {
    struct program *p = block.p;
    const struct network *network = program_network(p);
    size_t sites = (size_t)program_setup(p)->sites;
    struct weight in = {.rate = 1 / network->iota}, out = {.rate = 1};
    struct weight R = {.name = program_name(p, "R_%d", block.l), .rate = block.rate},
                  bias = {.name = program_name(p, "b_%d", block.l), .rate = block.rate};
    struct value gates = {-1}, sum = {-1};
    bool routed = network->gate != GATE_CONSTANT;
    block.one = network->experts == 1;
    R.adam_rate = bias.adam_rate = block.b * block.rate;
    R.adam_eps = bias.adam_eps = block.b;
    if (routed)
        gates = router_write(p, y, R, bias, network->depth > 1 ? block.l : -1);
    for (int e = 0; e < network->experts; e++) {
        struct population *units = program_population(
            p, program_name(p, "expert_%d_%d", block.l, e), network->iota, sites, 1);
        units->page = block.b * network->iota;
        struct value x = program_sigma(p, apply(&block, "W1", e, y, units, in));
        if (network->gated_experts)
            x = program_multiply(p, x, apply(&block, "W3", e, y, units, in));
        x = apply(&block, "W2", e, routed ? program_scale(p, gates, e, x) : x, stream, out);
        sum = e ? program_add(p, sum, x) : x;
    }
    return sum;
}

static void add_kernels(struct program *p, const char *format, int l, struct value h) {
    program_kernel(p, h, 1, program_name(p, format, 'h', l), "feature kernel of the stream",
                   "<h h>");
    program_gradient(p, h, 1, program_name(p, format, 'g', l),
                     "gradient kernel of the stream, loss inside", "<g g>");
}

static void transformer_write(struct program *p) {
    const struct network *network = program_network(p);
    int L = network->depth;
    double b = pow(L, -network->branch_power);
    struct population *stream =
        program_population(p, "stream", 1, (size_t)program_setup(p)->sites, 1);
    struct value h = program_read_in(p, stream, (struct weight){.name = "W0"});
    add_kernels(p, "C%c_%d", 0, h);
    for (int l = 0; l < L; l++) {
        struct block block = {p, l, b, 1 / (L * b * b), false};
        struct value o = write_attention(block, normed(p, network->norm, h), stream);
        h = program_add(p, h, program_times(p, b, o));
        if (network->experts) {
            add_kernels(p, "C%c_mid_%d", l, h);
            o = write_experts(block, normed(p, network->norm, h), stream);
            h = program_add(p, h, program_times(p, b, o));
        }
        add_kernels(p, "C%c_%d", l + 1, h);
    }
    program_read_out(p, normed(p, network->final_norm, h), (struct weight){.name = "w"});
}

const struct model model_transformer = {
    .name = "transformer",
    .doc = "transformer with a mixture of experts, width of stream, heads and experts to infinity",
    .source = "Bordelon, Chaudhry & Pehlevan, Infinite limits of multi-head transformer dynamics "
              "(2024), with experts as in docs/theory/transformer.md",
    .keys = "read_out activation depth heads head_limit head_width attention_width attention_beta "
            "causal branch_power norm final_norm zero_queries experts gated_experts iota gate beta "
            "rho q0 router_rate bias bias_per biases bias_std bias_noise",
    .rows = transformer_rows,
    .check = transformer_check,
    .write = transformer_write,
};
