/* Several outputs in every network: explicit matrices against finite differences of the loss, and
 * the dense one against its oracle with C outputs. That one output is the same with its
 * loss inside of the cotangents: tests/test_transformer_limit.c. */
#include "tests/support/couple.h"
#include "tests/support/sequences.h"

static const struct sequences inputs = {4, 1, 3, false, 0, NULL, false};
static const char *const losses[] = {"loss = mse", "loss = cross_entropy"};

/* Row mu of the targets of all tokens, [n C]. */
static void targets_of_input(const struct data *data, int mu, double *row) {
    size_t C = (size_t)data->C, n = (size_t)data->n;
    for (size_t i = 0; i < n * C; i++) {
        size_t place = (size_t)mu * n + i / C;
        row[i] = data->numbered ? data->y[place] == (double)(i % C) : data->y[place * C + i % C];
    }
}

/* The alignment of the tangent kernel with targets of tokens, one-hot rows of a file and classes,
 * is sum K (Y Y^T) / (|K| |Y Y^T|), a row of Y having all tokens of an input. Round-off of some
 * dozen terms. */
TEST(targets_of_tokens_are_aligned) {
    const struct sequences sequences = {.P = 4, .n = 3, .C = 2, .per_token = true};
    for (int kind = 0; kind < 2; kind++) {
        RUN_AND_RECORD;
        if (kind)
            assert_true(support_small(&run, support_model("transformer"),
                                      ARGS("output.tangent=sum", "output.spectra=tangent")));
        else
            sequences_run(&run, &sequences, "model = regime2\nkappa = 0.5\nexpert_width = 2",
                          "loss = cross_entropy\nsteps = 3\n[reference]\nwidths = 16\n[output]\n"
                          "tangent = sum\nspectra = tangent");
        assert_int_equal(run.data.numbered, kind);
        assert_true(run.data.n > 1);
        ASK(run_ensemble(&run, 16, 1, &record, err));
        int P = run.data.P, columns = run.data.n * run.data.C;
        double Y[P][columns], both = 0, norm[2] = {0}, sum = 0;
        for (int mu = 0; mu < P; mu++)
            targets_of_input(&run.data, mu, Y[mu]);
        for (int k = 0; k < P * P; k++) {
            double K = support_value(&record, "tangent", 0, 2, (size_t)k), g = 0;
            for (int c = 0; c < columns; c++)
                g += Y[k / P][c] * Y[k % P][c];
            both += K * g, norm[0] += K * K, norm[1] += g * g;
        }
        CHECK_ABS(support_value(&record, "tangent_alignment", 0, 2, 0),
                  both / sqrt(norm[0] * norm[1]), 1e-13, "alignment, kind %d", kind);
        for (int k = 0; k < P; k++)
            sum += support_value(&record, "tangent_share", 0, 2, (size_t)k);
        CHECK_ABS(sum, 1, 1e-13, "shares, kind %d", kind);
    }
}

/* The gradient of one input is that of all, however many tokens and outputs it has: there is no
 * noise. Round-off of some dozen terms. */
TEST(one_input_has_no_noise) {
    for (int P = 1; P <= 4; P += 3) {
        const struct sequences sequences = {.P = P, .n = 3, .C = 2, .per_token = true};
        RUN_AND_RECORD;
        sequences_run(&run, &sequences, "model = regime2\nkappa = 0.5\nexpert_width = 2",
                      "loss = cross_entropy\nsteps = 2\n[reference]\nwidths = 16\n[output]\n"
                      "sharpness = sum");
        ASK(run_ensemble(&run, 16, 1, &record, err));
        double square = support_value(&record, "gradient_square", 0, 1, 0),
               noise = support_value(&record, "gradient_noise", 0, 1, 0);
        assert_true(square > 0 && (P == 1 || noise > 1e-3 * square));
        if (P == 1)
            CHECK_ABS(noise / square, 0, 1e-14, "noise of one input");
    }
}

/* The noise of the gradient and its square, at each of 40 times of a network that stands still. */
enum { STANDS = 40 };
static void noise_of_batches(int batch, double noise[STANDS], double square[STANDS]) {
    const struct sequences sequences = {.P = 4, .n = 3, .C = 2, .per_token = true};
    RUN_AND_RECORD;
    TEXT(training, 160,
         "loss = cross_entropy\nsteps = %d\neta0 = 1e-30\nbatch = %d\n%s[reference]\n"
         "widths = 16\n[output]\nsharpness = sum",
         STANDS, batch, batch ? "order = shuffled\n" : "");
    sequences_run(&run, &sequences, "model = regime2\nkappa = 0.5\nexpert_width = 2", training);
    ASK(run_ensemble(&run, 16, 1, &record, err));
    for (int t = 0; t < STANDS; t++) {
        noise[t] = support_value(&record, "gradient_noise", 0, t, 0);
        square[t] = support_value(&record, "gradient_square", 0, t, 0);
    }
}

/* Over all batches of 2 of 4 inputs the estimates are on average those of all inputs; a batch of 4
 * has the numbers of all, and one of a single input tells nothing. Round-off. */
TEST(noise_of_batches_is_that_of_all) {
    double noise[STANDS], square[STANDS], all, whole, sum[2] = {0};
    int pairs = 0;
    noise_of_batches(0, noise, square);
    all = noise[0];
    whole = square[0];
    noise_of_batches(4, noise, square);
    CHECK_ABS(noise[0], all, 1e-12 * all, "noise of a batch of all inputs");
    CHECK_ABS(square[0], whole, 1e-12 * whole, "square of a batch of all inputs");
    noise_of_batches(1, noise, square);
    assert_true(isnan(noise[0]) && isnan(square[0]));
    noise_of_batches(2, noise, square);
    for (int t = 0; t < STANDS; t++) {
        int before = 0;
        while (before < t && fabs(noise[before] - noise[t]) > 1e-9 * all)
            before++;
        if (before < t)
            continue;
        sum[0] += noise[t] / 6;
        sum[1] += square[t] / 6;
        pairs++;
    }
    assert_int_equal(pairs, 6);
    CHECK_ABS(sum[0], all, 1e-12 * all, "mean noise of the pairs");
    CHECK_ABS(sum[1], whole, 1e-12 * whole, "mean square of the pairs");
}

/* Sums have fewer than 200 terms of order one: round-off is below 200 eps = 4e-14, amplified in
 * four steps by no more than the loss falls, 10: 1e-12. */
TEST(equals_oracle) {
    for (const struct couple_oracle *const *kind = couple_list; *kind; kind++)
        for (int k = 0; (*kind)->settings[k / 2]; k++) {
            char training[128], network[256];
            FREED(couple_close) struct couple p;
            snprintf(training, sizeof training,
                     "eta0 = 0.2\n%s\n[solver]\nreplicates = 0\n[reference]\nwidths = 16\n"
                     "centre = no",
                     losses[k % 2]);
            snprintf(network, sizeof network, "model = %s\n%s", (*kind)->model,
                     (*kind)->settings[k / 2]);
            sequences_run(&p.run, &inputs, network, training);
            couple_open(&p, 16, 0, "%.200s", network);
            couple_train(&p, 4, 1e-12);
        }
}

/* Terms of the coordinate check that it measures twice: among the composite terms, from the
 * cotangents of all outputs, and matrix by matrix. Inputs do not change and get nothing
 * back; nor does the cotangent of f change. */
TEST(terms_that_are_measured_twice) {
    static const struct {
        const char *composite, *direct;
    } term[] = LIST({"rms_d1r", "rms_Q_back"}, {"rms_I6_init", "rms_W_in_back_init"},
                    {"rms_I6_prop", "rms_W_in_back_prop"}, {"rms_I6_eff", "rms_W_in_back_eff"});
    static const struct sequences cases[] = {{.P = 4, .n = 1, .C = 3},
                                             {.P = 2, .n = 2, .C = 3, .per_token = true}};
    static const char *const none[] = {"rms_W1_prop", "rms_W1_back", "rms_W1_back_init",
                                       "rms_W1_delta", "rms_w_back_prop"};
    for (int i = 0; i < 2; i++) {
        RUN_AND_RECORD;
        sequences_run(&run, &cases[i], "model = regime2\nkappa = 0.5\nexpert_width = 2",
                      "steps = 3\neta0 = 0.5\n[reference]\nwidths = 16\n"
                      "coordinate_check = yes");
        ASK(run_ensemble(&run, 16, 1, &record, err));
        for (size_t k = 0; k < COUNT(none); k++)
            assert_null(record_find(&record, none[k]));
        for (int k = 0; k < 8; k++) {
            int t = 1 + k / 4;
            double direct = *record_at(&record, record_find(&record, term[k % 4].direct), 0, t) /
                            run.config.training.gamma0;
            CHECK_ABS(*record_at(&record, record_find(&record, term[k % 4].composite), 0, t),
                      direct, 1e-9 * direct, "case %d, %s at t = %d", i, term[k % 4].direct, t);
            assert_true(direct > 1e-3);
        }
    }
}

/* At equal times the kernel of the read-out is one between outputs, and with one output a number;
 * what is said of tangent kernels goes with the number of outputs; targets have a share of the
 * tangent kernel of the outputs, however many there are, and none of that of the loss. */
TEST(kernels_of_outputs) {
    enum { T = 2 };
    for (int C = 1; C <= 3; C += 2) {
        const struct sequences sequences = {.P = 4, .n = 1, .C = C};
        RUN_AND_RECORD;
        sequences_run(&run, &sequences, "model = regime2\nkappa = 0.5\nexpert_width = 2",
                      "steps = 2\n[reference]\nwidths = 16\n[output]\nkernels = equal\n"
                      "tangent = sum\nspectra = tangent tangent_loss");
        ASK(run_ensemble(&run, 16, 1, &record, err));
        const struct series *diagonal = record_find(&record, "G3_diag"),
                            *equal = record_find(&record, "G3_equal");
        assert_string_equal(diagonal->dims, C == 1 ? "t" : "t c");
        assert_string_equal(equal->dims, C == 1 ? "t" : "t c d");
        assert_int_equal(equal->size, T * C * C);
        const char *about = record_find(&record, "tangent")->about,
                   *loss = record_find(&record, "tangent_loss")->about;
        assert_int_equal(strstr(about, "the mean over the outputs") != NULL, C > 1);
        assert_non_null(strstr(loss, "gradients of the loss"));
        for (int k = 0; k < 4; k++) {
            static const char *const names[] = {"tangent_spectrum", "tangent_share",
                                                "tangent_loss_spectrum", "tangent_loss_share"};
            assert_int_equal(record_find(&record, names[k]) != NULL, k < 3);
        }
        for (int t = 0; t < T; t++) {
            double sum = 0;
            for (int k = 0; k < 4; k++)
                sum += record_at(&record, record_find(&record, "tangent_share"), 0, t)[k];
            CHECK_ABS(sum, 1, 1e-14, "%d outputs: all shares of the targets", C);
        }
        for (int t = 0; t < T; t++)
            for (int c = 0; c < C; c++) {
                double one = record_at(&record, diagonal, 0, t)[c];
                assert_true(one > 0);
                CHECK_ABS(record_at(&record, equal, 0, t)[c * C + c], one, 1e-14 * one,
                          "%d outputs, G3[%d] at %d", C, c, t);
            }
    }
}

/* The loss of outputs f of four inputs, class i mod 3: of the squares, or the cross entropy. */
static double loss_of(const double *f, bool entropy) {
    double loss = 0;
    for (int i = 0; i < 4; i++) {
        double sum = 0, squares = 0;
        for (int c = 0; c < 3; c++) {
            sum += exp(f[i * 3 + c]);
            squares += pow(f[i * 3 + c] - (c == i % 3), 2) / 2;
        }
        loss += (entropy ? log(sum) - f[i * 3 + i % 3] : squares) / 4;
    }
    return loss;
}

/* The loss of a limit is that of the mean of its outputs over replicates, all outputs of all
 * inputs, with the pseudo-values of the jackknife: of two replicates the mean of these is twice
 * that of the mean, less half of those of each. */
TEST(loss_of_the_mean_outputs) {
    enum { T = 3, F = 12 };
    for (int k = 0; k < 2; k++) {
        char training[128];
        RUN_AND_RECORD;
        double *mean, *se;
        snprintf(training, sizeof training,
                 "eta0 = 0.5\nsteps = 3\n%s\n[solver]\nsites = 48\nreplicates = 2", losses[k]);
        sequences_run(&run, &inputs, "model = dense\ndepth = 3", training);
        ASK(run_ensemble(&run, 0, 2, &record, err));
        ASK(record_average(&record, "loss", &mean, &se, err));
        const struct series *f = record_find(&record, "f");
        for (int t = 1; t < T; t++) {
            const double *one = record_at(&record, f, 0, t), *two = record_at(&record, f, 1, t);
            double both[F], parts = loss_of(one, k) + loss_of(two, k);
            for (int i = 0; i < F; i++)
                both[i] = (one[i] + two[i]) / 2;
            CHECK_ABS(mean[t], 2 * loss_of(both, k) - parts / 2, 1e-14, "%s, t = %d", losses[k], t);
            assert_true(fabs(mean[t] - parts / 2) > 1e-6);
        }
        free(mean);
    }
}

/* The diagonal of each kernel at equal times is its series "_diag", a sum of squares in another
 * order, of fewer than four thousand sites: 4000 eps = 1e-12. */
static void check_diagonals(const struct record *record) {
    int found = 0;
    for (int s = 0; s < record->count; s++) {
        const struct series *diagonal = &record->series[s], *equal;
        const char *end = strstr(diagonal->name, "_diag");
        char name[SERIES_NAME + 1] = "";
        if (end)
            snprintf(name, sizeof name, "%.*s_equal", (int)(end - diagonal->name), diagonal->name);
        if (!end || !(equal = record_find(record, name)))
            continue;
        size_t rows = diagonal->size / diagonal->shape[0];
        assert_int_equal(equal->size, diagonal->size * rows);
        for (size_t t = 0; t < diagonal->shape[0]; t++)
            for (size_t i = 0; i < rows; i++) {
                double one = record_at(record, diagonal, 0, (int)t)[i];
                CHECK_ABS(record_at(record, equal, 0, (int)t)[i * rows + i], one, 1e-12 * one,
                          "%s[%zu] at %zu", name, i, t);
            }
        found++;
    }
    assert_true(found > 4);
}

/* Backward passes of one term alone, of a net with penalties or tokens, leave everything as it was,
 * bit by bit: also what a limit draws later, and what it has learned expert by expert. */
TEST(gradients_leave_no_trace) {
    static const struct {
        const char *model, *settings[6];
    } cases[] = {{"regime2", {"network.rho=0.5", "network.balance_loss=1"}},
                 {"transformer", {0}},
                 {"stack",
                  {"network.mixture=regime2", "network.expert_width=4", "network.rho=0.5",
                   "network.z_loss=0.1", "training.optimizer=muon", "training.weight_decay=0.01"}}};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int N = 0; N <= 16; N += 16) {
            TWO_RUNS_AND_RECORDS;
            for (int k = 0; k < 2; k++) {
                const char *overrides[13] = {"data.test_inputs=2", "output.responses=no",
                                             k ? "output.kernels=equal"
                                               : "output.kernels=diagonal"};
                int n = 3;
                while (n <= 8 && (overrides[n] = cases[i].settings[n - 3]))
                    n++;
                if (k) {
                    overrides[n++] = "output.gradients=yes";
                    overrides[n++] = "output.tangent=blocks";
                }
                assert_true(support_small(&run[k], support_model(cases[i].model), overrides));
                ASK(run_ensemble(&run[k], N, 2, &record[k], err));
            }
            assert_non_null(record_find(&record[1], "gradient_norm_loss"));
            for (int s = 0; s < record[1].count; s++) { /* as what each of them is described */
                const struct series *x = &record[1].series[s];
                bool norm = !strncmp(x->name, "gradient_norm", 13);
                if (norm || !strncmp(x->name, "cosine", 6))
                    assert_int_equal(
                        strncmp(x->equation, norm ? "|a|, " : "a . b / ", norm ? 5 : 8), 0);
            }
            check_diagonals(&record[1]);
            for (int s = 0; s < record[0].count; s++) {
                const struct series *x = &record[0].series[s],
                                    *y = record_find(&record[1], x->name);
                assert_non_null(y);
                assert_memory_equal(x->values, y->values, 2 * x->size * sizeof *x->values);
            }
        }
}
