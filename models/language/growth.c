/* Whether what a function is taken of stays finite as the width grows. A factor N^p in front of
 * rows or numbers is 2^(400 p) in the limit, and no limit where nothing takes it back: tanh(N^0.5
 * h) jumps at 0, and its slope is infinite there. Powers are followed from node to node. Where an
 * operation may take one back, as a norm does, it counts as taken back: sure growth is refused. */
#include "models/engine/node.h"

/* The power of N in the value of a node, of which those of its arguments are known. */
static double growth_of(const struct program *p, const struct node *v) {
    double power[2];
    for (int k = 0; k < 2; k++)
        power[k] = v->argument[k] >= 0 ? p->node[v->argument[k]].growth : 0;
    if (v->op == &operation_multiply || v->op == &operation_average || v->op == &operation_scale)
        return power[0] + power[1];
    if (!strcmp(v->op->name, "power"))
        return v->constant.factor * power[0];
    bool function = v->op->traits & OP_FUNCTION && v->constant.fn != FN_RELU &&
                    v->constant.fn != FN_LINEAR,
         scaled = v->op == &operation_times || (v->op->traits & OP_FUNCTION),
         matrix = v->op->matrix == MATRIX_MAP || v->op->matrix == MATRIX_LOOK ||
                  v->op->matrix == MATRIX_READ_OUT;
    double factor = scaled   ? v->constant.factor
                    : matrix ? v->matrix.weight.a0 * v->matrix.weight.s_f
                             : 1;
    if (function || factor == 0 || !(scaled || (v->op->traits & OP_LINEAR)))
        return function && v->constant.fn == FN_INVERSE ? -power[0] : 0;
    double more = weight_power(factor);
    return (v->argument[1] < 0 ? power[0] : fmax(power[0], power[1])) +
           (matrix ? fmin(0, more) : more);
}

void growth_refuse(struct program *p, struct value x, const char *what) {
    if (p->net->setup.N || p->code || x.at < 0)
        return;
    for (; p->grown < p->nodes; p->grown++)
        p->node[p->grown].growth = growth_of(p, &p->node[p->grown]);
    if (p->node[x.at].growth > 1e-9)
        program_fail(p,
                     "%s grows as N^%.3g, so that there is no limit: its power of N must be 0 at "
                     "most (finite networks alone, [solver] replicates = 0, may have it)",
                     what, p->node[x.at].growth);
}
