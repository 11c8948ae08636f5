/* Routers that a program tells of, for [output] experts: what stays of them, and which nodes belong
 * to which expert of a fixed number. The latter is found from the program alone, so that networks
 * need not say it: what the gate of expert i scales is made by this expert, down to where other
 * experts, or the router, read the same; and what is made of the scaled rows is still that of the
 * expert, up to where other rows join them. */
#include "models/engine/node.h"

enum { NO_EXPERT = -1, SEVERAL = -2 };

void program_routes(struct program *p, struct value phi, struct value psi, bool selects,
                    const char *suffix) {
    struct net_router *added = program_grow(p, NET_END(p->net->routers));
    if (!added)
        return;
    const struct node *v = &p->node[phi.at];
    *added = (struct net_router){
        .suffix = suffix, .phi = phi.at, .psi = psi.at, .M = v->on ? 0 : v->K, .selects = selects};
}

/* reached [nodes]: what node `last` is made of, itself included. */
static void mark_ancestors(const struct program *p, int last, bool *reached) {
    memset(reached, 0, (size_t)p->nodes * sizeof *reached);
    reached[last] = true;
    for (int i = last; i >= 0; i--)
        for (int k = 0; k < 2 && reached[i]; k++)
            if (p->node[i].argument[k] >= 0)
                reached[p->node[i].argument[k]] = true;
}

/* Whether a node scales rows by the gate of one expert, number `column`. */
static bool scales_rows(const struct program *p, int i, const struct net_router *router) {
    const struct node *v = &p->node[i];
    return v->on && (v->op->traits & OP_LINEAR) && v->argument[0] == router->phi &&
           v->argument[1] >= 0;
}

/* What the gates scale: the rows that each expert makes. */
static void find_below(const struct program *p, struct net_router *router, bool *gates,
                       bool *reached) {
    mark_ancestors(p, router->phi, gates);
    for (int s = 0; s < p->nodes; s++) {
        if (!scales_rows(p, s, router))
            continue;
        int own = p->node[s].constant.column;
        mark_ancestors(p, p->node[s].argument[1], reached);
        reached[s] = true;
        for (int i = 0; i < p->nodes; i++)
            if (reached[i] && !gates[i])
                router->expert[i] =
                    router->expert[i] == NO_EXPERT || router->expert[i] == own ? own : SEVERAL;
    }
}

/* What is made of scaled rows alone. */
static void find_above(const struct program *p, struct net_router *router) {
    for (int i = 0; i < p->nodes; i++) {
        const struct node *v = &p->node[i];
        int own[2] = {NO_EXPERT, NO_EXPERT}, rows = 0;
        for (int k = 0; k < 2; k++)
            if (v->argument[k] >= 0 && p->node[v->argument[k]].on)
                own[rows++] = router->expert[v->argument[k]];
        bool alone = rows == 1 || (rows == 2 && own[0] == own[1]);
        if (router->expert[i] == NO_EXPERT && v->on && alone && own[0] >= 0)
            router->expert[i] = own[0];
    }
    for (int i = 0; i < p->nodes; i++)
        router->expert[i] = router->expert[i] < 0 ? NO_EXPERT : router->expert[i];
}

/* The outputs of experts, if all have one, and on one population. */
static void find_outputs(struct program *p, struct net_router *router) {
    const struct node *first;
    for (int e = 0; e < router->M; e++)
        router->output[e] = -1;
    for (int i = 0; i < p->nodes; i++)
        if (router->expert[i] >= 0)
            router->output[router->expert[i]] = i;
    for (int e = 0; e < router->M; e++) {
        int i = router->output[e];
        first = router->output[0] < 0 ? NULL : &p->node[router->output[0]];
        if (i < 0 || p->node[i].on != first->on || p->node[i].count != first->count) {
            router->output = NULL;
            return;
        }
        p->node[i].plan.measured = true;
    }
}

static void find_experts(struct program *p, struct net_router *router) {
    size_t nodes = (size_t)p->nodes;
    bool *reached = program_memory(p, 2 * nodes * sizeof *reached);
    router->expert = program_memory(p, nodes * sizeof *router->expert);
    router->output = program_memory(p, (size_t)router->M * sizeof *router->output);
    if (!reached || !router->expert || !router->output)
        return;
    for (size_t i = 0; i < nodes; i++)
        router->expert[i] = NO_EXPERT;
    find_below(p, router, reached, reached + nodes);
    find_above(p, router);
    find_outputs(p, router);
}

int routed_select(struct program *p, struct err *err) {
    struct net *net = p->net;
    for (int r = 0; r < net->routers.count && net->setup.measure.experts && !p->code; r++) {
        struct net_router *router = &net->routers.item[r];
        p->node[router->phi].plan.measured = true;
        if (router->psi >= 0)
            p->node[router->psi].plan.measured = true;
        if (router->M)
            find_experts(p, router);
    }
    return program_result(p, err);
}
