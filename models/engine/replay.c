/* Part of a program once more. The nodes are those of the executor; every one in reach has rows of
 * its own, shaped as in the net, and those of the backward pass start at zero. */
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

/* The node as its author wrote it whose pass, in either direction, node i belongs to. */
static int author_of(const struct program *p, int i) {
    return p->node[i].of < 0 ? i : p->node[i].of;
}

static bool in_reach(const struct replay *r, int i) {
    int of = author_of(&r->program, i);
    return of >= r->first && of <= r->last;
}

/* Nodes in reach have rows of their own, and so have cotangents and sums of the backward pass that
 * they read, where they begin outside of it. */
static void find_own(struct replay *r) {
    for (int i = 0; i < r->program.all; i++) {
        const struct node *v = &r->program.node[i];
        const int read[] = {v->argument[0], v->argument[1], v->onto, v->plan.g};
        r->own[i] = r->own[i] || in_reach(r, i);
        for (size_t k = 0; k < sizeof read / sizeof *read && in_reach(r, i); k++)
            if (read[k] >= r->program.nodes)
                r->own[read[k]] = true;
    }
}

static int copy_node(struct replay *r, int i, struct err *err) {
    struct node *v = &r->program.node[i];
    if (!r->own[i] || (v->op->constant && v->of < 0))
        return CODE_OK;
    TRY(new_rows(r, &v->value, err));
    TRY(new_rows(r, &v->work, err));
    if (v->on || v->K)
        v->s = v->on ? NULL : counted_numbers(v->value);
    else
        TRY(new_vector(r, 1, &v->s, err)); /* of a penalty */
    if (!v->matrix.thin || v->of >= 0)
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
    TRY(base_alloc(&r->own, nodes, sizeof *r->own, err));
    TRY(base_alloc(&r->program.c, (size_t)net->batch.rows * (size_t)net->setup.data.n,
                   sizeof *r->program.c, err));
    find_own(r);
    for (int i = 0; i < r->program.all; i++)
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
                           r->start, r->given,  r->active,       r->own};
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

/* Slopes are those of the last forward pass. */
void replay_begin(struct replay *r, const struct net *net) {
    r->view = *net;
    r->view.program = &r->program;
    memset(r->given, 0, (size_t)r->program.all * sizeof *r->given);
    memset(r->active, 0, (size_t)r->program.all * sizeof *r->active);
    for (int i = r->program.nodes; i < r->program.all; i++) {
        struct node *v = &r->program.node[i];
        if (!r->own[i] || v->plan.forward)
            continue;
        rows_zero(v->value);
    }
}

void replay_give(struct replay *r, const struct net *net, int node) {
    rows_copy(net->program->node[node].value, replay_node(r, node)->value);
    r->active[node] = false;
}

struct node *replay_node(struct replay *r, int node) {
    r->given[node] = r->active[node] = true;
    return &r->program.node[node];
}

/* Its matrix as it was or as it is, while a node runs, which leaves no trace in it. */
static int run_node(struct replay *r, int i, bool initial, struct err *err) {
    struct node *v = &r->program.node[i];
    struct node_matrix now = v->matrix;
    struct map *map = now.map;
    struct rows x = {0}, of_all_uses[2] = {{0}, {0}};
    if (map) {
        x = map->x;
        memcpy(of_all_uses, map->of_all_uses, sizeof of_all_uses);
        map_stack_uses(map, (struct rows){0}, (struct rows){0});
    }
    if (initial && map)
        v->matrix.map = map->start;
    if (initial && now.thin)
        v->matrix.thin = &r->start[author_of(&r->program, i)];
    int code = node_run(&r->view, v, err);
    if (map) {
        map->x = x;
        map_stack_uses(map, of_all_uses[0], of_all_uses[1]);
    }
    v->matrix = now;
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
            TRY(run_node(r, i, initial, err));
    memset(r->active, 0, (size_t)r->program.nodes * sizeof *r->active);
    return CODE_OK;
}

/* Whether node i has the whole cotangent of an argument of `of`, where the pass begins. */
static bool is_given(const struct replay *r, int i, const struct node *of) {
    bool given = false;
    for (int k = 0; k < 2; k++)
        given =
            given || (of->argument[k] >= 0 && r->given[of->argument[k]] &&
                      r->active[of->argument[k]] && r->program.node[of->argument[k]].plan.g == i);
    return given;
}

/* Runs a node of the backward pass. A sum stays as it is where nothing is added, and cotangents at
 * which the pass begins are there already. */
static int run_back(struct replay *r, int i, bool initial, struct err *err) {
    struct program *p = &r->program;
    const struct node *v = &p->node[i], *of = &p->node[v->of];
    bool active = r->active[v->of], completes = i < of->plan.begin;
    if (!active && !completes && v->onto >= 0 && !is_given(r, i, of))
        rows_copy(p->node[v->onto].value, v->value);
    if (completes ? active && r->given[v->of] : !active)
        return CODE_OK;
    for (int k = 0; k < 2 && !completes; k++)
        if (of->argument[k] >= r->first && of->plan.part[k] >= 0 && !r->given[of->argument[k]])
            r->active[of->argument[k]] = true;
    return v->argument[0] < 0 ? CODE_OK : run_node(r, i, initial, err);
}

/* What was given stops it, but for the nodes where it begins. */
int replay_backward(struct replay *r, bool initial, struct err *err) {
    for (int i = r->program.nodes; i < r->program.all; i++)
        if (in_reach(r, i))
            TRY(run_back(r, i, initial, err));
    return CODE_OK;
}
