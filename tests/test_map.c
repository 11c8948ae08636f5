/* The limit map on its own: orthogonality, adjointness, ranks, degenerate blocks, the numbers of
 * every declaration, and equality with an explicit matrix when it is fed with that matrix. */
#include "tests/support/support.h"
#include "kernels/maps/map_limit.h"

enum { P = 3, S = 1024 };

static void make_population(struct population *p, const char *name, double size, size_t sites,
                            uint32_t owner) {
    *p = (struct population){.backend = &backend_cpu,
                             .size = size,
                             .sites = sites,
                             .group = 1,
                             .draws.matched = true,
                             .draws.stream = {.seed = 5, .purpose = PURPOSE_POOL, .owner = owner}};
    snprintf(p->name, sizeof p->name, "%s", name);
    ASK(population_init(p, err));
}

/* Two populations, one map, and rows enough to iterate x -> W x -> y -> W^T y. */
struct loop {
    struct population source, target;
    struct map map;
    struct array xi, eta; /* quenched normals */
    struct array x, u, y, v, work;
};

static void loop_init(struct loop *l, double r, size_t sites, double tolerance) {
    double n = r * POPULATION_INFINITE;
    make_population(&l->source, "source", POPULATION_INFINITE, sites, 0);
    make_population(&l->target, "target", n, sites, 1);
    ASK(array_init(&l->xi, &backend_cpu, sites, 1, P, err));
    ASK(array_init(&l->eta, &backend_cpu, sites, 1, P, err));
    ASK(population_fresh(&l->source, (struct rows){0}, array_all(&l->xi), err));
    ASK(population_fresh(&l->target, (struct rows){0}, array_all(&l->eta), err));
    struct array *arrays[] = {&l->x, &l->u, &l->y, &l->v, &l->work};
    for (int i = 0; i < 5; i++) {
        ASK(array_init(arrays[i], &backend_cpu, sites, 1, P, err));
        rows_zero(array_all(arrays[i]));
    }
    ASK(map_init(&l->map, &map_limit,
                 (struct map_declaration){"W", &l->source, &l->target, 1, 1, false, false, 1, NULL},
                 (struct map_settings){.tolerance = tolerance}, err));
}

static void loop_free(struct loop *l) {
    struct array *arrays[] = {&l->xi, &l->eta, &l->x, &l->u, &l->y, &l->v, &l->work};
    for (int i = 0; i < 7; i++)
        array_free(arrays[i]);
    map_free(&l->map);
    population_free(&l->source);
    population_free(&l->target);
}

/* out = tanh(quenched + rate t field), a smooth trajectory that reacts to the map. */
static void react(struct loop *l, struct array *quenched, struct array *field, struct array *out,
                  double strength) {
    double C[P * P] = {0};
    for (int mu = 0; mu < P; mu++)
        C[mu * P + mu] = strength;
    rows_copy(array_all(quenched), array_all(&l->work));
    backend_cpu.combine(array_all(&l->work), 1, C, array_all(field));
    rows_fn(FN_TANH, array_all(&l->work), array_all(out), (struct rows){0});
}

static void step_forward(struct loop *l, int t) {
    react(l, &l->xi, &l->v, &l->x, 0.05 * t);
    ASK(map_forward(&l->map, array_all(&l->x), array_all(&l->u), err));
}

static void step_backward(struct loop *l, int t) {
    react(l, &l->eta, &l->u, &l->y, 0.05 * (t + 1));
    ASK(map_backward(&l->map, array_all(&l->y), array_all(&l->v), err));
}

static void step_learn(struct loop *l) {
    const double c[P] = {0.1, -0.2, 0.05};
    ASK(map_keep(&l->map, 0, array_all(&l->y), err));
    ASK(map_learn(&l->map, 0, c, err));
}

/* max |<a_k b_l> - unit delta_kl| */
static double largest_product(struct rows a, struct rows b, double unit) {
    double *C = calloc((size_t)a.count * (size_t)b.count + 1, sizeof *C), most = 0;
    if (a.count && b.count)
        backend_cpu.dots(a, b, C);
    for (int i = 0; i < a.count * b.count; i++)
        most = fmax(most, fabs(C[i] - unit * (i % b.count == i / b.count)));
    free(C);
    return most;
}

/* q, p, e, the normals in Z (fg = 1, before learning) and the spans. Round-off of a site average of
 * products of unit rows is eps sqrt(S) / S ~ 1e-17; projections on up to 200 rows: 1e-13. */
TEST(orthogonality) {
    FREED(loop_free) struct loop l;
    loop_init(&l, 2, S, 1e-3);
    const struct limit_state *map = limit_of(&l.map);
    for (int t = 0; t < 12; t++) {
        int q = map->q.rows, p = map->p.rows;
        step_forward(&l, t);
        /* fresh normals on the target: orthogonal to every p there */
        struct rows fresh = array_rows(&map->Z, q, map->Z.rows - q);
        CHECK_ABS(largest_product(fresh, array_all(&map->p), 0), 0, 1e-13, "e on p, step %d", t);
        step_backward(&l, t);
        struct rows back = array_rows(&map->e, p, map->e.rows - p);
        CHECK_ABS(largest_product(back, array_all(&map->q), 0), 0, 1e-13, "e' on q, step %d", t);
    }
    const struct array *bases[] = {
        &map->q, &map->p, &map->e, &map->Z, &l.source.span.rows, &l.target.span.rows};
    for (int i = 0; i < 6; i++) {
        struct rows basis = array_all(bases[i]);
        CHECK_ABS(largest_product(basis, basis, 1), 0, 1e-13, "basis %d", i);
    }
    assert_true(map->q.rows > 2 * P && map->p.rows > 2 * P);
    assert_int_equal(l.source.span.unmatched + l.target.span.unmatched, 0);
}

/* <y, W x> = <W^T y, x>: exactly for the same W; to second order in the tolerance between the
 * forward and the backward pass of one step, when W has met y in between. */
TEST(adjointness) {
    const double ratios[] = {0.5, 1, 3};
    for (int i = 0; i < 3; i++)
        for (double tolerance = 1e-2; tolerance > 1e-6; tolerance /= 10) {
            FREED(loop_free) struct loop l;
            loop_init(&l, ratios[i], S, tolerance);
            for (int t = 0; t < 10; t++) {
                double before[P * P], there[P * P], after[P * P];
                step_forward(&l, t);
                FREED(base_free) double *u = support_get(array_all(&l.u));
                step_backward(&l, t);
                backend_cpu.dots(array_all(&l.v), array_all(&l.x), after);
                backend_cpu.put(array_all(&l.work), u);
                backend_cpu.dots(array_all(&l.y), array_all(&l.work), before);
                ASK(map_forward(&l.map, array_all(&l.x), array_all(&l.u), err));
                backend_cpu.dots(array_all(&l.y), array_all(&l.u), there);
                for (int k = 0; k < P * P; k++) {
                    CHECK_ABS(after[k], there[k], 1e-13, "same W, r %g step %d", ratios[i], t);
                    CHECK_ABS(after[k], before[k], 10 * tolerance * tolerance + 1e-13,
                              "r %g tolerance %g step %d", ratios[i], tolerance, t);
                }
                step_learn(&l);
            }
        }
}

/* Nothing new opens no direction: constant, repeated, dependent and zero blocks. */
TEST(degenerate_blocks) {
    FREED(loop_free) struct loop l;
    loop_init(&l, 1, S, 1e-3);
    struct rows x = array_all(&l.x), u = array_all(&l.u);
    ASK(map_forward(&l.map, x, u, err)); /* x = 0 */
    assert_int_equal(map_rank(&l.map, true), 0);
    assert_true(largest_product(u, u, 0) == 0);
    ASK(map_backward(&l.map, array_all(&l.y), array_all(&l.v), err));
    assert_true(largest_product(array_all(&l.v), array_all(&l.v), 0) == 0);
    for (int mu = 0; mu < P; mu++) /* one row, three times */
        rows_copy(array_rows(&l.xi, 0, 1), array_rows(&l.x, mu, 1));
    for (int t = 0; t < 3; t++)
        ASK(map_forward(&l.map, x, u, err));
    assert_int_equal(map_rank(&l.map, true), 1);
    rows_copy(array_rows(&l.xi, 1, 1), array_rows(&l.x, 1, 1));
    rows_add(NULL, array_rows(&l.xi, 0, 1), array_rows(&l.x, 1, 1)); /* dependent on rows 0 and 1 */
    ASK(map_forward(&l.map, x, u, err));
    assert_int_equal(map_rank(&l.map, true), 2);
    /* a row far below the others is dropped, by design */
    const double tiny = 1e-5;
    backend_cpu.pointwise(FN_LINEAR, &tiny, NULL, array_rows(&l.xi, 2, 1), array_rows(&l.x, 2, 1),
                          (struct rows){0});
    ASK(map_forward(&l.map, x, u, err));
    assert_int_equal(map_rank(&l.map, true), 2);
}

/* The rank after a block of P times normal k, of the given rms. */
static int rank_after(struct loop *l, bool forward, int k, double rms) {
    struct array *normals = forward ? &l->xi : &l->eta, *block = forward ? &l->x : &l->y;
    for (int mu = 0; mu < P; mu++)
        backend_cpu.pointwise(FN_LINEAR, &rms, NULL, array_rows(normals, k, 1),
                              array_rows(block, mu, 1), (struct rows){0});
    ASK((forward ? map_forward : map_backward)(&l->map, array_all(block),
                                               array_all(forward ? &l->u : &l->v), err));
    return map_rank(&l->map, forward);
}

/* At tolerance 1e-2 a block a thousand times smaller than the one before opens a direction of its
 * own against its own rms, and none against the largest. Each basis has its own largest, and a look
 * leaves none. */
TEST(small_blocks) {
    for (int rule = 0; rule < 4; rule++) {
        bool against_largest = rule % 2, look = rule / 2;
        struct map_aside mark;
        FREED(loop_free) struct loop l;
        loop_init(&l, 1, S, 1e-2);
        l.map.settings.against_largest = against_largest;
        for (int forward = 0; forward < 2; forward++) {
            assert_int_equal(rank_after(&l, forward, 0, 1), 1);
            assert_int_equal(rank_after(&l, forward, 1, 1e-3), against_largest ? 1 : 2);
            assert_int_equal(rank_after(&l, forward, 1, 0.05), 2);
        }
        if (look)
            map_set_aside(&l.map, true, &mark);
        assert_int_equal(rank_after(&l, true, 0, 100), 2);
        if (look)
            map_put_back(&l.map, &mark);
        assert_int_equal(rank_after(&l, true, 2, 0.05), against_largest && !look ? 2 : 3);
        assert_int_equal(rank_after(&l, false, 2, 0.05), 3);
    }
}

/* The rules of docs/method.md for every network planned: sizes in units of N, M = kappa N,
 * N_e = iota N or fixed, alpha = N/(N_e E). */
TEST(numbers_of_declarations) {
    const double N = POPULATION_INFINITE, kappa = 0.5, iota = 1.5, alpha = 3, M = kappa * N;
    const STRUCT(const char *what; double source, target, a0, s_f, fg, fr) rows[] = {
        {"plain", N, 4 * N, 1, 1, 1, 0.5},
        {"regime2 muP W_out", 4 * M, N, 1 / sqrt(M), 1, 0, 0},
        {"regime3 shared A_out", iota * N, N, 1, sqrt(iota), sqrt(iota), iota},
        {"regime3 muP onto pairs", N, M * iota * N, 1, 1, 1, 0},
        {"regime3 muP out of pairs", M * iota * N, N, 1, sqrt(iota / M), 0, iota},
        {"regime3 learned P_in", N, M * iota * N, 0, 1, 0, 0},
        {"residual W1", N, N / alpha, 1, 1, 1, sqrt(alpha)},
        {"residual W2", N / alpha, N, 1, sqrt(alpha), sqrt(alpha), 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        FREED(population_free) struct population source, target;
        FREED(map_free) struct map map;
        make_population(&source, "source", rows[i].source, 8, 0);
        make_population(&target, "target", rows[i].target, 8, 1);
        struct map_declaration declared = {"W",   &source, &target, rows[i].a0, rows[i].s_f,
                                           false, false,   1,       NULL};
        ASK(map_init(&map, &map_limit, declared, (struct map_settings){.tolerance = 1e-3}, err));
        const double *want = &rows[i].fg;
        const double got[] = {map.numbers.fg, map.numbers.fr};
        for (int k = 0; k < 2; k++)
            if (want[k] == 0)
                assert_true(got[k] == 0);
            else
                CHECK_ABS(got[k], want[k], 1e-14 * want[k], "%s, number %d", rows[i].what, k);
    }
}

/* A population that runs out of room: counted fallback, then an error that says what to do. */
TEST(out_of_room) {
    FREED(loop_free) struct loop l;
    struct err err = {0};
    int code = CODE_OK, fallback = 0;
    loop_init(&l, 1, 300, 1e-6);
    for (int t = 0; t < 200 && !code; t++) { /* fresh noise at every step does not compress */
        struct rows x = array_all(&l.x);
        l.source.draws.stream.purpose = PURPOSE_DATA;
        backend_cpu.normals(x, (struct rng_stream){.seed = 9, .draw = (uint32_t)(t * P)});
        l.source.draws.stream.purpose = PURPOSE_POOL;
        code = map_forward(&l.map, x, array_all(&l.u), &err);
        if (!code)
            step_backward(&l, t);
        fallback = l.source.span.unmatched + l.target.span.unmatched;
    }
    assert_int_equal(code, CODE_NUMERICAL);
    assert_true(fallback > 0);
    assert_non_null(strstr(err.text, "source"));
    assert_non_null(strstr(err.text, "300 sites"));
    assert_non_null(strstr(err.text, "rank 27"));
    assert_non_null(strstr(err.text, "raise sites"));
}

/* The normals that W(0) of an explicit matrix (rows `W` over the sources, W0 = W) would have shown:
 *     e_a  = (W0 q_a   - fr sum_b <q_a, e_b> p_b)/fg
 *     e'_b = (W0^T p_b/r - fg sum_a <p_b, e_a> q_a)/fr */
enum { MAPS = 8 };
struct feed {
    struct array *W0;     /* [n] over the source sites, unlearned */
    struct array normals; /* e_a alone, over the target sites: Z without what was learned */
};

static int feed_normals(void *context, struct map *map, bool forward, struct rows basis,
                        struct rows out, struct err *err) {
    struct feed *feed = context;
    const struct limit_state *limit = limit_of(map);
    const struct backend *b = out.array->backend;
    size_t n = map->declared.target->sites, m = map->declared.source->sites;
    int k = basis.count, known = map_rank(map, !forward);
    struct rows others = array_all(forward ? &limit->e : &feed->normals);
    FREED(base_free) double *C, *D;
    TRY(base_alloc(&C, n * (size_t)k, sizeof *C, err));
    TRY(base_alloc(&D, (size_t)k * (size_t)(known + 1), sizeof *D, err));
    if (forward) {
        FREED(base_free) double *host;
        TRY(base_alloc(&host, n * (size_t)k, sizeof *host, err));
        b->dots(array_all(feed->W0), basis, C);
        for (size_t i = 0; i < n; i++)
            for (int a = 0; a < k; a++)
                host[(size_t)a * n + i] = C[i * (size_t)k + (size_t)a] * (double)m;
        b->put(out, host);
    } else {
        b->get(basis, C);
        for (size_t i = 0; i < n * (size_t)k; i++)
            C[i] /= map->numbers.r;
        b->combine(out, 0, C, array_all(feed->W0));
    }
    if (known)
        b->dots(basis, others, D);
    double response = forward ? map->numbers.fr : map->numbers.fg;
    for (int i = 0; i < k * known; i++)
        D[i] *= -response;
    b->combine(out, 1, D, array_all(forward ? &limit->p : &limit->q));
    double scale = 1 / (forward ? map->numbers.fg : map->numbers.fr);
    for (int a = 0; a < k; a++)
        b->pointwise(FN_LINEAR, &scale, NULL, rows_part(out, a, 1), rows_part(out, a, 1),
                     (struct rows){0});
    if (forward) {
        struct rows kept;
        TRY(array_append(&feed->normals, k, &kept, err));
        rows_copy(out, kept);
    }
    return CODE_OK;
}

/* A limit net whose thin matrices and normals are those of a finite net of the same sizes. */
static void fed_run(const struct run *run, int N, double *error) {
    FREED(net_free) struct net finite, limit;
    struct array W0[MAPS];
    struct feed feed[MAPS] = {0};
    support_net(&finite, run, N, 0);
    support_net(&limit, run, 0, 0);
    assert_true(finite.maps.count <= MAPS);
    for (int i = 0; i < finite.thins.count; i++)
        rows_copy(array_all(&finite.thins.item[i]->W), array_all(&limit.thins.item[i]->W));
    for (int i = 0; i < finite.maps.count; i++) {
        struct array *W = support_entries(finite.maps.item[i]);
        ASK(array_init(&W0[i], W->backend, W->sites, W->group, W->rows, err));
        rows_copy(array_all(W), array_all(&W0[i]));
        struct population *target = limit.maps.item[i]->declared.target;
        ASK(array_init(&feed[i].normals, target->backend, target->sites, target->group, 0, err));
        feed[i].W0 = &W0[i];
        limit_of(limit.maps.item[i])->feed = feed_normals;
        limit_of(limit.maps.item[i])->context = &feed[i];
    }
    *error = 0;
    for (int t = 0; t < 12; t++) {
        support_evaluate(&finite, run);
        support_evaluate(&limit, run);
        for (int mu = 0; mu < run->data.P; mu++)
            *error = fmax(*error, fabs(finite.output.f[mu] - limit.output.f[mu]));
        support_learn(&finite, run);
        support_learn(&limit, run);
    }
    assert_true(fabs(finite.output.f[0]) > 0.3); /* it did train */
    for (int i = 0; i < finite.maps.count; i++) {
        array_free(&W0[i]);
        array_free(&feed[i].normals);
    }
}

/* Dropped directions are orthogonal to everything kept and act at second order: the error of f was
 * measured as 0.01 to 0.05 tol (docs/method.md). Softmax with beta = 0.5: at 1 this network
 * condenses and amplifies any difference. */
TEST(fed_with_explicit_matrix) {
    const char *const gates[] = {"network.gate=sigmoid", "network.gate=softmax",
                                 "network.gate=constant"};
    for (int gate = 0; gate < 3; gate++)
        for (double tolerance = 1e-2; tolerance > 3e-5; tolerance /= 10) {
            TEXT(text, 64, "solver.tolerance=%g", tolerance);
            const char *const overrides[] = LIST(
                gates[gate], text, "solver.sites=384", "solver.expert_sites=192", "data.inputs=3",
                "output.responses=no", gate == 1 ? "network.beta=0.5" : "training.eta0=0.3", NULL);
            FREED(run_free) struct run run;
            double error;
            support_run(&run, "data/regime2.ini", overrides);
            fed_run(&run, 384, &error);
            CHECK_ABS(error, 0, 0.05 * tolerance, "%s, tolerance %g", gates[gate], tolerance);
        }
}
