/* Where the rows of a program are kept (node.h). */
#include "models/language/adjoint.h"

enum { NOWHERE = -1 };

/* A node with rows has a first and a last step, nodes in whose place it may be, and a slot. */
struct item {
    int start, end, over[2], slot;
};

/* An array, and the node that has it now or had it last; free, the next free one of its shape. */
struct slot {
    struct rows rows;
    int node, shape, next;
};

/* All slots of as many sites and rows: one of them, and the first that is free. */
struct shape {
    int slot, free;
};

struct plan {
    struct program *p;
    struct item *item;
    struct slot *slot;
    struct shape *shape;
    int slots, shapes;
};

struct array node_array(const struct node *v) {
    return v->on ? population_array(v->on)
                 : (struct array){&backend_counted, .sites = (size_t)v->K, .group = 1};
}

static bool has_rows(const struct node *v) {
    return (v->on || v->K) && !(v->op->traits & OP_CONSTANT);
}

/* Rows that are taken for an expert may be those that they are taken from. */
static void use_until(struct plan *plan, int node, int step) {
    while (node >= 0) {
        if (plan->item[node].end < step)
            plan->item[node].end = step;
        const struct node *v = &plan->p->node[node];
        node = adjoint_is_taken(v) ? v->argument[0] : NOWHERE;
    }
}

/* The coordinate check reads what matrices read and write. */
static void keep_values(struct program *p) {
    FOR_EACH_OF (struct node, v, p->node, p->nodes) {
        v->plan.measured |= v->matrix.map || node_reads_no_rows(v);
        if (v->matrix.map)
            p->node[v->argument[0]].plan.measured = true;
    }
}

/* Node u, if the value of node v may be in its place. */
static int place_of(const struct program *p, const struct node *v, int u) {
    const struct node *other = u < 0 ? NULL : &p->node[u];
    bool fits =
        other && other->on == v->on && other->count == v->count && (v->on || other->K == v->K);
    return fits && has_rows(other) && !other->expert.added ? u : NOWHERE;
}

/* Whether a node reads the rows of the sum that it adds to, which then has others. */
static bool reads_sum(const struct program *p, const struct node *v) {
    for (int k = 0; k < 2; k++) {
        int x = v->argument[k];
        while (x >= 0 && x != v->onto)
            x = adjoint_is_taken(&p->node[x]) ? p->node[x].argument[0] : NOWHERE;
        if (x >= 0)
            return true;
    }
    return false;
}

static int step_of(const struct program *p, int i) {
    return p->node[i].plan.forward ? p->node[i].of : i;
}

/* When values are there first, and what they may take the place of. */
static void begin_items(struct plan *plan) {
    const struct program *p = plan->p;
    for (int i = 0; i < p->all; i++) {
        const struct node *v = &p->node[i];
        struct item *item = &plan->item[i];
        *item = (struct item){step_of(p, i), step_of(p, i), {NOWHERE, NOWHERE}, NOWHERE};
        if (v->onto >= 0 && !reads_sum(p, v))
            item->over[0] = place_of(p, v, v->onto);
        for (int k = 0; k < 2 && v->onto < 0 && (v->op->traits & OP_IN_PLACE); k++)
            item->over[k] = place_of(p, v, v->argument[k]);
    }
}

/* When rows are read by nodes, and when a cotangent is complete. */
static void use_in_passes(struct plan *plan) {
    struct program *p = plan->p;
    for (int i = 0; i < p->all; i++) {
        const struct node *v = &p->node[i];
        use_until(plan, v->argument[0], step_of(p, i));
        use_until(plan, v->argument[1], i);
        use_until(plan, v->expert.x, i);
        use_until(plan, v->onto, i);
        if (v->of < 0)
            use_until(plan, v->plan.g, v->plan.begin);
        if (v->of < 0 && v->matrix.thin && v->matrix.thin->uses > 1) /* stacked there (execute.c) */
            use_until(plan, v->argument[0], v->plan.begin);
    }
}

int node_learned_from(const struct net *net, const struct parameter *parameter, bool read) {
    const struct node *v = &net->program->node[parameter->node];
    bool reads = parameter->map ? net_keeps_rows(net, parameter->map) : parameter->thin != NULL;
    if (read)
        return !reads ? NOWHERE : v->expert.x >= 0 ? v->expert.x : v->argument[0];
    return v->plan.learned >= 0 ? v->plan.learned : v->expert.g >= 0 ? v->expert.g : v->plan.g;
}

/* What is read once the passes are done: by series, by what learns; by a check all that matrices
 * hand back; and, where a backward pass is run again, all that it reads. */
static void use_behind(struct plan *plan) {
    const struct program *p = plan->p;
    const struct net *net = p->net;
    bool again = net->setup.measure.apart && net->output.loss_in_cotangent;
    for (int i = 0; i < p->all; i++) {
        const struct node *v = &p->node[i];
        bool check = v->of < 0 && net->setup.measure.check && v->op->matrix != MATRIX_NONE;
        bool numbers = !v->on && v->of < 0;
        if (v->plan.measured || numbers || (again && (v->of < 0 || v->plan.forward)))
            use_until(plan, i, p->all);
        if (v->plan.measured_g || v->plan.kept_g || check || numbers)
            use_until(plan, v->plan.g, p->all);
        if (check)
            use_until(plan, v->plan.part[0], p->all);
    }
    for (int k = 0; k < net->parameters.count; k++) {
        use_until(plan, node_learned_from(net, &net->parameters.item[k], true), p->all);
        use_until(plan, node_learned_from(net, &net->parameters.item[k], false), p->all);
    }
}

static bool fits_slot(const struct slot *slot, const struct node *v) {
    const struct array *array = slot->rows.array;
    struct array like = node_array(v);
    return array->backend == like.backend && array->sites == like.sites &&
           array->group == like.group && slot->rows.count == v->count;
}

/* The slot of an argument that this step is the last to read; -1: there is none. */
static int slot_in_place(const struct plan *plan, int i) {
    const struct item *item = &plan->item[i];
    for (int k = 0; k < 2; k++) {
        int former = item->over[k], slot = former < 0 ? NOWHERE : plan->item[former].slot;
        if (former >= 0 && plan->item[former].end == item->start &&
            plan->slot[slot].node == former && fits_slot(&plan->slot[slot], &plan->p->node[i]))
            return slot;
    }
    return NOWHERE;
}

static int add_slot(struct plan *plan, const struct node *v, int shape, int *to, struct err *err) {
    struct slot *slot;
    TRY(base_grow(&slot, &plan->slot, &plan->slots, sizeof *slot, err));
    *to = plan->slots - 1;
    slot->shape = shape;
    TRY(net_array(plan->p->net, node_array(v), v->count, &slot->rows, err));
    if (shape < plan->shapes)
        return CODE_OK;
    struct shape *added;
    TRY(base_grow(&added, &plan->shape, &plan->shapes, sizeof *added, err));
    *added = (struct shape){.slot = *to, .free = NOWHERE};
    return CODE_OK;
}

static int find_slot(struct plan *plan, int i, struct err *err) {
    struct node *v = &plan->p->node[i];
    int shape = 0, slot = slot_in_place(plan, i);
    if (slot == NOWHERE) {
        while (shape < plan->shapes && !fits_slot(&plan->slot[plan->shape[shape].slot], v))
            shape++;
        if (shape < plan->shapes && (slot = plan->shape[shape].free) != NOWHERE)
            plan->shape[shape].free = plan->slot[slot].next;
        else
            TRY(add_slot(plan, v, shape, &slot, err));
    }
    plan->slot[slot].node = i;
    plan->item[i].slot = slot;
    v->value = plan->slot[slot].rows;
    v->s = v->on ? NULL : counted_numbers(v->value);
    return CODE_OK;
}

/* A value is done: its slot is free, unless another one has it already. */
static void release_slot(struct plan *plan, int i) {
    struct slot *slot = &plan->slot[plan->item[i].slot];
    struct shape *shape = &plan->shape[slot->shape];
    if (slot->node != i)
        return;
    slot->next = shape->free;
    shape->free = plan->item[i].slot;
    plan->p->node[i].plan.last = plan->item[i].end;
}

/* Values in the order of their first steps, each into a slot that is free. */
static int find_slots(struct plan *plan, struct err *err) {
    const struct node *node = plan->p->node;
    int steps = plan->p->all + 1;
    SCRATCH(int, list, 4 * (size_t)steps);
    int *starts = list, *ends = starts + steps, *after = ends + steps, *then = after + steps;
    for (int i = plan->p->all - 1; i >= 0;
         i--) { /* lists of the nodes of a step; a node + 1, or 0 */
        if (!has_rows(&node[i]))
            continue;
        after[i] = starts[plan->item[i].start];
        then[i] = ends[plan->item[i].end];
        starts[plan->item[i].start] = ends[plan->item[i].end] = i + 1;
    }
    for (int step = 0; step < steps; step++) {
        for (int i = starts[step] - 1; i >= 0; i = after[i] - 1)
            TRY(find_slot(plan, i, err));
        for (int i = ends[step] - 1; i >= 0; i = then[i] - 1)
            release_slot(plan, i);
    }
    return CODE_OK;
}

int plan_storage(struct net *net, struct err *err) {
    struct program *p = net->program;
    struct plan plan = {.p = p};
    int code;
    p->all = p->nodes;
    if (net->setup.measure.check)
        keep_values(p);
    DO(selected_find(net, err));
    DO(adjoint_write(p, err));
    DO(base_alloc(&plan.item, (size_t)p->all, sizeof *plan.item, err));
    begin_items(&plan);
    use_in_passes(&plan);
    use_behind(&plan);
    DO(find_slots(&plan, err));
done:
    free(plan.item);
    free(plan.slot);
    free(plan.shape);
    return code;
}
