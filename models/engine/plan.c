/* Where the rows of a program are kept (node.h). */
#include "models/language/adjoint.h"

#include <stdlib.h>

enum { NOWHERE = -1, READ_OUT = -2 }; /* places of a cotangent: none, the columns of the read-out */

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
    int items, slots, shapes, n;
};

static int back(const struct plan *plan, int node) {
    return 2 * plan->n - 1 - node;
}

static int add_item(struct plan *plan, const struct population *on, int count, int start, int end,
                    int *place, struct err *err) {
    struct item *item = base_grow(&plan->item, &plan->items, sizeof *item, err);
    if (!item)
        return err->code;
    *item = (struct item){on, count, start, end, {NOWHERE, NOWHERE}, NOWHERE};
    *place = plan->items - 1;
    return CODE_OK;
}

static void use(struct plan *plan, int item, int step) {
    if (item >= 0 && plan->item[item].end < step)
        plan->item[item].end = step;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

int plan_part_rows(const struct program *p, const struct node *v, int k) {
    int made_by = v->plan.part[k].node;
    return made_by < 0 ? v->plan.g_count : p->node[made_by].count;
}

/* Which cotangents there are, with how many rows, and who is first to add to them. */
static int find_cotangents(struct program *p, struct err *err) {
    if (p->output != p->read_out)
        p->node[p->output].plan.g_count = 1;
    for (int i = p->nodes - 1; i >= 0; i--) {
        struct node *v = &p->node[i];
        bool wide = v->plan.measured_g || v->op->storage.full_cotangent ||
                    (v->matrix.map && v->matrix.map->declared.uses > 1);
        if (wide && v->on && v->plan.g_count)
            v->plan.g_count = v->count;
        if ((v->plan.measured_g || v->plan.kept_g) && !v->plan.g_count)
            return err_set(err, CODE_INPUT,
                           "network %s: it measures a gradient that the output does not have",
                           p->net->model->name);
        if (!v->plan.g_count && i != p->output && !v->op->starts_backward)
            continue;
        for (int k = 0; k < 2; k++) {
            int argument = p->node[i].argument[k];
            if (argument < 0 || !p->node[argument].plan.moves || !v->op->adjoint)
                continue;
            TRY(adjoint_of(p, i, k, err));
            struct node *a = &p->node[argument];
            v = &p->node[i];
            v->plan.part[k].due = true;
            v->plan.part[k].first = !a->plan.parts++;
            a->plan.g_count = a->on ? larger(a->plan.g_count, plan_part_rows(p, v, k)) : 1;
            a->plan.g_differ = a->on ? larger(a->plan.g_differ,
                                              adjoint_differ(p, &v->plan.part[k], v->plan.g_differ))
                                     : 1;
        }
    }
    return CODE_OK;
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

/* Rows of an argument that a matrix takes for its expert, which those behind it may have taken. */
static int plan_taken(struct plan *plan, int i, struct err *err) {
    struct node *v = &plan->p->node[i];
    const struct node *a = v->argument[0] < 0 ? NULL : &plan->p->node[v->argument[0]];
    if (!v->expert.of || !v->matrix.map || a->expert.apart)
        return CODE_OK;
    for (int k = 0; k < i; k++) {
        const struct node *u = &plan->p->node[k];
        if (u->expert.of == v->expert.of && u->argument[0] == v->argument[0] &&
            u->plan.taken_item[0] >= 0) {
            v->plan.taken_item[0] = u->plan.taken_item[0];
            return CODE_OK;
        }
    }
    v->expert.takes = true;
    return add_item(plan, a->on, v->count, i, 2 * plan->n, &v->plan.taken_item[0], err);
}

/* Values and slopes, and what they may take the place of. Where a backward pass is run again, what
 * it reads stays. */
static int plan_values(struct plan *plan, struct err *err) {
    const struct program *p = plan->p;
    bool again = p->net->setup.measure.apart && p->net->output.loss_in_cotangent;
    for (int i = 0; i < plan->n; i++) {
        struct node *v = &p->node[i];
        if (!v->on || v->op->constant)
            continue;
        TRY(add_item(plan, v->on, v->count, i, v->plan.measured || again ? 2 * plan->n : i,
                     &v->plan.value_item, err));
        for (int k = 0; k < 2 && v->op->storage.value_in_place; k++) {
            const struct node *a = v->argument[k] < 0 ? NULL : &p->node[v->argument[k]];
            if (a && a->on == v->on && a->count == v->count && !a->expert.added)
                plan->item[v->plan.value_item].over[k] = a->plan.value_item;
        }
        if (v->op->storage.keeps_slope && v->plan.g_count)
            TRY(add_item(plan, v->on, v->count, i, again ? 2 * plan->n : back(plan, i),
                         &v->plan.slope_item, err));
        TRY(plan_taken(plan, i, err));
        if (v->expert.of && !v->expert.apart && v->plan.g_count == v->count)
            TRY(add_item(plan, v->on, v->count, back(plan, i),
                         v->matrix.map ? 2 * plan->n : back(plan, i), &v->plan.taken_item[1], err));
    }
    return CODE_OK;
}

/* The nodes of the backward pass of node i read values and slopes. */
static void use_in_reverse(struct plan *plan, int i) {
    const struct program *p = plan->p;
    for (int k = 0; k < 2; k++)
        for (int j = p->node[i].plan.part[k].begin; j < p->node[i].plan.part[k].end; j++)
            for (int l = 0; l < 2 && !adjoint_stands_for(&p->node[j]); l++)
                if (p->node[j].argument[l] >= 0)
                    use(plan, p->node[p->node[j].argument[l]].plan.value_item, back(plan, i));
}

/* When values are read, forward, in reverse and after all. */
static void use_values(struct plan *plan) {
    for (int i = 0; i < plan->n; i++) {
        const struct node *v = &plan->p->node[i];
        use_in_reverse(plan, i);
        for (int k = 0; k < 2; k++) {
            if (v->argument[k] < 0)
                continue;
            int item = plan->p->node[v->argument[k]].plan.value_item;
            use(plan, item, i);
            if (v->op->storage.learning_reads_argument &&
                (!v->matrix.map || net_keeps_rows(plan->p->net, v->matrix.map)))
                use(plan, item, 2 * plan->n);
        }
    }
}

/* The only part of the cotangent of v's argument k, a, is rows that are there. */
static bool passes(const struct plan *plan, const struct node *v, int k, const struct node *a) {
    const struct node *made_by = &plan->p->node[v->plan.part[k].node];
    return a->plan.parts == 1 && adjoint_stands_for(made_by) && a->plan.g_count == made_by->count;
}

/* Whether node v is a matrix that adds to a whole cotangent by itself. Neither where gates are nor
 * where a row may serve all inputs, so that the order of sums does not depend on what is measured.
 */
static bool adds(const struct plan *plan, const struct node *v, int count, int g_count) {
    const struct net *net = plan->p->net;
    return !v->expert.gated && count == g_count && net->output.loss_in_cotangent &&
           net_map_kind(net, &v->matrix.map->declared)->add_backward;
}

/* The item whose place node j, in reverse of node v, may take when it is the last to read it. */
static int item_read(const struct plan *plan, const struct node *v, int j, int argument) {
    const struct program *p = plan->p;
    const struct node *w = &p->node[j], *u = argument < 0 ? NULL : &p->node[argument];
    if (!u || u->on != w->on || u->count != w->count || adjoint_reads_later(p, v, j, argument))
        return NOWHERE;
    return adjoint_is_cotangent(p, &(struct part){.node = argument}) ? v->plan.g_item
           : adjoint_stands_for(u)                                   ? v->plan.slope_item
                                                                     : u->plan.value_item;
}

/* Where the nodes that make a part of node i write: where the part will be, if all that are behind
 * them work in place, else scratch. */
static int plan_adjoint(struct plan *plan, int i, const struct part *part, struct err *err) {
    struct program *p = plan->p;
    p->node[part->node].plan.value_item = part->item;
    for (int j = part->node; j >= part->begin; j--) {
        struct node *w = &p->node[j];
        if (adjoint_stands_for(w) || !w->on)
            continue;
        if (w->plan.value_item == NOWHERE)
            TRY(add_item(plan, w->on, w->count, back(plan, i), back(plan, i), &w->plan.value_item,
                         err));
        for (int k = 0; k < 2 && w->op->storage.value_in_place; k++) {
            struct node *u = w->argument[k] < 0 ? NULL : &p->node[w->argument[k]];
            if (u && w->argument[k] >= part->begin && !adjoint_stands_for(u) && u->on == w->on &&
                u->count == w->count)
                u->plan.value_item = w->plan.value_item;
            else
                plan->item[w->plan.value_item].over[k] =
                    item_read(plan, &p->node[i], j, w->argument[k]);
        }
    }
    return CODE_OK;
}

/* Scratch of node v: the part for argument k. */
static int plan_part(struct plan *plan, int i, int k, struct err *err) {
    struct node *v = &plan->p->node[i], *a = &plan->p->node[v->argument[k]];
    struct part *part = &v->plan.part[k];
    int step = back(plan, i), count = plan_part_rows(plan->p, v, k);
    if (!part->due)
        return CODE_OK;
    part->into = plan->p->node[part->node].plan.adds && !v->expert.of;
    if (!a->on)
        return CODE_OK;
    if (part->first && a->plan.g_item == NOWHERE) {
        if (passes(plan, v, k, a)) {
            a->plan.g_item = v->op->matrix == MATRIX_READ_OUT ? READ_OUT : v->plan.g_item;
            use(plan, a->plan.g_item, back(plan, v->argument[k]));
        } else
            TRY(add_item(plan, a->on, a->plan.g_count, step, back(plan, v->argument[k]),
                         &a->plan.g_item, err));
        if (a->plan.measured_g || a->plan.kept_g || a->op->storage.learning_reads_cotangent)
            use(plan, a->plan.g_item, 2 * plan->n);
    }
    bool stays = plan->p->net->setup.measure.check && v->matrix.map;
    part->into = part->into && (!v->matrix.map || adds(plan, v, count, a->plan.g_count));
    if ((part->into && !stays) || adjoint_stands_for(&plan->p->node[part->node]))
        return CODE_OK;
    if (part->first && count == a->plan.g_count && !stays)
        part->item = a->plan.g_item;
    else
        TRY(add_item(plan, a->on, count, step, stays ? 2 * plan->n : step, &part->item, err));
    return plan_adjoint(plan, i, part, err);
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
    int *list, steps = 2 * plan->n + 1, items = plan->items, code = CODE_OK;
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
    for (int i = 0; i < plan->n; i++) {
        struct node *v = &plan->p->node[i];
        v->value = rows_of(plan, v->plan.value_item);
        v->slope = rows_of(plan, v->plan.slope_item);
        v->g = rows_of(plan, v->plan.g_item);
        for (int k = 0; k < 2; k++)
            v->expert.taken[k] = rows_of(plan, v->plan.taken_item[k]);
        for (int k = 0; k < 2; k++)
            v->plan.part[k].rows = rows_of(plan, v->plan.part[k].item);
    }
    for (int i = plan->n; i < plan->p->all; i++)
        plan->p->node[i].value = rows_of(plan, plan->p->node[i].plan.value_item);
}

int plan_storage(struct net *net, struct err *err) {
    struct plan plan = {.p = net->program, .n = net->program->nodes};
    int code;
    plan.p->all = plan.n;
    DO(find_cotangents(plan.p, err));
    if (net->setup.measure.check)
        keep_values(plan.p);
    DO(selected_find(net, err));
    DO(plan_values(&plan, err));
    use_values(&plan);
    for (int i = plan.n - 1; i >= 0; i--)
        for (int k = 0; k < 2; k++)
            if (plan.p->node[i].argument[k] >= 0)
                DO(plan_part(&plan, i, k, err));
    DO(find_slots(&plan, err));
    hand_out(&plan);
done:
    free(plan.item);
    free(plan.slot);
    free(plan.shape);
    return code;
}
