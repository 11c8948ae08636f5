/* Gradient flow: the control of bs32, and that tried steps and rewinding leave nothing behind. */
#include "tests/support/flow.h"

/* Away along two stages, another evaluation there, and back: what is left are round-off of some
 * moves of order one, and in the limit directions that were met on the way, below tolerance. */
TEST(places_are_left_without_a_trace) {
    static const STRUCT(const char *file; int N; double tolerance)
        cases[] = {{"data/dense.ini", 24, 1e-13},
                   {"data/regime1.ini", 24, 1e-13},
                   {"data/regime3.ini", 24, 1e-13}, /* histories, which become matrices */
                   {"data/dense.ini", 0, 1e-4}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        RUN_AND_NET;
        start(&net, &run, cases[i].file, NULL, cases[i].N);
        advance(&net, &run);
        double f[run.data.P], loss = net.output.loss, away[] = {1.5, 0.7, 0}, far = 0;
        memcpy(f, net.output.f, sizeof f);
        for (int round = 0; round < 4; round++) {
            ASK(net_keep(&net, 0, false, err));
            ASK(net_place(&net, 1, away, err));
            support_evaluate(&net, &run);
            far = fmax(far, fabs(net.output.loss - loss));
            ASK(net_keep(&net, 1, false, err));
            ASK(net_place(&net, 2, away, err));
            ASK(net_place(&net, 0, NULL, err));
            support_evaluate(&net, &run);
        }
        assert_true(far > 0.05);
        for (int mu = 0; mu < run.data.P; mu++)
            CHECK_ABS(net.output.f[mu], f[mu], cases[i].tolerance, "%s, N = %d: f[%d]",
                      cases[i].file, cases[i].N, mu);
    }
}

/* f of one network at tau = 12 with bs32, from a first step to try. */
static void control(double rtol, double step, double *f) {
    RUN_AND_NET;
    start(&net, &run, "data/dense.ini", NULL, 24);
    struct training *training = &run.config.training;
    training->integrator = &integrator_bs32;
    training->flow.rtol = training->flow.atol = rtol;
    training->flow.dt = 12;
    net.place.step = step;
    advance(&net, &run);
    memcpy(f, net.output.f, (size_t)run.data.P * sizeof *f);
}

static double largest(const double *f, const double *g) {
    double most = 0;
    for (int mu = 0; mu < 4; mu++)
        most = fmax(most, fabs(f[mu] - g[mu]));
    return most;
}

/* Order 2 is held at h^3 ~ rtol, so the error of order 3, O(h^3), falls with rtol; steps fit the
 * interval only roughly: between a half and twice of that. Some ten steps add up, at a rate of
 * learning that makes earlier errors shrink: error < 5 rtol. A first step of 12 is refused several
 * times, which changes nothing of this. */
TEST(tolerances_control_the_error) {
    double exact[4], f[4], before = 0;
    control(1e-9, 0, exact);
    for (int first = 0; first <= 12; first += 12)
        for (int k = 3; k <= 6; k++) {
            double rtol = pow(10, -k), error;
            control(rtol, first, f);
            error = largest(f, exact);
            assert_true(error < 5 * rtol);
            if (k > 3)
                assert_true(before / error > 5 && before / error < 20);
            before = error;
        }
}

/* Exponentials of large steps are infinite: such a step is refused as one whose error is too large,
 * and f comes to the targets within some times rtol, in networks and in the limit. */
TEST(a_step_that_overflows_is_tried_again) {
    for (int N = 0; N <= 32; N += 32) {
        RUN_AND_NET;
        start(&net, &run, "examples/dense.ini",
              ARGS("network.program=t.lua",
                   "network.program_text=key('depth', 1)\\nlocal a, b = population('a'), "
                   "population('b')\\n"
                   "read_out(exp(map(exp(read_in(a, 'V'), 0.5), b, 'W'), 0.7), 'w')",
                   "training.integrator=bs32", "training.gamma0=10", "training.eta0=0.5",
                   "solver.sites=512", "solver.replicates=1", "reference.widths=32"),
              N);
        for (int t = 0; t < 2; t++)
            advance(&net, &run);
        for (int mu = 0; mu < run.data.P; mu++)
            CHECK_ABS(net.output.f[mu], run.data.y[mu], 5 * run.config.training.flow.rtol,
                      "N = %d: f[%d]", N, mu);
    }
}

/* Where a mask flips, f jumps, and no step is small enough for a tight tolerance. */
TEST(a_step_that_vanishes_is_an_error) {
    struct run run;
    struct net net;
    struct err err = {0};
    int code = CODE_OK;
    start(&net, &run, "data/residual.ini",
          ARGS("training.integrator=bs32", "training.rtol=1e-10", "training.atol=1e-12",
               "network.experts=16", "network.eta_bias=0", "solver.replicates=0",
               "reference.widths=16", "solver.seed=6"),
          16);
    for (int t = 1; t < 10 && !code; t++)
        code = integrator_bs32.advance(&net, &run.config.training, run.data.y, &err);
    assert_int_equal(code, CODE_NUMERICAL);
    assert_non_null(strstr(err.text, "the step of bs32 fell to"));
    assert_non_null(strstr(err.text, "integrator = heun"));
    net_free(&net);
    run_free(&run);
    /* An error far beyond what is allowed: from 0.1/eta0 on each step is a fifth of the one before,
     * down to 0.1/5^12 = 4.1e-10, unless the round-off of the last ones, of which the error is made
     * then, happens to be zero, and the next one is four times larger. The first one below the
     * least is told, with two digits. */
    static const double rates[] = {0.9872, 0.9868}; /* 4.149 and 4.151, told as 4.1 and 4.2 */
    for (int k = 0; k < 2; k++) {
        start(&net, &run, "data/dense.ini",
              ARGS("training.integrator=bs32", "solver.replicates=0", "reference.widths=16"), 16);
        struct training *training = &run.config.training;
        training->eta0 = rates[k];
        training->flow.rtol = training->flow.atol = 1e-30;
        code = integrator_bs32.advance(&net, training, run.data.y, &err);
        assert_int_equal(code, CODE_NUMERICAL);
        const char *fell = strstr(err.text, "fell to ");
        double step = fell ? strtod(fell + 8, NULL) : 0, least = FLOW_LEAST * training->flow.dt;
        assert_true(step < least && step > 0.19 * least);
        bool told = false;
        for (int larger = 0; larger < 3; larger++) {
            TEXT(text, 16, "%.2g", 0.1 / rates[k] * pow(4, larger) * pow(5, -12 - larger));
            told = told || strtod(text, NULL) == step;
        }
        FAIL_IF(!told, "eta0 = %g: a step of %g", rates[k], step);
        net_free(&net);
        run_free(&run);
    }
}

/* A pass that ends between two places leaves none behind: after net_rewind a step is that of a new
 * net, to the bit. */
TEST(rewound_parameters_are_at_the_start) {
    static const double euler[] = {0.3}, half[] = {0.15};
    double f[2][64];
    FREED(run_free) struct run run;
    struct net net;
    support_run(&run, "data/dense.ini", ARGS("network.depth=1", "reference.widths=16"));
    for (int again = 0; again < 2; again++) {
        support_net(&net, &run, 16, 0);
        if (again) {
            ASK(net_remember(&net, err));
            support_evaluate(&net, &run);
            ASK(net_keep(&net, 0, false, err));
            ASK(net_place(&net, 1, euler, err));
            net_rewind(&net);
        }
        support_evaluate(&net, &run);
        ASK(net_keep(&net, 0, false, err));
        ASK(net_place(&net, 1, half, err));
        ASK(net_forward(&net, f[again], err));
        net_free(&net);
    }
    assert_true(run.data.P <= 64);
    assert_memory_equal(f[0], f[1], (size_t)run.data.P * sizeof **f);
}
