/* The network of models/networks/resnet.c: explicit matrices against the oracle
 * (tests/oracles/oracle_resnet.c); its limit against closed forms and the extrapolated networks of
 * an independent code (data/ref/resnet). */
#include "tests/support/couple.h"
#include "tests/support/stored.h"

static const char *const cases[][5] = {
    {"network.depth=1"},
    {"network.depth=2", "network.branch=1.7", "network.activation=erf"},
    {"network.depth=3", "network.branch=0.6", "network.activation=gelu", "training.loss=logistic"},
    {"network.depth=5", "network.activation=softplus", "training.gamma0=0.4"},
    {"network.depth=4", "network.activation=linear", "reference.centre=yes"},
    {"network.depth=3", "data.inputs=7", "data.dimension=3", "network.branch=2"},
    {"network.depth=2", "data.inputs=1", "data.dimension=1", "training.eta0=0.4"},
};

TEST(equals_oracle) {
    for (size_t i = 0; i < COUNT(cases); i++)
        couple_compare("data/resnet.ini",
                       ARGS("data.inputs=3", "data.dimension=5", "training.eta0=0.2",
                            "training.gamma0=1.5", "reference.centre=no"),
                       cases[i], 14, 4);
}

/* --- the limit -------------------------------------------------------------------------------- */

/* sigma linear: (13) at t = 0 and the lazy recursion (14), which a limit follows without sampling
 * error but for O(gamma0^2) = 1e-6 times numbers of order 10. */
TEST(closed_forms) {
    static const char *const overrides[] = LIST(
        "network.activation=linear", "network.depth=3", "network.branch=1.4", "data.inputs=3",
        "data.dimension=4", "training.gamma0=1e-3", "training.eta0=0.1", "solver.sites=400", NULL);
    RUN_AND_NET;
    double f[3] = {0}, Theta[3][3], K[3][3], a = 1 + 1.4 * 1.4 / 3, moved = 0, got[9];
    support_run(&run, "data/resnet.ini", overrides);
    support_net(&net, &run, 0, 0);
    for (int mu = 0; mu < 3; mu++)
        for (int nu = 0; nu < 3; nu++) {
            K[mu][nu] = 0;
            for (int i = 0; i < 4; i++)
                K[mu][nu] += run.data.X[mu * 4 + i] * run.data.X[nu * 4 + i] / 4;
            Theta[mu][nu] = (2 * a * a * a + 1.4 * 1.4 * a * a) * K[mu][nu];
        }
    support_evaluate(&net, &run);
    for (int k = 0; k < net.kernels.count; k++) {
        bool h = net.kernels.item[k].name[1] == 'h'; /* Ch_l and Phi_l */
        int l = strchr(net.kernels.item[k].name, '_')[1] - '0';
        struct rows rows = net.kernels.item[k].rows;
        rows.array->backend->dots(rows, rows, got);
        for (int i = 0; i < rows.count * rows.count; i++)
            CHECK_ABS(got[i], h ? pow(a, l) * K[i / 3][i % 3] : pow(a, 3 - l), 1e-12 * 30, "%s[%d]",
                      net.kernels.item[k].name, i);
    }
    for (int t = 1; t < 12; t++) {
        double force[3] = {0};
        for (int mu = 0; mu < 9; mu++)
            force[mu / 3] += Theta[mu / 3][mu % 3] * (run.data.y[mu % 3] - f[mu % 3]) / 3;
        for (int mu = 0; mu < 3; mu++) {
            f[mu] += 0.1 * force[mu];
            moved = fmax(moved, fabs(f[mu]));
        }
        support_step(&net, &run);
        for (int mu = 0; mu < 3; mu++)
            CHECK_ABS(net.output.f[mu], f[mu], 1e-5, "f[%d] at %d", mu, t);
    }
    assert_true(moved > 0.3);
}

static void judge(hid_t file, const struct record *record, const char *name, const char *theirs,
                  int first, int count, int step, struct score *score) {
    FREED(course_free) struct course a, b;
    own_course(&a, record, name);
    stored_course(&b, file, theirs);
    course_pick(&b, first, count, step);
    course_judge(score, name, &a, &b, &(struct course_rule){0}, a.T - 1);
}

/* The stored mean loss has half the variance of f of one run, below 1e-6 at 2048 sites, which is
 * less than its standard errors by two orders. Of ours there are a quarter of the sites of the ini,
 * with .75 of the stored errors. */
static void equals_reference(const char *name) {
    enum { P = 4 };
    char ini[64];
    RUN_AND_RECORD;
    struct score score = {0};
    snprintf(ini, sizeof ini, "data/ref/%s.ini", name);
    support_run(&run, ini, ARGS("solver.replicates=8", "solver.sites=1024"));
    support_ensemble(&run, 0, &record);
    FREED(close_file) hid_t file = stored_open(name);
    judge(file, &record, "loss", "loss", 0, 1, 1, &score);
    judge(file, &record, "f", "f", 0, P, 1, &score);
    for (int l = 0, L = run.config.network.block.depth; l <= L; l++) {
        TEXT(kernel, 32, "Ch_%d", l);
        judge(file, &record, kernel, "Ch", l * P * P, P, P + 1, &score);
        snprintf(kernel, sizeof kernel, "Cg_%d", l);
        if (l < L)
            judge(file, &record, kernel, "Cg", l * P * P, P, P + 1, &score);
    }
    score_end(&score, name, 1.5);
}

TEST(reference) {
    equals_reference("resnet/L2");
    equals_reference("resnet/L4_rich");
}
