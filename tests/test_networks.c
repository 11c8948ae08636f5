/* The limit against the program's own finite networks: their difference shrinks with N, and the
 * extrapolation a + b/N through all widths is consistent with the limit. The argument `long` runs
 * every gate, both parameterizations, kappa on both sides of 1, top-K, several activations.
 *
 * Entries share seeds, so the z of one case move together: judged are the largest and the rms. z is
 * the normal number that is as rare as Student's t of the distance: under the null |z| > 4 happens
 * once in 16 000 independent entries. rms <= 2 allows for about four independent directions a case.
 * The limit has eight replicates of 256 sites: nearly all of the error is that of the
 * extrapolation, for which there are 20 seeds (48 with `long`, and where `far` counts).
 */
#include "tests/support/support.h"

struct score {
    double largest, squares;
    int count, far, shrinks; /* far: narrowest network more than 4 se from the limit */
    char worst[96];
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
    double z = stats_z(line, (struct stats_mean){exact, exact_se, limit->runs});
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

/* An ini, the names of its series, and keys besides those that all cases begin with. */
struct one_case {
    const char *ini, *names, *keys[12];
};

#define DENSE "data/dense.ini", "loss f Phi1_diag G1_diag Phi2_diag G2_diag PhiL_diag"
#define REGIME2 "data/regime2.ini", "loss f Phi1_diag G1_diag Phi3_diag Phib_diag Gb_diag"
#define OF_REGIME3 "loss f Phi1_diag G1_diag Phi3_diag Phibar_diag Gbar_diag"
#define BLOCK "data/residual.ini", "loss f Ch_1_diag Cg_0_diag Mphi_0_diag Mg_0_diag MAA_0_diag"

/* Wherever the narrowest network is visibly off, at `far` of the 28 entries or more, the widest
 * must be nearer. */
static void compare_series(const struct one_case *of, const char *const *more, int far) {
    static const int times[] = {1, 5, 12, 19};
    const char *overrides[32] = {"training.steps=20", "reference.widths=32 64 128",
                                 is_long || far ? "reference.seeds=48" : "reference.seeds=20",
                                 is_long ? "solver.sites=512" : "solver.sites=256",
                                 "solver.replicates=8"};
    int n = 5;
    for (int k = 0; more && more[k]; k++)
        overrides[n++] = more[k];
    for (int k = 0; of->keys[k]; k++)
        overrides[n++] = of->keys[k];
    FREED(run_free) struct run run;
    struct record limit, networks[INT_LIST_MAX];
    struct score score = {0};
    char name[64];
    support_run(&run, of->ini, overrides);
    const struct int_list *widths = &run.config.reference.widths;
    ASK(run_ensemble(&run, 0, run.config.solver.replicates, &limit, err));
    for (int i = 0; i < widths->count; i++)
        ASK(run_ensemble(&run, widths->value[i], run.config.reference.seeds, &networks[i], err));
    for (int at = 0, end; sscanf(of->names + at, "%63s%n", name, &end) == 1; at += end)
        for (size_t k = 0; k < COUNT(times); k++)
            judge(widths, networks, &limit, name, times[k], &score);
    double rms = sqrt(score.squares / score.count);
    print_message("largest |z| %.2f (%s), rms %.2f of %d; widest nearer at %d of %d far ones: %s",
                  score.largest, score.worst, rms, score.count, score.shrinks, score.far, of->ini);
    for (int i = 0; of->keys[i]; i++)
        print_message(" %s", strchr(of->keys[i], '.') + 1);
    print_message("\n");
    assert_true(score.largest <= 4 && rms <= 2);
    assert_true(score.far >= far && score.shrinks == score.far);
    record_free(&limit);
    for (int i = 0; i < widths->count; i++)
        record_free(&networks[i]);
}

/* The first ones; with `long` all. */
static void compare(const struct one_case *cases, size_t count, size_t first,
                    const char *const *more) {
    for (size_t i = 0; i < count && (is_long || i < first); i++)
        compare_series(&cases[i], more, 0);
}

/* muP starts with a W_out of variance 1/M: its 1/N terms are large and seen at every time; those of
 * MSSP are below the noise already at N = 32. */
TEST(networks_approach_the_limit) {
    static const struct one_case cases[] = {
        {REGIME2,
         {"network.parameterization=mup", "training.eta0=0.6", "training.gamma0=1.5",
          "solver.expert_sites=512"}},
        {REGIME2,
         {"network.parameterization=mssp", "training.eta0=0.4", "solver.expert_sites=512"}}};
    compare_series(&cases[0], NULL, 8);
    compare_series(&cases[1], NULL, 0);
}

TEST(every_kind_of_network) {
    static const char *const kinds[][5] = {
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
    if (!is_long)
        skip(); /* make check-long */
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct one_case of = {REGIME2, {NULL}};
        memcpy(of.keys, kinds[i], sizeof kinds[i]);
        compare_series(&of,
                       ARGS("reference.widths=64 128 256 512", "solver.replicates=32",
                            "solver.sites=2048", "solver.expert_sites=2048"),
                       0);
    }
}

/* One block: experts of infinite and of fixed width, the stream acting back on them (alpha > 0),
 * soft and top-K. */
TEST(residual_networks) {
    static const struct one_case cases[] = {
        {BLOCK, {"network.alpha=2", "network.expert_width=1", "network.rho=1"}},
        {BLOCK, {"network.alpha=4", "network.experts=1", "network.rho=1"}},
        {BLOCK, {"network.alpha=0.25", "network.expert_width=4"}},
        {BLOCK, {"network.alpha=1", "network.expert_width=2", "network.rho=0.5"}},
        {BLOCK, {"network.alpha=1", "network.expert_width=2", "network.rho=1", "network.q0=1"}},
        {BLOCK, {"network.alpha=1", "network.expert_width=2", "network.rho=0.5", "network.q0=1"}},
    };
    compare(cases, COUNT(cases), 2,
            ARGS("network.depth=1", "training.gamma0=2", "data.inputs=4", "solver.unit_sites=512",
                 "solver.expert_sites=512"));
}

/* Blocks on one stream, gradient descent and gradient flow; blocks that share one matrix, whose
 * every use meets what the others have met. */
TEST(streams) {
    static const char names[] = "loss f Phi_1_diag Ch_0_diag Ch_4_diag Cg_0_diag Cg_2_diag",
                      of_tied[] = "loss f C_1_diag C_2_diag C_4_diag G_0_diag G_2_diag";
    static const struct one_case cases[] = {
        {"data/resnet.ini", names, {"training.gamma0=2"}},
        {"data/resnet.ini", names, {"network.branch=1.5", "training.integrator=heun"}},
        {"examples/tied.ini", of_tied, {"program.branch=2.5", "training.gamma0=1.5"}}};
    compare(cases, COUNT(cases), COUNT(cases), ARGS("training.eta0=0.1"));
}

/* Vectors and a number that are trained: gains, biases, the scale of a branch; an output with a
 * bias, a cap and a z-loss; and one matrix that reads in and out, as vectors. */
TEST(vectors) {
    static const char names[] = "loss f Ch_diag Cg_loss_diag",
                      capped[] = "loss f Ch_diag Cg_total_diag z_loss";
    static const struct one_case cases[] = {
        {"examples/gains.ini", names, {"training.optimizer=gd", "training.eta0=0.3"}},
        {"examples/gains.ini", names, {"training.optimizer=adam", "training.eta0=0.03"}},
        {"examples/capped.ini", capped, {"program.cap=1", "training.eta0=1", "reference.seeds=32"}},
        {"examples/tied_embedding.ini", names, {"training.optimizer=gd", "training.eta0=0.3"}},
        {"examples/tied_embedding.ini", names, {"training.optimizer=adam", "training.eta0=0.05"}}};
    compare(cases, COUNT(cases), COUNT(cases),
            ARGS("data.inputs=2", "data.tokens=3", "solver.sites=256"));
}

/* A single pass, four inputs a step, and epochs in shuffled order; test inputs at every step. */
TEST(fresh_inputs) {
    static const char dense[] = "loss f test_loss Phi1_diag G1_diag Phi2_diag G2_diag",
                      regime1[] = "loss f test_loss Phi1_diag G1_diag psi p",
                      regime2[] = "loss f test_loss Phi1_diag G1_diag Phib_diag Gb_diag";
    static const struct one_case cases[] = {
        {"data/dense.ini", dense, {"data.inputs=80"}},
        LIST("data/regime2.ini", regime2,
             {"data.inputs=80", "training.eta0=0.4", "solver.expert_sites=512"}),
        LIST("data/regime1.ini", regime1,
             {"data.inputs=10", "training.order=shuffled", "reference.widths=64 128 256"}),
        LIST("data/regime2.ini", regime2,
             {"data.inputs=80", "training.optimizer=adam", "training.eta0=0.05", "training.eps=0.1",
              "solver.expert_sites=512"}),
    };
    compare(cases, COUNT(cases), 2, ARGS("training.batch=4", "data.test_inputs=12"));
}

/* Optimizers, of which the limit is that of the same algorithm; by default three of them. */
TEST(optimizers) {
#define ADAM                                                                                       \
    "training.optimizer=adam", "training.eta0=0.08", "training.eps=0.1", "training.beta2=0.99",    \
        "training.gamma0=1"
#define MUON                                                                                       \
    "training.optimizer=muon", "training.eta0=0.15", "training.rest_eta0=0.1",                     \
        "training.weight_decay=0.01", "training.gamma0=1"
#define PAIRS "solver.expert_sites=64", "solver.unit_sites=64", "reference.widths=32 48 64"
#define HALF "network.kappa=0.5", "solver.expert_sites=512"
#define RESIDUAL                                                                                   \
    "network.alpha=2", "network.rho=1", "network.depth=1", "data.inputs=4",                        \
        "solver.expert_sites=512"
#define DECAYS "decays.W1=0.3", "decays.W2=2"
#define WIDE "reference.widths=64 128 256"
    static const char of_resnet[] = "loss f Phi_0_diag Ch_0_diag Cg_0_diag Cg_1_diag Ch_2_diag",
                      of_heads[] = "loss f Phi_diag G_loss_diag attention_1 margin";
    static const struct one_case cases[] = {
        {REGIME2,
         {"network.parameterization=mup", "solver.sites=256", "solver.expert_sites=256", ADAM}},
        LIST(DENSE, {"training.optimizer=momentum", "training.eta0=0.05",
                     "training.weight_decay=0.04", DECAYS}),
        {"data/resnet.ini", of_resnet, {"network.depth=2", ADAM}},
        {REGIME2, {HALF, "network.expert_width=3", MUON}},
        {DENSE, {MUON, "training.nesterov=yes", "training.weight_decay=0.02"}},
        {REGIME2, {HALF, "training.rest=Q", "training.muon_experts=together", MUON}},
        {"data/regime3.ini", OF_REGIME3, {"training.rest=Q", PAIRS, MUON}},
        LIST("data/regime3_mup.ini", OF_REGIME3,
             {"network.read_out=normal", "training.rest=Q", PAIRS, "solver.unit_sites=256", MUON}),
        {BLOCK, {RESIDUAL, "network.expert_width=2", MUON}},
        {"examples/heads.ini", of_heads, {"solver.halves=yes", MUON}},
        {REGIME2, {HALF, WIDE, ADAM}},
        LIST(DENSE, {WIDE, "training.optimizer=adamw", "training.weight_decay=0.02", DECAYS,
                     "training.eta0=0.08"}),
        LIST(DENSE, {WIDE, "training.optimizer=lion", "training.beta2=0.95", "training.eps=0.1",
                     "training.weight_decay=0.02", "training.eta0=0.04"}),
        {"data/regime3.ini", OF_REGIME3, {PAIRS, ADAM}},
        {"data/regime3_mup.ini", OF_REGIME3, {PAIRS, ADAM}},
        {BLOCK, {RESIDUAL, "network.expert_width=1", ADAM}},
    };
    compare(cases, COUNT(cases), 3, NULL);
}

/* Most steps are clipped, in the limit at the same norm as in every network, and the rate falls.
 * Norms: from 0.41 to 0.09, from 0.25 to 0.34, and from 0.35 to 0.50. */
TEST(clipped) {
    static const char dense[] = "loss f gradient_norm Phi1_diag G1_diag Phi2_diag PhiL_diag",
                      regime2[] = "loss f gradient_norm Phi1_diag G1_diag Phib_diag Gb_diag",
                      regime1[] = "loss f gradient_norm Phi1_diag G1_diag psi p";
    static const struct one_case cases[] = {
        {"data/dense.ini", dense, {"training.clip=0.3"}},
        {"data/regime2.ini",
         regime2,
         {"training.clip=0.2", "training.optimizer=momentum", "training.eta0=0.1",
          "solver.expert_sites=512"}},
        {"data/regime1.ini", regime1, {"training.clip=0.3"}},
    };
    compare(cases, COUNT(cases), 2, ARGS("training.schedule=cosine", "training.schedule_end=0.2"));
}

/* Gradients of one term alone, of a limit by passes that it forgets: with a penalty, with several
 * outputs, and token by token. */
TEST(gradients_apart) {
    static const char penalty[] = "G1_diag Gphi_diag Gb_loss_diag tangent gradient_norm_loss "
                                  "gradient_norm_balance_loss_Q cosine_loss_balance_loss";
    static const char outputs[] = "G1_diag G2_diag G1_loss_diag tangent tangent_loss "
                                  "gradient_norm_loss gradient_norm_loss_W2";
    static const char tokens[] =
        "Cg_0_diag Cg_1_diag tangent tangent_loss gradient_norm_loss gradient_norm_loss_W_O_0 loss";
    static const struct one_case cases[] = {
        LIST("data/regime2.ini", penalty,
             {"network.kappa=0.5", "network.rho=0.25", "network.balance_loss=0.5",
              "training.eta0=0.3", "data.inputs=6", "solver.sites=256", "solver.expert_sites=256"}),
        {"data/dense.ini", outputs, {"network.outputs=3"}},
        LIST(
            "data/transformer.ini", tokens,
            {"data.inputs=4", "data.tokens=4", "data.vocabulary=3", "reference.widths=64 128 256"}),
    };
    compare(cases, COUNT(cases), 2, ARGS("output.gradients=yes", "output.tangent=sum"));
}

/* The sharpness, in units of the rate of gradient descent and of Adam's step, and noise. */
TEST(sharpness) {
    static const char dense[] =
        "sharpness sharpness_W1 sharpness_w edge gradient_noise gradient_square rate_greedy";
    static const char adam[] = "sharpness sharpness_adam sharpness_adam_W1 sharpness_adam_W2 "
                               "sharpness_adam_w noise_scale edge";
    static const char outputs[] =
        "sharpness sharpness_W2 sharpness_w gradient_noise gradient_square rate_greedy loss";
    static const char experts[] =
        "sharpness sharpness_W1 sharpness_W_in sharpness_Q gradient_noise noise_scale rate_greedy";
    static const struct one_case cases[] = {
        {"data/dense.ini", dense, {NULL}},
        {"data/dense.ini",
         adam,
         {"training.optimizer=adam", "training.eta0=0.05", "training.eps=0.1",
          "training.beta2=0.99", "network.depth=2", "solver.sites=256"}},
        {"data/dense.ini", outputs, {"network.outputs=3"}},
        {"data/regime2.ini", experts, {HALF}},
    };
    compare(cases, COUNT(cases), 2, ARGS("output.sharpness=blocks"));
}
