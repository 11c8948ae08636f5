#include "kernels/maps/map_response.h"
#include "kernels/array/companions.h"
#include "kernels/maps/map_limit.h"

static struct population *side_of(const struct map *map, int i) {
    return i ? map->declared.target : map->declared.source;
}

/* Rows without companions, none yet. */
static int init_rows(struct array *array, const struct population *population, int rows,
                     struct err *err) {
    return array_init(array, backend_main(population->backend), population->sites,
                      population->group, rows, err);
}

static int init_side(struct map_response *response, int i, const struct map *map, struct err *err) {
    struct response_side *side = &response->side[i];
    struct population *on = side_of(map, i);
    double amplitude = i ? map->numbers.fg : map->numbers.fr;
    side->pool = on->units ? on->units : on;
    side->response = amplitude * amplitude;
    for (int c = 0; c < COMPANIONS; c++)
        TRY(init_rows(&side->change[c], on, 0, err));
    TRY(init_rows(&side->work, side->pool, 0, err));
    return init_rows(&side->probes, side->pool, 0, err);
}

int map_response_init(struct map *map, double epsilon, struct err *err) {
    TRY(base_alloc(&map->response, 1, sizeof *map->response, err));
    map->response->epsilon = epsilon;
    map->terms = &map->response->terms;
    for (int i = 0; i < 2; i++)
        TRY(init_side(map->response, i, map, err));
    TRY(init_rows(&map->response->sum, map->declared.source, 1, err));
    return init_rows(&map->response->y, map->declared.target, 0, err);
}

void map_response_free(struct map *map) {
    struct map_response *response = map->response;
    if (!response)
        return;
    for (int i = 0; i < 2; i++) {
        struct response_side *side = &response->side[i];
        for (int c = 0; c < COMPANIONS; c++)
            array_free(&side->change[c]);
        array_free(&side->probes);
        array_free(&side->work);
        free(side->now);
        array_free(&response->moment[i]);
    }
    array_free(&response->y);
    array_free(&response->sum);
    array_free(&response->D);
    array_free(&response->whole);
    map_terms_free(&response->terms);
    free(response);
    map->response = NULL;
    map->terms = NULL;
}

/* A list of `old` numbers becomes longer by numbers that are 0. */
static int lengthen_numbers(double **list, size_t old, size_t count, struct err *err) {
    double *longer;
    TRY(base_alloc(&longer, count, sizeof *longer, err));
    if (old)
        memcpy(longer, *list, old * sizeof *longer);
    free(*list);
    *list = longer;
    return CODE_OK;
}

static int append_zeros(struct array *array, int count, struct err *err) {
    struct rows rows;
    TRY(array_append(array, count, &rows, err));
    rows_zero(rows);
    return CODE_OK;
}

/* Rows of a use of the last evaluation; all uses have equally many, one behind the other. */
static struct rows rows_of_use(const struct map *map, const struct array *array, int count) {
    return array_rows(
        array, ((map->response->terms.evaluations - 1) * map->declared.uses + map->use) * count,
        count);
}

/* One more evaluation: rows and numbers that are 0 until they are known. */
static int begin_evaluation(struct map *map, int count, struct err *err) {
    struct map_response *response = map->response;
    int uses = map->declared.uses;
    int each[] = {uses * count, map->declared.for_all_inputs ? 1 : uses * count};
    size_t times = (size_t)response->terms.evaluations, old = (size_t)response->terms.numbers,
           numbers = old + (size_t)each[0];
    if (old != times * (size_t)each[0]) /* of a state, which cannot know the rows of a pass */
        return err_set(err, CODE_INPUT, "the state of the run has responses of other inputs");
    for (int i = 0; i < 2; i++) {
        struct response_side *side = &response->side[i];
        for (int c = 0; c < COMPANIONS; c++)
            TRY(append_zeros(&side->change[c], each[i], err));
        if (side->response != 0)
            TRY(append_zeros(&side->probes, each[1 - i], err));
    }
    if (map->kind != &map_adam)
        TRY(append_zeros(&response->y, each[1], err));
    TRY(lengthen_numbers(&response->terms.decay, times, times + 1, err));
    TRY(lengthen_numbers(&response->terms.c, old, numbers, err));
    TRY(lengthen_numbers(&response->terms.velocity, old, numbers, err));
    response->terms.decay[times] = map->decay;
    response->terms.numbers = (int)numbers;
    response->terms.now = response->terms.evaluations++;
    return CODE_OK;
}

/* What companions of rows differ by. */
static void keep_changes(const struct map *map, int i, struct rows rows) {
    for (int c = 0; c < COMPANIONS; c++) {
        struct rows change = rows_of_use(map, &map->response->side[i].change[c], rows.count);
        rows_copy(companions_rows(rows, c), change);
        rows_add_scaled(-1, rows_main(rows), change);
    }
}

/* A (i = 0) or B (i = 1) of the last rows, to all fields so far. */
static int measure_response(struct map *map, int i, int count, struct err *err) {
    struct map_response *response = map->response;
    struct response_side *side = &response->side[i];
    int columns = side->probes.rows, each = columns / response->terms.evaluations;
    struct rows change = rows_of_use(map, &side->change[i], count);
    free(side->now);
    TRY(base_alloc(&side->now, (size_t)count * (size_t)columns, sizeof *side->now, err));
    if (!columns)
        return CODE_OK;
    if (side_of(map, i)->units) {
        TRY(array_reserve(&side->work, count, err));
        side->work.backend->tile_mean(change, array_rows(&side->work, 0, count));
        change = array_rows(&side->work, 0, count);
    }
    const struct backend *backend = side->probes.backend;
    size_t numbers = (size_t)count * (size_t)columns;
    SCRATCH(double, factors, numbers);
    double factor =
        side->response * response->terms.decay[response->terms.evaluations - 1] / response->epsilon;
    for (size_t k = 0; k < numbers; k++)
        factors[k] = factor * response->terms.decay[k % (size_t)columns / (size_t)each];
    backend_later(backend, map->declared.uses == 1); /* of others the next use lets it go */
    backend->dots(change, array_all(&side->probes), side->now);
    if (backend_has_later(backend))
        backend->distant->numbers(side->now, side->now, 1, 1, factors, numbers);
    for (size_t k = 0; k < numbers && !backend_has_later(backend); k++)
        side->now[k] *= factors[k];
    backend_later(backend, false);
    return CODE_OK;
}

/* out += C times the changes of a side, companion by companion. */
static void add_changes(const struct response_side *side, const double *C, struct rows out) {
    for (int c = 0; c < COMPANIONS; c++) {
        struct rows to = companions_rows(out, c);
        to.array->backend->combine(to, 1, C, array_all(&side->change[c]));
    }
}

/* The field of this evaluation, which lives on side i, is shifted in companion i. */
static int shift_field(struct map *map, int i, struct rows out, struct err *err) {
    struct map_response *response = map->response;
    struct response_side *side = &response->side[i];
    const struct population *on = side_of(map, i);
    struct rows to = companions_rows(out, i);
    FREED(array_free) struct array tiled = {0};
    if (side->response == 0)
        return CODE_OK;
    struct rows probes = rows_of_use(map, &side->probes, out.count);
    SCRATCH(double, signs, (size_t)out.count * side->pool->sites);
    population_probes(side->pool, out.count, signs);
    side->probes.backend->put(probes, signs);
    if (!on->units) {
        rows_add_scaled(response->epsilon, probes, to);
        return CODE_OK;
    }
    TRY(init_rows(&tiled, on, out.count, err));
    to.array->backend->tile(probes, array_all(&tiled));
    rows_add_scaled(response->epsilon, array_all(&tiled), to);
    return CODE_OK;
}

/* Companions have got the learned part of the rows: in its place that of their own entries. */
static int add_entries(const struct map *map, struct rows x, struct rows out, struct err *err) {
    const struct array *D = &map->response->D;
    struct coefficients C = {.rows = rows_main(x),
                             .scale = 1 / (double)map->declared.source->sites};
    for (int c = 0; c < COMPANIONS && D->rows; c++) {
        struct rows to = companions_rows(out, c);
        TRY(rows_combine(to, 1, C, companions_rows(array_all(D), c), err));
        C.scale = -C.scale;
        TRY(rows_combine(to, 1, C, rows_main(array_all(D)), err));
        C.scale = -C.scale;
    }
    return CODE_OK;
}

/* row [numbers] += scale_a <y, a> for each y, the rows a being those of numbers one after the
 * other, or of equally many; C [y][numbers]. */
static int add_seen(struct rows y, const struct array *a, int numbers, const double *scale,
                    double *C, struct err *err) {
    int known = a->rows, each = known && scale ? numbers / known : 1;
    if (!known)
        return CODE_OK;
    SCRATCH(double, G, (size_t)y.count *(size_t)known);
    a->backend->dots(y, array_all(a), G);
    for (int mu = 0; mu < y.count; mu++)
        for (int k = 0; k < known * each; k++)
            C[(size_t)mu * (size_t)numbers + (size_t)k] +=
                (scale ? scale[k] : 1) * G[(size_t)mu * (size_t)known + (size_t)(k / each)];
    return CODE_OK;
}

/* Companions of the target: out += sum_s <m_s x_t> (y''_s - y_s). */
static int add_whole(const struct map *map, struct rows x, struct rows out, struct err *err) {
    const struct map_response *response = map->response;
    int columns = response->side[1].change[0].rows;
    SCRATCH(double, C, (size_t)x.count *(size_t)columns);
    TRY(add_seen(x, &response->whole, columns, NULL, C, err));
    add_changes(&response->side[1], C, out);
    return CODE_OK;
}

int map_response_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    struct map_response *response = map->response;
    if (!response || !companions_work(out))
        return CODE_OK;
    if (map->use == 0)
        TRY(begin_evaluation(map, x.count, err));
    keep_changes(map, 0, x);
    TRY(measure_response(map, 0, x.count, err));
    if (response->side[0].response != 0)
        add_changes(&response->side[1], response->side[0].now, out);
    if (map_learns_backward(&map->declared))
        TRY(add_whole(map, rows_main(x), out, err));
    TRY(add_entries(map, x, out, err));
    return shift_field(map, 1, out, err);
}

/* C [y][numbers] = B(t,s) + c_s <y_s y_t> + <l_s y_t> */
static int field_weights(struct map *map, struct rows y, double **C, struct err *err) {
    struct map_response *response = map->response;
    int columns = response->terms.numbers;
    size_t size = (size_t)y.count * (size_t)columns;
    TRY(base_alloc(C, size, sizeof **C, err));
    TRY(add_seen(y, &response->y, columns, response->terms.c, *C, err));
    if (response->side[1].response != 0)
        backend_arrive(y.array->backend, response->side[1].now, size);
    for (size_t k = 0; k < size && response->side[1].response != 0; k++)
        (*C)[k] += response->side[1].now[k];
    return map_learns_backward(&map->declared)
               ? CODE_OK
               : add_seen(y, &response->whole, columns, NULL, *C, err);
}

int map_response_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    struct map_response *response = map->response;
    FREED(base_free) double *C = NULL;
    if (!response || !companions_work(out))
        return CODE_OK;
    keep_changes(map, 1, y);
    if (response->y.rows)
        rows_copy(rows_main(y), rows_of_use(map, &response->y, y.count));
    TRY(measure_response(map, 1, y.count, err));
    TRY(field_weights(map, rows_main(y), &C, err));
    add_changes(&response->side[0], C, out);
    return shift_field(map, 0, out, err);
}

void map_response_decay(struct map *map, double factor) {
    struct map_response *response = map->response;
    if (!response)
        return;
    rows_scale(factor, array_all(&response->D));
    rows_scale(factor, array_all(&response->whole));
}

/* D_j += sum_mu c_mu x_mu,j y_mu. Of a single row y: one row x, the sum over mu of c_mu x_mu. */
int map_response_change(struct map *map, const double *c, struct change *change, struct err *err) {
    struct map_response *response = map->response;
    struct array *D = &response->D;
    const struct population *s = map->declared.source, *t = map->declared.target;
    struct rows x = rows_main(map->stage[0].read[0]), y = map->stage[0].read[1];
    double *some;
    if (!D->rows) {
        TRY(array_init(D, t->backend, t->sites, t->group, (int)s->sites, err));
        rows_zero(array_all(D));
    }
    TRY(base_alloc(&some, (size_t)y.count, sizeof *some, err));
    for (int mu = 0; mu < y.count; mu++)
        some[mu] = y.count == x.count ? c[mu] : 1;
    if (y.count != x.count) {
        x.array->backend->combine(array_all(&response->sum), 0, c, x);
        x = array_all(&response->sum);
    }
    *change = (struct change){.entries = array_all(D),
                              .a = y,
                              .by_rows = {x, 1, true, some, 0},
                              .s = 1,
                              .row_group = D->rows};
    return CODE_OK;
}

/* l_s += L (what is remembered of c_s y_s), with a row for each number; or where the map learns
 * backward m_s += L (of c_s x_s), with a row for each y. What is new is that of this stage alone. A
 * single row y has a part of all l_s, and m_s a part of all x. */
int map_response_whole(struct map *map, const double *c, struct change *change, struct err *err) {
    struct map_response *response = map->response;
    bool source = map_learns_backward(&map->declared);
    int P = map->stage[0].P, evaluations = response->terms.evaluations,
        each = source && map->declared.for_all_inputs ? 1 : response->terms.numbers / evaluations,
        rows = evaluations * each, first = response->terms.kept[0] * each;
    struct rows a = rows_main(source ? map->stage[0].read[0] : array_all(&map->stage[0].y));
    double *C;
    if (!response->whole.memory)
        TRY(init_rows(&response->whole, side_of(map, !source), 0, err));
    if (response->whole.rows < rows)
        TRY(append_zeros(&response->whole, rows - response->whole.rows, err));
    TRY(base_alloc(&C, (size_t)rows * (size_t)a.count, sizeof *C, err));
    for (int mu = 0; mu < P; mu++) {
        size_t row = (size_t)(first + (each == 1 ? 0 : mu));
        C[row * (size_t)a.count + (size_t)(a.count == 1 ? 0 : mu)] = c[mu];
    }
    *change = (struct change){.entries = array_all(&response->whole), .a = a, .C = C, .s = 1};
    return CODE_OK;
}
