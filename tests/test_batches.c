/* Minibatches and test inputs: a plain-loop oracle trained on the same batches, the lazy linear
 * network in closed form, and identities: a batch of everything is full-batch training, a test
 * input leaves no trace, and one that is a training input has its output. The limit on fresh inputs
 * is judged by own networks in test_networks.c. */
#include "integrators/integrator.h"
#include "tests/oracles/oracle.h"
#include "tests/support/support.h"

/* To the evaluated time t. */
static void advance(struct net *net, const struct run *run, struct batch *batch, int t) {
    batch_at(batch, t, net->batch.index);
    if (t)
        support_learn(net, run);
    support_evaluate(net, run);
}

static void start(struct run *run, struct net *net, struct batch *batch, int N) {
    support_net(net, run, N, 0);
    ASK(batch_init(batch, &run->config.training, run->data.P, err));
}

enum { WIDTH = 14, DEPTH = 3 };

/* W1 [N][D] from the columns over directions of training inputs and over those of test inputs. */
static void copy_read_in(double *W1, const struct net *net, const struct run *run) {
    int K = run->inputs.K, all = K + run->inputs.test_directions, D = run->data.D, rank;
    FREED(base_free) double *A, *B, *seen = support_get(array_all(&net->thins.item[0]->W));
    FREED(base_free)
    double *unseen = support_get(array_all(&support_weight(net, "W1")->matrix.unseen->W));
    ASK(thin_coordinates(run->data.X, run->data.P + run->data.tests, D, &A, &B, &rank, err));
    assert_int_equal(rank, all);
    for (int n = 0; n < WIDTH; n++)
        for (int d = 0; d < D; d++) {
            W1[n * D + d] = 0;
            for (int k = 0; k < all; k++)
                W1[n * D + d] +=
                    (k < K ? seen + k * WIDTH : unseen + (k - K) * WIDTH)[n] * B[k * D + d];
        }
}

/* The raw output of one input. */
static double oracle_f(struct oracle *o, const double *x) {
    for (int mu = 0; mu < o->P; mu++)
        memcpy(o->X + mu * o->D, x, (size_t)o->D * sizeof *x);
    oracle_forward(o);
    return o->f[0] + o->f0[0];
}

static void oracle_batch(struct oracle *o, const struct run *run, const double *f0,
                         const int *index) {
    for (int mu = 0; mu < o->P; mu++) {
        memcpy(o->X + mu * o->D, run->data.X + index[mu] * o->D, (size_t)o->D * sizeof *o->X);
        o->y[mu] = run->data.y[index[mu]];
        o->f0[mu] = f0[index[mu]];
    }
}

/* Ten steps on three of 12 inputs, an epoch is four of them; five test inputs, in two looks, are
 * outside of the span of the training inputs (D = 20). Sums of 20 terms of order one, ten steps at
 * a rate below 1/2: round-off of 1e-14. */
TEST(equals_oracle) {
    RUN_AND_NET;
    FREED(batch_free) struct batch batch;
    double f0[17], f[5];
    support_run(&run, "data/dense.ini",
                ARGS("data.inputs=12", "data.test_inputs=5", "data.dimension=20",
                     "training.batch=3", "training.order=shuffled"));
    start(&run, &net, &batch, WIDTH);
    assert_true(run.inputs.K == 12 && run.inputs.test_directions == 5);
    struct oracle *o = oracle_new(
        (struct oracle)LIST(.network = &oracle_stack, .single = true, .activated = true,
                            .gate = ORACLE_CONSTANT, .P = 3, .D = 20, .N = WIDTH, .M = 1,
                            .N_e = WIDTH, .E = DEPTH - 1, .eta0 = run.config.training.eta0,
                            .gamma0 = run.config.training.gamma0));
    copy_read_in(o->block[0].w, &net, &run);
    support_copy(o->block[1].w, array_all(&support_thin(&net, "w")->W), 1);
    for (int l = 2; l <= DEPTH; l++)
        support_copy(o->block[l].w, array_all(support_entries(support_map(&net, "W%d", l))),
                     sqrt(WIDTH));
    for (int mu = 0; mu < 17; mu++)
        f0[mu] = oracle_f(o, run.data.X + mu * 20);
    for (int t = 0; t < 10; t++) {
        advance(&net, &run, &batch, t);
        ASK(net_predict(&net, 12, 5, f, err));
        for (int nu = 0; nu < 5; nu++)
            CHECK_ABS(f[nu], oracle_f(o, run.data.X + (12 + nu) * 20) - f0[12 + nu], 1e-12,
                      "test input %d at %d", nu, t);
        oracle_batch(o, &run, f0, net.batch.index);
        CHECK_ABS(net.output.loss, oracle_step(o), 1e-12, "loss at %d", t);
        for (int mu = 0; mu < 3; mu++)
            CHECK_ABS(net.output.f[mu], o->f[mu], 1e-12, "f[%d] at %d", mu, t);
    }
    oracle_free(o);
}

static void small_run(struct run *run, const char *file, const char *const *overrides) {
    support_run(run, file, overrides);
    run->config.training.steps = 6;
    run->config.solver.sites = 192;
    run->config.solver.unit_sites = 32;
    if (run->config.solver.expert_sites > 64)
        run->config.solver.expert_sites = 64;
}

static void ensemble(struct record *record, const char *file, const char *const *overrides, int N,
                     int runs) {
    FREED(run_free) struct run run;
    small_run(&run, file, overrides);
    ASK(run_ensemble(&run, N, runs, record, err));
}

enum { MOST = 8 };

/* Limit and network, with and without one more override. */
static void check_same(const char *file, const char *const *overrides, const char *one_more) {
    const char *both[MOST + 1] = {NULL};
    int n = 0;
    for (; overrides[n]; n++)
        both[n] = overrides[n];
    for (int N = 0; N <= 16; N += 16) {
        FREED(record_free) struct record before, after;
        both[n] = NULL;
        ensemble(&before, file, both, N, 2);
        both[n] = one_more;
        ensemble(&after, file, both, N, 2);
        support_same(&before, &after);
    }
}

TEST(a_batch_of_all_inputs_is_full_batch) {
    static const char *const overrides[] = {"data.inputs=4", NULL};
    check_same("data/regime1.ini", overrides, "training.batch=4");
    check_same("data/regime2.ini", overrides, "training.batch=4");
    check_same("data/residual.ini", overrides, "training.batch=4");
}

/* Every network, its spare rows and its selection biases; two-time kernels and responses; batches;
 * what biases of kinds of tokens and gradients at the start ask of tokens; more directions than the
 * training inputs have; looks in several parts, the last one not full. */
TEST(test_inputs_leave_no_trace) {
    static const STRUCT(const char *file, *overrides[6]) cases[] = {
        {"data/dense.ini", {"output.kernels=full", "output.responses=yes"}},
        {"data/dense.ini", {"training.batch=3", "reference.draws=balanced"}},
        {"data/resnet.ini", {"training.batch=3", "output.kernels=full", "output.responses=yes"}},
        {"data/dense.ini", {"network.activation=relu", "solver.backend=shadow"}},
        {"data/regime1.ini", {"training.batch=1", "training.order=shuffled"}},
        {"data/regime2.ini", {"network.rho=0.5", "training.batch=3"}},
        {"data/regime2.ini", {"network.gate=softmax", "reference.centre=no"}},
        {"data/regime3.ini", {"training.batch=2"}},
        {"data/regime3_mup.ini", {"output.kernels=full", "output.responses=yes"}},
        {"data/residual.ini", {"network.rho=0.5", "network.eta_bias=0.3", "training.batch=2"}},
        {"data/transformer.ini",
         {"data.test_inputs=0", "network.bias_per=token", "network.biases=", "output.experts=yes",
          "output.gradients=yes"}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *overrides[MOST] = {"data.inputs=4"};
        memcpy(overrides + 1, cases[i].overrides, sizeof cases[i].overrides);
        check_same(cases[i].file, overrides, "data.test_inputs=7");
    }
}

/* What is looked at is evaluated as it would be for training. Networks: to round-off. Limit: what a
 * basis has is exact, and what it lacks of x is below the tolerance, 1e-4 here; two maps and a
 * response term of that size each. */
TEST(a_test_input_that_is_trained_on) {
    for (const struct model *const *model = model_list; *model; model++)
        for (int N = 0; N <= 16; N += 16) {
            RUN_AND_NET;
            FREED(batch_free) struct batch batch;
            double *f, most = 0;
            TEXT(file, 64, "data/%s.ini", (*model)->name);
            small_run(&run, file,
                      ARGS("data.inputs=6", "training.batch=3", "solver.tolerance=1e-4"));
            start(&run, &net, &batch, N);
            int count = 3 * net_outputs(&net);
            ASK(base_alloc(&f, (size_t)count, sizeof *f, err));
            for (int t = 0; t < 6; t++) {
                advance(&net, &run, &batch, t);
                ASK(net_predict(&net, net.batch.index[0], 3, f, err)); /* cyclic */
                for (int k = 0; k < count; k++) {
                    CHECK_ABS(f[k], net.output.f[k], N ? 1e-13 : 3e-4, "%s, N = %d: f[%d] at %d",
                              file, N, k, t);
                    most = fmax(most, fabs(net.output.f[k]));
                }
            }
            assert_true(most > 0.05);
            free(f);
        }
}

/* Kernels between inputs, in and outside of the batch. */
static double overlap(const struct run *run, int mu, int nu) {
    double sum = 0;
    for (int i = 0; i < run->data.D; i++)
        sum += run->data.X[mu * run->data.D + i] * run->data.X[nu * run->data.D + i];
    return sum / run->data.D;
}

/* Largest error of f over a single pass, at training inputs and at test inputs, outside of the
 * span of the former too (D = 20). */
static double lazy_error(double gamma0, const char *dimension) {
    const char *const overrides[] =
        LIST("data.inputs=12", "data.test_inputs=6", dimension, "training.batch=2",
             "network.activation=linear", "solver.sites=512", "training.eta0=0.2", NULL);
    enum { P = 2, N_X = 12, ALL = 18 };
    RUN_AND_NET;
    FREED(batch_free) struct batch batch;
    double exact[ALL] = {0}, f[ALL - N_X], most = 0;
    support_run(&run, "data/dense.ini", overrides);
    run.config.training.gamma0 = gamma0;
    start(&run, &net, &batch, 0);
    for (int t = 0; t < N_X / P; t++) {
        double Delta[P];
        advance(&net, &run, &batch, t);
        ASK(net_predict(&net, N_X, ALL - N_X, f, err));
        for (int mu = 0; mu < P; mu++) {
            most = fmax(most, fabs(net.output.f[mu] - exact[net.batch.index[mu]]));
            Delta[mu] = run.data.y[net.batch.index[mu]] - exact[net.batch.index[mu]];
        }
        for (int nu = N_X; nu < ALL; nu++)
            most = fmax(most, fabs(f[nu - N_X] - exact[nu]));
        for (int nu = 0; nu < ALL; nu++)
            for (int mu = 0; mu < P; mu++)
                exact[nu] += run.config.training.eta0 * (DEPTH + 1) / P * Delta[mu] *
                             overlap(&run, nu, net.batch.index[mu]);
    }
    return most;
}

/* gamma0 -> 0 in a linear limit: f(x) moves by eta0/P sum_mu Delta_mu Theta(x, x_mu), Theta = 4 x
 * x'/D for the four weight matrices, whatever batch x is in, but for O(gamma0^2): there is no
 * sampling noise. The coefficient is of order one; that the error is of this order and nothing else
 * shows when gamma0 halves: fourfold less, but for relative O(gamma0^2). */
TEST(lazy_single_pass) {
    static const char *const dimensions[] = {"data.dimension=10", "data.dimension=20"};
    for (int i = 0; i < 2; i++) {
        double error = lazy_error(0.02, dimensions[i]), half = lazy_error(0.01, dimensions[i]);
        assert_true(half < 1e-4);
        CHECK_ABS(error / half, 4, 1e-2, "%s", dimensions[i]);
    }
}

/* A single replicate: its operations are shared out. */
TEST(threads_do_not_matter) {
    static const char *const files[] = {"data/regime1.ini", "data/regime2.ini"};
    for (int i = 0; i < 2; i++) {
        const char *overrides[] = LIST("data.inputs=8", "data.test_inputs=5", "training.batch=3",
                                       "training.order=shuffled", "solver.threads=1", NULL);
        struct run run;
        FREED(two_records_free) struct record record[2];
        for (int k = 0; k < 2; k++) {
            overrides[4] = k ? "solver.threads=2" : "solver.threads=1";
            small_run(&run, files[i], overrides);
            run.config.solver.sites = 600; /* three blocks */
            ASK(run_ensemble(&run, 0, 1, &record[k], err));
            run_free(&run);
        }
        support_same(&record[0], &record[1]);
    }
}

/* 20 new directions a step: after 14 steps more than 0.9 x 300. */
TEST(a_single_pass_ends_at_the_rank_cap) {
    RUN_AND_RECORD;
    struct err err = {0};
    support_run(&run, "data/dense.ini",
                ARGS("data.inputs=400", "data.dimension=60", "training.batch=20",
                     "training.steps=20", "solver.sites=300"));
    assert_int_equal(run_ensemble(&run, 0, 1, &record, &err), CODE_NUMERICAL);
    assert_non_null(strstr(err.text, "too few sites"));
    assert_int_equal(record.steps[0], 13);
}

/* Three read-ins, on populations of different sizes: each has columns of its own for what only test
 * inputs have. */
static void write_read_ins(struct program *p) {
    struct population *a = program_layer(p, "a", 1), *b = program_layer(p, "b", 0.25);
    struct value x = program_fn(p, FN_TANH, 1, program_read_in(p, a, (struct weight){.name = "A"})),
                 y = program_fn(p, FN_TANH, 1, program_read_in(p, a, (struct weight){.name = "B"})),
                 z = program_fn(p, FN_TANH, 1, program_read_in(p, b, (struct weight){.name = "C"}));
    struct value h = program_map(p, z, a, (struct weight){.name = "V"});
    program_read_out(p, program_add(p, program_multiply(p, x, y), h), (struct weight){.name = "w"});
}

/* tanh of the rows that a read-in makes of an input with these coordinates. */
static void read_input(const struct net *net, const char *name, const double *A, double *out) {
    const struct node *v = support_weight(net, name);
    FREED(base_free) double *seen = support_get(array_all(&v->matrix.thin->W));
    FREED(base_free) double *unseen = support_get(array_all(&v->matrix.unseen->W));
    size_t N = v->on->sites, K = (size_t)net->setup.data.K;
    for (size_t n = 0; n < N; n++) {
        double sum = 0;
        for (size_t k = 0; k < K + (size_t)net->setup.data.test_directions; k++)
            sum += A[k] * (k < K ? seen[k * N + n] : unseen[(k - K) * N + n]);
        out[n] = tanh(sum);
    }
}

TEST(several_read_ins) {
    enum { N = 16, M = 4, P = 2, TESTS = 3 };
    static const struct model model = {.name = "read_ins", .write = write_read_ins};
    FREED(run_free) struct run run;
    small_run(&run, "data/dense.ini",
              ARGS("data.inputs=2", "data.test_inputs=3", "data.dimension=8", "reference.widths=16",
                   "reference.centre=no", "solver.sites=64"));
    for (int width = 0; width <= N; width += N) {
        struct net_setup setup = run_setup(&run, width, 0);
        FREED(net_free) struct net net;
        double f[TESTS], x[N], y[N], z[M];
        setup.model = &model;
        ASK(net_init(&net, &setup, err));
        support_train(&net, &run, 1);
        ASK(net_predict(&net, P, TESTS, f, err));
        FREED(base_free) double *V = width ? support_matrix(support_map(&net, "V")) : NULL;
        FREED(base_free) double *w = support_get(array_all(&support_thin(&net, "w")->W));
        for (int mu = 0; mu < TESTS; mu++) {
            const double *A = run.inputs.A + (P + mu) * (run.inputs.K + run.inputs.test_directions);
            double sum = 0;
            assert_true(isfinite(f[mu]));
            if (!width)
                continue;
            read_input(&net, "A", A, x);
            read_input(&net, "B", A, y);
            read_input(&net, "C", A, z);
            for (int n = 0; n < N; n++) {
                double h = x[n] * y[n];
                for (int m = 0; m < M; m++)
                    h += V[n * M + m] * z[m];
                sum += w[n] * h / N;
            }
            CHECK_ABS(f[mu], sum / setup.gamma0, 1e-13, "test input %d", mu);
        }
    }
}

/* Each input has draws of its own, however many rows there are on a population. */
TEST(draws_of_looks_do_not_overlap) {
    static const STRUCT(const char *depth, *tokens; uint32_t stride)
        cases[] = {{"network.depth=3", "data.tokens=1", 256},
                   {"network.depth=16", "data.tokens=16", 256},
                   {"network.depth=32", "data.tokens=16", 512}};
    for (int i = 0; i < 3; i++) {
        const char *more[] = {cases[i].depth, cases[i].tokens, NULL};
        FREED(run_free) struct run run;
        small_run(&run, "data/resnet.ini", more);
        struct net_setup setup = run_setup(&run, 0, 0);
        FREED(net_free) struct net net;
        setup.declare_only = true;
        ASK(net_init(&net, &setup, err));
        assert_int_equal(net_predict_stride(&net, net.populations.item[0]), cases[i].stride);
    }
}
