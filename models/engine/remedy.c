/* What to try where numbers of a run are too large. A rate can be blamed once it has moved
 * something. Before the first step it cannot: then the first numbers of the program that are not
 * finite say where it begins. */
#include "models/engine/node.h"

/* The largest |s| of numbers; infinite where one is not finite. */
static double largest_of(const struct node *v) {
    double most = 0;
    for (ptrdiff_t k = 0; k < (ptrdiff_t)v->count * v->K; k++)
        most = isfinite(v->s[k]) ? fmax(most, fabs(v->s[k])) : INFINITY;
    return most;
}

/* Finds the first numbers of an input that are not finite. NULL: rows are first, or none are. */
static const struct node *first_infinite(const struct program *p) {
    FOR_EACH_OF (const struct node, v, p->node, p->nodes) {
        if (!v->on && v->s && !v->plan.idle && isinf(largest_of(v)))
            return v;
    }
    return NULL;
}

/* Whether a logarithm or a power of rows, which are not kept, stands before this node. */
static bool takes_logs(const struct program *p, const struct node *end) {
    for (const struct node *u = p->node; u < end; u++)
        if (u->on && (u->op->traits & OP_FUNCTION) && u->constant.fn == FN_LOG)
            return true;
    return false;
}

/* Where it begins; exp has words that stand for it. */
static void find_cause(const struct program *p, char *text, size_t size) {
    const struct node *v = first_infinite(p);
    const struct node *s = v && v->argument[0] >= 0 ? &p->node[v->argument[0]] : NULL;
    bool function = v && (v->op->traits & OP_FUNCTION);
    const char *word = !v                             ? NULL
                       : !function                    ? v->op->name
                       : v->constant.fn == FN_INVERSE ? "1/x" /* as a script writes it */
                                                      : functions_name[v->constant.fn];
    const struct node *end = v ? v : p->node + p->nodes;
    if (!s || s->on || !s->s)
        snprintf(text, size,
                 "it is the size of inputs, targets, initial weights ([init]) or terms of the "
                 "loss%s",
                 takes_logs(p, end) ? ", or a logarithm or power of rows that are not above 0"
                                    : "");
    else
        snprintf(text, size, "it begins in `%s` of numbers up to %.4g%s", word, largest_of(s),
                 strcmp(word, "exp") ? ""
                                     : ", where log_sum_exp and softmax would take the largest "
                                       "out first");
}

void net_remedy(const struct net *net, int steps, struct err *err) {
    char where[400];
    if (!err->overflow)
        return;
    find_cause(net->program, where, sizeof where);
    if (steps)
        err_set(err, err->code, "%.1400s; lower eta0 or gamma0%s%s", err->text,
                net->gates.condenses ? ", or beta (softmax gates condense: docs/method.md, "
                                       "section 5)"
                                     : "",
                takes_logs(net->program, net->program->node + net->program->nodes)
                    ? ", unless rows are exactly 0 where it takes a logarithm or a power of them, "
                      "whose slope is infinite there: add a small number to them"
                    : "");
    else
        err_set(err, err->code, "%.1400s before any step, so that no rate is to blame: %s",
                err->text, where);
}
