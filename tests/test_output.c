/* Operations on what is read out: closed forms of limits, the output as it is behind an operation
 * that changes nothing, refusals. test_script has finite differences of examples/capped.lua,
 * test_models goes on from its states, and test_networks has its limit beside networks. */
#include "tests/support/script.h"

#define READ "key('depth')\nlocal a = population('a')\n"

static void script(struct run *run, const char *text, const char *const *overrides) {
    struct err why;
    FAIL_IF(support_script(run, text, overrides, &why), "%s", why.text);
}

/* f = 2 tanh((<w b>/gamma0 + c)/2) with a vector b, the read-out w and a bias c. With u = Delta
 * df/d(<w b>/gamma0) and S = (eta0 gamma0/P) sum u a step is b += S w, w += S b, and c += gamma0
 * times rate S, so that c, <w w>, <b b> and <w b> are all that there is. What is read out counts
 * from its start, and c does not. */
TEST(closed_form) {
    enum { STEPS = 8, INPUTS = 3 };
    const double gamma0 = 1.25, eta0 = 0.5, rate = 1.5;
    RUN_AND_NET;
    double ww = 1, bb = 1, wb = 0, c = 0.5, moved = 0;
    script(&run,
           READ "local f = bias(read_out(vector(a, 'b'), 'w'), {0.5}, {name = 'c', rate = 1.5})\n"
                "output(2 * tanh(0.5 * f))\n",
           ARGS("training.eta0=0.5", "training.gamma0=1.25", "data.inputs=3", "solver.sites=64"));
    support_net(&net, &run, 0, 0);
    for (int t = 0; t < STEPS; t++) {
        double f = 2 * tanh(0.5 * (wb / gamma0 + c)), S = 0;
        support_evaluate(&net, &run);
        for (int mu = 0; mu < INPUTS; mu++) {
            CHECK_ABS(net.output.f[mu], f, 1e-12, "t = %d", t);
            S += eta0 * gamma0 / INPUTS * (run.data.y[mu] - f) * (1 - f * f / 4);
        }
        double next = wb + S * (bb + ww) + S * S * wb, squares = bb + 2 * S * wb + S * S * ww;
        ww += 2 * S * wb + S * S * bb;
        bb = squares;
        wb = next;
        c += rate * gamma0 * S;
        moved = fmax(moved, fmin(fabs(wb), fabs(c - 0.5)));
        support_learn(&net, &run);
    }
    assert_true(moved > 0.05);
}

/* Training, and outputs of test inputs and of batches, behind an operation that changes nothing:
 * equal to round-off, though cotangents now have the error inside. */
TEST(nothing_behind) {
    static const char *const text = READ "local f = read_out(map(tanh(read_in(a, 'W1')), a, 'W2'), "
                                         "'w')\n%s\n",
                             *const ends[] = {"", "output(f + 0)"},
                             *const names[] = {"loss", "test_loss", "f"};
    for (int way = 0; way < 3; way++) {
        FREED(two_records_free) struct record record[2];
        for (int k = 0; k < 2; k++) {
            FREED(run_free) struct run run;
            char whole[512];
            const char *const more[] =
                LIST("data.inputs=4", "data.test_inputs=3", "training.steps=5", "training.eta0=0.4",
                     "training.gamma0=1.5", "solver.sites=256", "solver.replicates=1",
                     "solver.tolerance=1e-8", way == 2 ? "reference.centre=no" : NULL, NULL);
            snprintf(whole, sizeof whole, text, ends[k]);
            script(&run, whole, more);
            ASK(run_ensemble(&run, way ? 16 : 0, 1, &record[k], err));
        }
        for (size_t i = 0; i < COUNT(names); i++) {
            const struct series *series = record_find(&record[0], names[i]);
            FAIL_IF(!series, "no %s", names[i]);
            size_t each = series->size / (size_t)record[0].T;
            for (int t = 0; t < 5; t++)
                for (size_t k = 0; k < each; k++)
                    CHECK_ABS(support_value(&record[1], names[i], 0, t, k),
                              support_value(&record[0], names[i], 0, t, k), way ? 1e-13 : 1e-8,
                              "%s, t = %d", names[i], t);
        }
    }
}
