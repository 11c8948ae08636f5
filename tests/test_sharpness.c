/* The sharpness in units of Adam's step beside that in units of gradient descent: where eps is
 * large that step is a gradient over eps, and both are the same but for a constant of each matrix.
 * And of many outputs, on a small stack. */
#define _XOPEN_SOURCE 700
#include "integrators/integrator.h"
#include "tests/support/support.h"

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

TEST(a_large_eps_makes_adam_plain) {
    for (const struct model *const *model = model_list; *model; model++)
        for (int N = model == model_list ? 0 : 16; N <= 16; N += 16) {
            RUN_AND_RECORD;
            assert_true(support_small(
                &run, *model,
                ARGS("training.steps=3", "data.inputs=2", "training.optimizer=adam",
                     "training.eta0=1e5", "training.eps=1e6", "output.sharpness=blocks",
                     "solver.sites=64", "solver.replicates=1", "reference.seeds=1")));
            support_ensemble(&run, N, &record);
            int found = same_but_for_a_constant(&record, (*model)->name);
            print_message("%s, N = %d: %d\n", (*model)->name, N, found);
            assert_true(found > 1);
        }
}

/* Steps of gradient descent begin to grow where the rate times the sharpness is 2: with a schedule
 * the rate is that of the time. */
TEST(the_edge_goes_with_the_schedule) {
    RUN_AND_RECORD;
    support_run(&run, "data/dense.ini",
                ARGS("training.steps=4", "training.schedule=linear", "output.sharpness=sum",
                     "solver.sites=64", "solver.replicates=1"));
    support_ensemble(&run, 0, &record);
    for (int t = 0; t < 4; t++) {
        double rate = run.config.training.eta0 * schedule_factor(&run.config.training, t),
               want = rate * support_value(&record, "sharpness", 0, t, 0) / 2;
        CHECK_ABS(support_value(&record, "edge", 0, t, 0), want, 1e-14 * want, "t = %d", t);
    }
}

/* The curvature of a loss of C outputs has C^2 entries, 720 kB here, of a stack of 512 kB. The
 * stack of a process has 8 MB as a rule, which 1024 outputs would fill. */
TEST(many_outputs_do_not_fill_the_stack) {
    static const char *const set[] = LIST(
        "data.inputs=1", "network.outputs=300", "training.loss=cross_entropy", "training.steps=1",
        "output.sharpness=sum", "output.kernels=none", "solver.threads=1", NULL);
    struct rlimit whole, little;
    RUN_AND_RECORD;
    support_run(&run, "data/dense.ini", set);
    assert_int_equal(getrlimit(RLIMIT_STACK, &whole), 0);
    little = whole;
    little.rlim_cur = 1 << 19;
    assert_int_equal(setrlimit(RLIMIT_STACK, &little), 0);
    ASK(run_ensemble(&run, 4, 1, &record, err));
    assert_int_equal(setrlimit(RLIMIT_STACK, &whole), 0);
    assert_true(support_value(&record, "sharpness", 0, 0, 0) > 0);
}
