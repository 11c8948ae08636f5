/* What must hold exactly for transformers, networks and limit (docs/theory/transformer.md,
 * section 7): what one token makes irrelevant, equal tokens, permuted tokens, heads, the start; and
 * limits that nothing is sampled in, attention without experts. */
#include "tests/support/sequences.h"

enum { T = 8, P = 4, MOST = 256 };

/* Losses, f and the largest logit of each time. */
struct course {
    double loss[MOST], f[MOST][P], logits[MOST], drawn; /* the first weight */
};

static double largest_logit(const struct net *net) {
    double largest = 0;
    for (int k = 0; k < net->numbers.count; k++)
        for (int i = 0; i < net->batch.rows * net->setup.data.n; i++)
            if (!strncmp(net->numbers.item[k].name, "logits", 6))
                largest = fmax(largest, fabs(net->numbers.item[k].values[i]));
    return largest;
}

static void march(const struct run *run, int N, int replicate, int steps, struct course *course) {
    FREED(net_free) struct net net;
    support_net(&net, run, N, replicate);
    double *W0 = support_get(array_all(&net.thins.item[0]->W));
    course->drawn = *W0;
    free(W0);
    for (int t = 0; t < steps; t++) {
        support_evaluate(&net, run);
        course->loss[t] = net.output.loss;
        memcpy(course->f[t], net.output.f, sizeof course->f[t]);
        course->logits[t] = largest_logit(&net);
        support_learn(&net, run);
    }
}

/* settings: [training] and what follows. */
static void train(const struct sequences *sequences, const char *network, const char *settings,
                  int N, struct course *course) {
    char all[1024];
    FREED(run_free) struct run run;
    snprintf(all, sizeof all, "model = transformer\n%s", network);
    sequences_run(&run, sequences, all, settings);
    march(&run, N, 0, T, course);
}

static void same(const struct course *a, const struct course *b, double tolerance,
                 const char *what) {
    for (int t = 0; t < T; t++) {
        CHECK_ABS(a->loss[t], b->loss[t], tolerance, "%s: loss at %d", what, t);
        for (int mu = 0; mu < P; mu++)
            CHECK_ABS(a->f[t][mu], b->f[t][mu], tolerance, "%s: f[%d] at %d", what, mu, t);
    }
    assert_true(fabs(a->loss[T - 1] - a->loss[0]) > 0.05); /* it has learned */
}

static double apart(const struct course *a, const struct course *b, int steps) {
    double largest = 0;
    for (int t = 0; t < steps; t++)
        largest = fmax(largest, fabs(a->loss[t] - b->loss[t]));
    return largest;
}

static const char experts[] = "depth = 1\nexperts = 2\ngate = softmax\nbias = fixed\n"
                              "biases = 0.4 -0.4\nq0 = 1\nrouter_rate = 3\nattention_beta = 2";
static const char settings[] = "eta0 = 0.3\n[solver]\nsites = 256\ntolerance = 1e-4\n"
                               "[reference]\nwidths = 24\n";

/* One token attends to itself: beta, the mask, and whether outputs are pooled change nothing. */
TEST(one_token) {
    const struct sequences pooled = {P, 1, 1, false, 0, NULL, false},
                           each = {P, 1, 1, true, 0, NULL, false};
    char other[512];
    for (int N = 0; N <= 24; N += 24) {
        struct course a, b, c;
        snprintf(other, sizeof other, "%s\ncausal = yes", experts);
        memcpy(strstr(other, "beta = 2"), "beta = 7", 8);
        train(&pooled, experts, settings, N, &a);
        train(&pooled, other, settings, N, &b);
        train(&each, experts, settings, N, &c);
        same(&a, &b, 1e-15, "beta and mask");
        same(&a, &c, 1e-15, "per token");
    }
}

static const int one[P] = {0, 2, 1, 1}, two[2 * P] = {0, 0, 2, 2, 1, 1, 1, 1},
                 three[3 * P] = {0, 0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 1};
static const struct sequences equal[] = {{P, 1, 1, false, 3, one, true},
                                         {P, 2, 1, false, 3, two, true},
                                         {P, 3, 1, false, 3, three, true}};

/* Equal tokens without places are one token, with a mask and without. One token of one output
 * learns with Delta outside of its cotangents (struct net, weighted), two and three with Delta
 * inside: signs of rows, and so of draws, differ, which changes a limit where anything is sampled;
 * where nothing is, the tolerance is left. */
TEST(equal_tokens) {
    static const char *const bare = "experts = 0\nattention_beta = 2\ndepth = 1",
                             *const causal[] = {"causal = no", "causal = yes"};
    for (int k = 0; k < 2; k++) {
        struct course a, b;
        TEXT(network, 512, "%s\n%s", experts, causal[k]);
        train(&equal[0], network, settings, 24, &a);
        train(&equal[2], network, settings, 24, &b);
        same(&a, &b, 1e-13, "networks, one and three tokens");
        train(&equal[1], network, settings, 0, &a);
        train(&equal[2], network, settings, 0, &b);
        same(&a, &b, 1e-12, "limit, two and three tokens");
        snprintf(network, sizeof network, "%s\n%s", bare, causal[k]);
        train(&equal[0], network, settings, 0, &a);
        train(&equal[2], network, settings, 0, &b);
        same(&a, &b, 1e-7, "limit without experts, one and three tokens");
    }
}

/* Delta inside of cotangents or outside: the same for any network that reads out pooled rows. */
TEST(loss_inside) {
    static const char *const networks[] = {"model = dense\ndepth = 3\nactivation = tanh",
                                           "model = dense\ndepth = 3\nactivation = linear"};
    for (int k = 0; k < 2; k++) {
        struct course a, b;
        for (int i = 0; i < 2; i++) {
            FREED(run_free) struct run run;
            sequences_run(&run, &equal[i], networks[k], settings);
            march(&run, k ? 0 : 24, 0, T, i ? &b : &a);
        }
        same(&a, &b, k ? 1e-7 : 1e-13, "Delta inside");
    }
}

/* Coordinates of the rows of each input in another order, the draws as they were. */
static void permute(struct run *run) {
    int n = run->data.n, K = run->inputs.K;
    for (int mu = 0; mu < run->data.P; mu++)
        for (int s = 0; s < n / 2; s++)
            for (int k = 0; k < K; k++) {
                double *a = run->inputs.A + (mu * n + s) * K + k,
                       *b = run->inputs.A + (mu * n + n - 1 - s) * K + k, kept = *a;
                *a = *b;
                *b = kept;
            }
}

TEST(permuted_tokens) {
    const struct sequences rows = {P, 4, 1, false, 0, NULL, false};
    for (int N = 0; N <= 24; N += 24)
        for (int causal = 0; causal < 2; causal++) {
            struct course a, b;
            FREED(run_free) struct run run;
            TEXT(network, 512,
                 "model = transformer\ndepth = 1\nattention_beta = 3\n"
                 "causal = %s\nexperts = %d\ngate = sigmoid",
                 causal ? "yes" : "no", N ? 2 : 0);
            sequences_run(&run, &rows, network, settings);
            march(&run, N, 0, T, &a);
            permute(&run);
            march(&run, N, 0, T, &b);
            if (causal)
                assert_true(apart(&a, &b, T) > 1e-3);
            else
                same(&a, &b, N ? 1e-13 : 1e-6, "permuted");
        }
}

static const int words[5 * P] = {0, 0, 3, 2, 2, 3, 3, 0, 2, 0, 2, 4, 2, 0, 2, 0, 3, 4, 4, 3};
static const struct sequences text = {P, 5, 1, false, 5, words, false};
static const char attention[] = "depth = 1\nexperts = 0\nattention_beta = 3";

static void attend(const char *more, const char *sections, double tolerance, int replicate,
                   int steps, double eta0, struct course *course) {
    char network[512], lines[512];
    FREED(run_free) struct run run;
    snprintf(network, sizeof network, "model = transformer\n%s\n%s", attention, more);
    snprintf(lines, sizeof lines, "eta0 = %g\n[solver]\nsites = 512\ntolerance = %g\n%s", eta0,
             tolerance, sections);
    sequences_run(&run, &text, network, lines);
    march(&run, 0, replicate, steps, course);
}

/* The limit marches one head of all units for any number of them (the same program: this guards
 * against a change of it); many heads of which one has all sites are that head too, in another
 * program, which has other draws. */
TEST(heads) {
    struct course a, b, c;
    attend("heads = 1", "", 1e-4, 0, T, 0.25, &a);
    attend("heads = 4", "", 1e-4, 0, T, 0.25, &b);
    attend("head_limit = many\nhead_width = 512", "", 1e-4, 0, T, 0.25, &c);
    assert_memory_equal(a.loss, b.loss, T * sizeof(double));
    same(&a, &c, 1e-12, "one of many heads");
}

/* Attention without experts: two seeds make the same bases of the same kernels, and differ by
 * round-off; the tolerance of the bases changes a loss by no more than section 4 of the page says.
 */
TEST(nothing_is_sampled) {
    static const char *const tolerance[] = {"1e-4", "1e-2", "1e-3"};
    const double most[] = {4e-8, 1e-4, 2.5e-6};
    struct course a, b, exact;
    for (int k = 0; k < 3; k++) {
        char key[32];
        FREED(run_free) struct run run;
        snprintf(key, sizeof key, "solver.tolerance=%s", tolerance[k]);
        support_run(&run, "data/ref/transformer/attn.ini", ARGS(key));
        march(&run, 0, 0, 30, k ? &a : &exact);
        if (k)
            march(&run, 0, 1, 30, &b);
        if (!k)
            continue;
        assert_true(a.drawn != b.drawn);
        assert_true(apart(&a, &b, 30) <= 1e-13);
        assert_true(apart(&a, &exact, 30) <= most[k] + most[0]);
        assert_true(a.loss[29] < 0.1);
    }
}

/* Logits are 0 at t = 0 and, because W_Q and W_K do not move at the first step, at t = 1. In small
 * steps W_V and W_O have moved by t, so that step t moves logits by t: they are as t (t - 1), but
 * for terms that a step makes smaller in proportion. Zero queries halve them where the read-in is
 * frozen. */
TEST(logits_start) {
    struct course a, z, half;
    attend("", "[rates]\nW0 = 0", 1e-6, 0, 24, 0.005, &a);
    attend("", "[rates]\nW0 = 0", 1e-6, 0, 24, 0.0025, &half);
    attend("zero_queries = yes", "[rates]\nW0 = 0", 1e-6, 0, 24, 0.005, &z);
    for (int t = 0; t < 2; t++)
        CHECK_ABS(a.logits[t], 0, 1e-12, "logits at %d", t);
    double ratio = a.logits[20] / a.logits[10], finer = half.logits[20] / half.logits[10];
    CHECK_ABS(2 * finer - ratio, 380. / 90, 1e-3, "t (t - 1)");
    CHECK_ABS(z.logits[20] / a.logits[20], 0.5, 1e-4, "zero queries");
}

/* Whatever the draws, attention is uniform at the start, gates have their biases alone, and f = 0:
 * by the matched normals, nothing is subtracted but f(0). */
TEST(start) {
    const struct sequences sequences = {P, 5, 1, false, 5, words, false};
    char network[512];
    RUN_AND_NET;
    snprintf(network, sizeof network, "model = transformer\n%s", experts);
    sequences_run(&run, &sequences, network, "[solver]\nsites = 256");
    support_begin(&net, &run, 0, 0);
    for (int k = 0; k < net.numbers.count; k++) {
        const struct numbers *x = &net.numbers.item[k];
        for (int i = 0; i < net.batch.rows * (x->axes == 3 ? x->shape[2] : 1); i++)
            if (!strncmp(x->name, "logits", 6))
                CHECK_ABS(x->values[i], 0, 1e-13, "logits[%d]", i);
            else if (!strncmp(x->name, "attention", 9))
                CHECK_ABS(x->values[i], 0.2, 1e-13, "attention[%d]", i);
            else if (!strcmp(x->name, "psi"))
                CHECK_ABS(x->values[i], i % 2 ? -0.4 : 0.4, 1e-13, "psi[%d]", i);
    }
    const double *f0 = net.program->node[net.program->read_out].matrix.start;
    for (int mu = 0; mu < P; mu++)
        CHECK_ABS(net.output.f[mu] + (f0 ? f0[mu] : 0), 0, 1e-13, "f[%d]", mu);
}
