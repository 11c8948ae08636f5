/* Names and scales of blocks. */
#include "models/block.h"
#include "models/net/net.h"

#include <math.h>

const struct block block_alone = {-1, 1, 1};

struct block block_of_stream(const struct program *p, int l) {
    int L = program_network(p)->depth;
    double b = pow(L, -program_network(p)->branch_power);
    return (struct block){l, b, 1 / (L * b * b)};
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
        W->adam_eps = block->b * weight_or_one(W->adam_eps);
    }
}

struct value block_map(struct program *p, const struct block *block, const char *name, int i,
                       struct value x, struct population *to, struct weight W) {
    W.name = name;
    block_weights(p, block, (struct weight *[]){&W, NULL});
    W.family = W.name;
    W.name = i < 0 ? W.name : program_name(p, "%s_%d", W.family, i);
    return program_map(p, x, to, W);
}
