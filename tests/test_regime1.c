/* The networks of models/networks/regime1.c with explicit matrices (regime1 and dense), judged by
 * an oracle over several training steps; and what
 * the theory says of them exactly. */
#include "tests/support/couple.h"

static const char regime1[] = "[network]\nmodel=regime1\n";

TEST(equals_oracle) {
    static const char *const gates[] = {"network.gate=sigmoid", "network.gate=softmax",
                                        "network.gate=constant"};
    static const char *const sizes[][2] = {{"network.experts=1", "network.expert_layers=3"},
                                           {"network.experts=3", "network.expert_layers=1"},
                                           {"network.experts=4", "network.expert_layers=2"}};
    static const char *const activations[] = {"network.activation=tanh", "network.activation=relu",
                                              "network.activation=linear"};
    for (int gate = 0; gate < 3; gate++)
        for (int size = 0; size < 3; size++)
            for (int variant = 0; variant < 6; variant++) {
                const char *overrides[16] = {gates[gate], sizes[size][0], sizes[size][1],
                                             activations[variant % 3]};
                int n = 4;
                overrides[n++] =
                    variant & 1 ? "network.expert_output=activated" : "training.gamma0=1.5";
                overrides[n++] = variant & 2 ? "training.loss=logistic" : "reference.centre=no";
                if (size == 2 && gate < 2) {
                    overrides[n++] = "network.rho=0.5";
                    overrides[n++] = variant & 4 ? "network.bias=trained" : "network.bias=fixed";
                    overrides[n++] = "network.biases=1 0.2 -0.3 -0.9";
                    overrides[n++] = "network.q0=0.8";
                }
                couple_compare(regime1,
                               ARGS("data.inputs=4", "data.dimension=5", "training.eta0=0.2",
                                    "reference.widths=14"),
                               overrides, 14, 4);
            }
}

TEST(equals_oracle_in_cases) {
    static const char *const cases[][9] = {
        {"network.model=dense", "network.depth=3"},
        {"network.model=dense", "network.depth=4"},
        {"network.model=dense", "network.depth=2", "network.activation=gelu",
         "training.loss=logistic"},
        {"network.experts=3", "network.gate=sigmoid", "network.router_rate=2", "network.q0=1"},
        {"network.experts=2", "network.gate=softmax", "network.expert_layers=3",
         "network.bias=trained", "network.biases=0.6 -0.6"},
        {"network.experts=4", "network.gate=softmax", "network.rho=0.5", "network.bias=trained",
         "network.biases=1.2 0.4 -0.4 -1.2"},
        {"network.experts=40", "network.gate=softmax", "network.rho=0.25", "network.bias=trained",
         "network.bias_std=1", "network.parameterization=mup"},
        {"network.experts=3", "network.gate=sigmoid", "network.expert_output=activated",
         "network.bias=fixed", "network.biases=0.4 0 -0.5", "network.beta=0.7"},
        {"network.parameterization=sp", "training.gamma0=1.3", "network.gate=softmax",
         "network.bias=trained", "solver.replicates=0", "reference.widths=12"},
        {"network.gate=softmax", "network.experts=4", "network.rho=0.5", "network.bias_noise=0.7",
         "network.q0=0"},
        {"network.experts=2", "network.gate=constant", "network.expert_layers=2",
         "reference.widths=12", "reference.centre=no"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        couple_compare(regime1, ARGS("data.inputs=3", "data.dimension=5", "training.eta0=0.2"),
                       cases[i], 12, 4);
}

/* regime1 with one expert, constant gate, activated output and depth - 1 matrices is dense. */
TEST(one_expert_is_dense) {
    static const char *const texts[] = {
        "[network]\nmodel=regime1\ngate=constant\nexperts=1\nexpert_layers=2\n"
        "expert_output=activated\n[training]\nsteps=8\n[solver]\nsites=400\n",
        "[network]\nmodel=dense\ndepth=3\n[training]\nsteps=8\n[solver]\nsites=400\n"};
    TWO_RUNS_AND_RECORDS;
    const struct series *f[2];
    for (int i = 0; i < 2; i++) {
        support_run(&run[i], texts[i], NULL);
        ASK(run_ensemble(&run[i], 0, 2, &record[i], err));
        f[i] = record_find(&record[i], "f");
    }
    assert_int_equal(f[0]->size, f[1]->size);
    assert_memory_equal(f[0]->values, f[1]->values, 2 * f[0]->size * sizeof(double));
}

/* Softmax without bias: gphi is the same for all experts, so gpsi = 0 and the router never moves.
 * In a linear network that holds without sampling error, to the truncation of the bases. */
TEST(softmax_without_bias_stays_uniform) {
    RUN_AND_NET;
    support_run(&run,
                "[network]\nmodel=regime1\nactivation=linear\ngate=softmax\nexperts=3\nq0=1\n"
                "[training]\neta0=0.4\n[solver]\nsites=400\ntolerance=1e-6\n",
                NULL);
    support_net(&net, &run, 0, 0);
    for (int t = 0; t < 12; t++) {
        support_evaluate(&net, &run);
        const double *psi = support_measured(&net, "psi");
        for (int k = 0; k < run.data.P * 3; k++)
            CHECK_ABS(psi[k], 0, 1e-6, "psi[%d] at %d", k, t);
        support_learn(&net, &run);
    }
    assert_true(fabs(net.output.f[0]) > 0.1);
}

/* Swaps the experts of a finite net: matrices, router rows, biases. */
static void swap_experts(struct net *net, int M, int E) {
    struct rows Q = array_all(&support_thin(net, "Q")->W);
    double *values = support_get(Q), *b = support_numbers(net, "b");
    size_t N = Q.array->sites;
    for (size_t n = 0; n < N; n++) {
        double saved = values[n];
        values[n] = values[(size_t)(M - 1) * N + n];
        values[(size_t)(M - 1) * N + n] = saved;
    }
    Q.array->backend->put(Q, values);
    free(values);
    for (int l = 0; l < E; l++) {
        struct array *first = support_entries(support_map(net, "W%d_0", l + 2)),
                     *last = support_entries(support_map(net, "W%d_%d", l + 2, M - 1));
        struct array saved = *first;
        *first = *last;
        *last = saved;
    }
    double saved = b[0];
    b[0] = b[M - 1];
    b[M - 1] = saved;
}

/* An expert whose bias is no number has a logit that is none: the loss is no number either, whoever
 * the other experts are, so that the run ends. All three selected, or two of them. */
TEST(no_number_is_hidden) {
    static const char *const rho[] = {"network.rho=1", "network.rho=0.6666666666666666"};
    for (int k = 0; k < 2; k++) {
        RUN_AND_NET;
        support_run(&run,
                    "[network]\nmodel=regime1\ngate=softmax\nexperts=3\nbias=trained\n"
                    "biases=0.7 0.1 -0.5\nq0=1\n[reference]\nwidths=32\n",
                    (const char *const[]){rho[k], NULL});
        support_net(&net, &run, 32, 0);
        support_numbers(&net, "b")[1] = NAN;
        int code = net_evaluate(&net, run.config.training.loss, run.data.y, &failure);
        assert_true(code || !isfinite(net.output.loss));
    }
}

/* Selection biases that have moved by more than 745/beta select an expert whose exponential is 0
 * beside the largest logit. Among the one that is selected a softmax is 1 all the same, and over
 * all experts it is 0. */
TEST(selected_far_below_the_largest) {
    static const char *const over[] = {"network.softmax_over=selected", "network.softmax_over=all"};
    for (int k = 0; k < 2; k++) {
        RUN_AND_NET;
        support_run(&run,
                    "[network]\nmodel=regime1\ngate=softmax\nexperts=4\nrho=0.25\nbeta=1e4\nq0=0\n"
                    "bias=fixed\nbiases=0.3 0.1 -0.1 -0.3\neta_bias=0.5\nrouter_rate=0\n"
                    "[reference]\nwidths=32\n",
                    (const char *const[]){over[k], NULL});
        support_net(&net, &run, 32, 0);
        for (int t = 0; t < 3; t++) {
            support_evaluate(&net, &run);
            const double *p = support_measured(&net, "p");
            double gate = t == 0 || k == 0 ? 1 : 0;
            for (int mu = 0; mu < run.data.P; mu++)
                for (int i = 0; i < 4; i++) /* the biases hand the inputs on: 0, 1, then 2 */
                    CHECK_ABS(p[4 * mu + i], i == t ? gate : 0, 0, "p[%d] at %d", i, t);
            support_learn(&net, &run);
        }
    }
}

/* Exchanging experts leaves the outputs alone, over training; sums of M terms change order: 1e-13.
 */
TEST(experts_may_be_permuted) {
    FREED(run_free) struct run run;
    FREED(net_free) struct net a, b;
    support_run(&run,
                "[network]\nmodel=regime1\ngate=softmax\nexperts=3\nexpert_layers=2\nbias=trained\n"
                "biases=0.7 0.1 -0.5\nq0=1\nrho=1\n[reference]\nwidths=32\n",
                NULL);
    support_net(&a, &run, 32, 0);
    support_net(&b, &run, 32, 0);
    swap_experts(&b, 3, 2);
    for (int t = 0; t < 6; t++) {
        support_evaluate(&a, &run);
        support_evaluate(&b, &run);
        for (int mu = 0; mu < run.data.P; mu++)
            CHECK_ABS(b.output.f[mu], a.output.f[mu], 1e-13, "f[%d] at %d", mu, t);
        support_learn(&a, &run);
        support_learn(&b, &run);
    }
}

/* A router that never moves from p = 1 (softmax over one expert) is a constant gate. */
TEST(idle_router_is_a_constant_gate) {
    static const char *const gates[] = {"softmax\nq0=1", "constant"};
    FREED(two_runs_free) struct run run[2];
    FREED(two_nets_free) struct net net[2];
    for (int i = 0; i < 2; i++) {
        TEXT(text, 256, "[network]\nmodel=regime1\nexperts=1\ngate=%s\n[reference]\nwidths=32\n",
             gates[i]);
        support_run(&run[i], text, NULL);
        support_net(&net[i], &run[i], 32, 0);
    }
    for (int t = 0; t < 6; t++)
        for (int i = 0; i < 2; i++) {
            support_evaluate(&net[i], &run[i]);
            for (int mu = 0; mu < run[0].data.P && i; mu++)
                CHECK_ABS(net[1].output.f[mu], net[0].output.f[mu], 1e-13, "f[%d] at %d", mu, t);
            support_learn(&net[i], &run[i]);
        }
}

/* The largest move of a logit in the first step, mean over networks of width N. */
static double first_move(const char *parameterization, int N) {
    char text[512];
    FREED(run_free) struct run run;
    double sum = 0;
    snprintf(text, sizeof text,
             "[network]\nmodel=regime1\nparameterization=%s\ngate=softmax\nexperts=4\nbias=fixed\n"
             "[training]\neta0=0.1\n[solver]\nreplicates=0\n[reference]\nwidths=%d\n",
             parameterization, N);
    support_run(&run, text, NULL);
    for (int seed = 0; seed < 24; seed++) {
        FREED(net_free) struct net net;
        double before[64], most = 0;
        support_begin(&net, &run, N, seed);
        memcpy(before, support_measured(&net, "psi"), (size_t)run.data.P * 4 * sizeof *before);
        support_step(&net, &run);
        for (int k = 0; k < run.data.P * 4; k++)
            most = fmax(most, fabs(support_measured(&net, "psi")[k] - before[k]));
        sum += most / 24;
    }
    return sum;
}

/* With one rate for all matrices the logits of the standard parameterization move by eta0 N in the
 * first step: dpsi = eta0 <gpsi> |x1|^2, |x1|^2 ~ N. Exponent 1 between N = 64 and 512, up to the
 * fluctuation of 24 networks (10 % each, log_8 of it 0.07 on the exponent; 4 of it). muP's move
 * falls: it is driven by gphi(0), which is of order N^{-1/2}. */
TEST(logits_of_sp_diverge) {
    double sp = log(first_move("sp", 512) / first_move("sp", 64)) / log(8);
    double mup = log(first_move("mup", 512) / first_move("mup", 64)) / log(8);
    CHECK_ABS(sp, 1, 0.28, "exponent of sp");
    CHECK_ABS(mup, -0.5, 0.28, "exponent of mup");
}

/* Top-K without bias: the limit is random, replicates and networks agree in distribution. Mean and
 * standard deviation of the loss over runs: the networks' means extrapolated in 1/N within 4
 * standard errors, the standard deviations at N = 256 within 4 of theirs (sd/sqrt(2 n) each). */
TEST(top_k_without_bias_agrees_in_distribution) {
    enum { RUNS = 160, T = 10 };
    const int widths[] = {64, 128, 256};
    FREED(run_free) struct run run;
    struct record record[4];
    double *mean[4], *se[4];
    support_run(&run,
                "[network]\nmodel=regime1\nparameterization=mup\ngate=softmax\nexperts=4\nrho=0.5\n"
                "[training]\nsteps=10\neta0=0.3\ngamma0=1.5\n[solver]\nsites=512\n"
                "[reference]\nwidths=64 128 256\n[output]\nkernels=none\n",
                NULL);
    for (int i = 0; i < 4; i++) {
        ASK(run_ensemble(&run, i ? widths[i - 1] : 0, RUNS, &record[i], err));
        ASK(base_alloc(&mean[i], 2 * T, sizeof *mean[i], err));
        se[i] = mean[i] + T;
        record_statistics(&record[i], record_find(&record[i], "loss"), mean[i], se[i]);
    }
    for (int t = 2; t < T; t++) {
        struct stats_mean of[3];
        for (int i = 0; i < 3; i++)
            of[i] = (struct stats_mean){mean[i + 1][t], se[i + 1][t], RUNS};
        struct stats_fit line = stats_extrapolate(widths, of, 3);
        CHECK_ABS(line.a, mean[0][t], 4 * hypot(line.se, se[0][t]), "mean loss at %d", t);
        CHECK_ABS(se[3][t], se[0][t], 4 * hypot(se[3][t], se[0][t]) / sqrt(2 * RUNS),
                  "standard deviation of the loss at %d", t);
    }
    for (int i = 0; i < 4; i++) {
        free(mean[i]);
        record_free(&record[i]);
    }
}
