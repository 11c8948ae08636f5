/* Schedules of the learning rate and clipping: formulas at any time, gradient flow as a change of
 * time, Euler's scheme and gradient descent, runs that begin longer ones, clipping that does not
 * clip. Against plain loops: test_optimizer.c; orders of schemes: test_flow.c; limit and networks:
 * test_networks.c; the fixed point: test_fixed_point.c. */
#include "integrators/integrator.h"
#include "tests/support/support.h"

/* Values by hand; a run of 11 measured times dt = 0.5 ends at 5. Round-off of numbers below 1. */
TEST(formulas) {
    static const STRUCT(struct training training; double tau, want) cases[] = {
        {{.schedule.kind = &schedule_constant}, 7.5, 1},
        {{.schedule.kind = &schedule_constant, .schedule.warmup = 4}, 0, 0},
        {{.schedule.kind = &schedule_cosine, .schedule.warmup = 4}, 2.5, 0.625},
        {{.schedule.kind = &schedule_linear, .schedule.warmup = 1}, 1, 1},
        {{.schedule.kind = &schedule_linear, .schedule.warmup = 1}, 4, 0.25},
        {{.schedule.kind = &schedule_linear, .schedule.end = 0.2}, 5, 0.2},
        {{.schedule.kind = &schedule_linear, .schedule.end = 0.2}, 9, 0.2},
        {{.schedule.kind = &schedule_linear, .schedule.steps = 8, .schedule.warmup = 2}, 6, 0.5},
        {{.schedule.kind = &schedule_cosine, .schedule.warmup = 1}, 3, 0.5},
        {{.schedule.kind = &schedule_cosine, .schedule.warmup = 2, .schedule.end = 0.4}, 3, 0.85},
        {{.schedule.kind = &schedule_cosine, .schedule.steps = 3, .schedule.end = 0.4}, 4.75, 0.4},
        LIST({.schedule.kind = &schedule_polynomial, .schedule.steps = 8, .schedule.power = 2}, 6,
             0.0625),
        LIST({.schedule.kind = &schedule_polynomial,
              .schedule.warmup = 2,
              .schedule.steps = 4,
              .schedule.end = 0.4,
              .schedule.power = 0.5},
             5, 0.7),
        {{.schedule.kind = &schedule_power, .schedule.t0 = 2, .schedule.power = 2}, 2, 0.25},
        LIST({.schedule.kind = &schedule_power,
              .schedule.warmup = 4,
              .schedule.t0 = 4,
              .schedule.power = 0.5},
             16, 0.5),
        {{.schedule.kind = &schedule_power, .schedule.t0 = 2}, 5, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training training = cases[i].training;
        training.steps = 11;
        training.flow.dt = 0.5;
        CHECK_ABS(schedule_factor(&training, cases[i].tau), cases[i].want, 1e-15, "case %zu", i);
    }
}

/* An ensemble of a file: networks of width N, or (0) the limit. */
static void solve(struct run *run, struct record *record, const char *file, int N,
                  const char *const *overrides) {
    support_run(run, file, overrides);
    ASK(run_ensemble(run, N, N ? run->config.reference.seeds : run->config.solver.replicates,
                     record, err));
}

/* Every series of two ways of training, limit and networks, over the times of the first. */
static void same_bits(const char *file, const char *const *own, const char *const *other) {
    for (int N = 0; N <= 16; N += 16) {
        TWO_RUNS_AND_RECORDS;
        solve(&run[0], &record[0], file, N, own);
        solve(&run[1], &record[1], file, N, other);
        if (record[0].T == record[1].T)
            support_same(&record[0], &record[1]); /* a clip has a series more */
        else
            support_same_times(&record[0], &record[1], record[0].T, file);
    }
}

#define SMALL "solver.sites=300", "solver.replicates=2", "reference.widths=16", "reference.seeds=2"
#define FALLING "training.schedule=cosine", "training.warmup=2", "training.schedule_end=0.1"

TEST(euler_is_gradient_descent) {
    const char *const gd[] = {SMALL, FALLING, "training.steps=7", NULL};
    const char *const euler[] = {SMALL, FALLING, "training.steps=7", "training.integrator=euler",
                                 NULL};
    same_bits("data/dense.ini", gd, euler);
    same_bits("data/regime1.ini", gd, euler);
}

TEST(runs_begin_longer_ones) {
    static const char *const optimizers[] = {"training.optimizer=gd", "training.optimizer=momentum",
                                             "training.optimizer=adamw"};
    for (int k = 0; k < 3; k++) {
        const char *const shorter[] =
            LIST(SMALL, FALLING, optimizers[k], "training.weight_decay=0.01",
                 "training.schedule_steps=5", "training.clip=0.2", "training.steps=5", NULL);
        const char *const longer[] =
            LIST(SMALL, FALLING, optimizers[k], "training.weight_decay=0.01",
                 "training.schedule_steps=5", "training.clip=0.2", "training.steps=8", NULL);
        same_bits("data/dense.ini", shorter, longer);
    }
}

/* What exceeds no norm changes no bit. */
TEST(large_clip_clips_nothing) {
    static const char *const optimizers[] = {"training.optimizer=gd", "training.optimizer=momentum",
                                             "training.optimizer=adam"};
    for (int k = 0; k < 3; k++) {
        same_bits("data/regime1.ini", ARGS(SMALL, optimizers[k], "training.steps=5"),
                  ARGS(SMALL, optimizers[k], "training.steps=5", "training.clip=1e6"));
    }
}

/* A clipped step of gradient descent is one at the rate eta0 clip/norm. */
TEST(clipped_steps_have_that_norm) {
    for (int N = 0; N <= 16; N += 16) {
        FREED(run_free) struct run run;
        FREED(net_free) struct net net, plain;
        double norm, factor;
        support_run(&run, "data/dense.ini", ARGS(SMALL, "training.clip=0.1"));
        support_net(&net, &run, N, 0);
        support_net(&plain, &run, N, 0);
        support_evaluate(&net, &run);
        support_evaluate(&plain, &run);
        ASK(net_gradient_norm(&net, &norm, err));
        ASK(integrator_clip(&net, &run.config.training, &factor, err));
        assert_true(norm > 0.2);
        CHECK_ABS(factor, 0.1 / norm, 0, "N = %d: factor", N);
        const struct training *training = &run.config.training;
        ASK(integrator_gd.advance(&net, training, run.data.y, err));
        ASK(net_learn(&plain, 0, factor * training->eta0, err));
        support_evaluate(&plain, &run);
        assert_memory_equal(net.output.f, plain.output.f,
                            (size_t)run.data.P * sizeof *net.output.f);
    }
}

/* Gradient flow W' = eta(tau) K(W) is that of a constant rate at the time S = integral of the
 * factor: f at tau = 12 against f at S. Errors of a run are below 5 rtol (test_flow.c), of two 10;
 * the limit is linear, its bases are truncated at 1e-6 and f feels some hundredths of that. */
TEST(flow_is_a_change_of_time) {
    static const STRUCT(struct training training; double S) cases[] = {
        {{.schedule.kind = &schedule_linear}, 6},
        {{.schedule.kind = &schedule_cosine, .schedule.end = 0.2}, 7.2},
        {{.schedule.kind = &schedule_linear, .schedule.warmup = 4}, 6},
        {{.schedule.kind = &schedule_cosine, .schedule.steps = 6, .schedule.end = 0.5}, 7.5},
        {{.schedule.kind = &schedule_power, .schedule.t0 = 4, .schedule.power = 0.5}, 8},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const char *const linear[] = {SMALL, "network.activation=linear", "solver.tolerance=1e-6",
                                      NULL};
        const char *const curved[] = {SMALL, NULL};
        int N = i % 2 ? 16 : 0;
        FREED(run_free) struct run run;
        FREED(two_nets_free) struct net net[2];
        support_run(&run, "data/dense.ini", N ? curved : linear);
        for (int k = 0; k < 2; k++) {
            struct training training = run.config.training;
            training.integrator = &integrator_bs32;
            training.flow.rtol = training.flow.atol = N ? 1e-9 : 1e-6;
            training.steps = 2;
            training.flow.dt = k ? cases[i / 2].S : 12;
            if (!k) {
                training.schedule.kind = cases[i / 2].training.schedule.kind;
                training.schedule.warmup = cases[i / 2].training.schedule.warmup;
                training.schedule.steps = cases[i / 2].training.schedule.steps;
                training.schedule.end = cases[i / 2].training.schedule.end;
                training.schedule.t0 = cases[i / 2].training.schedule.t0;
                training.schedule.power = cases[i / 2].training.schedule.power;
            }
            support_net(&net[k], &run, N, 0);
            support_evaluate(&net[k], &run);
            ASK(integrator_bs32.advance(&net[k], &training, run.data.y, err));
        }
        assert_true(fabs(net[0].output.f[0]) > 0.05);
        for (int mu = 0; mu < run.data.P; mu++)
            CHECK_ABS(net[0].output.f[mu], net[1].output.f[mu], N ? 1e-8 : 1e-5,
                      "case %zu, N = %d: f[%d]", i / 2, N, mu);
    }
}
