/* What is asked of a map's bases from outside, and passes that leave no trace in them. */
#include "kernels/maps/map_limit.h"

int map_follow(struct map *map, const struct map *leader, struct err *err) {
    const struct population *source = map->declared.source;
    struct limit_state *limit = limit_of(map);
    if (!limit->leader)
        array_free(&limit->q);
    limit->leader = leader;
    limit->q = (struct array){0};
    return leader ? CODE_OK
                  : array_init(&limit->q, backend_main(source->backend), source->sites,
                               source->group, 0, err);
}

int map_rank(const struct map *map, bool forward) {
    if (!map_has_bases(map))
        return 0;
    return forward ? limit_of(map)->q.rows : limit_of(map)->p.rows;
}

/* What passes of one direction add to: rows of the basis and of its normals; beside these the
 * normals in Z alone (forward), or what is learned at p (backward); and two tables of coefficients
 * with their numbers of columns. */
struct direction {
    struct array *basis, *normals, *beside;
    double **on_basis, **on_other;
    int *basis_count, *other_count;
};

static struct direction direction_of(struct limit_state *limit, bool forward) {
    if (forward)
        return (struct direction){&limit->q,   &limit->Z,       &limit->normals, &limit->x_q,
                                  &limit->x_e, &limit->q_count, &limit->e_count};
    return (struct direction){&limit->p,         &limit->e,       &limit->K,           &limit->y_p,
                              &limit->y_normals, &limit->p_count, &limit->normal_count};
}

void map_set_aside(struct map *map, bool forward, struct map_aside *aside) {
    *aside = (struct map_aside){
        .forward = forward, .x = map->x, .now = map->terms ? map->terms->now : 0};
    if (!map_has_bases(map))
        return;
    struct limit_state *limit = limit_of(map);
    struct direction d = direction_of(limit, forward);
    aside->basis = d.basis->rows;
    aside->normals = d.normals->rows;
    aside->beside = d.beside->rows;
    aside->basis_count = *d.basis_count;
    aside->other_count = *d.other_count;
    aside->largest = limit->largest[forward];
    aside->on_basis = *d.on_basis;
    aside->on_other = *d.on_other;
    *d.on_basis = *d.on_other = NULL;
}

void map_put_back(struct map *map, const struct map_aside *aside) {
    map->x = aside->x;
    if (map->terms)
        map->terms->now = aside->now;
    if (!map_has_bases(map))
        return;
    struct limit_state *limit = limit_of(map);
    struct direction d = direction_of(limit, aside->forward);
    backend_arrive(map->declared.source->backend, NULL, 0);
    free(*d.on_basis);
    free(*d.on_other);
    if (limit->leader) /* its basis may have moved */
        limit->q = limit_of(limit->leader)->q;
    d.basis->rows = aside->basis;
    d.normals->rows = aside->normals;
    d.beside->rows = aside->beside;
    *d.basis_count = aside->basis_count;
    *d.other_count = aside->other_count;
    limit->largest[aside->forward] = aside->largest;
    *d.on_basis = aside->on_basis;
    *d.on_other = aside->on_other;
}
