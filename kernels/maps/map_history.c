/* A finite matrix that starts at zero, as the history of what it learned:
 *
 *     s_f W = (1/m) sum_k Z_k q_k^T,   (s_f/r) W^T y = sum_k <Z_k, y> q_k
 *
 * Z_k are the rows y of a stage that it learned, q_k its rows x times their c. Equal to map_finite
 * up to round-off, without an n x m matrix; once there are min(n, m) rows the matrix is shorter and
 * the map becomes a map_finite. */
#include "kernels/maps/map_finite.h"

static int history_init(struct map *map, struct err *err) {
    const struct population *s = map->declared.source, *t = map->declared.target;
    struct history_state *history = history_of(map);
    TRY(array_init(&history->q, s->backend, s->sites, s->group, 0, err));
    return array_init(&history->Z, t->backend, t->sites, t->group, 0, err);
}

static void history_free(struct map *map) {
    array_free(&history_of(map)->q);
    array_free(&history_of(map)->Z);
}

/* out_mu = sum_k <in_mu, known_k> result_k */
static int history_apply(const struct array *known, const struct array *result, struct rows in,
                         struct rows out, struct err *err) {
    SCRATCH(double, C, (size_t)in.count *(size_t)known->rows);
    in.array->backend->dots(in, array_all(known), C);
    in.array->backend->combine(out, 0, C, array_all(result));
    return CODE_OK;
}

static int history_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    struct history_state *history = history_of(map);
    return history_apply(&history->q, &history->Z, x, out, err);
}

static int history_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    struct history_state *history = history_of(map);
    return history_apply(&history->Z, &history->q, y, out, err);
}

/* W [n] over the source sites = (factor/m) sum_k Z_k q_k^T */
static int explicit_matrix(const struct map *map, double factor, struct array *W, struct err *err) {
    const struct population *source = map->declared.source;
    const struct history_state *history = history_of(map);
    size_t n = map->declared.target->sites, K = (size_t)history->q.rows;
    FREED(base_free) double *Z = NULL, *C = NULL;
    double scale = factor / (double)source->sites;
    TRY(base_alloc(&Z, n * K, sizeof *Z, err));
    TRY(base_alloc(&C, n * K, sizeof *C, err));
    TRY(array_init(W, source->backend, source->sites, source->group, (int)n, err));
    history->Z.backend->get(array_all(&history->Z), Z);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < K; k++)
            C[i * K + k] = scale * Z[k * n + i];
    history->q.backend->combine(array_all(W), 0, C, array_all(&history->q));
    return CODE_OK;
}

static int history_matrix(const struct map *map, double *out, struct err *err) {
    FREED(array_free) struct array W = {0};
    TRY(explicit_matrix(map, 1, &W, err));
    W.backend->get(array_all(&W), out);
    return W.backend->sync(err);
}

int map_history_end(struct map *map, struct err *err) {
    struct finite_state *finite;
    TRY(base_alloc(&finite, 1, map_finite.state, err));
    history_free(map);
    free(map->state);
    map->state = finite;
    map->kind = &map_finite;
    return CODE_OK;
}

/* From now on the explicit matrix. */
static int become_finite(struct map *map, struct err *err) {
    struct array W = {0};
    int code = explicit_matrix(map, 1 / map->declared.s_f, &W, err);
    code = code ? code : map_history_end(map, err);
    if (code)
        array_free(&W);
    else
        finite_of(map)->W = W;
    return code;
}

static void history_decay(struct map *map, double factor) {
    rows_scale(factor, array_all(&history_of(map)->Z));
}

static int history_archive(struct map *map, struct archive *archive, struct err *err) {
    struct history_state *history = history_of(map);
    TRY(archive_array(archive, &history->q, history->q.backend, err));
    TRY(archive_array(archive, &history->Z, history->Z.backend, err));
    return archive_expect(archive, &history->Z, history->Z.sites, history->Z.group, history->q.rows,
                          err);
}

/* One row when a single y serves all inputs: (1/m) y (sum_mu c_mu x_mu)^T. */
static int history_learn(struct map *map, int k, const double *c, struct err *err) {
    struct history_state *history = history_of(map);
    const struct stage *stage = &map->stage[k];
    const struct rows x = stage->read[0], y = stage->read[1], none = {0};
    struct rows past, target;
    TRY(array_append(&history->q, y.count, &past, err));
    TRY(array_append(&history->Z, y.count, &target, err));
    if (y.count == 1)
        x.array->backend->combine(past, 0, c, x);
    else
        x.array->backend->pointwise(FN_LINEAR, c, NULL, x, past, none);
    rows_copy(y, target);
    size_t n = map->declared.target->sites, m = map->declared.source->sites;
    return (size_t)history->q.rows < (n < m ? n : m) ? CODE_OK : become_finite(map, err);
}

/* At most min(n, m) rows before it is a matrix; it gains rows for each of its moves. */
static double history_bytes(const struct map *map, const struct map_costs *costs) {
    const struct population *s = map->declared.source, *t = map->declared.target;
    double most = (double)(s->sites < t->sites ? s->sites : t->sites), rows = costs->learned;
    double row = population_bytes(s, 1) + population_bytes(t, 1);
    return rows < most ? 1.5 * row * rows : map_entries_bytes(map) + 1.5 * row * most;
}

MAP_KIND(history, struct history_state, .keep = map_keep_rows, .products = map_products_rows,
         .learn = history_learn, .decay = history_decay, .archive = history_archive,
         .matrix = history_matrix, .initial = map_start, .bytes = history_bytes);
