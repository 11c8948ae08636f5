/* Kernels of routers and of single experts: what they are made of, and both methods. */
#include "tests/support/support.h"

#include <gsl/gsl_cdf.h>

static const char ROWS[] = "output.kernels_of=psi phi h_in g_h_in";

/* A network has no more experts than are written one by one. Then their mean is the kernel, the
 * mean of their squares is the square, and at t = 0 they are made of the sites that `fields` has.
 */
TEST(single_experts_make_up_the_kernel) {
    static const char *const cases[][2] = {
        {"data/regime2.ini", "network.expert_width=3"},
        {"data/regime3.ini", "network.rho=0.5"},
    };
    for (size_t c = 0; c < 2; c++) {
        const char *overrides[16] = {ROWS,
                                     "output.kernels=full",
                                     "training.steps=3",
                                     "output.fields=h_in",
                                     "output.fields_at=2",
                                     "output.field_sites=64",
                                     "reference.seeds=1",
                                     "solver.replicates=0"};
        int N = 32, M = 16;
        FREED(record_free) struct record record = {0};
        overrides[8] = cases[c][1];
        support_one(cases[c][0], overrides, N, &record);
        const struct series *K = record_find(&record, "K_h_in"),
                            *square = record_find(&record, "K_h_in_square"),
                            *single = record_find(&record, "K_h_in_expert"),
                            *site = record_find(&record, "h_in_site");
        assert_true(K && square && single && site);
        double largest = 0, apart = 0;
        for (size_t k = 0; k < K->size; k++) {
            double mean = 0, squares = 0;
            for (int e = 0; e < M; e++) {
                double one = single->values[k * 64 + (size_t)e];
                mean += one / M;
                squares += one * one / M;
            }
            largest = fmax(largest, squares);
            apart = fmax(apart, squares - mean * mean);
            CHECK_ABS(mean, K->values[k], 1e-13, "%s, K entry %zu", cases[c][0], k);
            CHECK_ABS(squares, square->values[k], 1e-13, "%s, square entry %zu", cases[c][0], k);
        }
        assert_true(apart > 0.01 * largest); /* experts differ */
        size_t P = K->shape[1], units = c ? 8 : 3, T = 3;
        for (size_t mu = 0; mu < P; mu++)
            for (size_t nu = 0; nu < P; nu++)
                for (size_t e = 0; e < 64 / units && e < (size_t)M; e++) {
                    double sum = 0;
                    for (size_t j = e * units; j < (e + 1) * units; j++)
                        sum +=
                            site->values[mu * 64 + j] * site->values[nu * 64 + j] / (double)units;
                    CHECK_ABS(single->values[(((2 * P + mu) * T + 2) * P + nu) * 64 + e], sum,
                              1e-13, "%s, expert %zu", cases[c][0], e);
                }
    }
}

/* Returns the largest difference of two limits in a series, in units of a difference that only one
 * of 1000 such series exceeds. */
static double compare(const struct record *a, const struct record *b, const char *name) {
    const struct series *series = record_find(a, name);
    double *mean[2], *se[2], largest = 0;
    double most = gsl_cdf_tdist_Qinv(0.5e-3 / (double)series->size, a->runs - 1);
    const struct record *of[] = {a, b};
    for (int k = 0; k < 2; k++)
        ASK(record_average(of[k], name, &mean[k], &se[k], err));
    for (size_t i = 0; i < series->size; i++) {
        double both = hypot(se[0][i], se[1][i]), apart = fabs(mean[1][i] - mean[0][i]);
        if (both > 0)
            largest = fmax(largest, apart / both / most);
        else
            assert_true(apart < 1e-12); /* 0 at the start */
    }
    free(mean[0]); /* each one block with its se */
    free(mean[1]);
    return largest;
}

/* Every entry of the kernels of router and experts agrees by march and by fixed point; the march
 * with another rate is far from both, so that the comparison can fail. */
TEST(methods_agree) {
    static const char *const cases[][4] = {
        {"data/regime2_mup.ini", "solver.expert_sites=512", "training.eta0=0.8"},
        {"data/regime2.ini", "solver.expert_sites=512", "network.rho=0.5", "training.eta0=0.8"},
        {"data/regime3.ini", "solver.expert_sites=64", "solver.unit_sites=64"},
        {"data/regime3_mup.ini", "solver.expert_sites=64", "solver.unit_sites=64"},
    };
    static const char *const names[] = {"K_psi",         "K_phi",    "K_h_in",
                                        "K_h_in_square", "K_g_h_in", "K_g_h_in_square"};
    static const char *const last[] = {"solver.method=march", "solver.method=fixed_point",
                                       "training.eta0=0.1"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *overrides[16] = {"solver.method=march",
                                     "solver.sites=512",
                                     "solver.replicates=12",
                                     "solver.halves=no",
                                     ROWS,
                                     "output.kernels=full",
                                     "output.field_sites=0",
                                     "reference.widths=",
                                     "training.steps=10"};
        struct run run[3];
        struct record record[3] = {0};
        int n = 9;
        for (int k = 1; k < 4 && cases[c][k]; k++)
            overrides[n++] = cases[c][k];
        for (int k = 0; k < 3; k++) {
            overrides[n] = last[k];
            support_run(&run[k], cases[c][0], overrides);
            ASK(run_ensemble(&run[k], 0, 16, &record[k], err));
        }
        for (size_t s = 0; s < sizeof names / sizeof *names; s++) {
            double far = compare(&record[0], &record[1], names[s]),
                   other = compare(&record[2], &record[1], names[s]);
            if (!(far < 1 && other > 1))
                fail_msg("%s, %s: %.2f of what is allowed, with another rate %.2f", cases[c][0],
                         names[s], far, other);
        }
        for (int k = 0; k < 3; k++) {
            record_free(&record[k]);
            run_free(&run[k]);
        }
    }
}
