/* What [output] names: distributions of rows over sites, kernels of rows by name and at equal time,
 * tangent kernels, spectra; of every network, without a line here for a new one. Against the sites
 * themselves, against closed forms, and by finite differences. */
#include "tests/support/support.h"
#include "solver/measure/fields.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort_double.h>

/* All names of the rows of a net, behind "output.KEY=". */
static void list_names(char *text, size_t size, const char *key, const struct net *net) {
    char name[NET_NAME];
    snprintf(text, size, "output.%s=", key);
    for (int i = 0; i < net_names(net); i++)
        if (net_name(net, i, name)) {
            size_t length = strlen(text);
            for (int k = 0; k < i; k++) {
                char other[NET_NAME];
                assert_false(net_name(net, k, other) && !strcmp(name, other));
            }
            assert_true(length + NET_NAME < size);
            snprintf(text + length, size - length, " %s", name);
        }
}

/* Mean squares are the diagonals of the kernels of another run, sums in another order of thousands
 * of terms: 1e-13 of them; quantiles increase, and lie around the mean; and what is asked for
 * changes nothing. */
static void moments(const struct model *model, const char *fields, const char *kernels, int N) {
    const char *const asked[][5] = {
        {fields, "output.fields_at=1 4", "output.field_sites=7"}, {kernels}, {NULL}};
    struct run run[3];
    struct record all[3];
    for (int k = 0; k < 3; k++) {
        assert_true(support_small(&run[k], model, asked[k]));
        support_ensemble(&run[k], N, &all[k]);
    }
    struct record record = all[0];
    for (int s = 0; s < record.count; s++) {
        const struct series *mean = &record.series[s];
        size_t length = strlen(mean->name);
        if (!mean->times || length < 5 || strcmp(mean->name + length - 5, "_mean") != 0)
            continue;
        char square[64], quantile[64], kernel[64], site[64];
        snprintf(square, sizeof square, "%.*s_square", (int)length - 5, mean->name);
        snprintf(quantile, sizeof quantile, "%.*s_quantile", (int)length - 5, mean->name);
        for (size_t k = 0; k < 3; k++) { /* of cotangents with the term that they are of */
            static const char *const term[] = {"", "_loss", "_total"};
            snprintf(kernel, sizeof kernel, "K_%.*s%s_diag", (int)length - 5, mean->name, term[k]);
            if (record_find(&all[1], kernel))
                break;
        }
        snprintf(site, sizeof site, "%.*s_site", (int)length - 5, mean->name);
        assert_int_equal(record_find(&record, site)->shape[record_find(&record, site)->axes - 1],
                         7);
        assert_null(record_at(&record, mean, 0, 2));
        for (size_t k = 0; k < mean->size / 2; k++) {
            double want = support_value(&all[1], kernel, 1, 4, k),
                   got = support_value(&record, square, 1, 4, k);
            double q[FIELDS_PROBABILITIES];
            CHECK_ABS(got, want, 1e-13 * want, "%s, N = %d: %s[%zu]", model->name, N, square, k);
            memcpy(q,
                   record_at(&record, record_find(&record, quantile), 1, 4) +
                       k * FIELDS_PROBABILITIES,
                   sizeof q);
            for (int p = 1; p < FIELDS_PROBABILITIES; p++)
                assert_true(q[p] >= q[p - 1]);
            double m = support_value(&record, mean->name, 1, 4, k);
            assert_true(q[0] <= m && m <= q[FIELDS_PROBABILITIES - 1]);
        }
    }
    for (int k = 0; k < 3; k++)
        support_same(&all[2], &all[k < 2 ? k : 0]);
    for (int k = 0; k < 3; k++) {
        record_free(&all[k]);
        run_free(&run[k]);
    }
}

TEST(moments_are_kernels) {
    for (const struct model *const *model = model_list; *model; model++)
        for (int N = 0; N <= 16; N += 16) {
            static char fields[4096], kernels[4096];
            RUN_AND_NET;
            assert_true(support_small(&run, *model, NULL));
            support_net(&net, &run, N, 0);
            list_names(fields, sizeof fields, "fields", &net);
            list_names(kernels, sizeof kernels, "kernels_of", &net);
            moments(*model, fields, kernels, N);
        }
}

/* By hand: 5 sites, of a net whose rows are those numbers. */
TEST(quantiles_and_sites) {
    static const double numbers[] = {3, -1, 2, 0, 7};
    RUN_AND_NET;
    FREED(record_free) struct record record;
    double *out[4];
    support_run(&run, "data/dense.ini",
                ARGS("output.fields=h1", "reference.widths=5", "data.inputs=2", "data.dimension=2",
                     "training.steps=1", "reference.draws=iid", "solver.replicates=0"));
    support_net(&net, &run, 5, 0);
    double host[10];
    for (int i = 0; i < 10; i++)
        host[i] = numbers[i % 5] * (i < 5 ? 1 : -2);
    net.field_rows.item[0].rows.array->backend->put(net.field_rows.item[0].rows, host);
    ASK(record_init(&record, 1, 1, err));
    const struct declaring declaring = {&record, &run.config, &net, NULL};
    ASK(fields_declare(&declaring, err));
    assert_int_equal(record.fillers, 1);
    assert_int_equal(record.filler[0].count, 4);
    for (int k = 0; k < 4; k++)
        out[record.series[k].slot] = record_at(&record, &record.series[k], 0, 0);
    struct measuring m = {.config = &run.config, .net = &net, .record = &record};
    m.item = record.filler[0].item;
    ASK(record.filler[0].fill(&m, out, err));
    CHECK_ABS(support_value(&record, "h1_mean", 0, 0, 0), 2.2, 1e-15, "mean");
    CHECK_ABS(support_value(&record, "h1_square", 0, 0, 1), 4 * 12.6, 1e-13, "square");
    CHECK_ABS(support_value(&record, "h1_quantile", 0, 0, 13), 2, 0, "median");
    for (int k = 0, last = FIELDS_PROBABILITIES - 1; k <= last; k++)
        CHECK_ABS(fields_probability[k], 1 - fields_probability[last - k], 1e-15, "both tails");
    CHECK_ABS(support_value(&record, "h1_quantile", 0, 0, 4), -0.8, 1e-15, "0.05");
    CHECK_ABS(support_value(&record, "h1_quantile", 0, 0, FIELDS_PROBABILITIES + 22), 1.6, 1e-14,
              "0.95");
    CHECK_ABS(support_value(&record, "h1_site", 0, 0, 64 + 4), -14, 0, "site");
    assert_true(isnan(support_value(&record, "h1_site", 0, 0, 5)));
}

/* Of linear networks every field of the limit is Gaussian: quantiles against those of the normal of
 * the variance measured, within 5.5 standard errors of 64 replicates (a t of 63 degrees of freedom
 * exceeds that once in 10^6; 300 are judged). Beyond the 2.5 per cent of either side order
 * statistics of 512 sites are biased by as much. */
TEST(linear_networks_are_gaussian) {
    static const char *const linear[] = LIST(
        "network.activation=linear", "output.fields=h1 h3 g_h2", "solver.sites=512",
        "solver.replicates=64", "reference.widths=", "training.steps=5", "solver.tolerance=1e-4",
        "output.kernels=none", "data.inputs=4", "training.gamma0=2", NULL);
    static const char *const names[] = {"h1", "h3", "g_h2"};
    RUN_AND_RECORD;
    support_run(&run, "data/dense.ini", linear);
    support_ensemble(&run, 0, &record);
    for (int i = 0; i < 3; i++) {
        char square[32], quantile[32];
        snprintf(square, sizeof square, "%s_square", names[i]);
        snprintf(quantile, sizeof quantile, "%s_quantile", names[i]);
        size_t rows = record_find(&record, square)->size / 2;
        for (size_t row = 0; row < rows; row++)
            for (int p = 3; p < FIELDS_PROBABILITIES - 3; p++) {
                double mean, se, var, var_se;
                support_entry(&record, square, rows + row, &var, &var_se);
                support_entry(&record, quantile, (rows + row) * FIELDS_PROBABILITIES + (size_t)p,
                              &mean, &se);
                double want = sqrt(var) * gsl_cdf_ugaussian_Pinv(fields_probability[p]);
                CHECK_ABS(mean, want, 5.5 * se + fabs(want) * var_se / var, "%s, row %zu, p = %g",
                          names[i], row, fields_probability[p]);
            }
    }
}

/* f of this place. */
static double *forward(struct net *net, double step) {
    double *f;
    ASK(net_place(net, 1, &step, err));
    ASK(base_alloc(&f, (size_t)(net->batch.output_rows * net->setup.data.C), sizeof *f, err));
    ASK(net_forward(net, f, err));
    return f;
}

/* df/dt = 1/P sum_nu K_mu,nu Delta_nu along the gradient, by four places: f of order one is known
 * to 1e-15, a difference to 1.5e-12, ten times that, plus truncation, h^4/30 = 3e-14 times a fifth
 * derivative. Of a limit f misses some hundredths of the tolerance of its bases. With the error
 * inside, the sum over inputs is the square of the norm of the gradient. */
static void judge_tangent(struct net *net, const char *name) {
    static const double place[] = {1, -1, 2, -2}, weight[] = {8, -8, -1, 1}, h = 1e-3;
    int P = net->setup.data.P;
    double *K, *sum, *f[4], norm, square = 0;
    ASK(base_alloc(&K, (size_t)(P * P), sizeof *K, err));
    ASK(base_alloc(&sum, (size_t)(P * P), sizeof *sum, err));
    for (int i = 0; i < net->parameters.count; i++) {
        ASK(net_tangent(net, &net->parameters.item[i], K, err));
        for (int k = 0; k < P * P; k++)
            sum[k] += K[k];
    }
    ASK(net_gradient_norm(net, &norm, err));
    for (int k = 0; k < P * P; k++)
        square +=
            sum[k] / P / P *
            (net->output.loss_in_cotangent ? 1
                                           : net->output.Delta[k / P] * net->output.Delta[k % P]);
    CHECK_ABS(sqrt(square), norm, 1e-13 * norm, "%s, N = %d: norm", name, net->setup.N);
    if (!net->output.loss_in_cotangent) {
        double Delta[P];
        memcpy(Delta, net->output.Delta, sizeof Delta);
        ASK(net_keep(net, 0, false, err));
        for (int k = 0; k < 4; k++)
            f[k] = forward(net, place[k] * h);
        for (int mu = 0; mu < P; mu++) {
            double got = 0, want = 0, tolerance = net->setup.N ? 3e-11 : 1e-5;
            for (int k = 0; k < 4; k++)
                got += weight[k] * f[k][mu] / (12 * h);
            for (int nu = 0; nu < P; nu++)
                want += sum[mu * P + nu] * Delta[nu] / P;
            CHECK_ABS(got, want, tolerance, "%s, N = %d: df[%d]/dt", name, net->setup.N, mu);
        }
        for (int k = 0; k < 4; k++)
            free(f[k]);
    }
    free(K);
    free(sum);
}

TEST(tangent_kernel_moves_f) {
    for (const struct model *const *model = model_list; *model; model++)
        for (int N = 0; N <= 16; N += 8) {
            RUN_AND_NET;
            assert_true(support_small(&run, *model, ARGS("solver.tolerance=1e-6")));
            support_net(&net, &run, N, 0);
            support_train(&net, &run, 2);
            support_evaluate(&net, &run);
            judge_tangent(&net, (*model)->name);
        }
}

/* sum_k l_k share_k = alignment |K| |Y Y^T|/|Y|^2 = y^T K y/|y|^2, the trace is the sum, and |K|^2
 * that of squares; kernels at equal time are those of `full`, and their diagonals `diag`. Sums of
 * some dozen terms of order one: 1e-13. */
TEST(spectra_and_equal_kernels) {
    for (int N = 0; N <= 16; N += 16) {
        static const char *const equal[] = {"output.kernels=equal", "output.tangent=blocks",
                                            "output.spectra=Phi1 tangent tangent_W_in", NULL};
        static const char *const names[][2] = {
            {"Phi1", "Phi1_equal"}, {"tangent", "tangent"}, {"tangent_W_in", "tangent_W_in"}};
        FREED(run_free) struct run run, other;
        FREED(record_free) struct record record, two;
        assert_true(support_small(&run, support_model("regime2"), equal));
        assert_true(support_small(&other, support_model("regime2"), ARGS("output.kernels=full")));
        support_ensemble(&run, N, &record);
        support_ensemble(&other, N, &two);
        const double *y = run.data.y;
        size_t P = (size_t)run.data.P, T = 6, t = 5;
        for (int i = 0; i < 3; i++) {
            char spectrum[32], share[32], alignment[32];
            double trace = 0, along = 0, norm = 0, yy = 0, sum[4] = {0};
            snprintf(spectrum, sizeof spectrum, "%s_spectrum", names[i][0]);
            snprintf(share, sizeof share, "%s_share", names[i][0]);
            snprintf(alignment, sizeof alignment, "%s_alignment", names[i][0]);
            for (size_t mu = 0; mu < P; mu++) {
                double l = support_value(&record, spectrum, 1, (int)t, mu);
                double s = support_value(&record, share, 1, (int)t, mu);
                sum[0] += l, sum[1] += s, sum[2] += l * s, sum[3] += l * l;
                yy += y[mu] * y[mu];
                trace += support_value(&record, names[i][1], 1, (int)t, mu * P + mu);
                for (size_t nu = 0; nu < P; nu++) {
                    double K = support_value(&record, names[i][1], 1, (int)t, mu * P + nu);
                    along += y[mu] * K * y[nu];
                    norm += K * K;
                }
            }
            CHECK_ABS(sum[0], trace, 1e-13, "%s: trace", names[i][0]);
            CHECK_ABS(sum[1], 1, 1e-13, "%s: shares", names[i][0]);
            CHECK_ABS(sum[2], along / yy, 1e-13, "%s: y K y", names[i][0]);
            CHECK_ABS(sum[3], norm, 1e-13, "%s: |K|^2", names[i][0]);
            CHECK_ABS(support_value(&record, alignment, 1, (int)t, 0), along / yy / sqrt(norm),
                      1e-13, "%s: alignment", names[i][0]);
        }
        for (size_t k = 0; k < P * P; k++) {
            double K = support_value(&record, "Phi1_equal", 1, (int)t, k);
            CHECK_ABS(K, support_value(&two, "Phi1", 1, (int)t, (k / P * T + t) * P + k % P), 1e-13,
                      "equal time");
            if (k / P == k % P)
                CHECK_ABS(K, support_value(&record, "Phi1_diag", 1, (int)t, k / P), 1e-13,
                          "diagonal");
        }
    }
}

/* The largest distance of two distributions, of n and m numbers. */
static double distance(double *x, size_t n, double *y, size_t m) {
    double largest = 0;
    gsl_sort(x, 1, n);
    gsl_sort(y, 1, m);
    for (size_t i = 0, j = 0; i < n && j < m;) {
        if (x[i] <= y[j])
            i++;
        else
            j++;
        largest = fmax(largest, fabs((double)i / (double)n - (double)j / (double)m));
    }
    return largest;
}

/* A network of width 1024 against the limit after training, by Kolmogorov and Smirnov: of
 * independent sites D sqrt(nm/(n + m)) exceeds 2.2 once in 8000; a dozen rows are judged, and rows
 * of one network have a common fluctuation besides. At the start of training, against the end of
 * it, the test fails. */
TEST(networks_have_the_fields_of_the_limit) {
    if (!is_long)
        skip();                             /* make check-long */
    static const double root[] = {28.6217}; /* sqrt(1024 * 4096/(1024 + 4096)) */
    FREED(run_free) struct run run;
    FREED(two_nets_free) struct net net[2];
    double *start[3], moved = 0;
    support_run(&run, "data/dense.ini",
                ARGS("output.fields=h1 h2 g_h1", "reference.widths=1024", "solver.sites=4096",
                     "data.inputs=4", "training.gamma0=2"));
    for (int k = 0; k < 2; k++) {
        support_net(&net[k], &run, k ? 1024 : 0, 0);
        support_evaluate(&net[k], &run);
        for (int i = 0; i < 3 && !k; i++)
            start[i] = support_get(net[k].field_rows.item[i].rows);
        for (int t = 0; t < 24; t++) {
            support_step(&net[k], &run);
        }
    }
    for (int i = 0; i < 3; i++) {
        FREED(base_free)
        double *x = support_get(net[0].field_rows.item[i].rows),
               *y = support_get(net[1].field_rows.item[i].rows);
        for (size_t mu = 0; mu < 4; mu++) {
            double D = distance(x + mu * 4096, 4096, y + mu * 1024, 1024);
            moved = fmax(moved, distance(start[i] + mu * 4096, 4096, y + mu * 1024, 1024));
            CHECK_ABS(D * root[0], 0, 2.2, "%s[%zu]", net[0].field_rows.item[i].name, mu);
        }
        free(start[i]);
    }
    assert_true(moved * root[0] > 2.2);
}

/* The gradient of the loss for input mu is y_mu - f_mu times that of f, and so its kernel; that
 * of g_h3 serves all inputs, and has that of g_h1 behind it. Three roundings. */
TEST(kernels_of_the_loss) {
    static const char *const names[][2] = {{"G1_equal", "G1_loss_equal"},
                                           {"K_g_h3_equal", "K_g_h3_loss_equal"}},
                             *const more[] = {"output.gradients=yes", "output.kernels=equal",
                                              "output.kernels_of=g_h3 g_h1", NULL};
    for (int k = 0; k < 4; k++) {
        RUN_AND_RECORD;
        assert_true(support_small(&run, support_model("regime2"), more));
        support_ensemble(&run, k / 2 ? 16 : 0, &record);
        size_t P = (size_t)run.data.P;
        for (size_t i = 0; i < P * P; i++) {
            double r = run.data.y[i / P] - support_value(&record, "f", 1, 5, i / P),
                   s = run.data.y[i % P] - support_value(&record, "f", 1, 5, i % P),
                   want = r * s * support_value(&record, names[k % 2][0], 1, 5, k % 2 ? 0 : i);
            CHECK_ABS(support_value(&record, names[k % 2][1], 1, 5, i), want, 1e-15 * fabs(want),
                      "%s, entry %zu", names[k % 2][1], i);
        }
    }
}
