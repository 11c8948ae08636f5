/* Balancing of routers: the load-balancing loss and the z-loss by finite differences, in value by
 * plain loops; softmax before top-K; biases that make loads equal, few and many experts; limit
 * beside networks. */
#include "models/parts/block.h"
#include "tests/support/sequences.h"

#define FEW "network.experts=4", "network.bias=fixed", "network.biases=0.9 0.3 -0.3 -0.9"

TEST(gradient_by_differences) {
    static const STRUCT(const char *file, *more[10]) cases[] = {
        LIST("data/regime1.ini", {FEW, "network.gate=softmax", "network.rho=0.5",
                                  "network.balance_loss=0.7", "network.q0=1"}),
        {"data/regime1.ini",
         {FEW, "network.gate=sigmoid", "network.rho=0.25", "network.beta=1.3",
          "network.balance_loss=0.5", "network.z_loss=0.2"}},
        LIST("data/regime1.ini", {FEW, "network.gate=softmax", "network.rho=0.5",
                                  "network.softmax_over=all", "network.beta=0.8"}),
        LIST("data/regime1.ini", {"network.gate=softmax", "network.rho=1", "network.z_loss=0.3",
                                  "network.beta=1.2", "network.q0=1"}),
        {"data/regime2.ini", {"network.rho=0.5", "network.balance_loss=0.4"}},
        LIST("data/regime2.ini", {"network.gate=softmax", "network.rho=0.25", "network.z_loss=0.3",
                                  "network.balance_loss=0.4", "network.softmax_over=all"}),
        LIST("data/regime3.ini", {"network.gate=softmax", "network.rho=0.5", "network.z_loss=0.1",
                                  "network.balance_loss=0.6", "network.kappa=0.5"}),
        {"data/transformer.ini",
         {FEW, "network.rho=0.5", "network.gate=softmax", "network.balance_loss=0.5",
          "network.z_loss=0.1", "network.bias_per=expert", "data.tokens=3", "data.inputs=2"}},
        LIST("data/stack.ini", {"network.rho=0.5", "network.balance_loss=0.3", "network.z_loss=0.1",
                                "network.block_norm=both", "network.gate=softmax"}),
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *overrides[20] = {"training.eta0=0.2", "data.inputs=3", "data.test_inputs=0",
                                     "reference.widths=16", "reference.centre=no"};
        FREED(run_free) struct run run;
        memcpy(overrides + 5, cases[i].more, sizeof cases[i].more);
        support_run(&run, cases[i].file, overrides);
        support_gradient(&run, 16, 11);
    }
}

/* Blocks of a transformer with infinitely many experts. */
TEST(many_experts_of_a_transformer) {
    static const char *const networks[] = {
        "model = transformer\nmany_experts = regime2\nkappa = 0.5\nrho = 0.5\ngate = softmax\n"
        "balance_loss = 0.3\nz_loss = 0.1\ndepth = 2\ncausal = yes",
        "model = transformer\nmany_experts = regime3\nkappa = 0.5\niota = 0.5\nheads = 2\n"
        "parameterization = mup\nbranch_power = 0.5"};
    const struct sequences sequences = {.P = 2, .n = 3, .C = 3, .per_token = true};
    for (size_t i = 0; i < 2; i++) {
        FREED(run_free) struct run run;
        sequences_run(&run, &sequences, networks[i], "loss = cross_entropy\neta0 = 0.2");
        support_gradient(&run, 8, 11);
    }
}

/* From the logits, which are measured. */
TEST(values_by_plain_loops) {
    enum { P = 5, M = 4, K = 2 };
    const double balance = 0.7, zeta = 0.2, beta = 1.3;
    for (int softmax = 0; softmax < 2; softmax++) {
        const char *overrides[] =
            LIST(FEW, "data.inputs=5", "network.rho=0.5", "network.beta=1.3",
                 "network.balance_loss=0.7", "network.z_loss=0.2", "network.q0=2",
                 softmax ? "network.gate=softmax" : "network.gate=sigmoid", NULL);
        RUN_AND_NET;
        double load[M] = {0}, share[M] = {0}, L = 0, Z = 0;
        support_run(&run, "data/regime1.ini", overrides);
        support_net(&net, &run, 16, 0);
        support_train(&net, &run, 3);
        support_evaluate(&net, &run);
        const double *psi = support_measured(&net, "psi"), *p = support_measured(&net, "p");
        for (int mu = 0; mu < P; mu++) {
            double w[M], sum = 0, all = 0;
            for (int i = 0; i < M; i++) {
                double e = exp(beta * psi[mu * M + i]);
                w[i] = softmax ? e : e / (1 + e);
                sum += w[i];
                all += e;
            }
            for (int i = 0; i < M; i++) {
                load[i] += (p[mu * M + i] > 0) / (double)P;
                share[i] += w[i] / sum / P;
            }
            Z += zeta * log(all) * log(all) / P;
        }
        for (int i = 0; i < M; i++)
            L += balance * load[i] * M / K * share[i];
        CHECK_ABS(*support_measured(&net, "balance_loss"), L, 1e-14, "balance");
        CHECK_ABS(*support_measured(&net, "z_loss"), Z, 1e-14, "z");
        CHECK_ABS(net.output.penalty, L + Z, 1e-14, "sum");
        for (int i = 0; i < M; i++)
            CHECK_ABS(support_measured(&net, "load")[i], load[i], 1e-15, "load %d", i);
    }
}

/* Over all: the share of all experts is one; over the selected: theirs. */
TEST(softmax_before_top) {
    for (int all = 0; all < 2; all++) {
        const char *overrides[] =
            LIST(FEW, "network.gate=softmax", "network.rho=0.5", "network.q0=1",
                 all ? "network.softmax_over=all" : NULL, NULL);
        RUN_AND_NET;
        support_run(&run, "data/regime1.ini", overrides);
        support_begin(&net, &run, 16, 0);
        const double *p = support_measured(&net, "p"), *psi = support_measured(&net, "psi");
        for (int mu = 0; mu < run.data.P; mu++) {
            double sum = 0, whole = 0, mine = 0;
            for (int i = 0; i < 4; i++) {
                sum += p[mu * 4 + i];
                whole += exp(psi[mu * 4 + i]);
                mine += p[mu * 4 + i] > 0 ? exp(psi[mu * 4 + i]) : 0;
            }
            CHECK_ABS(sum, all ? mine / whole : 1, 1e-14, "input %d", mu);
        }
    }
}

/* Of equal numbers the first are selected, as many as there is room for. */
TEST(the_first_of_equal_numbers) {
    static const bool selected[2][4] = {{true, true, false, false}, {true, true, true, false}};
    for (int K = 2; K <= 3; K++) {
        char text[400];
        RUN_AND_NET;
        snprintf(text, sizeof text,
                 "network.program_text=key('depth', 1)\\nlocal x = tanh(read_in(population('a'), "
                 "'W'))\\nlocal z = bias(look(x, 4, {name = 'Q', zero = true}), {0.1, 0.2, 0.1, "
                 "0.1}, 'b')\\nlocal m = top(z, %d)\\nshow(m, 'm', {axis = 'i'})\\n"
                 "read_out(x + m[1] * z[1] * x, 'w')",
                 K);
        support_run(&run, "examples/dense.ini",
                    ARGS("network.program=t.lua", text, "data.inputs=2", "solver.replicates=0"));
        support_begin(&net, &run, 8, 0);
        const double *m = support_measured(&net, "m");
        for (int k = 0; k < 8; k++)
            assert_true(m[k] == selected[K - 2][k % 4]);
    }
}

/* The largest load over rho, at the start and at the end, of the limit and of a network. */
static void loads(const char *file, const char *const *more, const char *eta_bias, double *first,
                  double *last) {
    for (int k = 0; k < 2; k++) {
        const char *overrides[20] = {
            "data.inputs=12",      "training.steps=40", "training.eta0=0.02",  "solver.sites=128",
            "solver.replicates=2", "reference.seeds=2", "reference.widths=32", eta_bias};
        RUN_AND_RECORD;
        double se;
        for (int n = 0; n < 8 && more[n]; n++)
            overrides[n + 8] = more[n];
        support_run(&run, file, overrides);
        ASK(run_ensemble(&run, k ? 32 : 0, 2, &record, err));
        const struct series *series = record_find(&record, "load_largest");
        support_entry(&record, "load_largest", 0, &first[k], &se);
        support_entry(&record, "load_largest", series->size - 1, &last[k], &se);
    }
}

/* With biases loads settle at rho: in steps of one input of twelve, a third of 12 rho = 3, they
 * cannot do so exactly, so more than half of the excess is gone, where without them more than half
 * of it stays. In the limit of a few experts all inputs have nearly the same logits, and take turns
 * together. */
TEST(biases_balance) {
    static const STRUCT(const char *file, *more[10]) cases[] = {
        {"data/regime1.ini", {FEW, "network.rho=0.25", "network.q0=2"}},
        {"data/regime2.ini", {"network.rho=0.25", "network.kappa=0.5", "solver.expert_sites=64"}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        double first[2], last[2], free_first[2], free_last[2];
        loads(cases[i].file, cases[i].more, "network.eta_bias=0.1", first, last);
        loads(cases[i].file, cases[i].more, "network.eta_bias=0", free_first, free_last);
        for (int k = i == 0; k < 2; k++) {
            print_message("%s %s: largest load %.2f -> %.2f, without biases -> %.2f\n",
                          cases[i].file, k ? "network" : "limit", first[k], last[k], free_last[k]);
            double half = 1 + 0.5 * (first[k] - 1);
            assert_true(first[k] > 2 && free_first[k] == first[k]);
            assert_true(last[k] < half && free_last[k] > half);
        }
    }
}

/* Stratified biases are the values at which the distribution of a normal is (k + 1/2)/E: found back
 * by erfc, which is good to some units in the last place; the distribution has a slope of at most
 * 0.4, and the values reach 2.5: 1e-14. */
TEST(stratified_biases_are_quantiles) {
    enum { E = 64 };
    const struct network network = {.routing.bias_std = 0.3, .routing.bias_draws = BIAS_STRATIFIED};
    const struct net_setup setup = {.network = &network};
    double values[E];
    balance_biases(&setup, 0, E, values);
    for (int k = 0; k < E; k++)
        CHECK_ABS(0.5 * erfc(-values[k] / 0.3 / sqrt(2)), (k + 0.5) / E, 1e-14, "bias %d", k);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Stratified experts of finite width in two halves: the whole has those of the first and then those
 * of the second, and all together they are the experts without halves. Those of infinite width
 * stay. */
TEST(halves_share_the_quantiles) {
    enum { E = 8 };
    for (int width = 0; width < 4; width += 3) {
        const struct network network = {
            .routing.bias_std = 0.3, .routing.bias_draws = BIAS_STRATIFIED, .experts.width = width};
        struct net_setup setup = {.network = &network};
        double plain[E], whole[E], half[E];
        balance_biases(&setup, 0, E, plain);
        setup.limit.beside_halves = true;
        balance_biases(&setup, 0, E, whole);
        setup.limit.beside_halves = false;
        for (int k = 0; k < 2 && width; k++) {
            setup.limit.half_number = k + 1;
            balance_biases(&setup, 0, E / 2, half + k * E / 2);
        }
        if (width) {
            assert_memory_equal(whole, half, sizeof whole);
            assert_true(half[0] < half[E / 2] && half[E / 2] < half[1]);
            qsort(whole, E, sizeof *whole, by_size);
        }
        assert_memory_equal(whole, plain, sizeof whole);
    }
}
