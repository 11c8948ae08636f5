/* What experts do ([output] experts) in whole runs: the limit beside networks that grow, outputs of
 * experts, and what is not to change. */
#include "tests/support/support.h"
#include "models/engine/net.h"

/* Of overlaps the first two inputs, of quantiles the median, of matrices and outputs of experts the
 * first and the next. */
static const STRUCT(const char *name; size_t entry) told[] = LIST(
    {"expert_information", 0}, {"expert_information_class", 0}, {"expert_overlap", 1},
    {"expert_coselection", 1}, {"expert_correlation", 1}, {"expert_gradient_Q", 13},
    {"expert_gradient_W_in", 13}, {"expert_gradient_W_out", 13}, {"expert_gradient_P_in", 13},
    {"expert_change_Q", 13}, {"expert_change_W_in", 13}, {"expert_change_W_out", 13},
    {"expert_change_P_in", 13}, {"expert_change_W2", 1}, {"expert_gradient_W2", 1},
    {"expert_information_0", 0}, {"expert_information_1", 0}, {"expert_information_token_0", 0},
    {"expert_overlap_1", 1}, {"expert_change_W_in_1", 13}, {"expert_gradient_W1_0", 1},
    {"expert_change_W2_0", 1}, {"expert_correlation_0", 1}, {"expert_gradient_R_0", 1});

/* z of entry `entry` at time t; false: it is not there, or has no error. */
static bool z_of(const struct int_list *widths, const struct record *networks,
                 const struct record *limit, int k, int t, double *z) {
    struct stats_mean mean[INT_LIST_MAX];
    double exact, exact_se;
    const struct series *series = record_find(limit, told[k].name);
    if (!series)
        return false;
    size_t row = series->size / series->shape[0], entry = told[k].entry < row ? told[k].entry : 0;
    entry += (size_t)t * row;
    support_entry(limit, series->name, entry, &exact, &exact_se);
    support_means(networks, widths->count, series->name, entry, mean);
    struct stats_fit line = stats_extrapolate(widths->value, mean, widths->count);
    *z = (line.a - exact) / hypot(line.se, exact_se);
    return isfinite(*z) && exact_se > 0;
}

/* As in test_networks: |z| > 4 happens once in 16 000 independent entries, and those of one case
 * move together. Norms in muP follow no law in 1/N: the initial W_out of an expert, N^-1/2 of what
 * it learns, adds to it in square, and the mean square alone has a 1/N (a median of .0097 .0065
 * .0047 .0036 .0028 at N = 32 to 512 is .0017 in the limit). */
TEST(networks_have_the_experts_of_the_limit) {
    static const struct {
        const char *ini, *set[8];
        int least; /* entries judged */
        bool norms;
    } of[] = {
        {"data/regime1.ini", {"network.rho=1"}, 8, true},
        {"data/regime2.ini", {"training.gamma0=2", "solver.expert_sites=512"}, 14, true},
        {"data/regime2.ini",
         {"network.rho=0.5", "network.parameterization=mup", "training.eta0=0.5",
          "solver.expert_sites=512"},
         6,
         false},
        {"data/regime3.ini", {"solver.expert_sites=64", "solver.unit_sites=64"}, 12, true},
        {"data/stack.ini", {"solver.expert_sites=512"}, 8, true},
        {"data/transformer.ini", {"data.inputs=4", "data.test_inputs=0"}, 10, true},
    };
    for (size_t c = 0; c < COUNT(of); c++) {
        const char *set[16] = LIST("output.experts=yes", "reference.widths=32 64 128",
                                   "reference.seeds=20", "solver.replicates=8", "solver.sites=512",
                                   "training.steps=8", "output.kernels=none");
        FREED(run_free) struct run run;
        struct record limit, networks[3];
        double z, largest = 0, squares = 0;
        int count = 0, worst = 0;
        for (int k = 0; k < 8 && of[c].set[k]; k++)
            set[k + 7] = of[c].set[k];
        support_run(&run, of[c].ini, set);
        const struct int_list *widths = &run.config.reference.widths;
        ASK(run_ensemble(&run, 0, run.config.solver.replicates, &limit, err));
        for (int i = 0; i < widths->count; i++)
            ASK(run_ensemble(&run, widths->value[i], run.config.reference.seeds, &networks[i],
                             err));
        for (int k = 0; k < (int)COUNT(told); k++)
            for (int t = 3; t < 8; t += 4) {
                bool norm = strstr(told[k].name, "_gradient_") || strstr(told[k].name, "_change_");
                if ((norm && !of[c].norms) || !z_of(widths, networks, &limit, k, t, &z))
                    continue;
                squares += z * z;
                count++;
                if (fabs(z) > largest)
                    largest = fabs(z), worst = k;
            }
        double rms = sqrt(squares / count);
        print_message("%s: largest |z| %.2f (%s), rms %.2f of %d\n", of[c].ini, largest,
                      told[worst].name, rms, count);
        assert_true(count >= of[c].least && largest <= 4 && rms <= 2);
        record_free(&limit);
        for (int i = 0; i < widths->count; i++)
            record_free(&networks[i]);
    }
}

/* Outputs of experts, found from the program alone, are the rows that the network calls by their
 * names; an expert that is not selected has none. */
TEST(correlations_of_outputs) {
    for (int N = 0; N <= 16; N += 16) {
        RUN_AND_RECORD;
        assert_true(support_small(&run, support_model("regime1"),
                                  ARGS("output.experts=yes", "output.cross=h3", "network.rho=0.5",
                                       "network.expert_layers=2")));
        ASK(run_ensemble(&run, N, 2, &record, err));
        const double *cross = record_at(&record, record_find(&record, "cross_h3"), 1, 5),
                     *got = record_at(&record, record_find(&record, "expert_correlation"), 1, 5),
                     *gate = record_at(&record, record_find(&record, "p"), 1, 5);
        int M = run.config.network.experts.count, zero = 0;
        for (int mu = 0; mu < run.data.P; mu++)
            for (int i = 0; i < M; i++)
                for (int j = 0; j < M; j++) {
                    const double *x = cross + mu * M * M, *p = gate + mu * M;
                    double want = x[i * M + j] / sqrt(x[i * M + i] * x[j * M + j]);
                    bool none = p[i] == 0 || p[j] == 0;
                    zero += none;
                    CHECK_ABS(got[(mu * M + i) * M + j], none ? 0 : want, 1e-12,
                              "input %d, experts %d and %d", mu, i, j);
                }
        assert_true(zero > 0 && zero < run.data.P * M * M);
    }
}

/* What is asked for changes nothing else. */
TEST(nothing_else_changes) {
    static const char *const asked[] = {"output.experts=yes", NULL};
    int judged = 0;
    for (const struct model *const *model = model_list; *model; model++)
        for (int N = 0; N <= 16; N += 16) {
            struct run run[2];
            struct record record[2];
            struct net net;
            assert_true(support_small(&run[0], *model, NULL));
            support_net(&net, &run[0], N, 0);
            bool gates = net.routers.count > 0;
            net_free(&net);
            run_free(&run[0]);
            if (!gates)
                continue;
            judged++;
            for (int i = 0; i < 2; i++) {
                assert_true(support_small(&run[i], *model, i ? asked : NULL));
                ASK(run_ensemble(&run[i], N, 2, &record[i], err));
            }
            for (int s = 0; s < record[0].count; s++) {
                const struct series *x = &record[0].series[s],
                                    *y = record_find(&record[1], x->name);
                assert_non_null(y);
                assert_memory_equal(x->values, y->values, 2 * x->size * sizeof *x->values);
            }
            for (int i = 0; i < 2; i++) {
                record_free(&record[i]);
                run_free(&run[i]);
            }
        }
    assert_int_equal(judged, 2 * 7); /* and data/program.ini */
}

/* The fixed point has all but what W(0) makes, which its maps do not know. At t = 3 it agrees with
 * the march within 8 standard errors, of four replicates each: t of 6 degrees of freedom exceeds
 * that once in 5000. */
TEST(fixed_points_have_all_but_changes) {
    TWO_RUNS_AND_RECORDS;
    for (int k = 0; k < 2; k++) {
        const char *const set[] =
            LIST("output.experts=yes", "solver.sites=256", "solver.expert_sites=256",
                 "solver.tolerance=1e-2", "solver.replicates=4", "training.steps=4",
                 k ? "solver.method=fixed_point" : "solver.method=march", NULL);
        support_run(&run[k], "data/regime2.ini", set);
        ASK(run_ensemble(&run[k], 0, 4, &record[k], err));
    }
    assert_non_null(record_find(&record[0], "expert_change_W_in"));
    assert_null(record_find(&record[1], "expert_change_W_in"));
    for (size_t i = 0; i < 2; i++) {
        static const char *const names[] = {"expert_information", "expert_gradient_W_in"};
        double mean[2], se[2];
        size_t row = record_find(&record[0], names[i])->size / 4;
        for (int k = 0; k < 2; k++)
            support_entry(&record[k], names[i], 3 * row + row / 2, &mean[k], &se[k]);
        CHECK_ABS(mean[1], mean[0], 8 * hypot(se[0], se[1]), "%s", names[i]);
    }
}
