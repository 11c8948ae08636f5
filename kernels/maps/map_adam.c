/* The infinite-width limit of a map whose entries learn one by one (Adam): W(0) conditioned on its
 * past as in map_limit.c, and beside it the learned part D over the sites of both sides (map.h). A
 * sum over neurons j of D_ij x_j is the average over independent sites of both populations of a
 * function of their histories: product Monte Carlo. */
#include "kernels/maps/map_limit.h"
#include "kernels/maps/map_finite.h"

static int adam_init(struct map *map, struct err *err) {
    const struct population *t = map->declared.target;
    struct adam_state *adam = adam_of(map);
    TRY(array_init(&adam->work, t->backend, t->sites, t->group, 0, err));
    return map_limit.init(map, err);
}

static void adam_free(struct map *map) {
    map_limit.free(map);
    array_free(&adam_of(map)->D);
    array_free(&adam_of(map)->work);
}

/* What W(0) makes, in one direction. */
static int start_part(struct map *map, bool forward, struct rows in, struct rows out,
                      struct err *err) {
    if (map->declared.a0 != 0)
        return (forward ? map_limit.forward : map_limit.backward)(map, in, out, err);
    rows_zero(out);
    return CODE_OK;
}

static int adam_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    struct adam_state *adam = adam_of(map);
    TRY(start_part(map, true, x, out, err));
    if (!adam->D.rows)
        return CODE_OK;
    TRY(array_reserve(&adam->work, x.count, err));
    struct rows learned = array_rows(&adam->work, 0, x.count);
    TRY(rows_times(1, array_all(&adam->D), x, learned, err));
    rows_add(NULL, learned, out);
    return CODE_OK;
}

static int adam_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    const struct array *D = &adam_of(map)->D;
    double n = (double)map->declared.target->sites;
    TRY(start_part(map, false, y, out, err));
    return D->rows ? map_entries_backward(D, 1 / n, y, 1, out, err) : CODE_OK;
}

static int adam_change(struct map *map, int k, const double *c, struct change *change,
                       struct err *err) {
    struct array *D = &adam_of(map)->D;
    const struct population *s = map->declared.source, *t = map->declared.target;
    if (!D->rows) {
        TRY(array_init(D, s->backend, s->sites, s->group, (int)t->sites, err));
        rows_zero(array_all(D));
    }
    return map_entries_change(map, D, k, c, 1, change, err);
}

static void adam_decay(struct map *map, double factor) {
    map_limit.decay(map, factor);
    rows_scale(factor, array_all(&adam_of(map)->D));
}

static int adam_archive(struct map *map, struct archive *archive, struct err *err) {
    struct adam_state *adam = adam_of(map);
    TRY(map_limit.archive(map, archive, err));
    const struct population *s = map->declared.source;
    TRY(archive_array(archive, &adam->D, s->backend, err));
    if (!adam->D.memory) /* it has not learnt yet */
        return CODE_OK;
    return archive_expect(archive, &adam->D, s->sites, s->group, (int)map->declared.target->sites,
                          err);
}

static int adam_initial(const struct map *map, int use, bool forward, struct rows in,
                        struct rows out, struct err *err) {
    if (map->declared.a0 != 0)
        return map_limit.initial(map, use, forward, in, out, err);
    rows_zero(out);
    return CODE_OK;
}

/* What is learnt is kept by the optimizer's own count (models/engine/costs.c). */
static double adam_bytes(const struct map *map, const struct map_costs *costs) {
    return map->declared.a0 != 0 ? map_limit.bytes(map, costs) : 0;
}

MAP_KIND(adam, struct adam_state, .keep = map_keep_rows, .products = map_products_rows,
         .change = adam_change, .decay = adam_decay, .archive = adam_archive,
         .initial = adam_initial, .bytes = adam_bytes);
