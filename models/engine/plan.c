/* Where the rows of a program are kept (node.h). */
#include "models/engine/node.h"

#include <stdlib.h>

enum { NOWHERE = -1, READ_OUT = -2 }; /* places of a cotangent: none, the columns of the read-out */

struct item {
    const struct population *on;
    int count, start, end, over[2], slot;
};

/* An array and the item that has it now. */
struct slot {
    struct rows rows;
    int item;
};

struct plan {
    struct program *p;
    struct item *item;
    struct slot *slot;
    int items, slots, n;
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

/* Rows of the part of the cotangent that node v hands to argument k. */
static int part_count(const struct program *p, const struct node *v, int k) {
    return v->op->part_rows ? v->op->part_rows(p, v, k) : v->plan.g_count;
}

/* Which cotangents there are, with how many rows, and who is first to add to them. */
static int find_cotangents(struct program *p, struct err *err) {
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
        if (!v->plan.g_count && i != p->read_out && !v->op->starts_backward)
            continue;
        for (int k = 0; k < 2; k++) {
            struct node *a = v->argument[k] < 0 ? NULL : &p->node[v->argument[k]];
            if (!a || !a->plan.moves)
                continue;
            v->plan.part[k].due = true;
            v->plan.part[k].first = !a->plan.parts++;
            a->plan.g_count = a->on ? larger(a->plan.g_count, part_count(p, v, k)) : 1;
        }
    }
    return CODE_OK;
}

/* The coordinate check reads what matrices read and write; and the hidden layer of experts. */
static void keep_values(struct program *p) {
    const struct mixture *mixture = &p->mixture;
    for (int i = 0; i < p->nodes; i++) {
        struct node *v = &p->node[i];
        v->plan.measured |= v->matrix.map || v->op->matrix == MATRIX_READ_IN;
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
            if (a && a->on == v->on && a->count == v->count)
                plan->item[v->plan.value_item].over[k] = a->plan.value_item;
        }
        if (v->op->storage.keeps_slope && v->plan.g_count)
            TRY(add_item(plan, v->on, v->count, i, again ? 2 * plan->n : back(plan, i),
                         &v->plan.slope_item, err));
    }
    return CODE_OK;
}

/* When values are read, forward, in reverse and after all. */
static void use_values(struct plan *plan) {
    for (int i = 0; i < plan->n; i++) {
        const struct node *v = &plan->p->node[i];
        for (int k = 0; k < 2; k++) {
            if (v->argument[k] < 0)
                continue;
            int item = plan->p->node[v->argument[k]].plan.value_item;
            use(plan, item, i);
            if (v->op->storage.backward_reads_arguments && v->plan.part[1 - k].due)
                use(plan, item, back(plan, i));
            if (v->op->storage.backward_reads_value && v->plan.g_count)
                use(plan, v->plan.value_item, back(plan, i));
            if (v->op->storage.learning_reads_argument &&
                (!v->matrix.map || net_keeps_rows(plan->p->net, v->matrix.map)))
                use(plan, item, 2 * plan->n);
        }
    }
}

/* The only part of argument a's cotangent is v's own cotangent, as it is. */
static bool passes(const struct plan *plan, const struct node *v, const struct node *a) {
    bool read_out = v->op->matrix == MATRIX_READ_OUT;
    if (read_out && plan->p->net->output.loss_in_cotangent)
        return false;
    return a->plan.parts == 1 && (read_out || v->op->storage.backward_is_identity) &&
           a->plan.g_count == (read_out ? 1 : v->plan.g_count);
}

/* Scratch of node v: the part for argument k, and a product over units before it is averaged. */
static int plan_part(struct plan *plan, int i, int k, struct err *err) {
    struct node *v = &plan->p->node[i], *a = &plan->p->node[v->argument[k]];
    struct part *part = &v->plan.part[k];
    int step = back(plan, i), count = part_count(plan->p, v, k);
    if (!part->due || !a->on)
        return CODE_OK;
    if (part->first && a->plan.g_item == NOWHERE) {
        if (passes(plan, v, a)) {
            a->plan.g_item = v->op->matrix == MATRIX_READ_OUT ? READ_OUT : v->plan.g_item;
            use(plan, a->plan.g_item, back(plan, v->argument[k]));
        } else
            TRY(add_item(plan, a->on, a->plan.g_count, step, back(plan, v->argument[k]),
                         &a->plan.g_item, err));
        if (a->plan.measured_g || a->plan.kept_g || a->op->storage.learning_reads_cotangent)
            use(plan, a->plan.g_item, 2 * plan->n);
    }
    if (v->op->storage.accumulates_itself)
        return CODE_OK;
    bool stays = plan->p->net->setup.measure.check && v->matrix.map;
    if (part->first && count == a->plan.g_count && !stays)
        part->item = a->plan.g_item;
    else
        TRY(add_item(plan, a->on, count, step, stays ? 2 * plan->n : step, &part->item, err));
    bool last = k == 1 || !v->plan.part[1].due;
    if (v->op->storage.cotangent_in_place && last && a->on == v->on && v->plan.g_count == count)
        plan->item[part->item].over[0] = v->plan.g_item;
    if (!v->op->grouped_factor || k == 1)
        return CODE_OK;
    struct node *b = &plan->p->node[v->argument[1]];
    int *product = a->on == v->on ? &part->item : &v->plan.work_item;
    if (a->on != v->on)
        TRY(add_item(plan, v->on, count, step, step, &v->plan.work_item, err));
    if (b->count == count && a != b)
        plan->item[*product].over[1] = b->plan.value_item;
    return CODE_OK;
}

static bool takes_over(const struct plan *plan, int item, int former) {
    const struct item *now = &plan->item[item], *before = &plan->item[former];
    bool after = before->end < now->start;
    return after ||
           (before->end == now->start && (now->over[0] == former || now->over[1] == former));
}

static int find_slot(struct plan *plan, int i, struct err *err) {
    struct item *item = &plan->item[i];
    for (int k = 0; k < plan->slots; k++) {
        struct slot *slot = &plan->slot[k];
        const struct array *array = slot->rows.array;
        if (array->sites != item->on->sites || array->group != item->on->group ||
            slot->rows.count != item->count || !takes_over(plan, i, slot->item))
            continue;
        slot->item = i;
        item->slot = k;
        return CODE_OK;
    }
    struct slot *slot = base_grow(&plan->slot, &plan->slots, sizeof *slot, err);
    if (!slot)
        return err->code;
    item->slot = plan->slots - 1;
    slot->item = i;
    return net_rows(plan->p->net, item->on, item->count, &slot->rows, err);
}

/* Items in the order of their first steps, each into the first slot that is free. */
static int find_slots(struct plan *plan, struct err *err) {
    int *next, *head, steps = 2 * plan->n, code = CODE_OK;
    TRY(base_alloc(&head, (size_t)(steps + plan->items), sizeof *head, err));
    next = head + steps;
    for (int i = plan->items - 1; i >= 0; i--) {
        int *at = &head[plan->item[i].start];
        next[i] = *at - 1;
        *at = i + 1;
    }
    for (int step = 0; step < steps; step++)
        for (int i = head[step] - 1; i >= 0; i = next[i])
            DO(find_slot(plan, i, err));
done:
    free(head);
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
        v->work = rows_of(plan, v->plan.work_item);
        for (int k = 0; k < 2; k++)
            v->plan.part[k].rows = rows_of(plan, v->plan.part[k].item);
    }
}

int plan_storage(struct net *net, struct err *err) {
    struct plan plan = {.p = net->program, .n = net->program->nodes};
    int code;
    DO(find_cotangents(plan.p, err));
    if (net->setup.measure.check)
        keep_values(plan.p);
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
    return code;
}
