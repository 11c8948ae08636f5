/* Attention heads whose matrices Muon moves as one ([training] muon_heads = together): the maps
 * that name the same matrix in heads_of. Heads that read the same rows have the rows of that matrix
 * one below the other; else all lead to the same population and have its columns side by side. */
#include "models/engine/node.h"

bool net_moved_together(const struct parameter *a, const struct parameter *b) {
    return a == b || (a->whole && b->whole && !strcmp(a->whole, b->whole));
}

bool net_moved_before(const struct net *net, int i) {
    const struct parameter *all = net->parameters.item;
    int k = 0;
    while (k < i && !net_moved_together(&all[k], &all[i]))
        k++;
    return k < i;
}

bool net_stacked(const struct net *net, const struct parameter *a, const struct parameter *b) {
    const struct node *node = net->program->node;
    return node[a->node].argument[0] == node[b->node].argument[0];
}

#define ONE_MATRIX                                                                                 \
    "matrices %s and %s are parts of %s (heads_of), which Muon moves as one matrix "               \
    "(muon_heads = together): "

/* Another part beside the first: they are below one another, or side by side. */
static void check_pair(struct program *p, const struct parameter *a, const struct parameter *b,
                       bool below) {
    const struct map_declaration *of_a = &a->map->declared, *of_b = &b->map->declared;
    bool fits = net_stacked(p->net, a, b) == below && of_a->uses == 1 && of_b->uses == 1 &&
                (below || of_a->target == of_b->target);
    const struct population *side_a = below ? of_a->target : of_a->source,
                            *side_b = below ? of_b->target : of_b->source;
    if (!fits)
        program_fail(p,
                     ONE_MATRIX
                     "all of its parts must read the same rows, or all other rows each and "
                     "lead to the same population; and none may be tied",
                     a->name, b->name, a->whole);
    const struct node *node = p->net->program->node;
    if (side_a->size != side_b->size || of_a->s_f != of_b->s_f || a->muon_rate != b->muon_rate ||
        node[a->node].matrix.decays != node[b->node].matrix.decays)
        program_fail(p, ONE_MATRIX "they must have the same size, s_f, rate and decays", a->name,
                     b->name, a->whole);
}

void heads_check(struct program *p) {
    struct parameter *all = p->net->parameters.item;
    for (int first = 0; first < p->net->parameters.count; first++) {
        const struct parameter *second = NULL;
        for (int k = first + 1; k < p->net->parameters.count && all[first].whole && !p->code; k++)
            if (net_moved_together(&all[first], &all[k])) {
                second = second ? second : &all[k];
                check_pair(p, &all[first], &all[k], net_stacked(p->net, &all[first], second));
            }
    }
}
