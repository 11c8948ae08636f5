/* The operations between units and pairs (expert i, unit j) against plain loops, on every backend,
 * a map that starts at zero as a history against the explicit matrix, and shared normals. */
#include "tests/support/support.h"
#include "tests/support/wanted.h"
#include "kernels/maps/map_finite.h"

#include <omp.h>

enum { ROWS = 3 };
static const char *only; /* backend */

/* Groups i and units j: within one block, across blocks of units, of experts, of both. */
static const size_t shapes[][2] = {{1, 1},  {1, 300},  {7, 3},   {257, 1},
                                   {64, 8}, {30, 256}, {300, 9}, {600, 515}};

static double *random_values(size_t count) {
    double *values;
    ASK(base_alloc(&values, count, sizeof *values, err));
    for (size_t i = 0; i < count; i++)
        values[i] = uniform();
    return values;
}

/* Rows 1 .. ROWS of an array of ROWS + 2, whose other rows are 7 and must stay so. */
static struct rows inner(struct array *array, const struct backend *backend, size_t sites,
                         int group) {
    FREED(base_free) double *seven = random_values((ROWS + 2) * sites);
    ASK(array_init(array, backend, sites, group, ROWS + 2, err));
    for (size_t i = 0; i < (ROWS + 2) * sites; i++)
        seven[i] = 7;
    backend->put(array_all(array), seven);
    return array_rows(array, 1, ROWS);
}

static double *result_of(struct array *array) {
    size_t sites = array->sites;
    double *all = support_get(array_all(array)), *result = random_values(ROWS * sites);
    for (size_t i = 0; i < sites; i++)
        assert_true(all[i] == 7 && all[(ROWS + 1) * sites + i] == 7);
    memcpy(result, all + sites, ROWS * sites * sizeof *result);
    free(all);
    return result;
}

/* tile and tile_mean of random rows; results as host arrays. */
static void both(const struct backend *backend, size_t M, size_t N_e, const double *units,
                 const double *pairs, double **tiled, double **mean) {
    FREED(array_free) struct array u, v;
    struct rows x = inner(&u, backend, N_e, 1), y = inner(&v, backend, M * N_e, (int)N_e);
    backend->put(x, units);
    backend->tile(x, y);
    *tiled = result_of(&v);
    backend->put(y, pairs);
    backend->tile_mean(y, x);
    *mean = result_of(&u);
}

/* The mean of M numbers in order: M additions and a division, round-off M eps <|x|>. */
TEST(equal_plain_loops) {
    for (int b = 0; backend_list[b]; b++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes && wanted(backend_list[b], only);
             s++) {
            size_t M = shapes[s][0], N_e = shapes[s][1];
            FREED(base_free)
            double *units = random_values(ROWS * N_e), *pairs = random_values(ROWS * M * N_e);
            FREED(base_free) double *tiled, *mean;
            both(backend_list[b], M, N_e, units, pairs, &tiled, &mean);
            for (size_t k = 0; k < ROWS; k++)
                for (size_t j = 0; j < N_e; j++) {
                    long double sum = 0, size = 0;
                    for (size_t i = 0; i < M; i++) {
                        size_t pair = (k * M + i) * N_e + j;
                        assert_true(tiled[pair] == units[k * N_e + j]);
                        sum += pairs[pair];
                        size += fabs(pairs[pair]);
                    }
                    CHECK_ABS(mean[k * N_e + j], (double)(sum / M), (double)(DBL_EPSILON * size),
                              "%s: %zu x %zu", backend_list[b]->name, M, N_e);
                }
        }
}

TEST(bits_depend_on_nothing) {
    const size_t M = 300, N_e = 515, count = ROWS * M * N_e;
    FREED(base_free) double *units = random_values(ROWS * N_e), *pairs = random_values(count);
    double *tiled[6], *mean[6];
    for (int way = 0; way < 6; way++) {
        omp_set_num_threads(way / 2 + 1);
        both(way % 2 ? &backend_shadow : &backend_cpu, M, N_e, units, pairs, &tiled[way],
             &mean[way]);
        assert_memory_equal(tiled[way], tiled[0], count * sizeof **tiled);
        assert_memory_equal(mean[way], mean[0], ROWS * N_e * sizeof **mean);
    }
    for (int way = 0; way < 6; way++) {
        free(tiled[way]);
        free(mean[way]);
    }
    omp_set_num_threads(omp_get_num_procs());
}

static struct rows random_rows(struct array *array, const struct population *on, int count) {
    FREED(base_free) double *values = random_values((size_t)count * on->sites);
    ASK(array_init(array, on->backend, on->sites, on->group, count, err));
    on->backend->put(array_all(array), values);
    return array_all(array);
}

/* The same block through both maps. */
static void compare(struct map maps[2], bool forward, struct rows in, const struct population *on,
                    int step) {
    struct array out[2];
    double *got[2];
    for (int k = 0; k < 2; k++) {
        ASK(array_init(&out[k], on->backend, on->sites, on->group, in.count, err));
        if (forward)
            ASK(map_forward(&maps[k], in, array_all(&out[k]), err));
        else
            ASK(map_backward(&maps[k], in, array_all(&out[k]), err));
        got[k] = support_get(array_all(&out[k]));
    }
    /* Sums of fewer than 100 products of order one: 100 eps. */
    for (size_t i = 0; i < (size_t)in.count * on->sites; i++)
        CHECK_ABS(got[0][i], got[1][i], 2e-14, "%s at step %d, value %zu",
                  forward ? "forward" : "backward", step, i);
    for (int k = 0; k < 2; k++) {
        free(got[k]);
        array_free(&out[k]);
    }
}

/* Explicit and history, with P rows of y a step or one, s_f and r not one. */
TEST(history_equals_the_matrix) {
    for (int rows = 1; rows <= ROWS; rows += ROWS - 1) {
        struct population source = {"source", &backend_shadow, .size = 12, .sites = 12, .group = 3};
        struct population target = {"target", &backend_shadow, .size = 20, .sites = 20, .group = 1};
        struct map_declaration declared = {"L",       &source, &target, 0,   0.5,
                                           rows == 1, false,   1,       NULL};
        const struct map_kind *const kinds[] = {&map_finite, &map_history};
        struct map_settings settings = {.stream = {.purpose = PURPOSE_MATRIX}};
        struct map maps[2];
        struct array x, y;
        for (int k = 0; k < 2; k++)
            ASK(map_init(&maps[k], kinds[k], declared, settings, err));
        for (int step = 0; step < 14; step++) {
            double c[ROWS] = {uniform(), uniform(), uniform()};
            struct rows in = random_rows(&x, &source, ROWS), out = random_rows(&y, &target, rows);
            compare(maps, true, in, &target, step);
            compare(maps, false, out, &source, step);
            for (int k = 0; k < 2; k++) {
                ASK(map_keep(&maps[k], 0, out, err));
                ASK(map_learn(&maps[k], 0, c, err));
            }
            bool longer = (step + 1) * rows >= 12; /* than the source has sites */
            assert_true(maps[1].kind == (longer ? &map_finite : &map_history));
            if (!longer)
                assert_int_equal(history_of(&maps[1])->q.rows, (step + 1) * rows);
            array_free(&x);
            array_free(&y);
        }
        map_free(&maps[0]);
        map_free(&maps[1]);
    }
}

/* Pairs that share the normals of their units: the same in every group, orthonormal, orthogonal to
 * rows over the pairs they are conditioned on and to those absorbed before; also without room. Two
 * projections leave a few eps. */
TEST(shared_normals) {
    enum { M = 5 };
    for (int few = 0; few < 2; few++) {
        size_t N_e = few ? 12 : 300; /* 0.8 of 12 is full after absorbing and one draw */
        struct population units = {"units", &backend_shadow, .sites = N_e, .group = 1};
        struct population pairs = {"pairs", &backend_shadow, .sites = M * N_e, .group = (int)N_e};
        FREED(array_free) struct array opposite, absorbed, drawn;
        double products[ROWS * ROWS];
        units.draws.matched = pairs.draws.matched = true;
        units.draws.stream.purpose = PURPOSE_POOL;
        pairs.units = &units;
        ASK(population_init(&units, err));
        struct rows x = random_rows(&opposite, &pairs, ROWS), y = random_rows(&absorbed, &pairs, 3);
        struct rows e = random_rows(&drawn, &pairs, ROWS);
        ASK(population_absorb(&pairs, y, err));
        ASK(population_absorb(&pairs, x, err));
        for (int draw = 0; draw < 2; draw++) {
            ASK(population_fresh(&pairs, x, e, err));
            FREED(base_free) double *values = support_get(e);
            for (size_t i = 0; i < ROWS * M * N_e; i++)
                assert_true(values[i] == values[i / (M * N_e) * (M * N_e) + i % N_e]);
            backend_shadow.dots(e, e, products);
            for (int k = 0; k < ROWS * ROWS; k++)
                CHECK_ABS(products[k], k % (ROWS + 1) == 0, 1e-13, "<e e>[%d]", k);
            backend_shadow.dots(e, x, products);
            for (int k = 0; k < ROWS * ROWS; k++)
                CHECK_ABS(products[k], 0, 1e-13, "<e x>[%d]", k);
            backend_shadow.dots(e, y, products);
            for (int k = 0; k < ROWS * ROWS && !units.span.unmatched; k++)
                CHECK_ABS(products[k], 0, 1e-13, "<e y>[%d]", k);
        }
        assert_int_equal(units.span.unmatched, few ? ROWS : 0);
        population_free(&units);
    }
}

int main(int argc, char **argv) {
    only = argc > 1 ? argv[1] : NULL;
    if (only) /* the others are about cpu and shadow */
        cmocka_set_test_filter("equal_plain_loops");
    return run_registered(__FILE__);
}
