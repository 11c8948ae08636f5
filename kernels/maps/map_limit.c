/* The infinite-width limit of a map: W(0) conditioned on its past, plus the learned part, as an
 * explicit matrix of growing rank over Monte Carlo sites (formulae in map.h). */
#include "kernels/maps/map_limit.h"
#include "kernels/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Site quantities are of order one; a block below this is round-off and opens no direction. */
static const double negligible = 1e-14;

static int limit_init(struct map *map, struct err *err) {
    struct population *s = map->declared.source, *t = map->declared.target;
    struct limit_state *limit = limit_of(map);
    struct map_numbers n = map->numbers;
    s->draws.drawn |= n.fr != 0;
    t->draws.drawn |= n.fg != 0;
    const struct backend *backend = backend_main(s->backend);
    TRY(array_init(&limit->q, backend, s->sites, s->group, 0, err));
    TRY(array_init(&limit->e, backend, s->sites, s->group, 0, err));
    TRY(array_init(&limit->Z, t->backend, t->sites, t->group, 0, err));
    TRY(array_init(&limit->K, s->backend, s->sites, s->group, 0, err));
    TRY(array_init(&limit->normals, backend, t->sites, t->group, 0, err));
    return array_init(&limit->p, backend, t->sites, t->group, 0, err);
}

static void limit_free(struct map *map) {
    struct limit_state *limit = limit_of(map);
    if (!limit->leader)
        array_free(&limit->q);
    array_free(&limit->e);
    array_free(&limit->Z);
    array_free(&limit->p);
    array_free(&limit->K);
    array_free(&limit->normals);
    free(limit->x_q);
    free(limit->x_e);
    free(limit->y_p);
    free(limit->y_normals);
    for (int k = 0; k < MAP_STAGES; k++)
        free(limit->kept[k].R);
}

/* C[P][n] = <x_mu, v_k>, allocated. */
static int find_products(struct rows x, struct rows v, double **C, struct err *err) {
    TRY(base_alloc(C, (size_t)x.count * (size_t)v.count, sizeof **C, err));
    x.array->backend->dots(x, v, *C);
    return CODE_OK;
}

/* Extends the basis of one side by what rows x add to it. New rows of the basis are basis->rows -
 * (rows before). */
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
    TRY(basis_residual(array_all(basis), x, known, threshold, &side->span.work, &kept, err));
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

/* The basis of one side meets x: *C, the products with all its rows, those with new ones coming
 * while normals are drawn. */
static int meet_basis(struct map *map, bool forward, struct rows x, double **C, struct err *err) {
    struct array *basis = forward ? &limit_of(map)->q : &limit_of(map)->p;
    struct basis_known known = {0};
    int rank = basis->rows, code;
    double *more = NULL;
    x = rows_main(x);
    backend_hold(basis->backend, true);
    DO(basis_look(array_all(basis), x, &known, err));
    backend_hold(basis->backend, false);
    DO(grow_basis(map, forward, x, known, err));
    if (basis->rows > rank) {
        struct rows added = array_rows(basis, rank, basis->rows - rank);
        backend_hold(basis->backend, true);
        DO(find_products(x, added, &more, err));
        DO(draw_normals(map, forward, added, err));
        backend_hold(basis->backend, false);
        DO(widen_products(&known.products, (size_t)x.count, (size_t)rank, more, (size_t)added.count,
                          err));
    }
    *C = known.products;
    known.products = NULL;
done:
    backend_hold(basis->backend, false);
    basis_forget(&known);
    free(more);
    return code;
}

/* If another map has met x just before, its basis serves both. */
static int follow_leader(struct map *map, struct rows x, double **R, struct err *err) {
    struct limit_state *limit = limit_of(map);
    const struct map *leader = limit->leader;
    const struct limit_state *its = limit_of(leader);
    int rank = limit->Z.rows;
    size_t count = (size_t)x.count * (size_t)its->q.rows;
    assert(leader->x.array == x.array && leader->x.first == x.first);
    limit->q = its->q;
    TRY(base_alloc(R, count, sizeof **R, err));
    memcpy(*R, its->x_q, count * sizeof **R);
    if (limit->q.rows == rank)
        return CODE_OK;
    return draw_normals(map, true, array_rows(&limit->q, rank, limit->q.rows - rank), err);
}

static void scale_matrix(double *C, int rows, int columns, double factor) {
    for (size_t i = 0; i < (size_t)rows * (size_t)columns; i++)
        C[i] *= factor;
}

/* The coefficients *C [P][columns] of a pass, taken over, become those of its use among *all
 * [uses P][*known], whose other rows have had nothing to do with the columns that are new. */
static int enter_use(const struct map *map, double **C, int P, int columns, double **all,
                     int *known, struct err *err) {
    int uses = map->of_all_uses[0].array ? map->declared.uses : 1;
    size_t width = (size_t)columns, old = (size_t)*known, rows = (size_t)P;
    if (uses > 1) {
        double *wide;
        TRY(base_alloc(&wide, (size_t)uses * rows * width, sizeof *wide, err));
        for (size_t i = 0; i < (size_t)uses * rows && *all; i++)
            memcpy(wide + i * width, *all + i * old, old * sizeof *wide);
        memcpy(wide + (size_t)map->use * rows * width, *C, rows * width * sizeof *wide);
        free(*C);
        *C = wide;
    }
    free(*all);
    *all = *C;
    *known = columns;
    *C = NULL;
    return CODE_OK;
}

/* out += factor C basis, C [out.count][basis.count]. */
static int add_rows(struct rows out, double factor, const double *C, struct rows basis,
                    struct err *err) {
    size_t count = (size_t)out.count * (size_t)basis.count;
    double *scaled = NULL;
    if (!basis.count)
        return CODE_OK;
    if (factor != 1) {
        TRY(base_alloc(&scaled, count, sizeof *scaled, err));
        for (size_t i = 0; i < count; i++)
            scaled[i] = factor * C[i];
    }
    out.array->backend->combine(out, 1, scaled ? scaled : C, basis);
    free(scaled);
    return CODE_OK;
}

/* out = beta out + factor sum_b <x, from_b> to_b; *C: room, allocated. */
static int add_products(struct rows x, struct rows from, struct rows to, double beta, double factor,
                        struct rows out, double **C, struct err *err) {
    TRY(base_alloc(C, (size_t)x.count * (size_t)from.count, sizeof **C, err));
    if (from.count || beta != 1)
        rows_low_rank(out, beta, factor, x, from, to, *C, false);
    return CODE_OK;
}

static int limit_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    struct limit_state *limit = limit_of(map);
    double *R = NULL, *E = NULL, *L = NULL;
    bool remembers = map->settings.remembers;
    int code, met = limit->e.rows;
    DO(limit->leader ? follow_leader(map, x, &R, err) : meet_basis(map, true, x, &R, err));
    out.array->backend->combine(out, 0, R, array_all(&limit->Z));
    if (remembers) { /* what decays may be gone, and what it is at the start is wanted */
        DO(find_products(x, array_all(&limit->e), &E, err));
        scale_matrix(E, x.count, met, map->numbers.fr);
        DO(add_rows(out, map->decay, E, array_rows(&limit->p, 0, met), err));
    } else
        DO(add_products(x, array_all(&limit->e), array_rows(&limit->p, 0, met), 1,
                        map->numbers.fr * map->decay, out, &E, err));
    DO(add_products(x, array_all(&limit->K), array_rows(&limit->p, 0, limit->K.rows), 1, 1, out, &L,
                    err));
    DO(enter_use(map, &R, x.count, limit->q.rows, &limit->x_q, &limit->q_count, err));
    if (remembers)
        DO(enter_use(map, &E, x.count, met, &limit->x_e, &limit->e_count, err));
done:
    free(R);
    free(E);
    free(L);
    return code;
}

static int limit_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    struct limit_state *limit = limit_of(map);
    double *Y = NULL, *C = NULL, *shown = NULL;
    int code = CODE_OK;
    if (map->numbers.fr != 0 || map_learns_backward(&map->declared))
        DO(meet_basis(map, false, y, &C, err));
    assert(!map->settings.remembers || map->of_all_uses[0].array ||
           y.count == (map->declared.for_all_inputs ? 1 : map->x.count));
    DO(add_products(y, array_all(&limit->Z), array_all(&limit->q), 0, 1, out, &Y, err));
    if (limit->p.rows) {
        DO(add_rows(out, 1, C, array_all(&limit->K), err));
        scale_matrix(C, y.count, limit->p.rows, map->numbers.fr);
        DO(add_rows(out, map->decay, C, array_all(&limit->e), err));
    }
    if (map->settings.remembers) {
        DO(find_products(y, array_all(&limit->normals), &shown, err));
        DO(enter_use(map, &shown, y.count, limit->normals.rows, &limit->y_normals,
                     &limit->normal_count, err));
    }
    if (map->settings.remembers && C)
        DO(enter_use(map, &C, y.count, limit->p.rows, &limit->y_p, &limit->p_count, err));
done:
    free(Y);
    free(C);
    free(shown);
    return code;
}

/* x, and y over the basis p. */
static int keep_backward(struct map *map, int k, struct rows y, struct err *err) {
    struct limit_state *limit = limit_of(map);
    limit->kept[k].rank = limit->p.rows;
    TRY(map_keep_rows(map, k, y, err));
    free(limit->kept[k].R);
    return find_products(y, array_all(&limit->p), &limit->kept[k].R, err);
}

static int limit_keep(struct map *map, int k, struct rows y, struct err *err) {
    struct limit_state *limit = limit_of(map);
    if (map_learns_backward(&map->declared))
        return keep_backward(map, k, y, err);
    size_t count = (size_t)map->stage[k].P * (size_t)limit->q.rows;
    double **R = &limit->kept[k].R;
    limit->kept[k].rank = limit->q.rows;
    free(*R);
    TRY(base_alloc(R, count, sizeof **R, err));
    memcpy(*R, limit->x_q, count * sizeof **R);
    return array_keep(&map->stage[k].y, y, err);
}

/* x by its coordinates. */
static void limit_products(const struct map *map, struct rows y, double *X, double *Y) {
    const struct limit_state *limit = limit_of(map);
    size_t P = (size_t)map->x.count, rank = (size_t)limit->q.rows;
    for (size_t mu = 0; mu < P; mu++)
        for (size_t nu = 0; nu < P; nu++) {
            double sum = 0;
            for (size_t a = 0; a < rank; a++)
                sum += limit->x_q[mu * rank + a] * limit->x_q[nu * rank + a];
            X[mu * P + nu] = sum;
        }
    y.array->backend->dots(y, y, Y);
}

/* K_b += sum_mu c_mu <y_mu, p_b> x_mu. */
static int change_backward(struct map *map, int k, const double *c, struct change *change,
                           struct err *err) {
    struct limit_state *limit = limit_of(map);
    struct rows x = map->stage[k].read[0];
    size_t P = (size_t)map->stage[k].P, rank = (size_t)limit->kept[k].rank;
    bool one = map->stage[k].read[1].count == 1;
    double *C;
    TRY(base_alloc(&C, rank * P, sizeof *C, err));
    for (size_t b = 0; b < rank; b++)
        for (size_t mu = 0; mu < P; mu++)
            C[b * P + mu] = c[mu] * limit->kept[k].R[(one ? 0 : mu) * rank + b];
    *change = (struct change){.entries = array_rows(&limit->K, 0, (int)rank),
                              .a = x,
                              .C = C,
                              .s = 1,
                              .column_group = map_each(&map->declared, false)};
    return CODE_OK;
}

/* Z_a += sum_mu c_mu R_mu,a y_mu; directions met since do not learn. */
static int limit_change(struct map *map, int k, const double *c, struct change *change,
                        struct err *err) {
    struct limit_state *limit = limit_of(map);
    if (map_learns_backward(&map->declared))
        return change_backward(map, k, c, change, err);
    struct rows y = array_all(&map->stage[k].y);
    const double *R = limit->kept[k].R;
    size_t P = (size_t)map->stage[k].P, rank = (size_t)limit->kept[k].rank, rows = (size_t)y.count;
    double *C;
    TRY(base_alloc(&C, rank * rows, sizeof *C, err));
    for (size_t a = 0; a < rank; a++)
        for (size_t mu = 0; mu < P; mu++)
            C[a * rows + (rows == 1 ? 0 : mu)] += c[mu] * R[mu * rank + a];
    *change = (struct change){.entries = array_rows(&limit->Z, 0, (int)rank),
                              .a = y,
                              .C = C,
                              .s = 1,
                              .column_group = map_each(&map->declared, true)};
    return CODE_OK;
}

static void limit_decay(struct map *map, double factor) {
    struct limit_state *limit = limit_of(map);
    rows_scale(factor, array_all(&limit->Z));
    rows_scale(factor, array_all(&limit->K));
}

/* Only x_q of the last pass is saved: learning reads it, and only who measures reads the rest. */
static int limit_archive(struct map *map, struct archive *archive, struct err *err) {
    const struct backend *backend = map->declared.source->backend;
    struct limit_state *limit = limit_of(map);
    if (limit->leader)
        limit->q = limit_of(limit->leader)->q;
    else
        TRY(archive_array(archive, &limit->q, backend, err));
    TRY(archive_array(archive, &limit->e, backend, err));
    TRY(archive_array(archive, &limit->Z, backend, err));
    TRY(archive_array(archive, &limit->p, backend, err));
    TRY(archive_array(archive, &limit->normals, backend, err));
    TRY(archive_array(archive, &limit->K, backend, err));
    TRY(archive_bytes(archive, limit->largest, sizeof limit->largest, err));
    TRY(archive_expect(archive, &limit->Z, limit->Z.sites, limit->Z.group, limit->q.rows, err));
    TRY(archive_expect(archive, &limit->e, limit->e.sites, limit->e.group, limit->p.rows, err));
    TRY(archive_expect(archive, &limit->K, limit->e.sites, limit->e.group,
                       map_learns_backward(&map->declared) ? limit->p.rows : 0, err));
    TRY(archive_expect(archive, &limit->normals, limit->normals.sites, limit->normals.group,
                       map->settings.remembers && map->numbers.fg != 0 ? limit->q.rows : 0, err));
    limit->q_count = limit->q.rows;
    TRY(archive_list(archive, &limit->x_q, (size_t)map->x.count * (size_t)limit->q.rows,
                     sizeof *limit->x_q, err));
    return limit->x_q || limit->q.rows == 0 || !archive_reads(archive) /* zero matrices have none */
               ? CODE_OK
               : archive_misfit(archive, "a basis has no coefficients", err);
}

/* The normals in Z alone, and the other direction's as in a pass. */
static int limit_initial(const struct map *map, int use, bool forward, struct rows in,
                         struct rows out, struct err *err) {
    const struct backend *backend = out.array->backend;
    const struct limit_state *limit = limit_of(map);
    const struct array *own = forward ? &limit->normals : &limit->q;
    int rank = limit->normals.rows, met = forward ? limit->e_count : limit->p.rows;
    size_t first = (size_t)use * (size_t)out.count, count = (size_t)out.count * (size_t)rank;
    double *C;
    (void)in;
    TRY(base_alloc(&C, count, sizeof *C, err));
    for (size_t i = 0; i < count; i++)
        C[i] =
            map->numbers.fg * (forward ? limit->x_q : limit->y_normals)[first * (size_t)rank + i];
    backend->combine(out, 0, C, array_rows(own, 0, rank));
    if (met && forward)
        backend->combine(out, 1, limit->x_e + first * (size_t)met, array_rows(&limit->p, 0, met));
    else if (met)
        backend->combine(out, 1, limit->y_p + first * (size_t)met, array_rows(&limit->e, 0, met));
    free(C);
    return CODE_OK;
}

/* Bytes of q, p, Z and e with their room to grow, and of what is learned backward. Each row of q,
 * which may be that of a leader, has one of Z on the other side, and each row of p one of e. */
static double limit_bytes(const struct map *map, const struct map_costs *costs) {
    const struct population *s = map->declared.source, *t = map->declared.target;
    double own = costs->follows ? 0 : costs->q,
           learned = map_learns_backward(&map->declared) ? costs->p : 0;
    return population_main_bytes(s, own) + population_main_bytes(s, costs->p) +
           population_grown_bytes(s, learned) + population_grown_bytes(t, costs->q) +
           population_main_bytes(t, costs->p);
}

const struct map_kind map_limit = {
    .state = sizeof(struct limit_state),
    .init = limit_init,
    .free = limit_free,
    .forward = limit_forward,
    .backward = limit_backward,
    .keep = limit_keep,
    .products = limit_products,
    .change = limit_change,
    .decay = limit_decay,
    .archive = limit_archive,
    .initial = limit_initial,
    .bytes = limit_bytes,
};
