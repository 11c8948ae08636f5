/* The limit of Regime III against trajectories of an independent kernel-and-response solver
 * (data/ref/regime3, see ABOUT there), as tests/support/stored.h says: two cases, with the argument
 * `long` all.
 *
 * Errors of kernels are alike relative to their means (Gbar of one input may be eight times that of
 * another, and so is its error). Half a unit of the last stored digit is 0.5e-7. Softmax and top-K
 * run away after a while; `horizon` is the last time at which means are meaningful (ABOUT).
 * Independent normals: with even ones errors are no longer those of many runs alike (rows of digits
 * are drawn), and 4 of them no bound for hundreds of entries. */
#include "tests/support/stored.h"

enum { P = 4 };

static void judge_all(hid_t file, const struct record *record, bool mssp, int horizon,
                      struct score *score) {
    static const char *const names[] = {"f",    "loss", "G3",    "Phi1",  "Phi3",   "G1",  "Phibar",
                                        "Gbar", "PhiE", "phit2", "G1phi", "Phitil", "Gtil"};
    FREED(course_free) struct course f;
    stored_course(&f, file, "f");
    for (int k = 0; k < (int)COUNT(names) - 2 * !mssp; k++) {
        const struct course_rule rule = {.relative = k > 1, .rounding = 0.5e-7};
        FREED(course_free) struct course a, b;
        own_course(&a, record, names[k]);
        stored_course(&b, file, names[k]);
        if (k == 1)
            course_subtract_variance(&b, &f, P);
        course_judge(score, names[k], &a, &b, &rule, horizon ? horizon : a.T - 1);
    }
}

/* t = 0, where the limit is known: f = 0, loss = 1/2, G3 = 1, G1phi = 0 (b is orthogonal to
 * sigma(u) of the units by conditioning, to the truncation of the basis at most), Phi1 a Gaussian
 * integral. muP: Phi3 = 0, and G1 = 0 as units are
 * mirror images (a sum of terms of order one that cancel, 1e-12, squared). MSSP: Phi3 = iota
 * Phitil, since h3 is iota^{1/2} times Gaussians of covariance Phitil, which are orthonormal. */
static void judge_start(const struct run *run, const struct record *record, bool mssp) {
    double iota = run->config.network.experts.iota, tolerance = run->config.solver.tolerance;
    FREED(course_free) struct course loss, G3, Phi1, Phi3, G1phi, G1, Phitil = {0};
    own_course(&loss, record, "loss");
    own_course(&G3, record, "G3");
    own_course(&Phi1, record, "Phi1");
    own_course(&Phi3, record, "Phi3");
    own_course(&G1phi, record, "G1phi");
    own_course(&G1, record, "G1");
    if (mssp)
        own_course(&Phitil, record, "Phitil");
    CHECK_ABS(loss.mean[0], 0.5, 0, "loss at t = 0");
    CHECK_ABS(G3.mean[0], 1, 1e-14, "G3 at t = 0");
    for (int mu = 0; mu < P; mu++) {
        CHECK_ABS(Phi1.mean[mu], stored_start(&run->data, mu),
                  4 * course_error(&Phi1, &(struct course_rule){.relative = true}, 0, mu),
                  "Phi1[%d]", mu);
        CHECK_ABS(Phi3.mean[mu], mssp ? iota * Phitil.mean[mu] : 0, tolerance * tolerance,
                  "Phi3[%d]", mu);
        CHECK_ABS(G1phi.mean[mu], 0, pow(iota * tolerance, 2), "G1phi[%d]", mu);
        if (!mssp)
            CHECK_ABS(G1.mean[mu], 0, 1e-24, "G1[%d]", mu);
    }
}

static void one_case(const char *name, int horizon) {
    char ini[64], file_name[64];
    RUN_AND_RECORD;
    struct score score = {0};
    snprintf(ini, sizeof ini, "data/ref/regime3/%s.ini", name);
    snprintf(file_name, sizeof file_name, "regime3/%s", name);
    support_run(&run, ini,
                ARGS("solver.draws=normal", is_long ? "solver.sites=2048" : "solver.sites=512",
                     is_long ? NULL : "solver.expert_sites=128", "solver.unit_sites=128"));
    bool mssp = run.config.network.parameterization == PARAMETERIZATION_MSSP;
    ASK(run_ensemble(&run, 0, is_long ? 64 : 48, &record, err));
    FREED(close_file) hid_t file = stored_open(file_name);
    judge_start(&run, &record, mssp);
    judge_all(file, &record, mssp, horizon, &score);
    score_end(&score, name, INFINITY);
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
