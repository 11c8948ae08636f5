/* The infinite-width limit of a map: W(0) conditioned on its past, plus the learned part, as an
 * explicit matrix of growing rank over Monte Carlo sites (formulae in map.h). */
#include "kernels/map.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Site quantities are of order one; a block below this is round-off and opens no direction. */
static const double negligible = 1e-14;

static int limit_init(struct map *map, struct err *err) {
    struct population *s = map->declared.source, *t = map->declared.target;
    struct map_numbers n = map->numbers;
    s->drawn |= n.fr != 0;
    t->drawn |= n.fg != 0;
    TRY(array_init(&map->q, s->backend, s->sites, s->group, 0, err));
    TRY(array_init(&map->e, s->backend, s->sites, s->group, 0, err));
    TRY(array_init(&map->Z, t->backend, t->sites, t->group, 0, err));
    TRY(array_init(&map->normals, t->backend, t->sites, t->group, 0, err));
    return array_init(&map->p, t->backend, t->sites, t->group, 0, err);
}

/* C[P][n] = <x_mu, v_k>, allocated in place of what *C was. */
static int products(struct rows x, struct rows v, double **C, struct err *err) {
    free(*C);
    TRY(base_alloc(C, (size_t)x.count * (size_t)v.count, sizeof **C, err));
    x.array->backend->dots(x, v, *C);
    return CODE_OK;
}

/* Extends the basis of one side by what rows x (known products C with it) add to it. New rows of
 * the basis are basis->rows - (rows before). */
static int grow(struct map *map, bool forward, struct rows x, const double *C, struct err *err) {
    struct population *side = forward ? map->declared.source : map->declared.target;
    struct array *basis = forward ? &map->q : &map->p;
    int P = x.count, rank = basis->rows, kept;
    double norm2[P], total = 0, rest = 0;
    x.array->backend->averages(x, x, norm2);
    for (int mu = 0; mu < P; mu++) {
        double left = norm2[mu];
        for (int a = 0; a < rank; a++)
            left -= C[mu * rank + a] * C[mu * rank + a];
        rest = fmax(rest, left);
        total += norm2[mu];
    }
    if (!isfinite(total))
        return err_set(err, CODE_NUMERICAL,
                       "map %s: its %s input is not finite; lower eta0 or gamma0",
                       map->declared.name, forward ? "forward" : "backward");
    double rms = sqrt(total / P), threshold = map->tolerance * rms;
    if (rms < negligible || rest <= threshold * threshold)
        return CODE_OK;
    TRY(basis_residual(array_all(basis), x, C, threshold, &side->work, &kept, err));
    if (!kept)
        return CODE_OK;
    TRY(population_check_rank(side, rank + kept, map->declared.name, err));
    struct rows added;
    TRY(array_append(basis, kept, &added, err));
    rows_copy(array_rows(&side->work, 0, kept), added);
    return side->drawn ? population_absorb(side, added, err) : CODE_OK;
}

/* The normals that belong to new basis rows `added` of one side, appended on the other side. */
static int draw(struct map *map, bool forward, struct rows added, struct err *err) {
    struct population *other = forward ? map->declared.target : map->declared.source;
    struct array *normals = forward ? &map->Z : &map->e;
    struct rows out;
    TRY(array_append(normals, added.count, &out, err));
    if (forward && map->numbers.fg == 0) {
        rows_zero(out); /* a learned part only */
        return CODE_OK;
    }
    if (map->feed)
        TRY(map->feed(map->context, map, forward, added, out, err));
    else
        TRY(population_fresh(other, array_all(forward ? &map->p : &map->q), out, err));
    if (!forward)
        return CODE_OK;
    if (map->responses) {
        struct rows kept;
        TRY(array_append(&map->normals, out.count, &kept, err));
        rows_copy(out, kept);
    }
    rows_scale(map->numbers.fg, out);
    return CODE_OK;
}

/* C gets columns for the rows of basis that came after the first `rank`. */
static int widen(struct rows x, const struct array *basis, int rank, double **C, struct err *err) {
    int P = x.count, all = basis->rows, k = all - rank;
    double *wide = NULL, *fresh = NULL;
    int code = CODE_OK;
    DO(base_alloc(&wide, (size_t)P * (size_t)all, sizeof *wide, err));
    DO(products(x, array_rows(basis, rank, k), &fresh, err));
    for (int mu = 0; mu < P; mu++) {
        for (int a = 0; a < rank; a++)
            wide[mu * all + a] = (*C)[mu * rank + a];
        for (int a = 0; a < k; a++)
            wide[mu * all + rank + a] = fresh[mu * k + a];
    }
    free(*C);
    *C = wide;
    wide = NULL;
done:
    free(wide);
    free(fresh);
    return code;
}

/* Products of x with the basis of its side, after the basis has met x. */
static int meet(struct map *map, bool forward, struct rows x, double **C, struct err *err) {
    struct array *basis = forward ? &map->q : &map->p;
    int rank = basis->rows;
    TRY(products(x, array_all(basis), C, err));
    TRY(grow(map, forward, x, *C, err));
    if (basis->rows == rank)
        return CODE_OK;
    TRY(draw(map, forward, array_rows(basis, rank, basis->rows - rank), err));
    return widen(x, basis, rank, C, err);
}

/* The same where another map has met x just before: its basis serves both. */
static int follow(struct map *map, struct rows x, struct err *err) {
    const struct map *leader = map->leader;
    int rank = map->Z.rows, count = x.count * leader->q.rows;
    assert(leader->x.array == x.array && leader->x.first == x.first);
    map->q = leader->q;
    free(map->R);
    TRY(base_alloc(&map->R, (size_t)count, sizeof *map->R, err));
    memcpy(map->R, leader->R, (size_t)count * sizeof *map->R);
    if (map->q.rows == rank)
        return CODE_OK;
    return draw(map, true, array_rows(&map->q, rank, map->q.rows - rank), err);
}

static void scale_matrix(double *C, int count, double factor) {
    for (int i = 0; i < count; i++)
        C[i] *= factor;
}

static int limit_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    const struct backend *backend = x.array->backend;
    TRY(map->leader ? follow(map, x, err) : meet(map, true, x, &map->R, err));
    TRY(products(x, array_all(&map->e), &map->E, err));
    map->met = map->e.rows;
    scale_matrix(map->E, x.count * map->met, map->numbers.fr);
    backend->combine(out, 0, map->R, array_all(&map->Z));
    if (map->met)
        backend->combine(out, 1, map->E, array_all(&map->p));
    return CODE_OK;
}

static int limit_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    const struct backend *backend = y.array->backend;
    double *Y = NULL;
    if (map->numbers.fr != 0)
        TRY(meet(map, false, y, &map->C, err));
    assert(!map->responses || y.count == (map->declared.one_row ? 1 : map->x.count));
    if (map->responses)
        TRY(products(y, array_all(&map->normals), &map->Y, err));
    TRY(products(y, array_all(&map->Z), &Y, err));
    backend->combine(out, 0, Y, array_all(&map->q));
    free(Y);
    if (map->p.rows) {
        scale_matrix(map->C, y.count * map->p.rows, map->numbers.fr);
        backend->combine(out, 1, map->C, array_all(&map->e));
    }
    return CODE_OK;
}

static int limit_keep(struct map *map, struct stage *stage, struct rows y, struct err *err) {
    size_t count = (size_t)stage->P * (size_t)map->q.rows;
    stage->rank = map->q.rows;
    free(stage->R);
    TRY(base_alloc(&stage->R, count, sizeof *stage->R, err));
    memcpy(stage->R, map->R, count * sizeof *stage->R);
    return array_keep(&stage->y, y, err);
}

/* x by its coordinates. */
static void limit_products(const struct map *map, struct rows y, double *X, double *Y) {
    int P = map->x.count, rank = map->q.rows;
    for (int mu = 0; mu < P; mu++)
        for (int nu = 0; nu < P; nu++) {
            double sum = 0;
            for (int a = 0; a < rank; a++)
                sum += map->R[mu * rank + a] * map->R[nu * rank + a];
            X[mu * P + nu] = sum;
        }
    y.array->backend->dots(y, y, Y);
}

/* Z_a += sum_mu c_mu R_mu,a y_mu; directions met since do not learn. */
static int limit_change(struct map *map, const struct stage *stage, const double *c,
                        struct change *change, struct err *err) {
    struct rows y = array_all(&stage->y);
    int P = stage->P, rank = stage->rank, rows = y.count;
    double *C;
    TRY(base_alloc(&C, (size_t)rank * (size_t)rows, sizeof *C, err));
    for (int a = 0; a < rank; a++)
        for (int mu = 0; mu < P; mu++)
            C[a * rows + (rows == 1 ? 0 : mu)] += c[mu] * stage->R[mu * rank + a];
    *change = (struct change){array_rows(&map->Z, 0, rank), y, C, 1};
    return CODE_OK;
}

/* The normals in Z alone, and the other direction's as in a pass. */
static int limit_initial(const struct map *map, bool forward, struct rows in, struct rows out,
                         struct err *err) {
    const struct backend *backend = out.array->backend;
    const struct array *own = forward ? &map->normals : &map->q;
    int rank = map->normals.rows, met = forward ? map->met : map->p.rows;
    double *C;
    (void)in;
    TRY(base_alloc(&C, (size_t)out.count * (size_t)rank, sizeof *C, err));
    for (int i = 0; i < out.count * rank; i++)
        C[i] = map->numbers.fg * (forward ? map->R : map->Y)[i];
    backend->combine(out, 0, C, array_rows(own, 0, rank));
    if (met && forward)
        backend->combine(out, 1, map->E, array_rows(&map->p, 0, met));
    else if (met)
        backend->combine(out, 1, map->C, array_rows(&map->e, 0, met));
    free(C);
    return CODE_OK;
}

/* q, e and Z, p, what they add to the spans, and room for growth; q and Z if nothing is drawn. */
static double limit_bytes(const struct map *map, const struct map_costs *costs) {
    double copies = map->declared.a0 != 0 ? 3 : 1;
    return 1.5 * copies *
           (population_bytes(map->declared.source, 1) * costs->q +
            population_bytes(map->declared.target, 1) * costs->p);
}

const struct map_kind map_limit = {
    .init = limit_init,
    .forward = limit_forward,
    .backward = limit_backward,
    .keep = limit_keep,
    .products = limit_products,
    .change = limit_change,
    .initial = limit_initial,
    .bytes = limit_bytes,
};
