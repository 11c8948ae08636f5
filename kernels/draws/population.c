#include "kernels/draws/population.h"
#include "kernels/base/text.h"

/* A vector of norm one counts as inside the span below this rest; it keeps |v| away from 0. */
static const double inside = 1e-8;

/* Draws are made orthonormal in double precision, whatever that of the rows: a network in single
 * precision begins with the weights of the one in double, rounded. */
static const struct backend *exact_backend(const struct population *population) {
    const struct backend *backend = backend_main(population->backend);
    return backend->bytes == sizeof(double) ? backend : backend->other;
}

int population_init(struct population *population, struct err *err) {
    const struct backend *backend = exact_backend(population);
    size_t sites = population->sites;
    int group = population->group;
    TRY(array_init(&population->span.work, backend, sites, group, 0, err));
    TRY(array_init(&population->span.waiting, backend, sites, group, 0, err));
    return array_init(&population->span.rows, backend, sites, group, 0, err);
}

void population_free(struct population *population) {
    array_free(&population->span.work);
    array_free(&population->span.waiting);
    array_free(&population->span.rows);
    free(population->span.loss);
    population->span.loss = NULL;
    sobol_free(&population->draws.points[0]);
    sobol_free(&population->draws.points[1]);
}

static int append_rows(struct array *array, struct rows rows, struct err *err) {
    struct rows added;
    TRY(array_append(array, rows.count, &added, err));
    if (rows.array && rows.array->backend->bytes != array->backend->bytes)
        return rows_cross(rows, added, err);
    rows_copy(rows, added);
    return CODE_OK;
}

static int count_waiting(const struct population *population) {
    return population->span.waiting.rows - population->span.taken;
}

/* The host does not know which rows are kept: those that are not are zero rows of the span. */
static int enter_straight(struct population *population, struct rows x, struct rows normals,
                          struct err *err) {
    struct array *span = &population->span.rows;
    int old = span->rows;
    TRY(append_rows(span, x, err));
    basis_straighten(array_rows(span, 0, old), array_rows(span, old, x.count), inside);
    rows_copy(array_rows(span, span->rows - normals.count, normals.count), normals);
    return CODE_OK;
}

static int enter_kept(struct population *population, struct rows x, struct rows normals,
                      struct err *err) {
    struct array *work = &population->span.work;
    int kept, early = 0;
    SCRATCH(int, which, (size_t)x.count);
    if (!population->span.loss)
        TRY(base_alloc(&population->span.loss, population->sites, sizeof *population->span.loss,
                       err));
    TRY(basis_residual(array_all(&population->span.rows), population->span.loss, x,
                       (struct basis_known){0}, inside, work, which, &kept, err));
    while (early < kept && which[early] < x.count - normals.count)
        early++;
    rows_copy(array_rows(work, early, kept - early), rows_part(normals, 0, kept - early));
    if (kept - early < normals.count)
        rows_zero(rows_part(normals, kept - early, normals.count - (kept - early)));
    return append_rows(&population->span.rows, array_rows(work, 0, kept), err);
}

/* Rows that wait, and then `normals` (which may be none), enter the span; the normals become what
 * is left of them. Directions that do not exist, where all sites are full, are zero. */
static int enter_span(struct population *population, struct rows normals, struct err *err) {
    struct array *waiting = &population->span.waiting;
    bool aside =
        population->draws.stream.purpose == PURPOSE_PREDICT; /* what waited will wait again */
    int first = count_waiting(population);
    TRY(append_rows(waiting, normals, err));
    TRY((basis_straightens(waiting->backend) ? enter_straight : enter_kept)(
        population, array_rows(waiting, population->span.taken, first + normals.count), normals,
        err));
    waiting->rows = population->span.taken = aside ? population->span.taken + first : 0;
    return CODE_OK;
}

/* Zero rows leave the span. */
static int drop_zeros(struct population *population, struct err *err) {
    struct population_span *span = &population->span;
    struct rows all = array_rows(&span->rows, span->judged, span->rows.rows - span->judged);
    int kept = 0, behind = span->behind;
    SCRATCH(double, squares, (size_t)all.count);
    backend_hold(all.array->backend, true);
    if (all.count)
        all.array->backend->averages(all, all, squares);
    backend_hold(all.array->backend, false); /* that of a caller, too */
    for (int k = 0; k < all.count; k++)
        if (squares[k] == 0)
            span->behind -= span->judged + k < behind;
        else if (kept++ < k)
            rows_copy(rows_part(all, k, 1), rows_part(all, kept - 1, 1));
    span->rows.rows = span->judged += kept;
    return CODE_OK;
}

int population_settle(struct population *population, struct err *err) {
    if (count_waiting(population))
        TRY(enter_span(population, array_rows(&population->span.work, 0, 0), err));
    return basis_straightens(population->span.rows.backend) ? drop_zeros(population, err) : CODE_OK;
}

/* The sites are two halves, which are computed, too. */
static int count_parts(const struct population *population) {
    return population->draws.beside_halves && !population->draws.nodes ? 2 : 1;
}

static bool is_beyond_room(const struct population *population, int k) {
    int share = (population->draws.mirrored ? 2 : 1) * count_parts(population);
    return population->span.rows.rows + k > POPULATION_ROOM * (double)population->sites / share;
}

/* Whether k more rows have room. Once a basis vector has found none the span no longer holds all
 * that a fresh normal must be orthogonal to; it is given up for good. */
static int find_room(struct population *population, int k, bool *room, struct err *err) {
    if (!population->span.full && is_beyond_room(population, count_waiting(population) + k))
        TRY(population_settle(population, err));
    if (is_beyond_room(population, count_waiting(population) + k))
        population->span.full = true;
    *room = !population->span.full;
    return CODE_OK;
}

/* Orthonormal rows that span the means over groups of `rows`, into `means` over the units. */
static int mean_span(const struct population *population, struct rows rows, struct array *means,
                     struct err *err) {
    struct population *units = population->units;
    const struct backend *backend = backend_main(units->backend);
    FREED(array_free) struct array raw = {0};
    int kept = 0;
    TRY(array_init(means, backend, units->sites, 1, 0, err));
    if (!rows.count)
        return CODE_OK;
    TRY(array_init(&raw, backend, units->sites, 1, rows.count, err));
    backend->tile_mean(rows, array_all(&raw));
    if (basis_straightens(backend)) {
        basis_straighten((struct rows){0}, array_all(&raw), inside);
        return array_keep(means, array_all(&raw), err);
    }
    TRY(basis_residual((struct rows){0}, NULL, array_all(&raw), (struct basis_known){0}, inside,
                       means, NULL, &kept, err));
    means->rows = kept;
    return CODE_OK;
}

/* The first *done rows of `out`, those that belong to the first dimensions. A mirrored pair of
 * sites is a point, and so is each site of a single group. */
static int sobol_rows(struct population *population, struct rng_stream stream, struct rows out,
                      int *done, struct err *err) {
    size_t S = population->sites, group = (size_t)population->group, pair = stream.mirror ? 2 : 1;
    size_t members = group == S ? 1 : group, sets = (size_t)count_parts(population);
    size_t points = (S / members + pair * sets - 1) / (pair * sets),
           length = points * pair * members;
    size_t first = stream.draw * members, rows = 0;
    FREED(base_free) double *all = NULL;
    while (rows < (size_t)out.count && first + (rows + 1) * members <= SOBOL_DIMENSIONS)
        rows++;
    *done = (int)rows;
    if (!rows)
        return CODE_OK;
    for (size_t k = 0; k < sets && !population->draws.points[k].points; k++)
        TRY(sobol_init(&population->draws.points[k], stream,
                       population->draws.half_number == 2 ? 1 : (uint32_t)k, points, err));
    TRY(base_alloc(&all, rows * S + sets * length, sizeof *all, err)); /* the last one is longer */
    for (size_t k = 0; k < rows; k++) {
        double *row = all + k * S;
        for (size_t j = 0; j < sets * members; j++)
            sobol_normals(&population->draws.points[j / members], stream,
                          (uint32_t)(first + k * members + j % members),
                          row + j / members * length + j % members, members * pair);
        for (size_t i = 0; i < sets * points && pair == 2; i++)
            row[2 * i + 1] = stream.mirror * row[2 * i];
    }
    out.array->backend->put(rows_part(out, 0, (int)rows), all);
    return CODE_OK;
}

/* The next normals, without counting them. */
static int draw_rows(struct population *population, int mirror, struct rows out, struct err *err) {
    struct rng_stream stream = population->draws.stream;
    int done = 0;
    stream.mirror = population->draws.mirrored ? mirror : 0;
    if (population->draws.sobol && stream.purpose == PURPOSE_POOL)
        TRY(sobol_rows(population, stream, out, &done, err));
    stream.draw += (uint32_t)done;
    if (done < out.count)
        out.array->backend->normals(rows_part(out, done, out.count - done), stream);
    return CODE_OK;
}

static int draw_fresh(struct population *population, int mirror, struct rows opposite,
                      struct rows out, struct err *err) {
    struct array *work = &population->span.work;
    int kept;
    bool room = false, loose = population->draws.loose && mirror < 0;
    if (!loose)
        TRY(find_room(population, out.count, &room, err));
    TRY(draw_rows(population, mirror, out, err));
    population->draws.stream.draw += (uint32_t)out.count;
    if (!population->draws.matched)
        return CODE_OK;
    if (room)
        return enter_span(population, out, err);
    population->span.unmatched += loose ? 0 : out.count;
    if (basis_straightens(out.array->backend)) {
        basis_straighten(opposite, out, inside);
        return CODE_OK;
    }
    TRY(basis_residual(opposite, NULL, out, (struct basis_known){0}, inside, work, NULL, &kept,
                       err));
    /* Directions left over when `opposite` fills all sites do not exist: their normals are zero. */
    rows_copy(array_rows(work, 0, kept), rows_part(out, 0, kept));
    if (kept < out.count)
        rows_zero(rows_part(out, kept, out.count - kept));
    return CODE_OK;
}

/* In the precision of the rows, which have no `opposite` where it is not double. */
static int fresh_rounded(struct population *population, int mirror, struct rows opposite,
                         struct rows out, struct err *err) {
    FREED(array_free) struct array drawn = {0};
    const struct array *to = out.array;
    if (!population->draws.matched || to->backend->bytes == sizeof(double))
        return draw_fresh(population, mirror, opposite, out, err);
    assert(!opposite.count);
    TRY(array_init(&drawn, exact_backend(population), to->sites, to->group, out.count, err));
    TRY(draw_fresh(population, mirror, opposite, array_all(&drawn), err));
    return rows_cross(array_all(&drawn), out, err);
}

/* Every group gets the same normals, where the units say so. */
static int fresh_shared(struct population *population, int mirror, struct rows opposite,
                        struct rows out, struct err *err) {
    struct population *units = population->units;
    FREED(array_free) struct array means = {0}, normals = {0};
    if (!units)
        return fresh_rounded(population, mirror, opposite, out, err);
    const struct backend *backend = backend_main(units->backend);
    TRY(mean_span(population, opposite, &means, err));
    TRY(array_init(&normals, backend, units->sites, 1, out.count, err));
    TRY(draw_fresh(units, mirror, array_all(&means), array_all(&normals), err));
    backend->tile(array_all(&normals), out);
    return CODE_OK;
}

/* Companions have the normals of their sites. */
static int fresh_all(struct population *population, int mirror, struct rows opposite,
                     struct rows out, struct err *err) {
    TRY(fresh_shared(population, mirror, rows_main(opposite), rows_main(out), err));
    rows_follow(out);
    return CODE_OK;
}

int population_fresh(struct population *population, struct rows opposite, struct rows out,
                     struct err *err) {
    return fresh_all(population, 1, opposite, out, err);
}

int population_fresh_back(struct population *population, struct rows opposite, struct rows out,
                          struct err *err) {
    return fresh_all(population, -1, opposite, out, err);
}

int population_absorb(struct population *population, struct rows rows, struct err *err) {
    rows = rows_main(rows);
    if (population->units) {
        FREED(array_free) struct array means = {0};
        TRY(mean_span(population, rows, &means, err));
        return population_absorb(population->units, array_all(&means), err);
    }
    bool room;
    if (!population->draws.matched)
        return CODE_OK;
    TRY(find_room(population, rows.count, &room, err));
    return room ? append_rows(&population->span.waiting, rows, err) : CODE_OK;
}

void population_set_aside(struct population *population, uint32_t draw,
                          struct population_aside *mark) {
    *mark = (struct population_aside){.stream = population->draws.stream,
                                      .waiting = population->span.waiting.rows,
                                      .taken = population->span.taken,
                                      .unmatched = population->span.unmatched,
                                      .full = population->span.full};
    population->span.behind = population->span.rows.rows;
    population->draws.stream.purpose = PURPOSE_PREDICT;
    population->draws.stream.draw = draw;
}

void population_put_back(struct population *population, const struct population_aside *mark) {
    int rows = population->span.behind;
    population->draws.stream = mark->stream;
    population->span.rows.rows = rows;
    population->span.judged = rows < population->span.judged ? rows : population->span.judged;
    population->span.waiting.rows = mark->waiting;
    population->span.taken = mark->taken;
    population->span.unmatched = mark->unmatched;
    population->span.full = mark->full;
}

/* A permutation of the numbers below 2^bits, another one for each cycle of probes. */
static uint32_t permuted_number(uint32_t i, int bits, const uint32_t key[4]) {
    uint32_t mask = (uint32_t)((1ull << bits) - 1);
    for (int round = 0; round < 2; round++) {
        i = (i ^ key[2 * round]) & mask;
        i = i * (key[2 * round + 1] | 1) & mask;
        i ^= i >> (bits + 1) / 2;
    }
    return i;
}

void population_probes(struct population *population, int k, double *signs) {
    int bits = 1;
    uint32_t key[4];
    while ((1ull << bits) < population->sites)
        bits++;
    uint32_t functions = (uint32_t)((1ull << bits) - 1); /* without the constant */
    struct rng_stream stream = population->draws.stream;
    stream.purpose = PURPOSE_PROBE;
    for (int row = 0; row < k; row++, population->probes++) {
        uint32_t column = 1 + population->probes % functions;
        rng_bits(stream, population->probes / functions, 0, key);
        for (size_t i = 0; i < population->sites; i++) {
            uint32_t both = column & permuted_number((uint32_t)i, bits, key);
            signs[(size_t)row * population->sites + i] = __builtin_parity(both) ? -1 : 1;
        }
    }
}

int population_archive(struct population *population, struct archive *archive, struct err *err) {
    TRY(archive_bytes(archive, &population->draws.stream.draw, sizeof population->draws.stream.draw,
                      err));
    TRY(archive_bytes(archive, &population->span.full, sizeof population->span.full, err));
    TRY(archive_bytes(archive, &population->span.unmatched, sizeof population->span.unmatched,
                      err));
    TRY(archive_bytes(archive, &population->probes, sizeof population->probes, err));
    TRY(archive_array(archive, &population->span.waiting, exact_backend(population), err));
    TRY(archive_list(archive, &population->span.loss, population->sites,
                     sizeof *population->span.loss, err));
    return archive_array(archive, &population->span.rows, exact_backend(population), err);
}

int population_check_rank(struct population *population, int rank, const char *who,
                          struct err *err) {
    population->span.exhausted = population->sites > POPULATION_SMALL &&
                                 rank > POPULATION_RANK_LIMIT * (double)population->sites;
    if (population->span.exhausted)
        return err_set(
            err, CODE_NUMERICAL,
            "population %s has too few sites: the basis of %s reached rank %d of %zu "
            "sites; raise sites (expert_sites, unit_sites where the network has them), lower steps "
            "or inputs, or raise tolerance",
            TEXT_SHOWN_OF(population), who, rank, population->sites);
    return CODE_OK;
}
