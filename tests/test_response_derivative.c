/* Responses of the marched limit are the derivatives that they stand for: two populations and one
 * map, whose field is shifted; and which rows have responses. */
#include "tests/support/support.h"
#include "models/engine/node.h"
#include "solver/measure/observe.h"

#include <math.h>
#include <stdlib.h>

/* One map between two populations that react to all it has told them, x = rows[0], y = rows[1]:
 *     x_t = tanh(xi + 0.7 sum_{s<t} W^T y_s)     y_t = tanh(eta + 0.7 sum_{s<=t} W x_s) */
enum { T = 4, S = 1024, REPLICATES = 24 };
struct loop {
    struct population side[2];
    struct map map;
    struct array rows[2], field[2], out, probe;
};

static void loop_init(struct loop *l, int replicate) {
    for (int i = 0; i < 2; i++) {
        struct rng_stream stream = {.seed = 3, .owner = (uint32_t)i, .purpose = PURPOSE_POOL};
        stream.replicate = (uint32_t)replicate;
        l->side[i] = (struct population){.backend = &backend_cpu,
                                         .size = POPULATION_INFINITE,
                                         .sites = S,
                                         .group = 1,
                                         .draws.matched = true,
                                         .draws.stream = stream};
        ASK(population_init(&l->side[i], err));
        ASK(array_init(&l->rows[i], &backend_cpu, S, 1, T, err));
        ASK(array_init(&l->field[i], &backend_cpu, S, 1, 1, err));
        ASK(population_fresh(&l->side[i], (struct rows){0}, array_all(&l->field[i]), err));
    }
    ASK(array_init(&l->out, &backend_cpu, S, 1, 1, err));
    ASK(array_init(&l->probe, &backend_cpu, S, 1, 1, err));
    backend_cpu.normals(
        array_all(&l->probe),
        (struct rng_stream){.seed = 3, .replicate = (uint32_t)replicate, .purpose = PURPOSE_DATA});
    ASK(map_init(&l->map, &map_limit,
                 (struct map_declaration){"W", &l->side[0], &l->side[1], 1, 1, true, false, 1},
                 (struct map_settings){.tolerance = 1e-6, .responses = true}, err));
}

static void loop_free(struct loop *l) {
    for (int i = 0; i < 2; i++) {
        array_free(&l->rows[i]);
        array_free(&l->field[i]);
        population_free(&l->side[i]);
    }
    array_free(&l->out);
    array_free(&l->probe);
    map_free(&l->map);
}

/* What the map tells side 1 - i at time `at` is shifted by epsilon times the probe. */
static void loop_run(struct loop *l, struct response *response, int responses, int i, int at,
                     double epsilon) {
    const double strength = 0.7, c = 0.3;
    for (int t = 0; t < T; t++) {
        for (int k = 0; k < 2; k++) {
            struct rows now = array_rows(&l->rows[k], t, 1), out = array_all(&l->out);
            rows_fn(FN_TANH, array_all(&l->field[k]), now, (struct rows){0});
            ASK((k ? map_backward : map_forward)(&l->map, now, out, err));
            if (k == i && t == at)
                rows_add(&epsilon, array_all(&l->probe), out);
            rows_add(&strength, out, array_all(&l->field[1 - k]));
        }
        for (int k = 0; k < responses; k++)
            ASK(response_measure(&response[k], t, err));
        ASK(map_keep(&l->map, 0, array_rows(&l->rows[1], t, 1), err));
        ASK(map_learn(&l->map, 0, &c, err));
    }
}

/* The mean of the derivative of x_t (of y_t) by a shift at time s of what the map told it. */
static void derivative(const struct loop *base, int replicate, int side, int s, double out[T]) {
    const double epsilon = 1e-5;
    double here[T];
    struct loop l;
    loop_init(&l, replicate);
    loop_run(&l, NULL, 0, 1 - side, s, epsilon);
    backend_cpu.dots(array_all(&l.rows[side]), array_all(&l.probe), out);
    backend_cpu.dots(array_all(&base->rows[side]), array_all(&l.probe), here);
    for (int t = 0; t < T; t++)
        out[t] = (out[t] - here[t]) / epsilon;
    loop_free(&l);
}

/* A = <dx_t/dv_s>, B = <dy_t/du_s>, and zero where s is later: 4 standard errors over replicates of
 * the difference; second order in the shift of 1e-5 is far below. */
static void they_are_derivatives(void **state) {
    (void)state;
    double sum[2][T][T] = {0}, squares[2][T][T] = {0}, mean[2][T][T] = {0};
    for (int r = 0; r < REPLICATES; r++) {
        struct loop l;
        struct map *maps[] = {&l.map};
        struct node nodes[] = {{.count = 1}, {.matrix.map = &l.map, .argument = {0}}};
        struct program program = {.node = nodes, .nodes = 2};
        struct net net = {.maps.count = 1,
                          .maps.item = maps,
                          .batch.rows = 1,
                          .setup = {.data.P = 1, .measure.responses = true},
                          .program = &program};
        struct record record;
        struct response *response;
        int responses;
        loop_init(&l, r);
        ASK(record_init(&record, 1, T, err));
        ASK(response_instrument.declare(&record, NULL, &net, NULL, err));
        ASK(response_init(&response, &responses, &record, 0, &net, err));
        assert_int_equal(responses, 2);
        loop_run(&l, response, responses, 0, T, 0);
        for (int side = 0; side < 2; side++)
            for (int s = 0; s < T; s++) {
                double want[T];
                derivative(&l, r, side, s, want);
                for (int t = 0; t < T; t++) {
                    double got = record.series[side].values[t * T + s];
                    sum[side][t][s] += got - want[t];
                    squares[side][t][s] += (got - want[t]) * (got - want[t]);
                    mean[side][t][s] += want[t] / REPLICATES;
                    if (s > t - (side == 0))
                        assert_true(got == 0);
                }
            }
        for (int k = 0; k < responses; k++)
            response_free(&response[k]);
        free(response);
        record_free(&record);
        loop_free(&l);
    }
    for (int side = 0; side < 2; side++)
        for (int t = 0; t < T; t++)
            for (int s = 0; s <= t - (side == 0); s++) {
                double off = sum[side][t][s] / REPLICATES;
                double variance = squares[side][t][s] / REPLICATES - off * off;
                double se = sqrt(variance / (REPLICATES - 1));
                CHECK_ABS(off, 0, 4 * se, "%c(%d, %d)", side ? 'B' : 'A', t, s);
                assert_true(mean[side][t][s] > 5 * se || s != t - (side == 0));
            }
}

/* Of two inputs of two tokens: maps whose rows have an axis, and those of one row that serves all
 * or of pairs of tokens, of which the file would have none. */
static void which_rows_have_responses(void **state) {
    (void)state;
    static const struct { int rows, responses; } cases[] = {{1, 0}, {2, 2}, {4, 2}, {8, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct map map = {.declared = {.name = "W", .uses = 1}, .numbers = {1, 1, 1}};
        struct map *maps[] = {&map};
        struct node nodes[] = {{.count = cases[i].rows}, {.matrix.map = &map, .argument = {0}}};
        struct program program = {.node = nodes, .nodes = 2};
        struct net net = {.maps.count = 1,
                          .maps.item = maps,
                          .batch.rows = 4,
                          .setup = {.data.P = 2, .measure.responses = true},
                          .program = &program};
        struct record record;
        ASK(record_init(&record, 1, T, err));
        ASK(response_instrument.declare(&record, NULL, &net, NULL, err));
        assert_int_equal(record.count, cases[i].responses);
        record_free(&record);
    }
}

int main(void) {
    backend_start(1); /* small arrays */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_derivatives),
        cmocka_unit_test(which_rows_have_responses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
