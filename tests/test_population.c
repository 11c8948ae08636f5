/* The pool of matched normals, on every backend. Site averages of rows with rms 1 are good to a few
 * eps, hence ROUND_OFF for overlaps that must vanish. */

#include "tests/support/pool.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort_double.h>

/* `count` orthonormal rows without relation to the population, in an array to be freed. */
static void open_rows(struct array *array, size_t sites, int count) {
    FREED(array_free) struct array in;
    FREED(base_free) double *x = memory((size_t)count * sites, sizeof *x);
    int kept;
    draw(x, (size_t)count * sites, 99);
    array_from(&in, sites, 1, x, count);
    ASK(array_init(array, backend, sites, 1, 0, &err));
    ASK(basis_residual(none, NULL, array_all(&in), (struct basis_known){0}, 1e-6, array, NULL,
                       &kept, &err));
    assert_int_equal(kept, count);
}

/* Declares a population p of matched normals, so many rows that are known, and room for others. */
#define MATCHED_POPULATION(SIZE, KNOWN, ROOM)                                                      \
    FREED(population_free) struct population p;                                                    \
    FREED(array_free) struct array known, out;                                                     \
    open_population(&p, SIZE, true, 0);                                                            \
    open_rows(&known, p.sites, KNOWN);                                                             \
    ASK(array_init(&out, backend, p.sites, 1, ROOM, &err))

TEST(test_fresh_is_orthonormal) {
    MATCHED_POPULATION(300, 20, 100);
    struct rows absorbed = array_rows(&known, 0, 0);
    for (int k = 0, drawn = 0; k < 10; k++) {
        struct rows fresh = array_rows(&out, drawn, k);
        ASK(population_fresh(&p, absorbed, fresh, &err));
        drawn += k;
        assert_int_equal(p.draws.stream.draw, drawn);
        struct rows all = array_rows(&out, 0, drawn);
        assert_true(overlap(all, all) <= ROUND_OFF);
        assert_true(overlap(fresh, absorbed) <= ROUND_OFF);
        ASK(population_absorb(&p, rows_part(array_all(&known), 2 * k, 2), &err));
        absorbed.count += 2;
        if (k % 2 == 0)
            continue; /* they enter with the next normals */
        ASK(population_settle(&p, &err));
        assert_int_equal(p.span.rows.rows, drawn + absorbed.count);
        assert_true(overlap(array_all(&p.span.rows), array_all(&p.span.rows)) <= ROUND_OFF);
    }
    ASK(population_absorb(&p, absorbed, &err)); /* nothing new */
    ASK(population_absorb(&p, array_rows(&out, 3, 30), &err));
    ASK(population_settle(&p, &err));
    assert_int_equal(p.span.rows.rows, 45 + 20);
    assert_int_equal(p.span.unmatched, 0);
    population_free(&p);
}

/* What is drawn and met while looking leaves no trace: rows that waited for the next normals wait
 * again. */
TEST(test_look) {
    double *x[2];
    for (int look = 0; look < 2; look++) {
        FREED(population_free) struct population p;
        struct population_aside mark;
        FREED(array_free) struct array known, out;
        open_population(&p, 300, true, 0);
        open_rows(&known, p.sites, 20);
        ASK(array_init(&out, backend, p.sites, 1, 12, &err));
        ASK(population_fresh(&p, none, array_rows(&out, 0, 4), &err));
        ASK(population_absorb(&p, array_rows(&known, 0, 6), &err));
        if (look) {
            population_set_aside(&p, 1, &mark);
            ASK(population_fresh(&p, none, array_rows(&out, 4, 3), &err));
            ASK(population_absorb(&p, array_rows(&known, 6, 9), &err));
            ASK(population_fresh(&p, none, array_rows(&out, 7, 2), &err));
            ASK(population_absorb(&p, array_rows(&known, 15, 5), &err));
            population_put_back(&p, &mark);
        }
        ASK(population_fresh(&p, none, array_rows(&out, 4, 8), &err));
        assert_true(overlap(array_rows(&out, 4, 8), array_rows(&known, 0, 6)) <= ROUND_OFF);
        ASK(population_settle(&p, &err));
        assert_int_equal(p.span.rows.rows, 4 + 6 + 8);
        x[look] = values(array_all(&out));
    }
    assert_memory_equal(x[0], x[1], 12 * 300 * sizeof *x[0]);
    free(x[0]);
    free(x[1]);
}

/* Rows drawn in two calls, or in one; *out to be freed. */
static double *drawn(uint32_t replicate, bool matched, int first, int second) {
    FREED(population_free) struct population p;
    FREED(array_free) struct array out;
    open_population(&p, 200, matched, replicate);
    ASK(array_init(&out, backend, p.sites, 1, first + second, &err));
    ASK(population_fresh(&p, none, array_rows(&out, 0, first), &err));
    ASK(population_fresh(&p, none, array_rows(&out, first, second), &err));
    ASK(population_absorb(&p, array_rows(&out, 0, 1), &err));
    assert_int_equal(p.span.rows.rows, matched ? first + second : 0);
    double *x = values(array_all(&out));
    return x;
}

TEST(test_draws_can_be_repeated) {
    const size_t count = (size_t)5 * 200;
    double *x[] = {drawn(1, true, 3, 2), drawn(1, true, 3, 2), drawn(1, true, 5, 0),
                   drawn(2, true, 3, 2), drawn(1, false, 3, 2)};
    struct rng_stream stream = {.seed = 3, .purpose = PURPOSE_POOL, .owner = 2, .replicate = 1};
    assert_memory_equal(x[0], x[1], count * sizeof *x[0]);
    for (size_t i = 0; i < count; i++) {
        double pair[2];
        assert_true(fabs(x[0][i] - x[2][i]) <= ROUND_OFF * (1 + fabs(x[0][i])));
        assert_true(x[0][i] != x[3][i]);
        rng_normal_pair(stream, (uint32_t)(i / 200), (uint32_t)(i % 200 / 2), pair);
        assert_true(fabs(x[4][i] - pair[i % 2]) <= 8 * DBL_EPSILON * fabs(pair[i % 2]));
    }
    for (size_t k = 0; k < LENGTH(x); k++)
        free(x[k]);
}

/* Beside its halves a population has their room; nodes of a rule have no halves. */
TEST(test_room_of_halves) {
    for (int nodes = 0; nodes < 2; nodes++) {
        FREED(population_free) struct population p;
        FREED(array_free) struct array out;
        open_population(&p, 100, true, 0);
        p.draws.beside_halves = true;
        p.draws.nodes = nodes;
        ASK(array_init(&out, backend, p.sites, 1, 41, &err));
        ASK(population_fresh(&p, none, array_rows(&out, 0, 40), &err));
        assert_int_equal(p.span.unmatched, 0);
        ASK(population_fresh(&p, none, array_rows(&out, 40, 1), &err));
        assert_int_equal(p.span.unmatched, nodes ? 0 : 1);
    }
}

/* 80 of 100 sites are for normals and basis vectors; then a normal is orthogonal to what it must
 * be, and no more. */
TEST(test_out_of_room) {
    MATCHED_POPULATION(100, 10, 80);
    ASK(population_absorb(&p, array_all(&known), &err));
    ASK(population_fresh(&p, array_all(&known), array_rows(&out, 0, 67), &err));
    assert_true(p.span.unmatched == 0 && p.span.rows.rows == 77);
    struct rows late = array_rows(&out, 67, 4);
    ASK(population_fresh(&p, array_all(&known), late, &err));
    assert_true(p.span.unmatched == 4 && p.span.rows.rows == 77);
    assert_int_equal(p.draws.stream.draw, 71);
    assert_true(overlap(late, array_all(&known)) <= ROUND_OFF);
    double others = overlap(late, array_rows(&out, 0, 67));
    assert_true(others > 0.1 && others < 0.6); /* of 268 overlaps of size 0.1 */
    ASK(population_fresh(&p, none, late, &err));
    assert_true(p.span.unmatched == 8 && overlap(late, array_all(&known)) > 0.1);
}

/* Rows that found no room are not in the span; a smaller draw, which does find room, must be
 * orthogonal to them all the same. */
TEST(test_room_for_a_draw_but_not_for_its_basis) {
    MATCHED_POPULATION(100, 5, 80);
    ASK(population_fresh(&p, none, array_rows(&out, 0, 78), &err));
    ASK(population_absorb(&p, array_all(&known), &err));
    assert_int_equal(p.span.rows.rows, 78);
    ASK(population_fresh(&p, array_all(&known), array_rows(&out, 78, 1), &err));
    double got = overlap(array_rows(&out, 78, 1), array_all(&known));
    if (!(got <= ROUND_OFF))
        fail_msg("%s: overlap %g with the basis it is conditioned on", backend->name, got);
}

/* A basis of all sites leaves no direction, one of all but one a single one. */
TEST(test_basis_of_all_sites) {
    for (int rank = 19; rank <= 20; rank++) {
        FREED(population_free) struct population p;
        FREED(array_free) struct array known, out;
        FREED(base_free) double *x;
        open_population(&p, 20, true, 0);
        open_rows(&known, p.sites, rank);
        ASK(array_init(&out, backend, p.sites, 1, 15, &err));
        ASK(population_fresh(&p, none, array_all(&out), &err));
        assert_int_equal(p.span.unmatched, 0);
        ASK(population_fresh(&p, array_all(&known), array_rows(&out, 0, 3), &err));
        assert_int_equal(p.span.unmatched, 3);
        assert_true(overlap(array_rows(&out, 0, 20 - rank), array_rows(&out, 0, 20 - rank)) <=
                    ROUND_OFF);
        assert_true(overlap(array_rows(&out, 0, 3), array_all(&known)) <= ROUND_OFF);
        x = values(array_rows(&out, 0, 3));
        for (int i = (20 - rank) * 20; i < 60; i++)
            assert_true(x[i] == 0);
    }
}

/* Sorts; the largest distance between the empirical and the normal distribution function. */
static double kolmogorov_smirnov(double *x, size_t n) {
    double largest = 0;
    gsl_sort(x, 1, n);
    for (size_t i = 0; i < n; i++) {
        double P = gsl_cdf_ugaussian_P(x[i]);
        largest = fmax(largest, fmax(P - (double)i / (double)n, (double)(i + 1) / (double)n - P));
    }
    return largest;
}

/* A site of a matched normal, over replicates, with an absorbed row of constant size (so that all
 * sites keep the same variance): N(0, 1) up to 0.1/sites, below what the test resolves. */
TEST(test_matched_normals_are_normal) {
    enum { REPLICATES = 2000, SITES = 64, ROWS = 3 };
    static const size_t at[] = {0, 5 + SITES, 40 + 2 * SITES, 63 + 2 * SITES};
    double *x = memory(REPLICATES * LENGTH(at), sizeof *x), sign[SITES], row[ROWS * SITES];
    for (int i = 0; i < SITES; i++)
        sign[i] = i * i % 7 % 2 ? 1 : -1;
    for (uint32_t n = 0; n < REPLICATES; n++) {
        FREED(population_free) struct population p;
        FREED(array_free) struct array known, out;
        open_population(&p, SITES, true, n);
        array_from(&known, SITES, 1, sign, 1);
        ASK(array_init(&out, backend, SITES, 1, ROWS, &err));
        ASK(population_fresh(&p, none, array_rows(&out, 0, 1), &err));
        ASK(population_absorb(&p, array_all(&known), &err));
        ASK(population_fresh(&p, array_all(&known), array_rows(&out, 1, ROWS - 1), &err));
        backend->get(array_all(&out), row);
        for (size_t k = 0; k < LENGTH(at); k++)
            x[k * REPLICATES + n] = row[at[k]];
    }
    for (size_t k = 0; k < LENGTH(at); k++) {
        double distance = kolmogorov_smirnov(x + k * REPLICATES, REPLICATES);
        if (!(distance < 1.95 / sqrt(REPLICATES)))
            fail_msg("site %zu: Kolmogorov-Smirnov %g", at[k], distance * sqrt(REPLICATES));
    }
    free(x);
}

/* Normals of a pair of sites are equal forward and opposite backward, and so matched among
 * themselves; products of three with one factor from behind vanish. What meets rows without that
 * symmetry stays orthogonal to them. */
TEST(test_mirror_images) {
    enum { SITES = 300, ROWS = 12 };
    FREED(population_free) struct population p;
    FREED(array_free) struct array known, out;
    open_population(&p, SITES, true, 0);
    p.draws.mirrored = true;
    open_rows(&known, SITES, 10);
    ASK(array_init(&out, backend, SITES, 1, 3 * ROWS, &err));
    struct rows forward = array_rows(&out, 0, ROWS), back = array_rows(&out, ROWS, ROWS);
    ASK(population_fresh(&p, none, forward, &err));
    ASK(population_fresh_back(&p, none, back, &err));
    FREED(base_free) double *x = memory(2 * ROWS * SITES, sizeof *x);
    backend->get(array_rows(&out, 0, 2 * ROWS), x);
    for (int k = 0; k < 2 * ROWS; k++)
        for (int i = 0; i < SITES; i += 2) {
            const double *pair = x + k * SITES + i;
            assert_true(fabs(pair[0] + (k < ROWS ? -pair[1] : pair[1])) <= ROUND_OFF);
        }
    for (int k = 0; k < ROWS; k++) {
        double sum = 0;
        for (int i = 0; i < SITES; i++)
            sum += x[k * SITES + i] * x[i] * x[ROWS * SITES + i];
        assert_true(fabs(sum / SITES) <= ROUND_OFF);
    }
    ASK(population_absorb(&p, array_all(&known), &err));
    ASK(population_fresh_back(&p, array_all(&known), array_rows(&out, 2 * ROWS, ROWS), &err));
    assert_true(overlap(array_all(&out), array_all(&out)) <= ROUND_OFF);
    assert_true(overlap(array_rows(&out, 2 * ROWS, ROWS), array_all(&known)) <= ROUND_OFF);
    /* pairs are half as many directions: matching ends where they are nearly used up */
    assert_int_equal(p.span.unmatched, 0);
    while (p.span.rows.rows + 10 <= POPULATION_ROOM * SITES / 2)
        ASK(population_fresh(&p, none, array_rows(&out, 0, 10), &err));
    ASK(population_fresh(&p, none, array_rows(&out, 0, 10), &err));
    assert_int_equal(p.span.unmatched, 10);
}

TEST(test_rank_limit) {
    struct population p = {.name = "experts 2", .sites = 1000};
    ASK(population_check_rank(&p, 900, "map 2", &err));
    assert_int_equal(population_check_rank(&p, 901, "map 2", &err), CODE_NUMERICAL);
    assert_int_equal(err.code, CODE_NUMERICAL);
    assert_non_null(strstr(err.text, "population experts 2 has too few sites"));
    assert_non_null(strstr(err.text, "map 2 reached rank 901 of 1000 sites"));
    p.sites = 257;
    ASK(population_check_rank(&p, 231, "map 2", &err));
    assert_int_equal(population_check_rank(&p, 232, "map 2", &err), CODE_NUMERICAL);
    p.sites = 256;
    ASK(population_check_rank(&p, 256, "map 2", &err));
}

/* Draws in a random order with rows that are met, and looks. */
static double *draws_in_order(uint64_t state) {
    enum { MOST = 5, STEPS = 30 };
    FREED(population_free) struct population p;
    struct population_aside mark;
    FREED(array_free) struct array known, out;
    open_population(&p, 300, true, 0);
    p.draws.mirrored = true;
    open_rows(&known, p.sites, 2 * STEPS);
    ASK(array_init(&out, backend, p.sites, 1, MOST * STEPS, &err));
    rows_zero(array_all(&out));
    ASK(population_fresh(&p, none, array_rows(&out, 0, MOST), &err));
    for (int step = 0; step < STEPS; step++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int what = (int)(state >> 60), count = 1 + (int)(state >> 40) % MOST;
        int mirror = state >> 33 & 1 ? 1 : -1;
        struct rows met = array_rows(&known, 2 * step, 2),
                    fresh = array_rows(&out, MOST * step, count);
        if (what == 11) { /* nothing new: other rows will wait in their place */
            ASK(population_settle(&p, &err));
            ASK(population_absorb(&p, rows_part(array_all(&p.span.rows), 0, 2), &err));
        }
        if (what == 11)
            ASK(population_settle(&p, &err));
        if (what < 2 || what == 11)
            ASK(population_absorb(&p, met, &err));
        if (what > 11) {
            population_set_aside(&p, (uint32_t)step, &mark);
            ASK(population_absorb(&p, met, &err));
            if (what > 13)
                ASK(population_fresh(&p, none, rows_part(fresh, 0, 1), &err));
            population_put_back(&p, &mark);
        }
        if (what > 2)
            ASK((mirror > 0 ? population_fresh : population_fresh_back)(&p, none, fresh, &err));
    }
    double *x = values(array_all(&out));
    return x;
}

/* A device judges by itself which rows enter the span. */
TEST(test_draws_are_those_of_the_processor) {
    const struct backend *tested = backend;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        FREED(base_free) double *x = draws_in_order(seed), *y;
        backend = &backend_cpu;
        y = draws_in_order(seed);
        backend = tested;
        for (size_t i = 0; i < 300 * 5 * 30; i++)
            assert_true(fabs(x[i] - y[i]) <= 1e-12);
    }
}

/* Of 2^b sites the first 2^b - 1 rows of signs are orthogonal, and to 1; then others begin. Asked
 * for one by one they are the same. */
TEST(test_probes) {
    enum { SITES = 64, ROWS = SITES - 1 };
    double signs[2 * ROWS][SITES], single[SITES];
    FREED(population_free) struct population p;
    open_population(&p, SITES, true, 0);
    population_probes(&p, ROWS, signs[0]);
    population_probes(&p, ROWS, signs[ROWS]);
    population_free(&p);
    for (int k = 0; k < 2 * ROWS; k++)
        for (int l = k / ROWS * ROWS; l <= k; l++) {
            double sum = 0, product = 0;
            for (int i = 0; i < SITES; i++) {
                assert_true(fabs(signs[k][i]) == 1);
                sum += signs[k][i];
                product += signs[k][i] * signs[l][i];
            }
            assert_true(sum == 0 && product == (k == l ? SITES : 0));
        }
    assert_memory_not_equal(signs[0], signs[ROWS], sizeof signs / 2);
    open_population(&p, SITES, true, 0);
    for (int k = 0; k < 2 * ROWS; k++) {
        population_probes(&p, 1, single);
        assert_memory_equal(single, signs[k], sizeof single);
    }
}

ON_EACH_BACKEND(0)
