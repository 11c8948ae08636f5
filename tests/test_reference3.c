/* The limit of Regime III against trajectories of an independent kernel-and-response solver
 * (data/ref/regime3, see ABOUT there): two cases, with the argument `long` all.
 *
 * z = (ours - stored)/se, |z| <= 4, with se^2 = se^2 + se_stored^2. A standard error of n runs is
 * itself uncertain by 1/sqrt(2 (n - 1)), so each is replaced by the root mean square over the
 * inputs and over t - 1, t, t + 1 (of kernels, of relative errors); both sides alike, never over
 * quantities; half a unit of the last
 * stored digit (1e-7) is added. The stored mean loss contains half the variance of f of one
 * run, (1/2P) sum_mu n se_f^2, which depends on method and sites and is subtracted; ours is that of
 * the mean output. Softmax and top-K run away after a while; `horizon` is the last time at which
 * means are meaningful (ABOUT). Independent normals: with even ones errors are no longer those of
 * many runs alike (rows of digits are drawn), and 4 of them no bound for hundreds of entries.
 */
#include "tests/support/support.h"

#include <gsl/gsl_integration.h>
#include <gsl/gsl_randist.h>
#include <hdf5.h>

enum { MOST_T = 12, P = 4 };

/* A trajectory [t][column] with standard errors, from n runs. */
struct track {
    double mean[MOST_T * P], se[MOST_T * P];
    int T, columns, n;
};

static void read_dataset(hid_t file, const char *name, const char *suffix, double *values,
                         int *columns) {
    char path[64];
    hsize_t shape[2] = {0, 1};
    snprintf(path, sizeof path, "/limit/%s%s", name, suffix);
    hid_t set = H5Dopen2(file, path, H5P_DEFAULT), space = H5Dget_space(set);
    assert_true(H5Sget_simple_extent_npoints(space) <= MOST_T * P);
    assert_true(H5Sget_simple_extent_dims(space, shape, NULL) > 0);
    assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Sclose(space);
    H5Dclose(set);
    *columns = (int)shape[1];
}

static void stored(hid_t file, const char *name, int T, struct track *track) {
    track->T = T;
    read_dataset(file, name, "", track->mean, &track->columns);
    read_dataset(file, name, "_se", track->se, &track->columns);
    hid_t attribute = H5Aopen_by_name(file, "/limit", "n", H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Aread(attribute, H5T_NATIVE_INT, &track->n) >= 0);
    H5Aclose(attribute);
}

static void ours(const struct record *record, const char *name, struct track *track) {
    char diagonal[64];
    snprintf(diagonal, sizeof diagonal, "%s_diag", name);
    const struct series *series =
        record_find(record, strcmp(name, "f") && strcmp(name, "loss") ? diagonal : name);
    FREED(base_free) double *all;
    ASK(base_alloc(&all, 2 * series->size, sizeof *all, err));
    record_statistics(record, series, all, all + series->size);
    memcpy(track->mean, all, series->size * sizeof *all);
    memcpy(track->se, all + series->size, series->size * sizeof *all);
    track->T = record->T;
    track->columns = (int)series->size / record->T;
    track->n = record->runs;
}

/* Of column k; kernels: of errors relative to the mean (Gbar of one input may be eight times that
 * of another, and so is its error). */
static double pooled(const struct track *track, bool relative, int t, int k) {
    double sum = 0;
    int n = 0;
    for (int s = t > 0 ? t - 1 : 0; s <= t + 1 && s < track->T; s++)
        for (int l = 0; l < track->columns; l++) {
            int i = s * track->columns + l;
            if (relative && track->mean[i] == 0)
                continue;
            sum += pow(track->se[i] / (relative ? track->mean[i] : 1), 2);
            n++;
        }
    return (relative ? fabs(track->mean[t * track->columns + k]) : 1) * sqrt(sum / n);
}

struct score {
    double largest, squares;
    int count;
};

static void judge(const char *run, const char *name, const struct track *a, const struct track *b,
                  int first, int horizon, struct score *score) {
    bool relative = strcmp(name, "f") && strcmp(name, "loss");
    assert_int_equal(a->columns, b->columns);
    for (int t = first; t <= horizon; t++)
        for (int k = 0; k < a->columns; k++) {
            int i = t * a->columns + k;
            double se = hypot(pooled(a, relative, t, k), pooled(b, relative, t, k)) + 0.5e-7;
            double z = (a->mean[i] - b->mean[i]) / se;
            score->largest = fmax(score->largest, fabs(z));
            score->squares += z * z;
            score->count++;
            if (!(fabs(z) <= 4))
                print_error("%s %s[%d] at %d: %.6g, stored %.6g, z = %.2f\n", run, name, k, t,
                            a->mean[i], b->mean[i], z);
        }
}

static void subtract_variance(struct track *loss, const struct track *f) {
    for (int i = 0; i < f->T * P; i++)
        loss->mean[i / P] -= 0.5 / P * f->n * f->se[i] * f->se[i];
}

static void judge_all(hid_t file, const char *run, const struct record *record, bool mssp,
                      int horizon, struct score *score) {
    static const char *const names[] = {"G3",   "Phi1",  "Phi3",  "G1",     "Phibar", "Gbar",
                                        "PhiE", "phit2", "G1phi", "Phitil", "Gtil"};
    struct track f, stored_f, a, b;
    int T = record->T, count = (int)(sizeof names / sizeof *names) - 2 * !mssp;
    ours(record, "f", &f);
    stored(file, "f", T, &stored_f);
    judge(run, "f", &f, &stored_f, 1, horizon, score);
    ours(record, "loss", &a);
    stored(file, "loss", T, &b);
    subtract_variance(&b, &stored_f);
    judge(run, "loss", &a, &b, 1, horizon, score);
    for (int k = 0; k < count; k++) { /* t = 0: see judge_start */
        ours(record, names[k], &a);
        stored(file, names[k], T, &b);
        judge(run, names[k], &a, &b, 1, horizon, score);
    }
}

/* tanh(sqrt(q) z)^2 against the normal density. */
static double integrand(double z, void *q) {
    double h = tanh(sqrt(*(double *)q) * z);
    return h * h * gsl_ran_ugaussian_pdf(z);
}

/* t = 0, where the limit is known: f = 0, loss = 1/2, G3 = 1, G1phi = 0 (b is orthogonal to
 * sigma(u) of the units by conditioning, to the truncation of the basis at most), Phi1 a Gaussian
 * integral. muP: Phi3 = 0, and G1 = 0 as units are
 * mirror images (a sum of terms of order one that cancel, 1e-12, squared). MSSP: Phi3 = iota
 * Phitil, since h3 is iota^{1/2} times Gaussians of covariance Phitil, which are orthonormal. */
static void judge_start(const char *name, const struct run *run, const struct record *record,
                        bool mssp) {
    const struct config *c = &run->config;
    double iota = c->network.experts.iota, tolerance = c->solver.tolerance;
    gsl_integration_workspace *work = gsl_integration_workspace_alloc(200);
    struct track track, Phi1, Phi3, G1phi, G1, Phitil = {.mean = {0}};
    ours(record, "loss", &track);
    CHECK_ABS(track.mean[0], 0.5, 0, "%s: loss at t = 0", name);
    ours(record, "G3", &track);
    CHECK_ABS(track.mean[0], 1, 1e-14, "%s: G3 at t = 0", name);
    ours(record, "Phi1", &Phi1);
    ours(record, "Phi3", &Phi3);
    ours(record, "G1phi", &G1phi);
    ours(record, "G1", &G1);
    if (mssp)
        ours(record, "Phitil", &Phitil);
    for (int mu = 0; mu < P; mu++) {
        double q = 0, exact, error;
        for (int i = 0; i < run->data.D; i++)
            q += pow(run->data.X[mu * run->data.D + i], 2) / run->data.D;
        gsl_function function = {integrand, &q};
        gsl_integration_qagi(&function, 0, 1e-10, 200, work, &exact, &error);
        CHECK_ABS(Phi1.mean[mu], exact, 4 * pooled(&Phi1, true, 0, mu), "%s: Phi1[%d]", name, mu);
        CHECK_ABS(Phi3.mean[mu], iota * Phitil.mean[mu], tolerance * tolerance, "%s: Phi3[%d]",
                  name, mu);
        CHECK_ABS(G1phi.mean[mu], 0, pow(iota * tolerance, 2), "%s: G1phi[%d]", name, mu);
        if (!mssp)
            CHECK_ABS(G1.mean[mu], 0, 1e-24, "%s: G1[%d]", name, mu);
    }
    gsl_integration_workspace_free(work);
}

static void one_case(const char *name, int horizon) {
    char ini[64], h5[64];
    FREED(run_free) struct run run;
    FREED(record_free) struct record record;
    struct score score = {0};
    snprintf(ini, sizeof ini, "data/ref/regime3/%s.ini", name);
    snprintf(h5, sizeof h5, "data/ref/regime3/%s.h5", name);
    support_run(&run, ini,
                ARGS("solver.draws=normal", is_long ? "solver.sites=2048" : "solver.sites=512",
                     is_long ? NULL : "solver.expert_sites=128", "solver.unit_sites=128"));
    bool mssp = run.config.network.parameterization == PARAMETERIZATION_MSSP;
    ASK(run_ensemble(&run, 0, is_long ? 64 : 48, &record, err));
    hid_t file = H5Fopen(h5, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0);
    judge_start(name, &run, &record, mssp);
    judge_all(file, name, &record, mssp, horizon ? horizon : record.T - 1, &score);
    H5Fclose(file);
    print_message("%s: largest |z| %.2f, rms %.2f of %d\n", name, score.largest,
                  sqrt(score.squares / score.count), score.count);
    assert_true(score.largest <= 4);
}

#define CASE(name, horizon, always)                                                                \
    TEST(case_##name) {                                                                            \
        if (!(always) && !is_long)                                                                 \
            skip(); /* make check-long */                                                          \
        one_case(#name, horizon);                                                                  \
    }
CASE(m_sig_a, 0, true)
CASE(u_sig_a, 0, true)
CASE(m_soft_b, 4, false)
CASE(m_soft_c, 0, false)
CASE(m_soft_lazy, 0, false)
CASE(u_sig_d, 0, false)
CASE(m_top_b, 3, false)
CASE(u_top_b, 3, false)
