/* What a pass of a limit does first: the basis of its side meets the rows, and normals are drawn
 * for what it grows by. On a device the host waits once for that. */
#include "kernels/maps/map_limit.h"
#include "kernels/base/text.h"

/* Site quantities are of order one; a block below this is round-off and opens no direction. */
static const double negligible = 1e-14;

int map_find_products(struct rows x, struct rows v, double **C, struct err *err) {
    TRY(base_alloc(C, (size_t)x.count * (size_t)v.count, sizeof **C, err));
    x.array->backend->dots(x, v, *C);
    return CODE_OK;
}

/* Extends the basis of one side by what rows x add to it: basis->rows - (rows before) rows. */
static int grow_basis(struct map *map, bool forward, struct rows x, struct basis_known known,
                      struct err *err) {
    struct population *side = forward ? map->declared.source : map->declared.target;
    struct limit_state *limit = limit_of(map);
    struct array *basis = forward ? &limit->q : &limit->p;
    int P = x.count, rank = basis->rows, kept;
    double total = 0, rest = 0;
    for (int mu = 0; mu < P; mu++) {
        const double *c = known.products + (size_t)mu * (size_t)rank;
        double square = known.squares[(size_t)mu * basis_step(x)], left = square;
        for (int a = 0; a < rank; a++)
            left -= c[a] * c[a];
        rest = fmax(rest, left);
        total += square;
    }
    if (!isfinite(total))
        return err_overflow(err, "map %s: its %s input is not finite",
                            TEXT_SHOWN_OF(&map->declared), forward ? "forward" : "backward");
    double rms = sqrt(total / P), *largest = &limit->largest[forward];
    *largest = fmax(*largest, rms);
    double threshold = map->settings.tolerance * (map->settings.against_largest ? *largest : rms);
    if (rms < negligible || rest <= threshold * threshold)
        return CODE_OK;
    if (!limit->loss[forward])
        TRY(base_alloc(&limit->loss[forward], basis->sites, sizeof **limit->loss, err));
    TRY(basis_residual(array_all(basis), limit->loss[forward], x, known, threshold,
                       &side->span.work, NULL, &kept, err));
    if (!kept)
        return CODE_OK;
    TRY(population_check_rank(side, rank + kept, TEXT_SHOWN_OF(&map->declared), err));
    struct rows added;
    TRY(array_append(basis, kept, &added, err));
    rows_copy(array_rows(&side->span.work, 0, kept), added);
    return side->draws.drawn ? population_absorb(side, added, err) : CODE_OK;
}

/* The normals that belong to new basis rows `added` of one side, appended on the other side. */
static int draw_normals(struct map *map, bool forward, struct rows added, struct err *err) {
    struct population *other = forward ? map->declared.target : map->declared.source;
    struct limit_state *limit = limit_of(map);
    struct array *normals = forward ? &limit->Z : &limit->e;
    struct rows out;
    TRY(array_append(normals, added.count, &out, err));
    if (!forward && map_learns_backward(&map->declared)) {
        struct rows learned;
        TRY(array_append(&limit->K, added.count, &learned, err));
        rows_zero(learned);
    }
    if ((forward ? map->numbers.fg : map->numbers.fr) == 0) {
        rows_zero(out); /* a learned part only */
        return CODE_OK;
    }
    if (limit->feed)
        TRY(limit->feed(limit->context, map, forward, added, out, err));
    else
        TRY((forward ? population_fresh : population_fresh_back)(
            other, array_all(forward ? &limit->p : &limit->q), out, err));
    if (!forward)
        return CODE_OK;
    if (map->settings.remembers) {
        struct rows kept;
        TRY(array_append(&limit->normals, out.count, &kept, err));
        rows_copy(rows_main(out), kept);
    }
    rows_scale(map->decay * map->numbers.fg, out);
    return CODE_OK;
}

/* *C [P][old] gets the columns `more` [P][k]. */
static int widen_products(double **C, size_t P, size_t old, const double *more, size_t k,
                          struct err *err) {
    double *wide;
    TRY(base_alloc(&wide, P * (old + k), sizeof *wide, err));
    for (size_t mu = 0; mu < P; mu++) {
        memcpy(wide + mu * (old + k), *C + mu * old, old * sizeof *wide);
        memcpy(wide + mu * (old + k) + old, more + mu * k, k * sizeof *wide);
    }
    free(*C);
    *C = wide;
    return CODE_OK;
}

bool map_delays(const struct map *map, struct rows out) {
    return backend_has_later(out.array->backend) && !map->settings.remembers &&
           !map->of_all_uses[0].array;
}

static const struct array *basis_of(const struct map *map, bool forward) {
    return forward ? &limit_of(map)->q : &limit_of(map)->p;
}

int map_ask_ahead(struct map *map, bool forward, struct rows x, struct err *err) {
    if (!map_has_bases(map) || map->declared.uses > 1 ||
        (forward ? limit_of(map)->leader != NULL : !map_meets_backward(map)))
        return CODE_OK;
    const struct array *basis = basis_of(map, forward);
    struct map_asked *asked = &limit_of(map)->asked[forward];
    if (asked->known.squares) /* of a pass that failed */
        backend_arrive(basis->backend, NULL, 0);
    basis_forget(&asked->known);
    *asked = (struct map_asked){.x = rows_main(x), .rank = basis->rows};
    backend_later(basis->backend, true);
    int code = basis_ask(array_all(basis), asked->x, &asked->known, err);
    backend_later(basis->backend, false);
    return code;
}

/* What is known of rows x, for its caller to free: what was asked for, or is found now. */
static int find_known(struct map *map, bool forward, struct rows x, struct basis_known *known,
                      struct err *err) {
    const struct array *basis = basis_of(map, forward);
    struct map_asked *asked = &limit_of(map)->asked[forward];
    if (asked->known.squares && asked->rank == basis->rows && asked->x.array == x.array &&
        asked->x.first == x.first && asked->x.count == x.count) {
        *known = asked->known;
        *asked = (struct map_asked){0};
        backend_arrive(basis->backend, known->squares, (size_t)x.count);
        return CODE_OK;
    }
    backend_hold(basis->backend, true);
    int code = basis_ask(array_all(basis), x, known, err);
    backend_hold(basis->backend, false);
    return code;
}

int map_meet(struct map *map, bool forward, struct rows x, bool delayed, double **C, bool *late,
             struct err *err) {
    struct array *basis = forward ? &limit_of(map)->q : &limit_of(map)->p;
    struct basis_known known = {0};
    int rank = basis->rows, code;
    FREED(base_free) double *more = NULL;
    x = rows_main(x);
    DO(find_known(map, forward, x, &known, err));
    DO(grow_basis(map, forward, x, known, err));
    *late = delayed && basis->rows > rank;
    if (basis->rows > rank) {
        struct rows added = array_rows(basis, rank, basis->rows - rank);
        backend_hold(basis->backend, true);
        if (!delayed)
            DO(map_find_products(x, added, &more, err));
        DO(draw_normals(map, forward, added, err));
        backend_hold(basis->backend, false);
        if (delayed)
            DO(base_alloc(&more, (size_t)x.count * (size_t)added.count, sizeof *more, err));
        DO(widen_products(&known.products, (size_t)x.count, (size_t)rank, more, (size_t)added.count,
                          err));
    }
    *C = known.products;
    known.products = NULL;
done:
    backend_hold(basis->backend, false);
    basis_forget(&known);
    return code;
}

int map_meet_after(struct map *map, struct rows x, struct rows out, double **R, bool *late,
                   struct err *err) {
    struct limit_state *limit = limit_of(map);
    const struct map *leader = limit->leader;
    const struct limit_state *its = limit_of(leader);
    int rank = limit->Z.rows;
    size_t count = (size_t)x.count * (size_t)its->q.rows;
    assert(leader->x.array == x.array && leader->x.first == x.first);
    limit->q = its->q;
    *late = its->late && map_delays(map, out);
    if (its->late && !*late)
        backend_arrive(x.array->backend, its->x_q, count);
    TRY(base_alloc(R, count, sizeof **R, err));
    memcpy(*R, its->x_q, count * sizeof **R);
    if (limit->q.rows == rank)
        return CODE_OK;
    return draw_normals(map, true, array_rows(&limit->q, rank, limit->q.rows - rank), err);
}
