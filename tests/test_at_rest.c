/* A limit at rest: told from others, and the times at which networks leave it. */
#include "solver/run/findings.h"
#include "solver/study/compare.h"
#include "tests/support/support.h"

/* data/regime2.ini, small, with its limit and three widths. */
static void march(struct run *run, const char *parameterization, const char *read_out,
                  const char *optimizer) {
    const char *const overrides[] =
        LIST(parameterization, read_out, optimizer, "training.steps=6", "solver.sites=64",
             "solver.expert_sites=64", "solver.replicates=2", "reference.widths=16 24 32",
             "reference.seeds=3", NULL);
    support_run(run, "data/regime2.ini", overrides);
    ASK(run_ensemble(run, 0, 2, &run->results.limit, err));
    for (int i = 0; i < 3; i++)
        ASK(run_ensemble(run, run->config.reference.widths.value[i], 3, &run->results.reference[i],
                         err));
}

TEST(rests_with_a_zero_read_out_in_mup) {
    static const STRUCT(const char *parameterization, *read_out, *optimizer; bool rests) table[] = {
        /* weights decay, and kernels with them */
        {"network.parameterization=mup", "network.read_out=zero", "training.weight_decay=0.01",
         true},
        {"network.parameterization=mup", "network.read_out=zero", "training.optimizer=gd", true},
        {"network.parameterization=mup", "network.read_out=normal", "training.optimizer=gd", false},
        {"network.parameterization=mssp", "network.read_out=zero", "training.optimizer=gd", false},
        {"network.parameterization=mup", "network.read_out=zero", "training.optimizer=muon", true},
        {"network.parameterization=mssp", "network.read_out=zero", "training.optimizer=muon",
         false},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        FREED(run_free) struct run run;
        struct comparison side = {0};
        march(&run, table[i].parameterization, table[i].read_out, table[i].optimizer);
        assert_int_equal(at_rest_of_limit(&run), table[i].rests);
        ASK(compare_fit(&run, &side, err));
        const struct series *z = record_find(&side.record, "loss_z");
        assert_int_equal(isnan(z->values[run.config.training.steps - 1]) != 0, table[i].rests);
        record_free(&side.record);
    }
}

/* One time tells nothing. */
TEST(a_start_alone_does_not_rest) {
    FREED(run_free) struct run run;
    support_run(&run, "data/regime2.ini",
                ARGS("network.parameterization=mup", "network.read_out=zero", "training.steps=1",
                     "solver.sites=64", "solver.expert_sites=64"));
    ASK(run_ensemble(&run, 0, 2, &run.results.limit, err));
    assert_false(at_rest_of_limit(&run));
}

/* lambda of docs/theory/parameterizations.md, (6), in the network of studies/fig1_regime2.ini:
 * Phib(0) of the limit against the product of its two Gaussian averages, by Gauss-Hermite
 * quadrature of 60 x 60 nodes (kernels X X^T/D, then <gelu gelu>, then <sig sig><gelu gelu>):
 * 0.090282. */
TEST(rate_of_escape) {
    enum { P = 4, RUNS = 8 };
    RUN_AND_RECORD;
    double lambda[RUNS], sum = 0, squares = 0;
    support_run(&run, "data/regime2.ini",
                ARGS("network.parameterization=mup", "network.read_out=zero",
                     "network.activation=gelu", "training.steps=1", "output.kernels=equal",
                     "solver.sites=1024", "solver.expert_sites=1024"));
    ASK(run_ensemble(&run, 0, RUNS, &record, err));
    for (int r = 0; r < RUNS; r++) {
        const double *Phib = record_at(&record, record_find(&record, "Phib_equal"), r, 0);
        double square = 0;
        for (int k = 0; k < P * P; k++)
            square += run.data.y[k / P] * Phib[k] * run.data.y[k % P];
        lambda[r] = sqrt(square) / P; /* eta0 = gamma0 = 1 */
        sum += lambda[r];
    }
    for (int r = 0; r < RUNS; r++)
        squares += pow(lambda[r] - sum / RUNS, 2);
    double se = sqrt(squares / (RUNS * (RUNS - 1)));
    assert_true(se < 0.001);
    CHECK_ABS(sum / RUNS, 0.090282, 4 * se, "lambda");
}

/* Runs with loss 1 that falls by 1/4 a step from step `start` of each on: the mean of both is half
 * of its start in the middle of where each is. */
static void fill(struct record *networks, int T, double first, double second) {
    struct series series = {.name = "loss", .dims = "t", .about = "", .equation = "", .axes = 1};
    series.shape[0] = (size_t)T;
    ASK(record_init(networks, 2, T, err));
    ASK(record_add(networks, series, err));
    struct series *loss = record_find(networks, "loss");
    for (int r = 0; r < 2; r++) {
        networks->steps[r] = T;
        for (int t = 0; t < T; t++)
            *record_at(networks, loss, r, t) = 1 - fmax(0, t - (r ? second : first)) / 4;
    }
}

/* 5.5 and 6.5 alone, 6 together: jackknife error sqrt((1/2) 2 (1/2)^2). */
TEST(time_of_a_known_loss) {
    FREED(record_free) struct record networks = {0};
    double time, se;
    fill(&networks, 12, 3.5, 4.5);
    at_rest_escape(&networks, &time, &se);
    CHECK_ABS(time, 6, 1e-14, "the mean falls by 1/4 a step while both do");
    CHECK_ABS(se, 0.5, 1e-14, "its error");
    record_free(&networks);
    fill(&networks, 7, 3.5, 4.5); /* 6 together; the second alone, 6.5, not before the end */
    at_rest_escape(&networks, &time, &se);
    CHECK_ABS(time, 6, 1e-14, "the last time");
    assert_true(isnan(se));
    record_free(&networks);
    fill(&networks, 5, 3.5, 4.5);
    at_rest_escape(&networks, &time, &se);
    assert_true(isnan(time));
}
