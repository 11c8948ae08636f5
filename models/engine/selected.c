/* Which rows are left out: those of an expert of a fixed number that its gate does not select. The
 * program alone says it. Rows that a gate scales are read where it is not 0, and so is what they
 * are made of row by row, as long as nothing else reads the same; what is made of scaled rows alone
 * is 0 where the gate is. A gate that is 0 has no use for its cotangent (OP_DROPS_ZERO), so
 * that none is needed there, unless it is a series.
 *
 * So the nodes of an expert are computed for its own rows, which lie side by side (`apart`) in the
 * first rows of their storage. The matrices that begin take them out of what all experts read. The
 * last node's rows are added to a sum at their places (`added`), or, where no sum can do so, put
 * back to their places among rows of 0; in reverse it takes its cotangent, and the matrices add
 * theirs to the places. What is measured is whole: such nodes, and those of a net whose gradients
 * are taken to pieces, have all rows. */
#include "models/language/adjoint.h"

enum { NOBODY = -2, EVERY = -1 }; /* in the place of a node */

/* Rows at which number `column` of a node is not 0. */
struct selection {
    int numbers, column;
};

/* What is found for each node: the rows that are read of it, those at which it can be other than 0,
 * and those that it is computed for. */
struct found {
    struct selection *read, *full, *at;
};

static struct selection every_row(void) {
    return (struct selection){EVERY, 0};
}

static bool same_selection(struct selection a, struct selection b) {
    return a.numbers == b.numbers && a.column == b.column;
}

static struct selection read_by_both(struct selection a, struct selection b) {
    return a.numbers == NOBODY || same_selection(a, b) ? b : every_row();
}

/* Whether it scales each of its rows by a number that a rule of gates has made; `alone`: as far as
 * the program goes, whatever is a series. */
static bool is_gate(const struct net *net, const struct node *v, bool alone) {
    if (!(v->op->traits & OP_SCALES_ROWS) || !v->on)
        return false;
    const struct node *s = &net->program->node[v->argument[0]];
    return (s->op->traits & OP_DROPS_ZERO) && s->op->jumps(net->program, v->argument[0]) &&
           s->count == v->count && (alone || !node_shown(net, v->argument[0], true));
}

static struct selection of_gate(const struct node *v) {
    return (struct selection){v->argument[0], v->constant.column};
}

/* Whether rows of a node's cotangent are all read by what no operation of the program tells. */
static bool is_read_backward(const struct program *p, int i) {
    const struct node *v = &p->node[i];
    bool read = v->plan.measured_g || v->plan.kept_g || (v->op->traits & OP_STARTS_BACKWARD);
    for (int k = 0; k < p->measures && !read; k++)
        read = p->measure[k].node == i;
    return read;
}

/* Whether something reads all of its rows in this way, or all of its cotangent. */
static bool is_read(const struct program *p, int i) {
    return p->node[i].plan.measured || is_read_backward(p, i);
}

static void find_read(const struct net *net, bool alone, struct selection *read) {
    const struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++)
        read[i] = !alone && is_read(p, i) ? every_row() : (struct selection){NOBODY, 0};
    for (int i = p->nodes - 1; i >= 0; i--) {
        const struct node *v = &p->node[i];
        bool by_row = v->op->traits & OP_BY_ROW && read[i].numbers != NOBODY;
        for (int k = 0; k < 2; k++) {
            int a = v->argument[k];
            if (a >= 0 && k == 1 && is_gate(net, v, alone))
                read[a] = read_by_both(read[a], of_gate(v));
            else if (a >= 0)
                read[a] = read_by_both(
                    read[a], by_row && p->node[a].count == v->count ? read[i] : every_row());
        }
    }
}

/* What is made of scaled rows alone hands them no cotangent where it has no rows, which changes
 * nothing that learns; but a kernel of that cotangent has all inputs. */
static void find_full(const struct net *net, bool alone, struct selection *full) {
    const struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++) {
        const struct node *v = &p->node[i];
        bool single = v->op->traits & OP_BY_ROW && (v->op->traits & OP_LINEAR) &&
                      v->argument[0] >= 0 && v->argument[1] < 0 &&
                      (alone || !is_read_backward(p, v->argument[0]));
        full[i] = is_gate(net, v, alone) ? of_gate(v) : single ? full[v->argument[0]] : every_row();
    }
}

/* A finite matrix with one use, or another operation that makes a row of that row alone. */
static bool can_leave_out(const struct net *net, const struct node *v) {
    const struct map *map = v->matrix.map;
    return (v->op->traits & OP_BY_ROW) && v->on &&
           (!map || (map->declared.uses == 1 && net_map_kind(net, &map->declared) == &map_finite));
}

/* Which nodes have their rows apart: computed for some, and read by nodes of the same alone. */
static void find_apart(struct program *p, const struct selection *at) {
    for (int i = 0; i < p->nodes; i++)
        p->node[i].expert.apart = at[i].numbers >= 0 && !is_read(p, i);
    for (int i = 0; i < p->nodes; i++)
        for (int k = 0; k < 2; k++) {
            int a = p->node[i].argument[k];
            if (a >= 0 && !same_selection(at[i], at[a]))
                p->node[a].expert.apart = false;
        }
}

/* Only matrices take rows of what has all; only what hands its cotangent on as a part of its own
 * puts rows back to their places. */
static bool fits_selection(const struct program *p, int i, const struct selection *at) {
    const struct node *v = &p->node[i];
    bool whole = false;
    for (int k = 0; k < 2; k++) {
        const struct node *a = v->argument[k] < 0 ? NULL : &p->node[v->argument[k]];
        whole = whole || (a && a->on && !a->expert.apart);
    }
    return at[i].numbers < 0 ||
           ((v->matrix.map || !whole) && (v->expert.apart || !(v->op->traits & OP_ADDS_AT)));
}

/* What does not fit has all rows, and with it what would have had rows apart for it. A script can
 * write experts in front of their router: the gates are not known yet when they are evaluated. */
static void find_at(const struct net *net, struct found found) {
    struct program *p = net->program;
    bool changed = true;
    find_read(net, false, found.read);
    find_full(net, false, found.full);
    for (int i = 0; i < p->nodes; i++) {
        struct selection some = found.read[i].numbers >= 0 ? found.read[i] : found.full[i];
        bool can = some.numbers >= 0 && some.numbers < i && can_leave_out(net, &p->node[i]) &&
                   p->node[some.numbers].count == p->node[i].count;
        found.at[i] = can ? some : every_row();
    }
    while (changed) {
        changed = false;
        find_apart(p, found.at);
        for (int i = 0; i < p->nodes; i++)
            if (!fits_selection(p, i, found.at)) {
                found.at[i] = every_row();
                changed = true;
            }
    }
}

/* Nodes of which rows, or rows of the cotangent, are 0 where a gate is, whatever is measured. */
static void find_gated(const struct net *net, struct found found) {
    struct program *p = net->program;
    find_read(net, true, found.read);
    find_full(net, true, found.full);
    for (int i = 0; i < p->nodes; i++)
        p->node[i].expert.gated = found.read[i].numbers >= 0 || found.full[i].numbers >= 0;
}

/* Nodes that only sums read, which have all rows and take these as their second argument. */
static void find_added(struct program *p) {
    for (int i = 0; i < p->nodes; i++)
        p->node[i].expert.added =
            p->node[i].expert.of && !p->node[i].expert.apart && !is_read(p, i);
    for (int i = 0; i < p->nodes; i++)
        for (int k = 0; k < 2; k++) {
            const struct node *v = &p->node[i];
            if (v->argument[k] >= 0 && (k == 0 || !(v->op->traits & OP_ADDS_AT) || v->expert.of))
                p->node[v->argument[k]].expert.added = false;
        }
}

/* Matrices that begin take the rows of their expert out of what has all; several take the same. */
static void find_taken(struct program *p) {
    for (int i = 0; i < p->nodes && !p->code; i++) {
        const struct node *v = &p->node[i];
        int x = v->argument[0], taken = -1;
        if (!v->expert.of || !v->matrix.map || p->node[x].expert.apart)
            continue;
        for (int k = 0; k < i && taken < 0; k++)
            if (p->node[k].expert.of == v->expert.of && p->node[k].argument[0] == x)
                taken = p->node[k].expert.x;
        taken = taken < 0 ? adjoint_take(p, i, x, true) : taken;
        p->node[i].expert.x = taken;
    }
}

/* The rows of this selection, that there may be already. */
static struct expert_rows *rows_of(struct program *p, struct selection at) {
    for (int k = 0; k < p->experts; k++)
        if (p->expert[k]->numbers == at.numbers && p->expert[k]->column == at.column)
            return p->expert[k];
    struct expert_rows **added = program_grow(p, &p->expert, &p->experts, sizeof *added);
    if (!added || !(*added = program_memory(p, sizeof **added)))
        return NULL;
    int all = p->node[at.numbers].count, *which = program_memory(p, (size_t)all * sizeof *which);
    **added = (struct expert_rows){at.numbers, at.column, all, {which, all}};
    return which ? *added : NULL;
}

int selected_find(struct net *net, struct err *err) {
    struct program *p = net->program;
    size_t nodes = (size_t)p->nodes;
    struct selection *list;
    const struct measure_setup *measure = &net->setup.measure;
    if (!net->setup.N)
        return CODE_OK;
    TRY(base_alloc(&list, 3 * nodes, sizeof *list, err));
    struct found found = {list, list + nodes, list + 2 * nodes};
    find_gated(net, found);
    if (!measure->check && !measure->apart && !measure->experts) {
        find_at(net, found);
        for (int i = 0; i < p->nodes && !p->code; i++)
            if (found.at[i].numbers >= 0)
                p->node[i].expert.of = rows_of(p, found.at[i]);
        find_added(p);
        find_taken(p);
    }
    free(list);
    return program_result(p, err);
}

static bool is_whole(const struct expert_rows *e) {
    return e->some.count == e->all;
}

bool selected_some(const struct node *v) {
    return v->expert.of && !is_whole(v->expert.of);
}

/* All rows where too few are left out for that to pay, and never none. */
static void find_rows(const struct program *p, struct expert_rows *e) {
    const struct node *s = &p->node[e->numbers];
    int *which = (int *)e->some.which, found = 0;
    for (ptrdiff_t mu = 0; mu < e->all; mu++)
        if (s->s[mu * s->K + e->column] != 0)
            which[found++] = (int)mu;
    if (!found)
        which[found++] = 0;
    e->some.count = 8 * found > 7 * e->all ? e->all : found;
}

/* Its rows become as many as the expert has. */
static void fit_rows(struct net *net, struct node *v) {
    const struct expert_rows *e = v->expert.of;
    struct program *p = net->program;
    if (adjoint_is_taken(v))
        v->value = is_whole(e) ? p->node[v->argument[0]].value : v->work;
    if (v->value.array && (v->expert.apart || v->expert.added))
        v->value.count = e->some.count;
    if (v->matrix.map && v->of < 0)
        v->matrix.map->some = is_whole(e) ? NULL : &e->some;
}

void selected_refresh(struct net *net, int numbers) {
    struct program *p = net->program;
    for (int k = 0; k < p->experts; k++)
        if (numbers < 0 || p->expert[k]->numbers == numbers)
            find_rows(p, p->expert[k]);
    for (int i = 0; i < p->all && p->experts; i++)
        if (p->node[i].expert.of && (numbers < 0 || p->node[i].expert.of->numbers == numbers))
            fit_rows(net, &p->node[i]);
    for (int k = 0; k < net->parameters.count && p->experts; k++) {
        struct parameter *parameter = &net->parameters.item[k];
        const struct node *v = &p->node[parameter->node];
        if (v->expert.of && v->matrix.map)
            parameter->y = p->node[v->expert.g >= 0 ? v->expert.g : v->plan.g].value;
    }
}

struct rows selected_argument(const struct program *p, const struct node *v) {
    return p->node[v->expert.x >= 0 ? v->expert.x : v->argument[0]].value;
}

void selected_run(struct net *net, struct node *v) {
    const struct expert_rows *e = v->expert.of;
    if (v->of >= 0 || !selected_some(v)) {
        if (v->op->forward)
            v->op->forward(net, v);
        return;
    }
    if (v->expert.x >= 0 && net->program->node[v->expert.x].of == v - net->program->node)
        selected_run(net, &net->program->node[v->expert.x]);
    v->value.count = e->some.count;
    v->op->forward(net, v);
    if (v->expert.apart || v->expert.added)
        return;
    v->value.count = e->all;
    rows_spread(v->value, e->some.which, e->some.count);
}
