/* A fixed number of experts of one hidden layer of infinite width, in a block of a stream
 * (docs/theory/transformer.md).
 *
 *     p = gate(<r_e y> + b_e)     sum_e W2_e p_e sigma(W1_e y)     gated: sigma(W1_e y) W3_e y
 *
 * Shared experts, the last ones, have gate 1. Derived cotangents on the units of an expert are
 * b iota times those of the page. */
#include "models/parts/block.h"

const char *experts_check(const struct network *network, int N, const char **key) {
    const char *wrong = network->experts.count ? network_check_iota(network, N, key) : NULL;
    if (wrong)
        return wrong;
    *key = "experts";
    if (network->experts.count + network->experts.shared > EXPERTS_MOST)
        return "at most 1000 experts, with the shared ones: each is a population of its own";
    if (network->experts.shared && !network->experts.count)
        return "shared experts stand beside routed ones";
    return network->experts.count ? router_check(network, key) : NULL;
}

/* What expert e of `count` puts out. */
static struct value write_expert(struct program *p, const struct block *block, int e, int count,
                                 struct value y, struct value gates, struct population *stream) {
    const struct network *network = program_network(p);
    const char *name = block_name(p, block, "expert");
    struct population *units = program_layer(
        p, count == 1 ? name : program_name(p, "%s_%d", name, e), network->experts.iota);
    struct weight in = {.rate = 1 / network->experts.iota}, out = {.rate = 1};
    int number = count == 1 ? -1 : e;
    units->cotangent_scale = block->b * network->experts.iota;
    struct value x = program_sigma_of_experts(p, block_map(p, block, "W1", number, y, units, in));
    if (network->experts.gated)
        x = program_multiply(p, x, block_map(p, block, "W3", number, y, units, in));
    if (gates.at >= 0 && e < network->experts.count)
        x = program_scale(p, gates, e, x);
    return block_map(p, block, "W2", number, x, stream, out);
}

struct value experts_write(struct program *p, const struct block *block, struct value y,
                           struct population *stream) {
    const struct network *network = program_network(p);
    int count = network->experts.count + network->experts.shared;
    struct weight R = {.name = "R"}, bias = {.name = "b"};
    struct value gates = {-1}, sum;
    block_weights(p, block, (struct weight *[]){&R, &bias, NULL});
    if (network->routing.gate != GATE_CONSTANT)
        gates = router_write(p, block, y, R, bias);
    sum = write_expert(p, block, 0, count, y, gates, stream);
    for (int e = 1; e < count; e++)
        sum = program_add(p, sum, write_expert(p, block, e, count, y, gates, stream));
    return sum;
}
