/* Choices among the tokens of an input: masks by their definition, in networks and in limits;
 * finite differences where they multiply what learns; refusals. */
#include "tests/support/support.h"

#include "models/engine/node.h"

#include <stdlib.h>
#include <string.h>

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

static void check(struct run *run, int N, bool first) {
    struct net net;
    support_net(&net, run, N, 1);
    support_evaluate(&net, run);
    const struct node *v = find(&net, first ? "first_rows" : "top_rows");
    struct rows of = net.program->node[v->argument[0]].value;
    double *x = support_get(of), *mask = support_get(v->value);
    size_t sites = v->on->sites, ones = 0;
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
        assert_in_range(ones, 1, P * C * sites - 1);
    free(x);
    free(mask);
    net_free(&net);
}

static void masks(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct run run;
        const char *more[] = {"data.inputs=3",
                              "data.tokens=5",
                              "solver.sites=128",
                              "solver.expert_sites=64",
                              "program.tokens=2",
                              first ? "program.capacity=2" : "program.capacity=0",
                              NULL};
        support_run(&run, "examples/expert_choice.ini", more);
        for (int N = 0; N <= 16; N += 16)
            check(&run, N, first);
        support_gradient(&run, 16, 23);
        run_free(&run);
    }
}

static void refusals(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"program.tokens=5", "top_rows of 5 tokens, where an input has 4"},
        {"program.tokens=0", "must be a number from 1"},
        {"program.capacity=5", "first_rows of 5 tokens, where an input has 4"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct run run = {0};
        struct err why = {0};
        char *more[] = {(char *)(uintptr_t)cases[k][0]};
        int code = run_configure(&run, "examples/expert_choice.ini", 1, more, &why);
        if (code != CODE_INPUT || !strstr(why.text, cases[k][1]))
            fail_msg("%s: code %d, or no \"%s\" in: %s", cases[k][0], code, cases[k][1], why.text);
        run_free(&run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests_name("choice", tests, NULL, NULL);
}
