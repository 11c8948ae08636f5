/* Gradient flow: what a step of each scheme is, its order where nothing but the step makes an error
 * (networks with the same weights, linear limits), and what is known of linear networks in closed
 * form. */
#include "tests/support/flow.h"

enum { MORE = 24, TIMES = 5 };

/* One ensemble of a file with settings that all runs of a test share, then those of this run. */
struct flow {
    struct run run;
    struct record record;
};

static void solve(struct flow *flow, const char *file, const char *const *shared, int N,
                  const char *const *own) {
    const char *overrides[2 * MORE + 1];
    int n = 0;
    for (; *shared; shared++)
        overrides[n++] = *shared;
    for (; own && *own; own++)
        overrides[n++] = *own;
    overrides[n] = NULL;
    *flow = (struct flow){0};
    support_run(&flow->run, file, overrides);
    const struct config *config = &flow->run.config;
    int runs = N ? config->reference.seeds : config->solver.replicates;
    ASK(run_ensemble(&flow->run, N, runs, &flow->record, err));
}

static void flow_free(struct flow *flow) {
    record_free(&flow->record);
    run_free(&flow->run);
}

/* The largest difference of a series at TIMES equally spaced times after 0. */
static double distance(const struct flow *a, const struct flow *b, const char *name) {
    const struct series *x = record_find(&a->record, name), *y = record_find(&b->record, name);
    size_t row = x->size / x->shape[0];
    double most = 0;
    for (size_t t = 0; t <= TIMES; t++)
        for (size_t k = 0; k < row; k++)
            most = fmax(most, fabs(x->values[t * (x->shape[0] - 1) / TIMES * row + k] -
                                   y->values[t * (y->shape[0] - 1) / TIMES * row + k]));
    return most;
}

/* Of limits and of networks; regime1 has parameters on the host. */
TEST(euler_is_gradient_descent) {
    static const char *const files[] = {"data/dense.ini", "data/regime1.ini", "data/regime2.ini"};
    static const char *const shared[] = {"solver.sites=300",  "solver.replicates=2",
                                         "training.steps=6",  "reference.widths=16",
                                         "reference.seeds=2", NULL};
    for (size_t i = 0; i < COUNT(files); i++)
        for (int N = 0; N <= 16; N += 16) {
            FREED(flow_free) struct flow a, b;
            solve(&a, files[i], shared, N, NULL);
            solve(&b, files[i], shared, N, ARGS("training.integrator=euler"));
            assert_int_equal(a.record.count, b.record.count);
            support_same(&a.record, &b.record);
        }
}

/* A scheme with n steps a unit of time, up to TIMES. With errors that are never refused bs32 takes
 * the time between two measurements as its step. */
static void solve_fixed(struct flow *flow, const char *file, const char *const *shared, int N,
                        const char *scheme, int n) {
    char integrator[40], substeps[40], dt[60], steps[40], whole[40];
    snprintf(integrator, sizeof integrator, "training.integrator=%s", scheme);
    snprintf(whole, sizeof whole, "training.steps=%d", TIMES + 1);
    snprintf(substeps, sizeof substeps, "training.substeps=%d", n);
    snprintf(steps, sizeof steps, "training.steps=%d", TIMES * n + 1);
    snprintf(dt, sizeof dt, "training.dt=%.17g", 1.0 / n);
    const char *const fixed[] = {integrator, whole, substeps, NULL};
    const char *const free[] = {integrator, steps, dt, "training.rtol=1", "training.atol=1", NULL};
    solve(flow, file, shared, N, strcmp(scheme, "bs32") ? fixed : free);
}

/* log2 of the ratio of the errors with n and 2 n steps, of the loss and of a kernel: the order,
 * beside which the next power of the step leaves a few parts in n; seen: up to 1.9/n. */
static void check_order(const char *file, const char *const *shared, int N,
                        const struct flow *exact, const char *kernel, const char *scheme, int n,
                        int order) {
    double error[2][2];
    for (int i = 0; i < 2; i++) {
        FREED(flow_free) struct flow flow;
        solve_fixed(&flow, file, shared, N, scheme, n << i);
        error[i][0] = distance(exact, &flow, "loss");
        error[i][1] = distance(exact, &flow, kernel);
    }
    for (int k = 0; k < 2; k++)
        CHECK_ABS(log2(error[0][k] / error[1][k]), order, 2.5 / n, "%s, N = %d: order of %s in %s",
                  file, N, scheme, k ? kernel : "loss");
}

static void check_orders(const char *file, const char *const *shared, int N,
                         const struct flow *exact, const char *kernel) {
    check_order(file, shared, N, exact, kernel, "euler", 16, 1);
    check_order(file, shared, N, exact, kernel, "heun", N ? 8 : 12, 2);
    check_order(file, shared, N, exact, kernel, "bs32", 8, 3);
}

/* The rate at the time of every stage keeps the order; its kink, at the end of the warmup, is at
 * the end of a step. */
TEST(orders_on_networks) {
    static const struct {
        const char *file, *kernel, *more[3];
    } cases[] = {{"data/dense.ini", "G1_diag", {NULL}},
                 {"data/regime2.ini", "Gphi_diag", {NULL}},
                 {"data/dense.ini",
                  "G1_diag",
                  {"training.schedule=cosine", "training.warmup=1", "training.schedule_end=0.3"}}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const *more = cases[i].more, *const *shared = ARGS("solver.replicates=0",
                                                                       "reference.widths=24",
                                                                       "reference.seeds=1", more[0],
                                                                       more[1], more[2]);
        FREED(flow_free) struct flow exact;
        solve(&exact, cases[i].file, shared, 24,
              ARGS("training.steps=6", "training.integrator=bs32", "training.rtol=1e-9",
                   "training.atol=1e-10"));
        check_orders(cases[i].file, shared, 24, &exact, cases[i].kernel);
    }
}

#define LINEAR                                                                                     \
    "network.activation=linear", "solver.sites=64", "solver.replicates=1",                         \
        "solver.tolerance=1e-6", "data.inputs=3", "reference.widths=24", "reference.seeds=1"
static const char *const linear[] = {LINEAR, NULL};
static const char *const linear_experts[] = {LINEAR, "network.gate=constant",
                                             "solver.expert_sites=64", NULL};

/* A linear limit has no sampling error; truncation of its bases, some 1e-8, is far below the errors
 * of these steps. */
TEST(orders_on_the_linear_limit) {
    FREED(flow_free) struct flow exact;
    solve_fixed(&exact, "data/dense.ini", linear, 0, "bs32", 40);
    check_orders("data/dense.ini", linear, 0, &exact, "G1_diag");
}

/* sum over columns of <W_k^2> */
static double square(const struct thin *thin) {
    double out[8], sum = 0;
    struct rows W = array_all(&thin->W);
    W.array->backend->averages(W, W, out);
    for (int k = 0; k < W.count; k++)
        sum += out[k];
    return sum;
}

/* In a linear network every matrix W obeys d|W|^2/dtau = 2 c sum_mu Delta_mu <w h_top>, since the
 * output is linear in each: <w w> - sum_k <W1_k W1_k> is conserved by the flow, also in the limit
 * (forward and backward maps are adjoint), at any gamma0. What a scheme adds to it is its error, of
 * a quadratic form M with W M K(W) = 0: of Euler h^2 K_0 M K_0 a step, of Heun
 * h^2/4 (K_0 - K_1) M (K_0 - K_1), which is of order 3 in all. */
static double drift(const char *file, const char *const *overrides, int N,
                    const struct integrator *integrator, int n) {
    RUN_AND_NET;
    start(&net, &run, file, overrides, N);
    struct training *training = &run.config.training;
    training->integrator = integrator;
    training->flow.dt = 1.0 / n;
    training->flow.rtol = training->flow.atol = 1;
    double before = square(net.thins.item[1]) - square(net.thins.item[0]);
    for (int t = 0; t < 3 * n; t++)
        advance(&net, &run);
    double after = square(net.thins.item[1]) - square(net.thins.item[0]);
    assert_true(fabs(square(net.thins.item[1]) - 1) > 0.1); /* both have moved */
    return fabs(after - before);
}

TEST(linear_networks_conserve_balance) {
    static const char *const files[] = {"data/dense.ini", "data/regime2.ini"};
    static const char *const *const overrides[] = {linear, linear_experts};
    static const STRUCT(const struct integrator *integrator; int order)
        orders[] = {{&integrator_euler, 1}, {&integrator_heun, 3}, {&integrator_bs32, 3}};
    for (int i = 0; i < 2; i++)
        for (int N = 0; N <= 24; N += 24)
            for (int k = 0; k < 3; k++) {
                double first = drift(files[i], overrides[i], N, orders[k].integrator, 12);
                double second = drift(files[i], overrides[i], N, orders[k].integrator, 24);
                CHECK_ABS(log2(first / second), orders[k].order, 2.5 / 12,
                          "%s, N = %d, integrator %d", files[i], N, k);
            }
}

/* y - exp(-eta0 tau Theta/P) y with Theta = layers A A^T, by its series. */
static void lazy_solution(const struct run *run, int layers, double tau, double *f) {
    int P = run->data.P, K = run->inputs.K;
    double term[P], next[P];
    for (int mu = 0; mu < P; mu++) {
        term[mu] = run->data.y[mu];
        f[mu] = 0;
    }
    for (int n = 1; n < 60; n++) {
        for (int mu = 0; mu < P; mu++) {
            next[mu] = 0;
            for (int nu = 0; nu < P; nu++)
                for (int k = 0; k < K; k++)
                    next[mu] -= run->config.training.eta0 * tau * layers / P / n *
                                run->inputs.A[mu * K + k] * run->inputs.A[nu * K + k] * term[nu];
        }
        for (int mu = 0; mu < P; mu++) {
            term[mu] = next[mu];
            f[mu] -= term[mu];
        }
    }
}

static double lazy_error(const char *file, const char *const *overrides, int layers,
                         double gamma0) {
    RUN_AND_NET;
    double most = 0;
    support_run(&run, file, overrides);
    struct training *training = &run.config.training;
    training->integrator = &integrator_bs32;
    training->gamma0 = gamma0;
    training->flow.dt = 2;
    training->flow.rtol = training->flow.atol = 1e-7;
    support_begin(&net, &run, 0, 0);
    double f[run.data.P];
    for (int t = 1; t <= 3; t++) {
        advance(&net, &run);
        lazy_solution(&run, layers, t * training->flow.dt, f);
        for (int mu = 0; mu < run.data.P; mu++)
            most = fmax(most, fabs(net.output.f[mu] - f[mu]));
    }
    return most;
}

/* gamma0 -> 0: parameters move by O(gamma0), f by the kernel at the start. In a linear limit every
 * weight matrix adds <h h> = A A^T to it, so f obeys df/dtau = eta0/P Theta (y - f). What feature
 * learning adds is O(gamma0^2). */
TEST(lazy_linear_networks_are_exponentials) {
    static const char *const files[] = {"data/dense.ini", "data/regime2.ini"};
    static const char *const *const overrides[] = {linear, linear_experts};
    for (int i = 0; i < 2; i++) {
        double first = lazy_error(files[i], overrides[i], 4, 0.02);
        double second = lazy_error(files[i], overrides[i], 4, 0.01);
        assert_true(second < 1e-4); /* gamma0^2 */
        /* gamma0^4 is 4e-4 of it; 1e-7 of bs32 and tolerance beside 5e-5 */
        CHECK_ABS(first / second, 4, 0.02, "%s", files[i]);
    }
}

/* The mean loss of networks has a bias of O(1/N): 2 L(2N) - L(N) has none of that order. */
TEST(limit_and_networks_agree) {
    static const char *const shared[] =
        LIST("training.steps=6", "training.dt=1.5", "training.integrator=bs32", "solver.sites=1024",
             "reference.widths=48 96", "reference.seeds=48", "reference.draws=balanced", NULL);
    FREED(flow_free) struct flow limit, small, large;
    solve(&limit, "data/dense.ini", shared, 0, NULL);
    solve(&small, "data/dense.ini", shared, 48, NULL);
    solve(&large, "data/dense.ini", shared, 96, NULL);
    for (size_t t = 1; t < 6; t++) {
        double l, s, b, l_se, s_se, b_se;
        support_entry(&limit.record, "loss", t, &l, &l_se);
        support_entry(&small.record, "loss", t, &s, &s_se);
        support_entry(&large.record, "loss", t, &b, &b_se);
        CHECK_ABS(2 * b - s, l, 4 * sqrt(l_se * l_se + 4 * b_se * b_se + s_se * s_se),
                  "loss at %zu", t);
    }
}

/* What heun says of its error is added up as if none faded: between half of the largest error until
 * then, which 64 times as many steps tell, and three times it. */
TEST(heun_estimates_its_error) {
    static const char *const files[] = {"data/dense.ini", "data/regime2.ini", "data/resnet.ini"};
    static const char *const shared[] = {
        "training.integrator=heun", "training.steps=16", "training.dt=2",
        "training.eta0=0.3",        "reference.seeds=1", NULL};
    for (size_t i = 0; i < 3; i++) {
        FREED(flow_free) struct flow coarse, fine;
        solve(&coarse, files[i], shared, 24, NULL);
        solve(&fine, files[i], shared, 24, ARGS("training.substeps=64"));
        const struct series *f = record_find(&coarse.record, "f"),
                            *exact = record_find(&fine.record, "f"),
                            *error = record_find(&coarse.record, "step_error");
        size_t row = f->size / f->shape[0];
        double most = 0, told = 0;
        for (size_t k = 0; k < f->size; k++) {
            double wrong = fabs(f->values[k] - exact->values[k]);
            told = wrong > most ? error->values[k / row] : told;
            most = fmax(most, wrong);
        }
        if (!(told > most / 2 && told < 3 * most))
            fail_msg("%s: %g is told of an error of %g", files[i], told, most);
    }
}
