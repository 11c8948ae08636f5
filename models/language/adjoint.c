/* The backward pass as nodes: see adjoint.h. */
#include "models/language/adjoint.h"
#include "models/language/operation.h"

static const struct value none = {-1};

/* They stand for rows of argument 0, which adjoint_run looks up: they may be those of an expert. */
static const struct operation operation_cotangent = {.name = "cotangent"},
                              operation_slope = {.name = "slope"},
                              operation_column = {.name = "column"};

bool adjoint_stands_for(const struct node *node) {
    return node->op == &operation_cotangent || node->op == &operation_slope ||
           node->op == &operation_column;
}

bool adjoint_is_cotangent(const struct program *p, const struct part *part) {
    return part->node >= 0 && p->node[part->node].op == &operation_cotangent;
}

static struct value append(struct program *p, struct node node) {
    struct node *added = program_grow(p, &p->node, &p->all, sizeof *added);
    if (!added)
        return none;
    *added = node;
    return (struct value){p->all - 1};
}

static struct value stand_for(struct program *p, const struct operation *op, int v, int count) {
    struct node node = node_of_operation(op, (struct value){v}, none);
    node.on = p->node[v].on;
    node.per = p->node[v].per;
    node.count = count;
    node.K = p->node[v].K;
    return append(p, node);
}

struct value adjoint_slope(struct program *p, int v) {
    return p->code ? none : stand_for(p, &operation_slope, v, p->node[v].count);
}

struct value adjoint_column(struct program *p, int v) {
    struct value out = p->code ? none : stand_for(p, &operation_column, v, 1);
    if (out.at >= 0)
        p->node[out.at].on = p->node[p->node[v].argument[0]].on;
    return out;
}

struct value adjoint_append(struct program *p, const struct operation *op, struct value a,
                            struct value b, int like) {
    struct node node = node_of_operation(op, a, b);
    if (p->code)
        return none;
    if (like >= 0) {
        node.on = p->node[like].on;
        node.per = p->node[like].per;
    }
    for (int k = 0; k < 2; k++)
        if (node.argument[k] >= 0 && p->node[node.argument[k]].count > node.count)
            node.count = p->node[node.argument[k]].count;
    node.K = like < 0 ? 1 : p->node[like].K;
    if (like < 0 && program_failed(p, net_vector(p->net, (size_t)node.count, 1, &node.s, &p->err)))
        return none;
    return append(p, node);
}

struct value adjoint_like(struct program *p, const struct operation *op, struct value a,
                          struct value b, int like) {
    struct value out = adjoint_append(p, op, a, b, like);
    if (out.at >= 0)
        p->node[out.at].count = p->node[out.at].plan.g_differ = p->node[like].count;
    return out;
}

struct value adjoint_into(struct program *p, struct value part) {
    if (part.at >= 0)
        p->node[part.at].plan.adds = true;
    return part;
}

/* The cotangent, which the other part may read already. */
static struct value cotangent_of(struct program *p, int v) {
    const struct part *other = &p->node[v].plan.part[0];
    for (int i = other->begin; i < other->end; i++)
        if (p->node[i].op == &operation_cotangent)
            return (struct value){i};
    const struct node *of = &p->node[v];
    return stand_for(p, &operation_cotangent, v, of->on ? of->plan.g_count : of->count);
}

int adjoint_of(struct program *p, int v, int k, struct err *err) {
    struct part part = p->node[v].plan.part[k];
    part.begin = p->all;
    struct value g = cotangent_of(p, v);
    if (!p->code)
        part.node = p->node[v].op->adjoint(p, v, k, g).at;
    part.end = p->all;
    p->node[v].plan.part[k] = part;
    if (p->code)
        *err = p->err;
    return p->code;
}

static int differ_of(const struct program *p, int i, int differ) {
    const struct node *v = &p->node[i];
    int most = 0;
    if (v->op == &operation_cotangent)
        return differ;
    if (i < p->nodes || adjoint_stands_for(v))
        return v->count;
    if (v->plan.g_differ)
        return v->plan.g_differ;
    for (int k = v->op->scales_rows; k < 2; k++) {
        int rows = v->argument[k] < 0 ? 0 : differ_of(p, v->argument[k], differ);
        most = rows > most ? rows : most;
    }
    return most;
}

int adjoint_differ(const struct program *p, const struct part *part, int differ) {
    return differ_of(p, part->node, differ);
}

bool adjoint_reads_later(const struct program *p, const struct node *v, int i, int read) {
    const struct part *part = v->plan.part;
    int end = part[0].end > part[1].end ? part[0].end : part[1].end;
    if (part[1].node == read && i < part[1].begin)
        return true;
    for (i++; i < end; i++)
        for (int k = 0; k < 2; k++)
            if (p->node[i].argument[k] == read)
                return true;
    return false;
}

/* Runs a node with the rows that it has now. */
static void run(struct net *net, const struct node *v, struct node *w) {
    if (adjoint_stands_for(w)) {
        w->value = w->op == &operation_cotangent ? v->g
                   : w->op == &operation_slope   ? v->slope
                                                 : array_all(&v->matrix.thin->W);
        w->s = v->gs;
        return;
    }
    if (!w->work.array)
        w->work = v->work;
    w->matrix = v->matrix;
    w->A = v->A;
    w->expert.of = v->expert.of;
    if (w->value.array && w->count == v->count)
        w->value.count = selected_some(v) ? v->expert.of->some.count : v->count;
    w->op->forward(net, w);
}

/* Numbers of the part are added to those of one column. */
static void add_numbers(const struct node *v, const struct node *part, const struct node *a) {
    int rows = selected_some(v) ? v->expert.of->some.count : a->count;
    for (int mu = 0; mu < rows; mu++)
        a->gs[row_of(v, mu) * a->K + v->constant.column] += part->s[part->count == 1 ? 0 : mu];
}

/* Whether the part is found where the cotangent is, or added to it. A replay with W(0) may have a
 * kind of matrix that does not add. */
static bool goes_into(const struct node *v, const struct part *part) {
    return part->into && (!v->matrix.map || v->matrix.map->kind->add_backward);
}

static void run_part(struct net *net, struct node *v, const struct part *part, bool adds) {
    net->program->node[part->node].plan.adds = adds;
    for (int i = part->begin; i < part->end; i++)
        run(net, v, &net->program->node[i]);
}

/* The part, of rows; where it has rows of its own, it is looked at. */
static void add_rows(struct net *net, struct node *v, int k) {
    const struct part *part = &v->plan.part[k];
    struct node *made_by = &net->program->node[part->node];
    struct rows g = argument(net, v, k)->g;
    bool into = goes_into(v, part) && !(part->rows.array && part->first),
         there = adjoint_stands_for(made_by);
    if (!into || part->rows.array) {
        made_by->value = there ? made_by->value : part->rows;
        run_part(net, v, part, false);
    }
    if (into) {
        made_by->value = g;
        run_part(net, v, part, !part->first);
    } else if (!there)
        add_to_cotangent(net, v, k);
    else if (g.array != made_by->value.array)
        add_part(net, made_by->value, part->first, g);
}

void adjoint_run(struct net *net, struct node *v) {
    for (int k = 0; k < 2; k++) {
        const struct part *part = &v->plan.part[k];
        struct node *a = part->due ? argument(net, v, k) : NULL, *made_by;
        if (a && a->on) {
            add_rows(net, v, k);
        } else if (a) {
            made_by = &net->program->node[part->node];
            if (part->into)
                made_by->s = a->gs;
            run_part(net, v, part, part->into);
            if (!part->into)
                add_numbers(v, made_by, a);
        }
    }
}
