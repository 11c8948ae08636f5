/* Which rows of a matrix may be left out: those of an expert of a fixed number that its gate does
 * not select. The program alone says it. Rows that a gate scales are read where it is not 0, and so
 * is what they are made of row by row, as long as nothing else reads the same; what is made of
 * scaled rows alone is 0 where the gate is. A gate that is 0 has no use for its cotangent
 * (number_fn.drops_zero), so that none is needed there, unless it is a series. */
#include "models/engine/node.h"

#include <stdlib.h>

enum { NOBODY = -2, EVERY = -1 }; /* in the place of a node */

/* Rows at which number `column` of a node is not 0. */
struct selection {
    int numbers, column;
};

static struct selection every(void) {
    return (struct selection){EVERY, 0};
}

static struct selection both(struct selection a, struct selection b) {
    if (a.numbers == NOBODY)
        return b;
    return a.numbers == b.numbers && a.column == b.column ? a : every();
}

/* Whether it scales each of its rows by a number that a rule of gates has made. */
static bool is_gate(const struct program *p, const struct node *v) {
    if (v->op != &operation_scale)
        return false;
    const struct node *s = &p->node[v->argument[0]];
    return s->constant.numbers && s->constant.numbers->drops_zero && s->count == v->count;
}

/* Whether the cotangents of numbers are a series of the run. */
static bool shows_cotangent(const struct net *net, int numbers) {
    const double *gs = net->program->node[numbers].gs;
    for (int k = 0; k < net->numbers.count && !net->setup.measure.no_inputs; k++)
        if (net->numbers.item[k].values == gs)
            return true;
    return false;
}

/* Whether something reads all rows of a node, which no operation of the program tells. */
static bool is_read(const struct program *p, int i) {
    const struct node *v = &p->node[i];
    bool read = v->plan.measured || v->op->starts_backward;
    for (int k = 0; k < p->measures && !read; k++)
        read = p->measure[k].node == i;
    return read;
}

/* read [nodes]: the rows of the values that are read. */
static void find_read(const struct net *net, struct selection *read) {
    const struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++)
        read[i] = is_read(p, i) ? every() : (struct selection){NOBODY, 0};
    for (int i = p->nodes - 1; i >= 0; i--) {
        const struct node *v = &p->node[i];
        bool by_row = v->op->by_row && read[i].numbers != NOBODY;
        for (int k = 0; k < 2; k++) {
            int a = v->argument[k];
            if (a >= 0 && k == 1 && is_gate(p, v) && !shows_cotangent(net, v->argument[0]))
                read[a] = both(read[a], (struct selection){v->argument[0], v->constant.column});
            else if (a >= 0)
                read[a] = both(read[a], by_row && p->node[a].count == v->count ? read[i] : every());
        }
    }
}

/* The rows at which a value can be other than 0 and its cotangent is of use. */
static struct selection find_full(const struct program *p, int i) {
    const struct node *v = &p->node[i];
    if (v->plan.measured_g || v->plan.kept_g)
        return every();
    if (is_gate(p, v))
        return (struct selection){v->argument[0], v->constant.column};
    return v->op->by_row && v->op->linear && v->argument[1] < 0 && !v->matrix.map
               ? find_full(p, v->argument[0])
               : every();
}

int selected_connect(struct net *net, struct err *err) {
    const struct program *p = net->program;
    struct selection *read;
    if (!net->setup.N || net->setup.measure.check)
        return CODE_OK;
    TRY(base_alloc(&read, (size_t)p->nodes, sizeof *read, err));
    find_read(net, read);
    for (int i = 0; i < p->nodes; i++) {
        const struct node *v = &p->node[i];
        if (!v->matrix.map || v->matrix.map->declared.uses > 1)
            continue;
        struct selection rows = read[i].numbers >= 0 ? read[i] : find_full(p, v->argument[0]);
        if (rows.numbers < 0)
            continue;
        const struct node *s = &p->node[rows.numbers];
        v->matrix.map->gate = (struct map_gate){s->s + rows.column, s->count, s->K,
                                                shows_cotangent(net, rows.numbers)};
    }
    free(read);
    return CODE_OK;
}
