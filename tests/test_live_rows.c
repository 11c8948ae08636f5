/* A finite map whose cotangents are 0 for most rows, as those of an expert are that few inputs
 * select: such rows are left out of the products, and results are those of plain sums over all. So
 * are rows that a gate is 0 for: networks whose maps know of gates learn what others learn. */
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

static void make_map(struct map *map) {
    make(&source, M);
    make(&target, N);
    ASK(array_init(&rows_x, &backend_cpu, M, 1, P, err));
    ASK(array_init(&rows_y, &backend_cpu, N, 1, P, err));
    ASK(array_init(&rows_out, &backend_cpu, M, 1, P, err));
    ASK(map_init(map, &map_finite,
                 (struct map_declaration){"W", &source, &target, 1, 1, false, false, 1},
                 (struct map_settings){.stream = {.seed = 3}}, err));
    ASK(map->kind->matrix(map, &W[0][0], err));
}

static void free_map(struct map *map) {
    map_free(map);
    array_free(&rows_x);
    array_free(&rows_y);
    array_free(&rows_out);
    population_free(&source);
    population_free(&target);
}

static void rows_that_are_zero_change_nothing(void **state) {
    (void)state;
    struct map map;
    bool live[P] = {false};
    make_map(&map);
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
    free_map(&map);
}

/* Forward W x/N_x and backward as in `judge`, which rows 3, 7 and 8 alone count for; and a step
 * along them. */
static void rows_behind_a_gate_are_left_out(void **state) {
    (void)state;
    struct map map;
    double gates[P][2] = {{0}}, out[P][M], up[P][N];
    bool all[P];
    make_map(&map);
    for (int mu = 0; mu < P; mu++)
        all[mu] = true;
    gates[3][1] = gates[7][1] = gates[8][1] = 0.3;
    gates[4][0] = 1; /* another column */
    map.gate = (struct map_gate){&gates[0][1], P, 2, false};
    make_rows(all);
    ASK(map_forward(&map, array_all(&rows_x), array_all(&rows_y), err));
    backend_cpu.get(array_all(&rows_y), &up[0][0]);
    make_rows(all);
    rows_fn(FN_LINEAR, array_all(&rows_x), array_all(&rows_out), (struct rows){0}); /* not 0 */
    ASK(map_backward(&map, array_all(&rows_y), array_all(&rows_out), err));
    backend_cpu.get(array_all(&rows_out), &out[0][0]);
    for (int mu = 0; mu < P; mu++) {
        double sum = 0, back = 0;
        for (int j = 0; j < M; j++)
            sum += W[2][j] * x[mu][j];
        for (int i = 0; i < N; i++)
            back += y[mu][i] * W[i][5] / map.numbers.r;
        CHECK_ABS(up[mu][2], gates[mu][1] != 0 ? sum : 0, 1e-13, "forward, row %d", mu);
        CHECK_ABS(out[mu][5], gates[mu][1] != 0 ? back : 0, 1e-13, "backward, row %d", mu);
    }
    map.gate.forward = true;
    ASK(map_backward(&map, array_all(&rows_y), array_all(&rows_out), err));
    backend_cpu.get(array_all(&rows_out), &out[0][0]);
    assert_true(out[2][5] != 0);
    ASK(map_keep(&map, 0, array_all(&rows_y), err));
    ASK(map_learn(&map, 0, c, err));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            for (int mu = 0; mu < P; mu++)
                W[i][j] += gates[mu][1] != 0 ? c[mu] * y[mu][i] * x[mu][j] / M : 0;
    is_matrix(&map, "gate");
    free_map(&map);
}

/* Which experts of a transformer leave out what, with the gradients of its gates as a series and
 * without; that f is the one of a network that computes all of it; and with Adam, which divides by
 * small numbers, all matrices. */
static void networks_leave_out_experts(void **state) {
    (void)state;
    const char *const of_inputs[] = {"output.inputs=all", "output.inputs=none"};
    for (int none = 0; none < 2; none++) {
        const char *const keys[] = {of_inputs[none], NULL};
        struct run run;
        struct net nets[2];
        support_run_text(&run, keys,
                         "[network]\nmodel = transformer\nexperts = 4\nshared_experts = 1\n"
                         "gated_experts = yes\ngate = softmax\nq0 = 1\nrho = 0.5\niota = 1\n"
                         "[data]\nsource = markov\ninputs = 4\ntokens = 5\nvocabulary = 4\n"
                         "[training]\nloss = cross_entropy\noptimizer = adam\neta0 = 0.01\n"
                         "steps = 2\n[solver]\nreplicates = 0\n"
                         "[reference]\nwidths = 16\n[output]\nkernels = none\n");
        for (int k = 0; k < 2; k++)
            support_net(&nets[k], &run, 16, 0);
        const struct map *in = support_map(&nets[0], "W1_0_1"),
                         *out = support_map(&nets[0], "W2_0_1");
        assert_true((in->gate.numbers != NULL) == none);
        assert_true(out->gate.numbers != NULL && out->gate.forward == !none);
        assert_true(support_map(&nets[0], "W1_0_0")->gate.numbers != in->gate.numbers || !none);
        assert_null(support_map(&nets[0], "W1_0_4")->gate.numbers); /* the shared one */
        assert_null(support_map(&nets[0], "W_O_0")->gate.numbers);
        for (int i = 0; i < nets[1].maps.count; i++)
            nets[1].maps.item[i]->gate = (struct map_gate){0};
        for (int k = 0; k < 2; k++) {
            support_evaluate(&nets[k], &run);
            for (int t = 0; t < 3; t++)
                ASK(integrator_of(&run.config.training)
                        ->advance(&nets[k], &run.config.training, run.data.y, err));
        }
        for (int k = 0; k < 4 * 5 * run.data.C; k++)
            CHECK_ABS(nets[0].output.f[k], nets[1].output.f[k], 1e-11, "f %d", k);
        for (int i = 0; i < nets[0].maps.count; i++) {
            double *a = support_matrix(nets[0].maps.item[i]),
                   *b = support_matrix(nets[1].maps.item[i]);
            for (int k = 0; k < 16 * 16; k++)
                CHECK_ABS(a[k], b[k], 1e-11, "%s", nets[0].maps.item[i]->declared.name);
            free(a);
            free(b);
        }
        net_free(&nets[0]);
        net_free(&nets[1]);
        run_free(&run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_that_are_zero_change_nothing),
                                       cmocka_unit_test(rows_behind_a_gate_are_left_out),
                                       cmocka_unit_test(networks_leave_out_experts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
