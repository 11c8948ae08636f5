/* Choices among the tokens of an input: masks by their definition, in networks and in limits;
 * finite differences where they multiply what learns. */
#include "tests/support/support.h"

#include "solver/measure/fields.h"

enum { P = 3, TOKENS = 5, C = 2 };

/* The first node with this operation. */
static const struct node *find(const struct net *net, const char *operation) {
    for (int i = 0; i < net->program->nodes; i++)
        if (!strcmp(net->program->node[i].op->name, operation))
            return &net->program->node[i];
    fail_msg("no %s", operation);
    return NULL;
}

/* Tokens before s with a larger x, or an equal one before it; or those before it above 0. */
static int before(const double *x, size_t sites, int s, bool first) {
    int count = 0;
    for (int r = 0; r < TOKENS; r++) {
        double other = x[(size_t)r * sites], own = x[(size_t)s * sites];
        count += first ? r < s && other > 0 : other > own || (other == own && r < s);
    }
    return count;
}

/* The values of a node, [P TOKENS][count], to be freed. */
static double *values_of(const struct node *v, size_t *count) {
    *count = v->on ? v->on->sites : (size_t)v->K;
    if (v->on)
        return support_get(v->value);
    double *copy = malloc((size_t)v->count * *count * sizeof *copy);
    assert_non_null(copy);
    return memcpy(copy, v->s, (size_t)v->count * *count * sizeof *copy);
}

static void check(struct run *run, int N, bool first) {
    FREED(net_free) struct net net;
    support_net(&net, run, N, 1);
    support_evaluate(&net, run);
    const struct node *v = find(&net, first ? "first_rows" : "top_rows");
    size_t sites, ones = 0;
    FREED(base_free)
    double *x = values_of(&net.program->node[v->argument[0]], &sites), *mask = values_of(v, &sites);
    for (int mu = 0; mu < P; mu++)
        for (int s = 0; s < TOKENS; s++)
            for (size_t i = 0; i < sites; i++) {
                const double *own = x + (size_t)(mu * TOKENS) * sites + i;
                bool one =
                    before(own, sites, s, first) < C && (!first || own[(size_t)s * sites] > 0);
                assert_true(mask[(size_t)(mu * TOKENS + s) * sites + i] == one);
                ones += one;
            }
    if (!first)
        assert_int_equal(ones, P * C * sites);
    else
        assert_in_range(ones, 1, P * C * sites);
}

/* Many experts, and a fixed number. */
TEST(masks) {
    static const char *const inis[] = {"examples/expert_choice.ini", "examples/few_experts.ini"};
    for (int k = 0; k < 4; k++) {
        FREED(run_free) struct run run;
        const char *more[] = {
            "output.gradients=yes", /* values stay where a backward pass is run again */
            "data.inputs=3",
            "data.tokens=5",
            "solver.sites=128",
            k / 2 ? "program.router=1" : "solver.expert_sites=64",
            "program.tokens=2",
            k % 2 ? "program.capacity=2" : "program.capacity=0",
            NULL};
        support_run(&run, inis[k / 2], more);
        for (int N = 0; N <= 16; N += 16)
            check(&run, N, k % 2);
        support_gradient(&run, 16, 23);
    }
}

/* Loads are means over the tokens that some expert has taken, in networks and in limits. */
TEST(loads_of_tokens_that_are_dropped) {
    const char *more[] = {"data.tokens=12",      "solver.sites=128",  "solver.expert_sites=64",
                          "program.capacity=1",  "output.router=yes", "training.steps=1",
                          "solver.replicates=1", "solver.halves=no",  NULL};
    for (int N = 0; N <= 16; N += 16) {
        RUN_AND_NET;
        FREED(record_free) struct record record;
        support_run(&run, "examples/expert_choice.ini", more);
        support_begin(&net, &run, N, 0);
        ASK(run_ensemble(&run, N, 1, &record, err));
        size_t M = net.gates.rows.array->sites;
        int rows = net.gates.rows.count, dropped = 0;
        double *phi = support_get(net.gates.rows), load[M], want[FIELDS_PROBABILITIES];
        memset(load, 0, sizeof load);
        for (int r = 0; r < rows; r++) {
            double sum = 0;
            for (size_t i = 0; i < M; i++)
                sum += phi[(size_t)r * M + i];
            dropped += sum == 0;
            for (size_t i = 0; i < M && sum > 0; i++)
                load[i] += phi[(size_t)r * M + i] / sum * (double)M;
        }
        assert_in_range(dropped, 1, rows - 1);
        for (size_t i = 0; i < M; i++)
            load[i] /= rows - dropped;
        fields_quantiles(load, M, want);
        for (size_t k = 0; k < FIELDS_PROBABILITIES; k++)
            CHECK_ABS(support_value(&record, "gate_load", 0, 0, k), want[k], 1e-13, "N = %d", N);
        free(phi);
    }
}

/* A logit that is no number is chosen, wherever it stands, so that a run that diverges ends. */
TEST(what_is_no_number) {
    for (int first = 0; first < 2; first++) {
        RUN_AND_NET;
        support_run(&run, "examples/few_experts.ini",
                    ARGS("data.tokens=5", "program.router=1",
                         first ? "program.capacity=2" : "program.capacity=0"));
        support_begin(&net, &run, 16, 1);
        const struct node *v = find(&net, first ? "first_rows" : "top_rows");
        struct node *mask = &net.program->node[v - net.program->node];
        double *x = net.program->node[v->argument[0]].s;
        for (int s = 0; s < TOKENS; s++)
            x[s * v->K] = s < TOKENS - 2 ? 1.0 - first : (double)NAN;
        assert_int_equal(node_run(&net, mask, &failure), CODE_OK);
        for (int s = 0; s < TOKENS; s++)
            assert_true(mask->s[s * v->K] == (s >= TOKENS - 2));
    }
}

/* Where fluctuations choose among tokens of one kind the limit is a random one: also where the
 * router starts at zero, but neither where it never learns, nor by order among those that biases
 * have chosen. */
TEST(random_limits) {
    static const STRUCT(const char *capacity, *router, *rate, *by_gate; bool random) cases[] = {
        {"0", "1", "4", "no", true},  {"0", "0", "4", "no", true},  {"0", "0", "0", "no", false},
        {"1", "0", "4", "no", false}, {"1", "0", "4", "yes", true}, {"1", "1", "0", "yes", true}};
    for (size_t k = 0; k < COUNT(cases); k++) {
        char text[4][64];
        const char *names[] = {"capacity", "router", "router_rate", "by_gate"},
                   *values[] = {cases[k].capacity, cases[k].router, cases[k].rate,
                                cases[k].by_gate},
                   *more[6] = {"solver.sites=64"};
        RUN_AND_NET;
        for (int i = 0; i < 4; i++) {
            snprintf(text[i], sizeof text[i], "program.%s=%s", names[i], values[i]);
            more[i + 1] = text[i];
        }
        support_run(&run, "examples/few_experts.ini", more);
        support_net(&net, &run, 0, 1);
        if (net.gates.random != cases[k].random)
            fail_msg("case %zu: the limit is %sa random one", k, net.gates.random ? "" : "not ");
    }
}
