/* The sharpness in units of Adam's step beside that in units of gradient descent: where eps is
 * large that step is a gradient over eps, and both are the same but for a constant of each matrix.
 */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 3 };

/* Of every matrix and set of numbers, and returns how many there are. With eps = 1e6 a gradient of
 * order one changes a step by 1e-6, and four such are allowed. */
static int same_but_for_a_constant(const struct record *record, const char *what) {
    static const char begin[] = "sharpness_adam_";
    int found = 0;
    for (int k = 0; k < record->count; k++) {
        const char *name = record->series[k].name;
        char plain[96];
        if (strncmp(name, begin, sizeof begin - 1) != 0)
            continue;
        snprintf(plain, sizeof plain, "sharpness_%s", name + sizeof begin - 1);
        double ratio = NAN;
        for (int t = 0; t < STEPS; t++) {
            double got = support_value(record, name, 0, t, 0),
                   want = support_value(record, plain, 0, t, 0);
            if (isnan(ratio) && want > 0)
                ratio = got / want;
            if (isnan(ratio) ? got != 0 : !(ratio > 0))
                fail_msg("%s: %s is %g, and %s %g", what, name, got, plain, want);
            if (!isnan(ratio))
                CHECK_ABS(got, ratio * want, 4e-6 * ratio * want, "%s: %s, t = %d", what, name, t);
        }
        found++;
    }
    return found;
}

static void a_large_eps_makes_adam_plain(void **state) {
    (void)state;
    static const char *const set[] = {"training.steps=3",        "data.inputs=2",
                                      "training.optimizer=adam", "training.eta0=1e5",
                                      "training.eps=1e6",        "output.sharpness=blocks",
                                      "solver.sites=64",         "solver.replicates=1",
                                      "reference.seeds=1",       NULL};
    for (const struct model *const *model = model_list; *model; model++)
        for (int N = model == model_list ? 0 : 16; N <= 16; N += 16) {
            struct run run;
            struct record record;
            assert_true(support_small(&run, *model, set));
            support_ensemble(&run, N, &record);
            int found = same_but_for_a_constant(&record, (*model)->name);
            print_message("%s, N = %d: %d\n", (*model)->name, N, found);
            assert_true(found > 1);
            record_free(&record);
            run_free(&run);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_large_eps_makes_adam_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
