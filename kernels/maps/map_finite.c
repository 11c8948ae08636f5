/* The explicit matrix of a finite network: W = a0 W(0) + (learned part)/s_f, n rows over the m
 * source sites, used as s_f W, and backward as s_f W^T/r. */
#include "kernels/maps/map_finite.h"

#include <stdlib.h>

static size_t targets(const struct map *map) {
    return map->declared.target->sites;
}

static size_t sources(const struct map *map) {
    return map->declared.source->sites;
}

/* Row by row from its stream, some rows at a time: a tenth of a second. */
static int draw(const struct map *map, const struct array *W, struct err *err) {
    const volatile sig_atomic_t *stop = map->settings.stop;
    int n = W->rows, some = 1 + (int)(((size_t)1 << 22) / sources(map));
    for (int k = 0; k < n; k += some) {
        struct rng_stream stream = map->settings.stream;
        stream.draw += (uint32_t)k;
        if (stop && *stop)
            return err_set(err, CODE_INTERRUPTED, "interrupted");
        W->backend->normals(array_rows(W, k, some < n - k ? some : n - k), stream);
    }
    return CODE_OK;
}

static int finite_init(struct map *map, struct err *err) {
    const struct population *source = map->declared.source;
    struct array *W = &finite_of(map)->W;
    TRY(array_init(W, source->backend, sources(map), source->group, (int)targets(map), err));
    TRY(draw(map, W, err));
    rows_scale(map->declared.a0 / sqrt((double)sources(map)), array_all(W));
    return CODE_OK;
}

static void finite_free(struct map *map) {
    array_free(&finite_of(map)->W);
}

/* Through host coefficients [n][P]. */
int map_entries_forward(const struct array *W, double scale, struct rows x, struct rows out,
                        struct err *err) {
    size_t n = (size_t)W->rows, P = (size_t)x.count;
    double *C = NULL, *result = NULL;
    int code = CODE_OK;
    DO(base_alloc(&C, n * P, sizeof *C, err));
    DO(base_alloc(&result, n * P, sizeof *result, err));
    x.array->backend->dots(array_all(W), x, C);
    for (size_t mu = 0; mu < P; mu++)
        for (size_t i = 0; i < n; i++)
            result[mu * n + i] = scale * C[i * P + mu];
    x.array->backend->put(out, result);
done:
    free(C);
    free(result);
    return code;
}

int map_entries_backward(const struct array *W, double scale, struct rows y, double beta,
                         struct rows out, struct err *err) {
    size_t n = (size_t)W->rows, P = (size_t)y.count;
    double *C;
    TRY(base_alloc(&C, n * P, sizeof *C, err));
    y.array->backend->get(y, C);
    for (size_t i = 0; i < n * P; i++)
        C[i] *= scale;
    y.array->backend->combine(out, beta, C, array_all(W));
    free(C);
    return CODE_OK;
}

int map_entries_change(const struct map *map, const struct array *W, int k, const double *c,
                       double s, struct change *change, struct err *err) {
    const struct stage *stage = &map->stage[k];
    int each = map_each(&map->declared, true);
    struct rows x = array_all(&stage->x), y = array_all(&stage->y);
    size_t n = (size_t)W->rows, P = (size_t)stage->P;
    double *C, *values;
    TRY(base_alloc(&values, n * (size_t)y.count, sizeof *values, err));
    int code = base_alloc(&C, n * P, sizeof *C, err);
    if (!code) {
        y.array->backend->get(y, values);
        for (size_t i = 0; i < n; i++)
            for (size_t mu = 0; mu < P; mu++)
                C[i * P + mu] = s * c[mu] * values[(y.count == 1 ? 0 : mu) * n + i];
        *change = (struct change){array_all(W),
                                  x,
                                  C,
                                  s,
                                  .row_group = each ? each : W->rows,
                                  .column_group = map_each(&map->declared, false)};
    }
    free(values);
    return code;
}

static int finite_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    return map_entries_forward(&finite_of(map)->W, map->declared.s_f * (double)sources(map), x, out,
                               err);
}

static int finite_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    return map_entries_backward(&finite_of(map)->W, map->declared.s_f / map->numbers.r, y, 0, out,
                                err);
}

/* W += (1/(m s_f)) sum_mu c_mu y_mu x_mu^T */
static int finite_change(struct map *map, int k, const double *c, struct change *change,
                         struct err *err) {
    double s = 1 / (map->declared.s_f * (double)sources(map));
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
    size_t count = targets(map) * sources(map);
    const struct array *W = &finite_of(map)->W;
    W->backend->get(array_all(W), out);
    for (size_t k = 0; k < count; k++)
        out[k] *= map->declared.s_f;
    return W->backend->sync(err);
}

static double finite_bytes(const struct map *map, const struct map_costs *costs) {
    (void)costs;
    return map_entries_bytes(map);
}

const struct map_kind map_finite = {
    .state = sizeof(struct finite_state),
    .init = finite_init,
    .free = finite_free,
    .forward = finite_forward,
    .backward = finite_backward,
    .keep = map_keep_rows,
    .products = map_products_rows,
    .change = finite_change,
    .decay = finite_decay,
    .archive = finite_archive,
    .matrix = finite_matrix,
    .initial = map_start,
    .bytes = finite_bytes,
};
