/* What is said of a program before it runs: memory that grows with masks and with rows of pairs of
 * tokens, wherever a script has them. And logits of any size, which are no reason to end. */
#include "tests/support/script.h"
#include "integrators/fixed_point.h"

#define HEAD                                                                                       \
    "key('depth')\nlocal a = population('a')\nlocal h = read_in(a, 'W1')\n"                        \
    "local e = population('e', {sites = 2048})\nlocal s = map(h, e, 'Q')\n"                        \
    "local q = look(h, 4, 'R')\n"
#define END "h = map(tanh(map(h, a, 'W2')), a, 'W3')\nread_out(h, 'w')\n"

/* Bytes that the limit is said to need after 400 evaluations. */
static double bytes_of(const char *text, const char *const *overrides) {
    FREED(run_free) struct run run;
    double bytes;
    ASK(support_script(&run, text, overrides, err));
    struct net_setup setup = run_setup(&run, 0, 0);
    ASK(net_bytes(&setup, 400, 0, &bytes, err));
    return bytes;
}

/* Rows that jump fill the bases of all matrices, as they do after top(s, 2), whose estimate has
 * long been known; smooth ones, the origin of a softmax among them, do not. */
TEST(masks_need_memory) {
    static const char *const overrides[] = {"solver.sites=4096", "data.inputs=8", NULL};
    static const char *const jumps[] = {
        HEAD "h = h * mean(top(s, 1) * s)\nh = h * sum(q)\n" END,
        HEAD "h = h * mean(balance_select(s, 2, {eta_bias = 0.1}) * s)\nh = h * sum(q)\n" END,
        HEAD "h = h * mean(balance_select(s, 2) * s)\nh = h * sum(q)\n" END,
        HEAD "h = h * mean(s)\nh = h * softmax(q, {top = 1})[1]\n" END,
        HEAD "h = h * mean(s)\nh = h * sigmoid(q, {top = 2})[1]\n" END,
        HEAD "h = h * mean(s)\nh = h * sum(top(q, 2) * q)\n" END,
        HEAD "h = h * (average(s, top(s, 1)) * e.sites)\nh = h * sum(q)\n" END,
    };
    static const char *const smooth[] = {
        HEAD "h = h * mean(s)\nh = h * sigmoid(q)[1]\n" END,
        HEAD "h = h * mean(exp(s - stop(average(s, top(s, 1)) * e.sites)))\nh = h * sum(q)\n" END,
    };
    double most = bytes_of(HEAD "h = h * mean(top(s, 2) * s)\nh = h * sum(q)\n" END, overrides);
    for (size_t k = 0; k < COUNT(jumps); k++)
        if (!(bytes_of(jumps[k], overrides) > 0.9 * most))
            fail_msg("%s needs %g, %g with top", jumps[k], bytes_of(jumps[k], overrides), most);
    for (size_t k = 0; k < COUNT(smooth); k++)
        if (!(bytes_of(smooth[k], overrides) < 0.5 * most))
            fail_msg("%s needs %g, %g with top", smooth[k], bytes_of(smooth[k], overrides), most);
}

/* A matrix that reads a row of each pair of tokens meets n = 8 times as many as one of tokens; half
 * of that is asked for, as some of its memory is not of rows. */
TEST(pairs_need_memory) {
#define HEADS(logits, queries)                                                                     \
    "key('depth')\nlocal a = population('a')\nlocal h = read_in(a, 'W1')\n"                        \
    "local heads = population('heads', {sites = 16384})\n"                                         \
    "local u = population('u', {of = heads, group = 1})\n"                                         \
    "local q = map(h, u, 'V')\nq = " queries "\nlocal l = attend(q, q, 1, heads)\nl = " logits     \
    "\nh = map(mix(softmax(l, {causal = true}), q), a, 'O')\nread_out(h, 'w')\n"
    static const char *const overrides[] = {"data.inputs=2", "data.tokens=8", NULL};
    double none = bytes_of(HEADS("l", "q"), overrides),
           tokens = bytes_of(HEADS("l", "map(tanh(q), u, 'M')"), overrides) - none,
           pairs = bytes_of(HEADS("map(tanh(l), heads, 'M')", "q"), overrides) - none;
    FAIL_IF(!(tokens > 0 && pairs > 4 * tokens), "%g of tokens, %g of pairs", tokens, pairs);
}

/* A matrix that reads a row of each input, pooled from eight tokens, meets an eighth as many: no
 * more is asked for, since it is announced as one of tokens. */
TEST(pooled_rows_need_memory) {
#define POOLED(y, x)                                                                               \
    "key('depth')\nlocal a = population('a', {sites = 16384})\nlocal h = read_in(a, 'W1')\n"       \
    "local y = " y "\nlocal x = pool(h)\nread_out(" x ", 'w')\n"
    static const char *const overrides[] = {"data.inputs=2", "data.tokens=8", NULL};
    double none = bytes_of(POOLED("h", "x"), overrides),
           tokens = bytes_of(POOLED("map(tanh(h), a, 'M')", "x + pool(y)"), overrides) - none,
           pooled = bytes_of(POOLED("h", "x + map(tanh(x), a, 'M')"), overrides) - none;
    FAIL_IF(!(tokens > 0 && pooled > tokens / 8), "%g of tokens, %g pooled", tokens, pooled);
}

/* Responses need rows once more for both companions, and windows of all rows a matrix has met: of
 * twice as many steps more; and where entries move one by one, each of them six times. */
TEST(responses_need_memory) {
    static const char *const optimizers[] = {"training.optimizer=gd", "training.optimizer=adam"};
    double bytes[2][3]; /* without, with, of twice as many steps */
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++) {
            FREED(run_free) struct run run;
            support_run(&run, "data/dense.ini",
                        ARGS("solver.sites=4096", optimizers[k],
                             i ? "output.responses=yes" : "output.responses=no"));
            struct net_setup setup = run_setup(&run, 0, 0);
            ASK(net_bytes(&setup, i == 2 ? 100 : 50, 50, &bytes[k][i], err));
        }
    double window = 5. * 4 * 50 * 4096 * sizeof(double); /* of one matrix, without its probes */
    if (!(bytes[0][1] - bytes[0][0] > 2 * window && bytes[0][2] - bytes[0][1] > 2 * window))
        fail_msg("%g without, %g with responses, %g with more steps", bytes[0][0], bytes[0][1],
                 bytes[0][2]);
    double entries = 2. * 4096 * 4096 * sizeof(double); /* of two matrices */
    CHECK_ABS((bytes[1][1] - bytes[1][0]) / (15 * entries), 1, 0.2, "entries of both kinds");
}

/* A matrix of a network that starts at zero is kept as what it has learnt until that has as many
 * rows as the matrix, 16 of 4 inputs in 4 steps, and then as its entries. */
TEST(what_is_learnt_becomes_a_matrix) {
    double bytes[6];
    FREED(run_free) struct run run;
    ASK(support_script(&run,
                       "key('depth')\nlocal a = population('a')\nlocal h = read_in(a, 'W1')\n"
                       "h = h + map(h, a, {name = 'W2', a0 = 0})\nread_out(h, 'w')\n",
                       ARGS("data.inputs=4"), err));
    struct net_setup setup = run_setup(&run, 16, 0);
    for (int steps = 1; steps < 6; steps++)
        ASK(net_bytes(&setup, steps, 0, &bytes[steps], err));
    assert_true(bytes[1] < bytes[2] && bytes[2] < bytes[3] && bytes[3] < bytes[4]);
    assert_true(bytes[4] == bytes[5]);
}

/* A fixed point keeps its kernels twice; where its sweeps are mixed thrice more, and twice for each
 * sweep that is remembered. */
TEST(mixing_needs_copies_of_kernels) {
    FREED(run_free) struct run run;
    double bytes[3];
    support_run(&run, "data/dense.ini", ARGS("solver.method=fixed_point"));
    struct net_setup setup = run_setup(&run, 0, 0);
    for (int depth = 0; depth < 3; depth++) {
        run.config.solver.fixed_point.anderson = depth;
        ASK(fixed_point_bytes(&setup, &run.config.training, &run.config.solver.fixed_point, 0,
                              &bytes[depth], err));
    }
    double two = bytes[2] - bytes[1];
    assert_true(two > 0);
    CHECK_ABS((bytes[1] - bytes[0]) / two, 2.5, 1e-6, "what the first one adds");
}

/* beta = 1000 makes logits of thousands, whose exponentials overflow: many heads, a z-loss of many
 * experts with sigmoid and with softmax gates, and a negative beta, whose largest exponent is that
 * of the least logit. */
TEST(large_logits) {
    static const char *const cases[][4] = {
        {"data/transformer.ini", "network.head_limit=many", "network.attention_beta=3000", NULL},
        {"data/regime2.ini", "network.beta=3000", "network.z_loss=0.01", NULL},
        {"data/regime2.ini", "network.beta=3000", "network.z_loss=0.01", "network.gate=softmax"},
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        RUN_AND_NET;
        support_run(&run, cases[k][0], ARGS(cases[k][1], cases[k][2], cases[k][3]));
        support_begin(&net, &run, 16, 0);
        assert_true(isfinite(net.output.loss) && isfinite(net.output.penalty));
    }
    RUN_AND_NET;
    ASK(support_script(&run,
                       "key('depth')\nlocal a = population('a')\nlocal h = read_in(a, 'W1')\n"
                       "local p = softmax(bias(look(h, 2, 'Q'), {-5000, 5000}, 'b'), {beta = -1})\n"
                       "show(p, 'p')\nread_out(p[1] * h, 'w')\n",
                       ARGS(NULL), err));
    support_begin(&net, &run, 16, 0);
    const double *p = support_measured(&net, "p");
    assert_true(p[0] == 1 && p[1] == 0);
}
