/* Storage as it is planned: what takes the place of what, and what is of no more use. */
#include "tests/support/support.h"
#include "models/language/adjoint.h"

/* A chain of layers holds, of each, the value and the slope of its function, which take the place
 * of what they are made of, and cotangents in turn in the place of a slope and of their own. The
 * outputs, which are one number for each input, are one array more. */
TEST(storage_is_reused) {
    for (int depth = 1; depth <= 4; depth++)
        for (int N = 0; N <= 32; N += 32) {
            char layers[32];
            RUN_AND_NET;
            snprintf(layers, sizeof layers, "network.depth=%d", depth);
            support_run(&run, "data/dense.ini",
                        ARGS(layers, "reference.widths=32", "solver.sites=64"));
            support_net(&net, &run, N, 0);
            int numbers = 0;
            for (int i = 0; i < net.arrays.count; i++)
                numbers += net.arrays.item[i]->sites == 1;
            assert_int_equal(numbers, 1);
            assert_int_equal(net.arrays.count - numbers, 2 * depth + (depth > 1));
        }
}

static struct rows rows_of(const struct node *v) {
    return adjoint_is_taken(v) ? v->work : v->value;
}

/* Behind its last use a row is NaN, which an operation that reads more than it says would meet;
 * what is read when all is done, and only that, is there still. */
TEST(what_is_of_no_more_use_is_poisoned) {
    for (int poisons = 0; poisons < 2; poisons++) {
        RUN_AND_NET;
        int gone = 0;
        support_run(
            &run, "data/transformer.ini",
            ARGS(poisons ? "solver.backend=shadow" : "solver.backend=cpu", "solver.sites=64"));
        support_begin(&net, &run, 0, 0);
        for (int i = 0; i < net.program->all; i++) {
            int last = net.program->node[i].plan.last;
            double mean;
            if (last < 0)
                continue;
            for (int k = 0; k < net.program->all; k++) /* the last that had these rows */
                if (rows_of(&net.program->node[k]).array == rows_of(&net.program->node[i]).array)
                    last = net.program->node[k].plan.last > last ? net.program->node[k].plan.last
                                                                 : last;
            struct rows rows = array_all(rows_of(&net.program->node[i]).array);
            rows.array->backend->averages(rows_part(rows, 0, 1), (struct rows){0}, &mean);
            assert_int_equal(isnan(mean) != 0, poisons && last < net.program->all);
            gone += isnan(mean) != 0;
        }
        assert_int_equal(gone > 0, poisons);
    }
}
