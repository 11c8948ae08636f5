/* Attention over the tokens of an input (docs/theory/transformer.md, equations (3) to (6)): heads
 * of infinite width in fixed number, or infinitely many of few units.
 *
 *     q, k, v = W_Q y, W_K y, W_V y     a = softmax_t(beta_A <q_s k_t>)
 *     sum over heads of W_O a v
 *
 * In the limit of a fixed number of heads all are the same, and one of their total width is
 * marched. Derived cotangents on heads are b r times the page's, r the width of a head over N. */
#include "models/parts/block.h"
#include "models/engine/net.h"

const struct param_row attention_rows[] = {
    {"head_limit", PARAM_CHOICE, NETWORK_KEY(attention.head_limit), "fixed", 0, 0, "fixed many",
     NULL,
     "How the attention heads grow with the width.\n"
     "  fixed: their number is fixed and each becomes infinitely wide\n"
     "  many: each has head_width units and there are infinitely many"},
    {"heads", PARAM_INT, NETWORK_KEY(attention.heads), "1", 1, 1024, NULL, "head_limit=fixed",
     "Number of attention heads, which stays fixed while the width grows. The limit is the "
     "same for any number."},
    {"head_width", PARAM_INT, NETWORK_KEY(attention.head_width), "4", 1, 4096, NULL,
     "head_limit=many", "Number N_k of units of an attention head."},
    {"attention_width", PARAM_REAL, NETWORK_KEY(attention.width), "1", 1e-3, 1e3, NULL, NULL,
     "Number of units of all attention heads together divided by the width, nu."},
    {"attention_beta", PARAM_REAL, NETWORK_KEY(attention.beta), "1", 0, 1e6, NULL, NULL,
     "Factor beta of the attention logits beta <q k>, where <> is the mean over the units of "
     "a head."},
    {"causal", PARAM_CHOICE, NETWORK_KEY(attention.causal), "no", 0, 0, "no yes", NULL,
     "Which tokens a token attends to.\n"
     "  no: all tokens of the input\n"
     "  yes: itself and those before it"},
    {"zero_queries", PARAM_CHOICE, NETWORK_KEY(attention.zero_queries), "no", 0, 0, "no yes", NULL,
     "Initial value of the query matrices W_Q.\n"
     "  no: random, so that the attention logits of finite networks start at random\n"
     "  yes: 0, so that all attention logits start at 0, as those of infinite heads do"},
    {0},
};

const char *attention_check(const struct network *network, int N, const char **key) {
    double parts = network->attention.head_limit == HEADS_MANY ? network->attention.head_width
                                                               : network->attention.heads;
    *key = "attention_width";
    if (N && !network_whole(network->attention.width * N / parts))
        return "attention_width times the width must be a whole number of units for each head";
    return NULL;
}

/* Weights, and logits (where they are numbers), of head i; of all, where it is -1. */
static void show_weights(struct program *p, const struct block *block, int i, struct value logits,
                         struct value a) {
    const char *end = i < 0 ? "" : program_name(p, "_%d", i);
    program_show(p, logits, "t mu source", program_name(p, "logits_%d%s", block->l, end),
                 "attention logits of a token for each other", "beta_A <q_s k_t>");
    program_show(p, a, "t mu source", program_name(p, "attention_%d%s", block->l, end),
                 "attention weights of a token for each other", "softmax over t of the logits");
}

/* The map of head i, or of all heads of few units, a part of the matrix of this name. */
static struct value head_map(struct program *p, const struct block *block, const char *name, int i,
                             struct value x, struct population *to, struct weight W) {
    W.heads_of = block_name(p, block, name);
    return block_map(p, block, name, i, x, to, W);
}

/* What is shown of attention: of one head, or summed over heads. */
struct seen {
    struct value logits, a;
};

/* The output of head i of H (-1: the only one), nu/H times the width. What is seen of it is added
 * to what was seen of those before. */
static struct value write_head(struct program *p, const struct block *block, int i, int H,
                               struct value y, struct population *stream, struct seen *all) {
    const struct network *network = program_network(p);
    bool many = network->attention.head_limit == HEADS_MANY;
    double r = network->attention.width / H, beta = network->attention.beta;
    size_t N_k = many ? (size_t)network->attention.head_width : 1,
           heads = (program_sites(p, network->attention.width) + N_k - 1) / N_k;
    struct population *on_heads = NULL;
    if (many)
        on_heads = program_population(p, block_name(p, block, "heads"), r / (double)N_k, heads, 1);
    const char *name = block_name(p, block, "head");
    struct population *units = program_population(
        p, i < 0 ? name : program_name(p, "%s_%d", name, i), r, heads * N_k, (int)N_k);
    units->of = on_heads;
    units->cotangent_scale = block->b * r;
    /* Each of H heads has 1/H of the units: together they are one head of all. */
    struct weight in = {.rate = 1 / r, .adam_eps = 1.0 / H}, queries = in,
                  out = {.rate = 1.0 / H, .adam_rate = 1.0 / H, .a0 = 1 / sqrt(H)};
    queries.zero = network->attention.zero_queries;
    struct value q = head_map(p, block, "W_Q", i, y, units, queries);
    struct value k = head_map(p, block, "W_K", i, y, units, in);
    struct value v = head_map(p, block, "W_V", i, y, units, in);
    struct value logits = program_attend(p, q, k, beta, on_heads);
    struct value a = program_softmax(p, logits, network->attention.causal);
    if (!many) {
        show_weights(p, block, i, logits, a);
        all->logits = i > 0 ? program_add(p, all->logits, logits) : logits;
        all->a = i > 0 ? program_add(p, all->a, a) : a;
    }
    return head_map(p, block, "W_O", i, program_mix(p, a, v), stream, out);
}

struct value attention_write(struct program *p, const struct block *block, struct value y,
                             struct population *stream) {
    const struct network *network = program_network(p);
    bool fixed = network->attention.head_limit == HEADS_FIXED && program_setup(p)->N;
    int H = fixed ? network->attention.heads : 1;
    struct seen all;
    struct value sum = write_head(p, block, H > 1 ? 0 : -1, H, y, stream, &all);
    for (int i = 1; i < H; i++)
        sum = program_add(p, sum, write_head(p, block, i, H, y, stream, &all));
    /* In the limit heads are alike, and one stands for all: the mean has its name. */
    if (H > 1)
        show_weights(p, block, -1, program_stop(p, program_times(p, 1.0 / H, all.logits)),
                     program_stop(p, program_times(p, 1.0 / H, all.a)));
    return sum;
}
