/* The verbs, and the numbers that follow from a declaration. */
#include "kernels/maps/map_finite.h"
#include "kernels/maps/map_response.h"
#include "kernels/array/profile.h"

/* Powers of the nominal infinite size are above 2^200 or below 2^-200; products of O(1) numbers are
 * nowhere near. */
static double zero_if_vanishing(double number) {
    assert(fabs(number) < 0x1p100);
    return fabs(number) < 0x1p-100 ? 0 : number;
}

void map_declare(struct map *map, struct map_declaration declared) {
    double r = declared.target->size / declared.source->size;
    double fg = declared.a0 * declared.s_f;
    *map = (struct map){.declared = declared, .decay = 1};
    map->numbers = (struct map_numbers){
        .r = r,
        .fg = zero_if_vanishing(fg),
        .fr = zero_if_vanishing(fg / sqrt(r)),
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
             struct map_settings settings, struct err *err) {
    map_declare(map, declared);
    map->kind = kind;
    map->settings = settings;
    TRY(base_alloc(&map->state, 1, kind->state, err));
    TRY(kind->init(map, err));
    return settings.shift > 0 ? map_response_init(map, settings.shift, err) : CODE_OK;
}

void map_free(struct map *map) {
    if (map->state)
        map->kind->free(map);
    free(map->state);
    map->state = NULL;
    map_response_free(map);
    for (int k = 0; k < MAP_STAGES; k++) {
        array_free(&map->stage[k].x);
        array_free(&map->stage[k].y);
        free(map->stage[k].live);
        map->stage[k].live = NULL;
    }
    if (map->start)
        map_free(map->start);
    free(map->start);
    map->start = NULL;
}

/* Draws are a matter of the stream alone; where W(0) = 0 no entries are needed. */
int map_remember(struct map *map, struct err *err) {
    const struct map_kind *kind = map->declared.a0 == 0 ? &map_history : &map_finite;
    TRY(base_alloc(&map->start, 1, sizeof *map->start, err));
    return map_init(map->start, kind, map->declared, map->settings, err);
}

/* A history may have become a matrix by then. */
int map_archive(struct map *map, struct rows x, struct archive *archive, struct err *err) {
    bool entries = map->kind == &map_finite;
    TRY(archive_flag(archive, &entries, err));
    if (archive_reads(archive)) {
        map->x = x;
        if (entries && map->kind == &map_history)
            TRY(map_history_end(map, err));
        if (entries != (map->kind == &map_finite))
            return archive_misfit(archive, "a matrix is of another kind", err);
    }
    TRY(archive_bytes(archive, &map->decay, sizeof map->decay, err));
    TRY(map->kind->archive(map, archive, err));
    return map_response_archive(map, archive, err);
}

int map_start(const struct map *map, int use UNUSED, bool forward, struct rows in, struct rows out,
              struct err *err) {
    struct map *start = map->start;
    return (forward ? start->kind->forward : start->kind->backward)(start, in, out, err);
}

void map_stack_uses(struct map *map, struct rows x, struct rows y) {
    map->of_all_uses[0] = x;
    map->of_all_uses[1] = y;
}

int map_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    assert(x.count == out.count);
    map->x = x;
    if (map->of_all_uses[0].array) {
        map->x = map->of_all_uses[0];
        rows_copy(x, rows_part(map->x, map->use * x.count, x.count));
    }
    int before = profile_enter(map->declared.name, "forward");
    int code = map->kind->forward(map, x, out, err);
    code = code ? code : map_response_forward(map, x, out, err);
    profile_leave(before);
    return code;
}

typedef int backward_pass(struct map *map, struct rows y, struct rows out, struct err *err);

static int pass_backward(struct map *map, backward_pass *pass, struct rows y, struct rows out,
                         struct err *err) {
    assert(y.count == out.count);
    int before = profile_enter(map->declared.name, "backward");
    int code = pass(map, y, out, err);
    code = code ? code : map_response_backward(map, y, out, err);
    profile_leave(before);
    return code;
}

int map_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    return pass_backward(map, map->kind->backward, y, out, err);
}

int map_add_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    return pass_backward(map, map->kind->add_backward, y, out, err);
}

int map_keep(struct map *map, int k, struct rows y, struct err *err) {
    assert(y.count == map->x.count || y.count == 1);
    map->stage[k].P = map->x.count;
    if (map->terms)
        map->terms->kept[k] = map->terms->now;
    return map->kind->keep ? map->kind->keep(map, k, y, err) : CODE_OK;
}

int map_hold(struct map *map, struct rows y, struct err *err) {
    map->holds = true;
    int code = map_keep(map, 0, y, err);
    map->holds = false;
    return code;
}

void map_terms_free(struct map_terms *terms) {
    free(terms->c);
    free(terms->velocity);
    free(terms->decay);
    free(terms->measured);
}

int map_terms_measured(struct map *map, int t, struct err *err) {
    struct map_terms *terms = map->terms;
    int *longer;
    if (t < terms->times)
        return CODE_OK;
    TRY(base_alloc(&longer, (size_t)t + 1, sizeof *longer, err));
    for (int s = 0; s < terms->times; s++)
        longer[s] = terms->measured[s];
    free(terms->measured);
    terms->measured = longer;
    longer[t] = terms->now;
    terms->times = t + 1;
    return CODE_OK;
}

int map_terms_gradient(const struct map *map, const double *c, double **gradient, struct err *err) {
    const struct map_terms *terms = map->terms;
    int P = map->stage[0].P;
    TRY(base_alloc(gradient, (size_t)terms->numbers, sizeof **gradient, err));
    memcpy(*gradient + terms->kept[0] * P, c, (size_t)P * sizeof **gradient);
    return CODE_OK;
}

int map_learn(struct map *map, int k, const double *c, struct err *err) {
    struct map_terms *terms = map->terms;
    struct change change;
    int before = profile_enter(map->declared.name, "learn"), code = CODE_OK;
    if (map->kind->learn)
        code = map->kind->learn(map, k, c, err);
    else if (map->kind->change && !(code = map->kind->change(map, k, c, &change, err)))
        code = change_apply(&change, err);
    for (int mu = 0; terms && mu < map->stage[k].P; mu++)
        terms->c[terms->kept[k] * map->stage[k].P + mu] += c[mu];
    profile_leave(before);
    return code;
}

void map_decay(struct map *map, double factor) {
    map->decay *= factor;
    for (int k = 0; map->terms && k < map->terms->numbers; k++)
        map->terms->c[k] *= factor;
    map_response_decay(map, factor);
    if (map->kind->decay)
        map->kind->decay(map, factor);
}

int map_keep_rows(struct map *map, int k, struct rows y, struct err *err) {
    struct stage *stage = &map->stage[k];
    stage->read[0] = map->x;
    stage->read[1] = y;
    if (map->holds)
        return CODE_OK;
    TRY(array_keep(&stage->x, map->x, err));
    TRY(array_keep(&stage->y, y, err));
    stage->read[0] = array_all(&stage->x);
    stage->read[1] = array_all(&stage->y);
    return CODE_OK;
}

void map_products_rows(const struct map *map, struct rows y, double *X, double *Y) {
    y.array->backend->dots(map->x, map->x, X);
    y.array->backend->dots(y, y, Y);
}
