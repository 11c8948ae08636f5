/* Whether two numbers of sites give the same limit. A program is told the number of its sites, so
 * it may select 4 of 16 sites and 4 of 8, which are two networks, and nothing else would say so. */
#include "models/engine/node.h"
#include "kernels/base/text.h"

/* The largest row of x alone, which nothing reads but <x mask>: a maximum, by which a softmax is
 * kept from overflow, and no share of the sites. */
static bool is_maximum(const struct program *p, int i) {
    const struct node *mask = &p->node[i];
    bool only = mask->op == &operation_top && mask->constant.top == 1;
    for (int k = i + 1; k < p->nodes && only; k++) {
        const struct node *v = &p->node[k];
        if (v->argument[0] == i || v->argument[1] == i)
            only = v->op == &operation_average && v->argument[0] == mask->argument[0];
    }
    return only;
}

static int compare_programs(const struct program *p, const struct program *q, struct err *err) {
    for (int i = 0; i < p->nodes || i < q->nodes; i++) {
        const struct node *v = &p->node[i], *w = &q->node[i];
        if (i == p->nodes || i == q->nodes || v->op != w->op)
            return err_set(err, CODE_INPUT,
                           "the program must call the same operations for every number of sites");
        bool of_sites = v->on && v->op->zeros == ZEROS_OF_RULE; /* tokens have no other number */
        double K = of_sites ? node_selects(v) : 0, of = of_sites ? node_selects(w) : 0;
        if (!of_sites || K * (double)w->on->sites == of * (double)v->on->sites || is_maximum(p, i))
            continue;
        return err_set(err, CODE_INPUT,
                       "population %s: a selection of %.0f of %zu sites would be one of %.0f of "
                       "%zu; give K as a multiple of the population's sites, or to top as {share = "
                       "%.0f/%zu}",
                       TEXT_SHOWN_OF(v->on), K, v->on->sites, of, w->on->sites, K, v->on->sites);
    }
    return CODE_OK;
}

int alike_check(const struct net_setup *setup, const struct net_setup *other, struct err *err) {
    FREED(net_free) struct net one = {0}, another = {0};
    TRY(net_declare(&one, setup, err));
    TRY(net_declare(&another, other, err));
    return compare_programs(one.program, another.program, err);
}
