/* Part of a program once more. The operations are those of the executor; every node in reach has
 * rows of its own, shaped as in the net, and every cotangent starts at zero and is added to. */
#include "models/engine/replay.h"

#include <stdlib.h>
#include <string.h>

static int new_rows(struct replay *r, struct rows *rows, struct err *err) {
    const struct array *like = rows->array;
    if (!like)
        return CODE_OK;
    struct array **added = base_grow(&r->array, &r->arrays, sizeof *added, err);
    if (!added)
        return err->code;
    TRY(base_alloc(added, 1, sizeof **added, err));
    TRY(array_init(*added, like->backend, like->sites, like->group, rows->count, err));
    *rows = array_all(*added);
    return CODE_OK;
}

static int new_vector(struct replay *r, size_t count, double **vector, struct err *err) {
    if (!*vector)
        return CODE_OK;
    double **added = base_grow(&r->vector, &r->vectors, sizeof *added, err);
    if (!added)
        return err->code;
    TRY(base_alloc(added, count, sizeof **added, err));
    *vector = *added;
    return CODE_OK;
}

static int copy_node(struct replay *r, int i, struct err *err) {
    struct node *v = &r->program.node[i];
    size_t count = (size_t)v->count * (size_t)v->K;
    if (v->op->constant)
        return CODE_OK;
    struct rows *all[] = {
        &v->value, &v->slope, &v->g, &v->work, &v->plan.part[0].rows, &v->plan.part[1].rows};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        TRY(new_rows(r, all[k], err));
    TRY(new_vector(r, count, &v->s, err));
    TRY(new_vector(r, count, &v->gs, err));
    if (v->constant.groups > 1)
        TRY(new_vector(r, count * (size_t)v->constant.groups, &v->A, err));
    for (int k = 0; k < 2; k++)
        for (int j = v->plan.part[k].begin; j < v->plan.part[k].end; j++)
            if (j != v->plan.part[k].node)
                TRY(new_rows(r, &r->program.node[j].value, err));
    v->plan.g_item = i;
    for (int k = 0; k < 2; k++) {
        v->plan.part[k].item = -1;
        v->plan.part[k].first = false;
    }
    if (!v->matrix.thin)
        return CODE_OK;
    r->start[i].population = v->matrix.thin->population;
    return array_keep(&r->start[i].W, array_all(&v->matrix.thin->W), err);
}

int replay_init(struct replay *r, const struct net *net, int first, int last, struct err *err) {
    size_t nodes = (size_t)net->program->all;
    *r = (struct replay){.first = first, .last = last};
    r->view = *net;
    r->program = *net->program;
    r->program.node = NULL;
    r->program.c = NULL;
    TRY(base_alloc(&r->program.node, nodes, sizeof *r->program.node, err));
    memcpy(r->program.node, net->program->node, nodes * sizeof *r->program.node);
    TRY(base_alloc(&r->start, nodes, sizeof *r->start, err));
    TRY(base_alloc(&r->given, nodes, sizeof *r->given, err));
    TRY(base_alloc(&r->active, nodes, sizeof *r->active, err));
    TRY(base_alloc(&r->program.c, (size_t)net->batch.rows * (size_t)net->setup.data.n,
                   sizeof *r->program.c, err));
    for (int i = first; i <= last; i++)
        TRY(copy_node(r, i, err));
    return CODE_OK;
}

void replay_free(struct replay *r) {
    for (int k = 0; k < r->arrays && r->array[k]; k++) { /* NULL where memory ran out */
        array_free(r->array[k]);
        free(r->array[k]);
    }
    for (int k = 0; k < r->vectors; k++)
        free(r->vector[k]);
    for (int i = r->first; r->start && i <= r->last; i++)
        thin_free(&r->start[i]);
    void *const lists[] = {r->array, r->vector, r->program.node, r->program.c,
                           r->start, r->given,  r->active};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        free(lists[k]);
    *r = (struct replay){0};
}

int replay_archive(struct replay *r, struct archive *archive, struct err *err) {
    for (int i = r->first; i <= r->last; i++) {
        struct array *W = &r->start[i].W;
        int rows = W->rows;
        if (!W->memory)
            continue;
        TRY(archive_array(archive, W, W->backend, err));
        TRY(archive_expect(archive, W, W->sites, W->group, rows, err));
    }
    return CODE_OK;
}

void replay_begin(struct replay *r, const struct net *net) {
    r->view = *net;
    r->view.program = &r->program;
    for (int i = r->first; i <= r->last; i++) {
        struct node *v = &r->program.node[i];
        r->given[i] = r->active[i] = false;
        if (v->g.array)
            rows_zero(v->g);
        if (v->gs)
            memset(v->gs, 0, node_numbers(v) * sizeof *v->gs);
    }
}

void replay_give(struct replay *r, const struct net *net, int node) {
    const struct node *from = &net->program->node[node];
    struct node *to = replay_node(r, node);
    if (from->on)
        rows_copy(from->value, to->value);
    else
        memcpy(to->s, from->s, node_numbers(from) * sizeof *to->s);
    r->active[node] = false;
}

struct node *replay_node(struct replay *r, int node) {
    r->given[node] = r->active[node] = true;
    return &r->program.node[node];
}

/* Its matrix as it was or as it is, while an operation runs, which leaves no trace in it. */
static int run(struct replay *r, int i, bool initial,
               int (*operation)(struct net *, struct node *, struct err *), struct err *err) {
    struct node *v = &r->program.node[i];
    struct map *map = v->matrix.map;
    struct thin *thin = v->matrix.thin;
    struct rows x = {0}, of_all_uses[2] = {{0}, {0}};
    if (map) {
        x = map->x;
        memcpy(of_all_uses, map->of_all_uses, sizeof of_all_uses);
        map_stack_uses(map, (struct rows){0}, (struct rows){0});
    }
    if (initial && map)
        v->matrix.map = map->start;
    if (initial && thin)
        v->matrix.thin = &r->start[i];
    int code = operation(&r->view, v, err);
    if (map) {
        map->x = x;
        map_stack_uses(map, of_all_uses[0], of_all_uses[1]);
    }
    v->matrix.map = map;
    v->matrix.thin = thin;
    return code;
}

int replay_forward(struct replay *r, bool initial, int target, struct err *err) {
    memset(r->active, 0, (size_t)r->program.nodes * sizeof *r->active);
    r->active[target] = true;
    for (int i = target; i >= r->first; i--)
        for (int k = 0; k < 2 && r->active[i] && !r->given[i]; k++)
            if (r->program.node[i].argument[k] >= 0)
                r->active[r->program.node[i].argument[k]] = true;
    for (int i = r->first; i <= target; i++)
        if (r->active[i] && !r->given[i] && !r->program.node[i].op->constant)
            TRY(run(r, i, initial, node_forward, err));
    memset(r->active, 0, (size_t)r->program.nodes * sizeof *r->active);
    return CODE_OK;
}

/* What was given stops it, but for the nodes where it begins. */
int replay_backward(struct replay *r, bool initial, struct err *err) {
    for (int i = r->last; i >= r->first; i--) {
        const struct node *v = &r->program.node[i];
        if (!r->active[i])
            continue;
        TRY(run(r, i, initial, node_backward, err));
        for (int k = 0; k < 2; k++) {
            int a = v->argument[k];
            if (a >= r->first && v->plan.part[k].due && !r->given[a])
                r->active[a] = true;
        }
    }
    return CODE_OK;
}
