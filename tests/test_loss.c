/* Every loss of loss_list is judged here without a line of its own: its derivative by differences,
 * its targets by what the data refuse, its gradient in a network, and that its name, its equation
 * and its TeX reach the ini, the help and the file. */
#include "tests/support/support.h"
#include "kernels/draws/rng.h"

enum { MOST = 4, DRAWS = 200 };

static double normal(int number) {
    struct rng_stream stream = {.seed = 3, .purpose = PURPOSE_DATA};
    double pair[2];
    rng_normal_pair(stream, 0, (uint32_t)number / 2, pair);
    return pair[number % 2];
}

static int outputs_of(const struct loss *loss) {
    return loss->targets == LOSS_TARGETS_SIGNS ? 1 : 3;
}

static void draw_targets(const struct loss *loss, int number, int C, double *y) {
    for (int c = 0; c < C; c++)
        y[c] = loss->targets == LOSS_TARGETS_NUMBERS ? normal(number + c)
               : loss->targets == LOSS_TARGETS_SIGNS ? (number % 2 ? 1 : -1)
                                                     : number / C % C == c;
}

/* Central differences of order h^2: the error is |l'''| h^2/6 + round-off/h, with |l'''| <= 1 of
 * these losses and h = 1e-4 below 1e-8. Where a loss has a kink (hinge), the interval may contain
 * it: such draws have the same slope on neither side and are left out, at most one in a hundred. */
TEST(deltas_are_derivatives) {
    const double h = 1e-4;
    for (size_t k = 0; loss_list[k]; k++) {
        const struct loss *loss = loss_row(k);
        int C = outputs_of(loss), kinks = 0, number = 0;
        for (int i = 0; i < DRAWS; i++, number += 2 * MOST) {
            double f[MOST], y[MOST], Delta[MOST], unused[MOST];
            draw_targets(loss, number, C, y);
            for (int c = 0; c < C; c++)
                f[c] = 2 * normal(number + MOST + c);
            double at = loss_weighted(loss, 1, C, f, y, Delta);
            for (int c = 0; c < C; c++) {
                double f_c = f[c];
                f[c] = f_c + h;
                double above = loss_weighted(loss, 1, C, f, y, unused);
                f[c] = f_c - h;
                double below = loss_weighted(loss, 1, C, f, y, unused);
                f[c] = f_c;
                if (fabs(above - 2 * at + below) > 0.1 * h) { /* smooth: of order h^2 */
                    kinks++;
                    continue;
                }
                CHECK_ABS(-Delta[c], (above - below) / (2 * h), 1e-7, "%s: dl/df_%d",
                          loss->choice.name, c);
            }
            assert_true(isfinite(at) && at >= 0);
        }
        assert_true(100 * kinks <= DRAWS);
    }
}

/* Central differences of Delta, as above: |l''''| <= 1 and h = 1e-4. Where Delta jumps is a kink.
 */
TEST(curvatures_are_derivatives) {
    const double h = 1e-4;
    for (size_t k = 0; loss_list[k]; k++) {
        const struct loss *loss = loss_row(k);
        int C = outputs_of(loss), kinks = 0, number = 0;
        for (int i = 0; i < DRAWS; i++, number += 2 * MOST) {
            double f[MOST], y[MOST], H[MOST * MOST], above[MOST], below[MOST];
            draw_targets(loss, number, C, y);
            for (int c = 0; c < C; c++)
                f[c] = 2 * normal(number + MOST + c);
            loss->curvature(C, f, y, H);
            for (int c = 0; c < C; c++) {
                double f_c = f[c];
                f[c] = f_c + h;
                loss_weighted(loss, 1, C, f, y, above);
                f[c] = f_c - h;
                loss_weighted(loss, 1, C, f, y, below);
                f[c] = f_c;
                for (int d = 0; d < C; d++) {
                    double slope = (below[d] - above[d]) / (2 * h);
                    kinks += fabs(slope) > 100;
                    if (fabs(slope) <= 100)
                        CHECK_ABS(H[d * C + c], slope, 1e-7, "%s: d^2 l/df_%d df_%d",
                                  loss->choice.name, d, c);
                }
            }
        }
        assert_true(100 * kinks <= DRAWS);
    }
}

/* Outputs so large that an exponential of them would overflow. */
TEST(large_outputs_are_finite) {
    for (size_t k = 0; loss_list[k]; k++) {
        const struct loss *loss = loss_row(k);
        int C = outputs_of(loss);
        for (int sign = -1; sign <= 1; sign += 2) {
            double f[MOST] = {sign * 1e4, -sign * 1e4, 0}, y[MOST], Delta[MOST];
            draw_targets(loss, 1, C, y);
            assert_true(isfinite(loss_weighted(loss, 1, C, f, y, Delta)));
            for (int c = 0; c < C; c++)
                assert_true(isfinite(Delta[c]));
        }
    }
}

/* The loss of what is no number is none, and what does not know it would read as 0. */
TEST(no_number_has_no_loss) {
    for (size_t k = 0; loss_list[k]; k++) {
        const struct loss *loss = loss_row(k);
        int C = outputs_of(loss);
        for (int c = 0; c < C; c++) {
            double f[MOST] = {0}, y[MOST], Delta[MOST];
            draw_targets(loss, 1, C, y);
            f[c] = NAN;
            if (!isnan(loss_weighted(loss, 1, C, f, y, Delta)))
                fail_msg("%s: f_%d is NaN, and the loss is not", loss->choice.name, c);
        }
    }
}

/* The gradient of a network trained by it, against differences (support_gradient). */
TEST(networks_follow_their_gradient) {
    for (size_t k = 0; loss_list[k]; k++) {
        char key[64];
        FREED(run_free) struct run run;
        snprintf(key, sizeof key, "training.loss=%s", loss_list[k]->name);
        const char *overrides[] = LIST(key, "data.inputs=4", "data.dimension=3", "network.depth=2",
                                       "reference.widths=8", NULL);
        support_run(&run, "data/dense.ini", overrides);
        assert_ptr_equal(run.config.training.loss, loss_row(k));
        support_gradient(&run, 8, 7);
    }
}

TEST(rows_are_complete) {
    for (size_t k = 0; loss_list[k]; k++) {
        const struct loss *loss = loss_row(k);
        assert_true(*loss->choice.name && *loss->choice.doc && *loss->equation && *loss->tex);
        for (size_t l = 0; l < k; l++)
            assert_string_not_equal(loss->choice.name, loss_list[l]->name);
    }
}
