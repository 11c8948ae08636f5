/* Sections [init], [rates] and [eps] in the networks themselves: what they multiply, in networks
 * and in limits, under every optimizer; and what is refused. Factors are powers of 2, so that what
 * they must give is exact. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"

enum { N = 12, MOST = 16 };

static const char *const small[] = {"data.inputs=3",       "data.dimension=5",
                                    "training.eta0=0.25",  "reference.widths=12",
                                    "reference.centre=no", "solver.sites=64"};

static void run_of(struct run *run, const char *network, const char *const *more) {
    const char *overrides[COUNT(small) + MOST + 1] = {0};
    memcpy(overrides, small, sizeof small);
    for (size_t k = 0; more && k < MOST && more[k]; k++)
        overrides[COUNT(small) + k] = more[k];
    support_run_text(run, overrides, "[network]\n%s\n", network);
}

static void train(struct net *net, const struct run *run, int width, int steps) {
    const struct training *training = &run->config.training;
    support_net(net, run, width, 1);
    support_evaluate(net, run);
    for (int t = 0; t < steps; t++)
        ASK(integrator_of(training)->advance(net, training, run->data.y, err));
}

static void outputs(double f[3], const char *network, const char *const *more, int width,
                    int steps) {
    RUN_AND_NET;
    run_of(&run, network, more);
    train(&net, &run, width, steps);
    memcpy(f, net.output.f, 3 * sizeof *f);
}

static void check_same(const char *network, const char *const *a, const char *const *b, int width) {
    double f[3], g[3], plain[3];
    outputs(f, network, a, width, 3);
    outputs(g, network, b, width, 3);
    outputs(plain, network, NULL, width, 3);
    assert_memory_equal(f, g, sizeof f);
    assert_memory_not_equal(f, plain, sizeof f);
}

/* The key that there was before, and the line that says the same. */
TEST(rate_of_the_router) {
    static const char model[] = "model=regime1\ngate=sigmoid\nq0=1";
    static const char *const optimizers[] = {"training.optimizer=gd", "training.optimizer=momentum",
                                             "training.optimizer=adam"};
    for (size_t k = 0; k < COUNT(optimizers); k++)
        for (int width = 0; width <= N; width += N)
            for (int zero = 0; zero < 2; zero++)
                check_same(
                    model, ARGS(zero ? "rates.Q=0" : "rates.Q=10", optimizers[k]),
                    ARGS(zero ? "network.router_rate=0" : "network.router_rate=10", optimizers[k]),
                    width);
}

static double rate_of(const struct net *net, const char *name) {
    for (int i = 0; i < net->parameters.count; i++)
        if (!strcmp(net->parameters.item[i].name, name))
            return net->parameters.item[i].rate;
    fail_msg("no parameter %s", name);
    return 0;
}

/* Lines of a common name and of the own one multiply; N is the width. */
TEST(factors_multiply) {
    RUN_AND_NET;
    run_of(&run, "model=regime1\nexperts=3\nexpert_layers=2",
           ARGS("init.W2=2", "init.W2_1=4", "rates.W3=2 N^-0.5", "rates.W3_0=N", "rates.w=0.5",
                "solver.replicates=0"));
    support_net(&net, &run, 16, 0);
    assert_true(support_weight(&net, "W2_0")->matrix.weight.a0 == 2);
    assert_true(support_weight(&net, "W2_1")->matrix.weight.a0 == 8);
    assert_true(support_weight(&net, "W3_1")->matrix.weight.a0 == 1);
    assert_true(rate_of(&net, "W3_0") == 8 && rate_of(&net, "W3_2") == 0.5);
    assert_true(rate_of(&net, "W2_1") == 1 && rate_of(&net, "w") == 0.5);
}

/* Linear networks: f(0) of a finite one is linear in each matrix, a kernel of the limit quadratic.
 * A bias is a matrix of one row. */
TEST(initial_factors) {
    static const char model[] = "model=dense\ndepth=3\nactivation=linear";
    static const char *const line[] = {"init.W1=2", "init.W2=2", "init.W3=2", "init.w=2"};
    double f[3], plain[3];
    outputs(plain, model, NULL, N, 0);
    for (size_t k = 0; k < COUNT(line); k++) {
        outputs(f, model, ARGS(line[k]), N, 0);
        for (int mu = 0; mu < 3; mu++)
            assert_true(f[mu] == 2 * plain[mu]);
    }
    for (size_t k = 0; k < 3; k++) {
        double kernel[2][9];
        for (int given = 0; given < 2; given++) {
            RUN_AND_NET;
            run_of(&run, model, given ? ARGS(line[k]) : NULL);
            train(&net, &run, 0, 0);
            struct rows h = net.kernels.item[net.kernels.count - 1].rows; /* PhiL */
            net.setup.backend->dots(h, h, kernel[given]);
        }
        for (int i = 0; i < 9; i++)
            assert_true(kernel[1][i] == 4 * kernel[0][i] && kernel[0][i] != 0);
    }
    static const char biased[] = "model=regime1\nbias=fixed\nbiases=0.5 -1";
    static const char twice[] = "model=regime1\nbias=fixed\nbiases=1 -2";
    for (int width = 0; width <= N; width += N) {
        outputs(f, biased, ARGS("init.b=2"), width, 2);
        outputs(plain, twice, NULL, width, 2);
        assert_memory_equal(f, plain, sizeof f);
    }
}

/* The numbers of a matrix: explicit, or what a limit map has learnt. */
static double *values_of(const struct node *v, size_t *count) {
    double *values;
    if (v->matrix.thin || v->matrix.map->kind == &map_finite) {
        struct rows rows =
            array_all(v->matrix.thin ? &v->matrix.thin->W : support_entries(v->matrix.map));
        *count = (size_t)rows.count * rows.array->sites;
        return support_get(rows);
    }
    *count = v->matrix.map->declared.target->sites * v->matrix.map->declared.source->sites;
    FAIL_IF(v->matrix.map->kind != &map_history, "no numbers of %s", v->matrix.weight.name);
    values = support_matrix(v->matrix.map);
    return values;
}

/* Frozen: the same bits after three steps, while all others move (with weight decay too). Of limits
 * the thin matrices; a map that is frozen is as one that never learns. */
static void check_frozen(const char *network, const char *optimizer, int width) {
    struct run run;
    struct net net;
    run_of(&run, network, NULL);
    support_net(&net, &run, width, 1);
    int count = net.matrices.count;
    char line[MOST][64];
    for (int k = 0; k < count; k++)
        snprintf(line[k], sizeof line[k], "rates.%s=0", net.matrices.item[k].name);
    net_free(&net);
    run_free(&run);
    for (int k = 0; k < count; k++) {
        run_of(&run, network, ARGS(line[k], optimizer));
        train(&net, &run, width, 0);
        double *before[MOST] = {0};
        size_t size;
        for (int pass = 0; pass < 2; pass++) {
            int at = 0;
            for (int i = 0; i < net.program->nodes; i++) {
                const struct node *v = &net.program->node[i];
                if (!v->matrix.weight.name || (!width && !v->matrix.thin)) {
                    at += v->matrix.weight.name != NULL;
                    continue;
                }
                double *values = values_of(v, &size);
                if (!pass)
                    before[at] = values;
                else if ((memcmp(before[at], values, size * sizeof *values) == 0) != (at == k))
                    fail_msg("%s, %s, %s: matrix %s", network, line[k], optimizer,
                             v->matrix.weight.name);
                if (pass) {
                    free(values);
                    free(before[at]);
                }
                at++;
            }
            for (int t = 0; t < 3 && !pass; t++)
                ASK(integrator_of(&run.config.training)
                        ->advance(&net, &run.config.training, run.data.y, err));
        }
        net_free(&net);
        run_free(&run);
    }
}

TEST(zero_rates_freeze) {
    static const char *const networks[] = {
        "model=dense\ndepth=2", "model=regime1\nq0=1", "model=regime2\n[solver]\nexpert_sites=8",
        "model=regime3\nparameterization=mup\niota=.25\n[solver]\nexpert_sites=8\nunit_sites=8",
        "model=resnet\ndepth=2"};
    for (size_t i = 0; i < COUNT(networks); i++)
        for (size_t k = 0; optimizer_list[k]; k++)
            for (int width = 0; width <= N; width += N) {
                TEXT(optimizer, 64, "training.optimizer=%s", optimizer_list[k]->name);
                check_frozen(networks[i], optimizer, width);
            }
}

/* What a limit loses with a negative power: what a factor of 0 takes. */
TEST(negative_powers_vanish) {
    static const char model[] = "model=regime1\nq0=1\nparameterization=mup";
    static const struct {
        const char *vanishing, *zero;
    } pairs[] = LIST({"rates.W1=3 N^-0.1", "rates.W1=0"}, {"rates.W2=N^-2", "rates.W2=0"},
                     {"rates.Q=N^-1", "rates.Q=0"}, {"init.w=N^-0.1", "init.w=0"},
                     {"init.w=N^-1", "network.read_out=zero"}, {"init.Q=N^-0.5", "init.Q=0"});
    for (size_t k = 0; k < COUNT(pairs); k++)
        check_same(model, ARGS(pairs[k].vanishing), ARGS(pairs[k].zero), 0);
    check_same(model, ARGS("rates.W1=N^-0.1", "training.optimizer=adam"),
               ARGS("rates.W1=0", "training.optimizer=adam"), 0);
    /* of a map: MSSP with M^{-1/2} is muP, whose limit keeps nothing of W_out(0) */
    check_same("model=regime2\n[solver]\nexpert_sites=16", ARGS("init.W_out=N^-0.5"),
               ARGS("network.parameterization=mup"), 0);
}

/* Of every matrix the factor of eps is eps itself, with its power of the width in networks. */
TEST(factors_of_eps) {
    static const char model[] = "model=regime1\nq0=1\nbias=trained\n[training]\noptimizer=adam";
    for (int width = 0; width <= 16; width += 16) {
        check_same(model, ARGS("eps.W1=4", "eps.W2=4", "eps.Q=4", "eps.b=4", "eps.w=4"),
                   ARGS("training.eps=0.2"), width);
        check_same(model, ARGS("eps.W1=4", "eps.W2_0=4", "eps.W2_1=4", "eps.Q=4", "eps.b=4"),
                   ARGS("training.eps=0.2", "eps.w=0.25"), width);
    }
    check_same(model, ARGS("solver.replicates=0", "eps.Q=3 N^0.5"),
               ARGS("solver.replicates=0", "eps.Q=12"), 16);
}
