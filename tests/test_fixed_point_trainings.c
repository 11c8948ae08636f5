/* The fixed point of trainings that are more than gradient descent on all inputs: every entry of
 * every series beside the march, and outputs and kernels beside finite networks. */
#include "tests/support/support.h"
#include "solver/measure/stats.h"

#include <gsl/gsl_cdf.h>

enum { MOST = 8, SERIES = 200 }; /* of all cases together, about */

/* What they train, and how; `moved`: a series, and the key without which it has other values. */
static const struct training_case {
    const char *file, *more[MOST], *moved, *without;
} cases[] = {
    {"data/dense.ini", {"training.integrator=bs32", "training.steps=4"}, "Phi2", "training.dt=0.5"},
    {"data/dense.ini",
     {"training.optimizer=momentum", "training.momentum=0.7", "training.eta0=0.3",
      "training.weight_decay=0.05", "training.schedule=linear"},
     "Phi2",
     "training.momentum=0"},
    {"data/regime1.ini",
     {"network.rho=1", "training.weight_decay=0.1", "training.clip=0.3"},
     "f",
     "training.weight_decay=0"},
    {"data/dense.ini",
     {"training.batch=2", "training.order=shuffled", "training.eta0=0.3", "data.test_inputs=3",
      "training.weight_decay=0.05"},
     "test_f",
     "training.order=cyclic"},
    {"data/regime2.ini",
     {"training.batch=3", "training.optimizer=momentum", "training.momentum=0.5",
      "solver.expert_sites=512", "data.test_inputs=2", "output.test_every=2"},
     "Phib",
     "training.momentum=0"},
};

static void run_case(struct run *run, const struct training_case *of, const char *const *first,
                     const char *last, int N, struct record *record) {
    const char *overrides[24] = {0};
    int n = 0;
    while (first[n]) {
        overrides[n] = first[n];
        n++;
    }
    for (int k = 0; k < MOST && of->more[k]; k++)
        overrides[n++] = of->more[k];
    overrides[n] = last;
    support_run(run, of->file, overrides);
    ASK(run_ensemble(run, N, N ? run->config.reference.seeds : run->config.solver.replicates,
                     record, err));
}

/* The largest |difference| of two limits in a series in units of what is allowed: entries of one of
 * 1000 tests with so many series of this size are further apart by chance. */
static double compare(const struct record *a, const struct record *b, const struct series *series) {
    double *mean[2], *se[2], largest = 0;
    double most = gsl_cdf_tdist_Qinv(0.5e-3 / SERIES / (double)series->size, a->runs - 1);
    const struct record *of[] = {a, b};
    for (int k = 0; k < 2; k++)
        ASK(record_average(of[k], series->name, &mean[k], &se[k], err));
    for (size_t i = 0; i < series->size; i++) {
        double both = hypot(se[0][i], se[1][i]);
        double apart = fabs(mean[1][i] - mean[0][i]);
        if (both > 0) /* else it is 0 by definition, or f(0), or it was not asked for */
            largest = fmax(largest, apart / both / most);
        else
            assert_true(isnan(apart) || apart < 1e-12);
    }
    free(mean[0]);
    free(mean[1]);
    return largest;
}

/* The largest |z| of f and of all kernels of a limit beside networks of three widths, extrapolated
 * in 1/N, and the rms. */
static double beside_networks(const struct record *limit, const struct record *networks,
                              const int *widths, double *rms) {
    double largest = 0, squares = 0, count = 0;
    for (int s = 0; s < limit->count; s++) {
        const struct series *series = &limit->series[s];
        if (strcmp(series->name, "f") != 0 && strcmp(series->name, "test_loss") != 0 &&
            !strstr(series->name, "_diag"))
            continue;
        for (size_t i = 0; i < series->size; i++) {
            struct stats_mean mean[3];
            double exact, se;
            support_entry(limit, series->name, i, &exact, &se);
            support_means(networks, 3, series->name, i, mean);
            struct stats_fit line = stats_extrapolate(widths, mean, 3);
            if (!(se > 0 && line.se > 0)) /* f(0), or no test inputs are due */
                continue;
            double z = (line.a - exact) / hypot(line.se, se);
            largest = fmax(largest, fabs(z));
            squares += z * z;
            count++;
        }
    }
    *rms = sqrt(squares / count);
    return largest;
}

/* Every series that both methods have. Without one key of the training the march is somewhere else,
 * by far more than is allowed, so that the comparison can fail. */
static void march_agrees(const struct training_case *of, const struct record record[3]) {
    int compared = 0;
    for (int s = 0; s < record[0].count; s++) {
        const struct series *series = &record[0].series[s],
                            *other = record_find(&record[1], series->name);
        if (!other || series->computation || strstr(series->name, "accuracy"))
            continue; /* accuracies: the sign of f, which is round-off before the first step */
        assert_int_equal(other->size, series->size);
        double far = compare(&record[0], &record[1], series);
        if (!(far < 1))
            fail_msg("%s: %s is off by %.2f of what is allowed", of->without, series->name, far);
        compared++;
    }
    const struct series *moved = record_find(&record[0], of->moved);
    assert_non_null(moved);
    double far = compare(&record[2], &record[1], moved);
    print_message("%s: %d series agree; %s with %s: %.1f of what is allowed\n", of->file, compared,
                  of->moved, of->without, far);
    assert_true(compared > 10 && far > 2);
}

/* Entries move together, so the largest and the rms of z are judged, as in test_networks.c. The
 * limit without one key of the training is far from these networks. */
TEST(march_and_networks_agree) {
    static const char *const keys[] = {
        "reference.widths=32 64 128", "reference.seeds=48",  "solver.sites=512",
        "solver.halves=no",           "output.kernels=full", "solver.replicates=16",
        "output.responses=yes",       "training.steps=7",    NULL};
    for (size_t c = 0; c < COUNT(cases); c++) {
        const char *const last[] = {"solver.method=march", "solver.method=fixed_point",
                                    cases[c].without};
        static const int widths[] = {32, 64, 128};
        struct run run[6];
        struct record record[6] = {0};
        double rms[2], largest[2];
        for (int k = 0; k < 3; k++)
            run_case(&run[k], &cases[c], keys, last[k], 0, &record[k]);
        march_agrees(&cases[c], record);
        for (int k = 3; k < 6; k++)
            run_case(&run[k], &cases[c], keys, "output.kernels=diagonal", widths[k - 3],
                     &record[k]);
        for (int k = 0; k < 2; k++)
            largest[k] = beside_networks(&record[k + 1], record + 3, widths, &rms[k]);
        print_message("%s: largest |z| %.2f, rms %.2f; with %s %.1f\n", cases[c].file, largest[0],
                      rms[0], cases[c].without, largest[1]);
        assert_true(largest[0] < 4 && rms[0] < 2);
        assert_true(largest[1] > 6);
        for (int k = 0; k < 6; k++) {
            record_free(&record[k]);
            run_free(&run[k]);
        }
    }
}
