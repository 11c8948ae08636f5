/* Whole runs on every other backend equal those on the cpu, T = 6: networks and limits of every
 * kind. Round-off alone differs (order of sums, fused products, functions): 1e-15 of the largest
 * value of a series, measured to grow to 1e-13 in twenty steps, in solved responses to 1e-12. A
 * fixed point carries eps/jitter in the factors of its kernels (docs/methods.md), hence its jitter.
 * So 1e-9 has room for another machine's rounding, and a wrong site, row or factor none. */
#include "tests/support/support.h"
#include "tests/support/wanted.h"

static const struct backend *backend; /* under test */

/* Besides every network of model_list on its data/NAME.ini. */
static const STRUCT(const char *file, *more[4]) others[] = {
    {"data/dense.ini", {"network.activation=relu", "training.optimizer=momentum"}},
    {"data/dense.ini", {"solver.method=fixed_point", "solver.max_sweeps=30", "solver.jitter=1e-4"}},
    {"data/regime1.ini", {"network.activation=gelu"}},
    {"data/regime1_adam.ini", {"network.activation=erf"}},
    {"data/regime2.ini", {"output.kernels=full", "output.responses=yes", "solver.expert_sites=70"}},
    {"data/regime2_softmax.ini", {"solver.expert_sites=70"}},
    {"data/muon.ini", {NULL}},
    {"examples/convolution.ini", {"data.inputs=2", "solver.sites=128"}},
};

/* Limit (N = 0) or networks, two runs on two threads. */
static void solve(const char *file, const char *const *more, const char *name, int N,
                  struct record *record) {
    char choice[64];
    FREED(run_free) struct run run;
    const char *overrides[16] = {
        "solver.sites=130", "solver.replicates=2", "reference.seeds=2", "reference.widths=16",
        "training.steps=6", "solver.threads=2",    "solver.seed=5",     choice};
    for (int n = 8; *more; n++)
        overrides[n] = *more++;
    snprintf(choice, sizeof choice, "solver.backend=%s", name);
    support_run(&run, file, overrides);
    ASK(run_ensemble(&run, N, 2, record, err));
}

static void compare(const char *file, const char *const *more) {
    for (int N = 0; N <= 16; N += 16) {
        FREED(record_free) struct record here, there;
        solve(file, more, "cpu", N, &here);
        solve(file, more, backend->name, N, &there);
        assert_int_equal(here.count, there.count);
        for (int s = 0; s < here.count; s++) {
            const struct series *x = &here.series[s], *y = &there.series[s];
            double largest = 0;
            if (x->inner) /* whether a gradient is exactly 0, which depends on the order of sums */
                continue;
            for (size_t i = 0; i < 2 * x->size; i++)
                largest = fmax(largest, fabs(x->values[i]));
            for (size_t i = 0; i < 2 * x->size; i++)
                CHECK_ABS(y->values[i], x->values[i], 1e-9 * largest, "%s: %s, N = %d, %s",
                          backend->name, file, N, x->name);
        }
    }
}

TEST(runs_equal_the_cpu) {
    for (const struct model *const *model = model_list; *model; model++) {
        const char *keys = (*model)->solver_keys ? (*model)->solver_keys : "", *more[3] = {NULL};
        char file[64];
        int n = 0;
        if (strstr(keys, "expert_sites") && strcmp((*model)->name, "residual"))
            more[n++] = "solver.expert_sites=32";
        if (strstr(keys, "unit_sites"))
            more[n++] = "solver.unit_sites=24";
        snprintf(file, sizeof file, "data/%s.ini", (*model)->name);
        compare(file, more);
    }
    for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
        const char *more[5] = {NULL};
        memcpy(more, others[index].more, sizeof others[index].more);
        compare(others[index].file, more);
    }
}

/* Also where the numbers of a norm stay on a device. */
TEST(a_norm_of_zero_is_told) {
    char choice[64];
    struct err why = {0};
    FREED(run_free) struct run run;
    FREED(record_free) struct record record = {0};
    snprintf(choice, sizeof choice, "solver.backend=%s", backend->name);
    support_run(&run, "data/transformer.ini",
                ARGS("solver.sites=130", "solver.replicates=1", "init.W0=0", choice));
    assert_int_equal(run_ensemble(&run, 0, 1, &record, &why), CODE_NUMERICAL);
    if (!strstr(why.text, "norm of rows on population stream: row 0 of input 0 is zero"))
        fail_msg("%s: %s", backend->name, why.text);
}

ON_EACH_BACKEND(1)
