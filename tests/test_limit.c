/* Properties of the marched limit: no sampling error for linear networks, causality, the same bits
 * for any number of threads and steps and on the shadow backend. */
#include "tests/support/support.h"

#include <omp.h>

/* A small run with two more overrides; every series of the limit and of width 32 in records. */
struct outcome {
    struct run run;
    struct record limit, networks;
};

static void solve(struct outcome *o, const char *const *more) {
    const char *overrides[32] = {"solver.sites=300",       "solver.expert_sites=170",
                                 "network.expert_width=3", "output.kernels=full",
                                 "training.steps=8",       "solver.replicates=3",
                                 "reference.seeds=3",      "output.responses=no"};
    int n = 8;
    while (more && *more)
        overrides[n++] = *more++;
    support_run(&o->run, "data/regime2.ini", overrides);
    ASK(run_ensemble(&o->run, 0, o->run.config.solver.replicates, &o->limit, err));
    ASK(run_ensemble(&o->run, 32, o->run.config.reference.seeds, &o->networks, err));
}

static void outcome_free(struct outcome *o) {
    record_free(&o->limit);
    record_free(&o->networks);
    run_free(&o->run);
}

/* What judges bits here sees one bit of one entry at times that both runs have, the second time of
 * a kernel included, and no other. */
TEST(one_bit_is_seen) {
    static const STRUCT(const char *name; int t, s; bool seen)
        cases[] = {{"f", 0, 0, true},     {"f", 7, 0, true},    {"f", 8, 0, false},
                   {"Phi1", 0, 7, true},  {"Phi1", 7, 7, true}, {"Phi1", 7, 8, false},
                   {"Phi1", 8, 0, false}, {"Phi1", 7, 0, true}, {"fallback", 7, 0, true}};
    FREED(outcome_free) struct outcome short_run = {0}, whole = {0};
    solve(&short_run, NULL);
    solve(&whole, ARGS("training.steps=10"));
    const struct record *a = &short_run.limit, *b = &whole.limit;
    assert_null(support_differs(a, b, 8));
    assert_null(support_differs(b, a, 8));
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int run = 0; run < b->runs; run += b->runs - 1) {
            const struct series *series = record_find(b, cases[i].name);
            size_t P = (size_t)whole.run.data.P, mu = cases[i].name[1] == 'h' ? P - 1 : 0;
            double *entry = record_at(b, series, run, cases[i].t) +
                            (mu * (size_t)b->T + (size_t)cases[i].s) * (mu ? P : 0) + mu;
            double was = *entry;
            *entry = nextafter(was, INFINITY);
            assert_int_equal(support_differs(a, b, 8) != NULL, cases[i].seen);
            assert_int_equal(support_differs(b, a, 8) != NULL, cases[i].seen);
            *entry = was;
        }
}

/* The same bits with one thread as with three, on the backend that poisons, and at the beginning of
 * a longer run, all at once. One replicate is shared out in blocks of sites, of which the last is
 * not full, and five are shared out whole. */
TEST(bits_depend_on_no_thread_backend_or_end) {
    static const char *const cases[][3] = {
        {"network.gate=sigmoid"},
        {"network.gate=softmax", "network.beta=0.5"},
        {"network.gate=constant"},
        {"network.rho=0.5"},
        {"solver.replicates=5", "reference.seeds=5", "solver.sites=300"},
        {"training.optimizer=momentum", "training.eta0=0.1"},
        {"training.optimizer=adam", "training.eta0=0.1"},
        {"training.weight_decay=0.01"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        FREED(outcome_free) struct outcome plain = {0}, other = {0};
#define ONE "solver.replicates=1", "reference.seeds=1", "solver.sites=700"
#define CASE cases[i][0], cases[i][1], cases[i][2]
        solve(&plain, ARGS("solver.threads=1", ONE, CASE));
        solve(&other,
              ARGS("solver.threads=3", "solver.backend=shadow", "training.steps=11", ONE, CASE));
        support_same_times(&plain.limit, &other.limit, 8, cases[i][0]);
        support_same_times(&plain.networks, &other.networks, 8, cases[i][0]);
    }
    omp_set_num_threads(omp_get_num_procs());
}

/* Two runs that differ in the step taken at t = 5: everything up to t = 5 has the same bits, f at 6
 * does not. */
TEST(causality) {
    FREED(run_free) struct run run;
    FREED(net_free) struct net a, b;
    support_run(&run, "data/regime2.ini", ARGS("solver.sites=300", "solver.expert_sites=300"));
    support_net(&a, &run, 0, 0);
    support_net(&b, &run, 0, 0);
    for (int t = 0; t <= 6; t++) {
        support_evaluate(&a, &run);
        support_evaluate(&b, &run);
        bool same = !memcmp(a.output.f, b.output.f, (size_t)run.data.P * sizeof *a.output.f);
        assert_int_equal(same, t <= 5);
        for (int k = 0; k < a.kernels.count && t <= 5; k++) {
            FREED(base_free)
            double *x = support_get(a.kernels.item[k].rows),
                   *y = support_get(b.kernels.item[k].rows);
            size_t bytes =
                (size_t)a.kernels.item[k].rows.count * a.kernels.item[k].rows.array->sites * 8;
            assert_memory_equal(x, y, bytes);
        }
        ASK(net_learn(&a, 0, 0.3, err));
        ASK(net_learn(&b, 0, t == 5 ? 0.31 : 0.3, err));
    }
}

/* Activation linear, gate constant: every moment a linear network needs is matched exactly, so two
 * seeds differ by the truncation of the bases alone: 0.05 tolerance for f (docs/method.md), the
 * same for kernels; 1e-5 at tolerance 1e-6 leaves room for the growth of the loss's curvature. */
TEST(linear_networks_have_no_sampling_error) {
    const char *const cases[] = {"network.parameterization=mssp", "network.parameterization=mup",
                                 "network.kappa=2"};
    for (int i = 0; i < 3; i++) {
        FREED(outcome_free) struct outcome o = {0};
        solve(&o, ARGS(cases[i], "network.activation=linear", "network.gate=constant",
                       "solver.tolerance=1e-6", "training.steps=12", "solver.replicates=2"));
        assert_true(o.limit.series[0].values[11] < 0.45); /* it learns */
        for (int s = 0; s < o.limit.count; s++) {
            const struct series *series = &o.limit.series[s];
            if (series->computation)
                continue;
            for (size_t k = 0; k < series->size; k++) {
                double x = series->values[k], y = series->values[series->size + k];
                CHECK_ABS(x, y, 1e-5 * fmax(1, fabs(x)), "%s: %s[%zu]", cases[i], series->name, k);
            }
        }
    }
}

/* 96 sites cannot hold all normals and bases: matching is given up late, and the means stay those
 * of a large run. 4 standard errors, and the bias of a small sample: measured relative to the
 * value, up to -1/S for the loss, +1/S for Phi, +3/S for G (docs/method.md section 3). */
TEST(too_few_sites_do_no_harm) {
    static const STRUCT(const char *name; double bias)
        rows[] = {{"loss", 1}, {"Phi1_diag", 1}, {"Phib_diag", 1}, {"G1_diag", 3}, {"Gb_diag", 3}};
    const char *const small[] = {"solver.sites=96", "solver.expert_sites=96", NULL};
    const char *const large[] = {"solver.sites=1024", "solver.expert_sites=1024", NULL};
    TWO_RUNS_AND_RECORDS;
    for (int i = 0; i < 2; i++) {
        support_run(&run[i], "data/regime2.ini", i ? large : small);
        ASK(run_ensemble(&run[i], 0, i ? 12 : 80, &record[i], err));
    }
    double fallback, unused;
    support_entry(&record[0], "fallback", 19, &fallback, &unused);
    assert_true(fallback >= 10);
    for (size_t k = 0; k < COUNT(rows); k++)
        for (int t = 1; t < 20; t += 3) {
            double got, got_se, want, want_se;
            size_t per = record_find(&record[0], rows[k].name)->size / 20, entry = (size_t)t * per;
            support_entry(&record[0], rows[k].name, entry, &got, &got_se);
            support_entry(&record[1], rows[k].name, entry, &want, &want_se);
            CHECK_ABS(got, want, 4 * hypot(got_se, want_se) + rows[k].bias / 96 * want, "%s at %d",
                      rows[k].name, t);
        }
}
