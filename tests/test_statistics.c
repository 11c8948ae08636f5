/* Losses of the limit, which are those of the mean output: the jackknife over replicates; and which
 * sites a limit is sampled by. */
#include "tests/support/support.h"
#include "kernels/draws/rng.h"
#include "solver/measure/instrument.h"
#include "solver/run/findings.h"
#include "solver/run/report.h"

#include <gsl/gsl_cdf.h>

enum { RUNS = 5, TIMES = 3, ROWS = 2, MOST_C = 3 };

static double normal(int number) {
    struct rng_stream stream = {.seed = 17, .purpose = PURPOSE_DATA};
    double pair[2];
    rng_normal_pair(stream, 0, (uint32_t)number / 2, pair);
    return pair[number % 2];
}

/* A loss of f [t][mu][c] against y; run 1 ended after two times. */
static void open_record(struct record *record, const struct loss *loss, int C, const double *y) {
    struct training training = {.loss = loss};
    const struct data_setup data = {.n = 1, .C = C};
    const struct mean_loss_rows rows = {y, &data, 0, ROWS, true, 1};
    struct series l = {.name = "loss", .dims = "t", .axes = 1, .shape = {TIMES}},
                  f = {.name = "f", .dims = "t k", .axes = 2, .shape = {TIMES}};
    f.shape[1] = (size_t)(ROWS * C);
    ASK(record_init(record, RUNS, TIMES, err));
    ASK(record_add(record, l, err));
    ASK(record_add(record, f, err));
    ASK(mean_loss_set(record, "loss", "f", &training, &rows, err));
    for (int r = 0; r < RUNS; r++)
        record->steps[r] = r == 1 ? 2 : TIMES;
}

/* f = at + spread times normals, and each run's loss. */
static void fill(struct record *record, const struct loss *loss, int C, const double *y,
                 const double *at, double spread, int *number) {
    for (int r = 0; r < RUNS; r++)
        for (int t = 0; t < record->steps[r]; t++) {
            double *f = record_at(record, &record->series[1], r, t), Delta[MOST_C], sum = 0;
            for (int k = 0; k < ROWS * C; k++)
                f[k] = at[k] + spread * normal((*number)++);
            for (int i = 0; i < ROWS; i++)
                sum += loss_weighted(loss, 1, C, f + i * C, y + i * C, Delta) / ROWS;
            *record_at(record, &record->series[0], r, t) = sum;
        }
}

/* Square loss: the mean of the losses less half the variance of f of one run, and where a single
 * run is left, its loss. A constant f (of few digits) is exact. Sums of 10 numbers of order one:
 * 1e-14. */
TEST(is_exact_for_squares) {
    enum { C = 3 };
    static const double y[ROWS * C] = {1, 0, 0.5, -1, 2, 0},
                                 at[ROWS * C] = {0.25, -0.5, 1, 0, 1, 2};
    double mean[TIMES], se[TIMES], plain[TIMES];
    FREED(record_free) struct record record;
    int number = 0;
    open_record(&record, &loss_mse, C, y);
    fill(&record, &loss_mse, C, y, at, 1, &number);
    record_statistics(&record, &record.series[0], mean, se);
    for (int t = 0; t < TIMES; t++) {
        double variance = 0, n = record_reached(&record, t);
        plain[t] = 0;
        for (int k = 0; k < ROWS * C; k++) {
            double sum = 0, squares = 0;
            for (int r = 0; r < RUNS; r++)
                if (record.steps[r] > t) {
                    double f = record_at(&record, &record.series[1], r, t)[k];
                    sum += f;
                    squares += f * f;
                }
            variance += (squares - sum * sum / n) / (n - 1) / ROWS;
        }
        for (int r = 0; r < RUNS; r++)
            plain[t] += record.steps[r] > t ? *record_at(&record, &record.series[0], r, t) / n : 0;
        CHECK_ABS(mean[t], plain[t] - variance / 2, 1e-14, "loss at %d", t);
    }
    for (int r = 1; r < RUNS; r++)
        record.steps[r] = 1;
    record_statistics(&record, &record.series[0], mean, se);
    assert_true(mean[2] == *record_at(&record, &record.series[0], 0, 2) && isnan(se[2]));
    fill(&record, &loss_mse, C, y, at, 0, &number);
    record_statistics(&record, &record.series[0], mean, se);
    assert_true(mean[0] == *record_at(&record, &record.series[0], 0, 0) && se[0] == 0);
}

/* Over many samples of five runs the estimate has the mean of the loss of the mean output and the
 * spread that its error says, 0.85 to 1.05 of it; the mean of losses does not have the former. Bias
 * of order s^4/n^2 of the jackknife: below 1e-4 here, which is added to 4 standard errors. */
TEST(has_no_bias) {
    enum { SAMPLES = 4000 };
    static const struct {
        const struct loss *loss;
        int C;
        double y[ROWS * MOST_C], at[ROWS * MOST_C];
    } cases[] = {
        {&loss_mse, 1, {1, -1}, {0.9, -0.4}},
        {&loss_logistic, 1, {1, -1}, {0.5, 0.2}},
        {&loss_cross_entropy, 3, {1, 0, 0, 0, 0, 1}, {0.5, 0.2, 0, -1, 0, 0.3}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        FREED(record_free) struct record record;
        double truth = 0, Delta[MOST_C], sum[4] = {0}, mean[TIMES], se[TIMES];
        int C = cases[k].C, number = 0;
        for (int i = 0; i < ROWS; i++)
            truth +=
                loss_weighted(cases[k].loss, 1, C, cases[k].at + i * C, cases[k].y + i * C, Delta) /
                ROWS;
        open_record(&record, cases[k].loss, C, cases[k].y);
        for (int i = 0; i < SAMPLES; i++) {
            fill(&record, cases[k].loss, C, cases[k].y, cases[k].at, 0.6, &number);
            record_statistics(&record, &record.series[0], mean, se);
            sum[0] += mean[0] / SAMPLES;
            sum[1] += pow(mean[0] - truth, 2) / SAMPLES;
            sum[2] += se[0] * se[0] / SAMPLES;
            for (int r = 0; r < RUNS; r++)
                sum[3] += *record_at(&record, &record.series[0], r, 0) / RUNS / SAMPLES;
        }
        double error = sqrt(sum[1] / SAMPLES), ratio = sqrt(sum[1] / sum[2]);
        CHECK_ABS(sum[0], truth, 4 * error + 1e-4, "mean loss, case %zu", k);
        assert_true(sum[3] - truth > 20 * error);
        CHECK_ABS(ratio, 0.95, 0.1, "spread over its error, case %zu", k);
    }
}

/* Of a run: mean of the losses of its replicates less half the variance of f, whatever the batch of
 * a step is; and so for test inputs, where they are looked at. Networks keep the mean of losses. */
TEST(of_runs) {
    static const char *const batches[][2] = {{"training.batch=0", "training.order=cyclic"},
                                             {"training.batch=3", "training.order=cyclic"},
                                             {"training.batch=2", "training.order=shuffled"}};
    for (int k = 0; k < 3; k++) {
        static const char *const names[2][2] = {{"loss", "f"}, {"test_loss", "test_f"}};
        FREED(run_free) struct run run;
        FREED(record_free) struct record record, networks;
        support_run(&run, "data/dense.ini",
                    ARGS("data.inputs=4", "data.test_inputs=3", "output.test_every=2",
                         "training.steps=6", "solver.sites=64", "solver.replicates=4",
                         "training.loss=mse", batches[k][0], batches[k][1]));
        ASK(run_ensemble(&run, 0, 4, &record, err));
        for (int which = 0; which < 2; which++)
            for (size_t t = 0; t < 6; t += 2) {
                const struct series *f = record_find(&record, names[which][1]),
                                    *l = record_find(&record, names[which][0]);
                size_t row = f->size / f->shape[0];
                double mean, se, plain = 0, variance = 0;
                for (size_t i = 0; i < row; i++) {
                    support_entry(&record, names[which][1], t * row + i, &mean, &se);
                    variance += 4 * se * se / (double)row;
                }
                for (int r = 0; r < 4; r++)
                    plain += *record_at(&record, l, r, (int)t) / 4;
                support_entry(&record, names[which][0], t, &mean, &se);
                assert_true(t == 0 || variance > 1e-8);
                CHECK_ABS(mean, plain - variance / 2, 1e-14, "%s, %s at %zu", batches[k][0],
                          names[which][0], t);
            }
        ASK(run_ensemble(&run, 16, 2, &networks, err));
        assert_null(record_find(&networks, "test_f"));
        assert_null(record_find(&networks, "loss")->of_mean);
    }
}

/* Where logits begin with fluctuations alone the outputs of replicates differ in the limit: their
 * losses have a mean, as those of networks. A bias decides, and there is one output. */
TEST(of_a_random_limit) {
    for (int biased = 0; biased < 2; biased++) {
        RUN_AND_RECORD;
        support_run(&run, "data/regime1_adam.ini",
                    ARGS("network.parameterization=mup",
                         biased ? "network.bias=fixed" : "network.bias=none", "network.rho=0.5",
                         "data.test_inputs=3", "training.steps=6", "solver.sites=64"));
        ASK(run_ensemble(&run, 0, 4, &record, err));
        double mean, se, plain = 0;
        for (int r = 0; r < 4; r++)
            plain += *record_at(&record, record_find(&record, "loss"), r, 5) / 4;
        support_entry(&record, "loss", 5, &mean, &se);
        if (biased)
            assert_true(plain - mean > 1e-6);
        else
            CHECK_ABS(mean, plain, 1e-15, "mean loss");
        assert_true(biased == (record_find(&record, "loss")->of_mean != NULL));
        assert_true(biased == (record_find(&record, "test_loss")->of_mean != NULL));
    }
}

/* Populations with something else than linear functions on them, by their sites; of experts of
 * infinite width the units. */
TEST(sites_that_sample) {
    static const STRUCT(const char *ini, *change, *name; size_t sites) cases[] = {
        {"data/dense.ini", "network.activation=tanh", "bottom", 100},
        {"data/dense.ini", "network.activation=linear", "bottom", 0},
        {"data/residual.ini", "network.alpha=1", "stream", 0},
        {"data/residual.ini", "network.alpha=1", "units_0", 40},
        {"data/residual.ini", "network.bias_draws=normal", "experts_0", 60},
        {"data/residual.ini", "network.bias_draws=stratified", "experts_0", 0},
        {"data/regime2.ini", "network.gate=sigmoid", "experts", 60},
        {"data/regime2.ini", "network.gate=sigmoid", "bottom", 100},
        {"data/regime2.ini", "network.gate=sigmoid", "top", 0},
        {"data/regime3.ini", "network.gate=softmax", "experts", 60},
        {"data/regime3.ini", "network.gate=softmax", "pairs", 40},
        {"data/regime3_mup.ini", "network.gate=constant", "pairs", 40},
        {"data/regime3_mup.ini", "network.gate=constant", "top", 0},
        {"data/transformer.ini", "network.head_limit=fixed", "head_0", 0},
        {"data/transformer.ini", "network.head_limit=many", "head_0", 100},
        {"data/transformer.ini", "network.head_limit=many", "heads_0", 25},
        {"data/transformer.ini", "network.head_limit=many", "stream", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool uses[2] = {!strstr(cases[i].ini, "dense") && !strstr(cases[i].ini, "transformer"),
                        strstr(cases[i].ini, "regime3") || strstr(cases[i].ini, "residual")};
        const char *const overrides[] =
            LIST("solver.sites=100", cases[i].change,
                 uses[0] ? "solver.expert_sites=60" : "data.inputs=4",
                 uses[1] ? "solver.unit_sites=40" : "data.inputs=4",
                 strstr(cases[i].ini, "residual") ? "network.experts=60" : "data.inputs=4",
                 "reference.widths=", "solver.halves=no", NULL);
        RUN_AND_NET;
        int found = 0;
        support_run(&run, cases[i].ini, overrides);
        support_net(&net, &run, 0, 0);
        for (int k = 0; k < net.populations.count; k++)
            if (!strcmp(net.populations.item[k]->name, cases[i].name)) {
                found++;
                if (net_sampled_sites(&net, k) != cases[i].sites)
                    fail_msg("%s %s: %s has %zu sampled sites", cases[i].ini, cases[i].change,
                             cases[i].name, net_sampled_sites(&net, k));
            }
        if (found != 1)
            for (int k = 0; k < net.populations.count; k++)
                print_error("%s\n", net.populations.item[k]->name);
        assert_int_equal(found, 1);
    }
}

/* Rows of the tables: the first time, a tenth, quarter, half, three quarters,
 * the last; each once. */
TEST(times_of_tables) {
    static const int want[] = {0, 10, 25, 50, 75, 100}, few[] = {0, 1, 2};
    int time[REPORT_TIMES];
    assert_int_equal(report_times(10001, time), 6);
    for (int k = 0; k < 6; k++)
        assert_int_equal(time[k], 100 * want[k]);
    assert_int_equal(report_times(101, time), 6);
    assert_memory_equal(time, want, sizeof want);
    assert_int_equal(report_times(3, time), 3);
    assert_memory_equal(time, few, sizeof few);
    assert_int_equal(report_times(1, time), 1);
    assert_int_equal(time[0], 0);
}

/* Gates of tokens: each time has inputs and tokens, and each token its own initial value. */
TEST(gates_of_tokens) {
    enum { T = 4, P = 2, TOKENS = 3, WIDE = P * TOKENS, LATE = 3 * WIDE + 4 };
    struct series series = {.dims = "t mu token", .axes = 3, .shape = {T, P, TOKENS}};
    FREED(record_free) struct record record;
    struct condense gates;
    ASK(record_init(&record, 2, T, err));
    assert_false(condense_find(&record, true, &gates));
    strcpy(series.name, "gate_participation");
    ASK(record_add(&record, series, err));
    strcpy(series.name, "gate_largest");
    ASK(record_add(&record, series, err));
    for (int r = 0; r < 2; r++) {
        double *ratio = record_at(&record, &record.series[0], r, 0);
        double *largest = record_at(&record, &record.series[1], r, 0);
        for (int i = 0; i < T * WIDE; i++) {
            ratio[i] = 0.1 * (1 + i % WIDE);
            largest[i] = 1 + i % WIDE;
        }
        record.steps[r] = T;
        ratio[LATE] = r ? 0.2 : 0.3; /* of 0.5 */
        largest[LATE] = r ? 15 : 10;
    }
    assert_true(condense_find(&record, true, &gates));
    assert_int_equal(gates.at, 3);
    CHECK_ABS(gates.lowest, 0.4, 1e-15, "participation ratio");
    CHECK_ABS(gates.peak, 15, 0, "largest gate");
    CHECK_ABS(gates.growth, 3, 1e-15, "its growth");
    assert_int_equal(gates.condensed, 3); /* 0.4 is below 3/4 */
    assert_int_equal(gates.concentrated, 3);
    assert_true(condense_find(&record, false, &gates)); /* bounded gates shut experts off */
    assert_int_equal(gates.condensed, T);
    assert_int_equal(gates.concentrated, T);
}

/* How many have failed, and which of them first; behind the last run nothing counts. */
TEST(failures_of_runs) {
    bool failed[] = {false, true, false, true, false, true, true};
    struct record record = {.runs = 5, .failed = failed};
    int first;
    assert_int_equal(record_failures(&record, &first), 2);
    assert_int_equal(first, 1);
    record.runs = 1;
    assert_int_equal(record_failures(&record, &first), 0);
    assert_int_equal(first, 1);
    record.runs = 0;
    assert_int_equal(record_failures(&record, &first), 0);
    assert_int_equal(first, 0);
}

/* Student's t as tables have it, to their last digit: half a unit of the tenth. With one run there
 * is no interval. */
TEST(intervals_are_those_of_student) {
    static const STRUCT(int n; double level, t)
        table[] = {{2, 0.95, 12.7062047362}, {3, 0.95, 4.3026527297},  {5, 0.95, 2.7764451052},
                   {8, 0.95, 2.3646242516},  {31, 0.95, 2.0422724563}, {3, 0.99, 9.9248432009}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        CHECK_ABS(stats_interval(2, table[k].n - 1, table[k].level), 2 * table[k].t, 1.1e-10,
                  "t of %d", table[k].n - 1);
    assert_true(isnan(stats_interval(2, 0, 0.95)) && isnan(stats_interval(2, NAN, 0.95)));
}
