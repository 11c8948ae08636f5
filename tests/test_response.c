/* Responses of the marched limit: closed forms, causality, and what the file shows. That they are
 * derivatives, networks say (test_response_derivative.c), and the fixed point (test_fixed_point.c).
 */
#define _XOPEN_SOURCE 700
#include "tests/support/files.h"
#include "tests/support/script.h"
#include "kernels/base/text.h"
#include "solver/measure/instrument.h"
#include "solver/measure/observe.h"

/* One replicate of the limit, measured. */
struct march {
    struct run run;
    struct record record;
    struct net net;
    struct observer observer;
};

static void march_init(struct march *m, const char *file, const char *const *more, int replicate) {
    const char *overrides[16] = {"output.kernels=full", "output.responses=yes", "solver.threads=1"};
    for (int n = 3; *more; n++)
        overrides[n] = *more++;
    *m = (struct march){0};
    support_run(&m->run, file, overrides);
    support_net(&m->net, &m->run, 0, replicate);
    ASK(record_init(&m->record, 1, m->run.config.training.steps, err));
    ASK(observe_declare(&m->record, &m->run.config, &m->net.setup, NULL, err));
    ASK(observer_init(&m->observer, &m->run.config, m->run.data.y, &m->record, 0, &m->net, err));
}

static void march_step(struct march *m, int t) {
    if (t)
        support_learn(&m->net, &m->run);
    support_evaluate(&m->net, &m->run);
    ASK(observer_measure(&m->observer, &m->net, t, err));
    m->record.steps[0] = t + 1;
}

static void march_free(struct march *m) {
    observer_free(&m->observer);
    net_free(&m->net);
    record_free(&m->record);
    run_free(&m->run);
}

static const struct series *response_series(const struct march *m, int map, bool forward) {
    TEXT(name, SERIES_NAME, "%c_%s", forward ? 'A' : 'B', m->net.maps.item[map]->declared.name);
    return record_find(&m->record, name);
}

/* A program whose maps have rows of tokens and, behind the mean over them, rows of inputs. */
static const char pooled[] = "[network]\nmodel = program\nprogram = pooled.lua\nprogram_text = "
                             "local a, b, c = population('a'), population('b'), population('c') "
                             "local x = tanh(map(tanh(read_in(a, 'W0')), b, 'V')) "
                             "read_out(tanh(map(pool(x), c, 'W')), 'w')\n"
                             "[data]\ninputs = 2\ntokens = 3\ndimension = 4\n";

/* A linear network of two layers and one input. Then y = w and everything on a site is linear:
 *
 *     x(t) = x(0) + c K sum_{r<t} Delta(r) z(r)     z(r) = v(r) + sum_{s<=r} beta(r,s) x(s)
 *     w(t) = w(0) + c sum_{r<t} Delta(r) h(r)       h(r) = u(r) + sum_{s<r} alpha(r,s) w(s)
 *     beta(r,s) = B(r,s) + c Delta(s) G(r,s)        alpha(r,s) = A(r,s) + c Delta(s) Phi(r,s)
 *
 * with c = eta0 gamma0, K = |X|^2/D, Phi and G the kernels <x x>, <w w> and no learned part at
 * s = r. Differentiating by v(s) and u(s)
 *
 *     A(t,s) = dx(t)/dv(s) = c K sum_{r<t} Delta(r) [delta_rs + sum_{q<=r} beta(r,q) A(q,s)]
 *     B(t,s) = dw(t)/du(s) = c sum_{r<t} Delta(r) [delta_rs + sum_{q<r} alpha(r,q) B(q,s)]
 *
 * Walsh functions of 128 sites are orthogonal, so nothing but round-off, 1e-16 over the shift of
 * 1e-3, and the tolerance 1e-6 of Phi, squared, is left. */
TEST(a_linear_network_by_hand) {
    enum { T = 6 };
    FREED(march_free) struct march m;
    double Delta[T], A[T][T] = {0}, B[T][T] = {0}, K = 0;
    march_init(&m, "data/dense.ini",
               ARGS("network.activation=linear", "network.depth=2", "data.inputs=1",
                    "solver.sites=128", "solver.tolerance=1e-6", "training.steps=6",
                    "training.eta0=0.7"),
               0);
    for (int t = 0; t < T; t++) {
        march_step(&m, t);
        Delta[t] = m.net.output.Delta[0];
    }
    const struct series *Phi = record_find(&m.record, "Phi1"), *G = record_find(&m.record, "G2");
    const double *got_A = record_find(&m.record, "A_W2")->values;
    const double *got_B = record_find(&m.record, "B_W2")->values;
    double c = m.run.config.training.eta0 * m.run.config.training.gamma0;
    for (int k = 0; k < m.run.inputs.K; k++)
        K += m.run.inputs.A[k] * m.run.inputs.A[k];
    for (int t = 0; t < T; t++)
        for (int s = 0; s <= t; s++) {
            for (int r = s; r < t; r++) {
                double a = r == s, b = r == s;
                for (int q = s; q <= r; q++)
                    a += (B[r][q] + (q < r ? c * Delta[q] * G->values[r * T + q] : 0)) * A[q][s];
                for (int q = s; q < r; q++)
                    b += (A[r][q] + c * Delta[q] * Phi->values[r * T + q]) * B[q][s];
                A[t][s] += c * K * Delta[r] * a;
                B[t][s] += c * Delta[r] * b;
            }
            CHECK_ABS(got_A[t * T + s], A[t][s], 1e-10, "A(%d, %d)", t, s);
            CHECK_ABS(got_B[t * T + s], B[t][s], 1e-10, "B(%d, %d)", t, s);
        }
    assert_true(fabs(A[T - 1][1]) > 0.05 && fabs(B[T - 1][1]) > 0.05);
}

/* The responses of a linear network have no sampling error: two seeds differ by round-off over the
 * shift of 1e-3, as long as no direction is dropped. */
TEST(seeds_of_a_linear_network_agree) {
    struct march m[2];
    for (int k = 0; k < 2; k++) {
        march_init(&m[k], "data/dense.ini",
                   ARGS("network.activation=linear", "solver.sites=256", "solver.tolerance=1e-6",
                        "data.inputs=2", "training.steps=4"),
                   k);
        for (int t = 0; t < m[k].record.T; t++)
            march_step(&m[k], t);
    }
    for (int i = 0; i < 4; i++) {
        const struct series *a = response_series(&m[0], i / 2, i % 2);
        const struct series *b = response_series(&m[1], i / 2, i % 2);
        double most = 0;
        for (size_t k = 0; k < a->size; k++) {
            CHECK_ABS(a->values[k], b->values[k], 1e-10, "%s[%zu]", a->name, k);
            most = fmax(most, fabs(a->values[k]));
        }
        assert_true(most > 0.05);
    }
    march_free(&m[0]);
    march_free(&m[1]);
}

static double slope2(double h) {
    double slope = 1 - tanh(h) * tanh(h);
    return slope * slope;
}

/* muP of Regime II: nothing comes down at first, so that the first step changes the row below the
 * experts only by what is shifted, and A_Q(1,0) of an input mu is
 *
 *     eta0 gamma0/P Delta Phi0 <sigma'(h)^2>     h normal of variance Phi0 = |X_mu|^2/D
 *
 * (through the read-in; Delta = y). 4 standard errors of 8 replicates. Coefficients of minimum
 * norm, which the march once had in place of responses, are 0 here. */
TEST(the_first_order_of_regime_2) {
    FREED(run_free) struct run run;
    FREED(record_free) struct record record = {0};
    double mean, se;
    support_run(&run, "data/regime2.ini",
                ARGS("network.parameterization=mup", "training.steps=2", "solver.sites=4096",
                     "solver.expert_sites=1024", "output.responses=yes",
                     "reference.widths=", "solver.replicates=8", "solver.draws=normal"));
    support_ensemble(&run, 0, &record);
    int P = run.data.P, K = run.inputs.K;
    for (int mu = 0; mu < P; mu++) {
        double Phi0 = 0;
        for (int k = 0; k < K; k++)
            Phi0 += run.inputs.A[mu * K + k] * run.inputs.A[mu * K + k];
        double want = run.config.training.eta0 * run.config.training.gamma0 / P * run.data.y[mu] *
                      Phi0 * support_normal_mean(Phi0, slope2);
        support_entry(&record, "A_Q", (size_t)(((P + mu) * 2) * P + mu), &mean, &se);
        CHECK_ABS(mean, want, 4 * se, "A_Q[1][%d][0][%d]", mu, mu);
        assert_true(fabs(want) > 10 * se);
    }
}

/* All other numbers of a run keep their bits, whatever is measured beside responses: rows that have
 * companions and rows that have none meet in all of it. Nor do responses change with it, whose
 * companions rest in passes that are not of the training. */
TEST(nothing_else_changes) {
#define ALL                                                                                        \
    "output.kernels=full", "output.tangent=sum", "output.spectra=tangent", "output.sharpness=sum", \
        "output.gradients=yes", "data.test_inputs=3", "reference.coordinate_check=yes"
    static const char *const cases[][12] = {
        {"data/dense.ini", ALL, "output.singular=W2 W3", "solver.backend=shadow"},
        {"data/dense.ini", ALL, "training.optimizer=adam"},
        {"data/regime2.ini", ALL, "output.experts=yes", "output.router=yes", "output.fields=h1 psi",
         "solver.expert_sites=64"},
        {"data/regime3.ini", ALL, "output.cross=h_in", "solver.expert_sites=32",
         "solver.unit_sites=32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record record[3]; /* all but responses, all, responses */
        for (int k = 0; k < 3; k++) {
            const char *overrides[20] = {"solver.sites=300", "training.steps=3",
                                         "reference.widths=16", "solver.replicates=1",
                                         k ? "output.responses=yes" : "output.responses=no"};
            for (int n = 5, m = 1; m < 12 && cases[i][m]; m++)
                if (k < 2 || !strncmp(cases[i][m], "solver", 6) ||
                    !strncmp(cases[i][m], "training", 8))
                    overrides[n++] = cases[i][m];
            support_one(cases[i][0], overrides, 0, &record[k]);
        }
        assert_true(record[1].count > record[0].count);
        for (int k = 0; k < 3; k += 2)
            for (int s = 0; s < record[k].count; s++) {
                const struct series *a = &record[k].series[s],
                                    *b = record_find(&record[1], a->name);
                if (memcmp(a->values, b->values, a->size * sizeof(double)) != 0)
                    fail_msg("%s: %s differs", cases[i][0], a->name);
            }
        for (int k = 0; k < 3; k++)
            record_free(&record[k]);
    }
}

static void check_set(hid_t file, const char *name, const char *dims, bool chunked) {
    static const H5Z_filter_t filters[] = {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE};
    char axis[32];
    int count = 0;
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), plist = H5Dget_create_plist(set);
    assert_text(file, name, "dims", dims);
    for (const char *at = dims; sscanf(at, "%31s", axis) == 1; count++) {
        TEXT(path, 64, "limit/%s", axis);
        hid_t scale = H5Dopen2(file, path, H5P_DEFAULT);
        assert_true(H5DSis_attached(set, scale, (unsigned)count) > 0);
        H5Dclose(scale);
        at = strstr(at, axis) + strlen(axis);
    }
    assert_int_equal(H5Pget_layout(plist), chunked ? H5D_CHUNKED : H5D_CONTIGUOUS);
    assert_int_equal(H5Pget_nfilters(plist), chunked ? 2 : 0);
    for (unsigned i = 0; i < 2 && chunked; i++) {
        unsigned flags, config;
        size_t no_values = 0;
        assert_int_equal(H5Pget_filter2(plist, i, &flags, &no_values, NULL, 0, NULL, &config),
                         filters[i]);
    }
    H5Pclose(plist);
    H5Dclose(set);
}

/* Exactly zero where s is later than t (A: or the same), not in general elsewhere. */
static void check_causal(hid_t file, const char *name, size_t rows, size_t columns, bool forward) {
    size_t times = 17, size = times * rows * times * columns, zero = 0, later = 0;
    FREED(base_free) double *values;
    ASK(base_alloc(&values, size, sizeof *values, err));
    assert_true(H5LTread_dataset_double(file, name, values) >= 0);
    for (size_t k = 0; k < size; k++) {
        size_t t = k / (rows * times * columns), s = k / columns % times;
        assert_true(isfinite(values[k]) && (values[k] == 0 || s + forward <= t));
        zero += values[k] == 0;
        later += s + forward > t;
    }
    assert_true(zero < later + size / 100);
}

struct set {
    const char *name, *dims;
    size_t rows, columns;
    bool forward, chunked; /* beyond 4096 values */
};

static void check_file(const char *output, const char *ini, const char *more,
                       const struct set *sets, size_t count) {
    const char *const overrides[] =
        LIST("output.responses=yes", "training.steps=17", "solver.sites=256", "solver.replicates=2",
             "solver.threads=1", "reference.widths=16", "reference.seeds=2", more, NULL);
    FREED(run_free) struct run run;
    double probe = 0;
    support_run(&run, ini, overrides);
    ASK(run_open(&run, output, false, err));
    ASK(run_march(&run, err));
    ASK(run_finish(&run, false, err));
    hid_t file = open_file(output);
    for (size_t k = 0; k < count; k++) {
        TEXT(name, 64, "%s_se", sets[k].name);
        check_set(file, sets[k].name, sets[k].dims, sets[k].chunked);
        check_set(file, name, sets[k].dims, sets[k].chunked);
        check_causal(file, sets[k].name, sets[k].rows, sets[k].columns, sets[k].forward);
    }
    assert_true(H5LTget_attribute_double(file, "limit", "probe", &probe) >= 0 && probe == 1e-3);
    assert_int_equal(H5Lexists(file, "reference/N0016", H5P_DEFAULT), 1);
    for (size_t k = 0; k < count; k++) {
        TEXT(name, 64, "reference/N0016/%s", sets[k].name + strlen("limit/"));
        assert_int_equal(H5Lexists(file, name, H5P_DEFAULT), 0);
    }
    H5Fclose(file);
    unlink(output);
}

FOLDER_TEST(what_the_file_shows) {
    char path[PATH_MAX];
    static const struct set sets[] = {{"limit/A_Q", "t mu s nu", 4, 4, true, true},
                                      {"limit/B_Q", "t mu s nu", 4, 4, false, true},
                                      {"limit/A_W_in", "t mu s nu", 4, 4, true, true},
                                      {"limit/B_W_in", "t mu s nu", 4, 4, false, true},
                                      {"limit/A_W_out", "t mu s", 4, 1, true, false},
                                      {"limit/B_W_out", "t s nu", 1, 4, false, false}};
    static const struct set of_tokens[] = {{"limit/A_V", "t row s column", 6, 6, true, true},
                                           {"limit/B_V", "t row s column", 6, 6, false, true},
                                           {"limit/A_W", "t mu s nu", 2, 2, true, false},
                                           {"limit/B_W", "t mu s nu", 2, 2, false, false}};
    in_folder(path, state, "out.h5");
    check_file(path, "data/regime2.ini", "solver.expert_sites=256", sets,
               sizeof sets / sizeof *sets);
    check_file(path, pooled, NULL, of_tokens, sizeof of_tokens / sizeof *of_tokens);
}

/* Nothing goes backward through a matrix that reads rows which do not learn; the note tells it. */
TEST(of_rows_that_do_not_learn) {
    static const char *const rows[] = {"stop(x)", "top(x, p.sites // 2)"};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        FREED(run_free) struct run run;
        FREED(record_free) struct record record = {0};
        char text[256], note[TEXT_NOTE] = "";
        snprintf(text, sizeof text,
                 "key('depth')\nlocal p = population('p')\nlocal x = tanh(read_in(p, 'W1'))\n"
                 "read_out(map(tanh(map(x, p, 'W2')), p, 'W3') + map(%s, p, 'W4'), 'w')",
                 rows[k]);
        support_script_run(&run, text,
                           ARGS("output.responses=yes", "solver.sites=64", "solver.replicates=1",
                                "training.steps=3"));
        support_ensemble(&run, 0, &record);
        assert_true(record_find(&record, "A_W3") && record_find(&record, "B_W2"));
        assert_true(!record_find(&record, "A_W4") && !record_find(&record, "B_W4"));
        struct net_setup setup = run_setup(&run, 0, 0);
        ASK(response_tell(&run.config, &setup, note, err));
        assert_non_null(strstr(note, "of W4: "));
    }
}

/* What --help says of [solver] probe, of programs by their operations: a selection among numbers
 * moves no single site, and noise does not depend on what is shifted. */
TEST(shifts_suit_the_program) {
#define PROGRAM(text)                                                                              \
    "network.program_text=local p = population('p')\\nlocal x = "                                  \
    "read_in(p, 'W')\\n"                                                                           \
    "read_out(" text ", 'w')"
    static const STRUCT(const char *ini, *more[4]; double shift) cases[] = {
        {"data/dense.ini", {NULL}, 1e-3},
        {"data/dense.ini", {"network.activation=relu"}, 0.2},
        {"data/dense.ini", {"network.activation=relu", "solver.probe=0.3"}, 0.3},
        {"data/regime1.ini", {NULL}, 1e-3},
        {"data/regime2.ini", {"network.rho=.5"}, 0.2},
        {"data/regime2.ini", {"network.rho=.5", "training.optimizer=adam"}, 0.02},
        {"data/regime2.ini", {"network.rho=.5", "training.optimizer=muon"}, 0.02},
        {"data/regime2.ini",
         {"network.rho=.5", "training.optimizer=muon", "training.rest_optimizer=gd"},
         0.2},
        {"data/dense.ini", {"training.optimizer=lion", "training.eps=1e-3"}, 4e-4},
        {"data/dense.ini", {"training.optimizer=lion", "training.eps=1e-9"}, 1e-6},
        {"examples/gains.ini", {PROGRAM("x * top(x, p.sites // 2)")}, 0.2},
        {"examples/gains.ini", {PROGRAM("relu(x)")}, 0.2},
        {"examples/gains.ini", {PROGRAM("tanh(x) + noise(x)")}, 1e-3},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *overrides[8] = {"output.responses=yes"};
        FREED(run_free) struct run run;
        double shift;
        memcpy(overrides + 1, cases[k].more, sizeof cases[k].more);
        support_run(&run, cases[k].ini, overrides);
        struct net_setup setup = run_setup(&run, 0, 0);
        ASK(net_shift(&setup, &shift, err));
        CHECK_ABS(shift, cases[k].shift, 1e-16, "case %zu", k);
    }
}

int main(void) {
    backend_start(1); /* small arrays */
    return run_registered(__FILE__);
}
