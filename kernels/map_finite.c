/* The explicit matrix of a finite network: W = a0 W(0) + (learned part)/s_f, n rows over the m
 * source sites, used as s_f W, and backward as s_f W^T/r. */
#include "kernels/map.h"

#include <stdlib.h>

static size_t targets(const struct map *map) {
    return map->declared.target->sites;
}

static size_t sources(const struct map *map) {
    return map->declared.source->sites;
}

/* Row by row from its stream, some rows at a time: a tenth of a second. */
static int draw(const struct map *map, struct err *err) {
    const volatile sig_atomic_t *stop = map->declared.stop;
    int n = (int)targets(map), some = 1 + (int)(((size_t)1 << 22) / sources(map));
    for (int k = 0; k < n; k += some) {
        struct rng_stream stream = map->stream;
        stream.draw += (uint32_t)k;
        if (stop && *stop)
            return err_set(err, CODE_INTERRUPTED, "interrupted");
        map->declared.source->backend->normals(array_rows(&map->W, k, some < n - k ? some : n - k),
                                               stream);
    }
    return CODE_OK;
}

static int finite_init(struct map *map, struct err *err) {
    const struct population *source = map->declared.source;
    int n = (int)targets(map);
    TRY(array_init(&map->W, source->backend, sources(map), source->group, n, err));
    TRY(draw(map, err));
    rows_scale(map->declared.a0 / sqrt((double)sources(map)), array_all(&map->W));
    return CODE_OK;
}

/* Through host coefficients [n][P]. */
int map_finite_forward(const struct map *map, double scale, struct rows x, struct rows out,
                       struct err *err) {
    size_t n = targets(map), P = (size_t)x.count;
    double *C = NULL, *result = NULL;
    int code = CODE_OK;
    DO(base_alloc(&C, n * P, sizeof *C, err));
    DO(base_alloc(&result, n * P, sizeof *result, err));
    x.array->backend->dots(array_all(&map->W), x, C);
    for (size_t mu = 0; mu < P; mu++)
        for (size_t i = 0; i < n; i++)
            result[mu * n + i] = scale * C[i * P + mu];
    x.array->backend->put(out, result);
done:
    free(C);
    free(result);
    return code;
}

int map_finite_backward(const struct map *map, double scale, struct rows y, double beta,
                        struct rows out, struct err *err) {
    size_t n = targets(map), P = (size_t)y.count;
    double *C;
    TRY(base_alloc(&C, n * P, sizeof *C, err));
    y.array->backend->get(y, C);
    for (size_t i = 0; i < n * P; i++)
        C[i] *= scale;
    y.array->backend->combine(out, beta, C, array_all(&map->W));
    free(C);
    return CODE_OK;
}

int map_finite_change(struct map *map, const struct stage *stage, const double *c, double s,
                      struct change *change, struct err *err) {
    struct rows x = array_all(&stage->x), y = array_all(&stage->y);
    size_t n = targets(map), P = (size_t)stage->P;
    double *C, *values;
    TRY(base_alloc(&values, n * (size_t)y.count, sizeof *values, err));
    int code = base_alloc(&C, n * P, sizeof *C, err);
    if (!code) {
        y.array->backend->get(y, values);
        for (size_t i = 0; i < n; i++)
            for (size_t mu = 0; mu < P; mu++)
                C[i * P + mu] = s * c[mu] * values[(y.count == 1 ? 0 : mu) * n + i];
        *change = (struct change){array_all(&map->W), x, C, s};
    }
    free(values);
    return code;
}

static int finite_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    return map_finite_forward(map, map->declared.s_f * (double)sources(map), x, out, err);
}

static int finite_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    return map_finite_backward(map, map->declared.s_f / map->numbers.r, y, 0, out, err);
}

/* W += (1/(m s_f)) sum_mu c_mu y_mu x_mu^T */
static int finite_change(struct map *map, const struct stage *stage, const double *c,
                         struct change *change, struct err *err) {
    double s = 1 / (map->declared.s_f * (double)sources(map));
    return map_finite_change(map, stage, c, s, change, err);
}

static int finite_matrix(const struct map *map, double *out, struct err *err) {
    size_t count = targets(map) * sources(map);
    map->W.backend->get(array_all(&map->W), out);
    for (size_t k = 0; k < count; k++)
        out[k] *= map->declared.s_f;
    return map->W.backend->sync(err);
}

static double finite_bytes(const struct map *map, const struct map_costs *costs) {
    (void)costs;
    return map_entries_bytes(map);
}

const struct map_kind map_finite = {
    .init = finite_init,
    .forward = finite_forward,
    .backward = finite_backward,
    .keep = map_keep_rows,
    .change = finite_change,
    .matrix = finite_matrix,
    .initial = map_start,
    .bytes = finite_bytes,
};
