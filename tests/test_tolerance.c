/* The error of [solver] tolerance: measured, and part of all errors of the limit. */
#include "tests/support/support.h"

/* data/dense.ini without networks, and its limit, of independent normals: with points a finer
 * basis, which takes its rows at other times, meets other coordinates, and that is sampling. */
static void march(struct run *run, const char *const *more) {
    const char *overrides[12] = {"reference.widths=", "solver.replicates=2", "solver.sites=256",
                                 "solver.draws=normal"};
    for (int k = 0; more[k]; k++)
        overrides[4 + k] = more[k];
    support_run(run, "data/dense.ini", overrides);
    ASK(run_march(run, err));
}

static double entry(const struct record *record, const char *name, size_t k) {
    double mean, se;
    support_entry(record, name, k, &mean, &se);
    return mean;
}

static double error_of(const struct record *record, const char *name, size_t k) {
    double mean, se;
    support_entry(record, name, k, &mean, &se);
    return se;
}

/* A deep linear network beyond its edge of stability: no sampling error, and differences of the
 * order of the tolerance grow until they are as large as the loss. The same run at 1e-8, where
 * growing round-off leaves 1e-7, is the truth. That the error at `tolerance` is at most twice what
 * a third of it changes is what an error that falls as the tolerance or faster does: 3/2. */
TEST(is_what_an_unstable_linear_network_lacks) {
    FREED(run_free) struct run checked, fine;
    double largest = 0;
    march(&checked, (const char *const[]){"network.activation=linear", "training.eta0=0.96",
                                          "training.steps=50", "solver.check_tolerance=yes", NULL});
    march(&fine, (const char *const[]){"network.activation=linear", "training.eta0=0.96",
                                       "training.steps=50", "solver.tolerance=1e-8", NULL});
    struct record alone = checked.results.limit;
    alone.finer = NULL;
    for (size_t t = 0; t < 50; t++) {
        double error =
            fabs(entry(&checked.results.limit, "loss", t) - entry(&fine.results.limit, "loss", t));
        double se = error_of(&checked.results.limit, "loss", t);
        assert_true(error_of(&alone, "loss", t) < 1e-6);
        CHECK_ABS(error, 0, 2 * se + 1e-6, "loss(%d) within two of its errors", (int)t);
        largest = fmax(largest, error);
    }
    printf("largest error of the loss %.2g\n", largest);
    assert_true(largest > 0.02);
}

/* Where training is stable, "a few hundredths of tolerance", and far below the sampling error; the
 * errors of all series are those without it and it, in quadrature. */
TEST(hardly_matters_to_a_stable_network) {
    FREED(run_free) struct run run;
    double difference[4096], mean[4096], se[4096], plain[4096];
    march(&run, (const char *const[]){"solver.check_tolerance=yes", "output.kernels=full",
                                      "training.steps=8", NULL});
    struct record alone = run.results.limit;
    int known = 0;
    alone.finer = NULL;
    for (int k = 0; k < run.results.limit.count; k++) {
        const struct series *series = &run.results.limit.series[k];
        assert_true(series->size <= 4096);
        if (series->runs_alone)
            continue;
        record_statistics(&run.results.limit, series, mean, se);
        record_statistics(&alone, series, mean, plain);
        bool measured = record_tolerance(&run.results.limit, series, difference);
        bool computation = !strcmp(series->name, "rank") || !strcmp(series->name, "fallback") ||
                           !strcmp(series->name, "unmatched") || !strcmp(series->name, "carriers");
        assert_true(measured == !computation);
        known += measured;
        for (size_t i = 0; i < series->size; i++)
            if (isnan(plain[i])) /* all runs have 0, or 1 */
                assert_true(isnan(se[i]));
            else
                CHECK_ABS(se[i], measured ? hypot(plain[i], difference[i]) : plain[i], 0, "%s",
                          series->name);
        if (!strcmp(series->name, "f"))
            for (size_t i = 0; i < series->size; i++)
                CHECK_ABS(difference[i], 0, 0.1 * run.config.solver.tolerance, "f");
    }
    assert_true(known >= 6);
}
