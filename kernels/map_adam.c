/* The infinite-width limit of a map whose entries learn one by one (Adam): W(0) conditioned on its
 * past as in map_limit.c, and beside it the learned part D over the sites of both sides (map.h). A
 * sum over neurons j of D_ij x_j is the average over independent sites of both populations of a
 * function of their histories: product Monte Carlo. */
#include "kernels/map.h"

static int adam_init(struct map *map, struct err *err) {
    const struct population *t = map->declared.target;
    TRY(array_init(&map->work, t->backend, t->sites, t->group, 0, err));
    return map_limit.init(map, err);
}

static int adam_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    if (map->declared.a0 != 0) {
        TRY(map_limit.forward(map, x, out, err));
        rows_scale(map->decay, out);
    } else
        rows_zero(out);
    if (!map->W.rows)
        return CODE_OK;
    TRY(array_reserve(&map->work, x.count, err));
    struct rows learned = array_rows(&map->work, 0, x.count);
    TRY(map_finite_forward(map, 1, x, learned, err));
    rows_add(NULL, learned, out);
    return CODE_OK;
}

static int adam_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    if (map->declared.a0 != 0) {
        TRY(map_limit.backward(map, y, out, err));
        rows_scale(map->decay, out);
    } else
        rows_zero(out);
    if (!map->W.rows)
        return CODE_OK;
    double n = (double)map->declared.target->sites;
    return map_finite_backward(map, 1 / n, y, 1, out, err);
}

static int adam_change(struct map *map, const struct stage *stage, const double *c,
                       struct change *change, struct err *err) {
    const struct population *s = map->declared.source, *t = map->declared.target;
    if (!map->W.rows) {
        TRY(array_init(&map->W, s->backend, s->sites, s->group, (int)t->sites, err));
        rows_zero(array_all(&map->W));
    }
    return map_finite_change(map, stage, c, 1, change, err);
}

static int adam_initial(const struct map *map, bool forward, struct rows in, struct rows out,
                        struct err *err) {
    if (map->declared.a0 != 0)
        return map_limit.initial(map, forward, in, out, err);
    rows_zero(out);
    return CODE_OK;
}

/* What is learnt is kept by the optimizer's own count (models/net/costs.c). */
static double adam_bytes(const struct map *map, const struct map_costs *costs) {
    return map->declared.a0 != 0 ? map_limit.bytes(map, costs) : 0;
}

const struct map_kind map_adam = {
    .init = adam_init,
    .forward = adam_forward,
    .backward = adam_backward,
    .keep = map_keep_rows,
    .products = map_products_rows,
    .change = adam_change,
    .initial = adam_initial,
    .bytes = adam_bytes,
};
