/* The network of models/networks/regime3.c with explicit matrices, judged by the oracle
 * (tests/oracles/oracle_stack.c) in the forward pass, the kernels and the parameters over several
 * steps; and the reproducibility of its limit. */
#include "tests/support/couple.h"

#include <omp.h>

static const char *const base[] = {"network.kappa=0.5", "network.iota=0.25", "training.eta0=0.2",
                                   "data.inputs=3",     "data.dimension=5",  NULL};

static void compare(const char *const *more, int N) {
    couple_compare("data/regime3.ini", base, more, N, 4);
}

static const char *const gates[][2] = {
    {"network.gate=sigmoid", "network.aggregation=M"},
    {"network.gate=sigmoid", "network.aggregation=K"},
    {"network.gate=softmax", "network.aggregation=M"},
    {"network.gate=constant", "network.aggregation=M"},
};

TEST(equals_oracle) {
    static const char *const activations[] = {
        "network.activation=tanh", "network.activation=erf",      "network.activation=relu",
        "network.activation=gelu", "network.activation=softplus", "network.activation=linear"};
    static const char *const sizes[][2] = {{"network.kappa=0.5", "network.iota=0.25"},
                                           {"network.kappa=1", "network.iota=1"},
                                           {"network.kappa=2", "network.iota=0.5"}};
    int number = 0;
    for (int gate = 0; gate < 4; gate++)
        for (int size = 0; size < 3; size++)
            for (int mup = 0; mup < 2; mup++)
                for (int top = 0; top < 2; top++, number++) {
                    const char *more[10] = {sizes[size][0], sizes[size][1], gates[gate][0]};
                    int n = 3;
                    more[n++] = activations[number % 6];
                    more[n++] =
                        mup ? "network.parameterization=mup" : "network.parameterization=mssp";
                    more[n++] = number % 5 == 0 ? "training.loss=logistic" : "training.gamma0=1.5";
                    more[n++] = number % 3 ? "reference.centre=no" : "reference.centre=yes";
                    if (gate < 2)
                        more[n++] = gates[gate][1];
                    if (gate < 3)
                        more[n++] = top ? "network.rho=0.5" : "network.beta=0.6";
                    compare(more, 8);
                }
}

TEST(equals_oracle_in_cases) {
    const char *const cases[][5] = {
        {"network.gate=sigmoid", "network.beta=0.8"},
        {"network.gate=softmax", "network.beta=0.7", "network.kappa=1"},
        {"network.gate=constant", "network.iota=1"},
        {"network.gate=sigmoid", "network.rho=0.5", "network.aggregation=K"},
        {"network.gate=softmax", "network.rho=0.25", "network.kappa=2"},
        {"network.activation=gelu", "training.loss=logistic", "network.parameterization=mup"},
        {"network.activation=softplus", "network.parameterization=mup", "network.gate=softmax"},
        {"network.rho=0.5", "network.parameterization=mup", "reference.centre=yes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare(cases[i], 8);
}

/* More inputs than dimensions; a single input, expert and unit. */
TEST(equals_oracle_odd_shapes) {
    const char *const wide[] = {"network.kappa=1.5", "network.iota=0.75",   "data.inputs=7",
                                "data.dimension=3",  "training.gamma0=0.3", NULL};
    const char *const single[] = {"network.kappa=0.25", "network.iota=0.25", "data.inputs=1",
                                  "data.dimension=1",   "training.eta0=0.4", NULL};
    compare(wide, 12);
    compare(single, 4);
}

/* Records of the limit (two replicates) and of networks of width 16 of a small run. */
struct outcome {
    struct run run;
    struct record records[2];
};

static void solve(struct outcome *o, const char *const *kind, const char *const *more) {
    const char *overrides[24] = {
        "network.kappa=0.5",     "network.iota=0.25",  "data.inputs=3",    "data.dimension=5",
        "training.steps=6",      "training.eta0=0.5",  "solver.sites=300", "solver.expert_sites=20",
        "solver.unit_sites=270", "solver.replicates=2"};
    int n = 10;
    while (*kind)
        overrides[n++] = *kind++;
    while (*more)
        overrides[n++] = *more++;
    support_run(&o->run, "data/regime3.ini", overrides);
    ASK(run_ensemble(&o->run, 0, o->run.config.solver.replicates, &o->records[0], err));
    ASK(run_ensemble(&o->run, 16, 1, &o->records[1], err));
}

static void outcome_free(struct outcome *o) {
    record_free(&o->records[0]);
    record_free(&o->records[1]);
    run_free(&o->run);
}

/* One against many threads (one replicate shares out blocks, two go whole), shadow memory, a longer
 * run; MSSP and muP. Units and pairs fill more than one block of sites. */
TEST(bits_depend_on_nothing) {
    static const char *const kinds[][4] = {
        {"network.parameterization=mssp", "network.gate=sigmoid", NULL},
        {"network.parameterization=mup", "network.gate=softmax", "network.rho=0.5", NULL}};
    static const char *const other[][3] =
        LIST({"solver.threads=3", NULL}, {"solver.threads=2", "solver.replicates=1", NULL},
             {"solver.backend=shadow", NULL}, {"training.steps=9", NULL});
    for (int k = 0; k < 2; k++) {
        FREED(outcome_free) struct outcome a = {0};
        solve(&a, kinds[k], ARGS("solver.threads=1"));
        for (int i = 0; i < 4; i++) {
            FREED(outcome_free) struct outcome b = {0};
            solve(&b, kinds[k], other[i]);
            for (int of = 0; of < 2; of++)
                support_same_times(&a.records[of], &b.records[of], 6, other[i][0]);
        }
    }
    omp_set_num_threads(omp_get_num_procs());
}

/* Activation linear, gate constant: every moment is matched exactly, so two seeds differ by the
 * truncation of the bases alone (as in tests/test_limit.c: 1e-5 at tolerance 1e-6). */
TEST(linear_limits_have_no_sampling_error) {
    static const char *const kinds[][2] = {{"network.parameterization=mssp", NULL},
                                           {"network.parameterization=mup", NULL}};
    for (int k = 0; k < 2; k++) {
        FREED(outcome_free) struct outcome o = {0};
        solve(&o, kinds[k],
              ARGS("network.activation=linear", "network.gate=constant", "solver.tolerance=1e-6",
                   "training.steps=10", "training.eta0=0.2"));
        const struct record *record = &o.records[0];
        assert_true(record->series[0].values[9] < 0.45); /* it learns */
        for (int s = 0; s < record->count; s++) {
            const struct series *series = &record->series[s];
            if (series->computation)
                continue;
            for (size_t i = 0; i < series->size; i++) {
                double x = series->values[i], y = series->values[series->size + i];
                CHECK_ABS(x, y, 1e-5 * fmax(1, fabs(x)), "%s: %s[%zu]", kinds[k][0], series->name,
                          i);
            }
        }
    }
}

/* Nothing is sent below in muP at the start: a_i = 0 and <e_a g_ij> = 0, sums of 20 x 512 terms of
 * order one that cancel, to 1e-12, squared. What comes later does not depend on the units: G1(1)
 * with 64 and 512 of them, |z| < 4 (z = 6 where normals are not mirrored). */
TEST(mup_starts_without_gradients_below) {
    static const char *const gate[] = {"network.gate=sigmoid", "network.gate=softmax"};
    static const char *const units[] = {"solver.unit_sites=64", "solver.unit_sites=512"};
    double G[2], se[2];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 2; i++) {
            FREED(outcome_free) struct outcome o = {0};
            solve(&o,
                  ARGS("network.parameterization=mup", "network.activation=relu", "network.kappa=4",
                       "network.iota=0.5", "training.steps=2", "solver.replicates=16"),
                  ARGS(gate[k], units[i]));
            support_entry(&o.records[0], "G1_diag", 0, &G[i], &se[i]);
            CHECK_ABS(G[i], 0, 1e-24, "%s, %s: G1(0)", gate[k], units[i]);
            size_t P = (size_t)o.run.data.P;
            support_entry(&o.records[0], "G1_diag", P, &G[i], &se[i]);
        }
        CHECK_ABS(G[0], G[1], 4 * hypot(se[0], se[1]), "%s: G1(1) of 64 and 512 units", gate[k]);
    }
}
