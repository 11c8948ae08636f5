/* Alignments of the coordinate check: what a matrix makes over the sizes of its entries and of its
 * input. One input and one step of gradient descent make changes of rank one, of which the ratio is
 * known without the entries. */
#include "tests/support/support.h"

enum { N = 24 };

static void measure(struct record *record, const char *const *more) {
    const char *all[12] = {"reference.coordinate_check=alignment", "data.inputs=1",
                           "training.steps=3", "output.kernels=none"};
    for (int k = 0; more[k]; k++)
        all[4 + k] = more[k];
    support_one("data/regime2.ini", all, N, record);
}

/* Where the first layer is frozen, so is x of Q and W_in: (g x^T) x is m |g| |x|^2 for the m = N
 * entries of x, and nothing passes on a change of it. */
TEST(of_a_step_along_its_own_input) {
    FREED(record_free) struct record record;
    measure(&record, ARGS("rates.W1=0"));
    for (int t = 1; t < 3; t++) {
        CHECK_ABS(support_value(&record, "rms_Q_eff_aligned", 0, t, 0), N, 1e-9, "Q, t = %d", t);
        CHECK_ABS(support_value(&record, "rms_W_in_eff_aligned", 0, t, 0), N, 1e-9, "t = %d", t);
        assert_true(isnan(support_value(&record, "rms_Q_prop_aligned", 0, t, 0)));
    }
    assert_true(isnan(support_value(&record, "rms_Q_eff_aligned", 0, 0, 0)));
}

/* Where W_out alone learns, h3 moves along w(0): <w dh3> is as large as it can be. Of Q and W_in
 * neither the matrix nor its input moves. */
TEST(of_a_change_along_the_read_out) {
    FREED(record_free) struct record record;
    measure(&record, ARGS("rates.W1=0", "rates.Q=0", "rates.W_in=0", "rates.w=0"));
    for (int t = 1; t < 3; t++)
        CHECK_ABS(support_value(&record, "rms_w_prop_aligned", 0, t, 0), N, 1e-9, "t = %d", t);
    assert_true(isnan(support_value(&record, "rms_w_eff_aligned", 0, 1, 0)));
    assert_true(isnan(support_value(&record, "rms_W_in_eff_aligned", 0, 1, 0)));
}

/* Independent entries: the change of the input does not know Q(0) where h1 moves along the way
 * through the experts alone, so that the ratio is about N^1/2, a third of N. */
TEST(of_independent_entries) {
    FREED(record_free) struct record record;
    measure(&record, ARGS("rates.Q=0"));
    double ratio = support_value(&record, "rms_Q_prop_aligned", 0, 1, 0);
    assert_true(ratio > 0.5 * sqrt(N) && ratio < 2 * sqrt(N));
}

/* Parts are as without alignments, which the limit does not have. */
TEST(beside_parts) {
    FREED(record_free) struct record record, parts;
    measure(&record, (const char *const[]){NULL});
    support_one("data/regime2.ini",
                ARGS("reference.coordinate_check=yes", "data.inputs=1", "training.steps=3",
                     "output.kernels=none"),
                N, &parts);
    support_same(&parts, &record);
    assert_null(record_find(&parts, "rms_Q_eff_aligned"));
    record_free(&record);
    support_one("data/regime2.ini",
                ARGS("reference.coordinate_check=alignment", "solver.sites=64",
                     "solver.expert_sites=64", "training.steps=2", "output.kernels=none",
                     "output.responses=no"),
                0, &record);
    assert_null(record_find(&record, "rms_Q_eff_aligned"));
}
