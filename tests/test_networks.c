/* The limit against the program's own finite networks: their difference shrinks with N, and the
 * extrapolation a + b/N through all widths is consistent with the limit. The argument `long` runs
 * every gate, both parameterizations, kappa on both sides of 1, top-K, several activations.
 *
 * Entries share seeds, so the z of one case move together: judged are the largest and the rms.
 * Under the null |z| > 4 happens once in 16 000 independent entries; the standard errors themselves
 * are known to 13 per cent (32 seeds; 48 with `long`, and where `far` counts). rms <= 2 allows for
 * about four independent directions a case. The limit has eight replicates: with sixteen z are the
 * same to a fifth, since nearly all of the error is that of the extrapolation.
 */
#include "tests/support/support.h"
#include "solver/measure/stats.h"

enum { SERIES = 7 };

struct score {
    double largest, squares;
    int count, far, shrinks; /* far: narrowest network more than 4 se from the limit */
    char worst[64];
};

static void judge(const struct int_list *widths, const struct record *networks,
                  const struct record *limit, const char *name, int t, struct score *score) {
    struct stats_mean mean[INT_LIST_MAX];
    double exact, exact_se;
    size_t entry = (size_t)t * (record_find(limit, name)->size / (size_t)limit->T);
    int n = widths->count;
    support_entry(limit, name, entry, &exact, &exact_se);
    support_means(networks, n, name, entry, mean);
    struct stats_fit line = stats_extrapolate(widths->value, mean, n);
    double z = (line.a - exact) / hypot(line.se, exact_se);
    if (fabs(z) > score->largest) {
        score->largest = fabs(z);
        snprintf(score->worst, sizeof score->worst, "%s at t = %d", name, t);
    }
    score->squares += z * z;
    score->count++;
    if (fabs(mean[0].value - exact) < 4 * hypot(mean[0].se, exact_se))
        return;
    score->far++;
    score->shrinks += fabs(mean[n - 1].value - exact) < fabs(mean[0].value - exact);
}

/* Wherever the narrowest network is visibly off, at `far` of the 28 entries or more, the widest
 * must be nearer. */
static void compare_series(const char *ini, const char *const names[SERIES],
                           const char *const *overrides, int far) {
    static const int times[] = {1, 5, 12, 19};
    FREED(run_free) struct run run;
    struct record limit, networks[INT_LIST_MAX];
    struct score score = {0};
    support_run(&run, ini, overrides);
    const struct int_list *widths = &run.config.reference.widths;
    int seeds = run.config.reference.seeds * (is_long || far ? 3 : 2) / 3;
    ASK(run_ensemble(&run, 0, run.config.solver.replicates, &limit, err));
    for (int i = 0; i < widths->count; i++)
        ASK(run_ensemble(&run, widths->value[i], seeds, &networks[i], err));
    for (size_t q = 0; q < SERIES && names[q]; q++)
        for (size_t k = 0; k < sizeof times / sizeof *times; k++)
            judge(widths, networks, &limit, names[q], times[k], &score);
    double rms = sqrt(score.squares / score.count);
    print_message("largest |z| %.2f (%s), rms %.2f of %d; widest nearer at %d of %d far ones:",
                  score.largest, score.worst, rms, score.count, score.shrinks, score.far);
    for (int i = 0; overrides[i]; i++)
        print_message(" %s", strchr(overrides[i], '.') + 1);
    print_message("\n");
    assert_true(score.largest <= 4 && rms <= 2);
    assert_true(score.far >= far && score.shrinks == score.far);
    record_free(&limit);
    for (int i = 0; i < widths->count; i++)
        record_free(&networks[i]);
}

static void compare(const char *const *overrides, int far) {
    static const char *const names[SERIES] = {"loss",      "f",         "Phi1_diag", "G1_diag",
                                              "Phi3_diag", "Phib_diag", "Gb_diag"};
    compare_series("data/regime2.ini", names, overrides, far);
}

#define SMALL                                                                                      \
    "reference.widths=32 64 128", "reference.seeds=48", "solver.replicates=8", "solver.sites=512", \
        "solver.expert_sites=512"
#define LARGE                                                                                      \
    "reference.widths=64 128 256 512", "reference.seeds=48", "solver.replicates=32",               \
        "solver.sites=2048", "solver.expert_sites=2048"

/* muP starts with a W_out of variance 1/M: its 1/N terms are large and seen at every time. */
TEST(networks_approach_the_limit) {
    compare(ARGS("network.parameterization=mup", "training.eta0=0.6", "training.gamma0=1.5", SMALL),
            8);
    compare(ARGS("network.parameterization=mssp", "training.eta0=0.4", SMALL),
            0); /* its 1/N terms are below the noise already at N = 32 */
}

TEST(every_kind_of_network) {
    if (!is_long)
        skip(); /* make check-long */
    static const char *const cases[][5] = {
        {"network.kappa=0.5"},
        {"network.kappa=2", "network.expert_width=1", "network.lambda_in=kappa"},
        {"network.kappa=0.5", "network.parameterization=mup", "training.eta0=0.5"},
        {"network.kappa=2", "network.parameterization=mup", "training.eta0=0.6"},
        {"network.kappa=0.5", "network.rho=0.5"},
        {"network.kappa=2", "network.gate=softmax", "network.beta=0.5", "training.eta0=0.1"},
        {"network.gate=softmax", "network.beta=0.5", "network.rho=0.25",
         "network.parameterization=mup", "training.eta0=0.1"},
        {"network.gate=constant", "network.activation=relu", "training.eta0=0.05"},
        {"network.activation=gelu", "training.loss=logistic", "training.eta0=1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const large[] = {LARGE};
        const char *overrides[16] = {0};
        int n = 0;
        for (; n < 5 && cases[i][n]; n++)
            overrides[n] = cases[i][n];
        memcpy(overrides + n, large, sizeof large);
        compare(overrides, 0);
    }
}

/* One block: experts of infinite and of fixed width, the stream acting back on them (alpha > 0),
 * soft and top-K. */
TEST(residual_networks) {
    static const char *const names[SERIES] = {"loss",        "f",         "Ch_1_diag", "Cg_0_diag",
                                              "Mphi_0_diag", "Mg_0_diag", "MAA_0_diag"};
    static const char *const cases[][6] = {
        {"network.alpha=2", "network.expert_width=1", "network.rho=1"},
        {"network.alpha=4", "network.experts=1", "network.rho=1"},
        {"network.alpha=0.25", "network.expert_width=4"},
        {"network.alpha=1", "network.expert_width=2", "network.rho=0.5"},
        {"network.alpha=1", "network.expert_width=2", "network.rho=1", "network.q0=1"},
        {"network.alpha=1", "network.expert_width=2", "network.rho=0.5", "network.q0=1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && (is_long || i < 2); i++) {
        const char *overrides[32] = {"network.depth=1",       "training.steps=20",
                                     "training.gamma0=2",     "data.inputs=4",
                                     "solver.unit_sites=512", SMALL};
        int n = 10;
        for (int k = 0; k < 6 && cases[i][k]; k++)
            overrides[n++] = cases[i][k];
        compare_series("data/residual.ini", names, overrides, 0);
    }
}

/* Blocks on one stream, gradient descent and gradient flow. */
TEST(resnet) {
    static const char *const names[SERIES] = {"loss",      "f",         "Phi_1_diag", "Ch_0_diag",
                                              "Ch_4_diag", "Cg_0_diag", "Cg_2_diag"};
#define SITES(number)                                                                              \
    "reference.widths=32 64 128", "reference.seeds=48", "solver.replicates=8",                     \
        "solver.sites=" #number
#define PLAIN SITES(512)
    compare_series("data/resnet.ini", names, ARGS("training.gamma0=2", "training.eta0=0.1", PLAIN),
                   0);
    compare_series(
        "data/resnet.ini", names,
        ARGS("network.branch=1.5", "training.integrator=heun", "training.eta0=0.1", PLAIN), 0);
}

/* Blocks that share one matrix, whose every use meets what the others have met. */
TEST(tied) {
    static const char *const names[SERIES] = {"loss",     "f",        "C_1_diag", "C_2_diag",
                                              "C_4_diag", "G_0_diag", "G_2_diag"};
    compare_series("examples/tied.ini", names,
                   ARGS("program.branch=2.5", "training.gamma0=1.5", "training.steps=20",
                        "training.eta0=0.1", PLAIN),
                   0);
}

/* Vectors and a number that are trained: gains, biases, the scale of a branch; an output with a
 * bias, a cap and a z-loss; and one matrix that reads in and out, as vectors. */
TEST(vectors) {
    static const char *const names[][SERIES] = {
        {"loss", "f", "Ch_diag", "Cg_loss_diag"},
        {"loss", "f", "Ch_diag", "Cg_total_diag", "z_loss"}};
    static const char *const ways[][3] = {
        {"examples/gains.ini", "training.optimizer=gd", "training.eta0=0.3"},
        {"examples/gains.ini", "training.optimizer=adam", "training.eta0=0.03"},
        {"examples/capped.ini", "program.cap=1", "training.eta0=1"},
        {"examples/tied_embedding.ini", "training.optimizer=gd", "training.eta0=0.3"},
        {"examples/tied_embedding.ini", "training.optimizer=adam", "training.eta0=0.05"}};
    for (int k = 0; k < 5; k++) {
        compare_series(ways[k][0], names[k == 2],
                       ARGS(ways[k][1], ways[k][2], "training.steps=20", "data.inputs=2",
                            "data.tokens=3", SITES(256)),
                       0);
    }
}

/* A single pass, four inputs a step, and epochs in shuffled order; test inputs at every step. */
TEST(fresh_inputs) {
    static const struct {
        const char *file, *names[SERIES], *overrides[6];
    } cases[] = {
        {"data/dense.ini",
         {"loss", "f", "test_loss", "Phi1_diag", "G1_diag", "Phi2_diag", "G2_diag"},
         {"data.inputs=80", "reference.widths=32 64 128"}},
        {"data/regime2.ini",
         {"loss", "f", "test_loss", "Phi1_diag", "G1_diag", "Phib_diag", "Gb_diag"},
         {"data.inputs=80", "training.eta0=0.4", "solver.expert_sites=512",
          "reference.widths=32 64 128"}},
        {"data/regime1.ini",
         {"loss", "f", "test_loss", "Phi1_diag", "G1_diag", "psi", "p"},
         {"data.inputs=10", "training.order=shuffled", "reference.widths=64 128 256"}},
        {"data/regime2.ini",
         {"loss", "f", "test_loss", "Phi1_diag", "G1_diag", "Phib_diag", "Gb_diag"},
         {"data.inputs=80", "training.optimizer=adam", "training.eta0=0.05", "training.eps=0.1",
          "solver.expert_sites=512", "reference.widths=32 64 128"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && (is_long || i < 2); i++) {
        const char *overrides[16] = {"reference.seeds=48", "solver.replicates=8",
                                     "solver.sites=512", "training.batch=4", "data.test_inputs=12"};
        memcpy(overrides + 5, cases[i].overrides, sizeof cases[i].overrides);
        compare_series(cases[i].file, cases[i].names, overrides, 0);
    }
}

/* Optimizers, of which the limit is that of the same algorithm; by default three of them. */
TEST(optimizers) {
#define ADAM                                                                                       \
    "training.optimizer=adam", "training.eta0=0.08", "training.eps=0.1", "training.beta2=0.99",    \
        "training.gamma0=1", "training.steps=20", "reference.seeds=48", "solver.replicates=8"
#define PAIRS "solver.sites=512", "solver.expert_sites=64", "solver.unit_sites=64"
#define MUON                                                                                       \
    "training.optimizer=muon", "training.eta0=0.15", "training.rest_eta0=0.1",                     \
        "training.weight_decay=0.01", "training.gamma0=1", "training.steps=20",                    \
        "reference.seeds=48", "solver.replicates=8"
    static const struct {
        const char *ini, *names[SERIES], *overrides[20];
    } cases[] = {
        {"data/regime2.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi3_diag", "Phib_diag", "Gb_diag"},
         {"network.parameterization=mup", "solver.sites=256", "solver.expert_sites=256",
          "reference.widths=32 64 128", ADAM}},
        {"data/dense.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi2_diag", "G2_diag", "PhiL_diag"},
         {"training.optimizer=momentum", "training.eta0=0.05", "training.steps=20",
          "training.weight_decay=0.04", "decays.W1=0.3", "decays.W2=2", "solver.sites=512",
          "solver.replicates=8", "reference.seeds=48", "reference.widths=32 64 128"}},
        {"data/resnet.ini",
         {"loss", "f", "Phi_0_diag", "Ch_0_diag", "Cg_0_diag", "Cg_1_diag", "Ch_2_diag"},
         {"network.depth=2", "solver.sites=512", "reference.widths=32 64 128", ADAM}},
        {"data/regime2.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi3_diag", "Phib_diag", "Gb_diag"},
         {"network.parameterization=mssp", "network.kappa=0.5", "network.expert_width=3",
          "solver.sites=512", "solver.expert_sites=512", "reference.widths=32 64 128", MUON}},
        {"data/dense.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi2_diag", "G2_diag", "PhiL_diag"},
         {"solver.sites=512", "reference.widths=32 64 128", "training.nesterov=yes",
          "training.weight_decay=0.02", MUON}},
        {"data/regime2.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi3_diag", "Phib_diag", "Gb_diag"},
         {"network.parameterization=mssp", "network.kappa=0.5", "solver.sites=512",
          "solver.expert_sites=512", "reference.widths=32 64 128", "training.rest=Q",
          "training.muon_experts=together", MUON}},
        {"data/regime3.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi3_diag", "Phibar_diag", "Gbar_diag"},
         {"reference.widths=32 48 64", "training.rest=Q", PAIRS, MUON}},
        {"data/regime3_mup.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi3_diag", "Phibar_diag", "Gbar_diag"},
         {"network.read_out=normal", "reference.widths=32 48 64", "training.rest=Q",
          "solver.sites=512", "solver.expert_sites=64", "solver.unit_sites=256", MUON}},
        {"data/residual.ini",
         {"loss", "f", "Ch_1_diag", "Cg_0_diag", "Mphi_0_diag", "Mg_0_diag", "MAA_0_diag"},
         {"network.alpha=2", "network.expert_width=2", "network.rho=1", "network.depth=1",
          "data.inputs=4", "solver.sites=512", "solver.expert_sites=512",
          "reference.widths=32 64 128", MUON}},
        {"examples/heads.ini",
         {"loss", "f", "Phi_diag", "G_loss_diag", "attention_1", "margin"},
         {"solver.sites=512", "solver.halves=yes", "reference.widths=32 64 128", MUON}},
        {"data/regime2.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi3_diag", "Phib_diag", "Gb_diag"},
         {"network.parameterization=mssp", "network.kappa=0.5", "solver.sites=512",
          "solver.expert_sites=512", "reference.widths=64 128 256", ADAM}},
        {"data/dense.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi2_diag", "G2_diag", "PhiL_diag"},
         {"solver.sites=512", "reference.widths=64 128 256", "training.optimizer=adamw",
          "training.weight_decay=0.02", "decays.W1=0.3", "decays.W2=2", "training.eta0=0.08",
          "training.steps=20", "reference.seeds=48", "solver.replicates=8"}},
        {"data/dense.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi2_diag", "G2_diag", "PhiL_diag"},
         {"solver.sites=512", "reference.widths=64 128 256", "training.optimizer=lion",
          "training.beta2=0.95", "training.eps=0.1", "training.weight_decay=0.02",
          "training.eta0=0.04", "training.steps=20", "reference.seeds=48", "solver.replicates=8"}},
        {"data/regime3.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi3_diag", "Phibar_diag", "Gbar_diag"},
         {"reference.widths=32 48 64", PAIRS, ADAM}},
        {"data/regime3_mup.ini",
         {"loss", "f", "Phi1_diag", "G1_diag", "Phi3_diag", "Phibar_diag", "Gbar_diag"},
         {"reference.widths=32 48 64", PAIRS, ADAM}},
        {"data/residual.ini",
         {"loss", "f", "Ch_1_diag", "Cg_0_diag", "Mphi_0_diag", "Mg_0_diag", "MAA_0_diag"},
         {"network.alpha=2", "network.expert_width=1", "network.rho=1", "network.depth=1",
          "data.inputs=4", "solver.sites=512", "solver.expert_sites=512",
          "reference.widths=32 64 128", ADAM}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && (is_long || i < 3); i++)
        compare_series(cases[i].ini, cases[i].names, cases[i].overrides, 0);
}

/* Most steps are clipped, in the limit at the same norm as in every network, and the rate falls.
 * Norms: from 0.41 to 0.09, from 0.25 to 0.34, and from 0.35 to 0.50. */
TEST(clipped) {
#define CLIPPED                                                                                    \
    "training.schedule=cosine", "training.schedule_end=0.2", "training.steps=20",                  \
        "solver.replicates=8", "solver.sites=512", "reference.seeds=48",                           \
        "reference.widths=32 64 128"
    static const struct {
        const char *ini, *names[SERIES], *overrides[16];
    } cases[] = {
        {"data/dense.ini",
         {"loss", "f", "gradient_norm", "Phi1_diag", "G1_diag", "Phi2_diag", "PhiL_diag"},
         {CLIPPED, "training.clip=0.3"}},
        {"data/regime2.ini",
         {"loss", "f", "gradient_norm", "Phi1_diag", "G1_diag", "Phib_diag", "Gb_diag"},
         {CLIPPED, "training.clip=0.2", "training.optimizer=momentum", "training.eta0=0.1",
          "solver.expert_sites=512"}},
        {"data/regime1.ini",
         {"loss", "f", "gradient_norm", "Phi1_diag", "G1_diag", "psi", "p"},
         {CLIPPED, "training.clip=0.3", "training.eta0=0.3"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && (is_long || i < 2); i++)
        compare_series(cases[i].ini, cases[i].names, cases[i].overrides, 0);
}

/* Gradients of one term alone, of a limit by passes that it forgets: with a penalty, with several
 * outputs, and token by token. */
TEST(gradients_apart) {
    static const struct {
        const char *ini, *names[SERIES], *overrides[16];
    } cases[] = {
        {"data/regime2.ini",
         {"G1_diag", "Gphi_diag", "Gb_loss_diag", "tangent", "gradient_norm_loss",
          "gradient_norm_balance_loss_Q", "cosine_loss_balance_loss"},
         {"network.kappa=0.5", "network.rho=0.25", "network.balance_loss=0.5", "training.eta0=0.3",
          "data.inputs=6", "solver.sites=256", "solver.expert_sites=256", "solver.replicates=8",
          "reference.seeds=48", "reference.widths=32 64 128"}},
        {"data/dense.ini",
         {"G1_diag", "G2_diag", "G1_loss_diag", "tangent", "tangent_loss", "gradient_norm_loss",
          "gradient_norm_loss_W2"},
         {"network.outputs=3", "solver.sites=512", "solver.replicates=8", "reference.seeds=48",
          "reference.widths=32 64 128"}},
        {"data/transformer.ini",
         {"Cg_0_diag", "Cg_1_diag", "tangent", "tangent_loss", "gradient_norm_loss",
          "gradient_norm_loss_W_O_0", "loss"},
         {"data.inputs=4", "data.tokens=4", "data.vocabulary=3", "solver.sites=512",
          "solver.replicates=8", "reference.seeds=48", "reference.widths=64 128 256"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && (is_long || i < 2); i++) {
        const char *overrides[18] = {"output.gradients=yes", "output.tangent=sum"};
        memcpy(overrides + 2, cases[i].overrides, sizeof cases[i].overrides);
        compare_series(cases[i].ini, cases[i].names, overrides, 0);
    }
}

/* The sharpness, in units of the rate of gradient descent and of Adam's step, and noise. */
TEST(sharpness) {
    static const struct {
        const char *ini, *names[SERIES], *overrides[16];
    } cases[] = {
        {"data/dense.ini",
         {"sharpness", "sharpness_W1", "sharpness_w", "edge", "gradient_noise", "gradient_square",
          "rate_greedy"},
         {"solver.sites=512", "solver.replicates=8", "reference.seeds=48",
          "reference.widths=32 64 128"}},
        {"data/dense.ini",
         {"sharpness", "sharpness_adam", "sharpness_adam_W1", "sharpness_adam_W2",
          "sharpness_adam_w", "noise_scale", "edge"},
         {"training.optimizer=adam", "training.eta0=0.05", "training.eps=0.1",
          "training.beta2=0.99", "network.depth=2", "training.steps=20", "solver.sites=256",
          "solver.replicates=8", "reference.seeds=48", "reference.widths=32 64 128"}},
        {"data/dense.ini",
         {"sharpness", "sharpness_W2", "sharpness_w", "gradient_noise", "gradient_square",
          "rate_greedy", "loss"},
         {"network.outputs=3", "solver.sites=512", "solver.replicates=8", "reference.seeds=48",
          "reference.widths=32 64 128"}},
        {"data/regime2.ini",
         {"sharpness", "sharpness_W1", "sharpness_W_in", "sharpness_Q", "gradient_noise",
          "noise_scale", "rate_greedy"},
         {"network.kappa=0.5", "solver.sites=512", "solver.expert_sites=512", "solver.replicates=8",
          "reference.seeds=48", "reference.widths=32 64 128"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && (is_long || i < 2); i++) {
        const char *overrides[18] = {"output.sharpness=blocks"};
        memcpy(overrides + 1, cases[i].overrides, sizeof cases[i].overrides);
        compare_series(cases[i].ini, cases[i].names, overrides, 0);
    }
}
