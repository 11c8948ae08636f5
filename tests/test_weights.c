/* Weights of inputs: an input that counts k times is trained on, and measured, as if it stood k
 * times in the data. */
#define _POSIX_C_SOURCE 200809L
#include "integrators/fixed_point.h"
#include "tests/support/cli.h"
#include "tests/support/data_file.h"
#include "tests/support/support.h"

static char folder[] = "/tmp/test_weights_XXXXXX";
static char path[2][64], stored[64];

static int make_files(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path[0], sizeof path[0], "%s/weights.h5", folder);
    snprintf(path[1], sizeof path[1], "%s/again.h5", folder);
    snprintf(stored, sizeof stored, "%s/data.h5", folder);
    return 0;
}

static int remove_files(void **state) {
    (void)state;
    remove(path[0]);
    remove(path[1]);
    remove(stored);
    return rmdir(folder);
}

/* --- training -------------------------------------------------------------------------------- */

#define FIRST "1.2,-0.3,0.7,%s%s\n"
#define SECOND "-0.4,1.1,0.2,%s%s\n"
#define THIRD "0.1,0.8,-1.6,%s%s\n"

/* The three inputs with weights 6, 3 and 3, whose sum does not matter; and 2, 1 and 1 times. */
static void write_both(const char *const y[3]) {
    char text[2][512];
    snprintf(text[0], sizeof text[0], FIRST SECOND THIRD, y[0], ",6", y[1], ",3", y[2], ",3");
    snprintf(text[1], sizeof text[1], FIRST FIRST SECOND THIRD, y[0], "", y[0], "", y[1], "", y[2],
             "");
    cli_lines(path[0], text[0], true);
    cli_lines(path[1], text[1], false);
}

static void measured(struct record *record, int again, int N, const char *more) {
    FREED(run_free) struct run run;
    support_run_text(&run, NULL,
                     "[data]\nsource = file\nfile = %s\n%s\n[output]\nsharpness = sum\n%s\n"
                     "[reference]\nwidths = 16\nseeds = 2\n"
                     "[solver]\nsites = 64\nreplicates = 2\ntolerance = 1e-8\n"
                     "draws = normal\n",
                     path[again], again ? "" : "weight = w", more);
    support_ensemble(&run, N, record);
}

/* Loss, accuracy, sharpness and f of the inputs once and, their place in the other file being one
 * later but for the first, twice. */
static void compare(int N, const char *more, double tolerance) {
    static const char *const same[] = {"loss", "accuracy", "margin", "sharpness", "rate_greedy"};
    FREED(record_free) struct record one, other;
    measured(&one, 0, N, more);
    measured(&other, 1, N, more);
    double mean, se, want;
    int T = one.T, outputs = (int)(record_find(&one, "f")->size / (size_t)(3 * T));
    assert_true(support_value(&one, "loss", 0, T - 1, 0) <
                0.9 * support_value(&one, "loss", 0, 0, 0));
    for (int t = 0; t < T; t++) {
        support_entry(&one, "loss", (size_t)t, &mean, &se);
        support_entry(&other, "loss", (size_t)t, &want, &se);
        CHECK_ABS(mean, want, tolerance, "mean loss, N = %d, t = %d\n%s", N, t, more);
        for (size_t k = 0; k < sizeof same / sizeof *same; k++)
            if (record_find(&one, same[k])) {
                want = support_value(&other, same[k], 0, t, 0);
                CHECK_ABS(support_value(&one, same[k], 0, t, 0), want,
                          tolerance * fmax(1, fabs(want)), "%s, N = %d, t = %d\n%s", same[k], N, t,
                          more);
            }
        for (int k = 0; k < 3 * outputs; k++)
            CHECK_ABS(support_value(&one, "f", 0, t, (size_t)k),
                      support_value(&other, "f", 0, t, (size_t)(k + (k < outputs ? 0 : outputs))),
                      tolerance, "f %d, N = %d, t = %d\n%s", k, N, t, more);
    }
}

#define LABELS                                                                                     \
    (const char *const[3]) {                                                                       \
        "1", "-1", "1"                                                                             \
    }
#define CLASSES                                                                                    \
    (const char *const[3]) {                                                                       \
        "0", "1", "2"                                                                              \
    }
#define STEPS "[training]\nsteps = 6\neta0 = 0.3\n"

/* The two trainings add the same terms in another order: round-off, which is some 1e-16 for each
 * of six steps of sums of a hundred terms. */
TEST(test_networks) {
    write_both(LABELS);
    compare(16, "[network]\nmodel = dense\n" STEPS, 1e-12);
    compare(16, "[network]\nmodel = dense\n" STEPS "loss = logistic\noptimizer = momentum\n",
            1e-12);
    compare(16, "[network]\nmodel = dense\n" STEPS "optimizer = adam\neps = 0.1\nclip = 0.5\n",
            1e-12);
    compare(16, "[network]\nmodel = regime1\nparameterization = mssp\n" STEPS "integrator = heun\n",
            1e-12);
    compare(16, "[network]\nmodel = regime2\nparameterization = mssp\nrho = 0.5\n" STEPS, 1e-12);
    write_both(CLASSES);
    compare(16, "[network]\nmodel = dense\n" STEPS "loss = cross_entropy\n", 1e-12);
}

TEST(test_limits) {
    write_both(LABELS);
    compare(0, "[network]\nmodel = dense\n" STEPS, 1e-8);
    compare(0, "[network]\nmodel = regime2\nparameterization = mssp\n" STEPS, 1e-8);
    write_both(CLASSES);
    compare(0, "[network]\nmodel = dense\n" STEPS "loss = cross_entropy\n", 1e-8);
}

/* The loss of a batch of two, which go around the three inputs, of outputs f [2]. */
static double loss_of_batch(int t, const double *f) {
    static const double y[] = {1, -1, 1}, weight[] = {1.5, 0.75, 0.75};
    double loss = 0;
    for (int k = 0; k < 2; k++)
        loss += weight[(2 * t + k) % 3] * 0.5 * pow(y[(2 * t + k) % 3] - f[k], 2) / 2;
    return loss;
}

/* That of networks is their own; that of a limit of two replicates is of the mean f, by the
 * jackknife 2 l(mean) - mean of l. */
TEST(test_batches) {
    write_both(LABELS);
    for (int N = 0; N <= 16; N += 16) {
        FREED(record_free) struct record record;
        double mean[2], own[2], got, se;
        measured(&record, 0, N, "[network]\nmodel = dense\n" STEPS "batch = 2\n");
        for (int t = 0; t < record.T; t++) {
            for (int r = 0; r < 2; r++)
                own[r] = loss_of_batch(t, record_at(&record, record_find(&record, "f"), r, t));
            for (int k = 0; k < 2; k++)
                mean[k] = (support_value(&record, "f", 0, t, (size_t)k) +
                           support_value(&record, "f", 1, t, (size_t)k)) /
                          2;
            double want = (own[0] + own[1]) / 2;
            support_entry(&record, "loss", (size_t)t, &got, &se);
            CHECK_ABS(got, N ? want : 2 * loss_of_batch(t, mean) - want, 1e-14,
                      "loss, N = %d, t = %d", N, t);
        }
    }
}

/* A step is -rate times the gradient of the loss that is written. */
TEST(test_gradient) {
    FREED(run_free) struct run run;
    write_both(LABELS);
    support_run_text(&run, NULL,
                     "[network]\nmodel = dense\n[data]\nsource = file\nfile = %s\nweight = w\n"
                     "[reference]\nwidths = 8\n",
                     path[0]);
    support_gradient(&run, 8, 3);
}

/* --- what is read, and what is refused ------------------------------------------------------- */

static const struct data_wanted weighted = {.loss = &loss_mse, .most = 100, .weight = "w"};

TEST(test_values) {
    const struct set sets[] =
        LIST({2, {3, 2}, "double", NULL}, {1, {3}, "double", NULL},
             {1, {3}, "int", (const double[]){1, 2, 3}}, {2, {2, 2}, "double", NULL},
             {1, {2}, "double", NULL}, {1, {2}, "float", (const double[]){0.5, 1.5}});
    static const char *const names[] = {"X", "y", "w", "X_test", "y_test", "w_test"};
    static const double want[] = {0.5, 1, 1.5, 0.5, 1.5};
    FREED(data_free) struct data data;
    write_sets(stored, 6, names, sets, "");
    ASK(data_read(&data, stored, &weighted, err));
    assert_memory_equal(data.weight, want, sizeof want);
    data_free(&data);
    write_sets(stored, 5, names, sets, ""); /* test inputs without weights count once */
    ASK(data_read(&data, stored, &weighted, err));
    assert_true(data.weight[2] == 1.5 && data.weight[3] == 1 && data.weight[4] == 1);
    data_free(&data);
    ASK(data_read(&data, stored, &(struct data_wanted){.loss = &loss_mse, .most = 100}, err));
    assert_true(!data.weighted && !data.weight);
}

static void refused(const struct set *weights, const char *part) {
    const struct set sets[] = {{2, {3, 2}, "double", NULL}, {1, {3}, "double", NULL}, *weights};
    struct data data;
    struct err err = {0};
    write_sets(stored, 3, (const char *const[]){"X", "y", "w"}, sets, "");
    int code = data_read(&data, stored, &weighted, &err);
    if (code != CODE_INPUT || !strstr(err.text, part) || !strstr(err.text, stored) || data.X)
        fail_msg("code %d, or no \"%s\" in: %s", code, part, err.text);
}

TEST(test_refusals) {
    refused(&(struct set){1, {3}, "double", (const double[]){1, 0, 1}},
            "w[1] = 0, where weights are positive");
    refused(&(struct set){1, {3}, "double", (const double[]){1, 1, -2}}, "w[2] = -2");
    refused(&(struct set){1, {3}, "double", (const double[]){1, NAN, 1}}, "w[1] is NaN");
    refused(&(struct set){1, {2}, "double", NULL}, "w has 2 weights for 3 inputs");
    refused(&(struct set){2, {3, 1}, "double", NULL}, "w has rank 2, needed is 1");
    refused(&(struct set){.rank = -1}, "has no dataset w");
}

/* What counts every input once cannot be beside weights. */
TEST(test_what_knows_no_weights) {
    static const STRUCT(const char *settings, *part) cases[] = {
        {"model = regime1\nparameterization = mssp\nrho = 0.5\nbalance_loss = 0.1\nbias = "
         "fixed\nbias_std = 1\n",
         "a mean over the inputs"},
        {"model = regime1\nparameterization = mssp\nz_loss = 0.1\n", "a term of the loss"},
        {"model = regime1\nparameterization = mssp\nrho = 0.5\neta_bias = 0.1\nbias = "
         "fixed\nbias_std = 1\n",
         "eta_bias"},
        {"model = regime2\nparameterization = mssp\nrho = 0.5\nbalance_loss = 0.1\n",
         "a mean over the inputs"},
        {"model = regime2\nparameterization = mssp\nrho = 0.5\neta_bias = 0.1\n", "eta_bias"},
    };
    write_both(LABELS);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        FREED(run_free) struct run run;
        FREED(net_free) struct net net = {0};
        struct err err = {0};
        support_run_text(&run, NULL,
                         "[network]\n%s[data]\nsource = file\nfile = %s\nweight = w\n"
                         "[reference]\nwidths = 16\n",
                         cases[k].settings, path[0]);
        struct net_setup setup = run_setup(&run, 16, 0);
        int code = net_init(&net, &setup, &err);
        if (code != CODE_INPUT || !strstr(err.text, cases[k].part))
            fail_msg("code %d, or no \"%s\" in: %s", code, cases[k].part, err.text);
    }
}

AROUND_TESTS(make_files, remove_files)
