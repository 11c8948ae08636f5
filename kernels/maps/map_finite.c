/* The explicit matrix of a finite network: W = a0 W(0) + (learned part)/s_f, n rows over the m
 * source sites, used as s_f W, and backward as s_f W^T/r. */
#include "kernels/maps/map_finite.h"

static size_t target_sites(const struct map *map) {
    return map->declared.target->sites;
}

static size_t source_sites(const struct map *map) {
    return map->declared.source->sites;
}

/* Row by row from its stream, some rows at a time: a tenth of a second. */
static int draw_matrix(const struct map *map, const struct array *W, struct err *err) {
    const struct stop *stop = map->settings.stop;
    int n = W->rows, some = 1 + (int)(((size_t)1 << 22) / source_sites(map));
    for (int k = 0; k < n; k += some) {
        struct rng_stream stream = map->settings.stream;
        stream.draw += (uint32_t)k;
        TRY(base_go_on(stop, err));
        W->backend->normals(array_rows(W, k, some < n - k ? some : n - k), stream);
    }
    return CODE_OK;
}

static int finite_init(struct map *map, struct err *err) {
    const struct population *source = map->declared.source;
    struct array *W = &finite_of(map)->W;
    TRY(array_init(W, source->backend, source_sites(map), source->group, (int)target_sites(map),
                   err));
    TRY(draw_matrix(map, W, err));
    rows_scale(map->declared.a0 / sqrt((double)source_sites(map)), array_all(W));
    return CODE_OK;
}

static void finite_free(struct map *map) {
    array_free(&finite_of(map)->W);
}

/* Which of the rows are not 0 everywhere, in order, to be freed; how many. Rows of an expert that
 * no input has selected are 0, and what follows from them need not be computed. All of them count
 * as live where too few are 0 for that to pay. */
static int find_live(struct rows rows, int **which, int *found, struct err *err) {
    FREED(base_free) double *is_live = NULL;
    int *live;
    TRY(base_alloc_unset(which, (size_t)rows.count, sizeof **which, err));
    TRY(base_alloc_unset(&is_live, (size_t)rows.count, sizeof *is_live, err));
    live = *which;
    rows_look_live(rows, is_live);
    *found = 0;
    for (int mu = 0; mu < rows.count; mu++)
        if (is_live[mu] != 0)
            live[(*found)++] = mu;
    if (8 * *found > 7 * rows.count)
        *found = rows.count;
    return CODE_OK;
}

/* Copies of some rows, in the place of what the array had. */
static int keep_some(struct array *copy, struct rows rows, const int *which, int count,
                     struct err *err) {
    struct rows kept;
    if (!copy->memory)
        TRY(array_init(copy, rows.array->backend, rows.array->sites, rows.array->group, count,
                       err));
    copy->rows = 0;
    TRY(array_append(copy, count, &kept, err));
    rows_take(rows, which, kept);
    return CODE_OK;
}

int map_entries_backward(const struct array *W, double scale, struct rows y, double beta,
                         struct rows out, struct err *err) {
    struct coefficients C = {.rows = y, .scale = scale};
    FREED(array_free) struct array few = {0};
    FREED(base_free) int *live = NULL;
    int count = y.count;
    if (beta == 0 && count > 1)
        TRY(find_live(y, &live, &count, err));
    if (count < y.count) {
        TRY(keep_some(&few, y, live, count, err));
        C.rows = array_all(&few);
    }
    TRY(rows_combine(rows_part(out, 0, count), beta, C, array_all(W), err));
    if (count < y.count)
        rows_spread(out, live, count);
    return CODE_OK;
}

int map_entries_change(const struct map *map, const struct array *W, int k, const double *c,
                       double s, struct change *change, struct err *err) {
    const struct stage *stage = &map->stage[k];
    int each = map_each(&map->declared, true);
    struct rows x = stage->read[0];
    double *some;
    TRY(base_alloc_unset(&some, (size_t)x.count, sizeof *some, err));
    for (int mu = 0; mu < x.count; mu++)
        some[mu] = c[stage->live ? stage->live[mu] : mu];
    *change = (struct change){.entries = array_all(W),
                              .a = x,
                              .by_rows = {stage->read[1], s, true, some, 0},
                              .s = s,
                              .row_group = each ? each : W->rows,
                              .column_group = map_each(&map->declared, false)};
    return CODE_OK;
}

static int finite_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    double scale = map->declared.s_f * (double)source_sites(map);
    return rows_times(scale, array_all(&finite_of(map)->W), x, out, err);
}

/* Whether rows of y are sought that are 0: none of rows that are some of all, and of those on a
 * device, whose host waits for the answer, only where half of the products take longer than that.
 */
static bool seeks_zeros(const struct map *map) {
    const struct array *W = &finite_of(map)->W;
    bool far =
        W->backend->distant && (double)map->x.count * (double)W->rows * (double)W->sites < 0x1p31;
    return !map->some && !map->every_row && !far;
}

static int finite_combine(const struct map *map, struct rows y, double beta, struct rows out,
                          struct err *err) {
    struct coefficients C = {.rows = y, .scale = map->declared.s_f / map->numbers.r};
    return rows_combine(out, beta, C, array_all(&finite_of(map)->W), err);
}

static int finite_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    double scale = map->declared.s_f / map->numbers.r;
    return seeks_zeros(map) ? map_entries_backward(&finite_of(map)->W, scale, y, 0, out, err)
                            : finite_combine(map, y, 0, out, err);
}

static int finite_add_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    return finite_combine(map, y, 1, out, err);
}

static int finite_keep(struct map *map, int k, struct rows y, struct err *err) {
    struct stage *stage = &map->stage[k];
    FREED(base_free) int *live = NULL;
    int count = y.count;
    free(stage->live);
    stage->live = NULL;
    if (map->some) {
        size_t some = (size_t)map->some->count;
        TRY(base_alloc_unset(&stage->live, some, sizeof *stage->live, err));
        memcpy(stage->live, map->some->which, some * sizeof *stage->live);
        return map_keep_rows(map, k, y, err);
    }
    if (count > 1 && seeks_zeros(map))
        TRY(find_live(y, &live, &count, err));
    if (count == y.count)
        TRY(map_keep_rows(map, k, y, err));
    else {
        live[0] = count ? live[0] : 0; /* no row is no matrix: one of zeros is left */
        count = count ? count : 1;
        TRY(keep_some(&stage->x, map->x, live, count, err));
        TRY(keep_some(&stage->y, y, live, count, err));
        stage->read[0] = array_all(&stage->x);
        stage->read[1] = array_all(&stage->y);
        stage->live = live;
        live = NULL;
    }
    return CODE_OK;
}

/* W += (1/(m s_f)) sum_mu c_mu y_mu x_mu^T */
static int finite_change(struct map *map, int k, const double *c, struct change *change,
                         struct err *err) {
    double s = 1 / (map->declared.s_f * (double)source_sites(map));
    return map_entries_change(map, &finite_of(map)->W, k, c, s, change, err);
}

static void finite_decay(struct map *map, double factor) {
    rows_scale(factor, array_all(&finite_of(map)->W));
}

static int finite_archive(struct map *map, struct archive *archive, struct err *err) {
    const struct population *s = map->declared.source;
    struct array *W = &finite_of(map)->W;
    TRY(archive_array(archive, W, s->backend, err));
    return archive_expect(archive, W, s->sites, s->group, (int)map->declared.target->sites, err);
}

static int finite_matrix(const struct map *map, double *out, struct err *err) {
    size_t count = target_sites(map) * source_sites(map);
    const struct array *W = &finite_of(map)->W;
    W->backend->get(array_all(W), out);
    for (size_t k = 0; k < count; k++)
        out[k] *= map->declared.s_f;
    return W->backend->sync(err);
}

MAP_KIND(finite, struct finite_state, .add_backward = finite_add_backward, .keep = finite_keep,
         .products = map_products_rows, .change = finite_change, .decay = finite_decay,
         .archive = finite_archive, .matrix = finite_matrix, .initial = map_start);
