/* Where the rows of a program are kept (node.h). */
#include "models/language/adjoint.h"

#include <stdlib.h>

enum { NOWHERE = -1 };

struct item {
    const struct population *on;
    int count, start, end, over[2], slot;
};

/* An array, and the item that has it now or had it last; free, the next free one of its shape. */
struct slot {
    struct rows rows;
    int item, shape, next;
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
    int items, slots, shapes;
    int end; /* the step behind all nodes */
};

static int add_item(struct plan *plan, const struct population *on, int count, int start, int end,
                    int *place, struct err *err) {
    struct item *item = base_grow(&plan->item, &plan->items, sizeof *item, err);
    if (!item)
        return err->code;
    *item = (struct item){on, count, start, end, {NOWHERE, NOWHERE}, NOWHERE};
    *place = plan->items - 1;
    return CODE_OK;
}

/* Rows that are taken for an expert may be those that they are taken from. */
static void use(struct plan *plan, int node, int step) {
    while (node >= 0) {
        const struct node *v = &plan->p->node[node];
        if (v->plan.item >= 0 && plan->item[v->plan.item].end < step)
            plan->item[v->plan.item].end = step;
        node = adjoint_is_taken(v) ? v->argument[0] : NOWHERE;
    }
}

/* The coordinate check reads what matrices read and write; and the hidden layer of experts. */
static void keep_values(struct program *p) {
    const struct mixture *mixture = &p->mixture;
    for (int i = 0; i < p->nodes; i++) {
        struct node *v = &p->node[i];
        v->plan.measured |= v->matrix.map || node_reads_no_rows(v);
        if (v->matrix.map)
            p->node[v->argument[0]].plan.measured = true;
    }
    for (int k = 0; k < mixture->rows; k++) {
        struct node *s2 = &p->node[mixture->s2[k]];
        s2->plan.measured = p->node[mixture->x1].plan.measured = true;
        if (mixture->phi >= 0)
            p->node[mixture->phi].plan.measured = true;
        if (s2->op->function)
            p->node[s2->argument[0]].plan.measured = true;
    }
}

/* The item in whose place the value of node v may be: that of node u. */
static int item_of(const struct plan *plan, const struct node *v, int node) {
    const struct node *u = node < 0 ? NULL : &plan->p->node[node];
    return u && u->on == v->on && u->count == v->count && !u->expert.added ? u->plan.item : NOWHERE;
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

/* An item for each value of rows, and what it may take the place of. */
static int add_items(struct plan *plan, struct err *err) {
    struct program *p = plan->p;
    for (int i = 0; i < p->all; i++) {
        struct node *v = &p->node[i];
        int start = step_of(p, i), *over;
        if (!v->on || v->op->constant)
            continue;
        TRY(add_item(plan, v->on, v->count, start, start, &v->plan.item, err));
        over = plan->item[v->plan.item].over;
        if (v->onto >= 0 && !reads_sum(p, v))
            over[0] = item_of(plan, v, v->onto);
        for (int k = 0; k < 2 && v->onto < 0 && v->op->in_place; k++)
            over[k] = item_of(plan, v, v->argument[k]);
    }
    return CODE_OK;
}

/* When rows are read by nodes, and when a cotangent is complete. */
static void use_in_passes(struct plan *plan) {
    struct program *p = plan->p;
    for (int i = 0; i < p->all; i++) {
        const struct node *v = &p->node[i];
        use(plan, v->argument[0], step_of(p, i));
        use(plan, v->argument[1], i);
        use(plan, v->expert.x, i);
        use(plan, v->onto, i);
        if (v->of < 0)
            use(plan, v->plan.g, v->plan.begin);
        if (v->of < 0 && v->matrix.thin && v->matrix.thin->uses > 1) /* stacked there (execute.c) */
            use(plan, v->argument[0], v->plan.begin);
    }
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
        if (v->plan.measured || (again && (v->of < 0 || v->plan.forward)))
            use(plan, i, plan->end);
        if (v->plan.measured_g || v->plan.kept_g || check)
            use(plan, v->plan.g, plan->end);
        if (check)
            use(plan, v->plan.part[0], plan->end);
    }
    for (int k = 0; k < net->parameters.count; k++) {
        const struct parameter *parameter = &net->parameters.item[k];
        const struct node *v = &p->node[parameter->node];
        bool reads = parameter->map ? net_keeps_rows(net, parameter->map)
                                    : parameter->thin && !node_reads_no_rows(v);
        if (reads)
            use(plan, v->expert.x >= 0 ? v->expert.x : v->argument[0], plan->end);
        if (v->on)
            use(plan, v->expert.g >= 0 ? v->expert.g : v->plan.g, plan->end);
    }
}

static bool fits(const struct slot *slot, const struct item *item) {
    const struct array *array = slot->rows.array;
    return array->sites == item->on->sites && array->group == item->on->group &&
           slot->rows.count == item->count;
}

/* The slot of an argument that this step is the last to read; -1: there is none. */
static int slot_in_place(const struct plan *plan, const struct item *item) {
    for (int k = 0; k < 2; k++) {
        int former = item->over[k], slot = former < 0 ? NOWHERE : plan->item[former].slot;
        if (former >= 0 && plan->item[former].end == item->start &&
            plan->slot[slot].item == former && fits(&plan->slot[slot], item))
            return slot;
    }
    return NOWHERE;
}

static int add_slot(struct plan *plan, const struct item *item, int shape, int *to,
                    struct err *err) {
    struct slot *slot = base_grow(&plan->slot, &plan->slots, sizeof *slot, err);
    if (!slot)
        return err->code;
    *to = plan->slots - 1;
    slot->shape = shape;
    TRY(net_rows(plan->p->net, item->on, item->count, &slot->rows, err));
    if (shape < plan->shapes)
        return CODE_OK;
    struct shape *added = base_grow(&plan->shape, &plan->shapes, sizeof *added, err);
    if (!added)
        return err->code;
    *added = (struct shape){.slot = *to, .free = NOWHERE};
    return CODE_OK;
}

static int find_slot(struct plan *plan, int i, struct err *err) {
    struct item *item = &plan->item[i];
    int shape = 0, slot = slot_in_place(plan, item);
    if (slot == NOWHERE) {
        while (shape < plan->shapes && !fits(&plan->slot[plan->shape[shape].slot], item))
            shape++;
        if (shape < plan->shapes && (slot = plan->shape[shape].free) != NOWHERE)
            plan->shape[shape].free = plan->slot[slot].next;
        else
            TRY(add_slot(plan, item, shape, &slot, err));
    }
    plan->slot[slot].item = i;
    item->slot = slot;
    return CODE_OK;
}

/* An item is done: its slot is free, unless another item has it already. What is read once all is
 * done comes last. */
static int release(struct plan *plan, int i, struct err *err) {
    struct program *p = plan->p;
    struct slot *slot = &plan->slot[plan->item[i].slot];
    struct shape *shape = &plan->shape[slot->shape];
    if (slot->item != i)
        return CODE_OK;
    slot->next = shape->free;
    shape->free = plan->item[i].slot;
    if (!p->net->setup.backend->poisons)
        return CODE_OK;
    struct lease *lease = base_grow(&p->lease, &p->leases, sizeof *lease, err);
    if (!lease)
        return err->code;
    *lease = (struct lease){plan->item[i].end, slot->rows};
    return CODE_OK;
}

/* Items in the order of their first steps, each into a slot that is free. */
static int find_slots(struct plan *plan, struct err *err) {
    int *list, steps = plan->end + 1, items = plan->items, code = CODE_OK;
    TRY(base_alloc(&list, 2 * (size_t)(steps + items), sizeof *list, err));
    int *starts = list, *ends = starts + steps, *after = ends + steps, *then = after + items;
    for (int i = items - 1; i >= 0; i--) { /* lists of the items of a step; an item + 1, or 0 */
        after[i] = starts[plan->item[i].start];
        then[i] = ends[plan->item[i].end];
        starts[plan->item[i].start] = ends[plan->item[i].end] = i + 1;
    }
    for (int step = 0; step < steps; step++) {
        for (int i = starts[step] - 1; i >= 0; i = after[i] - 1)
            DO(find_slot(plan, i, err));
        for (int i = ends[step] - 1; i >= 0; i = then[i] - 1)
            DO(release(plan, i, err));
    }
done:
    free(list);
    return code;
}

static struct rows rows_of(const struct plan *plan, int item) {
    return item < 0 ? (struct rows){0} : plan->slot[plan->item[item].slot].rows;
}

static void hand_out(const struct plan *plan) {
    for (int i = 0; i < plan->p->all; i++)
        plan->p->node[i].value = rows_of(plan, plan->p->node[i].plan.item);
}

int plan_storage(struct net *net, struct err *err) {
    struct plan plan = {.p = net->program};
    int code;
    plan.p->all = plan.p->nodes;
    if (net->setup.measure.check)
        keep_values(plan.p);
    DO(selected_find(net, err));
    DO(adjoint_write(plan.p, err));
    plan.end = plan.p->all;
    DO(add_items(&plan, err));
    use_in_passes(&plan);
    use_behind(&plan);
    DO(find_slots(&plan, err));
    hand_out(&plan);
done:
    free(plan.item);
    free(plan.slot);
    free(plan.shape);
    return code;
}
