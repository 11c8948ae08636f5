/* The verbs, and the numbers that follow from a declaration. */
#include "kernels/field.h"
#include "kernels/profile.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* Powers of the nominal infinite size are above 2^200 or below 2^-200; products of O(1) numbers are
 * nowhere near. */
static double surviving(double number) {
    assert(fabs(number) < 0x1p100);
    return fabs(number) < 0x1p-100 ? 0 : number;
}

void map_declare(struct map *map, struct map_declaration declared) {
    double r = declared.target->size / declared.source->size;
    double fg = declared.a0 * declared.s_f;
    *map = (struct map){.declared = declared};
    map->numbers = (struct map_numbers){
        .r = r,
        .fg = surviving(fg),
        .fr = surviving(fg / sqrt(r)),
    };
}

const struct map_kind *map_choose(const struct map_choice *choice,
                                  const struct map_declaration *declared) {
    if (choice->field)
        return &map_field;
    if (!choice->finite)
        return choice->by_entry ? &map_adam : &map_limit;
    return declared->a0 == 0 && choice->gradient ? &map_history : &map_finite;
}

double map_entries_bytes(const struct map *map) {
    return population_bytes(map->declared.source, 1) * (double)map->declared.target->sites;
}

int map_init(struct map *map, const struct map_kind *kind, struct map_declaration declared,
             double tolerance, struct rng_stream stream, struct err *err) {
    map_declare(map, declared);
    map->kind = kind;
    map->decay = 1;
    map->tolerance = tolerance;
    map->stream = stream;
    return kind->init(map, err);
}

int map_follow(struct map *map, const struct map *leader, struct err *err) {
    const struct population *source = map->declared.source;
    if (!map->leader)
        array_free(&map->q);
    map->leader = leader;
    map->q = (struct array){0};
    return leader ? CODE_OK
                  : array_init(&map->q, source->backend, source->sites, source->group, 0, err);
}

void map_free(struct map *map) {
    array_free(&map->W);
    array_free(&map->work);
    if (!map->leader)
        array_free(&map->q);
    array_free(&map->e);
    array_free(&map->Z);
    array_free(&map->p);
    array_free(&map->normals);
    free(map->R);
    free(map->E);
    free(map->C);
    free(map->Y);
    map->R = map->E = map->C = map->Y = NULL;
    for (int k = 0; k < MAP_STAGES; k++) {
        array_free(&map->stage[k].x);
        array_free(&map->stage[k].y);
        free(map->stage[k].R);
        map->stage[k].R = NULL;
    }
    field_free(map->field);
    map->field = NULL;
    if (map->start)
        map_free(map->start);
    free(map->start);
    map->start = NULL;
}

/* Draws are a matter of the stream alone; where W(0) = 0 no entries are needed. */
int map_remember(struct map *map, struct err *err) {
    const struct map_kind *kind = map->declared.a0 == 0 ? &map_history : &map_finite;
    TRY(base_alloc(&map->start, 1, sizeof *map->start, err));
    return map_init(map->start, kind, map->declared, map->tolerance, map->stream, err);
}

int map_start(const struct map *map, bool forward, struct rows in, struct rows out,
              struct err *err) {
    struct map *start = map->start;
    return (forward ? start->kind->forward : start->kind->backward)(start, in, out, err);
}

int map_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    assert(x.count == out.count);
    map->x = x;
    int before = profile_enter(map->declared.name, "forward");
    int code = map->kind->forward(map, x, out, err);
    profile_leave(before);
    return code;
}

int map_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    assert(y.count == out.count);
    int before = profile_enter(map->declared.name, "backward");
    int code = map->kind->backward(map, y, out, err);
    profile_leave(before);
    return code;
}

int map_keep(struct map *map, int k, struct rows y, struct err *err) {
    assert(y.count == map->x.count || y.count == 1);
    map->stage[k].P = map->x.count;
    return map->kind->keep(map, &map->stage[k], y, err);
}

void map_products(const struct map *map, struct rows y, double *X, double *Y) {
    map->kind->products(map, y, X, Y);
}

int map_learn(struct map *map, int k, const double *c, struct err *err) {
    struct change change;
    int before = profile_enter(map->declared.name, "learn"), code;
    if (map->kind->learn)
        code = map->kind->learn(map, &map->stage[k], c, err);
    else if (!(code = map_change(map, k, c, &change, err)))
        change_apply(&change);
    profile_leave(before);
    return code;
}

int map_change(struct map *map, int k, const double *c, struct change *change, struct err *err) {
    return map->kind->change(map, &map->stage[k], c, change, err);
}

void map_decay(struct map *map, double factor) {
    map->decay *= factor;
    rows_scale(factor, array_all(&map->W));
}

void map_mark(struct map *map, struct map_mark *mark) {
    assert(!map->field);
    *mark = (struct map_mark){map->x,   map->q.rows, map->Z.rows, map->normals.rows,
                              map->met, map->R,      map->E};
    map->R = map->E = NULL;
}

void map_return(struct map *map, const struct map_mark *mark) {
    free(map->R);
    free(map->E);
    map->x = mark->x;
    if (map->leader) /* its basis may have moved */
        map->q = map->leader->q;
    map->q.rows = mark->q;
    map->Z.rows = mark->Z;
    map->normals.rows = mark->normals;
    map->met = mark->met;
    map->R = mark->R;
    map->E = mark->E;
}

int map_keep_rows(struct map *map, struct stage *stage, struct rows y, struct err *err) {
    TRY(array_keep(&stage->x, map->x, err));
    return array_keep(&stage->y, y, err);
}

void map_products_rows(const struct map *map, struct rows y, double *X, double *Y) {
    y.array->backend->dots(map->x, map->x, X);
    y.array->backend->dots(y, y, Y);
}
