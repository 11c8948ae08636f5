/* The network of models/networks/resnet.c: explicit matrices against the oracle
 * (tests/oracles/oracle_resnet.c); its limit against closed forms and the extrapolated networks of
 * an independent code (data/ref/resnet). */
#include "tests/support/couple.h"

#include <hdf5.h>

static const char *const cases[][5] = {
    {"network.depth=1"},
    {"network.depth=2", "network.branch=1.7", "network.activation=erf"},
    {"network.depth=3", "network.branch=0.6", "network.activation=gelu", "training.loss=logistic"},
    {"network.depth=5", "network.activation=softplus", "training.gamma0=0.4"},
    {"network.depth=4", "network.activation=linear", "reference.centre=yes"},
    {"network.depth=3", "data.inputs=7", "data.dimension=3", "network.branch=2"},
    {"network.depth=2", "data.inputs=1", "data.dimension=1", "training.eta0=0.4"},
};
enum { CASES = sizeof cases / sizeof *cases };

static void configure(struct run *run, const char *const *more) {
    const char *overrides[16] = {"data.inputs=3", "data.dimension=5", "training.eta0=0.2",
                                 "training.gamma0=1.5", "reference.centre=no"};
    memcpy(overrides + 5, more, sizeof cases[0]);
    support_run(run, "data/resnet.ini", overrides);
}

/* Sums have fewer than 200 terms of order one: round-off is below 200 eps = 4e-14, amplified in
 * four steps by no more than the loss falls, 10: 1e-12. */
TEST(equals_oracle) {
    for (int i = 0; i < CASES; i++) {
        FREED(couple_close) struct couple p;
        configure(&p.run, cases[i]);
        couple_open(&p, 14, 3, "case %d", i);
        couple_train(&p, 4, 1e-12);
    }
}

/* --- the limit -------------------------------------------------------------------------------- */

/* sigma linear: (13) at t = 0 and the lazy recursion (14), which a limit follows without sampling
 * error but for O(gamma0^2) = 1e-6 times numbers of order 10. */
TEST(closed_forms) {
    static const char *const overrides[] = {"network.activation=linear",
                                            "network.depth=3",
                                            "network.branch=1.4",
                                            "data.inputs=3",
                                            "data.dimension=4",
                                            "training.gamma0=1e-3",
                                            "training.eta0=0.1",
                                            "solver.sites=400",
                                            NULL};
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
        support_learn(&net, &run);
        support_evaluate(&net, &run);
        for (int mu = 0; mu < 3; mu++)
            CHECK_ABS(net.output.f[mu], f[mu], 1e-5, "f[%d] at %d", mu, t);
    }
    assert_true(moved > 0.3);
}

enum { T = 16, P = 4 };

/* All of a stored dataset, to be freed. */
static double *stored(hid_t file, const char *name, const char *se) {
    char path[64];
    double *values = calloc(T * 8 * P * P, sizeof *values);
    snprintf(path, sizeof path, "/limit/%s%s", name, se);
    hid_t set = H5Dopen2(file, path, H5P_DEFAULT);
    assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    return values;
}

struct score {
    double largest, squares;
    int count;
};

/* Our series [t] or [t][mu], beside entries t stride + mu step of what is stored, from `at`. */
static void judge(hid_t file, const struct record *record, const char *name, const char *theirs,
                  size_t at, size_t stride, size_t step, struct score *score) {
    FREED(base_free) double *mean = stored(file, theirs, ""), *error = stored(file, theirs, "_se");
    double got, se;
    for (size_t t = 1; t < T; t++)
        for (size_t mu = 0; mu < (step ? P : 1); mu++) {
            size_t k = at + t * stride + mu * step;
            support_entry(record, name, step ? t * P + mu : t, &got, &se);
            double z = (got - mean[k]) / hypot(se, error[k]);
            score->largest = fmax(score->largest, fabs(z));
            score->squares += z * z;
            score->count++;
            if (!(fabs(z) <= 4))
                print_error("%s[%zu] at %zu: %.6g (%.2g), stored %.6g (%.2g), z = %.2f\n", name, mu,
                            t, got, se, mean[k], error[k], z);
        }
}

/* |z| <= 4 at every t. The stored mean loss has half the variance of f of one run, below 1e-6
 * at 2048 sites, which is less than its standard errors by two orders. Entries share networks, so z
 * move together: rms <= 1.5. Our replicates are half of the ini's: with all of them they have a
 * sixth of the variance. */
static void equals_reference(const char *ini, const char *h5) {
    FREED(run_free) struct run run;
    FREED(record_free) struct record record;
    struct score score = {0};
    support_run(&run, ini, ARGS("solver.replicates=8"));
    size_t L = (size_t)run.config.network.block.depth, block = P * P;
    ASK(run_ensemble(&run, 0, run.config.solver.replicates, &record, err));
    hid_t file = H5Fopen(h5, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0);
    judge(file, &record, "loss", "loss", 0, 1, 0, &score);
    judge(file, &record, "f", "f", 0, P, 1, &score);
    for (size_t l = 0; l <= L; l++) {
        char name[2][32];
        snprintf(name[0], sizeof name[0], "Ch_%zu_diag", l);
        snprintf(name[1], sizeof name[1], "Cg_%zu_diag", l);
        judge(file, &record, name[0], "Ch", l * block, (L + 1) * block, P + 1, &score);
        if (l < L)
            judge(file, &record, name[1], "Cg", l * block, (L + 1) * block, P + 1, &score);
    }
    H5Fclose(file);
    double rms = sqrt(score.squares / score.count);
    print_message("%s: largest |z| %.2f, rms %.2f of %d\n", ini, score.largest, rms, score.count);
    assert_true(score.largest <= 4 && rms <= 1.5);
}

TEST(reference) {
    equals_reference("data/ref/resnet/L2.ini", "data/ref/resnet/L2.h5");
    equals_reference("data/ref/resnet/L4_rich.ini", "data/ref/resnet/L4_rich.h5");
}
