/* A finite map whose cotangents are 0 for most rows, as those of an expert are that few inputs
 * select: such rows are left out of the products, and results are those of plain sums over all. */
#include "tests/support/support.h"
#include "kernels/maps/map.h"

#include <math.h>
#include <stdlib.h>

enum { P = 16, M = 24, N = 20 };

static struct population source, target;
static double x[P][M], y[P][N], W[N][M], c[P];
static struct array rows_x, rows_y, rows_out;

static void make(struct population *p, size_t sites) {
    *p = (struct population){
        .backend = &backend_cpu, .size = (double)sites, .sites = sites, .group = 1};
    ASK(population_init(p, err));
}

/* Rows with values for which live[mu] is set; no number is exact in the sums. */
static void make_rows(const bool *live) {
    for (int mu = 0; mu < P; mu++) {
        c[mu] = 0.1 * cos(mu);
        for (int j = 0; j < M; j++)
            x[mu][j] = sin(1 + 3.7 * mu + 1.3 * j);
        for (int i = 0; i < N; i++)
            y[mu][i] = live[mu] ? cos(2 + 2.9 * mu + 0.7 * i) : 0;
    }
    backend_cpu.put(array_all(&rows_x), &x[0][0]);
    backend_cpu.put(array_all(&rows_y), &y[0][0]);
}

static void is_matrix(const struct map *map, const char *what) {
    double now[N][M];
    ASK(map->kind->matrix(map, &now[0][0], err));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            CHECK_ABS(now[i][j], W[i][j], 1e-14, "%s: W[%d][%d]", what, i, j); /* P + 2 roundings */
}

/* W^T y, and W after a step along these rows, by plain sums. */
static void judge(struct map *map, const bool *live, const char *what) {
    double out[P][M], scratch[P][N];
    make_rows(live);
    ASK(map_forward(map, array_all(&rows_x), array_all(&rows_y), err));
    backend_cpu.get(array_all(&rows_y), &scratch[0][0]);
    make_rows(live);                                                                /* y again */
    rows_fn(FN_LINEAR, array_all(&rows_x), array_all(&rows_out), (struct rows){0}); /* not 0 */
    ASK(map_backward(map, array_all(&rows_y), array_all(&rows_out), err));
    backend_cpu.get(array_all(&rows_out), &out[0][0]);
    for (int mu = 0; mu < P; mu++)
        for (int j = 0; j < M; j++) {
            double sum = 0;
            for (int i = 0; i < N; i++)
                sum += y[mu][i] * W[i][j] / map->numbers.r;
            CHECK_ABS(out[mu][j], sum, 1e-13, "%s: row %d, site %d", what, mu, j);
            if (!live[mu])
                assert_true(out[mu][j] == 0);
        }
    ASK(map_keep(map, 0, array_all(&rows_y), err));
    rows_zero(array_all(&rows_y)); /* what is kept outlives the rows */
    ASK(map_learn(map, 0, c, err));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            for (int mu = 0; mu < P; mu++)
                W[i][j] += c[mu] * y[mu][i] * x[mu][j] / M;
    is_matrix(map, what);
}

static void rows_that_are_zero_change_nothing(void **state) {
    (void)state;
    struct map map;
    bool live[P] = {false};
    make(&source, M);
    make(&target, N);
    ASK(array_init(&rows_x, &backend_cpu, M, 1, P, err));
    ASK(array_init(&rows_y, &backend_cpu, N, 1, P, err));
    ASK(array_init(&rows_out, &backend_cpu, M, 1, P, err));
    ASK(map_init(&map, &map_finite,
                 (struct map_declaration){"W", &source, &target, 1, 1, false, false, 1},
                 (struct map_settings){.stream = {.seed = 3}}, err));
    ASK(map.kind->matrix(&map, &W[0][0], err));
    live[3] = live[7] = live[8] = live[15] = true;
    judge(&map, live, "four of sixteen");
    live[0] = true, live[15] = false;
    judge(&map, live, "the first and not the last");
    for (int mu = 0; mu < P; mu++)
        live[mu] = mu != 5;
    judge(&map, live, "all but one");
    for (int mu = 0; mu < P; mu++)
        live[mu] = mu == 5;
    judge(&map, live, "one");
    live[5] = false;
    judge(&map, live, "none");
    for (int mu = 0; mu < P; mu++)
        live[mu] = true;
    judge(&map, live, "all");
    map_free(&map);
    array_free(&rows_x);
    array_free(&rows_y);
    array_free(&rows_out);
    population_free(&source);
    population_free(&target);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_that_are_zero_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
