/* Optimizers of finite networks: against oracles with optimizers in plain loops
 * (oracle_optimizer.c), and against stored trajectories of tiny networks (data/ref/
 * parameterizations), in all three regimes; with schedules and clipping. The weights are the
 * oracle's, put into the net. */
#include "integrators/integrator.h"
#include "tests/support/couple.h"

#include <hdf5.h>

#define HALF_ROOT 0.70710678118654752
/* By hand: the factors of five steps of a run of six measured times. */
static const struct schedule_case {
    const char *keys;
    double factor[5];
} schedules[] = {
    {"schedule = linear\nwarmup = 2\nschedule_end = 0.1", {0, 0.5, 1, 0.7, 0.4}},
    {"schedule = cosine\nschedule_steps = 4\nschedule_end = 0.2",
     {1, 0.6 + 0.4 * HALF_ROOT, 0.6, 0.6 - 0.4 * HALF_ROOT, 0.2}},
    {"schedule = power\nwarmup = 2\nschedule_t0 = 2", {0, 0.5, 1, 0.81649658092772603, HALF_ROOT}},
    {"warmup = 3", {0, 1 / 3., 2 / 3., 1, 1}},
};
enum { SCHEDULES = COUNT(schedules), PLAIN = -1, STEPS = 5 };

/* w_k = sqrt 2 cos(1 + 2.3 k + 0.7 j) */
static double tiny_weight(int k, int j) {
    return sqrt(2) * cos(1 + 2.3 * k + 0.7 * j);
}

static void tiny_fill(double *w, int count, int j, double factor) {
    for (int k = 0; k < count; k++)
        w[k] = factor * tiny_weight(k, j);
}

/* W3 of each expert is numbered as its transpose, [unit][n]. */
static void tiny_weights(const struct couple *p, int regime, bool mup) {
    enum { N = 6, M = 3, D = 3 };
    const struct oracle_block *block = p->oracle->block;
    int N_e = p->oracle->N_e;
    tiny_fill(block[0].w, N * D, 0, 1);
    tiny_fill(block[1].w, N, 4, 1);
    if (regime == 1) {
        tiny_fill(block[2].w, M * N, 1, mup);
        for (int i = 0; i < M; i++)
            for (int n = 0; n < N; n++)
                for (int k = 0; k < N; k++) {
                    block[3].w[(i * N + n) * N + k] = tiny_weight((i * N + n) * N + k, 2);
                    block[4].w[(i * N + n) * N + k] = tiny_weight((i * N + k) * N + n, 3);
                }
    } else if (regime == 2) {
        int units = M * N_e;
        tiny_fill(block[2].w, M * N, 1, 1);
        tiny_fill(block[3].w, units * N, 2, 1);
        for (int ij = 0; ij < units; ij++)
            for (int n = 0; n < N; n++)
                block[4].w[(ij / N_e * N + n) * N_e + ij % N_e] =
                    tiny_weight(ij * N + n, 3) / (mup ? sqrt(M) : 1);
    } else {
        tiny_fill(block[2].w, M * N, 1, 1);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N_e; j++)
                for (int n = 0; n < N; n++) {
                    int k = ((mup ? i : 0) * N_e + j) * N + n;
                    block[3].w[(i * N_e + j) * N + n] = tiny_weight(k, 2);
                    block[4].w[(i * N + n) * N_e + j] = tiny_weight(k, 3);
                }
    }
}

static void read_stored(const char *name, double want[6][2]) {
    hid_t file = H5Fopen("data/ref/parameterizations/tiny.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t data = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, want) >= 0);
    H5Dclose(data);
    H5Fclose(file);
}

static void tiny_case(int regime, const char *par, const char *optimizer) {
    static const char *const adam[] = {"training.optimizer=adam", "training.eta0=0.1",
                                       "training.eps=0.01", "training.beta1=0.9",
                                       "training.beta2=0.999"};
    const char *overrides[16] = {"training.eta0=0.3"};
    char ini[64], name[64], parameterization[64];
    bool sgd = !strcmp(optimizer, "sgd"), mup = !strcmp(par, "mup");
    double want[6][2];
    FREED(couple_close) struct couple p;
    snprintf(ini, sizeof ini, "data/ref/parameterizations/regime%d.ini", regime);
    snprintf(parameterization, sizeof parameterization, "network.parameterization=%s", par);
    if (!sgd) {
        memcpy(overrides, adam, sizeof adam);
        overrides[5] = !strcmp(optimizer, "adam_inside") ? "training.adam_eps=inside"
                                                         : "training.adam_eps=outside";
    }
    overrides[sgd ? 1 : 6] = parameterization;
    snprintf(name, sizeof name, "/regime%d/%s_%s", regime, par, optimizer);
    read_stored(name, want);
    support_run(&p.run, ini, overrides);
    couple_open(&p, 6, 0, "%s", name);
    tiny_weights(&p, regime, mup);
    couple_put(&p);
    support_evaluate(&p.net, &p.run);
    for (int t = 0; t < 6; t++) {
        for (int mu = 0; mu < 2; mu++)
            CHECK_ABS(p.net.output.f[mu], want[t][mu], 1e-9, "%s: f[%d] at %d", name, mu, t);
        couple_advance(&p, t, 1e-12, 1e-11);
    }
}

/* Stored to 12 digits. */
TEST(tiny_trajectories) {
    static const char *const optimizers[] = {"sgd", "adam_inside", "adam_outside"};
    for (int regime = 1; regime <= 3; regime++)
        for (int k = 0; k < 6; k++)
            tiny_case(regime, k < 3 ? "mup" : "mssp", optimizers[k % 3]);
}

/* The oracle's weights are drawn: routers and others that start at zero move, too. Returns how many
 * of the five steps were clipped. */
static int equals_oracle_of(const char *network, const char *training, const double *factor) {
    int clipped = 0;
    FREED(couple_close) struct couple p;
    support_run_text(
        &p.run, NULL,
        "[network]\n%s\n[data]\ninputs = 4\ndimension = 5\n[training]\ngamma0 = 1.3\n%s\n"
        "[solver]\nreplicates = 0\n[reference]\nwidths = 16\ncentre = no\n",
        network, training);
    couple_open(&p, 16, 0, "%.100s, %.100s", network, training);
    struct rng_stream stream = {.seed = 31, .purpose = PURPOSE_DATA};
    for (int b = 0; b < p.oracle->blocks; b++)
        for (int k = 0; k < p.oracle->block[b].count; k++) {
            double pair[2];
            rng_normal_pair(stream, (uint32_t)b, (uint32_t)k, pair);
            p.oracle->block[b].w[k] = pair[0];
        }
    couple_put(&p);
    support_evaluate(&p.net, &p.run);
    p.oracle->rule.factor = factor;
    for (int t = 0; t < STEPS; t++) {
        double norm = couple_advance(&p, t, 1e-12, 1e-11);
        clipped += p.oracle->rule.clip > 0 && norm > p.oracle->rule.clip;
    }
    return clipped;
}

/* The same in all networks with an oracle, *runs of them; scheduled unless schedule is PLAIN, from
 * that schedule on. */
static int equal_oracles(const char *optimizer, int schedule, int *runs) {
    int clipped = 0;
    for (const struct couple_oracle *const *kind = couple_list; *kind; kind++)
        for (const char *const *settings = (*kind)->settings; *settings; settings++, ++*runs) {
            char network[256], training[256];
            const struct schedule_case *of =
                schedule == PLAIN ? NULL : &schedules[(schedule + *runs) % SCHEDULES];
            snprintf(network, sizeof network, "model = %s\n%s", (*kind)->model, *settings);
            snprintf(training, sizeof training, "%s%s\n%s", of ? "steps = 6\nclip = 0.6\n" : "",
                     of ? of->keys : "", optimizer);
            clipped += equals_oracle_of(network, training, of ? of->factor : NULL);
        }
    return clipped;
}

/* Sums have fewer than 200 terms of order one: 4e-14. A step of Adam passes a relative error of a
 * gradient on as an error of the weights eta0 = 0.05 times as large, or eta0/eps = 1 times for
 * gradients below eps: four steps, 1e-12 in all. */
TEST(equals_oracle) {
    static const char *const optimizers[] = LIST(
        "optimizer = gd\neta0 = 0.2\nweight_decay = 0.02",
        "optimizer = momentum\nmomentum = 0.8\neta0 = 0.2",
        "optimizer = adam\neta0 = 0.05\nbeta1 = 0.8\nbeta2 = 0.95\nadam_eps = outside",
        "optimizer = adam\neta0 = 0.05\nbeta2 = 0.99\neps = 0.1\nadam_eps = inside",
        "optimizer = adamw\neta0 = 0.05\nweight_decay = 0.02",
        "optimizer = lion\neta0 = 0.05\nbeta1 = 0.8\nbeta2 = 0.9\neps = 0.1\nweight_decay = 0.02");
    int runs = 0;
    for (size_t k = 0; k < COUNT(optimizers); k++)
        equal_oracles(optimizers[k], PLAIN, &runs);
}

TEST(muon_equals_oracle) {
    static const char *const muon[] = LIST(
        "optimizer = muon\neta0 = 0.05\nrest_optimizer = gd\nrest_eta0 = 0.2",
        "optimizer = muon\neta0 = 0.05\nmomentum = 0.8\nnesterov = yes\neps = 0.1\nweight_decay = "
        "0.02",
        "optimizer = muon\neta0 = 0.05\nmuon_experts = together\nweight_decay = 0.02",
        "optimizer = muon\neta0 = 0.05\nmuon = exact\nmomentum = 0\nrest_optimizer = gd",
        "optimizer = muon\neta0 = 0.05\nmuon = exact\nmomentum = 0\nmuon_experts = together",
        "optimizer = muon\neta0 = 0.05\nmuon_heads = together\nnesterov = yes\nweight_decay = 0.02",
        "optimizer = muon\neta0 = 0.05\nmuon = exact\nmomentum = 0\nmuon_heads = together");
    int runs = 0;
    for (size_t k = 0; k < COUNT(muon); k++)
        equal_oracles(muon[k], PLAIN, &runs);
}

/* Every optimizer, clipped at a norm that some of the gradients reach, with the schedules in turn,
 * network by network; the tolerance is that above. */
TEST(schedules_and_clipping) {
    static const char *const optimizers[] =
        LIST("eta0 = 0.5", "eta0 = 0.5\nweight_decay = 0.02",
             "optimizer = momentum\nmomentum = 0.8\neta0 = 0.2\nweight_decay = 0.02",
             "optimizer = adam\neta0 = 0.05\nbeta1 = 0.8\nbeta2 = 0.95\nadam_eps = outside",
             "optimizer = adamw\neta0 = 0.05\nweight_decay = 0.02");
    for (size_t k = 0; k < COUNT(optimizers); k++) {
        int runs = 0, clipped = equal_oracles(optimizers[k], (int)k, &runs);
        assert_true(clipped > 0 && clipped < runs * STEPS);
    }
}

/* How far a weight x of the loss c x^2/2, c = 1, has come after steps of optimizers whose step is
 * u -> carry u - gain x, x -> (1 - decay) x + u. */
static double end_of(double carry, double gain, double decay) {
    double x = 1, u = 0;
    for (int step = 0; step < 40000; step++) {
        u = carry * u - gain * x;
        x = (1 - decay) * x + u;
    }
    return fabs(x);
}

/* Rate times curvature from which steps grow: of Adam with its preconditioner held fixed, a mean of
 * gradients. A thousandth below it a weight goes to 0, and above it away. */
TEST(steps_grow_beyond_the_edge) {
    static const double decays[] = {0, 0.02, 0.5};
    struct training training = {.momentum = 0.8, .adam.beta1 = 0.7};
    for (size_t k = 0; optimizer_list[k]; k++) {
        const struct optimizer *optimizer = optimizer_row(k);
        double carry = optimizer->plain           ? 0
                       : optimizer->memories == 2 ? training.adam.beta1
                                                  : training.momentum;
        double share = optimizer->memories == 2 ? 1 - carry : 1;
        for (size_t d = 0; d < 3 && optimizer->edge; d++) {
            double edge = optimizer->edge(&training, decays[d]);
            assert_true(end_of(carry, 0.999 * edge * share, decays[d]) < 1e-2);
            assert_true(end_of(carry, 1.001 * edge * share, decays[d]) > 1e2);
        }
    }
}
