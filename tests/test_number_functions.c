/* Functions of numbers that rows have as well, and rows that are stopped: finite differences; and
 * the limits that a kink makes random. Values are judged beside PyTorch (tests/random). */
#include "tests/support/script.h"

#define READ "key('depth')\nlocal a = population('a')\nlocal x = read_in(a, 'W1')\n"

static void script(struct run *run, const char *text) {
    struct err why;
    FAIL_IF(support_script(run, text, ARGS("data.inputs=3"), &why), "%s", why.text);
}

TEST(gradients) {
    FREED(run_free) struct run run;
    script(&run, READ "local s = look(tanh(x), 3, 'Q')\n"
                      "s = gelu(s, 0.7) + silu(s) + relu(s, -2) + erf(s) + softplus(s, 0.5)\n"
                      "s = sin(s) - cos(s, 2)\n"
                      "x = s[1] * x + s[2] * tanh(x) + s[3] * map(x, a, 'W2')\n"
                      "read_out(tanh(x), 'w')\n");
    support_gradient(&run, 16, 3);
}

/* The activation is a function of numbers, too. */
TEST(activation_of_numbers) {
    static const char *const more[] = {"network.activation=gelu",
                                       "network.expert_activation=softplus", NULL};
    static const char *const text[] = {
        READ "local s = look(tanh(x), 2, 'Q')\nx = mean(sigma(s)[1] * x + sigma_of_experts(s)[2] * "
             "x) * x\n"
             "read_out(tanh(x), 'w')\n",
        READ "local s = look(tanh(x), 2, 'Q')\nx = mean(gelu(s)[1] * x + softplus(s)[2] * x) * x\n"
             "read_out(tanh(x), 'w')\n"};
    support_scripts_agree(text, more);
}

/* x^0 of rows is 1 where x is below 0, too. */
TEST(power_zero_of_rows) {
    static const char *const more[] = {NULL};
    static const char *const text[] = {READ "read_out(x ^ 0 * tanh(x), 'w')\n",
                                       READ "read_out(tanh(x), 'w')\n"};
    support_scripts_agree(text, more);
}

/* d/dx of x - c stop(x) is 1: the step of the read-in is that without the second term, though the
 * rows are (1 - c) x. */
TEST(stopped_rows) {
    double moved[2];
    for (int k = 0; k < 2; k++) {
        RUN_AND_NET;
        script(&run,
               k ? READ "x = x - 0.25 * stop(x)\nread_out(x, 'w')\n" : READ "read_out(x, 'w')\n");
        support_begin(&net, &run, 16, 0);
        double before, after, *W = support_get(array_all(&net.program->node[0].matrix.thin->W));
        before = W[0];
        free(W);
        support_learn(&net, &run);
        W = support_get(array_all(&net.program->node[0].matrix.thin->W));
        after = W[0];
        free(W);
        moved[k] = after - before;
    }
    assert_true(moved[0] != 0);
    CHECK_ABS(moved[1], moved[0], 1e-15, "the first step, at which outputs are 0");
}

/* Whether the limit of a program is a random one. */
static bool is_random(const char *numbers) {
    RUN_AND_NET;
    TEXT(text, 512, READ "local s = %s\nread_out((1 + sum(s)) * x, 'w')\n", numbers);
    script(&run, text);
    support_net(&net, &run, 0, 0);
    bool random = net.gates.random;
    return random;
}

/* Looks are 0 at the start of a limit: there relu has no slope, and in a network the slope that the
 * fluctuation of its look gives it. */
TEST(kinks_at_zero) {
    assert_true(is_random("relu(look(x, 2, 'Q'))"));
    assert_true(is_random("relu(0.5 * tanh(look(x, 2, 'Q')), -1)"));
    assert_false(is_random("silu(look(x, 2, 'Q'))"));
    assert_false(is_random("relu(look(x, 2, {name = 'Q', a0 = 0}))"));
    assert_false(is_random("relu(bias(look(x, 2, 'Q'), {0.5, -0.5}, 'b'))"));
}
