/* The order in which minibatches take the inputs. */
#include "integrators/integrator.h"
#include "tests/support/support.h"

/* Whether index [n] has each of 0 ... n - 1 once. */
static bool is_permutation(const int *index, int n) {
    bool seen[64] = {false};
    for (int i = 0; i < n; i++) {
        if (index[i] < 0 || index[i] >= n || seen[index[i]])
            return false;
        seen[index[i]] = true;
    }
    return true;
}

/* 7 steps of 6 are 3 epochs of 14. */
TEST(every_epoch_has_every_input) {
    enum { N = 14, P = 6, STEPS = 7 };
    struct training training = {.batches.size = P, .batches.seed = 5};
    int index[STEPS * P], again[P];
    for (training.batches.order = BATCH_CYCLIC; training.batches.order <= BATCH_SHUFFLED;
         training.batches.order++) {
        FREED(batch_free) struct batch batch;
        ASK(batch_init(&batch, &training, N, err));
        for (int t = 0; t < STEPS; t++)
            batch_at(&batch, t, index + t * P);
        for (int epoch = 0; epoch < 3; epoch++)
            assert_true(is_permutation(index + epoch * N, N));
        bool same = !memcmp(index, index + N, N * sizeof *index);
        assert_true(same == (training.batches.order == BATCH_CYCLIC));
        for (int i = 0; i < N && training.batches.order == BATCH_CYCLIC; i++)
            assert_int_equal(index[i], i);
        batch_at(&batch, 2, again); /* whatever came before */
        assert_memory_equal(again, index + 2 * P, sizeof again);
    }
}

/* Each input comes first equally often: 6000 epochs of 6, 1000 +- 29; 5 sigma. */
TEST(shuffles_are_fair) {
    enum { N = 6, EPOCHS = 6000 };
    struct training training = {.batches.order = BATCH_SHUFFLED, .batches.seed = 1};
    FREED(batch_free) struct batch batch;
    int first[N] = {0}, index[N];
    ASK(batch_init(&batch, &training, N, err));
    for (int t = 0; t < EPOCHS; t++) {
        batch_at(&batch, t, index);
        first[index[0]]++;
    }
    for (int i = 0; i < N; i++)
        CHECK_ABS(first[i], EPOCHS / N, 145, "input %d", i);
}

/* The batches of two epochs and a half of data/dense.ini with 12 inputs, shuffled. */
enum { ORDER_STEPS = 10, ORDER_BATCH = 3 };
static void read_order(int index[ORDER_STEPS * ORDER_BATCH], const char *more) {
    FREED(run_free) struct run run;
    FREED(batch_free) struct batch batch;
    support_run(&run, "data/dense.ini",
                ARGS("data.inputs=12", "training.batch=3", "training.order=shuffled", more));
    ASK(batch_init(&batch, &run.config.training, run.data.P, err));
    for (int t = 0; t < ORDER_STEPS; t++)
        batch_at(&batch, t, index + t * ORDER_BATCH);
}

/* Other draws of limit and networks see the same batches. */
TEST(the_order_has_a_seed_of_its_own) {
    int order[ORDER_STEPS * ORDER_BATCH], same[ORDER_STEPS * ORDER_BATCH],
        other[ORDER_STEPS * ORDER_BATCH];
    read_order(order, "solver.seed=1");
    read_order(same, "solver.seed=2");
    read_order(other, "training.order_seed=2");
    assert_memory_equal(same, order, sizeof order);
    assert_memory_not_equal(other, order, sizeof order);
}
