/* Optimizers in the limit, where they say something exactly: Adam with a large eps is gradient
 * descent, weights without a gradient only decay, and momentum of a linear network in the lazy
 * regime is a recursion; and what does not fit in memory is refused. Against networks:
 * test_networks.c; against an independent solver: test_reference.c. */
#include "tests/support/support.h"

static void step(struct net *net, const struct run *run) {
    const struct training *training = &run->config.training;
    ASK(integrator_of(training)->advance(net, training, run->data.y, err));
}

/* Runs of an ini text, replicates of the limit without networks. */
static void open_run(struct run *run, const char *network, const char *training) {
    support_run_text(run, NULL,
                     "[network]\n%s\n[data]\ninputs = 3\ndimension = 4\n[training]\n%s\n"
                     "[solver]\nsites = 300\ntolerance = 1e-6\n",
                     network, training);
}

/* eta0 m/(sqrt(v) + eps) -> (eta0/eps) gradient, relative to |gradient|/eps = 1e-8; multipliers of
 * Adam and of gradient descent are the same where gamma0 = kappa = iota = 1. The learned part is an
 * explicit matrix on one side and rows of a basis on the other, complete up to `tolerance` = 1e-6,
 * of which f feels some hundredths; the draws are the same. */
TEST(large_eps_is_gradient_descent) {
    static const char *const networks[] = LIST(
        "model = dense\ndepth = 3",
        "model = regime1\nexperts = 2\nexpert_layers = 2\nbias = trained\nbiases = .4 -.4\nq0 = 1",
        "model = regime2\nexpert_width = 2\nparameterization = mssp\ngate = softmax",
        "model = regime2\nexpert_width = 1\nparameterization = mup",
        "model = regime3\nparameterization = mssp", "model = regime3\nparameterization = mup",
        "model = residual\ndepth = 2\nexpert_width = 2\nalpha = 1",
        "model = residual\ndepth = 2\nexpert_width = 0\nalpha = 0\nrho = 0.5\nexperts = 4");
    double worst = 0;
    for (size_t i = 0; i < COUNT(networks); i++) {
        FREED(run_free) struct run plain, adam;
        FREED(net_free) struct net a, b;
        open_run(&plain, networks[i], "eta0 = 0.2");
        open_run(&adam, networks[i], "optimizer = adam\nbeta1 = 0\nbeta2 = 0");
        struct run *runs[] = {&plain, &adam};
        for (int k = 0; k < 2; k++) {
            runs[k]->config.solver.expert_sites = i < 4 ? 200 : 16;
            runs[k]->config.solver.unit_sites = 40;
        }
        adam.config.training.adam.eps = 1e8;
        adam.config.training.eta0 = 0.2e8;
        /* the same columns of the read-in */
        free(plain.inputs.A);
        plain.inputs.K = adam.inputs.K;
        ASK(base_alloc(&plain.inputs.A, (size_t)(plain.data.P * plain.inputs.K),
                       sizeof *plain.inputs.A, err));
        memcpy(plain.inputs.A, adam.inputs.A,
               (size_t)(plain.data.P * plain.inputs.K) * sizeof *plain.inputs.A);
        support_net(&a, &plain, 0, 0);
        support_net(&b, &adam, 0, 0);
        support_evaluate(&a, &plain);
        support_evaluate(&b, &adam);
        for (int t = 1; t < 6; t++) {
            step(&a, &plain);
            step(&b, &adam);
            assert_true(fabs(a.output.f[0]) > 1e-3);
            for (int mu = 0; mu < plain.data.P; mu++) {
                CHECK_ABS(b.output.f[mu], a.output.f[mu], 1e-7, "%s: f[%d] at %d", networks[i], mu,
                          t);
                worst = fmax(worst, fabs(b.output.f[mu] - a.output.f[mu]));
            }
        }
    }
    print_message("largest difference of f %.2g\n", worst);
}

static double kernel_of(const struct net *net, const char *name) {
    for (int k = 0; k < net->kernels.count; k++)
        if (!strcmp(net->kernels.item[k].name, name)) {
            double value;
            struct rows row = rows_part(net->kernels.item[k].rows, 0, 1);
            row.array->backend->dots(row, row, &value);
            return value;
        }
    fail_msg("no kernel %s", name);
    return 0;
}

/* Linear, eta0 = 0, L matrices and w: each holds a factor (1 - omega)^t. Of a limit the random part
 * decays, conditioned as it is; 300 sites and fields of order one: round-off. */
static void decay_by(const char *training) {
    FREED(run_free) struct run run;
    open_run(&run, "model = dense\ndepth = 3\nactivation = linear", training);
    for (int N = 0; N <= 24; N += 24) {
        FREED(net_free) struct net net;
        double Phi[3], G[3];
        static const char *const Phis[] = {"Phi1", "Phi2", "PhiL"}, *const Gs[] = {"G1", "G2",
                                                                                   "G3"};
        support_begin(&net, &run, N, 0);
        for (int l = 0; l < 3; l++) {
            Phi[l] = kernel_of(&net, Phis[l]);
            G[l] = kernel_of(&net, Gs[l]);
        }
        for (int t = 1; t < 4; t++) {
            step(&net, &run);
            for (int l = 0; l < 3; l++) {
                CHECK_ABS(kernel_of(&net, Phis[l]), pow(0.9, 2 * t * (l + 1)) * Phi[l], 1e-12,
                          "N = %d, %s at %d", N, Phis[l], t);
                CHECK_ABS(kernel_of(&net, Gs[l]), pow(0.9, 2 * t * (3 - l)) * G[l], 1e-12,
                          "N = %d, %s at %d", N, Gs[l], t);
            }
        }
    }
}

/* Of limits whose learned part has entries, and rows. */
TEST(weights_decay) {
    decay_by("optimizer = gd\nweight_decay = 0.1\neta0 = 0");
    decay_by("optimizer = momentum\nweight_decay = 0.1\neta0 = 0");
    decay_by("optimizer = adamw\nweight_decay = 0.1\neta0 = 0");
    decay_by("optimizer = muon\nweight_decay = 0.1\neta0 = 0\nrest_eta0 = 0");
    decay_by("optimizer = muon\nrest = W2\nweight_decay = 0.1\neta0 = 0\nrest_eta0 = 0");
}

/* So do the columns of a read-in that only test inputs ask for, which a limit draws at every look:
 * eta0 = 0, so that they are the same draws at every time. */
TEST(columns_of_test_inputs_decay) {
    static const STRUCT(const char *lines; double left)
        cases[] = {{"", 0.9}, {"[rates]\nW1 = 0\n", 1}, {"[decays]\nW1 = 0.3\n", 0.97}};
    for (int k = 0; k < 6; k++) {
        RUN_AND_NET;
        double f[2], start = 0, now;
        support_run_text(&run, ARGS("data.test_inputs=2", "data.dimension=9"),
                         "[network]\nmodel = dense\n[training]\nweight_decay = 0.1\neta0 = 0\n"
                         "[solver]\nsites = 300\n%s",
                         cases[k / 2].lines);
        support_begin(&net, &run, k % 2 ? 24 : 0, 0);
        struct thin *unseen = support_weight(&net, "W1")->matrix.unseen;
        for (int t = 0; t < 4; t++) {
            if (t)
                step(&net, &run);
            ASK(net_predict(&net, run.data.P, run.data.tests, f, err));
            unseen->W.backend->averages(array_rows(&unseen->W, 0, 1), array_rows(&unseen->W, 0, 1),
                                        &now);
            start = t ? start : now;
            CHECK_ABS(now, pow(cases[k / 2].left, 2 * t) * start, 1e-12, "%d at %d", k, t);
        }
    }
}

/* Linear, gamma0 -> 0, n matrices: f moves by v = momentum v + (eta0/P) Theta (y - f) with Theta =
 * n X X^T/D. A limit has no sampling error here; the error is O(gamma0^2), 1e-6 times numbers of
 * order 10. */
TEST(lazy_momentum_is_a_recursion) {
    FREED(run_free) struct run run;
    open_run(&run, "model = dense\ndepth = 3\nactivation = linear",
             "optimizer = momentum\nmomentum = 0.8\neta0 = 0.1\ngamma0 = 1e-3");
    int P = run.data.P, D = run.data.D;
    FREED(net_free) struct net net;
    double f[3] = {0}, v[3] = {0}, moved = 0;
    assert_int_equal(P, 3);
    support_begin(&net, &run, 0, 0);
    for (int t = 1; t < 12; t++) {
        double force[3] = {0};
        for (int mu = 0; mu < P; mu++)
            for (int nu = 0; nu < P; nu++)
                for (int i = 0; i < D; i++)
                    force[mu] += 4 * run.data.X[mu * D + i] * run.data.X[nu * D + i] / D *
                                 (run.data.y[nu] - f[nu]) / P;
        for (int mu = 0; mu < P; mu++) {
            v[mu] = 0.8 * v[mu] + 0.1 * force[mu];
            f[mu] += v[mu];
            moved = fmax(moved, fabs(f[mu]));
        }
        step(&net, &run);
        for (int mu = 0; mu < P; mu++)
            CHECK_ABS(net.output.f[mu], f[mu], 1e-5, "f[%d] at %d", mu, t);
    }
    assert_true(moved > 0.5);
}

/* The estimate has the matrices D, m, v of every map. */
TEST(memory_is_announced) {
    static const char *const optimizers[] = {"optimizer = gd", "optimizer = adam"};
    double bytes[2];
    for (int k = 0; k < 2; k++) {
        FREED(run_free) struct run run;
        open_run(&run, "model = dense\ndepth = 3", optimizers[k]);
        struct net_setup setup = config_setup(&run.config, 0, 0, run.data.P, &run.inputs);
        setup.limit.sites = 4096;
        ASK(net_bytes(&setup, 10, 0, &bytes[k], err));
    }
    double matrices = 2 * 3 * 8.0 * 4096 * 4096;
    CHECK_ABS((bytes[1] - bytes[0]) / matrices, 1, 0.05, "bytes of two maps with D, m and v");
}
