/* The refined coordinate check: every term against plain loops, and exponents in the width against
 * an independent program's (data/ref/coordinate, see ABOUT there).
 *
 * The argument `long` takes all cases with the widths and seeds of the reference. */
#include "tests/support/support.h"
#include "tests/oracles/oracle_coordinate.h"
#include "solver/study/compare.h"

#include <hdf5.h>
#include <hdf5_hl.h>

static const struct map *find_map(const struct net *net, const char *name) {
    for (int k = 0; k < net->maps.count; k++)
        if (!strcmp(net->maps.item[k]->declared.name, name))
            return net->maps.item[k];
    return NULL;
}

/* to[k] += factor s_f W[n(k)][m(k)] of the named map, if there is one; shared: W is the same for
 * every expert, else an expert has its own rows (in) or columns (out). */
static void add(const struct net *net, const char *name, bool out, bool shared, int M, int Ne,
                double *to) {
    const struct map *map = find_map(net, name);
    if (!map)
        return;
    FREED(base_free) double *W = support_matrix(map);
    int N = net->setup.N, units = M * Ne;
    double factor = map->declared.s_f * (out && !shared ? M : 1);
    for (int k = 0; k < units * N; k++) {
        int n = k / units, u = k % units;
        to[k] += factor * W[!shared ? k : out ? n * Ne + u % Ne : k % (Ne * N)];
    }
}

/* Regime I: matrices W2_i and W3_i. */
static void add_experts(const struct net *net, int M, struct oracle_state *s) {
    int N = net->setup.N;
    char name[24];
    for (int i = 0; i < M; i++) {
        snprintf(name, sizeof name, "W2_%d", i);
        FREED(base_free) double *W2 = support_matrix(find_map(net, name));
        snprintf(name, sizeof name, "W3_%d", i);
        FREED(base_free) double *W3 = support_matrix(find_map(net, name));
        for (int k = 0; k < N * N; k++) {
            s->W2[i * N * N + k] = W2[k];
            s->W3[(k / N * M + i) * N + k % N] = W3[k];
        }
    }
}

static double *zeros(int count) {
    double *values;
    ASK(base_alloc(&values, (size_t)count, sizeof *values, err));
    return values;
}

/* The matrices of now, and h1 from the inputs. */
static void take(const struct net *net, const struct run *run, int M, int Ne,
                 struct oracle_state *s) {
    int N = net->setup.N, P = net->setup.data.P, K = run->inputs.K;
    bool fixed = net->thins.count == 3; /* a router over few experts is thin */
    double *W1 = support_get(array_all(&support_thin(net, "W1")->W));
    *s = (struct oracle_state){zeros(P * N), zeros(M * N), zeros(M * Ne * N), zeros(M * Ne * N),
                               zeros(N)};
    for (int k = 0; k < P * N; k++)
        for (int d = 0; d < K; d++)
            s->h1[k] += run->inputs.A[k / N * K + d] * W1[d * N + k % N];
    free(W1);
    support_copy(s->W4, array_all(&support_thin(net, "w")->W), 1 / (net->setup.gamma0 * N));
    if (fixed) {
        support_copy(s->Q, array_all(&support_thin(net, "Q")->W), 1.0 / N);
        add_experts(net, M, s);
        return;
    }
    add(net, "Q", false, false, M, 1, s->Q);
    add(net, "W_in", false, false, M, Ne, s->W2);
    add(net, "P_in", false, false, M, Ne, s->W2);
    add(net, "A_in", false, true, M, Ne, s->W2);
    add(net, "W_out", true, false, M, Ne, s->W3);
    add(net, "P_out", true, false, M, Ne, s->W3);
    add(net, "A_out", true, true, M, Ne, s->W3);
}

static void drop(struct oracle_state *s) {
    free(s->h1);
    free(s->Q);
    free(s->W2);
    free(s->W3);
    free(s->W4);
}

/* The series of a term of the papers: that of a matrix, whatever its name is, or of its own name.
 * gamma: a cotangent, gamma0 times the papers' gradient. */
static const STRUCT(const char *term, *series[3]; bool gamma) names[] = {
    {"h1_init", {"W1_init"}, false},
    {"h1_eff", {"W1_eff"}, false},
    {"psi", {"Q"}, false},
    {"psi_init", {"Q_init"}, false},
    {"psi_prop", {"Q_prop"}, false},
    {"psi_eff", {"Q_eff"}, false},
    {"h2_init", {"W2_init", "W_in_init", "A_in_init"}, false},
    {"h2_prop", {"W2_prop", "W_in_prop", "A_in_prop"}, false},
    {"h2_eff", {"W2_eff", "W_in_eff", "P_in_eff"}, false},
    {"w4_upd", {"w_back_eff"}, true},
};

static const struct series *series_of(const struct record *record, const char *term,
                                      const char *suffix, bool *gamma) {
    char name[64];
    const struct series *series = NULL;
    *gamma = false;
    for (size_t k = 0; k < COUNT(names); k++)
        for (int i = 0; i < 3 && !strcmp(term, names[k].term) && names[k].series[i]; i++) {
            snprintf(name, sizeof name, "rms_%s%s", names[k].series[i], suffix);
            series = series ? series : record_find(record, name);
            *gamma = names[k].gamma;
        }
    snprintf(name, sizeof name, "rms_%s%s", term, suffix);
    return series ? series : record_find(record, name);
}

/* Those of the oracle, and a few that are known twice. */
static const char *const terms[] =
    LIST("h1_init", "h1_eff", "psi", "h3", "h3_delta", "f_delta", "w4_upd", "psi_init", "psi_prop",
         "psi_eff", "h2_init", "h2_prop", "h2_eff", "h3i_init", "h3i_prop", "h3i_eff", "A1", "A21",
         "A22", "A3", "f_init", "f_prop", "f_eff", "b_00", "b_0d", "b_d0", "b_dd", "dphi_init",
         "dphi_upd", "dphi", "A4", "A5", "A6", "E", "d1e", "R00", "R0d", "Rd0", "Rdd", "d1r",
         "I6_init", "I6_prop", "I6_eff");
static const struct {
    const char *term, *series;
} twice[] =
    LIST({"d1r", "rms_Q_back"}, {"I6_init", "rms_W_in_back_init"},
         {"I6_prop", "rms_W_in_back_prop"}, {"I6_eff", "rms_W_in_back_eff"}, {"h3", "rms_W_out"});

/* Sums of a few hundred products, differences of matrices 1e-2 of their size: 1e-11 relative; the
 * derivative of the gates by differences of h = 1e-5 is known to h^2 and 1e-16/h, 1e-9 with room.
 */
static void check_term(const struct oracle_coordinate *o, const char *term, double got, int t) {
    double want = oracle_coordinate_rms(o, term);
    bool by_difference = term[0] == 'R' || !strcmp(term, "d1r");
    CHECK_ABS(got, want, 1e-9 * want + (by_difference ? 1e-9 : 1e-15), "%s at t = %d", term, t);
}

static void check_terms(const struct oracle_coordinate *o, const struct record *record, int t,
                        double gamma0) {
    bool gamma;
    for (size_t k = 0; k < COUNT(terms); k++) {
        const struct series *series = series_of(record, terms[k], "", &gamma);
        assert_non_null(series);
        check_term(o, terms[k], *record_at(record, series, 0, t) / (gamma ? gamma0 : 1), t);
    }
    for (size_t k = 0; k < COUNT(twice); k++) {
        const struct series *series = record_find(record, twice[k].series);
        if (series)
            check_term(o, twice[k].term, *record_at(record, series, 0, t) / (k < 4 ? gamma0 : 1),
                       t);
    }
    for (int n = 0; n < o->N; n++)
        CHECK_ABS(oracle_coordinate_sum(o, 1, n), oracle_coordinate_difference(o, 1, n), 1e-7,
                  "gradient of f, neuron %d", n);
}

/* The same net twice: marched by the program with the check, and here step by step. */
static void check_network(const char *ini, const char *const *overrides, int N, int M, int Ne,
                          double agg, double b_scale) {
    RUN_AND_RECORD;
    FREED(net_free) struct net net;
    support_run(&run, ini, overrides);
    ASK(run_ensemble(&run, N, 1, &record, err));
    support_net(&net, &run, N, 0);
    struct oracle_coordinate o = LIST(.P = run.data.P, .N = N, .M = M, .Ne = Ne,
                                      .softmax = run.config.network.routing.gate == GATE_SOFTMAX,
                                      .many = agg == 1 ? 1 : M, .agg = agg, .b_scale = b_scale);
    take(&net, &run, M, Ne, &o.start);
    for (int t = 0; t < record.T; t++) {
        support_evaluate(&net, &run);
        if (t == 0 || t == record.T - 1) { /* differences of the gates take most of the time */
            take(&net, &run, M, Ne, &o.now);
            check_terms(&o, &record, t, run.config.training.gamma0);
            drop(&o.now);
        }
        support_learn(&net, &run);
    }
    drop(&o.start);
}

/* Gates that are constant leave the terms of the router out, and the others are those of the
 * softmax over one expert, which is 1. */
TEST(test_terms_of_constant_gates) {
    static const char *const gate[] = {"network.gate=constant", "network.gate=softmax"};
    FREED(two_records_free) struct record record[2];
    for (int k = 0; k < 2; k++) {
        support_one("data/ref/coordinate/regime1.ini",
                    ARGS(gate[k], "network.experts=1", "training.steps=4", "reference.widths=8"), 8,
                    &record[k]);
    }
    int compared = 0;
    for (int i = 0; i < record[0].count; i++) {
        const struct series *one = &record[0].series[i];
        const struct series *two = record_find(&record[1], one->name);
        assert_non_null(two);
        if (one->inner) /* not of the result */
            continue;
        compared += !strncmp(one->name, "rms_", 4);
        for (size_t j = 0; j < one->size; j++)
            assert_true(one->values[j] == two->values[j] ||
                        (isnan(one->values[j]) && isnan(two->values[j])));
    }
    assert_true(compared > 10);
    assert_null(record_find(&record[0], "rms_Q"));
    assert_non_null(record_find(&record[1], "rms_Q"));
}

#define SMALL "training.steps=4", "training.eta0=0.6", "reference.widths=8"

TEST(test_terms_of_regime_1) {
    static const char *const table[][8] = {
        {SMALL, "network.parameterization=mup", "network.gate=softmax", "network.beta=1"},
        {SMALL, "network.parameterization=mssp", "training.gamma0=1.5"},
        {SMALL, "network.parameterization=mup", "network.read_out=zero"},
    };
    for (size_t k = 0; k < COUNT(table); k++)
        check_network("data/ref/coordinate/regime1.ini", table[k], 8, 4, 8, 1, 8);
}

TEST(test_terms_of_regime_2) {
    static const char *const table[][8] = {
        {SMALL, "network.parameterization=mup", "training.gamma0=1.5"},
        {SMALL, "network.parameterization=mssp", "network.gate=softmax"},
        {SMALL, "network.parameterization=mssp", "network.read_out=zero"},
    };
    for (size_t k = 0; k < COUNT(table); k++)
        check_network("data/ref/coordinate/regime2.ini", table[k], 8, 4, 4, 0.25, 1);
}

TEST(test_terms_of_regime_3) {
    static const char *const table[][8] = {
        {SMALL, "network.parameterization=mup", "network.kappa=0.5", "network.iota=0.5"},
        {SMALL, "network.parameterization=mssp", "network.kappa=0.5", "network.iota=0.5",
         "network.gate=softmax"},
        {SMALL, "network.parameterization=mssp", "network.kappa=0.5", "network.iota=0.5",
         "network.read_out=zero"},
    };
    for (size_t k = 0; k < COUNT(table); k++)
        check_network("data/ref/coordinate/regime3.ini", table[k], 8, 4, 4, 0.25, 8);
}

enum { WIDTHS = 8, STEPS = 16, TERMS = 64 };

/* A case of coordinate.h5. */
struct reference {
    int widths, steps, terms, N[WIDTHS], seeds[WIDTHS], step[STEPS];
    char names[2048], *name[TERMS];
    double ln_rms[TERMS * STEPS * WIDTHS], ln_sd[TERMS * STEPS * WIDTHS];
    double exponent[TERMS * STEPS], tolerance[TERMS * STEPS];
};

static void read_reference(struct reference *ref, const char *group) {
    hid_t file = H5Fopen("data/ref/coordinate/coordinate.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t id = H5Gopen2(file, group, H5P_DEFAULT);
    hsize_t shape[3];
    assert_true(H5LTget_dataset_info(id, "ln_rms", shape, NULL, NULL) >= 0);
    ref->terms = (int)shape[0];
    ref->steps = (int)shape[1];
    ref->widths = (int)shape[2];
    assert_true(ref->terms <= TERMS && ref->steps <= STEPS && ref->widths <= WIDTHS);
    assert_true(H5LTread_dataset_int(id, "N", ref->N) >= 0);
    assert_true(H5LTread_dataset_int(id, "seeds", ref->seeds) >= 0);
    assert_true(H5LTread_dataset_int(id, "steps", ref->step) >= 0);
    assert_true(H5LTread_dataset_double(id, "ln_rms", ref->ln_rms) >= 0);
    assert_true(H5LTread_dataset_double(id, "ln_sd", ref->ln_sd) >= 0);
    assert_true(H5LTread_dataset_double(id, "exponent", ref->exponent) >= 0);
    assert_true(H5LTread_dataset_double(id, "tolerance", ref->tolerance) >= 0);
    assert_true(H5LTget_attribute_string(id, ".", "terms", ref->names) >= 0);
    int k = 0;
    for (char *at = strtok(ref->names, " "); at; at = strtok(NULL, " "))
        ref->name[k++] = at;
    assert_int_equal(k, ref->terms);
    H5Gclose(id);
    H5Fclose(file);
}

/* The stored exponent through the first `widths` widths, and its standard error from the seeds. */
static void stored_exponent(const struct reference *ref, int entry, int widths, double *exponent,
                            double *se) {
    double x[WIDTHS], mean = 0, spread = 0, scatter = 0;
    *exponent = *se = 0;
    for (int i = 0; i < widths; i++)
        mean += (x[i] = log(ref->N[i])) / widths;
    for (int i = 0; i < widths; i++) {
        double sd = ref->ln_sd[entry * ref->widths + i], weight = x[i] - mean;
        spread += weight * weight;
        *exponent += weight * ref->ln_rms[entry * ref->widths + i];
        scatter += weight * weight * sd * sd / ref->seeds[i];
    }
    *exponent /= spread;
    *se = sqrt(scatter) / spread;
}

static double fitted(const struct comparison *fits, const char *term, const char *suffix, int t) {
    bool gamma; /* gamma0 = 1 there */
    return *record_at(&fits->record, series_of(&fits->record, term, suffix, &gamma), 0, t);
}

struct tally {
    int judged, far;
    double largest, squares;
    char worst[64];
};

/* One exponent: ours against the stored one at the same widths, and against that of all widths with
 * its tolerance (ABOUT there), also where we took fewer. Exact zeros must agree. */
static void judge(const struct reference *ref, int term, int k, int widths,
                  const struct comparison *fits, struct tally *tally) {
    int entry = term * ref->steps + k, t = ref->step[k];
    double want, se, ours = fitted(fits, ref->name[term], "_exponent", t);
    stored_exponent(ref, entry, widths, &want, &se);
    if (isnan(ours) != isnan(want))
        fail_msg("%s at t = %d: %g, stored %g", ref->name[term], t, ours, want);
    if (isnan(ours))
        return;
    if (isfinite(ref->tolerance[entry]))
        CHECK_ABS(ours, ref->exponent[entry], ref->tolerance[entry], "%s at t = %d",
                  ref->name[term], t);
    double z = (ours - want) / hypot(se, fitted(fits, ref->name[term], "_exponent_se", t));
    tally->judged++;
    tally->squares += z * z;
    tally->far += fabs(z) > 3;
    if (fabs(z) > tally->largest) {
        tally->largest = fabs(z);
        snprintf(tally->worst, sizeof tally->worst, "%s at t = %d", ref->name[term], t);
    }
}

/* Runs the networks of a case and fits; T measured times, the first `widths` widths. */
static void run_case(struct run *run, struct comparison *fits, const struct reference *ref,
                     const char *const *overrides, const char *ini, int widths) {
    support_run(run, ini, overrides);
    run->config.reference.widths.count = widths;
    for (int i = 0; i < widths; i++) {
        run->config.reference.widths.value[i] = ref->N[i];
        ASK(run_ensemble(run, ref->N[i], ref->seeds[i], &run->results.reference[i], err));
    }
    *fits = (struct comparison){0};
    ASK(compare_fit(run, fits, err));
}

/* All exponents of a case at the times in reach. Terms of a case share networks: with a zero
 * read-out muP stays near its start, where every term goes with one number, the growth of w, and
 * the rms is about one |z|. Judged are the largest, 4, and the rms, 2.5 (1.88 in regime2_mup_zero
 * at all widths; at three widths 1.4, and 0.5, 0.8, 0.6 with the next three seeds). */
static void check_case(int regime, const char *parameterization, const char *read_out) {
    char group[64], ini[64], par[64], out[64], steps[32];
    snprintf(group, sizeof group, "regime%d_%s_%s", regime, parameterization, read_out);
    snprintf(ini, sizeof ini, "data/ref/coordinate/regime%d.ini", regime);
    snprintf(par, sizeof par, "network.parameterization=%s", parameterization);
    snprintf(out, sizeof out, "network.read_out=%s", read_out);
    int T = is_long && regime < 3 ? 31 : 3;
    snprintf(steps, sizeof steps, "training.steps=%d", T);
    FREED(base_free) struct reference *ref;
    FREED(run_free) struct run run;
    struct comparison fits;
    struct tally tally = {0};
    ASK(base_alloc(&ref, 1, sizeof *ref, err)); /* zero: the names come without their end */
    read_reference(ref, group);
    int widths = is_long ? ref->widths : 3;
    run_case(&run, &fits, ref, ARGS(par, out, steps), ini, widths);
    for (int k = 0; k < ref->steps && ref->step[k] < T; k++)
        for (int term = 0; term < ref->terms; term++)
            judge(ref, term, k, widths, &fits, &tally);
    double rms = sqrt(tally.squares / tally.judged);
    print_message("%s: largest |z| %.2f (%s), rms %.2f of %d\n", group, tally.largest, tally.worst,
                  rms, tally.judged);
    record_free(&fits.record);
    assert_true(tally.judged > 30 && tally.largest <= 4 && rms <= 2.5);
}

/* Each parameterization and read-out is in every regime, each pair of them in one. */
TEST(test_exponents_agree) {
    static const char *const parameterization[] = {"mup", "mssp"}, *read_out[] = {"normal", "zero"};
    for (int regime = 1; regime <= 3; regime++)
        for (int k = 0; k < 4; k++)
            if (is_long || (regime == 2) == (k == 1 || k == 2))
                check_case(regime, parameterization[k / 2], read_out[k % 2]);
}
