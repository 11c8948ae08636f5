#include "models/parts/block.h"

static const struct block alone = {-1, 1, 1};

struct block block_of_stream(const struct program *p, int l) {
    int L = program_network(p)->block.depth;
    double b = pow(L, -program_network(p)->block.branch_power);
    return (struct block){l, b, 1 / (L * b * b)};
}

void block_stream_kernels(struct program *p, int l, struct value h) {
    program_name_rows(p, h, program_name(p, "h_%d", l));
    program_kernel(p, h, 1, program_name(p, "Ch_%d", l), "feature kernel of the stream",
                   "<h_l h_l>");
    program_gradient(p, h, 1, program_name(p, "Cg_%d", l), "gradient kernel of the stream",
                     "<g_l g_l>");
}

const char *block_name(struct program *p, const struct block *block, const char *name) {
    return block->l < 0 ? name : program_name(p, "%s_%d", name, block->l);
}

void block_weights(struct program *p, const struct block *block, struct weight *const *weights) {
    for (; *weights; weights++) {
        struct weight *W = *weights;
        W->name = block_name(p, block, W->name);
        W->rate = block->rate * weight_or_one(W->rate);
        W->adam_rate = block->b * block->rate * weight_or_one(W->adam_rate);
        W->muon_rate *= block->b * block->rate; /* 0: it is adam_rate */
        W->adam_eps = block->b * weight_or_one(W->adam_eps);
    }
}

struct weight block_weight(struct program *p, const struct block *block, int regime,
                           const char *row) {
    struct weight W = {.name = row};
    struct weight *const weights[] = {&W, NULL};
    parameterization_scale(p, regime, weights);
    block_weights(p, block, weights);
    return W;
}

struct value block_map(struct program *p, const struct block *block, const char *name, int i,
                       struct value x, struct population *to, struct weight W) {
    W.name = name;
    block_weights(p, block, (struct weight *[]){&W, NULL});
    W.family = W.name;
    W.name = i < 0 ? W.name : program_name(p, "%s_%d", W.family, i);
    return program_map(p, x, to, W);
}

void block_network(struct program *p, int regime, block_write *mixture) {
    struct population *bottom = program_layer(p, "bottom", 1);
    struct weight w = block_weight(p, &alone, regime, "w");
    struct value h1 = program_read_in(p, bottom, block_weight(p, &alone, regime, "W1"));
    struct value x1 = program_sigma(p, h1);
    program_name_rows(p, h1, "h1");
    program_kernel(p, x1, 1, "Phi1", "feature kernel of the bottom layer",
                   "<x1 x1>, x1 = sigma(h1)");
    program_gradient(p, h1, 1, "G1", "gradient kernel of the bottom layer",
                     "<g1 g1>, g1 = sigma'(h1) z1");
    program_read_out(p, mixture(p, &alone, x1, NULL), w);
}
