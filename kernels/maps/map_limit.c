/* The infinite-width limit of a map: W(0) conditioned on its past, plus the learned part, as an
 * explicit matrix of growing rank over Monte Carlo sites (formulae in map.h). */
#include "kernels/maps/map_limit.h"

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
    backend_arrive(map->declared.source->backend, NULL, 0);
    basis_forget(&limit->asked[0].known);
    basis_forget(&limit->asked[1].known);
    free(limit->loss[0]);
    free(limit->loss[1]);
    free(limit->x_q);
    free(limit->x_e);
    free(limit->y_p);
    free(limit->y_normals);
    for (int k = 0; k < MAP_STAGES; k++)
        free(limit->kept[k].R);
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
    FREED(base_free) double *scaled = NULL;
    if (!basis.count)
        return CODE_OK;
    if (factor != 1) {
        TRY(base_alloc(&scaled, count, sizeof *scaled, err));
        for (size_t i = 0; i < count; i++)
            scaled[i] = factor * C[i];
    }
    out.array->backend->combine(out, 1, scaled ? scaled : C, basis);
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

/* out = sum_a R_a Z_a, R = <x, q>, which are known, or come later. */
static void pass_through(struct rows x, struct rows q, struct rows Z, struct rows out, double *R,
                         bool late) {
    const struct backend *backend = out.array->backend;
    if (!late) {
        backend->combine(out, 0, R, Z);
        return;
    }
    backend_later(backend, true);
    rows_low_rank(out, 0, 1, x, q, Z, R, true);
    backend_later(backend, false);
}

static int limit_forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    struct limit_state *limit = limit_of(map);
    FREED(base_free) double *R = NULL, *E = NULL, *L = NULL;
    bool remembers = map->settings.remembers;
    int met = limit->e.rows;
    limit->late = false;
    TRY(limit->leader ? map_meet_after(map, x, out, &R, &limit->late, err)
                      : map_meet(map, true, x, map_delays(map, out), &R, &limit->late, err));
    pass_through(x, array_all(&limit->q), array_all(&limit->Z), out, R, limit->late);
    /* What comes late needs its memory, whatever fails from here on. */
    TRY(enter_use(map, &R, x.count, limit->q.rows, &limit->x_q, &limit->q_count, err));
    if (remembers) { /* what decays may be gone, and what it is at the start is wanted */
        TRY(map_find_products(x, array_all(&limit->e), &E, err));
        scale_matrix(E, x.count, met, map->numbers.fr);
        TRY(add_rows(out, map->decay, E, array_rows(&limit->p, 0, met), err));
    } else
        TRY(add_products(x, array_all(&limit->e), array_rows(&limit->p, 0, met), 1,
                         map->numbers.fr * map->decay, out, &E, err));
    TRY(add_products(x, array_all(&limit->K), array_rows(&limit->p, 0, limit->K.rows), 1, 1, out,
                     &L, err));
    if (remembers)
        TRY(enter_use(map, &E, x.count, met, &limit->x_e, &limit->e_count, err));
    return CODE_OK;
}

static int limit_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    struct limit_state *limit = limit_of(map);
    FREED(base_free) double *Y = NULL, *C = NULL, *shown = NULL;
    bool late = false;
    if (map_meets_backward(map))
        TRY(map_meet(map, false, y, map_delays(map, out), &C, &late, err));
    assert(!map->settings.remembers || map->of_all_uses[0].array ||
           y.count == (map->declared.for_all_inputs ? 1 : map->x.count));
    TRY(add_products(y, array_all(&limit->Z), array_all(&limit->q), 0, 1, out, &Y, err));
    if (late) { /* nobody else wants C */
        struct rows p = array_all(&limit->p);
        if (limit->K.rows)
            rows_low_rank(out, 1, 1, y, p, array_all(&limit->K), C, false);
        rows_low_rank(out, 1, map->decay * map->numbers.fr, y, p, array_all(&limit->e), C, false);
    } else if (limit->p.rows) {
        TRY(add_rows(out, 1, C, array_all(&limit->K), err));
        scale_matrix(C, y.count, limit->p.rows, map->numbers.fr);
        TRY(add_rows(out, map->decay, C, array_all(&limit->e), err));
    }
    if (map->settings.remembers) {
        TRY(map_find_products(y, array_all(&limit->normals), &shown, err));
        TRY(enter_use(map, &shown, y.count, limit->normals.rows, &limit->y_normals,
                      &limit->normal_count, err));
    }
    if (map->settings.remembers && C)
        TRY(enter_use(map, &C, y.count, limit->p.rows, &limit->y_p, &limit->p_count, err));
    return CODE_OK;
}

/* x, and y over the basis p. */
static int keep_backward(struct map *map, int k, struct rows y, struct err *err) {
    struct limit_state *limit = limit_of(map);
    limit->kept[k].rank = limit->p.rows;
    TRY(map_keep_rows(map, k, y, err));
    free(limit->kept[k].R);
    return map_find_products(y, array_all(&limit->p), &limit->kept[k].R, err);
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
    TRY(archive_list(archive, &limit->loss[0], limit->Z.sites, sizeof *limit->loss[0], err));
    TRY(archive_list(archive, &limit->loss[1], limit->e.sites, sizeof *limit->loss[1], err));
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
static int limit_initial(const struct map *map, int use, bool forward, struct rows in UNUSED,
                         struct rows out, struct err *err) {
    const struct backend *backend = out.array->backend;
    const struct limit_state *limit = limit_of(map);
    const struct array *own = forward ? &limit->normals : &limit->q;
    int rank = limit->normals.rows, met = forward ? limit->e_count : limit->p.rows;
    size_t first = (size_t)use * (size_t)out.count, count = (size_t)out.count * (size_t)rank;
    SCRATCH(double, C, count);
    for (size_t i = 0; i < count; i++)
        C[i] =
            map->numbers.fg * (forward ? limit->x_q : limit->y_normals)[first * (size_t)rank + i];
    backend->combine(out, 0, C, array_rows(own, 0, rank));
    if (met && forward)
        backend->combine(out, 1, limit->x_e + first * (size_t)met, array_rows(&limit->p, 0, met));
    else if (met)
        backend->combine(out, 1, limit->y_p + first * (size_t)met, array_rows(&limit->e, 0, met));
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

MAP_KIND(limit, struct limit_state, .keep = limit_keep, .products = limit_products,
         .change = limit_change, .decay = limit_decay, .archive = limit_archive,
         .initial = limit_initial, .bytes = limit_bytes);
