/* The limit by fixed-point iteration: linear networks and every other network against the march,
 * responses, jumps. */
#include "tests/support/support.h"

#include <gsl/gsl_cdf.h>

/* A run by each method. */
struct both {
    struct run run[2];
    struct record record[2];
};

/* more: of both; fixed: of the fixed point alone, or NULL. */
static void both_init(struct both *both, const char *file, const char *const *more,
                      const char *const *fixed) {
    const char *overrides[32] = {"reference.widths=", "solver.method=march"};
    int n = 2;
    while (*more)
        overrides[n++] = *more++;
    *both = (struct both){0};
    for (int k = 0; k < 2; k++) {
        overrides[1] = k ? "solver.method=fixed_point" : "solver.method=march";
        while (k && fixed && *fixed)
            overrides[n++] = *fixed++;
        support_run(&both->run[k], file, overrides);
        ASK(run_ensemble(&both->run[k], 0, both->run[k].config.solver.replicates, &both->record[k],
                         err));
    }
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
    static const struct {
        const char *file, *more[7];
    } cases[] = {
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
         {"network.gate=constant", "solver.expert_sites=1024", "training.integrator=heun",
          "training.steps=4", "data.test_inputs=2", NULL}},
        {"data/regime2.ini",
         {"network.gate=constant", "solver.expert_sites=1024", "training.integrator=bs32",
          "training.steps=4", "data.test_inputs=2", NULL}},
        {"data/dense.ini",
         {"training.integrator=bs32", "training.rtol=1e-4", "training.steps=4", NULL}},
        {"data/regime2.ini", {"network.gate=constant", "solver.expert_sites=1024", NULL}},
        {"data/regime2_mup.ini", {"network.gate=constant", "solver.expert_sites=1024", NULL}},
        {"data/regime3.ini",
         {"network.gate=constant", "solver.unit_sites=512", "solver.expert_sites=4",
          "training.optimizer=momentum", "training.weight_decay=0.02", NULL}},
        {"data/regime3_mup.ini",
         {"network.gate=constant", "solver.unit_sites=512", "solver.expert_sites=1", NULL}},
        {"data/transformer.ini",
         {"network.experts=0", "data.inputs=3", "data.tokens=4", "data.test_inputs=0",
          "solver.halves=no", NULL}},
        {"data/transformer.ini",
         {"network.experts=0", "data.inputs=3", "data.tokens=4", "data.test_inputs=1",
          "solver.halves=no", "training.batch=1"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *more[16] = {"network.activation=linear", "solver.sites=1024",
                                "solver.tolerance=1e-8",     "solver.replicates=1",
                                "output.kernels=full",       "training.steps=8",
                                "training.eta0=0.1",         "solver.threads=1"};
        FREED(both_free) struct both both;
        for (int n = 8, k = 0; cases[i].more[k]; k++)
            more[n++] = cases[i].more[k];
        both_init(&both, cases[i].file, more, ARGS("solver.fp_tolerance=1e-10"));
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

/* Mean over inputs of the entries of run r at time t; of f: times the target. */
static double input_mean(const struct both *both, int k, const struct series *series, int r,
                         int t) {
    const struct record *record = &both->record[k];
    const double *row = record_at(record, series, r, t);
    size_t P = series->size / series->shape[0];
    double sum = 0;
    for (size_t mu = 0; mu < P; mu++)
        sum += row[mu] * (strcmp(series->name, "f") ? 1 : both->run[k].data.y[mu]) / (double)P;
    return sum;
}

/* Fixed point minus march of one quantity, and its standard error. */
static void difference(const struct both *both, const char *name, int t, double *value,
                       double *se) {
    *value = *se = 0;
    for (int k = 0; k < 2; k++) {
        const struct record *record = &both->record[k];
        const struct series *series = record_find(record, name);
        double sum = 0, squares = 0, n = record->runs;
        for (int r = 0; r < record->runs; r++) {
            double x = input_mean(both, k, series, r, t);
            sum += x;
            squares += x * x;
        }
        *value += (k ? 1 : -1) * sum / n;
        *se = hypot(*se, sqrt(fmax(squares / n - sum / n * sum / n, 0) / (n - 1)));
    }
}

/* f and all equal-time kernels, averaged over inputs, at three times. Both methods have a bias of
 * order 1/sites (noise of the responses adds its square to a kernel), so the difference D is
 * extrapolated: (4 D(4 S) - D(S))/3, and must vanish within 4 standard errors. */
static void agree(const char *file, const char *const more[2][16]) {
    struct both both[2]; /* S, 4 S */
    for (int i = 0; i < 2; i++)
        both_init(&both[i], file, more[i], NULL);
    const struct record *record = &both[0].record[0];
    for (int s = 0; s < record->count; s++) {
        const char *name = record->series[s].name;
        if (strcmp(name, "f") != 0 && !strstr(name, "_diag"))
            continue;
        for (int i = 1; i <= 3; i++) {
            int t = i * (record->T - 1) / 3;
            double D[2], se[2];
            for (int k = 0; k < 2; k++)
                difference(&both[k], name, t, &D[k], &se[k]);
            CHECK_ABS((4 * D[1] - D[0]) / 3, 0, 4 * hypot(4 * se[1], se[0]) / 3, "%s: %s at t = %d",
                      file, name, t);
        }
    }
    both_free(&both[0]);
    both_free(&both[1]);
}

TEST(networks_agree) {
    static const struct {
        const char *file, *more[7];
    } cases[] = {
        {"data/dense.ini", {NULL}},
        {"data/resnet.ini", {"network.depth=2", NULL}},
        {"data/regime1.ini", {NULL}},
        {"data/regime1.ini", {"network.gate=sigmoid", "network.rho=1", NULL}},
        {"data/regime2.ini", {NULL}},
        {"data/regime2_mup.ini", {NULL}},
        {"data/regime2.ini", {"network.rho=0.5", NULL}},
        {"data/regime3.ini", {NULL}},
        {"data/regime3_mup.ini", {NULL}},
        {"data/residual.ini", {"network.rho=1", "data.inputs=4", NULL}},
        {"data/residual.ini",
         {"network.rho=1", "network.alpha=4", "network.expert_width=1", "network.bias_draws=normal",
          "data.inputs=4", NULL}},
        {"data/regime1.ini", {"network.rho=1", "training.warmup=2", "training.clip=0.25", NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *more[2][16];
        if (!is_long && i != 1 && i != 6 && i != 8 && i < 10)
            continue;
        bool residual = strstr(cases[i].file, "residual"), pairs = strstr(cases[i].file, "regime3");
        bool units = pairs || (residual && !cases[i].more[2]);
        bool experts = strstr(cases[i].file, "regime2") || (residual && !units);
        for (int k = 0; k < 2; k++) {
            int n = 0;
            more[k][n++] = "solver.replicates=12";
            more[k][n++] = "solver.halves=no"; /* which the fixed point does not know */
            more[k][n++] = residual  ? "training.steps=7"
                           : is_long ? "training.steps=16"
                                     : "training.steps=7";
            more[k][n++] = k ? "solver.sites=512" : "solver.sites=128";
            if (units)
                more[k][n++] = k ? "solver.unit_sites=256" : "solver.unit_sites=64";
            if (pairs)
                more[k][n++] = k ? "solver.expert_sites=64" : "solver.expert_sites=16";
            if (experts)
                more[k][n++] = k ? "solver.expert_sites=512" : "solver.expert_sites=128";
            for (int j = 0; cases[i].more[j]; j++)
                more[k][n++] = cases[i].more[j];
            more[k][n] = NULL;
        }
        agree(cases[i].file, (const char *const(*)[16])more);
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

/* Every entry of every response: one is off by more than `most` standard errors by chance in one of
 * 1000 such series. Returns the largest in units of that. */
static double compare_responses(const struct both *both, const struct series *series,
                                const char *file) {
    double *mean[2], *se[2], largest = 0;
    double most = gsl_cdf_tdist_Qinv(0.5e-3 / (double)series->size, both->record[0].runs - 1);
    for (int k = 0; k < 2; k++)
        ASK(record_average(&both->record[k], series->name, &mean[k], &se[k], err));
    for (size_t i = 0; i < series->size; i++) {
        double both_se = hypot(se[0][i], se[1][i]);
        CHECK_ABS(mean[0][i], mean[1][i], most * both_se, "%s, %s entry %zu", file, series->name,
                  i);
        largest = both_se > 0 ? fmax(largest, fabs(mean[1][i]) / both_se) : largest;
    }
    free(mean[0]);
    free(mean[1]);
    return largest / most;
}

/* March and fixed point measure them in networks that have nothing in common but the program. */
TEST(responses_agree) {
    static const struct {
        const char *file, *more[3];
    } cases[] = {
        {"data/dense.ini", {NULL}},
        {"data/dense.ini", {"training.integrator=heun", "training.substeps=2"}},
        {"data/regime1.ini", {"network.rho=1"}},
        {"data/regime2.ini", {"solver.expert_sites=512"}},
        {"data/regime2_mup.ini", {"solver.expert_sites=512"}},
        {"data/regime3.ini", {"solver.expert_sites=64", "solver.unit_sites=64"}},
        {"data/regime3_mup.ini", {"solver.expert_sites=64", "solver.unit_sites=64"}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *more[16] = {"solver.sites=512", "solver.replicates=24", "training.steps=5",
                                "output.kernels=none", "output.responses=yes"};
        double largest = 0;
        FREED(both_free) struct both both;
        memcpy(more + 5, cases[c].more, sizeof cases[c].more);
        both_init(&both, cases[c].file, more, NULL);
        for (int s = 0; s < both.record[0].count; s++)
            if (both.record[0].series[s].name[1] == '_')
                largest = fmax(largest,
                               compare_responses(&both, &both.record[0].series[s], cases[c].file));
        if (!(largest > 4)) /* not an agreement of zeros */
            fail_msg("%s: at most %g of what is allowed", cases[c].file, largest);
    }
}

/* Top-K: the gradient of the logits jumps where the mask does, and the response of the router
 * contains it. Probes of 0.2 move many masks, and those of 1e-9 move none and miss it by many
 * standard errors. */
TEST(jumps_of_masks_respond) {
    const char *const more[] = {
        "network.rho=0.5",      "solver.sites=1024",     "solver.expert_sites=1024",
        "solver.replicates=12", "training.steps=6",      "output.kernels=full",
        "output.responses=yes", "solver.tolerance=1e-4", NULL};
    double value[2], se[2], miss;
    FREED(both_free) struct both both;
    both_init(&both, "data/regime2.ini", more, NULL);
    for (int k = 0; k < 2; k++)
        mean_action(&both, k, "B_Q", "Phi1", true, 5, &value[k], &se[k]);
    CHECK_ABS(value[1], value[0], 4 * hypot(se[0], se[1]), "B_Q Phi1 with jumps");
    both_free(&both);
    both_init(&both, "data/regime2.ini", more, ARGS("solver.probe=1e-9"));
    mean_action(&both, 1, "B_Q", "Phi1", true, 5, &value[1], &se[1]);
    miss = fabs(value[1] - value[0]) / hypot(se[0], se[1]);
    if (miss < 10)
        fail_msg("without jumps B_Q Phi1 is off by only %.2g standard errors", miss);
}

/* The same bits for any number of threads, and on the shadow backend. */
TEST(bits_do_not_depend_on_where) {
    const char *const other[] = {"solver.threads=2", "solver.backend=shadow"};
    for (int i = 0; i < 2; i++) {
        FREED(two_runs_free) struct run run[2];
        FREED(two_records_free) struct record record[2] = {0};
        for (int k = 0; k < 2; k++) {
            const char *overrides[] = {"solver.method=fixed_point",
                                       "reference.widths=",
                                       "solver.sites=300",
                                       "solver.replicates=1",
                                       "training.steps=4",
                                       "solver.max_sweeps=30",
                                       k ? other[i] : "solver.threads=1",
                                       NULL};
            support_run(&run[k], "data/regime2.ini", overrides);
            ASK(run_ensemble(&run[k], 0, 1, &record[k], err));
        }
        for (int s = 0; s < record[0].count; s++)
            assert_memory_equal(record[0].series[s].values, record[1].series[s].values,
                                record[0].series[s].size * sizeof(double));
    }
}

/* With "long": more steps. */
