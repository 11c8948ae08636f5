/* What the figures of studies/ claim, as exponents in the width with their errors: networks of the
 * same ini, fewer and narrower. The pictures themselves: test_studies.py. */
#include "tests/support/support.h"

enum { WIDTHS = 4 };

/* studies/NAME.ini up to [sweep], whose keys are among the overrides. */
static void open_study(struct run *run, const char *name, const char *const *overrides) {
    char path[64], copy[96], line[256];
    snprintf(path, sizeof path, "studies/%s.ini", name);
    snprintf(copy, sizeof copy, "build/test_studies_%s_%d.ini", name, (int)getpid());
    FILE *from = fopen(path, "r"), *to = fopen(copy, "w");
    assert_non_null(from);
    assert_non_null(to);
    while (fgets(line, sizeof line, from) && strncmp(line, "[sweep]", 7) != 0)
        fputs(line, to);
    fclose(from);
    assert_int_equal(fclose(to), 0);
    support_run(run, copy, overrides);
    remove(copy);
}

/* Exponent of |offset - mean over inputs| of a series at time t, over the widths of the run. */
static void exponent_of(const struct run *run, const struct record *records, const char *name,
                        double offset, int t, double *exponent, double *se) {
    double value[WIDTHS], error[WIDTHS];
    for (int i = 0; i < WIDTHS; i++) {
        const struct record *record = &records[i];
        const struct series *series = record_find(record, name);
        double sum = 0, squares = 0, n = record->runs;
        size_t P = series->size / (size_t)record->T;
        for (int r = 0; r < record->runs; r++) {
            double mean = 0;
            for (size_t mu = 0; mu < P; mu++)
                mean += record_at(record, series, r, t)[mu] / (double)P;
            sum += mean - offset;
            squares += (mean - offset) * (mean - offset);
        }
        value[i] = log(fabs(sum / n));
        error[i] = sqrt((squares - sum * sum / n) / (n * (n - 1))) / fabs(sum / n);
    }
    stats_exponent(run->config.reference.widths.value, value, error, WIDTHS, exponent, se);
}

static void run_widths(struct run *run, struct record *records) {
    assert_int_equal(run->config.reference.widths.count, WIDTHS);
    for (int i = 0; i < WIDTHS; i++)
        ASK(run_ensemble(run, run->config.reference.widths.value[i], run->config.reference.seeds,
                         &records[i], err));
}

static void free_widths(struct run *run, struct record *records) {
    for (int i = 0; i < WIDTHS; i++)
        record_free(&records[i]);
    run_free(run);
}

/* Errors below 0.2 keep 0 and -1 five of them apart. */
static void check_exponent(const struct run *run, const struct record *records, const char *name,
                           int t, double expected) {
    double exponent, se;
    exponent_of(run, records, name, 0, t, &exponent, &se);
    print_message("  %-12s t = %2d: %+.3f +- %.3f\n", name, t, exponent, se);
    if (!(fabs(exponent - expected) <= 4 * se && se < 0.2))
        fail_msg("%s at %d: exponent %g +- %g, not %g", name, t, exponent, se, expected);
}

/* Parts of the signals through the experts (docs/output.md, coordinate check) and their exponents
 * at t = 2, when all have begun. */
struct claim {
    const char *name;
    double mup;
};

static void open_parts(struct run *run, const char *study, const char *parameterization,
                       const char *steps, const char *seeds) {
    /* networks of regime 3 cost the most, and tell exponents apart at smaller widths */
    open_study(run, study,
               ARGS(parameterization, steps, seeds,
                    strcmp(study, "regime3") ? "reference.widths=32 64 96 128"
                                             : "reference.widths=32 48 64 96"));
}

/* In muP every W_out(0) costs N^-1/2, and, the read-out being zero at first, every update of what
 * lies below costs N^-1/2 or N^-1 more; in MSSP all parts are of order one. */
static void check_parts(const char *study, const struct claim *claims) {
    for (int mssp = 0; mssp < 2; mssp++) {
        struct run run;
        struct record records[WIDTHS];
        open_parts(&run, study,
                   mssp ? "network.parameterization=mssp" : "network.parameterization=mup",
                   "training.steps=3", "reference.seeds=20");
        run_widths(&run, records);
        for (int k = 0; claims[k].name; k++)
            check_exponent(&run, records, claims[k].name, 2, mssp ? 0 : claims[k].mup);
        free_widths(&run, records);
    }
}

/* At the end of the study what is learned has recovered, what passes through W_out(0) has not. */
TEST(regime2) {
    static const struct claim claims[] = {{"rms_A1", -0.5}, {"rms_A21", -1.5}, {"rms_A22", -1.5},
                                          {"rms_A3", -0.5}, {"rms_A4", -1},    {"rms_A6", -2},
                                          {NULL, 0}};
    struct run run;
    struct record records[WIDTHS];
    double exponent, se;
    check_parts("fig1_regime2", claims);
    open_parts(&run, "fig1_regime2", "network.parameterization=mup", "training.steps=81",
               "reference.seeds=12");
    run_widths(&run, records);
    check_exponent(&run, records, "rms_A1", 80, -0.5);
    exponent_of(&run, records, "rms_A3", 0, 80, &exponent, &se);
    print_message("  rms_A3 at the end: %+.3f +- %.3f\n", exponent, se);
    assert_true(exponent > -0.2);
    free_widths(&run, records);
}

TEST(regime3) {
    static const struct claim claims[] = {
        {"rms_A1", -0.5}, {"rms_A21", -1.5}, {"rms_A4", -1}, {NULL, 0}};
    check_parts("regime3", claims);
}

/* Exponent of the distance of the entropy/ln M from that of equal gates at the last step, and the
 * entropy of the widest network. */
static void distance(const char *parameterization, const char *rho, double equal, double *exponent,
                     double *se, double *entropy) {
    struct run run;
    struct record records[WIDTHS];
    double value, error;
    open_study(&run, "routers_freeze",
               ARGS("reference.widths=16 32 64 128", "reference.seeds=40", parameterization, rho));
    run_widths(&run, records);
    int last = run.config.training.steps - 1, P = run.data.P;
    exponent_of(&run, records, "router_entropy", equal, last, exponent, se);
    *entropy = 0;
    for (int mu = 0; mu < P; mu++) {
        support_entry(&records[WIDTHS - 1], "router_entropy", (size_t)(last * P + mu), &value,
                      &error);
        *entropy += value / P;
    }
    print_message("  %s %s: entropy %.4f, distance %+.3f +- %.3f\n", parameterization, rho,
                  *entropy, *exponent, *se);
    free_widths(&run, records);
}

/* SP: the router is the more concentrated the wider. muP: soft gates are equal but for O(1/N), half
 * of which 1 - entropy may be at N = 128; with top-2 they differ at every width. */
TEST(routers) {
    double exponent, se, entropy, soft, soft_se;
    distance("network.parameterization=sp", "network.rho=1", 1, &exponent, &se, &entropy);
    assert_true(exponent > 4 * se && entropy < 0.8);
    distance("network.parameterization=mup", "network.rho=1", 1, &soft, &soft_se, &entropy);
    assert_true(fabs(soft + 1) < 4 * soft_se && soft_se < 0.1 && entropy > 0.996);
    distance("network.parameterization=mup", "network.rho=0.5", 0.5, &exponent, &se, &entropy);
    assert_true(exponent - soft > 4 * hypot(se, soft_se));
}
