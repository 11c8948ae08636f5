/* The limit by fixed-point iteration: linear networks and every entry of all others beside the
 * march, trainings that are more than gradient descent beside networks, too; jumps. */
#include "tests/support/support.h"

#include <gsl/gsl_cdf.h>

/* A run by each method. */
struct both {
    struct run run[2];
    struct record record[2];
};

/* A run with three lists of keys, of a width or of the limit (0). */
static void run_one(struct run *run, const char *file, const char *const *first,
                    const char *const *second, const char *const *last, int N,
                    struct record *record) {
    const char *const *const lists[] = {first, second, last};
    const char *overrides[32] = {"reference.widths="};
    int n = 1;
    for (int k = 0; k < 3; k++)
        for (const char *const *key = lists[k]; *key; key++)
            overrides[n++] = *key;
    support_run(run, file, overrides);
    support_ensemble(run, N, record);
}

/* fixed: a key of the fixed point alone, or NULL. */
static void both_init(struct both *both, const char *file, const char *const *first,
                      const char *const *second, const char *fixed) {
    for (int k = 0; k < 2; k++)
        run_one(&both->run[k], file, first, second,
                k ? ARGS("solver.method=fixed_point", fixed) : ARGS("solver.method=march"), 0,
                &both->record[k]);
}

static void both_free(struct both *both) {
    for (int k = 0; k < 2; k++) {
        record_free(&both->record[k]);
        run_free(&both->run[k]);
    }
}

/* Neither method has sampling error in a linear network, nor in attention without experts: f and
 * every kernel agree at every time, for gradient descent, clipped at a falling rate or not, and for
 * the trapezoidal rule. Errors: jitter 1e-8 (as much in kernels; a smaller one is worse,
 * docs/methods.md), tolerance 1e-8 of the bases, fp_tolerance 1e-10. Sites are a power of two, for
 * orthogonal probes. */
TEST(linear_networks_agree) {
    static const char seen[] = /* a matrix that only a kernel reads has no cotangents */
        "network.program_text=local a = population('a', {size = key('depth') / 3}) "
        "local h = read_in(a, 'W1') kernel(map(h, a, {name = 'V', rate = 0}), 'Z') "
        "read_out(h, 'w')";
    static const STRUCT(const char *file, *more[7]) cases[] = {
        {"examples/dense.ini", {"network.program=t.lua", seen}},
        {"data/dense.ini", {"network.depth=3", NULL}},
        {"data/resnet.ini", {"network.depth=3", NULL}},
        {"data/dense.ini", {"training.integrator=heun", "training.steps=5", NULL}},
        {"data/dense.ini", {"training.schedule=cosine", "training.warmup=2", "training.clip=0.3"}},
        {"data/regime1.ini", {"network.rho=1", "network.expert_layers=2", NULL}},
        {"data/regime1.ini",
         {"network.rho=1", "training.optimizer=momentum", "training.momentum=0.7",
          "training.weight_decay=0.05", "training.schedule=linear", "training.clip=0.3"}},
        {"data/dense.ini", {"training.weight_decay=0.1", NULL}},
        {"data/dense.ini",
         {"training.weight_decay=0.2", "decays.W1=0.3", "decays.W2=0.6", "decays.w=0", NULL}},
        {"data/dense.ini", {"training.batch=2", "training.order=shuffled", "data.test_inputs=3"}},
        {"data/regime1.ini",
         {"network.rho=1", "training.batch=3", "data.test_inputs=2", "output.test_every=3",
          "training.optimizer=momentum", "training.weight_decay=0.05"}},
        {"data/regime2.ini",
         {"network.gate=constant", "solver.expert_sites=512", "training.integrator=heun",
          "training.steps=4", "data.test_inputs=2", NULL}},
        {"data/regime2.ini",
         {"network.gate=constant", "solver.expert_sites=512", "training.integrator=bs32",
          "training.steps=4", "data.test_inputs=2", NULL}},
        {"data/dense.ini",
         {"training.integrator=bs32", "training.rtol=1e-4", "training.steps=4", NULL}},
        {"data/regime2.ini", {"network.gate=constant", "solver.expert_sites=512", NULL}},
        {"data/regime2_mup.ini", {"network.gate=constant", "solver.expert_sites=512", NULL}},
        {"data/regime3.ini",
         {"network.gate=constant", "solver.unit_sites=512", "solver.expert_sites=4",
          "training.optimizer=momentum", "training.weight_decay=0.02", NULL}},
        {"data/regime3_mup.ini",
         {"network.gate=constant", "solver.unit_sites=512", "solver.expert_sites=1", NULL}},
        LIST("data/transformer.ini", {"network.experts=0", "data.inputs=3", "data.tokens=4",
                                      "data.test_inputs=0", "solver.halves=no", NULL}),
        LIST("data/transformer.ini",
             {"network.experts=0", "data.inputs=3", "data.tokens=4", "data.test_inputs=1",
              "solver.halves=no", "training.batch=1"}),
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        FREED(both_free) struct both both = {0};
        both_init(&both, cases[i].file,
                  ARGS("network.activation=linear", "solver.sites=512", "solver.tolerance=1e-8",
                       "solver.replicates=1", "output.kernels=full", "training.steps=8",
                       "training.eta0=0.1", "solver.threads=1"),
                  cases[i].more, "solver.fp_tolerance=1e-10");
        const struct record *march = &both.record[0], *fixed = &both.record[1];
        for (int s = 0; s < march->count; s++) {
            const struct series *a = &march->series[s], *b = record_find(fixed, a->name);
            double largest = 1;
            if (!b || a->computation || a->name[1] == '_')
                continue; /* ranks; responses, which have noise */
            if (strstr(a->name, "accuracy"))
                continue; /* the sign of f, which is round-off before the first step */
            for (size_t k = 0; k < a->size; k++)
                largest = fmax(largest, fabs(a->values[k]));
            for (size_t k = 0; k < a->size; k++)
                if (!isnan(a->values[k]) || !isnan(b->values[k])) /* no test inputs are due */
                    CHECK_ABS(b->values[k], a->values[k], 1e-6 * largest, "case %zu, %s entry %zu",
                              i, a->name, k);
        }
    }
}

/* The response applied to a trajectory that it meets, at time t of run r: with M[mu][nu] =
 * sum_{s,k} R[t,mu][s,k] K[s,k][t,nu] and the targets y, the mean over mu of y_mu M[mu][mu]
 * (diagonal), or of sum_nu y_mu M[mu][nu] y_nu. */
static double action(const struct both *both, int k, const char *response, const char *kernel,
                     bool diagonal, int r, int t) {
    const struct record *record = &both->record[k];
    const struct series *R = record_find(record, response), *K = record_find(record, kernel);
    const double *y = both->run[k].data.y;
    size_t P = R->shape[1], n = (size_t)record->T * P;
    const double *row = record_at(record, R, r, t), *values = K->values + (size_t)r * K->size;
    double sum = 0;
    for (size_t a = 0; a < n; a++)
        for (size_t mu = 0; mu < P; mu++)
            for (size_t nu = 0; nu < P; nu++)
                if (!diagonal || mu == nu)
                    sum += y[mu] * row[mu * n + a] * values[a * n + (size_t)t * P + nu] *
                           (diagonal ? 1 : y[nu]);
    return sum / (double)P;
}

/* The same, mean and standard error over runs. */
static void mean_action(const struct both *both, int k, const char *response, const char *kernel,
                        bool diagonal, int t, double *mean, double *se) {
    double sum = 0, squares = 0, n = both->record[k].runs;
    for (int r = 0; r < both->record[k].runs; r++) {
        double x = action(both, k, response, kernel, diagonal, r, t);
        sum += x;
        squares += x * x;
    }
    *mean = sum / n;
    *se = sqrt(fmax(squares / n - *mean * *mean, 0) / (n - 1));
}

/* What both methods train, and how. Of a training that is more than gradient descent: a series, and
 * the key without which it has other values; networks judge these, too. */
enum { MOST = 8 };
static const struct each_entry {
    const char *file, *more[MOST], *moved, *without;
} each_entry[] = {
    {"data/dense.ini",
     {"training.integrator=bs32", "training.steps=3"},
     "Phi2",
     "training.dt=0.25"},
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
      "solver.expert_sites=256", "data.test_inputs=2", "output.test_every=2"},
     "Phib",
     "training.momentum=0"},
#define EXPERTS "output.kernels_of=psi phi h_in g_h_in", "output.field_sites=0"
#define PAIRS EXPERTS, "solver.expert_sites=64", "solver.unit_sites=64"
    {.file = "data/dense.ini", .more = {NULL}},
    {.file = "data/resnet.ini", .more = {"network.depth=2"}},
    {.file = "data/regime1.ini",
     .more = {"network.rho=1", "training.warmup=2", "training.clip=0.25"}},
    {.file = "data/regime2.ini",
     .more = {"network.rho=0.5", "training.eta0=0.8", "solver.expert_sites=512", EXPERTS}},
    {.file = "data/regime2_mup.ini",
     .more = {"training.eta0=0.8", "solver.expert_sites=512", EXPERTS}},
    {.file = "data/regime3.ini", .more = {PAIRS}},
    {.file = "data/regime3_mup.ini", .more = {PAIRS}},
    {.file = "data/residual.ini",
     .more = {"network.rho=1", "network.alpha=4", "network.expert_width=1",
              "network.bias_draws=normal", "data.inputs=4", "solver.expert_sites=512"}},
    {.file = "data/regime1.ini", .more = {"network.rho=1", "network.gate=sigmoid"}},
    {.file = "data/residual.ini",
     .more = {"network.rho=1", "data.inputs=4", "solver.unit_sites=256"}},
};
enum { ONLY_LONG = 2 }; /* the last ones */

/* How far two means are apart in the entry of a series where they are furthest, in units of what is
 * allowed, or one mean from 0 (b NULL): one of 1000 series has an entry that is further, for as
 * many degrees of freedom as either mean has. Errors of the same size, as these are, have twice as
 * many, and then it is one of 10^5. What is exactly 0 in the march is of order 1/sites by the fixed
 * point, as the noise of responses adds its square to a kernel: 1/64 of the largest entry. */
static double furthest(const struct record *a, const struct record *b, const char *name) {
    const struct record *of[] = {a, b ? b : a};
    size_t size = record_find(a, name)->size;
    double *mean[2], *se[2], largest = 0, scale = 0;
    double most = gsl_cdf_tdist_Qinv(0.5e-3 / (double)size, a->runs - 1);
    assert_int_equal(record_find(of[1], name)->size, size);
    for (int k = 0; k < 2; k++)
        ASK(record_average(of[k], name, &mean[k], &se[k], err));
    for (size_t i = 0; i < size; i++)
        scale = fmax(scale, fabs(mean[0][i]));
    for (size_t i = 0; i < size; i++) {
        double apart = fabs(mean[1][i] - (b ? mean[0][i] : 0));
        bool is_zero = b && mean[0][i] == 0 && se[0][i] == 0;
        assert_int_equal(isnan(mean[0][i]), isnan(mean[1][i])); /* it was not asked for */
        largest =
            fmax(largest, is_zero ? apart / scale * 64 : apart / hypot(se[0][i], se[1][i]) / most);
    }
    free(mean[0]); /* each one block with its errors */
    free(mean[1]);
    return largest;
}

/* How far a kernel between rows moves from t = 1 to the end where it moves most, in the same units:
 * that much of what is learned a comparison sees. */
static double moves(const struct record *record, const struct series *series) {
    size_t T = series->shape[0], P = series->shape[1];
    double *mean, *se, largest = 0;
    double most = gsl_cdf_tdist_Qinv(0.5e-3 / (double)series->size, record->runs - 1);
    ASK(record_average(record, series->name, &mean, &se, err));
    for (size_t k = 0; k < P * P; k++) { /* [t][mu][t][nu] */
        size_t from = ((P + k / P) * T + 1) * P + k % P,
               to = (((T - 1) * P + k / P) * T + T - 1) * P + k % P;
        largest = fmax(largest, fabs(mean[to] - mean[from]) / hypot(se[to], se[from]) / most);
    }
    free(mean);
    return largest;
}

/* Every series that both have. */
static void march_agrees(const struct each_entry *of, const struct record record[2]) {
    int compared = 0;
    double response = 0;
    for (int s = 0; s < record[0].count; s++) {
        const struct series *series = &record[0].series[s];
        const char *name = series->name;
        if (!record_find(&record[1], name) || series->computation || strstr(name, "accuracy"))
            continue; /* accuracies: the sign of f, which is round-off before the first step */
        double far = furthest(&record[0], &record[1], name);
        FAIL_IF(!(far < 1), "%s: %s is off by %.2f of what is allowed", of->file, name, far);
        if (!strncmp(name, "A_", 2) || !strncmp(name, "B_", 2))
            response = fmax(response, furthest(&record[1], NULL, name));
        if (!strncmp(name, "K_", 2) && series->axes == 4)
            assert_true(moves(&record[0], series) > 1);
        compared++;
    }
    print_message("%s: %d series agree, the largest response is %.1f of what is allowed\n",
                  of->file, compared, response);
    assert_true(compared > 10 && response > 4); /* not an agreement of zeros */
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

/* Entries move together, so the largest and the rms of z are judged, as in test_networks.c. Without
 * one key of the training the limit is somewhere else, by far more than is allowed, so that both
 * comparisons can fail. */
static void networks_agree(const struct each_entry *of, const char *const *keys,
                           struct record record[2]) {
    static const int widths[] = {32, 64, 128};
    struct run run[4];
    struct record networks[3], other = {0};
    double rms, unused;
    run_one(&run[3], of->file, keys, of->more, ARGS(of->without), 0, &other);
    for (int k = 0; k < 3; k++)
        run_one(&run[k], of->file, keys, of->more, ARGS("output.kernels=diagonal"), widths[k],
                &networks[k]);
    double largest = beside_networks(&record[1], networks, widths, &rms),
           without = beside_networks(&other, networks, widths, &unused),
           far = furthest(&other, &record[1], of->moved);
    print_message("    largest |z| %.2f, rms %.2f; with %s %.1f, and %s is off by %.1f\n", largest,
                  rms, of->without, without, of->moved, far);
    assert_true(largest < 4 && rms < 2 && without > 6 && far > 2);
    record_free(&other);
    for (int k = 0; k < 3; k++)
        record_free(&networks[k]);
    for (int k = 0; k < 4; k++)
        run_free(&run[k]);
}

/* Every entry of outputs, kernels and responses; of routers and single experts, too. */
TEST(entries_agree) {
    for (size_t c = 0; c < COUNT(each_entry) - (is_long ? 0 : ONLY_LONG); c++) {
        const struct each_entry *of = &each_entry[c];
        const char *const keys[] = {"reference.widths=32 64 128",
                                    is_long ? "reference.seeds=48" : "reference.seeds=20",
                                    of->without ? "solver.sites=256" : "solver.sites=512",
                                    "solver.halves=no", /* which the fixed point does not know */
                                    "output.kernels=full",
                                    "output.responses=yes",
                                    of->without || !is_long ? "solver.replicates=16"
                                                            : "solver.replicates=24",
                                    of->without ? "training.steps=7"
                                    : is_long   ? "training.steps=10"
                                                : "training.steps=5",
                                    NULL};
        FREED(both_free) struct both both = {0};
        both_init(&both, of->file, keys, of->more,
                  "solver.fp_tolerance=1e-3"); /* below the errors */
        march_agrees(of, both.record);
        if (of->without)
            networks_agree(of, keys, both.record);
    }
}

/* Top-K: the gradient of the logits jumps where the mask does, and the response of the router
 * contains it. Probes of 0.2 move many masks, and those of 1e-9 move none and miss it by many
 * standard errors. */
TEST(jumps_of_masks_respond) {
#define JUMPS                                                                                      \
    "network.rho=0.5", "solver.sites=1024", "solver.expert_sites=1024", "solver.replicates=12",    \
        "training.steps=6", "output.kernels=full", "output.responses=yes", "solver.tolerance=1e-4"
    double value[2], se[2], miss;
    FREED(both_free) struct both both = {0};
    both_init(&both, "data/regime2.ini", ARGS(JUMPS), ARGS(NULL), "solver.fp_tolerance=1e-3");
    for (int k = 0; k < 2; k++)
        mean_action(&both, k, "B_Q", "Phi1", true, 5, &value[k], &se[k]);
    CHECK_ABS(value[1], value[0], 4 * hypot(se[0], se[1]), "B_Q Phi1 with jumps");
    record_free(&both.record[1]);
    run_free(&both.run[1]);
    run_one(&both.run[1], "data/regime2.ini", ARGS(JUMPS), ARGS("solver.method=fixed_point"),
            ARGS("solver.probe=1e-9", "solver.fp_tolerance=1e-3"), 0, &both.record[1]);
    mean_action(&both, 1, "B_Q", "Phi1", true, 5, &value[1], &se[1]);
    miss = fabs(value[1] - value[0]) / hypot(se[0], se[1]);
    FAIL_IF(miss < 10, "without jumps B_Q Phi1 is off by only %.2g standard errors", miss);
}

/* The same bits on two threads and the shadow backend, where blocks of sites are shared out. */
TEST(bits_do_not_depend_on_where) {
    FREED(both_free) struct both both = {0};
    for (int k = 0; k < 2; k++)
        run_one(&both.run[k], "data/regime2.ini",
                ARGS("solver.method=fixed_point", "solver.sites=300", "solver.replicates=1"),
                ARGS("training.steps=4", "solver.max_sweeps=30"),
                k ? ARGS("solver.threads=2", "solver.backend=shadow") : ARGS("solver.threads=1"), 0,
                &both.record[k]);
    support_same(&both.record[0], &both.record[1]);
}
