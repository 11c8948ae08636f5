/* The refined coordinate check in the limit: every term is where networks of growing width tend.
 *
 * The argument `long` takes both parameterizations. */
#include "tests/support/support.h"
#include "solver/study/compare.h"

/* Mean square of a term at t and its standard error over the runs: that is what goes as a + b/N. */
static void mean_square(const struct record *record, const char *name, int t, double *mean,
                        double *se) {
    const struct series *series = record_find(record, name);
    double sum = 0, squares = 0, n = record->runs;
    for (int r = 0; r < record->runs; r++) {
        double x = *record_at(record, series, r, t);
        sum += x * x / n;
        squares += pow(x, 4);
    }
    *mean = sum;
    *se = sqrt((squares / n - sum * sum) / (n - 1));
}

enum { WIDTH = 3, SEEDS = 20, LIMITS = 10 };
static const int width[WIDTH] = {32, 64, 128};

/* z of a term at t, networks against the limit; 0 where both are exactly zero, or round-off. */
static double distance(const struct record *limit, const struct record *networks, const char *name,
                       int t) {
    struct stats_mean mean[WIDTH];
    double exact, exact_se;
    mean_square(limit, name, t, &exact, &exact_se);
    for (int i = 0; i < WIDTH; i++) {
        mean_square(&networks[i], name, t, &mean[i].value, &mean[i].se);
        mean[i].runs = networks[i].runs;
    }
    if (mean[0].value == 0) { /* a router that starts at zero; what has not moved yet */
        assert_true(exact < 1e-30);
        return 0;
    }
    if (exact == 0) { /* vanishes as N^-1/2 or, early, as N^-1: then a + b/N leaves a < 0 */
        double growth = width[2] * mean[2].value - width[0] * mean[0].value;
        double z = growth / hypot(width[2] * mean[2].se, width[0] * mean[0].se);
        FAIL_IF(z > 4, "%s at t = %d: N times its mean square grows, z = %.2f", name, t, z);
        return 0;
    }
    struct stats_fit line = stats_extrapolate(width, mean, WIDTH);
    double z = (line.a - exact) / hypot(line.se, exact_se);
    FAIL_IF(fabs(z) > 4, "%s at t = %d: z = %.2f, networks %g +- %g, limit %g +- %g", name, t, z,
            line.a, line.se, exact, exact_se);
    return z;
}

/* Every term that the limit has is where networks tend, at all times from `first` on (-1: the
 * last), but for one that is slow (NULL: none). */
static void check_limit(const char *ini, int first, int series, const char *slow,
                        const char *const *overrides) {
    FREED(run_free) struct run run;
    struct record limit, networks[WIDTH];
    double largest = 0;
    int judged = 0;
    support_run(&run, ini, overrides);
    ASK(run_ensemble(&run, 0, LIMITS, &limit, err));
    for (int i = 0; i < WIDTH; i++)
        ASK(run_ensemble(&run, width[i], SEEDS, &networks[i], err));
    for (int k = 0; k < limit.count; k++) {
        const char *name = limit.series[k].name;
        if (!compare_is_term(name) || (slow && !strcmp(name, slow)))
            continue;
        for (int t = first < 0 ? limit.T - 1 : first; t < limit.T; t++)
            largest = fmax(largest, fabs(distance(&limit, networks, name, t)));
        judged++;
    }
    print_message("%s: largest |z| %.2f of %d series\n", ini, largest, judged);
    assert_int_equal(judged, series);
    record_free(&limit);
    for (int i = 0; i < WIDTH; i++)
        record_free(&networks[i]);
}

/* Adam in muP approaches slowly: at the default eps of 0.05 the mean square of h1_eff is 100, 74,
 * 51, 32, 19 per cent above the limit at N = 32 ... 512, 13 and 6 (+- 2) at 1024 and 2048: a + b/N
 * holds only there. At eps = 0.5 it holds from 32 on: noise of N^-1/2 in gradients is divided by
 * eps. But for f_eff: what decays of w meets an h3(0) of N^-1/2 there, against a small limit; its
 * rms is 5.5, 2.4, 2.05, 2.1, 2.56, 2.65 e-4 (+- .04) at N = 32 ... 1024, the limit 2.79e-4. */
TEST(test_limit_is_where_networks_tend) {
#define SHORT "training.steps=6", "solver.sites=512"
    static const char *const sides[] = {"network.parameterization=mssp",
                                        "network.parameterization=mup"};
    for (int k = 0; k < (is_long ? 2 : 1); k++) {
        const char *const adam[] = {"training.steps=6",
                                    "solver.sites=256", /* on both sides of matrices of entries */
                                    "solver.expert_sites=256",
                                    "training.optimizer=adamw",
                                    "training.weight_decay=0.01",
                                    "training.eta0=0.05",
                                    k ? "training.eps=0.5" : "training.eps=0.05",
                                    sides[k],
                                    NULL};
        check_limit("data/ref/coordinate/regime1.ini", -1, 37, NULL, ARGS(SHORT, sides[k]));
        check_limit("data/ref/coordinate/regime2.ini", -1, 37, NULL,
                    ARGS(SHORT, "solver.expert_sites=512", sides[k]));
        check_limit("data/ref/coordinate/regime2.ini", -1, k ? 36 : 37, k ? "rms_f_eff" : NULL,
                    adam);
        check_limit("data/ref/coordinate/regime3.ini", -1, k ? 37 : 53, NULL,
                    ARGS(SHORT, "solver.expert_sites=128", "solver.unit_sites=128", sides[k]));
    }
}

/* A step may take all of a matrix: what it makes at the start of what it reads now is known still.
 */
TEST(test_terms_outlive_the_matrix) {
    FREED(run_free) struct run run;
    FREED(record_free) struct record limit;
    support_run(&run, "data/dense.ini",
                ARGS("training.steps=4", "solver.sites=512", "reference.widths=32",
                     "reference.coordinate_check=yes", "output.kernels=none",
                     "training.weight_decay=1"));
    ASK(run_ensemble(&run, 0, 2, &limit, err));
    for (int r = 0; r < limit.runs; r++) {
        double init = *record_at(&limit, record_find(&limit, "rms_W2_init"), r, 3),
               prop = *record_at(&limit, record_find(&limit, "rms_W2_prop"), r, 3),
               eff = *record_at(&limit, record_find(&limit, "rms_W2_eff"), r, 3);
        assert_true(fabs(prop - init) < 1e-3 * init); /* what W2 reads now is next to nothing */
        assert_true(eff < 1e-3 * init);
    }
}

/* Of other networks, at every time; and a wide router over few experts, of which Q(0) and what has
 * been learnt above it know each other. */
TEST(test_limit_of_other_networks) {
#define BRIEF                                                                                      \
    "training.steps=5", "solver.sites=512", "reference.centre=no", "reference.widths=32",          \
        "reference.coordinate_check=yes", "output.kernels=none"
    static const char *const dense[] = {BRIEF, NULL};
    static const char *const residual[] =
        LIST(BRIEF, "network.alpha=1", "network.rho=1", "network.expert_width=4",
             "network.experts=1", "network.eta_bias=0", "network.bias_std=1",
             "network.bias_draws=normal", "solver.expert_sites=128", "solver.unit_sites=512",
             "reference.draws=iid", "data.inputs=4", "training.gamma0=1", NULL);
    check_limit("data/dense.ini", 0, 27, NULL, dense);
    check_limit("data/dense.ini", 0, 35, NULL, ARGS(BRIEF, "network.model=resnet"));
    check_limit("data/residual.ini", 0, 59, NULL, residual);
    check_limit("data/ref/coordinate/regime1.ini", 0, 37, NULL,
                ARGS(BRIEF, "network.parameterization=mup", "network.q0=4"));
}
