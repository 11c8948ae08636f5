/* A map made of Gaussian fields and response terms (formulae in field.h). */
#include "kernels/maps/field.h"

/* No rows yet, room for `rows`. */
static int init_rows(const struct field *field, struct array *array,
                     const struct population *population, int rows, struct err *err) {
    TRY(array_init(array, field->settings.backend, population->sites, population->group, rows,
                   err));
    array->rows = 0;
    return CODE_OK;
}

static int init_side(struct field *field, int i, const struct population *on, struct err *err) {
    struct field_side *side = &field->side[i];
    int T = field->settings.T, P = field->settings.P, count = side->count, rows = T * count;
    int other = field->side[1 - i].count;
    TRY(init_rows(field, &side->window, on, rows, err));
    TRY(init_rows(field, &side->shifted, on, rows, err));
    TRY(twotime_init(&field->given.K[i], T, count, count, err));
    TRY(twotime_init(&field->measured.K[i], T, count, count, err));
    if (field->side[1 - i].amplitude != 0)
        TRY(base_alloc(&side->L, (size_t)rows * (size_t)rows, sizeof *side->L, err));
    if (side->amplitude == 0)
        return CODE_OK;
    TRY(init_rows(field, &side->normals, side->pool, T * other, err));
    TRY(array_init(&side->work, field->settings.backend, side->pool->sites, side->pool->group, P,
                   err));
    if (side->response == 0)
        return CODE_OK;
    TRY(init_rows(field, &side->probes, side->pool, T * other, err));
    TRY(twotime_init(&field->given.R[i], T, count, other, err));
    return twotime_init(&field->measured.R[i], T, count, other, err);
}

/* What does not need memory: sizes and numbers of both sides. */
static void declare_sides(const struct map *map, int P, struct field_side side[2]) {
    const struct map_numbers *n = &map->numbers;
    for (int i = 0; i < 2; i++) {
        struct population *on = i ? map->declared.target : map->declared.source;
        side[i].shared = on->units != NULL;
        side[i].pool = side[i].shared ? on->units : on;
        side[i].count = i && map->declared.for_all_inputs ? 1 : P;
        side[i].amplitude = i ? n->fg : n->fr;
        side[i].response = i ? n->fg * n->fg : n->fr * n->fr;
    }
}

static int field_init(struct map *map, struct err *err) {
    const struct field_settings *settings = map->settings.field;
    struct field *field = field_of(map);
    field->settings = *settings;
    field->pass = FIELD_MEASURE;
    declare_sides(map, settings->P, field->side);
    for (int i = 0; i < 2; i++)
        TRY(init_side(field, i, i ? map->declared.target : map->declared.source, err));
    map->terms = &field->terms;
    field->terms.numbers = settings->T * settings->P;
    TRY(base_alloc(&field->answers, (size_t)settings->T, sizeof(bool), err));
    TRY(base_alloc(&field->terms.decay, (size_t)settings->T, sizeof(double), err));
    TRY(base_alloc(&field->terms.c, (size_t)field->terms.numbers, sizeof(double), err));
    return base_alloc(&field->terms.velocity, (size_t)field->terms.numbers, sizeof(double), err);
}

/* Both windows, normals, probes, and once more normals: the span while they are drawn. */
double field_bytes(const struct map *map, const struct field_settings *settings) {
    struct field_side side[2];
    double T = settings->T, copies = settings->copies, bytes = T * (9 + 16 * settings->P);
    declare_sides(map, settings->P, side);
    for (int i = 0; i < 2; i++) {
        const struct population *on = i ? map->declared.target : map->declared.source;
        double rows = T * side[i].count, other = T * side[1 - i].count;
        bytes += 2 * rows * population_bytes(on, 1);
        bytes += 8 * rows * rows * (copies + (side[1 - i].amplitude != 0));
        if (side[i].amplitude != 0)
            bytes += 3 * other * population_bytes(side[i].pool, 1);
        if (side[i].response != 0)
            bytes += 8 * rows * other * copies;
    }
    return bytes;
}

void field_kernels_free(struct field_kernels *kernels) {
    for (int i = 0; i < 2; i++) {
        twotime_free(&kernels->K[i]);
        twotime_free(&kernels->R[i]);
    }
}

static void field_free(struct map *map) {
    struct field *field = field_of(map);
    FOR_EACH_OF (struct field_side, side, field->side, 2) {
        array_free(&side->window);
        array_free(&side->shifted);
        array_free(&side->normals);
        array_free(&side->probes);
        array_free(&side->work);
        free(side->L);
    }
    field_kernels_free(&field->given);
    field_kernels_free(&field->measured);
    free(field->answers);
    map_terms_free(&field->terms);
}

const struct twotime *field_response(const struct map *map, bool forward) {
    return map->kind == &map_field ? &field_of(map)->given.R[forward ? 0 : 1] : NULL;
}

int field_draw(struct map *map, struct err *err) {
    for (int i = 1; i >= 0; i--) {
        struct field_side *side = &field_of(map)->side[i];
        int k = field_of(map)->side[1 - i].count;
        struct rows rows;
        double *signs;
        if (side->amplitude == 0)
            continue;
        TRY(array_append(&side->normals, k, &rows, err));
        TRY((i ? population_fresh : population_fresh_back)(side->pool, (struct rows){0}, rows,
                                                           err));
        if (side->response == 0)
            continue;
        TRY(array_append(&side->probes, k, &rows, err));
        TRY(base_alloc(&signs, (size_t)k * side->pool->sites, sizeof *signs, err));
        population_probes(side->pool, k, signs);
        field_of(map)->settings.backend->put(rows, signs);
        free(signs);
    }
    return CODE_OK;
}

int field_begin(struct map *map, enum field_pass pass, struct err *err) {
    struct field *field = field_of(map);
    struct map_terms *terms = &field->terms;
    field->pass = pass;
    map->decay = 1;
    terms->evaluations = terms->times = 0;
    memset(terms->c, 0, (size_t)terms->numbers * sizeof *terms->c);
    memset(terms->velocity, 0, (size_t)terms->numbers * sizeof *terms->velocity);
    for (int i = 0; i < 2; i++)
        field->side[i].shifted.rows = 0;
    if (pass != FIELD_MEASURE)
        return CODE_OK;
    field->floored = 0;
    for (int i = 0; i < 2; i++) {
        int floored = 0;
        field->side[i].window.rows = 0;
        if (field->side[i].L)
            TRY(twotime_cholesky(&field->given.K[i], field->settings.jitter, field->side[i].L,
                                 &floored, err));
        field->floored += floored;
    }
    return CODE_OK;
}

static void clear_later(const struct twotime *K, int reached) {
    size_t row = (size_t)K->T * (size_t)K->Q;
    for (int t = 0; t < K->T && K->value; t++)
        for (int mu = 0; mu < K->P; mu++) {
            size_t first = t < reached ? (size_t)reached * (size_t)K->Q : 0;
            memset(twotime_row(K, t, mu) + first, 0, (row - first) * sizeof(double));
        }
}

double field_largest(const struct map *map) {
    const struct field *field = field_of(map);
    int t = field->terms.now;
    double largest = 0;
    FOR_EACH_OF (const struct twotime, K, field->measured.K, 2) {
        for (int mu = 0; mu < K->P; mu++) {
            double diagonal = twotime_row(K, t, mu)[t * K->P + mu];
            largest = isfinite(diagonal) ? fmax(largest, diagonal) : INFINITY;
        }
    }
    return largest;
}

void field_end(struct map *map, int reached) {
    struct field *field = field_of(map);
    for (int i = 0; i < 2; i++)
        clear_later(field->pass == FIELD_MEASURE ? &field->measured.K[i] : &field->measured.R[i],
                    reached);
}

/* K(t,s) for s <= t, and its mirror. */
static int measure_kernel(struct field *field, int i, int t, struct rows now, struct err *err) {
    const struct array *window = &field->side[i].window;
    struct twotime *K = &field->measured.K[i];
    int count = now.count, known = window->rows;
    SCRATCH(double, C, (size_t)known *(size_t)count);
    field->settings.backend->dots(array_all(window), now, C);
    for (int a = 0; a < known; a++)
        for (int mu = 0; mu < count; mu++) {
            twotime_row(K, t, mu)[a] = C[a * count + mu];
            twotime_row(K, a / count, a % count)[t * count + mu] = C[a * count + mu];
        }
    return CODE_OK;
}

/* R(t,s) for s < end, from rows `shifted` and those of the first pass, which are used up. */
static int measure_response(struct field *field, int i, int t, int end, struct rows shifted,
                            struct err *err) {
    const struct backend *ops = field->settings.backend;
    struct field_side *side = &field->side[i];
    struct twotime *R = &field->measured.R[i];
    int count = side->count, known = end * R->Q;
    struct rows difference = array_rows(&side->window, t * count, count); /* x - x' */
    const double *decay = field->terms.decay; /* of the field, and of what it is asked for */
    double factor = -side->response * decay[t] / field->settings.epsilon;
    if (!known)
        return CODE_OK;
    rows_add_scaled(-1, shifted, difference);
    if (side->shared) {
        ops->tile_mean(difference, array_rows(&side->work, 0, count));
        difference = array_rows(&side->work, 0, count);
    }
    SCRATCH(double, C, (size_t)known *(size_t)count);
    ops->dots(difference, array_rows(&side->probes, 0, known), C);
    for (int mu = 0; mu < count; mu++)
        for (int a = 0; a < known; a++)
            twotime_row(R, t, mu)[a] =
                field->answers[a / R->Q] ? factor * decay[a / R->Q] * C[mu * known + a] : 0;
    return CODE_OK;
}

/* out = the field that lives on side i at evaluation t, with its shift. */
static int add_field(const struct field *field, int i, int t, struct rows out, struct err *err) {
    const struct backend *ops = field->settings.backend;
    const struct field_side *side = &field->side[i];
    const double *L = field->side[1 - i].L;
    int count = out.count, known = (t + 1) * count;
    size_t n = (size_t)field->settings.T * (size_t)count;
    double amplitude = side->amplitude * field->terms.decay[t];
    if (!side->normals.rows) {
        rows_zero(out);
        return CODE_OK;
    }
    struct rows u = side->shared ? array_rows(&side->work, 0, count) : out;
    SCRATCH(double, C, (size_t)known *(size_t)count);
    for (int mu = 0; mu < count; mu++)
        for (int a = 0; a < known; a++)
            C[mu * known + a] = amplitude * L[(size_t)(t * count + mu) * n + (size_t)a];
    ops->combine(u, 0, C, array_rows(&side->normals, 0, known));
    if ((int)field->pass == i && side->probes.rows)
        rows_add_scaled(field->settings.epsilon, array_rows(&side->probes, t * count, count), u);
    if (side->shared)
        ops->tile(u, out);
    return CODE_OK;
}

/* out += sum_{s<end} R(t,s) row_s + sum_{s<t} c_s K(t,s) row_s over the rows of the other
 * side than i, whose K and R these are. Either side may have one row for all inputs. */
static int add_memory(const struct field *field, int i, int t, int end, struct rows out,
                      struct err *err) {
    const struct twotime *K = &field->given.K[i], *R = &field->given.R[i];
    const struct field_side *to = &field->side[1 - i];
    const struct array *window = field->pass == FIELD_MEASURE ? &to->window : &to->shifted;
    int P = field->settings.P, Q = to->count, columns = end * Q;
    if (!columns)
        return CODE_OK;
    SCRATCH(double, C, (size_t)columns *(size_t)out.count);
    for (int mu = 0; mu < out.count; mu++) {
        double *row = C + mu * columns;
        const double *kernel = twotime_row(K, t, mu);
        if (R->value)
            memcpy(row, twotime_row(R, t, mu), (size_t)columns * sizeof *row);
        for (int a = 0; a < t * P; a++)
            row[Q == P ? a : a / P] += field->terms.c[a] * kernel[K->Q == P ? a : a / P];
    }
    field->settings.backend->combine(out, 1, C, array_rows(window, 0, columns));
    return CODE_OK;
}

static struct array *window_of(struct field *field, int i) {
    struct field_side *side = &field->side[i];
    return field->pass == FIELD_MEASURE ? &side->window : &side->shifted;
}

/* One more evaluation: rows of both sides, and of y, which may not come, everything zero. */
static int begin_evaluation(struct map *map, int *t, struct err *err) {
    struct field *field = field_of(map);
    struct twotime *G = &field->measured.K[1], *B = &field->measured.R[1];
    struct rows rows;
    *t = field->terms.evaluations;
    if (*t == field->settings.T)
        return err_set(err, CODE_NUMERICAL, "a sweep has more than %d evaluations", *t);
    field->terms.now = field->terms.evaluations++;
    field->terms.decay[*t] = map->decay;
    for (int i = 0; i < 2; i++)
        TRY(array_append(window_of(field, i), field->side[i].count, &rows, err));
    rows_zero(rows);
    size_t row = (size_t)B->T * (size_t)B->Q, column = (size_t)(*t * G->P);
    for (int mu = 0; mu < G->P && field->pass == FIELD_PROBE_U && B->value; mu++)
        memset(twotime_row(B, *t, mu), 0, row * sizeof(double));
    if (field->pass != FIELD_MEASURE)
        return CODE_OK;
    field->answers[*t] = false;
    for (int a = 0; a < (*t + 1) * G->P; a++)
        for (int mu = 0; mu < G->P; mu++)
            twotime_row(G, *t, mu)[a] = twotime_row(G, a / G->P, a % G->P)[column + (size_t)mu] = 0;
    return CODE_OK;
}

/* W x (i = 0) or W^T y (i = 1) of rows `in` at evaluation t; memory of times before `end`. */
static int field_apply(struct field *field, int i, int t, int end, struct rows in, struct rows out,
                       struct err *err) {
    assert(in.count == field->side[i].count);
    struct rows kept = array_rows(window_of(field, i), t * in.count, in.count);
    rows_copy(in, kept);
    if (field->pass == FIELD_MEASURE)
        TRY(measure_kernel(field, i, t, kept, err));
    else if ((int)field->pass == i && field->side[i].response != 0)
        TRY(measure_response(field, i, t, end, kept, err));
    TRY(add_field(field, 1 - i, t, out, err));
    return add_memory(field, i, t, end, out, err);
}

static int field_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    int t;
    TRY(begin_evaluation(map, &t, err));
    return field_apply(field_of(map), 0, t, t, x, out, err);
}

static int field_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    int t = map->terms->now;
    field_of(map)->answers[t] = true;
    return field_apply(field_of(map), 1, t, t + 1, y, out, err);
}

/* From the kernels of the first pass, which those with probes must not move. */
static void field_products(const struct map *map, struct rows y UNUSED, double *X, double *Y) {
    const struct field *field = field_of(map);
    int t = field->terms.now;
    double *out[] = {X, Y};
    for (int i = 0; i < 2; i++)
        for (int count = field->side[i].count, mu = 0; mu < count; mu++)
            memcpy(out[i] + mu * count, twotime_row(&field->measured.K[i], t, mu) + t * count,
                   (size_t)count * sizeof(double));
}

MAP_KIND(field, struct field, .products = field_products);
